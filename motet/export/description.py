"""The description of an exported model: model.json, which is checked as a foreign file."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue, model_validator

from motet.data import Prepare
from motet.data.prepare import restored
from motet.export.portable import Voting
from motet.io.json_models import Count, FileModel, Number, Sha256, Text, plain

FORMAT: Final = 1
Bytes = bytes  # ModelFormat has a field named `bytes`
MOST_CLASSES = 2**20

Which = Literal["generic", "personal", "adapted"]
StoredType = Literal["uint8", "float32", "int64"]
"""Of samples as the data file has them, before they are prepared."""


@dataclass(frozen=True, eq=False)
class Description:
    """All that is known of a model beside its weights."""

    which: Which
    method: str
    data: str
    net: str
    head: str
    class_names: tuple[str, ...]
    prepare: Prepare
    stored: StoredType
    round: int
    client: str | None = None
    number: int | None = None
    figures: Mapping[str, float] = field(default_factory=dict)
    voting: Voting | None = None
    batch_statistics: bool = False
    threshold: "ThresholdOfModel | None" = None
    refitted: bool = False

    @property
    def title(self) -> str:
        """Return a title such as `personal model of client Bern`."""
        return "generic model" if self.client is None else f"{self.which} model of client {self.client}"


# -------- model.json


class ClientOfModel(FileModel):
    """The client that a personal model belongs to."""

    name: Text
    number: Count


class NetOfModel(FileModel):
    """The net that the weights fill."""

    name: Text
    head: Text
    batch_statistics: bool


class InputOfModel(FileModel):
    """The input of the net, for programs that prepare samples themselves."""

    kind: Text
    shape: tuple[Count, ...]
    vocabulary: Count


class ModelFormat(FileModel):
    """One file beside model.json: its checksum, and how far its logits are from those of the run's own model."""

    bytes: Count
    sha256: Sha256
    largest_difference: Number | None
    checked_on: Text | None

    @classmethod
    def of(cls, data: Bytes, difference: float | None = None, checked_on: str | None = None) -> "ModelFormat":
        """Return the entry of a file with these bytes."""
        sha256 = hashlib.sha256(data).hexdigest()
        return cls(bytes=len(data), sha256=sha256, largest_difference=difference, checked_on=checked_on)


class ThresholdOfModel(FileModel):
    """The probability of a class from which on it is predicted, what it was chosen for, and on whose rows."""

    value: Annotated[float, Field(ge=0, le=1)]
    rule: Text
    of_class: Text
    """The second class."""
    own: bool
    """Whether it was chosen for this model; otherwise it is the one that was chosen for all, because the client is new
    or has too few validation rows of one of the classes."""
    rows: Count
    """Validation rows of the client, or of everybody."""
    reached: bool
    """Whether it reached what the rule asks on these rows."""


class ModelFile(FileModel):
    """model.json of an exported model."""

    format: Literal[1]
    model: Which
    client: ClientOfModel | None
    method: Text
    data: Text
    round: Count
    net: NetOfModel
    input: InputOfModel
    sample_type: StoredType
    prepare: dict[str, JsonValue]
    """What `Prepare.saved` says, which `restored` reads."""
    class_names: Annotated[tuple[Text, ...], Field(min_length=1, max_length=MOST_CLASSES)]
    figures: dict[Text, Number]
    neighbours: Voting | None
    files: dict[Text, ModelFormat]
    threshold: ThresholdOfModel | None = None
    refitted: bool = False
    """Whether it was trained once more on all rows after it was judged: then `figures` and `threshold` are of the model
    that was judged, on rows that that one had not seen."""

    @model_validator(mode="after")
    def _names_its_client(self) -> "ModelFile":
        if (self.client is None) != (self.model == "generic"):
            raise ValueError("a client for each model but the generic one")
        if self.threshold is not None and (
            len(self.class_names) != 2 or self.threshold.of_class != self.class_names[1]
        ):
            raise ValueError("a threshold for the second of two classes alone")
        return self


def to_file(known: Description, files: Mapping[str, ModelFormat]) -> ModelFile:
    """Return model.json; the constants of the preparation are among the weights."""
    prepare, _ = known.prepare.saved()
    given = known.prepare.input
    client = None
    if known.client is not None and known.number is not None:
        client = ClientOfModel(name=known.client, number=known.number)
    return ModelFile(
        format=FORMAT,
        model=known.which,
        client=client,
        method=known.method,
        data=known.data,
        round=known.round,
        net=NetOfModel(name=known.net, head=known.head, batch_statistics=known.batch_statistics),
        input=InputOfModel(kind=given.kind, shape=tuple(given.shape), vocabulary=given.vocabulary),
        sample_type=known.stored,
        prepare=plain(prepare),
        class_names=known.class_names,
        figures=dict(known.figures),
        neighbours=known.voting,
        files=dict(files),
        threshold=known.threshold,
        refitted=known.refitted,
    )


def from_file(file: ModelFile, constants: Mapping[str, object]) -> Description:
    """Return the description that `to_file` was given; raise what `restored` raises if the preparation is damaged."""
    return Description(
        file.model,
        file.method,
        file.data,
        file.net.name,
        file.net.head,
        file.class_names,
        restored(file.prepare, constants),
        file.sample_type,
        file.round,
        file.client.name if file.client else None,
        file.client.number if file.client else None,
        file.figures,
        file.neighbours,
        file.net.batch_statistics,
        file.threshold,
        file.refitted,
    )
