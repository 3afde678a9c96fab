"""The tiny experiment in which a method is checked, run in several ways."""

from collections import OrderedDict, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from math import prod
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from motet.config.experiment import Experiment
from motet.data import ClientData, Samples
from motet.data.holdings import AbsentSamples
from motet.data.input import Input
from motet.errors import MotetError
from motet.messages.message import State
from motet.messages.task import Outcome, Task, TaskKind
from motet.nets.net import Net
from motet.server.assembly import assemble
from motet.server.workplace import Workplace
from motet.testing.twin import Played, play, tiny
from motet.testing.walk import Walk
from motet.training.client import Client
from motet.training.local import Descent

# -------- A net with BatchNorm and dropout


NAME = "motet.testing.trial:build"


def build(input: Input, classes: int, split: str | None = None) -> Net:
    """Build a net for numbers of any shape: a linear layer with BatchNorm, one with dropout, a head."""
    fc1 = nn.Sequential(nn.Flatten(), nn.Linear(prod(input.shape), 16), nn.BatchNorm1d(16), nn.ReLU())
    fc2 = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Dropout(0.2))
    return Net(OrderedDict(fc1=fc1, fc2=fc2, out=nn.Linear(16, classes)), input, split)


# -------- A workplace that observes its method


class Touched(Exception):
    """Raised when a method reads data that it must not see."""


class Untouchable(AbsentSamples):
    """Samples that a method may count, but not read."""

    def _refuse(self) -> NoReturn:
        raise Touched(self.whose)

    def part(self, start: int, stop: int) -> Samples:
        """Raise `Touched`: taking a part is reading."""
        self._refuse()


@dataclass
class WatchedClient(Client):
    """A client that remembers the local steps of its round."""

    descents: list[Descent] = field(default_factory=list)

    def descent(self, purpose: str = "train", epochs: int | None = None, lr: float | None = None) -> Descent:
        """Return the same descent, and remember it if it is for the round."""
        descent = super().descent(purpose, epochs, lr)
        if purpose == "train":
            self.descents.append(descent)
        return descent


@dataclass
class WatchedTraining:
    """What was observed of one client's training."""

    client: int
    round: int
    samples: int
    steps: int = 0
    learning: int = 0  # number of passes for a gradient with the net in train mode
    first: Tensor | None = None  # the first batch of these passes
    on_validation: bool = False  # whether validation samples were among them


@dataclass
class Watched(Workplace):
    """A workplace that replaces data a method must not see by traps, and notes what its net does in training."""

    trainings: list[WatchedTraining] = field(default_factory=list)

    @classmethod
    def instead_of(cls, workplace: Workplace) -> "Watched":
        """Return an observed workplace in the place of another one."""
        watched = cls(*(getattr(workplace, each.name) for each in fields(Workplace)))
        watched._look_at(workplace.method.net)
        return watched

    def _look_at(self, net: nn.Module) -> None:
        self.has_modes = any(isinstance(module, _BatchNorm | _DropoutNd) for module in net.modules())
        self.doing: TaskKind = "train"
        self._now: WatchedTraining | None = None
        self._descents = list[Descent]()
        self._held_out = set[bytes]()
        first = next(net.children())

        def note(module: nn.Module, given: tuple[Tensor, ...]) -> None:
            if self._now is not None and module.training and torch.is_grad_enabled():
                self._now.learning += 1
                self._now.on_validation |= not self._held_out.isdisjoint(_rows(given[0]))
                if self._now.first is None:
                    self._now.first = given[0].detach().clone()

        first.register_forward_pre_hook(note)

    def perform(self, task: Task, private: State) -> Outcome:
        """Perform the task, and note what was observed."""
        self.doing = task.kind
        if task.kind != "train":
            return super().perform(task, private)
        self._now = now = WatchedTraining(task.client_id, task.round, self.samples_of(task.client_id))
        self._descents = list[Descent]()
        data = super().client(replace(task, kind="score"), {}).data
        self._held_out = _prepared(data.val) - _prepared(data.train)
        try:
            return super().perform(task, private)
        finally:
            now.steps, self._now = sum(descent.steps for descent in self._descents), None
            self.trainings.append(now)

    def client_of(self, data: ClientData, round: int, private: State) -> Client:
        """Return an observed client."""
        client = super().client_of(data, round, private)
        given = {each.name: getattr(client, each.name) for each in fields(Client)}
        return WatchedClient(**given, descents=self._descents if self._now is not None else [])

    def shown(self, client: Client) -> Client:
        """Return the client with a trap in the place of data that the method must not see."""
        shown, prepare = super().shown(client), self.holdings.prepare
        test = Untouchable("test", len(client.data.test) or 1, prepare)
        val = shown.data.val
        if not len(val):
            val = Untouchable("validation", len(client.data.val) or 1, prepare)
        return replace(shown, data=replace(shown.data, test=test, val=val))

    def same_batches(self) -> WatchedTraining | None:
        """Return a training whose first batch equals that of another round, in the same order; None if there is none.

        A batch with all samples of the client does not count.
        """
        seen = defaultdict[int, list[WatchedTraining]](list)
        for training in self.trainings:
            for before in seen[training.client]:
                a, b = before.first, training.first
                if a is not None and b is not None and 1 < len(a) < training.samples and torch.equal(a, b):
                    return training
            seen[training.client].append(training)
        return None


def _prepared(samples: Samples) -> set[bytes]:
    """Return samples as a net gets them."""
    return _rows(samples.batch(torch.arange(len(samples)))[0])


def _rows(x: Tensor) -> set[bytes]:
    return {row.numpy().tobytes() for row in x.detach().cpu().contiguous()}


# -------- The method in its experiment


class Fault(AssertionError):
    """What is wrong with a method, in one sentence."""


class MethodTrial:
    """A method in a tiny experiment, which is run in several ways, each at most once."""

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
        """Return the tiny experiment, with other local settings."""
        return tiny(self.text, **{**self.changes, "local": {**self.changes.get("local", {}), **local}})

    def _play(self, strict: bool = False, **local: Any) -> Played:
        return play(self.experiment(**local), strict)

    def fault(self, what: str) -> Fault:
        """Return a fault that names this method."""
        return Fault(f"method {self.text!r}: {what}")

    # ------------------------------------------------------------ ways to run it

    def with_modes(self) -> Experiment:
        """Return the same experiment on a net with BatchNorm and dropout, or on the net that the changes name."""
        return tiny(self.text, **{"net": {"name": NAME}, **self.changes})

    @cached_property
    def walk(self) -> Walk:
        """Return two rounds run call by call; they are run when this is first used."""
        return Walk(assemble(self.experiment()))

    @cached_property
    def watched(self) -> tuple[Played, Watched]:
        """Return an observed run on a net with BatchNorm and dropout; raise a fault if it reads forbidden data."""
        experiment = self.with_modes()
        assembly = assemble(experiment)
        assembly.workplace = watched = Watched.instead_of(assembly.workplace)
        method = assembly.method
        try:
            played = play(experiment, assembly=assembly)
            for i in assembly.federation.training_ids[:1] if method.takes_snapshots else ():
                watched.perform(
                    Task("client_snapshot", i, 0, method.broadcast(played.server, i)), played.engine.private(i)
                )
        except Touched as found:
            raise self.fault(
                f"it reads a client's {found} data in a task of kind {watched.doing!r}; a method learns from "
                "`client.data.train`, may choose by `client.data.val` where it declares `needs_validation = True`, and "
                "is never shown test data"
            ) from found
        return played, watched
