"""The scoring of a model on a client's data, of which only numbers leave the client."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor, nn

from motet.config.scoring_section import ScoringSettings
from motet.data import Holdings, Samples
from motet.messages.message import Message, tensor
from motet.metrics.metric import ACCURACY, Metric, SampleMetric, SetMetric
from motet.metrics.names import GENERIC, MAJORITY, MetricName, diverged, one_class
from motet.metrics.numbers import NumberMetric
from motet.metrics.one_pass import Answers, class_weighted, one_pass, share_right
from motet.metrics.over_clients import SPLIT, TRAINING, VALIDATION
from motet.metrics.pairs import remember_classes, remember_hits
from motet.metrics.pooling import told
from motet.metrics.registry import metrics_of
from motet.training.client import Client

Common = Literal["no", "held", "all"]  # of the common test set: nothing, the client's classes, everything

COUNTS = "score.common.counts"
FAILED = "failed:"  # prefix of the reply field that marks a metric that raised an error


def right_of(metric: Metric) -> str:
    """Return the message field with the generic model's right answers per class on the common test set."""
    return f"score.{GENERIC}.{metric.name}"


@dataclass
class Scorer:
    """Computes a client's scores by the metrics of the experiment."""

    holdings: Holdings
    scoring: ScoringSettings

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """Accuracy and loss, and the metrics that the experiment asks for."""
        return metrics_of(self.scoring.asked_metrics)

    def sizes(self, client: Client) -> Message:
        """Return how many samples each kind of score is computed from."""
        return {TRAINING: client.samples, SPLIT: len(client.data.test), VALIDATION: len(client.data.val)}

    def score(self, name: str, model: nn.Module, client: Client, common: Common) -> Message:
        """Return a model's scores on the client's own data, and on as much of the common test set as `common` says."""
        reply = self.on_own_data(name, model, client)
        test = None if common == "no" else self.holdings.common_test(client.data)
        if test is None:
            return reply
        if not self.scoring.by_class:
            if common == "all":
                self._put_values(reply, name, "common", one_pass(model, test, self.metrics, client.classes))
            return reply
        holds = (client.counts > 0)[test.y]  # other classes have weight 0 for this client
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
        """Return a model's scores on the client's test and validation data, and where asked on its training data."""
        reply: Message = {}
        if self.scoring.training_data:
            learned = one_pass(model, client.data.train, self.metrics, client.classes)
            self._put_values(reply, name, "training", learned)
        own = {"split": client.data.test, "validation": client.data.val}
        for data, samples in own.items():
            if (data == "split" and not self.scoring.looks_at_test) or (data == "validation" and not len(samples)):
                continue
            answers = one_pass(model, samples, self.metrics, client.classes)
            if data == "validation" and client.data.shares_val and samples.prepare.target is None:
                self._put_weighted(reply, name, data, answers, client)
                continue
            self._put_values(reply, name, data, answers)
            reply |= told(name, data, answers.logits, answers.y, self.metrics, self.scoring)
            if answers.one_class and data == ("split" if self.scoring.looks_at_test else "validation"):
                reply[one_class(name)] = True
            if data == "split" and answers.hits is not None:
                remember_hits(reply, name, answers.hits)
        return reply

    def generic_as_told(self, client: Client, message: Message) -> Message:
        """Return the generic model's class-weighted scores, from the right answers per class that the server sent."""
        reply: Message = {}
        for metric in self.metrics:
            if right_of(metric) in message:
                right, counts = tensor(message, right_of(metric)), tensor(message, COUNTS)
                _put(reply, MetricName(GENERIC, "weighted", metric.name), self._weighted(right, counts, client))
                if metric is ACCURACY:
                    remember_classes(reply, GENERIC, right, counts, self._weights(counts, client))
        return reply

    def nothing_right(self, name: str, client: Client, common: Common) -> Message:
        """Return the worst scores, for a model that is not finite: leaving the client out would flatter the mean."""
        test = self.holdings.common_test(client.data)
        there = {
            "weighted": test is not None and common != "no" and bool(self.scoring.by_class),
            "common": test is not None and common == "all",
            "split": bool(len(client.data.test)) and self.scoring.looks_at_test,
            "validation": bool(len(client.data.val)),
            "training": self.scoring.training_data,
        }
        reply: Message = {diverged(name): True}
        rows, classes = {"split": client.data.test, "validation": client.data.val, "common": test}, client.classes
        rows["training"] = client.data.train
        for metric in self.metrics:
            for data in (data for data, scored in there.items() if scored):
                if isinstance(metric, SampleMetric) or (
                    data != "weighted" and _defined(metric, rows.get(data), classes)
                ):
                    _put(reply, MetricName(name, data, metric.name), metric.worst)
        return reply

    def majority(self, client: Client) -> Message:
        """Return how often the class that is most frequent in the client's training data is right.

        Of numbers, return how well the mean of the client's training data predicts.
        """
        reply: Message = {}
        if not self.scoring.majority:
            return reply
        if client.data.train.prepare.target is not None:
            return self._mean_predictor(client)
        often = torch.zeros(client.classes, dtype=torch.int64)
        often[int(client.data.train.counts(client.classes).argmax())] = 1
        test = self.holdings.common_test(client.data) if self.scoring.by_class else None
        sets = {"split": client.data.test, "validation": client.data.val, "weighted": test}
        for data, samples in sets.items():
            if samples is None or not len(samples) or (data != "validation" and not self.scoring.looks_at_test):
                continue
            counts = samples.counts(client.classes)
            shared = data == "weighted" or (data == "validation" and client.data.shares_val)
            right = counts * often
            value = self._weighted(right, counts, client) if shared else share_right(right, counts)
            _put(reply, MetricName(MAJORITY, data), value)
        return reply

    def _mean_predictor(self, client: Client) -> Message:
        reply: Message = {}
        mean = client.data.train.y.mean()
        for data, samples in {"split": client.data.test, "validation": client.data.val}.items():
            if data == "split" and not self.scoring.looks_at_test:
                continue
            for metric in self.metrics:
                if isinstance(metric, NumberMetric) and len(samples):
                    value = metric.value(mean.expand(len(samples), 1), samples.y)
                    _put(reply, MetricName(MAJORITY, data, metric.name), value)
        return reply

    def _weighted(self, right: Tensor, counts: Tensor, client: Client) -> float | None:
        return class_weighted(right, counts, client.counts, self.scoring.class_weights == "count_corrected")

    def _weights(self, counts: Tensor, client: Client) -> Tensor:
        """Return the weight of each class of the common test set for the client, as in `class_weighted`."""
        return client.counts if self.scoring.class_weights == "count_corrected" else client.counts * counts

    def _put_weighted(self, reply: Message, name: str, data: str, answers: Answers, client: Client) -> None:
        """Add scores on a shared set to the reply, each class weighted by its share of this client's training data."""
        for metric, right in answers.right.items():
            _put(reply, MetricName(name, data, metric), self._weighted(right, answers.counts, client))

    def _put_values(self, reply: Message, name: str, data: str, answers: Answers) -> None:
        for metric in self.metrics:
            _put(reply, MetricName(name, data, metric.name), answers.value(metric))
        reply.update({f"{FAILED}{metric}": True for metric in answers.failed})


def _defined(metric: Metric, samples: Samples | None, classes: int) -> bool:
    """Return whether a metric of a set has a value on these samples: rows of one class have no AUROC."""
    if metric.worst is None or samples is None or not isinstance(metric, SetMetric):
        return False
    return metric.value(torch.zeros(len(samples), classes), samples.y) is not None


def _put(reply: Message, figure: MetricName, value: float | None) -> None:
    if value is not None:
        reply[str(figure)] = value
