"""What the entry of a data set says: its origin, the forms its files may have on a disk, how they may be fetched."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from motet.config.data_section import Columns, DataSettings
from motet.data.readers.raw import RawData
from motet.data.readers.registry import load_own
from motet.errors import MotetError

Read = Callable[[Sequence[Path], DataSettings], RawData]


@dataclass(frozen=True)
class Form:
    """One way in which a data set may lie in a folder."""

    files: tuple[str, ...]
    """Files or folders that must all be there; * stands for any name."""
    read: Read
    """From their paths, in that order, to the data."""
    own_folder: bool = False
    """Whether they must lie in a folder of the data set's name, because others have files of these names too."""
    clients: bool | None = False
    """Whether they say whose each sample is; None: as the fields of the .npz file have it."""

    def __str__(self) -> str:
        first, *others = self.files
        more = "" if not others else f" and {others[0]}" if len(others) == 1 else f" and {len(others)} more files"
        return first + more


@dataclass(frozen=True)
class Download:
    """A file that `motet data get` fetches: only with a SHA-256 that is known."""

    address: str
    sha256: str

    @property
    def file(self) -> str:
        """Return the name that the file gets on the disk."""
        return self.address.rpartition("/")[2].replace("%20", " ")


@dataclass(frozen=True)
class Source:
    """A data set with a name. A user's own has `load`, which takes whether it may download; Motet's have `forms`."""

    name: str
    summary: str
    paper: str
    licence: str
    net: str
    """The network a newcomer should get."""
    load: Callable[[bool], RawData] | None = None
    forms: tuple[Form, ...] = ()
    folders: tuple[str, ...] = ()
    """Names of folders in which its files may lie, besides its own name."""
    samples: int = 0
    """How many the whole data set has; files may hold fewer."""
    obeys: tuple[str, ...] = ()
    """Fields of [data] about reading that this data set obeys; others are refused."""
    variants: tuple[str, ...] = ()
    """What `data.variant` accepts, the default first."""
    downloads: tuple[Download, ...] = ()
    package: str = ""
    """Debian's, if there is one."""
    where: str = ""
    """Where its makers give it out, for who fetches it by hand."""

    def variant(self, settings: DataSettings) -> str:
        """Return the version that the settings ask for, or the default one."""
        return settings.variant or self.variants[0]


# -------- The form that any data set may have


def npz_form(file: str, kind: str, classes: int, class_names: tuple[str, ...] = ()) -> Form:
    """NAME.npz with x, y and optionally split, client, domain, which must be data of this kind and so many classes."""

    def read(paths: Sequence[Path], settings: DataSettings) -> RawData:
        raw = load_own(paths[0], columns=Columns(classes_known=True))
        if raw.kind != kind or raw.classes > classes:
            raise MotetError(
                f"{paths[0]}: holds {raw.kind} data of {raw.classes} classes; accepted: {kind} data of {classes}"
            )
        return replace(raw, classes=classes, class_names=raw.class_names or class_names)

    return Form((file,), read, clients=None)
