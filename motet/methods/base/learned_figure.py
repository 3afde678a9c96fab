"""Figures of what a method learned, as numbers that a report can draw, and the data that a method may use to make them.

    heatmap   one series: rows of numbers, one row per tick of y, one number per tick of x
    lines     series of numbers, one per tick of x
    bars      the same
    points    one series of (x, y, group); `groups` has the groups' names

A missing or non-finite number is null. Figures are small: MOST has the limits.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from torch import Tensor

from motet.errors import MotetError, shown
from motet.io.json_models import first_fault, loads, to_json
from motet.messages.message import Message, State

MOST = {"cells": 100, "ticks": 1000, "points": 1000, "series": 20, "text": 500, "figures_learned": 64}
"""Upper limits. `cells` holds for rows and columns of a heatmap and for bars, `ticks` for the points of a line."""
LARGEST = 10**12  # the largest number that an axis can show
DIGITS = 4  # significant digits that are kept of every number

FigureKind = Literal["heatmap", "lines", "bars", "points"]
FigureName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,63}$")]
Label = Annotated[str, Field(max_length=MOST["text"])]
Sentence = Annotated[str, Field(min_length=1, max_length=MOST["text"])]
Shown = Annotated[int, Field(ge=-LARGEST, le=LARGEST)] | Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
Number = Shown | None
Tick = Label | Shown
NumberRow = Annotated[tuple[Number, ...], Field(max_length=MOST["cells"])]

_CONFIG = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True)
class Axis:
    """An axis of a figure: what it counts, and its ticks, which are names or numbers."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG

    label: Label = ""
    ticks: Annotated[tuple[Tick, ...], Field(max_length=MOST["ticks"])] = ()


