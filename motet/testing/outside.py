"""What a user's own classes and modules hold beside their functions, where a method must keep nothing."""

import pickle
import sys
from collections.abc import Iterator, Mapping

from torch import Tensor

from motet.contract import Method, Part, Wrapped

THEIRS = ("motet", "builtins", "abc", "pydantic", "typing", "torch")  # packages that are not the user's


def kept_outside(method: Method) -> dict[str, bytes]:
    """The values of the classes and modules that a method is made of, as bytes by their names."""
    found = dict[str, bytes]()
    for kind in dict.fromkeys(each for thing in _things(method) for each in type(thing).__mro__):
        if kind.__module__.split(".")[0] in THEIRS:
            continue
        found |= {f"`{kind.__name__}.{name}`": _bytes(value) for name, value in _values(vars(kind))}
        module = vars(sys.modules[kind.__module__]) if kind.__module__ in sys.modules else {}
        found |= {f"`{name}` of module {kind.__module__}": _bytes(value) for name, value in _values(module)}
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


def _bytes(value: object) -> bytes:
    try:
        return pickle.dumps(value)
    except Exception:  # whatever a class of the user's cannot
        return repr(value).encode()
