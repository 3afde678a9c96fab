"""What a user's own classes and modules hold beside their functions, where a method must keep nothing."""

import sys
from collections.abc import Iterator, Mapping
from itertools import islice

from torch import Tensor

from motet.contract import Method, Part, Wrapped

FIRST = 100  # entries of a container that are looked at
THEIRS = ("motet", "builtins", "abc", "pydantic", "typing", "torch")  # packages that are not the user's


def kept_outside(method: Method) -> dict[str, object]:
    """The values of the classes and modules that a method is made of, as marks by their names."""
    found = dict[str, object]()
    for kind in dict.fromkeys(each for thing in _things(method) for each in type(thing).__mro__):
        if kind.__module__.split(".")[0] in THEIRS:
            continue
        found |= {f"`{kind.__name__}.{name}`": _mark(value) for name, value in _values(vars(kind))}
        module = vars(sys.modules[kind.__module__]) if kind.__module__ in sys.modules else {}
        found |= {f"`{name}` of module {kind.__module__}": _mark(value) for name, value in _values(module)}
    return found


def _things(method: Method) -> Iterator[Method | Part]:
    """A method, its parts, and the method that it follows."""
    yield method
    yield from getattr(method, "parts", ())
    if isinstance(method, Wrapped):
        yield from _things(method.inner)


def _values(held: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Containers, tensors and numbers: what state is made of."""
    for name, value in held.items():
        if not name.startswith("_") and isinstance(value, dict | list | set | Tensor | int | float | str):
            yield name, value


def _mark(value: object) -> object:
    """What tells whether a value has changed: of numbers and words themselves, of tensors their sum, of containers what
    they hold, of the first of many, and of anything else which object it is."""
    if isinstance(value, Tensor):
        return tuple(value.shape), value.data_ptr(), value._version, repr(value.double().sum())
    if isinstance(value, dict):
        return len(value), tuple((_mark(key), _mark(held)) for key, held in islice(value.items(), FIRST))
    if isinstance(value, list | tuple | set):
        return len(value), tuple(map(_mark, islice(value, FIRST)))
    return repr(value) if isinstance(value, int | float | str) else id(value)
