"""A method on trial: the tiny experiment that it is tried in, played in several ways."""

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

# -------- The net of the checks that look at modes


NAME = "motet.testing.trial:build"


def build(input: Input, classes: int, split: str | None = None) -> Net:
    """Numbers of any shape: a linear layer with BatchNorm, one with dropout, a head."""
    fc1 = nn.Sequential(nn.Flatten(), nn.Linear(prod(input.shape), 16), nn.BatchNorm1d(16), nn.ReLU())
    fc2 = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Dropout(0.2))
    return Net(OrderedDict(fc1=fc1, fc2=fc2, out=nn.Linear(16, classes)), input, split)


# -------- A workplace that watches its method


class Touched(Exception):
    """A method read data that are not for it."""


class Untouchable(AbsentSamples):
    """So many samples that a method may count, and not look at."""

    def _refuse(self) -> NoReturn:
        raise Touched(self.whose)

    def part(self, start: int, stop: int) -> Samples:
        """A part is a look."""
        self._refuse()


@dataclass
class WatchedClient(Client):
    """A client that remembers the local steps that were taken for its round."""

    descents: list[Descent] = field(default_factory=list)

    def descent(self, purpose: str = "train", epochs: int | None = None, lr: float | None = None) -> Descent:
        """The same; those for the round are kept in mind."""
        descent = super().descent(purpose, epochs, lr)
        if purpose == "train":
            self.descents.append(descent)
        return descent


@dataclass
class WatchedTraining:
    """One client's training as it was seen from outside."""

    client: int
    round: int
    samples: int
    steps: int = 0
    learning: int = 0  # passes for a gradient with the net in train mode
    first: Tensor | None = None  # the first batch of them
    on_validation: bool = False  # whether validation samples were among them


@dataclass
class Watched(Workplace):
    """Hands a method traps in the place of data that are not for it, and notes what its net does in training."""

    trainings: list[WatchedTraining] = field(default_factory=list)

    @classmethod
    def instead_of(cls, workplace: Workplace) -> "Watched":
        """The same workplace, watched."""
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
        """Do the task, and note it."""
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
        """One that is watched."""
        client = super().client_of(data, round, private)
        given = {each.name: getattr(client, each.name) for each in fields(Client)}
        return WatchedClient(**given, descents=self._descents if self._now is not None else [])

    def shown(self, client: Client) -> Client:
        """With a trap in the place of what the method may not see."""
        shown, prepare = super().shown(client), self.holdings.prepare
        test = Untouchable("test", len(client.data.test) or 1, prepare)
        val = shown.data.val
        if not len(val):
            val = Untouchable("validation", len(client.data.val) or 1, prepare)
        return replace(shown, data=replace(shown.data, test=test, val=val))

    def same_batches(self) -> WatchedTraining | None:
        """A training whose first batch is, in the same order, that of another round; not where it is all there is."""
        seen = defaultdict[int, list[WatchedTraining]](list)
        for training in self.trainings:
            for before in seen[training.client]:
                a, b = before.first, training.first
                if a is not None and b is not None and 1 < len(a) < training.samples and torch.equal(a, b):
                    return training
            seen[training.client].append(training)
        return None


def _prepared(samples: Samples) -> set[bytes]:
    """Samples as a net is given them."""
    return _rows(samples.batch(torch.arange(len(samples)))[0])


def _rows(x: Tensor) -> set[bytes]:
    return {row.numpy().tobytes() for row in x.detach().cpu().contiguous()}


# -------- A method on trial


class Fault(AssertionError):
    """What is wrong with a method, in one sentence."""


class MethodTrial:
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
        return tiny(self.text, **{"net": {"name": NAME}, **self.changes})

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
