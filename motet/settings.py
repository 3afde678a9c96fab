"""The base of every section of an experiment: typed, closed to unknown names, never changed in place."""

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """One table of the experiment file, or the options of a method. Each room of the house defines its own."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def one_or_several(*words: str) -> Callable[[Any], Any]:
    """A check before pydantic's: one of the words, a list of them, or text with commas; one word stays a word."""

    def read(value: Any) -> Any:
        given = value.split(",") if isinstance(value, str) else value
        if not isinstance(given, list | tuple) or not all(isinstance(word, str) for word in given):
            given = ()
        chosen = tuple(word.strip() for word in given)
        if not chosen or len(set(chosen)) < len(chosen) or not set(chosen) <= set(words):
            raise ValueError(f"accepted: {' | '.join(words)}, or a list of them, each once")
        return chosen[0] if len(chosen) == 1 else chosen

    return read
