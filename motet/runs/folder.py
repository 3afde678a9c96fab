"""A run keeps the file that its first weights came from: it goes on, and serves models, wherever its folder is."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from motet.config.experiment import Experiment
from motet.errors import MotetError
from motet.io.files import write_atomic, writing
from motet.runs.record import default_folder

# -------- A folder for a run that names none


MOST_TRIES = 1000


@contextmanager
def claimed(folder: Path | None, experiment: Experiment) -> Iterator[Path]:
    """The folder that is named, or the next free one in runs/; what is still empty after an error goes again."""
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
    """Make the folder that `free` finds free; if another process was faster, the one that it finds then."""
    for _ in range(MOST_TRIES):
        folder = free()
        with writing(folder):
            try:
                folder.parent.mkdir(parents=True, exist_ok=True)
                folder.mkdir()
            except (FileExistsError, FileNotFoundError):  # taken, or runs/ went with somebody's refused run
                if folder.parent.exists() and not folder.parent.is_dir():
                    raise
                continue
        return folder
    raise MotetError(f"{folder} is taken again and again; choose a folder with --out")


# -------- A run keeps the file that its first weights came from


FILE = "first-weights.safetensors"


def keep_first_weights(experiment: Experiment, folder: Path) -> None:
    """A copy of `net.weights` in the run's folder, once."""
    if experiment.net.weights and not (folder / FILE).exists():
        write_atomic(folder / FILE, Path(experiment.net.weights).expanduser().read_bytes())


def with_kept_weights(experiment: Experiment, folder: Path) -> Experiment:
    """The experiment with the folder's own copy, which must have the SHA-256 that was noted."""
    copy = folder / FILE
    if not experiment.net.weights or copy.is_symlink() or not copy.is_file():
        return experiment
    return experiment.model_copy(update={"net": experiment.net.model_copy(update={"weights": str(copy.absolute())})})
