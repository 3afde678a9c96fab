"""A run keeps the file that its first weights came from: it goes on, and serves models, wherever its folder is."""

from pathlib import Path

from motet.files import write_atomic
from motet.runs.experiment import Experiment

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
