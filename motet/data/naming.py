"""Names in a sentence: some of them as they are, the others counted."""

from collections.abc import Iterable

from motet.errors import shown

MOST_NAMED = 8


def listed(names: Iterable[str]) -> str:
    """The first names in quotation marks, and how many more there are."""
    return some(list(map(shown, names)))


def some(words: list[str]) -> str:
    """The first of several words, and how many more there are."""
    more = f" and {len(words) - MOST_NAMED:,} more" if len(words) > MOST_NAMED else ""
    return ", ".join(words[:MOST_NAMED]) + more
