"""The section [data] of the experiment: which data, and how they are split among clients."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from pydantic import Field, field_validator, model_validator

from motet.config.section import LARGEST_SEED, Section

AUTO = "auto"
SampleKind = Literal["image", "signal", "vector", "tokens"]
KINDS: tuple[SampleKind, ...] = get_args(SampleKind)
KindOrAuto = Literal["auto", SampleKind]
Decimal = Literal["auto", ".", ","]
Dates = Literal["auto", "dmy", "mdy"]
Numbers = Literal["auto", "standard", "rank"]
TargetKind = Literal["auto", "class", "number"]
AugmentName = Literal["none", "flip-crop", "random-resized-crop"]
LEAST_AREA = 0.08
"""The least share of an image's area in a random resized crop (Szegedy et al., CVPR 2015)."""
PAD = 4
"""Black pixels added on every side before a random crop (He et al., CVPR 2016, section 4.2)."""


@dataclass(frozen=True)
class Columns:
    """How to read a user's own table: which columns are what, and how it is written. All other columns are features."""

    label: str | None = None
    client: str | None = None
    domain: str | None = None
    leave_out: tuple[str, ...] = ()
    schema: str | None = None
    """The schema file, which says how a table becomes network input."""
    encoding: str = "utf-8"
    """The text encoding of a CSV file."""
    decimal: Decimal = "auto"
    """The decimal separator; auto: a point, or a comma if all values of a column have it."""
    drop_missing: bool = False
    """Whether rows without a label, client or domain are dropped; otherwise they are an error."""
    min_count: int = 1
    """In how many training rows a category or word must occur to get its own code."""
    group: str | None = None
    """The column that says which rows belong together and are never split."""
    time_column: str | None = None
    """The column that says when a row was made."""
    dates: Dates = "auto"
    """Whether the day or the month comes first in dates such as 03/04/2020."""
    numbers: Numbers = "auto"
    """How a table's numbers are scaled: by mean and deviation, by their ranks, or as fits."""
    target: TargetKind = "auto"
    """Whether the label is a class or a number; auto: as its values look."""
    indicators: bool = True
    """Whether columns with missing values get an input that says where."""
    classes_known: bool = False
    """Whether the labels are known to be classes, so that the check for measurements is skipped."""

    @property
    def named(self) -> dict[str, str]:
        """The values that the user gave, by the field of the experiment."""
        found = {
            "label": self.label,
            "client": self.client,
            "domain": self.domain,
            "group": self.group,
            "time_column": self.time_column,
            "table_schema": self.schema,
        }
        named = {f"data.{field}": name for field, name in found.items() if name is not None}
        named |= {f"data.{field}": value for field, value in self.written.items()}
        return named | ({"data.leave_out": ", ".join(self.leave_out)} if self.leave_out else {})

    @property
    def written(self) -> dict[str, str]:
        """The settings of how a table is written that differ from the defaults."""
        usual = Columns()
        said = {
            "encoding": self.encoding,
            "decimal": self.decimal,
            "drop_missing": self.drop_missing,
            "dates": self.dates,
            "numbers": self.numbers,
            "indicators": self.indicators,
            "target": self.target,
        }
        return {field: str(value) for field, value in said.items() if value != getattr(usual, field)}


# -------- The section


Levels = Literal["auto", "class", "client/class", "domain/class", "domain/client/class", "split/class"]
MOST_SIZE = 4096
IMAGE_FIELDS = ("size", "color", "skip_broken")
"""Fields that only readers of image files use."""
READING = (*IMAGE_FIELDS, "levels", "variant", "layout", "min_characters", "stride")
"""Fields that only some kinds of data use."""
Attack = Literal["label-poison", "random-update", "model-replacement"]


