"""Texts as rows of tokens: words or characters by their number in a vocabulary, 0 for padding, 1 for the unknown."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from motet.data.raw import Array, token_type
from motet.errors import MotetError

PADDING, UNKNOWN = 0, 1
RESERVED = 2
"""Tokens that stand for nothing in particular; the vocabulary's own begin here."""

Unit = Literal["word", "character"]


def words_of(text: str) -> list[str]:
    """In lower case: runs of letters and digits, and every other sign by itself."""
    return re.findall(r"\w+|[^\w\s]", text.lower())


_UNITS: dict[Unit, Callable[[str], Sequence[str]]] = {"word": words_of, "character": lambda text: text}


@dataclass(frozen=True)
class Tokenizer:
    """A vocabulary and how long a row is: a longer text is cut at its end, a shorter one is padded there."""

    unit: Unit
    known: tuple[str, ...]
    """What the tokens 2, 3, … stand for."""
    length: int

    @property
    def vocabulary(self) -> int:
        """How many different tokens there are, with padding and the unknown."""
        return len(self.known) + RESERVED

    def __call__(self, texts: Sequence[str]) -> Array:
        """One row of tokens for each text, in the smallest type that holds them."""
        rows = np.zeros((len(texts), self.length), token_type(self.vocabulary))
        split, number = _UNITS[self.unit], self._numbers.get
        for row, text in zip(rows, texts, strict=True):
            units = split(text)[: self.length]
            row[: len(units)] = [number(unit, UNKNOWN) for unit in units]
        return rows

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {unit: token for token, unit in enumerate(self.known, RESERVED)}


def fit_tokenizer(unit: Unit, texts: Iterable[str], vocabulary_size: int, length: int) -> Tokenizer:
    """With the most frequent units of these texts, of equally frequent ones the first in the alphabet."""
    if vocabulary_size <= RESERVED or length < 1:
        raise MotetError(
            f"a vocabulary of {vocabulary_size} tokens in rows of {length}; accepted: more than {RESERVED}, in rows of "
            f"at least 1"
        )
    split, counts = _UNITS[unit], Counter[str]()
    for text in texts:
        counts.update(split(text))
    ranked = sorted(counts, key=lambda found: (-counts[found], found))
    return Tokenizer(unit, tuple(ranked[: vocabulary_size - RESERVED]), length)


def word_tokens(
    texts: Sequence[str], vocabulary_size: int, length: int, fit_on: Iterable[int] | None = None
) -> tuple[Array, Tokenizer]:
    """Texts as rows of words, and their vocabulary; it is that of the texts whose rows `fit_on` names, or of all."""
    return _tokens("word", texts, vocabulary_size, length, fit_on)


def char_tokens(
    texts: Sequence[str], vocabulary_size: int, length: int, fit_on: Iterable[int] | None = None
) -> tuple[Array, Tokenizer]:
    """The same with characters."""
    return _tokens("character", texts, vocabulary_size, length, fit_on)


def _tokens(
    unit: Unit, texts: Sequence[str], vocabulary_size: int, length: int, fit_on: Iterable[int] | None
) -> tuple[Array, Tokenizer]:
    seen = texts if fit_on is None else (texts[row] for row in fit_on)
    tokenizer = fit_tokenizer(unit, seen, vocabulary_size, length)
    return tokenizer(texts), tokenizer
