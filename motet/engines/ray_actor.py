"""What runs in a Ray cluster: an actor that holds what a worker of the pool holds, and does groups of tasks.

Tensors are in Ray's object store as arrays of bytes, which every process of a node maps; nothing about them is pickled.
"""

import gc
import io
import os
import pickle
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

import motet.io.plugins  # noqa: F401  finds the modules of users' files, which the work may name
from motet.engines.engine import Work
from motet.engines.worker import what_is_wrong, words_of
from motet.io.memory_limits import keep_freed_memory
from motet.messages.message import Message, State, byte_count, decode, pieces
from motet.messages.task import Task

Bytes = npt.NDArray[np.uint8]

SMALL = 2**16  # bytes; what is smaller travels in the order or answer itself
NOTHING: dict[str, Any] = {"mistake": None, "theirs": None, "bug": None}


class Actor:
    """Does groups of tasks in the cluster."""

    def start(self, packed: bytes, *arrays: Bytes) -> dict[str, Any]:
        """Build the work from what `packed_build` made of it; return the process, or what is wrong."""
        keep_freed_memory()
        torch.set_num_threads(1)
        try:
            self.here: Work = _BuildUnpickler(packed, arrays).load()()
        except (Exception, SystemExit) as error:
            return NOTHING | what_is_wrong(error)
        gc.collect()
        gc.freeze()  # these objects stay, so that collecting after each task costs next to nothing
        return NOTHING | {"process": os.getpid()}

    def perform(self, orders: Sequence["Order"], *objects: Bytes) -> list[Any]:
        """Do a group of tasks; return an answer, the large replies, and the new private states, None where none is.

        `objects` are large fields of messages and private states, which the orders number.
        """
        nothing: list[Any] = [None] * (2 * len(orders))
        try:
            outcomes = self.here.perform_group(
                [order.task(objects) for order in orders], [order.private_state(objects) for order in orders]
            )
            replies = [None if outcome.reply is None else bytes_of(outcome.reply) for outcome in outcomes]
            privates = [bytes_of(outcome.private) if outcome.private else None for outcome in outcomes]
        except (Exception, SystemExit) as error:
            return [NOTHING | what_is_wrong(error), *nothing]
        gc.collect()  # frees models of finished trainings, which reference cycles hold
        small = [reply.tobytes() if reply is not None and reply.nbytes <= SMALL else None for reply in replies]
        large = [reply if reply is not None and reply.nbytes > SMALL else None for reply in replies]
        answer = {
            "outcomes": list(map(words_of, outcomes)),
            "small": small,
            "large": [reply is not None for reply in large],
            "sizes": [None if outcome.private is None else byte_count(outcome.private) for outcome in outcomes],
        }
        return [NOTHING | answer, *large, *privates]


@dataclass(frozen=True)
class Order:
    """A task on its way to an actor; what is large is a number of an object beside it."""

    words: tuple[Any, int, int]  # kind, client and round of the task
    small: bytes
    large: Mapping[str, tuple[int, "TensorForm"]]
    private: int | None

    def task(self, objects: Sequence[Bytes]) -> Task:
        """Return the task, with its message. Its tensors are copies: a method may change them without harm."""
        message: Message = decode(self.small)
        message |= {name: form.tensor(objects[at].copy()) for name, (at, form) in self.large.items()}
        return Task(*self.words, dict(sorted(message.items())))

    def private_state(self, objects: Sequence[Bytes]) -> State:
        """Return the private state of the task's client."""
        return {} if self.private is None else decode(objects[self.private].tobytes())


@dataclass(frozen=True)
class TensorForm:
    """The type and shape of a tensor whose bytes are elsewhere."""

    dtype: torch.dtype
    shape: tuple[int, ...]

    @classmethod
    def of(cls, tensor: Tensor) -> "TensorForm":
        """Return the form of a tensor."""
        return cls(tensor.dtype, tuple(tensor.shape))

    def tensor(self, data: Bytes) -> Tensor:
        """Return the tensor with these bytes, without copying them."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            return torch.from_numpy(data).view(self.dtype).view(self.shape)


def tensor_bytes(tensor: Tensor) -> Bytes:
    """Return the bytes of a tensor as an array, without a copy where it is contiguous and on the CPU."""
    array: Bytes = tensor.detach().to("cpu").contiguous().flatten().view(torch.uint8).numpy()
    return array


def bytes_of(state: State) -> Bytes:
    """Return what `encode` makes of a state as an array."""
    return np.concatenate([np.frombuffer(piece, dtype=np.uint8) for piece in pieces(state)])


# -------- The work on its way to the cluster


def packed_build(build: Callable[[], Work]) -> tuple[bytes, list[Bytes]]:
    """Return a function that builds work as bytes, and apart from them its large tensors as arrays.

    The arrays are the samples of the federation. In Ray's object store each node has them once, and `Actor.start` maps
    them.
    """
    file = io.BytesIO()
    pickler = _BuildPickler(file)
    pickler.dump(build)
    return file.getvalue(), pickler.arrays


class _BuildPickler(pickle.Pickler):
    """Leaves large tensors out and collects their bytes."""

    def __init__(self, file: io.BytesIO):
        super().__init__(file, protocol=5)
        self.arrays: list[Bytes] = []

    def persistent_id(self, thing: Any) -> tuple[int, TensorForm] | None:
        if type(thing) is not Tensor or thing.device.type != "cpu" or thing.nbytes <= SMALL:
            return None
        self.arrays.append(tensor_bytes(thing))
        return len(self.arrays) - 1, TensorForm.of(thing)


class _BuildUnpickler(pickle.Unpickler):
    """Reads what `_BuildPickler` wrote, which only the driver of the same run sends."""

    def __init__(self, packed: bytes, arrays: Sequence[Bytes]):
        super().__init__(io.BytesIO(packed))
        self.arrays = arrays

    def persistent_load(self, name: tuple[int, TensorForm]) -> Tensor:
        at, form = name
        return form.tensor(self.arrays[at])