class DataSettings(Section):
    """Everything that makes a federation, besides the run's seed."""

    name: str = Field(
        "digits",
        description="a name of `motet list data`, a table (.csv, .parquet), an .npz file, a folder of such, or your "
        "own file.py:source",
    )
    label: str | None = Field(
        None, description="the column of a table that holds the classes, or the numbers to predict; of an .npz file, y"
    )
    target: TargetKind = Field(
        "auto",
        description="whether the label of a table is a class or a number (regression); auto: a number if it holds "
        "fractions, or whole numbers of which hardly any rows have one in common",
    )
    client: str | None = Field(
        None, description="the column that says whose row it is; with it, the natural partition is the default"
    )
    domain: str | None = Field(None, description="the column that says which domain a row belongs to")
    group: str | None = Field(
        None,
        description="the column of a table that says which rows belong together, such as a patient's: they are never "
        "split between training, validation and test rows of a client, nor between simulated clients",
    )
    time_column: str | None = Field(
        None,
        description="the column that says when a row was made, numbers or dates: a client's test rows are its latest, "
        "its validation rows the latest of the rest",
    )
    leave_out: tuple[str, ...] = Field((), description="columns of a table that nobody learns from")
    table_schema: str | None = Field(
        None,
        description="a file of `motet data schema`, edited or not: how a table becomes network input; without it, "
        "training rows decide",
    )
    encoding: str = Field(
        "utf-8", description="of the text of a CSV file: utf-8, latin-1, cp1252, utf-16 or another that Python knows"
    )
    decimal: Decimal = Field(
        "auto",
        description="the sign before the decimals of a table's numbers; auto: a point, or a comma in columns where all "
        "values are so",
    )
    dates: Dates = Field(
        "auto",
        description="whether dates of a table such as 03/04/2020 have their day (dmy) or their month (mdy) first; "
        "auto: as the values of the column tell",
    )
    numbers: Numbers = Field(
        "auto",
        description="how numbers of a table are scaled where `normalize` is standard: by mean and deviation "
        "(standard), by their ranks, with at most 32 knots (rank), or by ranks in columns that are skewed or have "
        "heavy tails (auto)",
    )
    indicators: bool = Field(
        True,
        description="columns of a table with missing values get one more input, which says where: those in which at "
        "least `min_count` training rows have none",
    )
    drop_missing: bool = Field(
        False, description="leave out rows without a label, client or domain, and say how many, instead of refusing"
    )
    min_count: int = Field(
        5,
        ge=1,
        description="training rows that a category of a table or a word of a text must be in to be known by itself: "
        "rarer ones count as unknown, so that nobody's model names what one client alone has",
    )
    dir: str = Field("", description="the folder where a data set of `motet list data` is looked for first")
    variant: str = Field(
        "", description="which of the versions of a data set by name, such as letters of emnist; default its first"
    )
    kind: KindOrAuto = Field(
        "auto", description="what the samples of a file of yours are; auto = as the file says, never tokens by guess"
    )
    partition: str = Field(
        AUTO,
        description="how samples are dealt, of `motet list partitions`; with @domain behind it, each domain by itself; "
        "auto = natural where the data say whose each sample is, else dirichlet:0.3",
    )
    partition_seed: int | None = Field(
        None, ge=0, le=LARGEST_SEED, description="seed of everything in [data]; default the run's seed"
    )
    clients: int = Field(20, ge=1, description="number of clients; pflbed's in each domain; natural brings its own")
    new_clients: float = Field(0.0, ge=0, lt=1, description="share of clients held out as new")
    new_share: float = Field(
        1.0, gt=0, le=1, description="share of its training data that a new client has (PFLBED: S is 0.5, M 1.0)"
    )
    new_test_share: float | None = Field(
        None,
        ge=0,
        lt=1,
        description="share of its samples that a new client keeps as its own test split; left out: `test_share`",
    )
    domains: str = Field(
        "",
        description="simulated domains for data that have none, dealt one by one: such as plain,rotate:90,invert,"
        "blur:1,noise:0.2,permute (of labels), with + for several in one",
    )
    label_noise: str = Field(
        "", description="wrong labels in every client's training data: pair:RATE (the next class) or symmetric:RATE"
    )
    label_noise_on_test: bool = Field(
        False, description="in clients' own test and validation data too, as SuPerFed's code has it"
    )
    label_noise_swapped: bool = Field(False, description="pair is symmetric and the other way round, as that code has")
    long_tail: float = Field(
        1.0, ge=1, description="how many times rarer than the first class the last one is made in the data dealt"
    )
    long_tail_test: bool = Field(False, description="the common test set has that tail too; false: it stays as it is")
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
    pool: Literal["auto", "train", "all", "no_test"] = Field(
        "auto",
        description="deal the official training set, or four fifths of data that have none, so that the rest is a "
        "common test set (train); or deal everything (all), so that clients' own test rows make the common test set; "
        "auto = train, but all for natural clients of your own data without an official test set; no_test: as train or "
        "all, but clients keep no test rows, for models that are trained once more before use (scoring.test = none)",
    )
    test_share: float = Field(0.2, ge=0, lt=1, description="share of a client's samples it keeps as its own test split")
    val_share: float = Field(0.0, ge=0, lt=1, description="share of what remains that a client keeps for validation")
    resplit: int = Field(
        0,
        ge=0,
        description="which of many random splits of each client's rows into training, validation and test rows; the "
        "clients and their rows stay the same",
    )
    normalize: Literal["standard", "half", "unit", "constants", "none"] = Field(
        "standard",
        description="mean 0 and deviation 1 over `normalize_on`; (x - 0.5) / 0.5 of values in [0, 1] (signals stay as "
        "they are, columns of a table are standard: they have no such range); values in [0, 1]; by the constants "
        "`normalize_mean` and `normalize_std`; none",
    )
    normalize_mean: tuple[float, ...] = Field((), description="of values in [0, 1]: one for all channels, or one each")
    normalize_std: tuple[float, ...] = Field((), description="likewise, above 0")
    normalize_on: Literal["training", "all"] = Field(
        "training",
        description="what `standard` measures: the training samples of the clients that train; or all data dealt, with "
        "everybody's test data and new clients, as statistics of a whole data set have it",
    )
    augment: AugmentName = Field(
        "none",
        description="vary images in training batches: mirrored at random and moved by up to `augment_pad` (flip-crop), "
        "or mirrored at random and a random part of each stretched to the whole (random-resized-crop)",
    )
    augment_pad: int = Field(PAD, ge=1, le=64, description="of flip-crop: pixels; FED-ROD has 2")
    augment_scale: float = Field(
        LEAST_AREA, gt=0, le=1, description="of random-resized-crop: the least share of an image's area that is kept"
    )
    resize: int = Field(
        0, ge=0, le=1024, description="side of square images, made once from the stored ones; 0 = theirs"
    )
    subset: float = Field(1.0, gt=0, le=1, description="stratified share of the data to deal, for quick studies")
    min_size: int | None = Field(
        None, ge=0, description="fewest samples of a client; default the partition's own (dirichlet 10, balanced 40)"
    )
    shared_per_class: int = Field(
        10, ge=1, description="samples per class that every client may see, for methods that declare it"
    )
    levels: Levels = Field(
        "auto", description="what the folders around images are; auto = class, client/class or domain/client/class"
    )
    size: int | None = Field(
        None, ge=1, le=MOST_SIZE, description="height and width of images from files; default those of the first"
    )
    color: Literal["auto", "grey", "rgb"] = Field(
        "auto", description="of images from files; auto = grey if all of them are"
    )
    skip_broken: bool = Field(False, description="leave out image files that cannot be read, instead of refusing")
    layout: Literal["transposed", "interleaved"] = Field(
        "transposed",
        description="of har: 9 sensors over time; or the 9 sensors' values mixed as DBE's code has them, to compare",
    )
    min_characters: int = Field(1000, ge=0, description="of shakespeare: roles that say less are left out")
    stride: int = Field(1, ge=1, description="of shakespeare: characters from one window of 80 to the next")
    download: bool = Field(False, description="fetch a data set that is not on this machine (checked by SHA-256)")

    @property
    def shares_validation(self) -> bool:
        """Whether the clients of a domain share one validation set."""
        return self.partition.startswith("pflbed")

    @model_validator(mode="before")
    @classmethod
    def _defaults_that_depend_on_others(cls, values: Any) -> Any:
        """Fill in defaults that depend on other fields, such as the natural partition if there is a client column."""
        if not isinstance(values, Mapping):
            return values
        # pydantic no longer treats a validator's result as JSON, where a list may stand for a tuple
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
        if values.get("client") is not None and "partition" not in values:
            values = {**values, "partition": "natural"}
        if str(values.get("partition", "")).startswith("pflbed"):
            values = {"clients": 30, "new_clients": 1 / 3, "test_share": 0.0, **values}
        return values

    @field_validator("leave_out", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        """Accept text with commas for several names; whether it is one name is known only once the table is read."""
        return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value

    @property
    def columns(self) -> Columns:
        """The settings for reading a user's own table."""
        return Columns(
            self.label,
            self.client,
            self.domain,
            self.leave_out,
            self.table_schema,
            self.encoding,
            self.decimal,
            self.drop_missing,
            self.min_count,
            group=self.group,
            time_column=self.time_column,
            dates=self.dates,
            numbers=self.numbers,
            indicators=self.indicators,
            target=self.target,
        )
