"""Metrics of a whole run, found once after its last round; their fields are the options of their names.

Those that ask clients go through the engine in a task of their own kind (`metric`): for them more than scores may
leave a client, so that they are for simulations, and a real site refuses the task.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from motet.config.scoring_section import ScoringSettings
from motet.config.section import Section
from motet.data import FederationFacts, Samples
from motet.messages.message import Message
from motet.methods.base import LearnedFigure
from motet.nets import Net
from motet.training.client import Client

BATCH = 200


@dataclass(frozen=True)
class RunFacts:
    """What the server has of a run after its last round; before the first, without rows and generic model."""

    facts: FederationFacts
    net: Net  # a plain one
    scoring: ScoringSettings
    seed: int
    rows: Sequence[Mapping[str, Any]] = ()
    generic: Tensor | None = None  # only for metrics that need it

    @property
    def names(self) -> dict[int, str]:
        """Of the training clients, short enough for a picture."""
        return {i: (self.facts.by_id[i].name or str(i))[:100] for i in self.facts.training_ids}

    @cached_property
    def own_tests(self) -> dict[int, range]:
        """Where each training client's test samples would be in the pool of all, one client after the other."""
        ids = self.facts.training_ids
        ends = list(accumulate((self.facts.by_id[i].test for i in ids), initial=0))
        return {i: range(*between) for i, between in zip(ids, pairwise(ends), strict=True)}


@dataclass(frozen=True)
class ClientScope:
    """What there is where a client's work is done."""

    client: Client
    message: Message
    generic: Callable[[], Net | None]  # the generic model, if it was sent
    heads: Callable[[], Mapping[str, nn.Module]]  # the client's personal model as it is scored, and other heads of it
    tests: Mapping[int, Samples]  # the test data of every client whose data are here

    @staticmethod
    def answers(model: nn.Module, samples: Samples) -> Iterator[tuple[Tensor, Tensor]]:
        """Logits and labels, batch by batch."""
        device = next(model.parameters()).device
        with torch.inference_mode():
            for x, y in samples.all_batches(BATCH):
                yield model.eval()(x.to(device)).cpu(), y


@dataclass
class Finding:
    """What a metric found: figures by their names, pictures, and sentences about what is missing."""

    figures: dict[str, float] = field(default_factory=dict)
    training: dict[str, float] = field(default_factory=dict)  # numbers about the training, which no figure is
    figures_learned: list[LearnedFigure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class RunMetric(Section):
    """What a metric of a run may do; each default does nothing."""

    name: ClassVar[str]
    summary: ClassVar[str]
    paper: ClassVar[str]
    asks_clients: ClassVar[bool] = False
    needs_generic: ClassVar[bool] = False
    needs_own_tests: ClassVar[bool] = False  # of clients; a preset may leave them none

    def refuse(self, run: RunFacts) -> str | None:
        """One sentence where the experiment lacks what the metric needs, said before anything runs."""
        return None

    def in_round(self, sent: Tensor, models: Sequence[Tensor]) -> dict[str, float]:
        """Numbers for the record of a round: from the net's own weights as they were sent, and as they came back."""
        return {}

    def whom(self, run: RunFacts) -> list[int]:
        """The clients that are asked."""
        return run.facts.training_ids

    def asked(self, run: RunFacts, client_id: int) -> Message:
        """What a client is told, besides what it is sent to be scored."""
        return {}

    def at_client(self, here: ClientScope) -> Message:
        """What a client answers."""
        return {}

    def found(self, run: RunFacts, replies: Mapping[int, Message]) -> Finding:
        """Back at the server."""
        return Finding()
