"""A data set before its rows go to clients (`RawData`), and the little that its head says before all of it is read."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from motet.config.data_section import AUTO, KINDS, KindOrAuto, SampleKind
from motet.errors import MotetError

if TYPE_CHECKING:
    from motet.data.prepare import Normalize, Prepare

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]
Truths = npt.NDArray[np.bool_]

CHANNELS_LAST = (1, 3, 4)
CHANNELS_FIRST = (1, 3)
SHAPES = "images [n, H, W] (uint8) or [n, H, W, C] with C 1, 3 or 4, signals [n, C, T] (float) or vectors [n, F]"
MOST_TOKENS = 1_000_000
"""A token beyond this is a mistake (a hash, a time stamp), and would cost memory in every net."""
MOST_FEATURES = 500_000
"""Of a vector, likewise."""

_OF_KIND: dict[SampleKind, str] = {
    "image": "images [n, H, W] or [n, H, W, C] with C 1, 3 or 4",
    "signal": "signals [n, C, T]",
    "vector": "vectors [n, F]",
    "tokens": "tokens [n, T]",
}
_NUMBERS = (np.uint8, np.float16, np.float32, np.float64)


@dataclass(frozen=True)
class RawData:
    """Samples in their stored layout: images [n, H, W, C], signals [n, C, T], vectors [n, F], tokens [n, T]."""

    x: Array
    y: Integers
    kind: SampleKind
    classes: int
    top: float
    """The value that the `unit` scale maps to 1."""
    net: str
    """The network a newcomer should get; empty where there is none."""
    split: Integers | None = None
    """0 for the official training set, 1 for the official test set."""
    client: Integers | None = None
    domain: Integers | None = None
    vocabulary: int = 0
    """How many different tokens there are; 0 for what is not text."""
    class_names: tuple[str, ...] = ()
    """Of the labels 0, 1, …; empty where they are numbers and no more."""
    client_names: tuple[str, ...] = ()
    """Of the values 0, 1, … of `client`; empty likewise."""
    domain_names: tuple[str, ...] = ()
    """Of the values 0, 1, … of `domain`; empty likewise."""
    fit: "Callable[[Array, Normalize, Integers], Prepare] | None" = None
    """From stored samples and the rows to look at to their preparation, where the kind alone does not say it."""
    origin: str = ""
    """Of a data set by name: how many samples from where, under which licence; its reader may say what is in them."""
    notes: tuple[str, ...] = ()
    """What a user should know of how the data were read, in sentences."""
    target: npt.NDArray[np.float64] | None = None
    """The number to predict for each row, where that is no class; `y` then says in which tenth of all it is."""
    group: Integers | None = None
    """Rows that belong together, such as those of one patient: never on two sides of a split."""
    time: npt.NDArray[np.float64] | None = None
    """When each row was made, for splits in which test rows come after training rows."""
    own: bool = False
    """Whether the data are a file or folder of the user's, or were handed over by him."""
    may_name_clients: tuple[str, ...] | None = None
    """Columns that seem to name the client, of a table for which the user named none; None for other data."""

    def __post_init__(self) -> None:
        """Refuse what a source of the user's own may get wrong and what would fail far from here."""
        columns = {"y": self.y, "split": self.split, "client": self.client, "domain": self.domain}
        columns["group"] = self.group
        for name, column in columns.items():
            if column is not None and (column.shape != (len(self.x),) or column.dtype != np.int64):
                raise MotetError(
                    f"data field {name!r} has {column.dtype} and shape {column.shape}; accepted: int64, one per sample"
                )
        if not len(self.y) or self.y.min() < 0 or self.y.max() >= self.classes:
            raise MotetError(f"data field 'y' does not fit {self.classes} classes; accepted: labels from 0, below that")
        if self.class_names and len(self.class_names) != self.classes:
            raise MotetError(f"{len(self.class_names)} class names for {self.classes} classes; accepted: as many")