@dataclass(frozen=True)
class FigureSeries:
    """Values with a name: numbers, rows of numbers, or points."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG

    name: Label
    values: Annotated[tuple[Number | NumberRow, ...], Field(max_length=MOST["ticks"])]

    @property
    def numbers(self) -> list[Number]:
        """Return the values of a line or of bars."""
        return [value for value in self.values if not isinstance(value, tuple)]

    @property
    def rows(self) -> list[NumberRow]:
        """Return the rows of a heatmap, or the points."""
        return [value for value in self.values if isinstance(value, tuple)]


@dataclass(frozen=True)
class LearnedFigure:
    """One figure of what a method learned; `see` is a sentence that tells the reader what to look for.

    This is also the model of a figure in figures_learned.json. Figures that a method makes and figures from a file pass
    the same checks, in `read`.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG

    name: FigureName
    kind: FigureKind
    title: Sentence
    see: Sentence
    x: Axis = Axis()
    y: Axis = Axis()
    series: Annotated[
        tuple[FigureSeries, ...], Field(min_length=1, max_length=MOST["series"], validate_default=True)
    ] = ()
    groups: Annotated[tuple[Label, ...], Field(max_length=MOST["points"])] = ()

    # ------------------------------------------------------------ constructors

    @classmethod
    def heatmap(
        cls, name: str, title: str, see: str, rows: Tensor | Sequence[Sequence[Number]], *, x: Axis, y: Axis
    ) -> "LearnedFigure":
        """Return a table of numbers shown as colours; at most the first hundred rows and columns are kept."""
        most = MOST["cells"]
        some = rows[:most, :most].tolist() if isinstance(rows, Tensor) else rows[:most]  # a tensor may be huge
        cut = [_numbers(row[:most]) for row in some]
        if max(len(x.ticks), len(y.ticks)) > most:
            see = f"{see} (The first {most} are shown.)"
        x, y = Axis(x.label, tuple(x.ticks[:most])), Axis(y.label, tuple(y.ticks[:most]))
        return cls(name, "heatmap", title, see, x, y, (FigureSeries(title, tuple(cut)),))

    @classmethod
    def lines(
        cls, name: str, title: str, see: str, series: Mapping[str, Sequence[Number]], *, x: Axis, y: str
    ) -> "LearnedFigure":
        """Return lines of numbers along an axis; where there are too many ticks, only every n-th is kept."""
        step = -(-len(x.ticks) // MOST["ticks"]) or 1
        kept = tuple(FigureSeries(which, _numbers(values[::step])) for which, values in series.items())
        return cls(name, "lines", title, see, Axis(x.label, tuple(x.ticks[::step])), Axis(y), kept)

    @classmethod
    def bars(
        cls, name: str, title: str, see: str, series: Mapping[str, Sequence[Number]], *, x: Axis, y: str
    ) -> "LearnedFigure":
        """Return a bar for each of several names; at most the first hundred are kept."""
        most = MOST["cells"]
        see = f"{see} (The first {most} are shown.)" if len(x.ticks) > most else see
        kept = tuple(FigureSeries(which, _numbers(values[:most])) for which, values in series.items())
        return cls(name, "bars", title, see, Axis(x.label, tuple(x.ticks[:most])), Axis(y), kept)

    @classmethod
    def points(
        cls, name: str, title: str, see: str, at: Tensor, group: Sequence[int], groups: Sequence[str]
    ) -> "LearnedFigure":
        """Return points of a plane, each of which belongs to a group."""
        values = tuple((*_numbers(place), int(g)) for place, g in zip(at.tolist(), group, strict=True))
        return cls(
            name, "points", title, see, series=(FigureSeries(title, values[: MOST["points"]]),), groups=tuple(groups)
        )

    # ------------------------------------------------------------ to plain values and back

    def plain(self) -> dict[str, Any]:
        """Return the figure as plain values for JSON."""
        values = asdict(self)
        if self.kind != "points":
            del values["groups"]
        return values

    @classmethod
    def read(cls, values: object) -> "LearnedFigure":
        """Return the figure that these plain values describe, or raise a MotetError if they describe none."""
        try:
            return _MODEL.validate_json(to_json(values))
        except ValidationError as error:
            name = values.get("name") if isinstance(values, Mapping) else values
            raise MotetError(f"picture {shown(name)} cannot be drawn: {first_fault(error)}") from None

    @model_validator(mode="after")
    def _fits(self) -> "LearnedFigure":
        """Raise ValueError where the values do not fit the axes or the groups of points."""
        first, ticks = self.series[0], len(self.x.ticks)
        if self.kind in ("heatmap", "points") and (len(self.series) > 1 or len(first.rows) != len(first.values)):
            raise ValueError(f"a picture of {self.kind} has one series of rows")
        if self.kind == "heatmap":
            if len(first.rows) not in range(1, MOST["cells"] + 1) or len(first.rows) != len(self.y.ticks):
                raise ValueError(f"1 to {MOST['cells']} rows, as many as ticks of y")
            if not ticks or any(len(row) != ticks for row in first.rows):
                raise ValueError("as many numbers in each row as ticks of x")
        elif self.kind == "points":
            if not all(len(p) == 3 and type(p[2]) is int and 0 <= p[2] < len(self.groups) for p in first.rows):
                raise ValueError("points of x, y and the number of a group")
        elif any(len(each.numbers) != len(each.values) or len(each.values) != ticks for each in self.series):
            raise ValueError("as many numbers in each series as ticks of x")
        elif self.kind == "bars" and ticks > MOST["cells"]:
            raise ValueError(f"up to {MOST['cells']} bars")
        return self


_MODEL = TypeAdapter(LearnedFigure)


# -------- The file figures_learned.json of a run


def figures_to_json(figures: Sequence[LearnedFigure]) -> bytes:
    """Return the bytes of the file, with one figure per line."""
    lines = ",\n".join(to_json(figure.plain()) for figure in figures[: MOST["figures_learned"]])
    return f"[\n{lines}\n]\n".encode()


def values_from_json(data: bytes, where: str) -> list[object]:
    """Return the figures of a file as plain values, each to be read by `LearnedFigure.read`."""
    try:
        values = loads(data)
    except ValueError:
        values = None
    if not isinstance(values, list) or len(values) > MOST["figures_learned"]:
        raise MotetError(f"{where} is damaged; accepted: a list of up to {MOST['figures_learned']} pictures")
    return values


def figures_from_json(data: bytes, where: str) -> list[LearnedFigure]:
    """Return the figures of a file, or raise a MotetError if one of them cannot be drawn."""
    try:
        return [LearnedFigure.read(value) for value in values_from_json(data, where)]
    except MotetError as error:
        text = str(error)
        raise MotetError(text if text.startswith(where) else f"{where} is damaged: {text}") from None


# -------- The data from which a method makes its figures


@dataclass(frozen=True)
class Learned:
    """What a method may use for its figures after the last round: server state, record and clients' snapshots."""

    server: State
    names: Mapping[int, str]  # names of the training clients, in the order of their ids
    snapshots: Mapping[int, Message] = field(default_factory=dict)  # by client id, of the clients that gave one
    rows: Sequence[Mapping[str, Any]] = ()  # the rows of rounds.jsonl
    members: Mapping[str, float] = field(default_factory=dict)  # mean accuracy of each of the method's family
    seed: int = 0
    samples: Mapping[int, int] = field(default_factory=dict)  # n_i of the training clients

    def clients(self, label: str = "client") -> Axis:
        """Return an axis of all training clients."""
        return Axis(label, tuple(self.names.values()))

    def clients_with_snapshot(self, label: str = "client") -> Axis:
        """Return an axis of the clients that gave a snapshot."""
        return Axis(label, tuple(self.names[i] for i in self.snapshots))

    def over_rounds(self, *columns: str) -> tuple[Axis, list[list[Number]]]:
        """Return the rounds in which the record has all of these columns, and the columns' values in them."""
        rows = [row for row in self.rows if all(_is_number(row.get(c)) for c in columns)]
        return Axis("round", tuple(row["round"] for row in rows)), [[row[c] for row in rows] for c in columns]


def _numbers(values: Iterable[Number]) -> tuple[Number, ...]:
    """Return the values rounded to DIGITS digits; None for what is not finite or larger than an axis can show."""
    finite = (None if v is None or not abs(v) <= LARGEST else v for v in values)
    return tuple(None if v is None else float(f"{v:.{DIGITS}g}") for v in finite)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
