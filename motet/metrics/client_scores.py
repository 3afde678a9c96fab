"""A client scores a model on the data it has: only numbers leave it."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from torch import Tensor, nn

from motet.config.scoring_section import ScoringSettings
from motet.data import Holdings
from motet.messages.message import Message, tensor
from motet.metrics.metric import ACCURACY, Metric, SampleMetric
from motet.metrics.names import GENERIC, MetricName, diverged, one_class
from motet.metrics.one_pass import Answers, class_weighted, one_pass
from motet.metrics.over_clients import SPLIT, TRAINING, VALIDATION
from motet.metrics.pairs import remember_classes, remember_hits
from motet.metrics.registry import metrics_of
from motet.training.client import Client

Common = Literal["no", "held", "all"]  # on the common test set: nothing, the classes that the client holds, everything

COUNTS = "score.common.counts"
FAILED = "failed:"  # before the name of a metric that raised: the field of a reply that says so


def right_of(metric: Metric) -> str:
    """The field of a message that holds the generic model's right answers per class on the common test set."""
    return f"score.{GENERIC}.{metric.name}"


@dataclass
class Scorer:
    """What a client's scores are made with."""

    holdings: Holdings
    scoring: ScoringSettings

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """Accuracy, and what else the experiment asks for."""
        return metrics_of(self.scoring.metrics)

    def sizes(self, client: Client) -> Message:
        """How many samples each kind of figure rests on."""
        return {TRAINING: client.samples, SPLIT: len(client.data.test), VALIDATION: len(client.data.val)}

    def score(self, name: str, model: nn.Module, client: Client, common: Common) -> Message:
        """A model's values on the client's own test data, and on the common test set as far as it is asked for."""
        reply = self.on_own_data(name, model, client)
        test = None if common == "no" else self.holdings.common_test(client.data)
        if test is None:
            return reply
        if not self.scoring.by_class:
            if common == "all":
                self._put_values(reply, name, "common", one_pass(model, test, self.metrics, client.classes))
            return reply
        holds = (client.counts > 0)[test.y]  # other classes weigh nothing for this client
        by_class = [metric for metric in self.metrics if isinstance(metric, SampleMetric)]
        asked = self.metrics if common == "all" else by_class
        held = one_pass(model, test, asked, client.classes, holds.nonzero().squeeze(1))
        if held.one_class and not len(client.data.test):
            reply[one_class(name)] = True
        counts = test.counts(client.classes)
        for metric in by_class:
            weighted = self._weighted(held.right[metric.name], counts, client)
            _put(reply, MetricName(name, "weighted", metric.name), weighted)
        remember_classes(reply, name, held.right[ACCURACY.name], counts, self._weights(counts, client))
        if common == "all":
            rest = one_pass(model, test, self.metrics, client.classes, (~holds).nonzero().squeeze(1))
            self._put_values(reply, name, "common", held + rest)
        return reply

    def on_own_data(self, name: str, model: nn.Module, client: Client) -> Message:
        """A model's values on the client's test and validation data."""
        reply: Message = {}
        own = {"split": client.data.test, "validation": client.data.val}
        for data, samples in own.items():
            if data == "split" and not self.scoring.looks_at_test:
                continue
            answers = one_pass(model, samples, self.metrics, client.classes)
            if data == "validation" and client.data.shares_val:
                self._put_weighted(reply, name, data, answers, client)
                continue
            self._put_values(reply, name, data, answers)
            if answers.one_class and data == ("split" if self.scoring.looks_at_test else "validation"):
                reply[one_class(name)] = True
            if data == "split" and answers.hits is not None:
                remember_hits(reply, name, answers.hits)
        return reply

    def generic_as_told(self, client: Client, message: Message) -> Message:
        """The generic model's class-weighted values, from right answers per class that the server counted once."""
        reply: Message = {}
        for metric in self.metrics:
            if right_of(metric) in message:
                right, counts = tensor(message, right_of(metric)), tensor(message, COUNTS)
                _put(reply, MetricName(GENERIC, "weighted", metric.name), self._weighted(right, counts, client))
                if metric is ACCURACY:
                    remember_classes(reply, GENERIC, right, counts, self._weights(counts, client))
        return reply

    def nothing_right(self, name: str, client: Client, common: Common) -> Message:
        """The values of a model that left the finite numbers: leaving such clients out would flatter the others."""
        test = self.holdings.common_test(client.data)
        there = {
            "weighted": test is not None and common != "no" and bool(self.scoring.by_class),
            "common": test is not None and common == "all",
            "split": bool(len(client.data.test)) and self.scoring.looks_at_test,
            "validation": bool(len(client.data.val)),
        }
        reply: Message = {diverged(name): True}
        for metric in self.metrics:
            for data in (data for data, scored in there.items() if scored):
                if data != "weighted" or isinstance(metric, SampleMetric):
                    _put(reply, MetricName(name, data, metric.name), metric.worst)
        return reply

    def _weighted(self, right: Tensor, counts: Tensor, client: Client) -> float | None:
        return class_weighted(right, counts, client.counts, self.scoring.class_weights == "count_corrected")

    def _weights(self, counts: Tensor, client: Client) -> Tensor:
        """What each class of the common test set weighs for the client, as in `class_weighted`."""
        return client.counts if self.scoring.class_weights == "count_corrected" else client.counts * counts

    def _put_weighted(self, reply: Message, name: str, data: str, answers: Answers, client: Client) -> None:
        """Of a set that others share: each class by its share of this client's training data."""
        for metric, right in answers.right.items():
            _put(reply, MetricName(name, data, metric), self._weighted(right, answers.counts, client))

    def _put_values(self, reply: Message, name: str, data: str, answers: Answers) -> None:
        for metric in self.metrics:
            _put(reply, MetricName(name, data, metric.name), answers.value(metric))
        reply.update({f"{FAILED}{metric}": True for metric in answers.failed})


def _put(reply: Message, figure: MetricName, value: float | None) -> None:
    if value is not None:
        reply[str(figure)] = value
