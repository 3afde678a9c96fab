"""Data sets by name: where their files are on this machine, and how they get there."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from motet.data.download import fetch
from motet.data.folders import cache_folder, places
from motet.data.settings import READING, DataSettings
from motet.data.sources.source import Form, Source
from motet.errors import MotetError, shown, unknown
from motet.inspect_files import user_path


@dataclass(frozen=True)
class Found:
    """A data set on this machine: in which form, and its files."""

    form: Form
    paths: tuple[Path, ...]

    @property
    def place(self) -> Path:
        """What to show of it: the one file, or the folder of several."""
        return self.paths[0] if len(self.paths) == 1 else self.paths[0].parent


def find(source: Source, first: str = "") -> Found | None:
    """The data set in the first place that holds it whole, in the first of its forms."""
    for place in places(first):
        for folder in (place, *(place / name for name in (source.name, *source.folders))):
            for form in source.forms:
                if form.own_folder and folder == place:
                    continue
                if paths := _present(folder, form.files):
                    return Found(form, paths)
    return None


def get(source: Source, folder: Path | None = None, say: Callable[[str], None] | None = None) -> list[Path]:
    """Fetch its files, checked, into the folder or else the cache; those that are there already are left alone.

    `say` is told what is fetched before it is, which may take long.
    """
    if not source.downloads:
        raise MotetError(
            f"data {source.name!r} is not fetched, for no SHA-256 of its official file is known; accepted: "
            f"{_by_hand(source)}"
        )
    target = (folder or cache_folder()) / source.name
    paths = [target / download.file for download in source.downloads]
    for download, path in zip(source.downloads, paths, strict=True):
        if say and not path.exists():
            say(f"fetching {download.address}")
        fetch(download.address, path, download.sha256, f"data {source.name!r}")
    return paths


def absent(source: Source) -> MotetError:
    """The sentence about a data set that is nowhere: what to put where, or how to have it fetched."""
    ways = [f"Debian's package {source.package}"] if source.package else []
    if source.downloads:
        ways.append(f"`motet data get {source.name}` or download = true")
    accepted = ", ".join([_by_hand(source), *ways])
    return MotetError(f"data {source.name!r} is not on this machine; accepted: {accepted}")


def check_fields(settings: DataSettings, obeys: Sequence[str], variants: Sequence[str] = ()) -> None:
    """Refuse a choice that these data would not obey, and a version that they do not have."""
    for field in READING:
        value, usual = getattr(settings, field), DataSettings.model_fields[field].default
        if value != usual and field not in obeys:
            raise MotetError(
                f"data.{field} is {shown(value)}, but data {shown(settings.name)} has no such choice; accepted: none"
            )
    if settings.variant and settings.variant not in variants:
        raise unknown(f"data.variant of {settings.name}", settings.variant, variants)


def target_folder(text: str) -> Path | None:
    """Where the user wants downloads, if anywhere in particular."""
    return user_path(text, "data.dir") if text else None


def _by_hand(source: Source) -> str:
    forms = " or ".join(dict.fromkeys(map(str, source.forms)))
    where = f" (from {source.where})" if source.where else ""
    return f"{forms}{where} in a folder that --data-dir or MOTET_DATA names or in {cache_folder() / source.name}"


def _present(folder: Path, patterns: Sequence[str]) -> tuple[Path, ...]:
    """The paths of all patterns in their order, or none at all."""
    found: list[Path] = []
    for pattern in patterns:
        try:
            matches = sorted(folder.glob(pattern)) if "*" in pattern else [folder / pattern]
            matches = [path for path in matches if path.exists()]
        except OSError:  # a folder that may not be looked into
            return ()
        if not matches:
            return ()
        found += matches
    return tuple(found)