def kind_of(dtype: np.dtype[Any], shape: tuple[int, ...], kind: KindOrAuto, where: str) -> SampleKind:
    """The kind of samples of this type and shape; `kind` is what was said of them, `where` names their origin.

    Tokens are never guessed: uint8 numbers in rows may as well be a vector.
    """
    if kind not in ("auto", *KINDS):
        raise MotetError(f"{where}: field 'kind' is {kind!r}; accepted: {', '.join(KINDS)}")
    if dtype.kind in "iu" and dtype != np.uint8 and kind == "auto":
        raise MotetError(
            f"{where}: field 'x' has dtype {dtype}; accepted: uint8, float16, float32, float64, or integers that are "
            f"tokens, said by data.kind = tokens or a field 'kind' in the file"
        )
    if dtype not in _NUMBERS and not (dtype.kind in "iu" and kind == "tokens"):
        raise MotetError(f"{where}: field 'x' has dtype {dtype}; accepted: uint8, float16, float32, float64")
    if dtype.kind not in "iu" and kind == "tokens":
        raise MotetError(f"{where}: field 'x' has dtype {dtype}; accepted for tokens: integers")
    found = _kind_of_shape(dtype, shape) if kind == "auto" else kind
    if found is None or not _fits(found, shape):
        accepted = SHAPES if kind == "auto" else _OF_KIND[kind]
        raise MotetError(f"{where}: field 'x' has shape {shape}; accepted: {accepted}")
    if found == "vector" and shape[1] > MOST_FEATURES:
        raise MotetError(f"{where}: field 'x' has {shape[1]:,} features; accepted: at most {MOST_FEATURES:,}")
    return found


def stored_layout(x: Array, where: str, kind: KindOrAuto = "auto") -> tuple[Array, SampleKind]:
    """Bring any accepted array into the stored layout; `where` names its origin in the error."""
    found = kind_of(x.dtype, x.shape, kind, where)
    if found == "tokens":
        return _tokens(x, where), found  # in few bytes once the vocabulary is known
    if x.dtype == np.float64:
        with np.errstate(over="ignore"):  # what overflows is refused below as not finite
            x = x.astype(np.float32)
    if x.dtype != np.uint8 and not np.isfinite(x).all():
        raise MotetError(f"{where}: field 'x' holds NaN or infinite values; accepted: finite numbers")
    if found == "image" and x.ndim == 3:
        return x[..., None], found
    if found == "image" and x.shape[3] not in CHANNELS_LAST:
        return x.transpose(0, 2, 3, 1), found
    return x, found


def image_sides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Height and width of images in an array of this shape, in any accepted layout."""
    return shape[2:4] if len(shape) == 4 and shape[3] not in CHANNELS_LAST else shape[1:3]


SMALLEST_SIDE = 16
"""Of images that two convolutions of 5x5 and two halvings leave something of."""


def default_net_for(kind: SampleKind, sides: tuple[int, ...] = ()) -> str:
    """Return the default net for a kind of data; images that are known to be small get one without convolutions."""
    if kind == "image" and min(sides[:2], default=SMALLEST_SIDE) < SMALLEST_SIDE:
        return "mlp"
    return {"image": "cnn4", "signal": "mlp", "vector": "mlp", "tokens": "fasttext"}[kind]


def token_type(vocabulary: int) -> type[np.integer[Any]]:
    """The smallest type that torch knows well for tokens of this vocabulary."""
    return np.uint8 if vocabulary <= 2**8 else np.int16 if vocabulary <= 2**15 else np.int32


def _kind_of_shape(dtype: np.dtype[Any], shape: tuple[int, ...]) -> SampleKind | None:
    if len(shape) == 3:
        return "image" if dtype == np.uint8 else "signal"
    return {2: "vector", 4: "image"}.get(len(shape))  # type: ignore[return-value]


def _fits(kind: SampleKind, shape: tuple[int, ...]) -> bool:
    if 0 in shape[1:]:
        return False
    if kind == "image" and len(shape) == 4:
        return shape[3] in CHANNELS_LAST or shape[1] in CHANNELS_FIRST
    return len(shape) == (3 if kind in ("image", "signal") else 2)


def _tokens(x: Array, where: str) -> Array:
    wrong = x[(x < 0) | (x >= MOST_TOKENS)]
    if len(wrong):
        raise MotetError(f"{where}: field 'x' holds token {wrong[0]}; accepted: 0 to {MOST_TOKENS - 1}")
    return x.astype(np.int32)


# -------- What the head of a data set says before all of it is read


NATURAL, DRAWN = "natural", "dirichlet:0.3"
"""The default partitions: of data that name the client of each row, and of all others."""


@dataclass(frozen=True)
class Preview:
    """What the head of a data set says: the kind of its samples, and whether they name their clients."""

    kind: SampleKind
    sides: tuple[int, ...] = ()
    """Height and width of images, where they are known."""
    clients: bool = False


def dealt_by(partition: str, clients: bool) -> str:
    """Return the partition to use: the one that is named, or for `auto` the natural one if the data name clients."""
    return partition if partition != AUTO else NATURAL if clients else DRAWN
