"""Who does which tasks next: for every engine that has several workers, whatever they are."""

from collections.abc import Mapping, Sequence

from motet.engines.engine import Outcome, Task
from motet.errors import MotetError

TRIES = 3  # how often the work of one client may cost a worker its life


class Dealing:
    """The tasks of one `Engine.run`, in groups that are done as one. The longest group goes first."""

    def __init__(self, tasks: Sequence[Task], groups: Sequence[Sequence[int]], samples: Mapping[int, int]):
        """`groups` are places among the tasks; `samples` tells which clients take long."""
        self._places = groups
        self._tasks = [[tasks[i] for i in group] for group in groups]
        length = [sum(samples.get(task.client_id, 0) for task in group) for group in self._tasks]
        self._waiting = sorted(range(len(groups)), key=lambda g: length[g])
        self._tries = [0] * len(groups)
        self._outcomes: dict[int, list[Outcome]] = {}

    def __len__(self) -> int:
        """How many groups there are."""
        return len(self._places)

    @property
    def anything_waits(self) -> bool:
        """Whether somebody could be given a group now."""
        return bool(self._waiting)

    @property
    def finished(self) -> bool:
        """Whether every group is done."""
        return len(self._outcomes) == len(self._places)

    def hand_out(self) -> int:
        """The number of the longest group that waits; whoever takes it says `done` or `lost`."""
        group = self._waiting.pop()
        self._tries[group] += 1
        return group

    def tasks(self, group: int) -> list[Task]:
        """What there is to do."""
        return self._tasks[group]

    def done(self, group: int, outcomes: Sequence[Outcome]) -> None:
        """What came of it."""
        self._outcomes[group] = list(outcomes)

    def lost(self, group: int) -> None:
        """Its worker is gone: another will try, but not for ever."""
        if self._tries[group] >= TRIES:
            raise MotetError(
                f"the work of client {', '.join(str(task.client_id) for task in self._tasks[group])} ended its process "
                f"{TRIES} times; accepted: work that fits in memory (try engine.name=inline to see why)"
            )
        self._waiting.append(group)

    def outcomes(self) -> list[Outcome]:
        """All of them, in the order of the tasks."""
        in_place = {
            place: outcome
            for group, places in enumerate(self._places)
            for place, outcome in zip(places, self._outcomes[group], strict=True)
        }
        return [in_place[place] for place in sorted(in_place)]
