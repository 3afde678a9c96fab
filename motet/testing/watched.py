"""A workplace that watches its method: which data it touches, in which mode its net learns, which batches it takes."""

from collections import defaultdict
from dataclasses import dataclass, field, fields, replace
from typing import NoReturn

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from motet.client import Client
from motet.data import ClientData, Samples
from motet.data.absent import AbsentSamples
from motet.engines import Outcome, Task
from motet.engines.engine import Kind
from motet.local import Descent
from motet.message import State
from motet.work import Workplace


class Touched(Exception):
    """A method read data that are not for it."""


class Untouchable(AbsentSamples):
    """So many samples that a method may count, and not look at."""

    def _refuse(self) -> NoReturn:
        raise Touched(self.__dict__["whose"])

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
class Training:
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

    trainings: list[Training] = field(default_factory=list)

    @classmethod
    def instead_of(cls, workplace: Workplace) -> "Watched":
        """The same workplace, watched."""
        watched = cls(*(getattr(workplace, each.name) for each in fields(Workplace)))
        watched._look_at(workplace.method.net)
        return watched

    def _look_at(self, net: nn.Module) -> None:
        self.has_modes = any(isinstance(module, _BatchNorm | _DropoutNd) for module in net.modules())
        self.doing: Kind = "train"
        self._now: Training | None = None
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
        self._now = now = Training(task.client_id, task.round, self._samples(task.client_id))
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

    def same_batches(self) -> Training | None:
        """A training whose first batch is, in the same order, that of another round; not where it is all there is."""
        seen = defaultdict[int, list[Training]](list)
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
