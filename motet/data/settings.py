"""[data] of the experiment file: which data, dealt how, to how many clients."""

from typing import Literal

from pydantic import Field

from motet.data.augment import AugmentName
from motet.data.raw import KindOrAuto
from motet.settings import Section

Levels = Literal["auto", "class", "client/class", "domain/class", "domain/client/class", "split/class"]
MOST_SIZE = 4096
IMAGE_FIELDS = ("size", "color", "skip_broken")
"""What readers of image files obey."""
READING = (*IMAGE_FIELDS, "levels", "variant", "layout", "min_characters", "stride")
"""Fields that only some data obey."""
Attack = Literal["label-poison", "random-update", "model-replacement"]


class DataSettings(Section):
    """Everything that makes a federation, besides the run's seed."""

    name: str = Field(
        "digits", description="a name of `motet list data`, an .npz file, a folder of such, or your own file.py:source"
    )
    dir: str = Field("", description="the folder where a data set of `motet list data` is looked for first")
    variant: str = Field(
        "", description="which of the versions of a data set by name, such as letters of emnist; default its first"
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
