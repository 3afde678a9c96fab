"""summary.json of a record: the figures of the reported rounds."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field

from motet.config.experiment import Experiment
from motet.config.scoring_section import ScoringSettings
from motet.io.json_models import LARGEST_NUMBER, Count, FileModel, Number, Text, plain
from motet.methods.base import Method
from motet.metrics.names import (
    AFTER,
    BEFORE,
    DERIVED,
    GENERIC,
    PERSONAL,
    MetricName,
    diverged,
    is_scored,
)
from motet.metrics.registry import headline_metric
from motet.metrics.run_metric import Finding
from motet.runs.failures import NO_SKEW, warnings_of
from motet.runs.rows import Round, Row
from motet.training.personal_model_policy import PersonalModelPolicy

if TYPE_CHECKING:
    from motet.runs.record import Record

TRAINING_LOSS = "training loss"


def _headline(name: str) -> str:
    figure = MetricName.read(name)
    if figure is None or figure.data == "common":
        raise ValueError("the name of a figure, of clients or of their own data")
    return name


Figure = Annotated[str, AfterValidator(_headline)]
Value = Number | None


class Reported(FileModel):
    """The models and rounds that are reported."""

    rule: Literal["last", "best", "best_on_validation"]
    round: Round
    rounds: dict[Text, Round]
    headline: Text
    figure: Figure
    metric: Text = "accuracy"
    higher_is_better: bool = True
    client_weighting: Literal["uniform", "by_samples"]
    personal_model: Text
    personalizes: bool


class GenericSummary(FileModel):
    """The accuracy of the generic model, null if there is none."""

    accuracy: Value
    derived: bool


class PersonalOnly(FileModel):
    """Accuracy on a kind of test data where only personal models are reported."""

    personal_models: Value


class Pair(FileModel):
    """Accuracies of the generic and the personal models on one kind of test data."""

    generic_model: Value
    personal_models: Value


class PersonalSummary(FileModel):
    """Statistics of the personal models; a comparison with `local` adds more, such as `hurt_vs_local`."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Value] = Field(init=False)

    common: PersonalOnly
    weighted: Pair
    split: Pair
    validation: Pair
    std: Value
    minimum: Value
    worst_tenth: Value
    hurt: Value
    hurt_clients: Value
    better_clients: Value
    compared_clients: Value
    readings: dict[Text, dict[Text, Value]]


class BytesPerRound(FileModel):
    """Mean bytes that the server sent and received in a round; null where nothing is sent."""

    down: Value
    up: Value


class DivergedClients(FileModel):
    """How many models were not finite."""

    personal_models: Count
    new_clients: Count


class PrivacySpent(FileModel):
    """The account of the transform `noise`: what all rounds tell of any one client's data."""

    epsilon: Number
    delta: Number
    rounds: Round


class Summary(FileModel):
    """The content of summary.json: the results of a run."""

    method: Text
    data: Text
    partition: Text
    protocol: Text
    seed: Count
    rounds: Round
    reported: Reported
    generic: GenericSummary
    personal: PersonalSummary
    new_clients: dict[Text, Value]
    figures: dict[Text, Number]
    training: dict[Text, Value] = Field(default_factory=dict)
    tells: list[Text]
    bytes_per_round: BytesPerRound
    set_aside: Count
    diverged: DivergedClients
    seconds: Number
    warnings: list[Text]
    notes: list[Text] = Field(default_factory=list)
    automatic: dict[Text, bool | Number | Text] = Field(default_factory=dict)
    data_notes: list[Text] = Field(default_factory=list)
    privacy: PrivacySpent | None = None


