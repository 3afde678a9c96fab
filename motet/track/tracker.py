"""What a log for another program is: values by name and round."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, Protocol

from motet.config.experiment import Experiment
from motet.errors import MotetError


class Tracker(Protocol):
    """One log of one run at a time. What was logged of that run before is replaced, so that nothing is there twice."""

    package: ClassVar[str]
    """What must be installed."""

    def __init__(self, place: str):
        """`place` is where the log goes; nothing: into the folder of the run."""

    def start(self, experiment: Experiment, folder: Path) -> None:
        """Begin the log of a run anew."""

    def log(self, round: int, values: Mapping[str, float]) -> None:
        """The values of a round, by the names of the record."""

    def flush(self) -> None:
        """Whoever looks now sees everything."""

    def close(self, finished: bool) -> None:
        """The run is over, or was stopped."""


def require_package(name: str, package: str) -> None:
    """Refuse a log whose package is not installed."""
    if find_spec(package) is None:
        raise MotetError(f"track is {name!r}, which needs {package}; accepted: pip install 'motet[{name}]'")
