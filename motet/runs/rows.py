"""The lines of rounds.jsonl and clients.jsonl.

A line is written and read through one model, and is a dictionary in between: most of its columns are metrics, whose
names (`motet/metrics/names.py`) depend on the method and the metrics of the run.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NotRequired

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from motet.config.section import LARGEST_COUNT
from motet.errors import MotetError
from motet.io.json_models import LARGEST_NUMBER, Count, Number, Text, damaged, first_fault, plain, to_json
from motet.metrics.names import is_scored

Row = dict[str, Any]
"""A line in memory: `RoundLine` or `ClientLine`, with a column for each metric."""

Round = Annotated[int, Field(ge=0, le=LARGEST_COUNT)]
ClientId = Annotated[int, Field(ge=-1, lt=10**12)]  # the pooled client is number -1
ClientKey = Annotated[str, Field(pattern=r"^(-1|[0-9]{1,12})$")]
Column = Number | bool | None
"""The value of any other column: a metric (a number or null), or a flag such as `generic.derived`."""

_LINE = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)


@with_config(_LINE)
class RoundLine(TypedDict, extra_items=Column):  # type: ignore[call-arg]  # PEP 728, which mypy does not know yet
    """One round: its cohort, bytes and seconds, then metrics and the method's diagnostics."""

    round: Round
    cohort: list[ClientId]
    set_aside: dict[ClientKey, Text]
    bytes_down: Number | None
    bytes_up: Number | None
    seconds: Number
    train_seconds: NotRequired[Number]
    checkpoint_seconds: NotRequired[Number]
    lr: NotRequired[Number | None]
    train_loss: NotRequired[Number | None]
    train_losses: NotRequired[list[Number | None]]
    family_rule: NotRequired[Text]
    family_chosen: NotRequired[dict[Text, Count]]


@with_config(_LINE)
class ClientLine(TypedDict, extra_items=Column):  # type: ignore[call-arg]
    """One client in one evaluation: its metrics, or why it was set aside."""

    round: Round
    client: ClientId
    new: bool
    set_aside: Text | None
    malicious: NotRequired[bool]


class LineFormat:
    """Writes and reads one kind of line through its model."""

    def __init__(self, model: type):
        self._model: TypeAdapter[Any] = TypeAdapter(model)

    def read(self, line: bytes, where: str) -> Row:
        """Return the row of a line; raise `MotetError`, which names the line by `where`, if it is damaged."""
        try:
            row: Row = self._model.validate_json(line)
        except ValidationError as error:
            raise damaged(error, where) from None
        return row

    def written(self, row: Mapping[str, Any], where: str) -> str:
        """Return the line of a row; numbers that are not finite or too large become null. Raise for an invalid row."""
        values = {name: _within(value) for name, value in plain(row).items()}
        try:
            self._model.validate_python(values)
        except ValidationError as error:
            raise MotetError(f"cannot write {where}: {first_fault(error)}") from None
        return to_json(values) + "\n"


ROUND, CLIENT = LineFormat(RoundLine), LineFormat(ClientLine)
ROUND_COLUMNS = frozenset(RoundLine.__annotations__)
"""The columns of rounds.jsonl that are not metrics."""


def _within(value: Any) -> Any:
    return None if isinstance(value, float) and abs(value) > LARGEST_NUMBER else value


def refuse_gaps(rows: Sequence[Row], done: int, last: int, folder: Path) -> None:
    """Raise if a run with a checkpoint of round `done` of `last` lacks rows of rounds up to there."""
    if done > last:
        raise MotetError(f"the checkpoint in {folder} is of round {done}; accepted: up to the {last} of the experiment")
    if [row["round"] for row in rows] not in ([*range(1, done + 1)], [*range(done + 1)]):
        raise MotetError(
            f"{folder / 'rounds.jsonl'} lacks rounds; accepted: those up to {done}, as its checkpoint says"
        )
    if done == last and not is_scored(rows[-1]):
        raise MotetError(f"{folder / 'rounds.jsonl'}: the last round has no scores")
