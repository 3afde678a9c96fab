"""comparison.json: what a comparison found. The terminal, the page and `motet.Comparison` all show this object."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from motet.io.json_models import FileModel
from motet.metrics.metric import Metric
from motet.metrics.registry import known_metric
from motet.runs.local_baseline import LOCAL
from motet.studies.folder import Count, Interval, Name, Number, Options, RunFolder, Sentence, read_file

FILE = "comparison.json"
FORMAT: Final = 1
PARAGRAPH: Final = "\n"


class Score(FileModel):
    """A mean over clients and seeds, its standard deviation over seeds and its 95 % interval, where they are known."""

    mean: Number
    std: Number | None
    interval: Interval | None


class GenericScore(Score):
    """The same for the generic model on clients' data; `common` is its value over the whole common test set."""

    common: Number | None


class MethodDifference(FileModel):
    """How much better a method is than another one, `to`; `certain` where that is more than chance."""

    to: Name
    mean: Number
    interval: Interval | None
    p: Number | None
    certain: bool


class NewClientScore(FileModel):
    """What new clients get before and after adaptation."""

    before: Number | None
    after: Number | None


class TrialResult(FileModel):
    """One setting that the tuner tried: its score on validation data, or the sentence with which it failed."""

    options: Options
    score: Number | None
    rounds: Count
    failure: Sentence | None


class MethodResult(FileModel):
    """A method with the setting that was chosen for it; `hurt` counts the clients that are better off without it."""

    method: Name
    options: Options
    expression: Name
    yardstick: bool
    personal: Score
    generic: GenericScore | None
    worst_client: Number
    """The worst client of a run, mean over runs: not always the same client."""
    hurt: Count | None
    hurt_clients: tuple[Name, ...] | None
    hurt_vs_fedavg: Count | None
    hurt_vs_fedavg_clients: tuple[Name, ...] | None
    bytes_per_round: Number | None
    seconds: Number
    new_clients: NewClientScore | None
    runs: tuple[RunFolder, ...]
    climb: Number | None
    warnings: tuple[Sentence, ...]
    trials: tuple[TrialResult, ...]
    difference: MethodDifference | None
    to_recommended: MethodDifference | None
    pooled: Number | None = None
    """Over all clients' test rows at once, mean over runs: there a client counts by its rows."""


class YardstickResult(FileModel):
    """What a user has without Motet, on the same rows; `to_recommended` is its lead over the recommended method."""

    name: Name
    personal: Score
    to_recommended: MethodDifference
    settings: tuple[Name, ...]


class ClientResult(FileModel):
    """The value of a client's own model with each method, mean over seeds, and what the recommended one changes.

    `rare` is the share of `rare_class` in its rows, where class counts are known. `alone` is its model of `local`,
    `one_model` FedAvg's for all, `own` its model of the recommended method. `difference` is how much better `own` is
    than `alone`, or where `local` is recommended than `one_model`, with a 95 % interval from its test rows.
    """

    id: Count
    name: Name
    personal: dict[Name, Number]
    train: Count | None = None
    test: Count | None = None
    rare: Number | None = None
    alone: Number | None = None
    one_model: Number | None = None
    own: Number | None = None
    difference: Number | None = None
    interval: Interval | None = None
    verdict: Literal["gains", "loses", "too small to tell"] | None = None


class RecommendedMethod(FileModel):
    """Which method to take, why, and how sure that is."""

    method: Name
    options: Options
    expression: Name
    reason: Sentence
    certain: bool
    enough_evidence: bool
    may_be_equal: tuple[Name, ...]

    @property
    def paragraphs(self) -> list[str]:
        """Return the reason in paragraphs: why this method, what there is without Motet, what it does for clients."""
        return self.reason.split(PARAGRAPH)


def in_paragraphs(*topics: Sequence[str]) -> str:
    """Return the sentences of each topic as a paragraph of its own."""
    return PARAGRAPH.join(" ".join(sentences) for sentences in topics if sentences)


class ComparisonFile(FileModel):
    """The whole file; `methods` are in the order of their means, the best first."""

    format: Literal[1]
    recommended: RecommendedMethod
    methods: tuple[MethodResult, ...]
    clients: tuple[ClientResult, ...]
    left_out: dict[Name, Sentence]
    figure: Name
    notes: tuple[Sentence, ...]
    yardsticks: tuple[YardstickResult, ...] = ()
    metric: Name = "accuracy"
    """The metric by which methods are judged, and of which all values are."""
    higher_is_better: bool = True
    majority: Number | None = None
    """Beside an accuracy: what always answering with a client's most frequent class has, mean over clients."""
    rare_class: Name | None = None
    """The class of which all clients together have the fewest rows."""

    @property
    def judged_by(self) -> Metric:
        """Return the metric by which methods are judged."""
        return known_metric(self.metric, self.higher_is_better)

    @property
    def compared_with(self) -> str:
        """Return what a client's own model is compared with: what it has alone, or where that is it, the one model."""
        return "one model" if self.recommended.method == LOCAL else "alone"

    @property
    def best(self) -> MethodResult | None:
        """Return the recommended method's own result; None if the file was changed by hand and lacks it."""
        mine = [each for each in self.methods if each.method == self.recommended.method]
        return next((each for each in mine if each.options == self.recommended.options), next(iter(mine), None))


def is_comparison(folder: Path) -> bool:
    """Return whether the folder is one of `motet compare`."""
    return (folder / FILE).exists()


def read_comparison(folder: Path) -> ComparisonFile:
    """Return the comparison of a folder, or raise a MotetError if its file is damaged."""
    return read_file(folder / FILE, ComparisonFile)
