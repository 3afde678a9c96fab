"""Images of the user's own: a folder or a .zip of class/file, client/class/file or domain/class/file."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from motet.config.data_section import DataSettings
from motet.data.readers.archives import Box, ListedFile, open_box
from motet.data.readers.image_files import SUFFIXES, first_sides, is_image, read_images
from motet.data.readers.raw import Integers, Preview, RawData, default_net_for
from motet.errors import MotetError, shown
from motet.io.user_paths import shown_path

_AUTO = {1: ("class",), 2: ("client", "class"), 3: ("domain", "client", "class")}
_TRAINING, _TEST = {"train", "training"}, {"test", "testing", "val", "valid", "validation"}
_OF_OTHERS = {"dataset_info.json", "dataset_dict.json", "state.json"}
"""Files by which a folder of Hugging Face's datasets is known."""
MOST_CLASSES = 65_536


def is_one(path: Path) -> bool:
    """Whether a path is a .zip, or a folder that holds folders and no .npz."""
    if path.suffix.lower() == ".zip":
        return True
    if not path.is_dir():
        return False
    try:
        names = [entry for entry in path.iterdir() if not entry.name.startswith(".")]
    except OSError:
        return False
    others = any(entry.suffix == ".npz" or entry.name in _OF_OTHERS for entry in names)
    return not others and any(entry.is_dir() or is_image(entry.name) for entry in names)


def load(path: Path, settings: DataSettings, size: int | None = None, levels: str = "auto") -> RawData:
    """The images under a path; a data set may propose their size and what its folders are."""
    with _opened(path) as (box, files):
        chosen = settings.levels if settings.levels != "auto" else levels
        folders, around = _folders(path, files, 1 if chosen == "auto" else len(chosen.split("/")))
        meaning = _meaning(path, folders, chosen)
        pictures = read_images(box, files, settings, size)
        others = len(box.files) - len(files)
    return _raw(
        path,
        pictures.x,
        [names for names, kept in zip(folders, pictures.kept, strict=True) if kept],
        meaning,
        (*_said(meaning, chosen, around, others), *pictures.notes),
    )


def preview(path: Path, settings: DataSettings) -> Preview:
    """Return what the folders are, and how large the first image is that can be read."""
    with _opened(path) as (box, files):
        least = 1 if settings.levels == "auto" else len(settings.levels.split("/"))
        meaning = _meaning(path, _folders(path, files, least)[0], settings.levels)
        sides = (settings.size, settings.size) if settings.size else first_sides(box, files)
    return Preview("image", sides, "client" in meaning)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Box, list[ListedFile]]]:
    """A folder or .zip and its images, of which there are some."""
    if not path.exists():
        raise MotetError(f"{path}: no such file; accepted: a folder or .zip of class/file")
    with open_box(path) as box:
        files = [file for file in box.files if is_image(file.name)]
        if not files:
            raise MotetError(
                f"{shown_path(path)}: holds no image; accepted: class/file with files of {', '.join(SUFFIXES)}"
            )
        yield box, files


def _folders(path: Path, files: Sequence[ListedFile], least: int) -> tuple[list[tuple[str, ...]], str]:
    """The folders around each file, as deep for all.

    A folder around everything says nothing: it is taken away, and returned, where more than the least number is left.
    """
    depth = len(files[0].parts)
    other = next((file for file in files if len(file.parts) != depth), None)
    if other is not None:
        raise MotetError(
            f"{shown_path(path)}: {shown(files[0].name)} and {shown(other.name)} lie in differently many folders; "
            f"accepted: the same for all, such as class/file"
        )
    folders = [file.parts[:-1] for file in files]
    around = []
    while len(folders[0]) > least and len({names[0] for names in folders}) == 1:
        around.append(folders[0][0])
        folders = [names[1:] for names in folders]
    return folders, "/".join(around)


def _meaning(path: Path, folders: Sequence[tuple[str, ...]], levels: str) -> tuple[str, ...]:
    """Return what each level of folders is, such as (client, class)."""
    found = len(folders[0])
    if levels != "auto":
        meaning = tuple(levels.split("/"))
        if len(meaning) != found:
            raise MotetError(
                f"{shown_path(path)}: data.levels is {levels!r}, but there {_are(found)} around the files; accepted: "
                f"{' | '.join('/'.join(each) for each in _AUTO.values() if len(each) == found) or 'class'}"
            )
        return meaning
    if found == 2 and _is_split({names[0].lower() for names in folders}):
        return ("split", "class")
    if found not in _AUTO:
        raise MotetError(
            f"{shown_path(path)}: there {_are(found)} around the files; accepted: class/file, client/class/file, "
            f"domain/class/file or domain/client/class/file"
        )
    return _AUTO[found]


def _are(count: int) -> str:
    return {0: "is no folder", 1: "is one folder"}.get(count, f"are {count} folders")


def _is_split(names: set[str]) -> bool:
    return names <= _TRAINING | _TEST and bool(names & _TRAINING) and bool(names & _TEST)


def _raw(
    path: Path, x: np.ndarray, folders: Sequence[tuple[str, ...]], meaning: tuple[str, ...], notes: tuple[str, ...]
) -> RawData:
    y, class_names = coded([names[-1] for names in folders])
    if len(class_names) < 2:
        raise MotetError(f"{shown_path(path)}: holds only class {shown(class_names[0])}; accepted: at least two")
    if len(class_names) > MOST_CLASSES:
        raise MotetError(f"{shown_path(path)}: holds {len(class_names)} classes; accepted: at most {MOST_CLASSES}")
    columns: dict[str, Integers] = {}
    named: dict[str, tuple[str, ...]] = {}
    for field in ("client", "domain"):
        if field in meaning:
            upto = meaning.index(field) + 1  # a client of one domain is not its namesake of another
            columns[field], named[f"{field}_names"] = coded(["/".join(names[:upto]) for names in folders])
    if "split" in meaning:
        columns["split"] = np.array([names[0].lower() not in _TRAINING for names in folders], np.int64)
    return RawData(
        x=x,
        y=y,
        kind="image",
        classes=len(class_names),
        top=255,
        net=default_net_for("image", x.shape[1:]),
        class_names=class_names,
        notes=notes,
        **columns,  # type: ignore[arg-type]
        **named,  # type: ignore[arg-type]
    )


def coded(names: Sequence[str]) -> tuple[Integers, tuple[str, ...]]:
    """Names as their numbers in sorted order, and these names as text that any file can hold."""
    found = sorted(set(names))
    number = {name: at for at, name in enumerate(found)}
    readable = tuple(name.encode("utf-8", "backslashreplace").decode() for name in found)
    return np.array([number[name] for name in names], np.int64), readable


def _said(meaning: tuple[str, ...], levels: str, around: str, others: int) -> list[str]:
    notes = []
    if levels == "auto" and meaning != ("class",):
        notes.append(f"folders were read as {'/'.join(meaning)}; data.levels can say otherwise")
    if around:
        notes.append(f"the one folder around all, {shown(around)}, was passed over")
    if others:
        notes.append(f"{others:,} files that are no images were passed over")
    return notes
