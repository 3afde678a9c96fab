"""Pictures: what a method learned, as numbers that a report can draw; and what may be looked at to make them.

    heatmap   one series: rows of numbers, one row per tick of y, one number per tick of x
    lines     series of numbers, one per tick of x
    bars      the same
    points    one series of (x, y, group); `groups` has the groups' names

A number that is none is null. Pictures are small: see MOST.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from torch import Tensor

from motet.errors import MotetError, shown
from motet.messages.message import Message, State

FigureKind = Literal["heatmap", "lines", "bars", "points"]
Number = float | int | None
Tick = str | float | int

MOST = {"cells": 100, "ticks": 1000, "points": 1000, "series": 20, "text": 500, "figures_learned": 64}
"""Rows and columns of a heatmap; places along a line; and so on."""

DIGITS = 4  # that count, of every number

_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}")
_KEYS = ("name", "kind", "title", "see", "x", "y", "series", "groups")


@dataclass(frozen=True)
class Axis:
    """What it counts, and the places along it: names or numbers."""

    label: str = ""
    ticks: tuple[Tick, ...] = ()


@dataclass(frozen=True)
class FigureSeries:
    """Named values: numbers, rows of numbers, or points."""

    name: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class LearnedFigure:
    """One picture; `see` is a sentence that says what to see in it."""

    name: str
    kind: FigureKind
    title: str
    see: str
    x: Axis = Axis()
    y: Axis = Axis()
    series: tuple[FigureSeries, ...] = ()
    groups: tuple[str, ...] = ()

    # ------------------------------------------------------------ making one

    @classmethod
    def heatmap(
        cls, name: str, title: str, see: str, rows: Tensor | Sequence[Sequence[Number]], *, x: Axis, y: Axis
    ) -> "LearnedFigure":
        """A table of numbers as colours. Of more than a hundred rows or columns the first hundred are shown."""
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
        """Numbers along an axis. Of very many places along it only every so many are kept."""
        step = -(-len(x.ticks) // MOST["ticks"]) or 1
        kept = tuple(FigureSeries(which, _numbers(values[::step])) for which, values in series.items())
        return cls(name, "lines", title, see, Axis(x.label, tuple(x.ticks[::step])), Axis(y), kept)

    @classmethod
    def bars(
        cls, name: str, title: str, see: str, series: Mapping[str, Sequence[Number]], *, x: Axis, y: str
    ) -> "LearnedFigure":
        """A number for each of several names. Of more than a hundred the first hundred are shown."""
        most = MOST["cells"]
        see = f"{see} (The first {most} are shown.)" if len(x.ticks) > most else see
        kept = tuple(FigureSeries(which, _numbers(values[:most])) for which, values in series.items())
        return cls(name, "bars", title, see, Axis(x.label, tuple(x.ticks[:most])), Axis(y), kept)

    @classmethod
    def points(
        cls, name: str, title: str, see: str, at: Tensor, group: Sequence[int], groups: Sequence[str]
    ) -> "LearnedFigure":
        """Points of a plane in groups."""
        values = tuple((*_numbers(place), int(g)) for place, g in zip(at.tolist(), group, strict=True))
        return cls(
            name, "points", title, see, series=(FigureSeries(title, values[: MOST["points"]]),), groups=tuple(groups)
        )

    # ------------------------------------------------------------ as plain values, and back

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        values = asdict(self)
        if self.kind != "points":
            del values["groups"]
        return values

    @classmethod
    def read(cls, values: object) -> "LearnedFigure":
        """The picture of these plain values; one sentence where they are none."""
        if not isinstance(values, Mapping) or not set(values) <= set(_KEYS):
            raise MotetError(f"a picture is {shown(values)}; accepted: {', '.join(_KEYS)}")
        try:
            x, y = (Axis(values[axis]["label"], _listed(values[axis]["ticks"])) for axis in "xy")
            made = cls(
                values["name"],
                values["kind"],
                values["title"],
                values["see"],
                x,
                y,
                tuple(FigureSeries(each["name"], _listed(each["values"])) for each in _listed(values["series"])),
                _listed(values.get("groups", ())),
            )
        except (KeyError, TypeError) as error:
            raise MotetError(f"a picture lacks {shown(str(error))}; accepted: what Motet writes") from None
        if wrong := made.wrong():
            raise MotetError(f"picture {shown(made.name)} has {wrong}")
        return made

    def wrong(self) -> str | None:
        """What about it cannot be drawn; None if nothing."""
        texts = (self.title, self.see, self.x.label, self.y.label, *(s.name for s in self.series), *self.groups)
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            return f"the name {shown(self.name)}; accepted: small letters, digits, dots and hyphens"
        if self.kind not in get_args(FigureKind):
            return f"the kind {shown(self.kind)}; accepted: {', '.join(get_args(FigureKind))}"
        for text in texts:
            if not isinstance(text, str) or len(text) > MOST["text"]:
                return f"a text {shown(text)}; accepted: up to {MOST['text']} characters"
        for tick in (*self.x.ticks, *self.y.ticks):
            if not (isinstance(tick, str) and len(tick) <= MOST["text"]) and not (
                _is_number(tick) and tick is not None
            ):
                return f"a tick {shown(tick)}; accepted: names and finite numbers"
        if not self.title or not self.see:
            return "no title or nothing to see; accepted: a title, and a sentence that says what to see"
        if not self.series or len(self.series) > MOST["series"]:
            return f"{len(self.series)} series; accepted: 1 to {MOST['series']}"
        return {"heatmap": self._wrong_table, "points": self._wrong_points}.get(self.kind, self._wrong_lines)()

    def _wrong_table(self) -> str | None:
        rows, most = self.series[0].values, MOST["cells"]
        if len(self.series) > 1 or len(rows) != len(self.y.ticks) or len(rows) > most:
            return f"{len(rows)} rows for {len(self.y.ticks)} ticks of y; accepted: one series, up to {most}, as many"
        if (
            not rows
            or len(self.x.ticks) > most
            or not all(isinstance(r, tuple) and len(r) == len(self.x.ticks) for r in rows)
        ):
            return f"rows that do not fit {len(self.x.ticks)} ticks of x; accepted: up to {most}, one number each"
        return None if all(map(_is_number, (v for row in rows for v in row))) else _NO_NUMBER

    def _wrong_lines(self) -> str | None:
        if len(self.x.ticks) > MOST["ticks"] or any(len(s.values) != len(self.x.ticks) for s in self.series):
            return f"values that do not fit {len(self.x.ticks)} ticks of x; accepted: up to {MOST['ticks']}, as many"
        return None if all(map(_is_number, (v for s in self.series for v in s.values))) else _NO_NUMBER

    def _wrong_points(self) -> str | None:
        points = self.series[0].values
        if len(self.series) > 1 or len(points) > MOST["points"]:
            return f"{len(points)} points; accepted: one series, up to {MOST['points']}"
        if not all(isinstance(p, tuple) and len(p) == 3 and all(map(_is_number, p[:2])) for p in points):
            return "a point that is none; accepted: x, y and the number of its group"
        if not all(type(p[2]) is int and 0 <= p[2] < len(self.groups) for p in points):
            return f"a point outside its groups; accepted: 0 to {len(self.groups) - 1}"
        return None


_NO_NUMBER = "a value that is no number; accepted: finite numbers and null"


@dataclass(frozen=True)
class Learned:
    """What a method may look at after the last round: the server's memory, the record, what clients handed over."""

    server: State
    names: Mapping[int, str]  # of the training clients, in the order of their ids
    snapshots: Mapping[int, Message] = field(default_factory=dict)  # of clients that gave one
    rows: Sequence[Mapping[str, Any]] = ()  # of rounds.jsonl
    members: Mapping[str, float] = field(default_factory=dict)  # mean accuracy of each of the method's family
    seed: int = 0

    def clients(self, label: str = "client") -> Axis:
        """An axis of all training clients."""
        return Axis(label, tuple(self.names.values()))

    def clients_with_snapshot(self, label: str = "client") -> Axis:
        """An axis of the clients that gave a snapshot."""
        return Axis(label, tuple(self.names[i] for i in self.snapshots))

    def over_rounds(self, *columns: str) -> tuple[Axis, list[list[Number]]]:
        """The rounds that have these columns of the record, and their values."""
        rows = [row for row in self.rows if all(_is_number(row.get(c)) and row.get(c) is not None for c in columns)]
        return Axis("round", tuple(row["round"] for row in rows)), [[row[c] for row in rows] for c in columns]


def _numbers(values: Iterable[Number]) -> tuple[Number, ...]:
    """With so many digits; null for what is not finite."""
    finite = (None if v is None or not math.isfinite(v) else v for v in values)
    return tuple(None if v is None else float(f"{v:.{DIGITS}g}") for v in finite)


def _is_number(value: object) -> bool:
    if isinstance(value, bool):
        return False
    return value is None or (isinstance(value, int | float) and math.isfinite(value))


def _listed(values: object) -> tuple[Any, ...]:
    """A list, and lists in it, as tuples."""
    if not isinstance(values, list | tuple):
        raise TypeError("a list")
    return tuple(_listed(value) if isinstance(value, list | tuple) else value for value in values)