def summarize(
    experiment: Experiment,
    method: Method,
    rounds: Sequence[Row],
    new_clients: Row,
    seconds: float,
    found: Finding | None = None,
    data_notes: Sequence[str] = (),
    kept: int | None = None,
    automatic: Mapping[str, float | str] | None = None,
) -> Summary:
    """Return the summary of a run, with what its run metrics found; a figure that does not exist is None.

    `kept` is the round whose models are kept, where that is not decided by `scoring.report`; `automatic` has the values
    of the method's options that were left at "auto".
    """
    scoring = experiment.scoring
    policy = PersonalModelPolicy.of(scoring, method)
    first, headline = experiment.headline, experiment.training_headline
    metric = headline_metric(scoring)
    chosen = [row for row in rounds if row["round"] == kept and kept]
    rows = {model: chosen[0] if chosen else reported(rounds, scoring, model, headline) for model in (GENERIC, PERSONAL)}
    figures = figures_of(rows[GENERIC], rows[PERSONAL], new_clients)
    trained = [r for r in rounds if r["round"]]

    def on(data: str, model: str = PERSONAL) -> float | None:
        return replace(headline, model=model, data=data).of(figures)

    def pair(data: str) -> Pair:
        return Pair(generic_model=on(data, GENERIC), personal_models=on(data))

    def of_headline(statistic: str) -> float | None:
        return headline.over(statistic).of(figures)

    found, privacy = found or Finding(), privacy_spent(trained)
    return Summary(
        method=experiment.method,
        data=experiment.data.name,
        partition=experiment.data.partition,
        protocol=experiment.protocol,
        seed=experiment.seed,
        rounds=len(trained),
        reported=Reported(
            rule=scoring.report,
            round=rows[PERSONAL]["round"],
            rounds={model: row["round"] for model, row in rows.items()},
            headline=f"new_clients.{AFTER}" if first.model == AFTER else f"personal.{headline.data}.personal_models",
            figure=str(first),
            metric=first.metric,
            higher_is_better=metric.higher_is_better,
            client_weighting=scoring.client_weighting,
            personal_model=policy.headline,
            personalizes=method.personalizes,
        ),
        generic=GenericSummary(
            accuracy=MetricName(GENERIC, "common", statistic="pooled").of(figures),
            derived=bool(rows[GENERIC].get(DERIVED)),
        ),
        personal=PersonalSummary(
            common=PersonalOnly(personal_models=on("common")),
            weighted=pair("weighted"),
            split=pair("split"),
            validation=pair("validation"),
            std=of_headline("std"),
            minimum=of_headline("minimum"),
            worst_tenth=of_headline("worst_tenth"),
            hurt=of_headline("hurt"),
            hurt_clients=of_headline("hurt_clients"),
            better_clients=of_headline("better_clients"),
            compared_clients=of_headline("compared_clients"),
            readings={
                source: {data: on(data, model) for data in ("weighted", "split", "validation")}
                for model, source in zip(policy.scored, policy.asked, strict=True)
                if model != PERSONAL
            },
        ),
        new_clients={model: on(headline.data, model) for model in _of_new_clients(new_clients)},
        figures=figures | _numbers(found.figures),
        training=plain(found.training),
        tells=sorted(method.tells | scoring.tells | ({TRAINING_LOSS} if scoring.train_loss else set())),
        bytes_per_round=BytesPerRound(down=_mean(trained, "bytes_down"), up=_mean(trained, "bytes_up")),
        set_aside=sum(len(r["set_aside"]) for r in rounds),
        diverged=DivergedClients(
            personal_models=rows[PERSONAL].get(diverged(PERSONAL), 0),
            new_clients=new_clients.get(diverged(AFTER), 0),
        ),
        seconds=round(seconds, 3),
        warnings=warnings_of(method, trained, rows, headline, experiment.data.partition in NO_SKEW),
        notes=[*found.notes, *said_of_automatic(automatic or {}), *said_of_privacy(privacy)],
        automatic=dict(automatic or {}),
        data_notes=list(data_notes),
        privacy=privacy,
    )


def privacy_spent(trained: Sequence[Row]) -> PrivacySpent | None:
    """Return the account after the last of these rounds, or None where no noise was added."""
    last = trained[-1] if trained else {}
    if last.get("epsilon") is None:
        return None
    return PrivacySpent(epsilon=last["epsilon"], delta=last["delta"], rounds=last["round"])


