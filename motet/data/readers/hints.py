"""What a user should know of a table before he believes a figure: columns that give the label away, or name clients.

All of it is told in sentences and changes nothing: whether a column is known before the label is, only people know.
"""

import re
import shlex
from collections.abc import Mapping, Sequence

import numpy as np

from motet.data.readers.cells import Floats
from motet.data.readers.raw import Integers
from motet.io.text import MOST_NAMED, listed, printable

_MOST_CELLS = 20_000_000
"""That are looked at: of a larger table, rows at equal distances."""
_MOST_COUNTS = 2_000_000
"""Of values and classes; what has more of them is no leak that anybody would see."""
_BINS, _LEAST = 64, 20
"""Of a measurement: so many pieces, of so many rows at least."""
_FEW_VALUES = 64
_FEW_ROWS = 5
"""Of a value, below which it tells of chance."""
_LEFT = 0.05
"""The share of the majority's mistakes that a column may leave to be said to tell the label."""
_LEAST_MISTAKES = 10
_CLIENTS = re.compile(
    r"(^|[\W_])(hospital|clinic|site|cent(er|re)|client|user|subject|patient|person|participant|customer|device|"
    r"sensor|station|school|store|shop|branch|bank|region|country|city|county|state|district|location|writer|speaker|"
    r"author|institution|organi[sz]ation|department|ward|team|household|lab|laborator(y|ies))s?([\W_]|[iI][dD]|$)",
    re.IGNORECASE,
)


def leaks(x: Floats, columns: Mapping[str, object], y: Integers, ids: Sequence[str]) -> list[str]:
    """Sentences about the columns that tell the label alone, by their values or by their holes, and about ids.

    Of each column of `x` in order: its categories, or None for numbers.
    """
    rows = _some_rows(x)
    seen, labels = x[rows], y[rows]
    wrong = len(labels) - np.bincount(labels).max()
    telling, empty = list[str](), list[str]()
    if wrong >= _LEAST_MISTAKES:
        for i, (name, categories) in enumerate(columns.items()):
            if _holes_tell(np.isnan(seen[:, i]), labels):
                empty.append(name)
            elif _mistakes(seen[:, i], labels, categories is not None) <= _LEFT * wrong:
                telling.append(name)
    known = "if it is not known before the label is, leave it out with --leave-out"
    return [
        *_named(telling, "alone tells the label almost perfectly", known),
        *_named(empty, "is empty for one class and filled for the others, which tells the label", known),
        *_named(ids, "has a different whole number in every row, as an id has", "leave it out with --leave-out"),
    ]


def may_name_clients(names: Sequence[str], x: Floats, left_out: Sequence[str]) -> tuple[str, ...]:
    """The columns whose name is that of a client and whose values come again and again."""
    found = [name for name in left_out if names_clients(name)]
    for i, name in enumerate(names):
        if names_clients(name):
            values = x[:, i][~np.isnan(x[:, i])]
            if 2 <= len(np.unique(values)) <= max(2, len(values) // 2):
                found.append(name)
    return tuple(found[:MOST_NAMED])


def names_clients(column: str) -> bool:
    """Whether a column is called as those are that say whose row it is."""
    return _CLIENTS.search(column) is not None


def _some_rows(x: Floats) -> slice:
    most = max(1_000, _MOST_CELLS // max(1, x.shape[1]))
    return slice(None, None, max(1, -(-len(x) // most)))


def _mistakes(column: Floats, labels: Integers, category: bool) -> int:
    """Return how many rows are wrong if each value of this column alone predicts its most frequent class."""
    there = ~np.isnan(column)
    values, place = np.unique(column[there], return_inverse=True)
    if len(values) > _FEW_VALUES and not category:  # a measurement, in pieces of equally many rows
        order = np.argsort(column[there], kind="stable")
        pieces = max(1, min(_BINS, len(order) // _LEAST))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order)) * pieces // max(1, len(order))
    groups = np.full(len(column), place.max(initial=-1) + 1)
    groups[there] = place
    sizes = np.bincount(groups)
    groups = np.where(sizes[groups] < _FEW_ROWS, len(sizes), groups)
    _, groups = np.unique(groups, return_inverse=True)
    classes = int(labels.max()) + 1
    if (groups.max() + 1) * classes > _MOST_COUNTS:
        return len(labels)
    counts = np.bincount(groups * classes + labels, minlength=(groups.max() + 1) * classes)
    return int(len(labels) - counts.reshape(-1, classes).max(axis=1).sum())


def _holes_tell(holes: np.ndarray, labels: Integers) -> bool:
    """Whether a column is empty for one class and no other, or filled for one and no other."""
    if not holes.any() or holes.all():
        return False
    sizes = np.bincount(labels)
    empty = np.bincount(labels[holes], minlength=len(sizes))
    known = sizes >= _FEW_ROWS
    share = empty[known] / sizes[known]
    clear = bool(((share <= _LEFT) | (share >= 1 - _LEFT)).all())
    return clear and len(share) > 1 and 1 in (int((share > 0.5).sum()), int((share < 0.5).sum()))


def _named(names: Sequence[str], what: str, question: str) -> list[str]:
    if not names:
        return []
    each = "column" if len(names) == 1 else "each of the columns"
    words = ",".join(printable(name) for name in names[:MOST_NAMED])
    return [f"possible leak: {each} {listed(names)} {what}: {question} {shlex.quote(words)}?"]
