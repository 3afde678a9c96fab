"""Messages and states: named tensors plus named scalars, nothing else.

What a server sends, what a client answers, what either keeps: all are a `State`, a plain dictionary that
can be counted in bytes, written with safetensors and sent by any engine. A scalar travels as a tensor
without dimensions, so a tensor of a state always has at least one.
"""

from collections.abc import Mapping
from functools import lru_cache

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from motet.errors import MotetError

Scalar = int | float | bool
State = dict[str, Tensor | Scalar]
Message = State

_SCALAR_TYPES: dict[type, torch.dtype] = {bool: torch.bool, int: torch.int64, float: torch.float64}


def tensor(state: Mapping[str, Tensor | Scalar], name: str) -> Tensor:
    """The tensor of that name, or a sentence about what is wrong with the message."""
    value = state.get(name)
    if not isinstance(value, Tensor):
        raise MotetError(f"message field {name!r} is {_describe(value)}; accepted: a tensor")
    return value


def number(state: Mapping[str, Tensor | Scalar], name: str) -> float:
    """The scalar of that name, as a float."""
    value = state.get(name)
    if value is None or isinstance(value, Tensor):
        raise MotetError(f"message field {name!r} is {_describe(value)}; accepted: a number")
    return float(value)


def copy(state: Mapping[str, Tensor | Scalar]) -> State:
    """A state that shares no memory with this one."""
    return {name: value.clone() if isinstance(value, Tensor) else value for name, value in state.items()}


def encode(state: Mapping[str, Tensor | Scalar]) -> bytes:
    """The safetensors bytes of a state; the same state gives the same bytes."""
    tensors: dict[str, Tensor] = {}
    storages: set[int] = set()
    for name in sorted(state):
        value = _as_tensor(name, state[name])
        storage = value.untyped_storage().data_ptr()
        tensors[name] = value.clone() if storage in storages else value  # safetensors refuses shared memory
        storages.add(storage)
    return bytes(safetensors.torch.save(tensors))


def decode(data: bytes) -> State:
    """The state that `encode` wrote."""
    try:
        tensors = safetensors.torch.load(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise MotetError(f"damaged message of {len(data)} bytes ({error}); accepted: safetensors") from error
    return {name: value if value.dim() else value.item() for name, value in tensors.items()}


def byte_count(state: Mapping[str, Tensor | Scalar]) -> int:
    """How many bytes `encode` would give, without doing it; a message that says nothing is not sent."""
    if not state:
        return 0
    parts = []
    for name in sorted(state):
        value = state[name]
        if isinstance(value, Tensor):
            parts.append((name, value.dtype, tuple(value.shape)))
        else:
            parts.append((name, _scalar_type(name, value), ()))
    return _length(tuple(parts))


@lru_cache(maxsize=4096)
def _length(parts: tuple[tuple[str, torch.dtype, tuple[int, ...]], ...]) -> int:
    return len(safetensors.torch.save({name: torch.zeros(shape, dtype=dtype) for name, dtype, shape in parts}))


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
    return "missing" if value is None else f"a {type(value).__name__}"
