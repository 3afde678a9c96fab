"""A method on trial: the tiny experiment that it is tried in, played in several ways."""

from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any

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

    def with_modes(self) -> Experiment:
        """The same experiment on a net with BatchNorm and dropout; on the user's net, where the changes have one."""
        return tiny(self.text, **{"net": {"name": tiny_net.NAME}, **self.changes})

    @cached_property
    def walk(self) -> Walk:
        """Two rounds by hand; whoever asks for it first takes them."""
        return Walk(assemble(self.experiment()))

    @cached_property
    def watched(self) -> tuple[Played, Watched]:
        """On a net with BatchNorm and dropout, under observation; a fault where it looks at data not meant for it."""
        experiment = self.with_modes()
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
