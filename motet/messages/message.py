"""Messages and states: named tensors plus named scalars, nothing else.

What the server sends, what a client replies, and what either keeps is a `State`: a plain dictionary that can be counted
in bytes, written with safetensors and sent by any engine. A scalar is encoded as a tensor without dimensions, so a
tensor of a state always has at least one.
"""

import json
import math
from collections.abc import Mapping
from functools import lru_cache

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from motet.errors import MotetError
from motet.io.hashed_files import Damaged, FileEntry

Scalar = int | float | bool
State = dict[str, Tensor | Scalar]
Message = State
Piece = bytes | memoryview


class AddedUp:
    """Stands in a reply for a field that was added up over all clients while the replies arrived."""

    def __init__(self, name: str, rule: str):
        self.name, self.rule = name, rule

    def __str__(self) -> str:
        return (
            f"added up over all clients, as its rule {self.rule!r} says, so that no client's own is here (use "
            f"replies.{self.rule}({self.name!r}), or the rule 'each' in uploads)"
        )


DTYPES = {  # safetensors' names for them
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
_SCALAR_TYPES: dict[type, torch.dtype] = {bool: torch.bool, int: torch.int64, float: torch.float64}


def tensor(state: Mapping[str, Tensor | Scalar], name: str) -> Tensor:
    """Return the tensor of that name; raise `MotetError` if the message has none."""
    value = state.get(name)
    if not isinstance(value, Tensor):
        raise MotetError(f"message field {name!r} is {_describe(value)}; accepted: a tensor")
    return value


def number(state: Mapping[str, Tensor | Scalar], name: str) -> float:
    """Return the scalar of that name as a float; raise `MotetError` if the message has none."""
    value = state.get(name)
    if value is None or isinstance(value, Tensor):
        raise MotetError(f"message field {name!r} is {_describe(value)}; accepted: a number")
    return float(value)


def encode(state: Mapping[str, Tensor | Scalar]) -> bytes:
    """Return a state as safetensors bytes; equal states give equal bytes."""
    return b"".join(pieces(state))


def pieces(state: Mapping[str, Tensor | Scalar]) -> list[Piece]:
    """Return the bytes of `encode` as pieces: a header, and views of the tensors' memory, valid until they change.

    This avoids safetensors' own `save`, which copies every tensor twice. Its `load` reads the result.
    """
    tensors = {name: _as_tensor(name, value) for name, value in state.items()}
    order, header = _header(tuple((name, t.dtype, tuple(t.shape)) for name, t in sorted(tensors.items())))
    return [header, *(tensors[name].flatten().view(torch.uint8).numpy().data for name in order)]


def decode(data: bytes) -> State:
    """Return the state that `encode` wrote; raise `MotetError` for any other bytes."""
    try:
        tensors = safetensors.torch.load(data)
        return {name: _checked(name, value) for name, value in sorted(tensors.items())}  # safetensors has no order
    except (SafetensorError, ValueError, LookupError, TypeError, RuntimeError, OverflowError) as error:
        why = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise MotetError(f"damaged message of {len(data)} bytes ({why}); accepted: safetensors") from error


def _checked(name: str, value: Tensor) -> Tensor | Scalar:
    if value.dtype not in DTYPES:
        raise ValueError(f"field {name[:100]!r} has type {value.dtype}")
    return value if value.dim() else value.item()


def byte_count(state: Mapping[str, Tensor | Scalar]) -> int:
    """Return the length of `encode(state)` without encoding; 0 for an empty message, which is not sent."""
    if not state:
        return 0
    parts = []
    for name in sorted(state):
        value = state[name]
        if isinstance(value, Tensor):
            parts.append((name, value.dtype, tuple(value.shape)))
        else:
            parts.append((name, _scalar_type(name, value), ()))
    sizes = (math.prod(shape) * dtype.itemsize for _, dtype, shape in parts)
    return len(_header(tuple(parts))[1]) + sum(sizes)


@lru_cache(maxsize=4096)
def _header(parts: tuple[tuple[str, torch.dtype, tuple[int, ...]], ...]) -> tuple[list[str], bytes]:
    """Return the names in the order of their data, wider types first for alignment, and the header's bytes."""
    words, at = {}, 0
    for name, dtype, shape in sorted(parts, key=lambda part: -part[1].itemsize):
        if dtype not in DTYPES:
            raise MotetError(f"message field {name!r} has type {dtype}; accepted: {', '.join(map(str, DTYPES))}")
        end = at + math.prod(shape) * dtype.itemsize
        words[name] = {"dtype": DTYPES[dtype], "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(words, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return list(words), len(text).to_bytes(8, "little") + text


def _as_tensor(name: str, value: Tensor | Scalar) -> Tensor:
    if isinstance(value, Tensor):
        if not value.dim():
            raise MotetError(f"message field {name!r} is a tensor without dimensions; accepted: a Python number")
        return value.detach().to("cpu").contiguous()
    return torch.tensor(value, dtype=_scalar_type(name, value))


def _scalar_type(name: str, value: Scalar) -> torch.dtype:
    found = _SCALAR_TYPES.get(type(value))
    if found is None:
        raise MotetError(f"message field {name!r} is {_describe(value)}; accepted: a tensor, int, float or bool")
    return found


def _describe(value: object) -> str:
    if isinstance(value, AddedUp):
        return str(value)
    return "missing" if value is None else f"a {type(value).__name__}"


def decoded(entry: FileEntry, data: bytes) -> State:
    """Return the state of a file's bytes; raise `Damaged` if they are no state, even with the right SHA-256."""
    try:
        return decode(data)
    except MotetError as error:
        raise Damaged(f"{entry.file}: {error}") from error
