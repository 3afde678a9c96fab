"""The base of every section of an experiment: typed, closed to unknown names, never changed in place."""

import math
from collections.abc import Callable
from typing import Any, ClassVar

import annotated_types
from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator
from pydantic.fields import FieldInfo

LARGEST_COUNT = 10**9
"""Of whole numbers, where a field has no bound of its own."""
_TRIED = "tried"
LARGEST_SEED = 2**63 - 1
LARGEST, SMALLEST = 1e20, 1e-15
"""Of numbers, and of those that must be above 0: a product of one and the other way round still has 32 bits."""


class Section(BaseModel):
    """One table of the experiment file, or the options of a method. Each room of the house defines its own."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    short_names: ClassVar[tuple[str, ...]] = ()
    """Names that its fields have elsewhere, for the sentence about one that nobody knows."""

    @field_validator("*")
    @classmethod
    def _that_can_be_computed_with(cls, value: Any, info: ValidationInfo) -> Any:
        """Every number has bounds, or else the first sum with it would fail far from here."""
        if isinstance(value, bool):
            return value
        if isinstance(value, int):
            most = LARGEST_SEED if "seed" in (info.field_name or "") else LARGEST_COUNT
            if abs(value) > most:
                raise ValueError(f"accepted: a whole number of at most {most}")
        elif isinstance(value, float):
            if math.fabs(value) > LARGEST:
                raise ValueError(f"accepted: a number of at most {LARGEST:g}")
            above_0 = annotated_types.Gt(0) in cls.model_fields[info.field_name or ""].metadata
            if above_0 and value < SMALLEST:  # somebody may divide by it
                raise ValueError(f"accepted: a number of at least {SMALLEST:g}")
        return value


def tried(*values: str | float | bool) -> dict[str, Any]:
    """What tuning tries for a field: `mu: float = Field(0.01, ge=0, json_schema_extra=tried(0.1, 0.01))`."""
    return {_TRIED: list(values)}


def values_to_try(info: FieldInfo) -> tuple[Any, ...]:
    """What a field says that tuning tries; nothing for most fields."""
    extra = info.json_schema_extra
    found = extra.get(_TRIED) if isinstance(extra, dict) else None
    return tuple(found) if isinstance(found, list) else ()


def one_or_several(*words: str, alone: str = "") -> Callable[[Any], Any]:
    """A check before pydantic's: one of the words, a list of them, or text with commas; one word stays a word.

    `alone` is a word more that no list may hold.
    """

    def read(value: Any) -> Any:
        if alone and value == alone:
            return value
        given = value.split(",") if isinstance(value, str) else value
        if not isinstance(given, list | tuple) or not all(isinstance(word, str) for word in given):
            given = ()
        chosen = tuple(word.strip() for word in given)
        if not chosen or len(set(chosen)) < len(chosen) or not set(chosen) <= set(words):
            others = f"{alone}; " if alone else ""
            raise ValueError(f"accepted: {others}{' | '.join(words)}, or a list of them, each once")
        return chosen[0] if len(chosen) == 1 else chosen

    return read
