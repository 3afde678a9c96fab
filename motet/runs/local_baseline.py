"""Compare a run's personal models with those of a run of `local` on the same data: who would be better off alone?"""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, pstdev

from motet.config.experiment import Experiment
from motet.errors import MotetError
from motet.metrics.names import PERSONAL, MetricName
from motet.metrics.over_clients import Figures, worse_off
from motet.runs.record import Record
from motet.runs.rows import Row
from motet.runs.summary import Summary


def gained(figure: MetricName, pairs: Sequence[tuple[float, float]], statistic: str) -> Figures:
    """Return mean and standard deviation over clients of the first minus the second value of each pair."""
    if not pairs:
        return {}
    gains = [mine - other for mine, other in pairs]
    return {str(figure.over(statistic)): fmean(gains), str(figure.over(f"{statistic}_std")): pstdev(gains)}


LOCAL = "local"


def same_clients(one: Experiment, other: Experiment) -> bool:
    """Return whether two experiments have the same clients with the same data."""
    where = {"download"}  # does not change the data
    a, b = (experiment.data.model_dump(exclude=where) for experiment in (one, other))
    return a == b and one.seed == other.seed


def local_among(records: Sequence[Record], of: Record) -> Record | None:
    """Return the first of these runs that is a run of `local` on the same clients as `of`, or None."""
    runs = (record for record in records if record.experiment.method == LOCAL)
    return next((record for record in runs if same_clients(record.experiment, of.experiment)), None)


def gains_over_local(record: Record, local: Record) -> dict[int, float]:
    """Return how much better each client's headline is than with `local`; raise if `local` does not match."""
    _refuse_others(record, local)
    sign = 1 if record.summary.reported.higher_is_better else -1
    return {client: sign * (mine - alone) for client, (mine, alone) in _pairs(record, local).items()}


def compared_with_local(record: Record, local: Record) -> Summary:
    """Return the run's summary with its gain over `local` and the share of clients worse off; raise if unmatched."""
    _refuse_others(record, local)
    summary, headline = record.summary, _headline(record)
    pairs = list(_pairs(record, local).values())
    higher = summary.reported.higher_is_better
    figures = worse_off(headline, pairs, "hurt_vs_local", higher_is_better=higher)
    figures |= gained(headline, pairs if higher else [(b, a) for a, b in pairs], "gain_vs_local")
    statistics = {figure.statistic: value for name, value in figures.items() if (figure := MetricName.read(name))}
    more = {"figures": summary.figures | figures, "personal": summary.personal.model_copy(update=statistics)}
    return summary.model_copy(update=more)


def _refuse_others(record: Record, local: Record) -> None:
    """Raise unless `local` is a run of `local` on the same clients."""
    if local.experiment.method != LOCAL:
        raise MotetError(f"{local.folder} is a run of {local.experiment.method!r}; accepted: a run of 'local'")
    if not same_clients(record.experiment, local.experiment):
        raise MotetError(
            f"{local.folder} has other clients than {record.folder}; accepted: a run of 'local' with the same "
            f"section [data] and the same seed"
        )


def _headline(record: Record) -> MetricName:
    headline = MetricName.read(record.summary.reported.figure)
    assert headline is not None
    return replace(headline, model=PERSONAL)  # Local has no model for new clients


def _pairs(record: Record, local: Record) -> dict[int, tuple[float, float]]:
    """Return each client's headline in the run and in the run of `local`, by client id."""
    headline = _headline(record)
    mine, alone = (_values(each, headline) for each in (record, local))
    return {client: (mine[client], alone[client]) for client in mine if client in alone}


def _values(record: Record, headline: MetricName) -> dict[int, float]:
    """Return each training client's headline in the reported round, without attackers if the headline is."""
    round, figure = record.summary.reported.round, replace(headline, statistic="", among="")
    left_out = {"new", "malicious"} if headline.among else {"new"}
    rows: list[Row] = [row for row in record.clients if row["round"] == round and not any(map(row.get, left_out))]
    return {row["client"]: value for row in rows if (value := figure.of(row)) is not None}
