"""Dates as they stand in tables, as days since 2000-01-01: 2020-12-31, 31.12.2020 8:30, 12/31/2020, 31 Dec 2020."""

import datetime
import math
import re
from collections.abc import Iterable
from typing import Any

from motet.config.data_section import Dates
from motet.data.schema import Order
from motet.errors import MotetError, shown

ORDERS: tuple[Order, ...] = ("ymd", "dmy", "mdy")
_ORIGIN = datetime.date(2000, 1, 1).toordinal()
_DAY = 86_400.0
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_SIGN = r"(?:\s*[-/.,]\s*|\s+)"
_PART = r"(\d{1,4}|[A-Za-z]{3,9})\.?"
_DATE = re.compile(
    rf"{_PART}{_SIGN}{_PART}{_SIGN}(\d{{1,4}})"
    r"(?:[T\s,]\s*(\d{1,2}):(\d{2})(?::(\d{2}(?:[.,]\d{1,9})?))?\s*([AaPp][Mm])?\s*(Z|UTC|[+-]\d{2}:?\d{2})?)?",
    re.ASCII,
)


def days_of(text: str, order: Order) -> float:
    """Return the days of a date in text; raise `ValueError` for what is none, or none in this order.

    A date that begins with a year of four digits, or that has its month in letters, is read as it stands.
    """
    found = _DATE.fullmatch(text.strip())
    if found is None:
        raise ValueError("no date")
    first, second, third, hours, minutes, seconds, half, zone = found.groups()
    year, month, day = _parts(first, second, third, order)
    whole = datetime.date(year, month, day).toordinal() - _ORIGIN
    if hours is None:
        return float(whole)
    hour, minute, second_of = int(hours), int(minutes), float((seconds or "0").replace(",", "."))
    if half is not None:
        if not 1 <= hour <= 12:
            raise ValueError("no hour")
        hour = hour % 12 + (12 if half.lower() == "pm" else 0)
    if hour > 23 or minute > 59 or second_of >= 61:
        raise ValueError("no time")
    return whole + (3600 * hour + 60 * minute + second_of - _offset(zone)) / _DAY


def days_of_value(value: Any, order: Order) -> float:
    """Return the days of a date as Python, NumPy or pandas has it, of a text, or of a number of days."""
    if isinstance(value, str):
        return days_of(value, order)
    if isinstance(value, datetime.datetime):  # pandas' time stamps too
        moment = value if value.tzinfo is None else value.astimezone(datetime.UTC)
        clock = datetime.timedelta(
            hours=moment.hour, minutes=moment.minute, seconds=moment.second, microseconds=moment.microsecond
        )
        return moment.toordinal() - _ORIGIN + clock.total_seconds() / _DAY
    if isinstance(value, datetime.date):
        return float(value.toordinal() - _ORIGIN)
    if hasattr(value, "astype") and getattr(getattr(value, "dtype", None), "kind", "") == "M":
        return float(value.astype("datetime64[us]").astype("int64")) / (1e6 * _DAY) - _EPOCH
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("no date")
    return number


_EPOCH = float(_ORIGIN - datetime.date(1970, 1, 1).toordinal())


def days_of_arrow(column: Any) -> Any:
    """Return a column of Arrow's dates or time stamps as days, with NaN for what is missing."""
    from motet.data.readers.cells import compute, pa

    moments = compute.cast(compute.cast(column, pa.timestamp("us"), safe=False), pa.int64())
    return compute.cast(moments, pa.float64(), safe=False).to_numpy(zero_copy_only=False) / (1e6 * _DAY) - _EPOCH


def order_of(texts: Iterable[str], given: Dates, column: str, where: str) -> Order | None:
    """Return the order in which all these texts are dates; None if they are no dates, or of several orders.

    Texts such as 03/04/2020 alone are refused: `given` (data.dates) says whether their day or month comes first.
    """
    values = list(texts)
    if not values:
        return None
    fitting = [order for order in ORDERS if all(is_date(text, order) for text in values)]
    if not fitting:
        return None
    if given != "auto" and given in fitting:
        return given
    if len(fitting) == 1 or "ymd" in fitting:
        return fitting[0]
    if all("." in text for text in values):  # nobody writes the month first with points
        return "dmy"
    if all(days_of(text, "dmy") == days_of(text, "mdy") for text in values):
        return "dmy"
    raise MotetError(
        f"{where}: column {shown(column)} holds {shown(values[0])}, a date whose day or month comes first; accepted: "
        f"--dates dmy or --dates mdy (data.dates), or --leave-out {column}"
    )


def is_date(text: str, order: Order) -> bool:
    """Return whether a text is a date in this order."""
    try:
        days_of(text, order)
    except ValueError:
        return False
    return True


def _parts(first: str, second: str, third: str, order: Order) -> tuple[int, int, int]:
    """Return year, month and day."""
    named = [part for part in (first, second) if not part.isdigit()]
    if len(named) == 2:
        raise ValueError("two months")
    if named:
        month = _MONTHS.index(named[0][:3].lower()) + 1
        other = second if named[0] == first else first
        return (int(other), month, int(third)) if len(other) == 4 else (_year(third), month, int(other))
    if len(first) == 4:
        return int(first), int(second), int(third)
    if order == "ymd":
        raise ValueError("no year of four digits")
    return (_year(third), int(second), int(first)) if order == "dmy" else (_year(third), int(first), int(second))


def _year(text: str) -> int:
    if len(text) != 4:
        raise ValueError("no year of four digits")
    return int(text)


def _offset(zone: str | None) -> float:
    """Return by how many seconds a zone is ahead of UTC."""
    if zone is None or zone in ("Z", "UTC"):
        return 0.0
    digits = zone[1:].replace(":", "")
    return (-1 if zone[0] == "-" else 1) * (3600.0 * int(digits[:2]) + 60.0 * int(digits[2:]))
