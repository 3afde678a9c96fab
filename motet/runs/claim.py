"""A folder for a run that names none: made before anything else, so that two runs never take the same one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from motet.errors import MotetError
from motet.files import writing
from motet.runs.experiment import Experiment
from motet.runs.record import default_folder

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