def said_of_privacy(spent: PrivacySpent | None) -> list[str]:
    """Return one sentence with ε and what it is about, or nothing where no noise was added."""
    if spent is None:
        return []
    return [
        f"privacy: ε = {spent.epsilon:.3g} at δ = {spent.delta:g} after {spent.rounds} rounds, for all data of any one "
        f"client in what the rounds' models tell; scores are not covered"
    ]


def said_of_automatic(values: Mapping[str, float | str]) -> list[str]:
    """Return one sentence with the values of options that were left at "auto", or nothing if there are none."""

    def written(value: float | str) -> str:
        if isinstance(value, bool):
            return str(value).lower()  # as the option is written
        return f"{value:.3g}" if isinstance(value, float) else str(value)

    named = [f"{name} = {written(value)}" for name, value in values.items()]
    return [f"options that were auto: {', '.join(named)}"] if named else []


def reported(rounds: Sequence[Row], scoring: ScoringSettings, model: str, headline: MetricName | None = None) -> Row:
    """Return the row of the round that is reported for a model: the last, or its best on test or validation data.

    The best round of the generic model is chosen on the common test set, that of the personal models by the headline. A
    model without such a figure is reported from the other's round.
    """
    scored = [row for row in rounds if is_scored(row)]
    if scoring.report == "last":
        return scored[-1]
    by_validation = scoring.report == "best_on_validation"
    headline = headline or scoring.headline
    deciding = {
        GENERIC: MetricName(GENERIC, "common", headline.metric, "pooled"),
        PERSONAL: headline,
    }
    if by_validation:
        deciding = {each: replace(headline, model=each, data="validation") for each in deciding}
    for figure in (deciding[model], *deciding.values()):
        if any(figure.of(row) is not None for row in scored):
            return _best(scored, figure, headline_metric(scoring).higher_is_better)
    return scored[-1]


def values_of_clients(record: "Record", figure: MetricName) -> dict[int, float]:
    """Return each client's value of a figure in the reported round, without attackers; new clients' if it is theirs."""
    round, new = record.summary.reported.round, figure.model.partition("@")[0] in (BEFORE, AFTER)
    plain = replace(figure, statistic="", among="")
    rows = (row for row in record.clients if bool(row.get("new")) == new and not row.get("malicious"))
    there = (row for row in rows if new or row.get("round") == round)
    return {row["client"]: value for row in there if (value := plain.of(row)) is not None}


def figures_of(generic: Row, personal: Row, new_clients: Row) -> dict[str, float]:
    """Return all figures, each from the row that is reported for its model."""
    sources = ((generic, True), (personal, False), (new_clients, False))
    named = ((name, MetricName.read(name), row, of_generic) for row, of_generic in sources for name in row)
    return _numbers({name: f.of(row) for name, f, row, of_generic in named if f and (f.model == GENERIC) == of_generic})


def _numbers(values: Mapping[str, float | None]) -> dict[str, float]:
    """Return the values that are finite and not too large for a record."""
    return {name: v for name, v in plain(values).items() if v is not None and abs(v) <= LARGEST_NUMBER}


def _best(rows: Sequence[Row], figure: MetricName, higher_is_better: bool) -> Row:
    values = [(value if higher_is_better else -value, row) for row in rows if (value := figure.of(row)) is not None]
    return max(values, key=lambda of: of[0])[1]  # the first of equals


def _of_new_clients(row: Row) -> list[str]:
    """Return the names of the models of new clients: before, after, and other choices of the adapted model."""
    models = {figure.model for name in row if (figure := MetricName.read(name))}
    return [BEFORE, AFTER, *sorted(models - {BEFORE, AFTER})]


def _mean(rows: Sequence[Row], name: str) -> float | None:
    values = [v for v in (r[name] for r in rows) if isinstance(v, int | float)]
    return sum(values) / len(values) if values else None
