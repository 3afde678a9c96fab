"""The words that [data] and the readers of data share: kinds of samples, augmentations, and which column is what."""

from dataclasses import dataclass
from typing import Literal, get_args

AUTO = "auto"
SampleKind = Literal["image", "signal", "vector", "tokens"]
KINDS: tuple[SampleKind, ...] = get_args(SampleKind)
KindOrAuto = Literal["auto", SampleKind]
Decimal = Literal["auto", ".", ","]
AugmentName = Literal["none", "flip-crop"]
PAD = 4
"""Pixels of black on every side that a crop may reach into (He et al., CVPR 2016, section 4.2)."""


@dataclass(frozen=True)
class Columns:
    """The names that a user gave; None where he gave none. Everything else is there to learn from."""

    label: str | None = None
    client: str | None = None
    domain: str | None = None
    leave_out: tuple[str, ...] = ()
    schema: str | None = None
    """A file that says how a table becomes network input."""
    encoding: str = "utf-8"
    """Of a file of CSV."""
    decimal: Decimal = "auto"
    """The sign before the decimals of a number; auto: a point, or a comma where all values of a column have it."""
    drop_missing: bool = False
    """Whether rows without a label, client or domain are dropped rather than refused."""
    min_count: int = 1
    """Training rows that a category or a word must be in to be known by itself."""
    classes_known: bool = False
    """Whether labels are those of a data set that is known, so that nobody need ask if they are measurements."""

    @property
    def named(self) -> dict[str, str]:
        """Those that were given, by the field of the experiment."""
        found = {"label": self.label, "client": self.client, "domain": self.domain, "table_schema": self.schema}
        named = {f"data.{field}": name for field, name in found.items() if name is not None}
        named |= {f"data.{field}": value for field, value in self.written.items()}
        return named | ({"data.leave_out": ", ".join(self.leave_out)} if self.leave_out else {})

    @property
    def written(self) -> dict[str, str]:
        """What was said of how a table is written, where it is not as usual."""
        usual = Columns()
        said = {"encoding": self.encoding, "decimal": self.decimal, "drop_missing": self.drop_missing}
        return {field: str(value) for field, value in said.items() if value != getattr(usual, field)}
