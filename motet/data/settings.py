"""[data] of the experiment file: which data, dealt how, to how many clients."""

from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from motet.data.augment import AugmentName
from motet.data.columns import Columns
from motet.data.raw import KindOrAuto
from motet.settings import Section

Attack = Literal["label-poison", "random-update", "model-replacement"]


class DataSettings(Section):
    """Everything that makes a federation, besides the run's seed."""

    name: str = Field(
        "digits",
        description="a name of `motet list data`, a table (.csv, .parquet), an .npz file, a folder of such, or your "
        "own file.py:source",
    )
    label: str | None = Field(None, description="the column of a table that holds the classes; of an .npz file, y")
    client: str | None = Field(
        None, description="the column that says whose row it is; with it, the natural partition is the default"
    )
    domain: str | None = Field(None, description="the column that says which domain a row belongs to")
    leave_out: tuple[str, ...] = Field((), description="columns of a table that nobody learns from")
    table_schema: str | None = Field(
        None,
        description="a file of `motet data schema`, edited or not: how a table becomes network input; without it, "
        "training rows decide",
    )
    kind: KindOrAuto = Field(
        "auto", description="what the samples of a file of yours are; auto = as the file says, never tokens by guess"
    )
    partition: str = Field("dirichlet:0.3", description="how samples are dealt, of `motet list partitions`")
    partition_seed: int | None = Field(None, ge=0, description="seed of everything in [data]; default the run's seed")
    clients: int = Field(20, ge=1, description="number of clients; the natural partition brings its own")
    new_clients: float = Field(0.0, ge=0, lt=1, description="share of clients held out as new")
    malicious: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="share of the training clients that are attackers, whose training labels are random",
    )
    attack: Attack = Field(
        "label-poison",
        description="what attackers send: what they learned from random labels; noise as large as that; or that times "
        "the number of clients in a round",
    )
    pool: Literal["train", "all"] = Field(
        "train", description="deal the official training set, or training and test set merged first"
    )
    test_share: float = Field(0.2, ge=0, lt=1, description="share of a client's samples it keeps as its own test split")
    val_share: float = Field(0.0, ge=0, lt=1, description="share of what remains that a client keeps for validation")
    normalize: Literal["standard", "half", "unit", "none"] = Field(
        "standard", description="mean 0 and deviation 1 over `normalize_on`; (x - 0.5) / 0.5; values in [0, 1]; none"
    )
    normalize_on: Literal["training", "all"] = Field(
        "training",
        description="what `standard` measures: the training samples of the clients that train; or all data dealt, with "
        "everybody's test data and new clients, as statistics of a whole data set have it",
    )
    augment: AugmentName = Field(
        "none", description="vary images in training batches: mirrored at random and moved by up to 4 pixels"
    )
    subset: float = Field(1.0, gt=0, le=1, description="stratified share of the data to deal, for quick studies")
    min_size: int | None = Field(
        None, ge=0, description="fewest samples of a client; default the partition's own (dirichlet 10, balanced 40)"
    )
    shared_per_class: int = Field(
        10, ge=1, description="samples per class that every client may see, for methods that declare it"
    )
    download: bool = Field(False, description="fetch a data set that is not on this machine (checked by SHA-256)")

    @field_validator("leave_out", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        """Text is a name, or several with commas: which of them is known once the table is."""
        return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _natural_where_clients_are_named(self) -> Self:
        """Who names a column of clients wants them, unless he says otherwise."""
        if self.client is not None and "partition" not in self.model_fields_set:
            self.__dict__["partition"] = "natural"
        return self

    @property
    def columns(self) -> Columns:
        """Which columns of the user's own data are what."""
        return Columns(self.label, self.client, self.domain, self.leave_out, self.table_schema)
