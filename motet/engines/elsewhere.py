"""The engine of a finished run whose clients are real sites: it knows the hashes of their states and asks nobody."""

from collections.abc import Iterator, Sequence

from motet.engines.engine import Engine
from motet.errors import MotetError
from motet.io.hashed_files import ClientFiles
from motet.messages.task import Outcome, Task

FLOWER = "flower"
"""The name of the engine of real sites in an experiment."""


class StatesElsewhere(Engine):
    """Private states by their hashes alone, to make models that need none: the generic one, a new client's."""

    def __init__(self) -> None:
        self.entries: ClientFiles = {}

    def run(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        raise MotetError(
            "the clients of this run are real sites, which are not asked any more; accepted: a run of `motet run`"
        )

    def keep(self, round: int) -> ClientFiles:
        return dict(self.entries)

    def go_back(self, round: int, entries: ClientFiles) -> None:
        """Note the hashes; the states are on the disks of the sites."""
        self.entries = dict(entries)
