"""The Python batches of CIFAR as plain values: a reader of the few instructions that these files consist of.

A pickle is a program, and running one may do anything. Nothing here runs it: `pickletools` only splits the bytes into
instructions, strings, numbers, lists, dicts and tuples are put together here, and of all names of Python the three that
make an array of bytes are known as words, never imported. Whatever else is in a file makes it refused.
"""

import pickletools
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from motet.data.readers.raw import Array

_RECONSTRUCT, _NDARRAY, _DTYPE = "numpy.core.multiarray _reconstruct", "numpy ndarray", "numpy dtype"


class NotPlain(ValueError):
    """An instruction that these files do not have."""


@dataclass(frozen=True)
class _Name:
    """One of the three names, or what calling it would make."""

    word: str


@dataclass
class _Bytes:
    """An array of bytes, empty until its state comes."""

    array: Array | None = None


_MARK = object()


@dataclass
class _Stack:
    items: list[Any] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def pop(self) -> Any:
        if not self.items or self.items[-1] is _MARK:
            raise NotPlain("nothing on the stack")
        return self.items.pop()

    def since_mark(self) -> list[Any]:
        for at in range(len(self.items) - 1, -1, -1):
            if self.items[at] is _MARK:
                found = self.items[at + 1 :]
                del self.items[at:]
                return found
        raise NotPlain("no mark")

    def top(self, kind: type) -> Any:
        if not self.items or type(self.items[-1]) is not kind:
            raise NotPlain(f"no {kind.__name__} on the stack")
        return self.items[-1]


def plain_values(data: bytes) -> dict[str, Any]:
    """The dict of a batch: text as str, arrays of bytes as NumPy's; `NotPlain` for anything else."""
    stack = _Stack()
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name == "STOP":
                break
            step = _STEPS.get(opcode.name)
            if step is None:
                raise NotPlain(f"instruction {opcode.name}")
            step(stack, argument)
    except (ValueError, IndexError, AttributeError) as error:  # what genops has for bytes that are no pickle
        raise error if isinstance(error, NotPlain) else NotPlain(str(error)) from None
    if len(stack.items) != 1 or type(stack.items[0]) is not dict:
        raise NotPlain("no dict")
    return {str(key): _finished(value) for key, value in stack.items[0].items()}


def _finished(value: Any) -> Any:
    return value.array if isinstance(value, _Bytes) else value


def _push(stack: _Stack, value: Any) -> None:
    stack.items.append(value)


def _put(stack: _Stack, number: Any) -> None:
    if not stack.items:
        raise NotPlain("nothing to remember")
    stack.memo[number] = stack.items[-1]


def _get(stack: _Stack, number: Any) -> None:
    if number not in stack.memo:
        raise NotPlain("nothing remembered")
    stack.items.append(stack.memo[number])


def _tuple(count: int) -> Callable[[_Stack, Any], None]:
    def step(stack: _Stack, _: Any) -> None:
        stack.items.append(tuple([stack.pop() for _ in range(count)][::-1]))

    return step


def _set_items(stack: _Stack, _: Any) -> None:
    _fill_dict(stack, stack.since_mark())


def _set_item(stack: _Stack, _: Any) -> None:
    value, key = stack.pop(), stack.pop()
    _fill_dict(stack, [key, value])


def _fill_dict(stack: _Stack, found: list[Any]) -> None:
    keys = found[::2]
    if len(found) % 2 or not all(type(key) is str for key in keys):
        raise NotPlain("a key that is no text")
    stack.top(dict).update(zip(keys, found[1::2], strict=True))


def _append(stack: _Stack, _: Any) -> None:
    value = stack.pop()
    stack.top(list).append(value)


def _appends(stack: _Stack, _: Any) -> None:
    found = stack.since_mark()
    stack.top(list).extend(found)


def _global(stack: _Stack, name: Any) -> None:
    if name not in (_RECONSTRUCT, _NDARRAY, _DTYPE):
        raise NotPlain(f"the name {str(name).replace(' ', '.')[:80]}")
    stack.items.append(_Name(name))


def _reduce(stack: _Stack, _: Any) -> None:
    """Of calls only two: an empty array, and the type of its bytes."""
    arguments, called = stack.pop(), stack.pop()
    if called == _Name(_RECONSTRUCT) and arguments == (_Name(_NDARRAY), (0,), "b"):
        stack.items.append(_Bytes())
    elif called == _Name(_DTYPE) and arguments in (("u1", 0, 1), ("u1", False, True)):
        stack.items.append(_Name("u1"))
    else:
        raise NotPlain("a call")


def _build(stack: _Stack, _: Any) -> None:
    state = stack.pop()
    target = stack.items[-1] if stack.items else None
    if target == _Name("u1") and type(state) is tuple:
        return  # byte order and the like, of which bytes have none
    if not isinstance(target, _Bytes) or type(state) is not tuple or len(state) != 5:
        raise NotPlain("a state")
    _, shape, kind, fortran, content = state
    sides = type(shape) is tuple and all(type(side) is int and side >= 0 for side in shape)
    if not sides or kind != _Name("u1") or fortran is not False or type(content) is not str:
        raise NotPlain("an array that is none of bytes")
    if prod(shape) != len(content):
        raise NotPlain(f"{len(content)} bytes for shape {shape}")
    target.array = np.frombuffer(content.encode("latin-1"), np.uint8).reshape(shape)


_STEPS: dict[str, Callable[[_Stack, Any], None]] = {
    "PROTO": lambda stack, _: None,
    "MARK": lambda stack, _: _push(stack, _MARK),
    "EMPTY_DICT": lambda stack, _: _push(stack, {}),
    "EMPTY_LIST": lambda stack, _: _push(stack, []),
    "EMPTY_TUPLE": lambda stack, _: _push(stack, ()),
    "NONE": lambda stack, _: _push(stack, None),
    "NEWFALSE": lambda stack, _: _push(stack, False),
    "NEWTRUE": lambda stack, _: _push(stack, True),
    **dict.fromkeys(("BININT", "BININT1", "BININT2", "SHORT_BINSTRING", "BINSTRING"), _push),
    **dict.fromkeys(("BINPUT", "LONG_BINPUT"), _put),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), _get),
    "TUPLE1": _tuple(1),
    "TUPLE2": _tuple(2),
    "TUPLE3": _tuple(3),
    "TUPLE": lambda stack, _: _push(stack, tuple(stack.since_mark())),
    "SETITEM": _set_item,
    "SETITEMS": _set_items,
    "APPEND": _append,
    "APPENDS": _appends,
    "GLOBAL": _global,
    "REDUCE": _reduce,
    "BUILD": _build,
}
