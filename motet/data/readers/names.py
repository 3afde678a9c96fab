"""The names in a column of text, as numbers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from motet.data.readers.raw import Integers
from motet.data.readers.values import MISSING, name_of

# ------------------------------------------------------------ The names in a column of text, as numbers


NO_NAME, MISSING_NAME = -1, -2
"""A name that is not on the list; no name at all."""


class Names:
    """A list of names that grows as they are met, up to so many; or one that was given and stays."""

    def __init__(self, most: int, given: Sequence[str] | None = None):
        self.numbers = {name: number for number, name in enumerate(given or ())}
        self.most, self.grows = most, given is None
        self.too_many = False
        self.refused: str | None = None
        """The first name that was not on a list that stays."""

    def read(self, texts: Any) -> Integers:
        """The number of each text of a column of Arrow's; texts that only blanks tell apart are one."""
        encoded = texts.dictionary_encode()
        numbers = [self._number(text) for text in encoded.dictionary.to_pylist()]
        table = np.array([*numbers, MISSING_NAME], np.int64)
        numbered: Integers = table[encoded.indices.fill_null(len(numbers)).to_numpy(zero_copy_only=False)]
        return numbered

    def sorted(self) -> tuple[tuple[str, ...], Integers]:
        """The names in their order, numbers by value and text by the alphabet, and the place of each old number."""
        if not self.grows:
            return tuple(self.numbers), np.arange(len(self.numbers))
        names = list(self.numbers)
        order = sorted(range(len(names)), key=lambda i: names[i])
        if all(name.removeprefix("-").isdecimal() and len(name) < 20 for name in names):
            order.sort(key=lambda i: int(names[i]))
        places = np.empty(len(names), np.int64)
        places[order] = np.arange(len(names))
        return tuple(names[i] for i in order), places

    def _number(self, text: str | None) -> int:
        name = None if text is None else name_of(text.strip())
        if name is None or name in MISSING:
            return MISSING_NAME
        if name in self.numbers:
            return self.numbers[name]
        if not self.grows:
            self.refused = self.refused or name
            return NO_NAME
        if len(self.numbers) >= self.most:
            self.too_many = True
            return NO_NAME
        self.numbers[name] = len(self.numbers)
        return self.numbers[name]
