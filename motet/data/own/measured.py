"""Labels that are measurements: as classes they teach nothing, and every figure about them would mislead."""

from collections.abc import Sequence

from motet.data.own.notation import numbers_among
from motet.errors import MotetError, shown

FEW = 10
"""Rows, or names, from which on something may be said of all."""
_ROWS_EACH = 10
"""Of a class, on average, that whole numbers need to be classes where there are many of them."""
_MANY = 20
_GAPS = 0.25
"""Of codes of classes that many rows share: those that no row of these data has."""


def refuse_measurements(classes: Sequence[str], rows: int, column: str) -> None:
    """Refuse names of classes that are numbers of many values, or that hardly any two rows share.

    `column` begins the sentence: the file and the column.
    """
    numbers = numbers_among(classes)
    fractions = [name for name in numbers if not name.strip().lstrip("+-").isdecimal()]
    numeric = 2 * len(numbers) > len(classes)
    measured = numeric and len(classes) > FEW and 4 * len(fractions) > len(classes)
    gaps = 0.0 if _ROWS_EACH * len(classes) > rows else _GAPS
    counted = numeric and len(classes) > _MANY and not _are_codes(classes, gaps)
    if measured or counted:
        raise MotetError(
            f"{column} holds {len(classes)} different numbers such as {shown(numbers[-1])} in {rows} rows, which is a "
            f"measurement; accepted: classes that many rows share (regression is not there yet), so put the numbers "
            f"into groups"
        )
    if len(classes) > FEW and (len(classes) == rows or (len(classes) > _MANY and 2 * len(classes) > rows)):
        raise MotetError(
            f"{column} holds {len(classes)} different values such as {shown(classes[-1])} in {rows} rows; accepted: "
            f"classes, of which rows have some in common"
        )


def _are_codes(classes: Sequence[str], gaps: float) -> bool:
    """Whether names are the numbers from 0 or 1 on, as those of classes are and those of measurements hardly; this
    share of them may be missing."""
    if not all(name.isdecimal() and len(name) < 10 for name in classes):
        return False
    numbers = sorted(map(int, classes))
    return numbers[0] in (0, 1) and (1 - gaps) * (numbers[-1] - numbers[0]) <= len(numbers) - 1
