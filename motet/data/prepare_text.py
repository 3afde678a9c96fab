"""From texts to tokens: words and characters, the vocabulary that training rows make, and the preparation that uses it.

The same preparation serves training and the texts that a user brings to an exported model.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from motet.data.prepare import Normalize, TokensPrepare
from motet.data.readers.raw import Array, Integers, token_type
from motet.errors import MotetError, shown
from motet.io.json_models import FileModel, to_json

PADDING, UNKNOWN = 0, 1
RESERVED = 2
"""Tokens that stand for nothing in particular; the vocabulary's own begin here."""

Unit = Literal["word", "character"]


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case: runs of letters and digits, and every other sign by itself."""
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
        """Return how many different tokens there are, with padding and the unknown."""
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
    """Return a tokenizer of the most frequent units of these texts; equally frequent ones by the alphabet."""
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
    """Return the tokens of texts cut into characters."""
    return _tokens("character", texts, vocabulary_size, length, fit_on)


def _tokens(
    unit: Unit, texts: Sequence[str], vocabulary_size: int, length: int, fit_on: Iterable[int] | None
) -> tuple[Array, Tokenizer]:
    seen = texts if fit_on is None else (texts[row] for row in fit_on)
    tokenizer = fit_tokenizer(unit, seen, vocabulary_size, length)
    return tokenizer(texts), tokenizer


# -------- From texts to tokens by a vocabulary that training rows make


MOST_WORDS = 20_000
"""Of a vocabulary that training rows make, with padding and the unknown."""
MOST_LENGTH = 100_000


@dataclass(frozen=True, eq=False)
class TextPrepare(TokensPrepare):
    """Takes texts as the file has them. Stored tokens may be those of a larger vocabulary, of all texts."""

    tokenizer: Tokenizer
    column: str = "text"
    """Where a user's rows have their texts."""
    larger: Tokenizer | None = None
    min_count: int = 1
    """Training texts that each of its words was in, at least."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Return how many words are unknown because they are rare, never which ones."""
        if self.larger is None or self.min_count < 2:
            return ()
        rare = len(self.larger.known) - len(self.tokenizer.known)
        words = f"{rare:,} of {len(self.larger.known):,} words"
        return (f"{words} are in fewer than {self.min_count} training texts and count as unknown",) if rare else ()

    def __call__(self, stored: Tensor) -> Tensor:
        """The tokens of the vocabulary that training rows made."""
        tokens = super().__call__(stored)
        return tokens if self.larger is None else self._places[tokens]

    @cached_property
    def _places(self) -> Tensor:
        """Return the token here of each token of the larger vocabulary."""
        assert self.larger is not None
        place = {unit: token for token, unit in enumerate(self.tokenizer.known, RESERVED)}
        return torch.tensor([PADDING, UNKNOWN, *(place.get(unit, UNKNOWN) for unit in self.larger.known)])

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without tables that are made again where it arrives."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def stored(self, x: Any) -> Tensor:
        """Return the stored tokens of a text, several texts, rows or a table with the column of texts, or of tokens."""
        texts = _texts(x, self.column)
        if texts is None:
            tokens = super().stored(x)
            return tokens if self.larger is None else self._larger_places[tokens]
        return torch.from_numpy((self.larger or self.tokenizer)(texts))

    def as_given(self, stored: Tensor) -> Tensor:
        """Tokens of the vocabulary that training rows made."""
        return self(stored)

    @cached_property
    def _larger_places(self) -> Tensor:
        """Return the larger vocabulary's token of each word."""
        assert self.larger is not None
        place = {unit: token for token, unit in enumerate(self.larger.known, RESERVED)}
        return torch.tensor([PADDING, UNKNOWN, *(place[unit] for unit in self.tokenizer.known)])

    def saved(self) -> tuple[dict[str, object], dict[str, Tensor]]:
        """Return the vocabulary as JSON can hold it, which makes this preparation again."""
        made = self.tokenizer
        words = {"unit": made.unit, "known": list(made.known), "length": made.length, "column": self.column}
        return {"kind": "text", **words, "constants": False}, {}


@dataclass(frozen=True)
class AllTexts:
    """The vocabulary of all texts, before one is fitted."""

    tokenizer: Tokenizer
    column: str
    min_count: int = 1

    def fit(self, x: Array, normalize: Normalize, rows: Integers) -> TextPrepare:
        """Return the preparation with the most frequent words of these rows, without words that hardly a text has."""
        counts, texts = np.zeros((2, self.tokenizer.vocabulary), np.int64)
        for at in range(0, len(rows), 10_000):
            chunk = np.sort(x[rows[at : at + 10_000]], axis=1)
            first = np.diff(chunk, axis=1, prepend=-1) != 0  # of each word in its text
            counts += np.bincount(chunk.ravel(), minlength=len(counts))
            texts += np.bincount(chunk[first], minlength=len(counts))
        seen = np.flatnonzero(texts[RESERVED:] >= self.min_count).tolist()
        known = self.tokenizer.known
        ranked = sorted(seen, key=lambda i: (-counts[RESERVED + i], known[i]))[: MOST_WORDS - RESERVED]
        made = Tokenizer(self.tokenizer.unit, tuple(known[i] for i in ranked), self.tokenizer.length)
        return TextPrepare(x.shape[1:], made.vocabulary, made, self.column, self.tokenizer, self.min_count)


class SavedText(FileModel):
    """What `TextPrepare.saved` says."""

    kind: Literal["text"]
    unit: Literal["word", "character"]
    known: Annotated[tuple[str, ...], Field(max_length=MOST_WORDS)]
    length: Annotated[int, Field(gt=0, le=MOST_LENGTH)]
    column: str
    constants: Literal[False]


def restored_text(words: Mapping[str, Any]) -> TextPrepare:
    """Return the preparation of what `TextPrepare.saved` returned; raise `ValueError` for anything else."""
    saved = SavedText.model_validate_json(to_json(words))
    made = Tokenizer(saved.unit, saved.known, saved.length)
    return TextPrepare((saved.length,), made.vocabulary, made, saved.column)


def _texts(x: Any, column: str) -> Sequence[str] | None:
    """The texts in whatever a user has; None where there are tokens."""
    if isinstance(x, str):
        return [x]
    if isinstance(x, Tensor) or (isinstance(x, np.ndarray) and x.dtype.kind not in "UO"):
        return None
    if hasattr(x, "to_pydict"):  # Arrow
        x = x.column(column).to_pylist() if column in x.column_names else [None]
    elif hasattr(x, "iloc") and hasattr(x, "columns"):  # pandas
        x = x[column].tolist() if column in x.columns else [None]
    rows = [x] if isinstance(x, Mapping) else list(x) if isinstance(x, list | tuple | np.ndarray) else [None]
    texts = [row.get(column) if isinstance(row, Mapping) else row for row in rows]
    if all(isinstance(row, list | tuple | np.ndarray) for row in texts):
        return None
    for text in texts:
        if not isinstance(text, str):
            raise MotetError(
                f"input x holds {shown(text)} where a text belongs; accepted: a text, a list of texts, or rows with "
                f"the column {shown(column)}"
            )
    return [str(text) for text in texts]
