"""One name for a figure: whose model, on which data, which metric, which statistic over clients.

`personal.weighted.accuracy.mean` is a column of rounds.jsonl and a key of `figures` in summary.json. One client's value
has no statistic, `personal.weighted.accuracy`: a column of clients.jsonl. Where some clients are malicious, the figure
over the others is `personal.weighted.accuracy.benign.mean`. Names are made and read here alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

GENERIC, PERSONAL, BEFORE, AFTER = "generic", "personal", "before", "after"
OF_A_MEMBER, OF_A_RULE = "member:", "rule:"
BENIGN = "benign"  # statistics over the clients that are not malicious
DERIVED = "generic.derived"  # a column of rounds.jsonl: the generic model is the mean of the personal ones

MAJORITY = "majority"  # not a model of the run: always the class that is most frequent in the client's training data
ALIASES = {"log_loss": "loss"}  # other names by which a user may ask for a metric
FROM_COUNTS = frozenset({"balanced_accuracy", "f1", "precision", "recall"})
"""Metrics of answers: over all clients' rows they are made from confusion counts."""
FROM_SUMS = frozenset({"r2", "rmse", "mae"})
"""Metrics of numbers as targets: over all clients' rows they are made from sums of each client's."""
FROM_RANKS = frozenset({"auroc", "average_precision"})
"""Metrics of the order of scores: over all clients' rows they need the scores, or counts of rows by score."""

DATA = {
    "common": "the common test set (of the client's domain where it has one), every sample alike",
    "weighted": "the same set, each class weighted by its share of the client's training data (FED-ROD Eq. 20)",
    "split": "the client's own test data",
    "validation": "the client's validation data",
    "training": "the client's training data, where scoring.training_data asks for it",
}
IF_ASKED = frozenset({"training"})
"""Data that are scored only where the experiment says so: elsewhere the record has no column of them."""
STATISTICS = {
    "mean": "over clients, each alike",
    "by_samples": "mean over clients by their samples",
    "std": "standard deviation over clients",
    "minimum": "the smallest value of a client",
    "maximum": "the largest value of a client: the worst where lower is better",
    "worst_tenth": "mean over the worst tenth of clients",
    "pooled": "over all samples at once: no mean over clients",
    "hurt": "share of clients with a worse value than the generic model has for them (new clients: than before)",
    "hurt_clients": "how many those are",
    "better_clients": "how many clients have a better one",
    "compared_clients": "how many clients have both",
    "hurt_vs_local": "share of clients with a worse value than their own model has in a run of `local`",
    "hurt_vs_local_clients": "how many those are",
    "better_vs_local_clients": "how many clients have a better one",
    "compared_vs_local_clients": "how many clients have both",
    "gain_vs_local": "mean over clients of how much better the value is than their own model has in a run of `local`",
    "gain_vs_local_std": "standard deviation of that over clients",
}


@dataclass(frozen=True)
class MetricName:
    """The name of a figure; without a statistic, the value of one client."""

    model: str
    data: str
    metric: str = "accuracy"
    statistic: str = ""
    among: str = ""  # the clients of the statistic: all, or BENIGN

    def __str__(self) -> str:
        return _joined(self.model, self.data, self.metric, self.among, self.statistic)

    @classmethod
    def read(cls, text: str) -> "MetricName | None":
        """Return the parsed name, or None if the text is no name of a figure. A model's name may contain dots."""
        return _read(text)

    def over(self, statistic: str) -> "MetricName":
        """Return the name with this statistic over the same clients."""
        return replace(self, statistic=statistic)

    def of(self, row: Mapping[str, object]) -> float | None:
        """Return the value of this figure in a row of the record, or None."""
        value = row.get(str(self))
        return value if isinstance(value, int | float) else None


_ALIKE = 2**14  # a round has the same names for every client, so that few are made and read very often


@lru_cache(_ALIKE)
def _joined(*words: str) -> str:
    return ".".join(filter(None, words))


@lru_cache(_ALIKE)
def _read(text: str) -> MetricName | None:
    body, _, last = text.rpartition(".")
    statistic = last if last in STATISTICS else ""
    body = body if statistic else text
    among = BENIGN if statistic and body.endswith(f".{BENIGN}") else ""
    words = body.removesuffix(f".{among}").rsplit(".", 2) if among else body.rsplit(".", 2)
    if len(words) != 3 or words[1] not in DATA:
        return None
    model, data, metric = words
    return MetricName(model, data, metric, statistic, among)


def name_of_metric(asked: str) -> str:
    """Return the name that a metric has in figures: of `file.py:gain` or `module:gain` it is `gain`."""
    last = asked.rpartition(":")[2].rpartition(".")[2] if ":" in asked else asked
    return ALIASES.get(last, last)


def variant(model: str, word: str) -> str:
    """Return the name of another variant of a model: `personal@global_plus_personal`, `after@best_on_validation`."""
    return f"{model}@{word}"


def member(name: str) -> str:
    """Return the model name of a member of a family of personal models."""
    return OF_A_MEMBER + name


def rule(name: str) -> str:
    """Return the model name of the personal models that a rule chooses from a family."""
    return OF_A_RULE + name


def diverged(model: str) -> str:
    """Return the column that marks a client whose model is not finite, or counts such clients."""
    return f"{model}.diverged"


def one_class(model: str) -> str:
    """Return the column that marks a client whose model predicts one class only, or counts such clients."""
    return f"{model}.one_class"


def is_scored(row: Mapping[str, object]) -> bool:
    """Return whether clients were scored in the round of this row."""
    return any(MetricName.read(name) for name in row)
