"""What the lines and the summary of a record may say: whoever reads them may count on these types.

Only what Motet itself reads is checked. A figure that is no number reads as none (`MetricName.of`).
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast, get_args

from motet.config.scoring_section import ScoringSettings
from motet.config.section import LARGEST_COUNT
from motet.errors import MotetError
from motet.metrics.names import MetricName, is_scored

LARGEST = 1e100
"""Of numbers: whatever a net in 32 bits tells is less, and sums and squares of such are finite."""

Row = dict[str, Any]
Check = Callable[[object], bool]


def _count(value: object) -> bool:
    return type(value) is int and 0 <= value <= LARGEST_COUNT


def _whole(value: object) -> bool:
    return type(value) is int


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST


def _number_or_none(value: object) -> bool:
    return value is None or _number(value)


def _truth(value: object) -> bool:
    return isinstance(value, bool)


def _text(value: object) -> bool:
    return isinstance(value, str)


def _text_or_none(value: object) -> bool:
    return value is None or isinstance(value, str)


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_text, value))


def _ids(value: object) -> bool:
    return isinstance(value, list) and all(map(_whole, value))


def _losses(value: object) -> bool:
    return isinstance(value, list) and all(map(_number_or_none, value))


def _reasons(value: object) -> bool:
    return isinstance(value, dict) and all(_whole_text(k) and isinstance(v, str) for k, v in value.items())


def _whole_text(value: str) -> bool:
    return value.removeprefix("-").isdecimal() and len(value) < 13


def _tree(value: object) -> bool:
    """Figures, and dictionaries of such."""
    return all(map(_tree, value.values())) if isinstance(value, dict) else isinstance(value, int | float | None)


def _figures(value: object) -> bool:
    return isinstance(value, dict) and all(map(_number, value.values()))


def _section(**fields: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(k in value and fits(value[k]) for k, fits in fields.items())


def _branch(value: object) -> bool:
    return isinstance(value, dict) and _tree(value)


def _headline(value: object) -> bool:
    figure = MetricName.read(value) if isinstance(value, str) else None
    return figure is not None and figure.data != "common"


def _chosen(field: str) -> Check:
    """What a field of [scoring] may be."""
    words = get_args(ScoringSettings.model_fields[field].annotation)
    return lambda value: isinstance(value, str) and value in words


def _reported(value: object) -> bool:
    """The weighting is of newer Motets."""
    needed = _section(rule=_chosen("report"), round=_count, figure=_headline)
    return needed(value) and _chosen("client_weighting")(cast(Row, value).get("client_weighting", "uniform"))


ROUND: dict[str, Check] = {
    "round": _count,
    "cohort": _ids,
    "set_aside": _reasons,
    "bytes_down": _number_or_none,
    "bytes_up": _number_or_none,
    "lr": _number_or_none,
    "train_loss": _number_or_none,
    "train_losses": _losses,
    "seconds": _number,
    "train_seconds": _number,
    "checkpoint_seconds": _number,
}
CLIENT: dict[str, Check] = {"round": _count, "client": _whole, "new": _truth, "set_aside": _text_or_none}
SUMMARY: dict[str, Check] = {
    "method": _text,
    "data": _text,
    "reported": _reported,
    "generic": _section(accuracy=_number_or_none, derived=_truth),
    "personal": _branch,
    "new_clients": _branch,
    "figures": _figures,
    "bytes_per_round": _section(down=_number_or_none, up=_number_or_none),
    "set_aside": _count,
    "seconds": _number,
}
_IF_THERE: dict[str, Check] = {"notes": _texts, "data_notes": _texts, "warnings": _texts, "training": _figures}
"""Of a summary; an older Motet wrote none."""
SUMMARY_TOO = (*_IF_THERE, "partition", "protocol", "seed", "rounds", "diverged", "tells")  # which nobody counts on
_NEEDED_TO_SUM_UP = ("round", "set_aside", "bytes_down", "bytes_up", "seconds")


def checked_row(row: Row, known: Mapping[str, Check], where: str) -> Row:
    """The row, if what it has of the known columns is of their type."""
    for name, fits in known.items():
        if name in row and not fits(row[name]):
            raise MotetError(f"{where} is damaged: {name!r} is {_cut(row[name])}")
    return row


def checked_summary(summary: Row, folder: Path) -> Row:
    """The summary, if it has all that tables and results read of it."""
    for name, fits in SUMMARY.items():
        if name not in summary:
            raise MotetError(f"the summary of run {folder} is of an older Motet and has no {name}; run it anew")
        if not fits(summary[name]):
            raise MotetError(f"the summary of run {folder} is damaged: {name!r} is {_cut(summary[name])}")
    return checked_row(summary, _IF_THERE, f"the summary of run {folder}")


def refuse_gaps(rows: Sequence[Row], done: int, last: int, folder: Path) -> None:
    """Whether a run that stands at round `done` of `last` has the rows to go on with."""
    rounds = [row.get("round") for row in rows]
    if done > last:
        raise MotetError(f"the checkpoint in {folder} is of round {done}; accepted: up to the {last} of the experiment")
    if rounds not in ([*range(1, done + 1)], [*range(done + 1)]):
        raise MotetError(
            f"{folder / 'rounds.jsonl'} lacks rounds; accepted: those up to {done}, as its checkpoint says"
        )
    for row in rows:
        for name in _NEEDED_TO_SUM_UP:
            if name not in row:
                raise MotetError(f"{folder / 'rounds.jsonl'}: round {row['round']} has no {name!r}")
    if done == last and not is_scored(rows[-1]):
        raise MotetError(f"{folder / 'rounds.jsonl'}: the last round has no scores")


def _cut(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]} …"
