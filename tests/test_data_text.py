"""Texts become tokens: by a vocabulary that is fitted where it is told to, and the same everywhere."""

import numpy as np
import pytest

from motet.data.prepare_text import PADDING, UNKNOWN, Tokenizer, char_tokens, fit_tokenizer, word_tokens, words_of
from motet.errors import MotetError

TEXTS = ["The cat, the CAT!", "a dog", "", "the end of the cat and of all the others"]


def test_words_are_lower_case_and_signs_stand_alone() -> None:
    assert words_of("The cat's 2 Kälber…") == ["the", "cat", "'", "s", "2", "kälber", "…"]


def test_the_most_frequent_words_come_first_and_ties_by_the_alphabet() -> None:
    x, tokenizer = word_tokens(TEXTS, 6, 5)
    assert tokenizer.known == ("the", "cat", "of", "!")
    assert tokenizer.vocabulary == 6
    assert x.dtype == np.uint8
    assert x.tolist() == [
        [2, 3, UNKNOWN, 2, 3],
        [UNKNOWN, UNKNOWN, PADDING, PADDING, PADDING],
        [PADDING] * 5,
        [2, UNKNOWN, 4, 2, 3],
    ]


def test_a_vocabulary_knows_only_what_it_was_fitted_on() -> None:
    x, tokenizer = word_tokens(TEXTS, 100, 3, fit_on=[1])
    assert tokenizer.known == ("a", "dog")
    assert x[1].tolist() == [2, 3, PADDING]
    assert set(x[0].tolist()) == {UNKNOWN}


def test_characters() -> None:
    x, tokenizer = char_tokens(["abba", "Ab c"], 300, 6)
    assert tokenizer.known == ("b", "a", " ", "A", "c")
    assert x.tolist() == [[3, 2, 2, 3, 0, 0], [5, 2, 4, 6, 0, 0]]
    assert tokenizer(["c?"]).tolist() == [[6, UNKNOWN, 0, 0, 0, 0]]


def test_large_vocabularies_take_wider_numbers() -> None:
    tokenizer = fit_tokenizer("word", [" ".join(f"w{i}" for i in range(400))], 10_000, 2)
    assert tokenizer.vocabulary == 402
    assert tokenizer(["w399"]).dtype == np.int16
    assert Tokenizer("word", tokenizer.known, 2)(["w399 w0"]).tolist() == tokenizer(["w399 w0"]).tolist()


@pytest.mark.parametrize(("size", "length"), [(2, 5), (10, 0)])
def test_refusals(size: int, length: int) -> None:
    with pytest.raises(MotetError, match="accepted: more than 2, in rows of at least 1"):
        word_tokens(TEXTS, size, length)
