"""A method on trial: the tiny experiment that it is tried in, played in several ways."""

import pickle
import sys
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from typing import Any

from torch import Tensor

from motet.contract import Method, Part, Wrapped
from motet.engines import Task
from motet.errors import MotetError
from motet.runs.assembly import assemble
from motet.runs.experiment import Experiment
from motet.testing import tiny_net
from motet.testing.twin import Played, play, tiny
from motet.testing.walk import Walk
from motet.testing.watched import Touched, Watched


class Fault(AssertionError):
    """What is wrong with a method, in one sentence."""


class Trial:
    """A method in a tiny experiment, played in several ways, each once."""

    def __init__(self, text: str, changes: Mapping[str, Any]):
        self.text, self.changes = text, dict(changes)
        self.play = cache(self._play)
        try:
            assemble(self.experiment())
        except MotetError as error:
            if "cannot run here" not in str(error):
                raise
            self.changes["rounds"] = {"cohort": 1.0, **self.changes.get("rounds", {})}
            self.changes["data"] = {"clients": 8, **self.changes.get("data", {})}

    def experiment(self, **local: Any) -> Experiment:
        """The tiny experiment, with other local settings."""
        return tiny(self.text, **{**self.changes, "local": {**self.changes.get("local", {}), **local}})

    def _play(self, strict: bool = False, **local: Any) -> Played:
        return play(self.experiment(**local), strict)

    def fault(self, what: str) -> Fault:
        """A sentence about this method."""
        return Fault(f"method {self.text!r}: {what}")

    # ------------------------------------------------------------ ways to play it

    def play_anew(self) -> Played:
        """Inline, once more."""
        return self._play()

    @cached_property
    def walk(self) -> Walk:
        """Two rounds by hand; whoever asks for it first takes them."""
        return Walk(assemble(self.experiment()))

    @cached_property
    def watched(self) -> tuple[Played, Watched]:
        """On a net with BatchNorm and dropout, under observation; a fault where it looks at data not meant for it."""
        changes = {"net": {"name": tiny_net.NAME}, **self.changes}
        experiment = tiny(self.text, **changes)
        assembly = assemble(experiment)
        assembly.workplace = watched = Watched.instead_of(assembly.workplace)
        method = assembly.method
        try:
            played = play(experiment, assembly=assembly)
            for i in assembly.federation.training_ids[:1] if method.portrays else ():
                watched.perform(Task("portrait", i, 0, method.broadcast(played.server, i)), played.engine.private(i))
        except Touched as found:
            raise self.fault(
                f"it reads a client's {found} data in a task of kind {watched.doing!r}; a method learns from "
                "`client.data.train`, may choose by `client.data.val` where it declares `needs_validation = True`, and "
                "is never shown test data"
            ) from found
        return played, watched

    def kept_outside(self) -> dict[str, bytes]:
        """What the user's own classes and modules hold, as bytes; nothing of Motet's or of other packages'."""
        found = dict[str, bytes]()
        for kind in dict.fromkeys(each for thing in _things(self._method) for each in type(thing).__mro__):
            if kind.__module__.split(".")[0] in ("motet", "builtins", "abc", "pydantic", "typing"):
                continue
            found |= {f"`{kind.__name__}.{name}`": _bytes(value) for name, value in _values(vars(kind))}
            module = sys.modules.get(kind.__module__)
            found |= {f"`{name}` of module {kind.__module__}": _bytes(v) for name, v in _values(vars(module or object))}
        return found

    @cached_property
    def _method(self) -> Method:
        return assemble(self.experiment()).method


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
