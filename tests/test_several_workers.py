"""The loop of engines whose workers may have a second group of tasks while they work on one."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from motet.engines.dealing import TRIES, Dealing
from motet.engines.engine import each_alone
from motet.engines.several_workers import SeveralWorkers, Worker
from motet.errors import MotetError
from motet.messages.message import State
from motet.messages.task import Outcome, Task


@dataclass(kw_only=True)
class Queue(Worker):
    """A worker in this process: what it was sent and has not answered."""

    sent_groups: list[Sequence[Task]] = field(default_factory=list)


class TwoEach(SeveralWorkers[Queue]):
    """Two workers that answer in turn, may have two groups each, and die on the clients in `deadly`."""

    def __init__(self, clients: int, deadly: dict[int, int], samples: dict[int, int] | None = None):
        super().__init__(2, samples or dict.fromkeys(range(clients), 1), each_alone, None)
        self.deadly = deadly  # deaths that are left, by client
        self.most_sent = 0  # groups that one worker had at once
        self.had_ahead: dict[int, set[int]] = {}  # clients that were sent to a worker while it had a client, by that
        self.worked: list[int] = []
        self.turn = 0

    def private(self, client_id: int) -> State:
        return {}

    def _hire(self) -> None:
        self.workers.append(Queue(ready=True))

    def _finish_start(self, worker: Queue) -> None:
        raise AssertionError("every worker is ready at once")

    def _send(self, worker: Queue, tasks: Sequence[Task]) -> None:
        worker.sent_groups.append(tasks)
        self.most_sent = max(self.most_sent, len(worker.sent_groups))

    def _send_ahead(self, worker: Queue, dealing: Dealing) -> bool:
        worker.ahead = dealing.hand_out()
        (now,) = worker.sent_groups[-1]
        self.had_ahead.setdefault(now.client_id, set()).update(t.client_id for t in dealing.tasks(worker.ahead))
        self._send(worker, dealing.tasks(worker.ahead))
        return True

    def _answered_or_dead(self) -> list[Queue]:
        busy = [worker for worker in self.workers if worker.group is not None]
        self.turn += 1
        return [busy[self.turn % len(busy)]]

    def _receive_outcomes(self, worker: Queue, tasks: Sequence[Task]) -> list[Outcome] | None:
        assert worker.sent_groups.pop(0) == tasks  # it answers in the order in which it was sent
        (task,) = tasks
        if self.deadly.get(task.client_id, 0):
            self.deadly[task.client_id] -= 1
            self._remove(worker)
            return None
        self.worked.append(task.client_id)
        return [task.answered({"was": task.client_id})]

    def _remove(self, worker: Queue) -> None:
        self.workers.remove(worker)


def asked(clients: int) -> list[Task]:
    return [Task("train", i, 1, {}) for i in range(clients)]


def test_workers_have_a_second_group_until_few_are_left() -> None:
    engine = TwoEach(9, {})
    assert [o.reply for o in engine.run(asked(9))] == [{"was": i} for i in range(9)]
    assert engine.most_sent == 2
    few = TwoEach(4, {})
    list(few.run(asked(4)))
    assert few.most_sent == 1  # both workers end together only if neither hoards what is left


def test_a_worker_with_a_long_task_is_sent_nothing_that_the_other_would_do_sooner() -> None:
    engine = TwoEach(9, {}, {0: 100} | dict.fromkeys(range(1, 9), 1))
    outcomes = engine.run(asked(9))
    assert next(outcomes).reply == {"was": 0}
    assert 0 not in engine.had_ahead
    list(outcomes)
    assert engine.had_ahead  # the other worker was sent some


def test_a_death_costs_the_group_it_happened_on_and_nothing_is_done_twice() -> None:
    engine = TwoEach(9, {4: TRIES - 1, 7: TRIES - 1})
    assert [o.reply for o in engine.run(asked(9))] == [{"was": i} for i in range(9)]
    assert sorted(engine.worked) == list(range(9))
    assert engine.deadly == {4: 0, 7: 0} and all(w.ahead is None for w in engine.workers)


def test_only_the_deadly_client_is_named() -> None:
    with pytest.raises(MotetError, match=rf"the work of client 5 ended its process {TRIES} times"):
        list(TwoEach(9, {5: TRIES}).run(asked(9)))
