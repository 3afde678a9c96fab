"""Choose the folder of a new run, and keep a copy of its pretrained weights in it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from motet.config.experiment import Experiment
from motet.errors import MotetError
from motet.io.files import write_atomic, writing
from motet.runs.record import default_folder

MOST_TRIES = 1000


@contextmanager
def claimed(folder: Path | None, experiment: Experiment) -> Iterator[Path]:
    """Yield `folder`, or a new folder in runs/ if it is None; delete that one if it is still empty after an error."""
    if folder is not None:
        yield folder
        return
    mine = new_folder(lambda: default_folder(experiment))
    try:
        yield mine
    except BaseException:
        with suppress(OSError):  # it is not empty: there is something to resume
            mine.rmdir()
            mine.parent.rmdir()
        raise


def new_folder(free: Callable[[], Path]) -> Path:
    """Create and return the folder that `free` returns; ask again if another process created it first."""
    for _ in range(MOST_TRIES):
        folder = free()
        with writing(folder):
            try:
                folder.parent.mkdir(parents=True, exist_ok=True)
                folder.mkdir()
            except (FileExistsError, FileNotFoundError):  # another process took it, or deleted the empty runs/
                if folder.parent.exists() and not folder.parent.is_dir():
                    raise
                continue
        return folder
    raise MotetError(f"{folder} is taken again and again; choose a folder with --out")


# -------- Pretrained weights


FILE = "first-weights.safetensors"


def keep_first_weights(experiment: Experiment, folder: Path) -> None:
    """Copy the file `net.weights` into the run's folder, unless it is there already."""
    if experiment.net.weights and not (folder / FILE).exists():
        write_atomic(folder / FILE, Path(experiment.net.weights).expanduser().read_bytes())


def with_kept_weights(experiment: Experiment, folder: Path) -> Experiment:
    """Return the experiment with `net.weights` set to the copy in the run's folder, if there is one.

    Its SHA-256 is checked when the net is built.
    """
    copy = folder / FILE
    if not experiment.net.weights or copy.is_symlink() or not copy.is_file():
        return experiment
    return experiment.model_copy(update={"net": experiment.net.model_copy(update={"weights": str(copy.absolute())})})


# -------- Data that are read again


def data_from(experiment: Experiment, place: str | None) -> Experiment:
    """Return the experiment with its data read from this place, or without one as it is."""
    if place is None:
        return experiment
    return experiment.model_copy(update={"data": experiment.data.model_copy(update={"name": place})})
