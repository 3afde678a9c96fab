"""Metrics of a whole run, computed once after its last round; their fields are their options.

Those that ask clients use tasks of their own kind (`run_metric`), in which more than scores may leave a client. So they
are for simulations, and a real site refuses the task.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from motet.config.scoring_section import ScoringSettings
from motet.config.section import Section
from motet.data import ClientData, FederationFacts, Samples
from motet.messages.message import Message
from motet.methods.base import LearnedFigure
from motet.nets import Net
from motet.training.client import Client

if TYPE_CHECKING:
    from motet.metrics.threshold import Thresholds

BATCH = 200


@dataclass(frozen=True)
class RunFacts:
    """What the server knows of a run after its last round; before the first, without rows and generic model."""

    facts: FederationFacts
    net: Net  # without what the method added to it
    scoring: ScoringSettings
    seed: int
    rows: Sequence[Mapping[str, Any]] = ()
    generic: Tensor | None = None  # only for metrics that need it

    @property
    def names(self) -> dict[int, str]:
        """The names of the training clients, shortened for a figure."""
        return {i: (self.facts.by_id[i].name or str(i))[:100] for i in self.facts.training_ids}

    @cached_property
    def own_tests(self) -> dict[int, range]:
        """The range of each training client's test samples in the pool of all, one client after the other."""
        ids = self.facts.training_ids
        ends = list(accumulate((self.facts.by_id[i].test for i in ids), initial=0))
        return {i: range(*between) for i, between in zip(ids, pairwise(ends), strict=True)}

    @property
    def has_own_tests(self) -> bool:
        """Whether any training client keeps test data of its own."""
        return any(map(len, self.own_tests.values()))

    @property
    def test_data(self) -> str:
        """The data on which a metric with `takes_common_test` is: clients' own, or the common set weighted by class."""
        return "split" if self.has_own_tests else "weighted"


@dataclass(frozen=True)
class Cohort:
    """The net's own weights in a round: as they were sent, and as each client sent them back."""

    sent: Tensor
    models: Sequence[Tensor]
    samples: Sequence[float]  # n_m of each of these clients


@dataclass(frozen=True)
class ClientScope:
    """What a metric may use at a client."""

    client: Client
    message: Message
    generic: Callable[[], Net | None]  # the generic model, if it was sent
    heads: Callable[[], Mapping[str, nn.Module]]  # the client's personal model as it is scored, and other heads of it
    data: Mapping[int, ClientData]  # the data of every client that are here
    common_test: Callable[[ClientData], Samples | None]  # the common test set, of a client's domain where it has one
    trained: Callable[[], nn.Module | None]  # the client's model after one more local training
    own_weights: Callable[[bool], Tensor | None]  # its own plain weights; True: after one more local training
    bound: Callable[[Tensor], nn.Module]  # the plain net with these weights
    after_epochs: Callable[[int], Mapping[str, float]]  # the method's numbers after so many epochs of training
    adapted: Callable[[int, float], nn.Module]  # a new client's model after so many epochs at this learning rate

    @staticmethod
    def spread_over_classes(samples: Samples, most: int) -> Samples:
        """Return at most so many samples, evenly spaced among all sorted by class: sets are often stored like that."""
        if len(samples) <= most:
            return samples
        places = torch.tensor([k * len(samples) // most for k in range(most)])
        return samples.take(samples.y.argsort(stable=True)[places])

    @staticmethod
    def answers(model: nn.Module, samples: Samples) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield logits and labels, batch by batch."""
        device = next(model.parameters()).device
        with torch.inference_mode():
            for x, y in samples.all_batches(BATCH):
                yield model.eval()(x.to(device)).cpu(), y


@dataclass
class Finding:
    """The result of a metric: values by name, figures to draw, and notes about what is missing."""

    figures: dict[str, float] = field(default_factory=dict)
    training: dict[str, float] = field(default_factory=dict)  # numbers about the training that are not figures
    figures_learned: list[LearnedFigure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    thresholds: "Thresholds | None" = None


class RunMetric(Section):
    """The base of a metric of a run; override what it needs, each default does nothing."""

    setting: ClassVar[str] = "scoring.metrics"  # the field that asks for it
    name: ClassVar[str]
    summary: ClassVar[str]
    paper: ClassVar[str]
    asks_clients: ClassVar[bool] = False
    needs_generic: ClassVar[bool] = False
    needs_classes: ClassVar[bool] = True  # False: it can be measured where a number is predicted
    needs_own_tests: ClassVar[bool] = False  # whether clients need own test data, which some presets do not give them
    takes_common_test: ClassVar[bool] = False  # whether the common test set, weighted by class, serves in their place

    @property
    def trains(self) -> bool:
        """Whether clients train for it, and need all that a round sends them."""
        return False

    def refuse(self, run: RunFacts) -> str | None:
        """Return a sentence if the experiment lacks what the metric needs, or None; called before anything runs."""
        return None

    def in_round(self, cohort: Cohort) -> dict[str, float]:
        """Return numbers for the row of a round, from the weights of its clients."""
        return {}

    def whom(self, run: RunFacts) -> list[int]:
        """Return the clients to ask."""
        return run.facts.training_ids

    def asked(self, run: RunFacts, client_id: int) -> Message:
        """Return what to add to the message for scoring a client."""
        return {}

    def at_client(self, here: ClientScope) -> Message:
        """Return a client's reply."""
        return {}

    def follow_up(self, run: RunFacts, replies: Mapping[int, Message]) -> Callable[[int], Message] | None:
        """Return what to ask each client after its first reply, or None; both replies are handed to `found`."""
        return None

    def found(self, run: RunFacts, replies: Mapping[int, Message]) -> Finding:
        """Return the result, computed at the server from the run and the replies."""
        return Finding()
