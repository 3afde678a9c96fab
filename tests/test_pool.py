"""The pool engine: the inline engine's rules, kept by worker processes that may die."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from motet.engines import Inline, OneByOne, Pool, dealing
from motet.engines import pool as pool_module
from motet.engines.dealing import Dealing
from motet.errors import MotetError
from motet.messages.message import State, encode
from motet.messages.task import Outcome, Task

WORKERS = 2


def double(task: Task, private: State) -> Outcome:
    """Answers twice the number and who did it, counts its calls, and does what the message asks for."""
    message = task.build_message()
    wish, x = int(message["wish"]), message["x"]
    if wish == 1 and task.client_id == 1 and not _mark(task):
        os.kill(os.getpid(), signal.SIGKILL)
    if wish == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    if wish == 3:
        raise MotetError("field x is 3; accepted: 4")
    if wish == 4:
        raise ZeroDivisionError("a bug")
    if wish == 5:
        time.sleep(60)
    assert isinstance(x, torch.Tensor)
    reply: State = {"x": 2 * x, "process": os.getpid(), "at": time.monotonic()}
    return task.answered(reply, {"seen": float(private.get("seen", 0)) + 1})


def _mark(task: Task) -> bool:
    """Whether this client has killed a worker before; says so from now on."""
    mark = Path(os.environ["MOTET_TEST_MARKS"]) / str(task.client_id)
    known = mark.exists()
    mark.touch()
    return known


def build_double() -> OneByOne:
    return OneByOne(double)


def build_mistake() -> OneByOne:
    raise MotetError("method is 'mine'; accepted: a method that workers know")


def build_death() -> OneByOne:
    os.kill(os.getpid(), signal.SIGKILL)


def tasks(wish: int, count: int = 5, size: int = 10) -> list[Task]:
    return [Task("train", i, 1, {"x": torch.full((size,), float(i)), "wish": wish}) for i in range(count)]


def processes(outcomes: list[Outcome]) -> set[object]:
    return {o.reply["process"] for o in outcomes if o.reply}


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """One pool for all tests here that do not close it: starting a process takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOTET_TEST_MARKS", str(tmp_path_factory.mktemp("marks")))
        engine = Pool(build_double, WORKERS, {i: i for i in range(5)})
        yield engine
        engine.close()


def test_outcomes_come_in_the_order_of_tasks_and_states_are_kept(pool: Pool) -> None:
    before = [float(pool.private(i).get("seen", 0)) for i in range(5)]
    for times in (1, 2):
        outcomes = list(pool.run(tasks(wish=0)))
        assert [o.client_id for o in outcomes] == list(range(5))
        assert all(torch.equal(o.reply["x"], torch.full((10,), 2.0 * o.client_id)) for o in outcomes if o.reply)
        assert all(o.private is None for o in outcomes)
        assert os.getpid() not in processes(outcomes)
        assert [pool.private(i)["seen"] for i in range(5)] == [seen + times for seen in before]


def test_messages_larger_than_the_box_make_it_grow(pool: Pool) -> None:
    for size in (10, 300_000, 20):
        outcomes = list(pool.run(tasks(wish=0, size=size)))
        assert all(o.reply is not None and len(o.reply["x"]) == size for o in outcomes)


def test_messages_are_written_when_they_are_handed_out_the_longest_client_first(pool: Pool) -> None:
    written: list[tuple[int, float]] = []

    def task(client_id: int) -> Task:
        def letter() -> State:
            written.append((client_id, time.monotonic()))
            return {"x": torch.zeros(1), "wish": 0}

        return Task("train", client_id, 1, letter)

    outcomes = list(pool.run([task(i) for i in (1, 4, 0, 3, 2)]))
    assert [client for client, _ in written] == [4, 3, 2, 1, 0]  # the pool was told that client i has i samples
    last_letter, first_answer = written[-1][1], min(float(o.reply["at"]) for o in outcomes if o.reply)
    assert first_answer < last_letter


def test_a_killed_worker_is_replaced_and_the_work_repeated(pool: Pool) -> None:
    pool.states.put(1, {})
    pids = {worker.process.pid for worker in pool.workers}
    outcomes = list(pool.run(tasks(wish=1, count=2)))
    assert [float(o.reply["x"][0]) for o in outcomes if o.reply] == [0.0, 2.0]  # type: ignore[index]
    assert pool.private(1)["seen"] == 1.0
    assert len(pids & {worker.process.pid for worker in pool.workers}) == 1
    list(pool.run(tasks(wish=0)))
    assert len(pool.workers) == WORKERS


def test_work_that_always_kills_is_given_up_with_a_sentence(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dealing, "TRIES", 2)
    with pytest.raises(MotetError, match=r"client 0 ended its process 2 times \(killed, .* memory is short\)"):
        list(pool.run(tasks(wish=2, count=1)))


def test_a_users_mistake_and_a_bug_come_back_as_what_they_are(pool: Pool) -> None:
    with pytest.raises(MotetError, match="field x is 3; accepted: 4"):
        list(pool.run(tasks(wish=3, count=1)))
    with pytest.raises(ZeroDivisionError, match="a bug") as caught:
        list(pool.run(tasks(wish=4, count=1)))
    assert "test_pool.py" in str(caught.value.__cause__)


def test_after_an_error_no_worker_goes_on_with_what_nobody_waits_for(pool: Pool) -> None:
    slow, mistaken = tasks(wish=5, count=2)[1], tasks(wish=3, count=1)[0]
    with pytest.raises(MotetError, match="field x is 3"):
        list(pool.run([slow, mistaken]))
    assert [o.client_id for o in list(pool.run(tasks(wish=0)))] == list(range(5))


# ---------------------------------------------------------------- before the workers are there


def test_a_patient_pool_starts_no_process_for_a_short_run() -> None:
    pool = Pool(build_double, WORKERS, {}, meanwhile=OneByOne(double), patience=float("inf"))
    assert processes(list(pool.run(tasks(wish=0)))) == {os.getpid()}
    assert pool.workers == [] and pool.private(3)["seen"] == 1.0
    pool.close()


@pytest.mark.slow
def test_an_impatient_pool_works_itself_until_workers_are_ready_and_then_no_more() -> None:
    pool = Pool(build_double, WORKERS, {}, meanwhile=OneByOne(double), patience=0.0)
    assert processes(list(pool.run(tasks(wish=0)))) == {os.getpid()}  # they take seconds to start, this takes none
    hired = {worker.process.pid for worker in pool.workers}
    assert len(hired) == WORKERS
    rounds = 1
    while not all(worker.ready for worker in pool.workers):
        list(pool.run(tasks(wish=0)))
        rounds += 1
    assert processes(list(pool.run(tasks(wish=0)))) <= hired
    assert pool.private(3)["seen"] == rounds + 1
    workers = [worker.process for worker in pool.workers]
    pool.close()
    assert not any(process.is_alive() for process in workers)


def test_one_task_is_not_worth_a_process() -> None:
    pool = Pool(build_double, WORKERS, {}, meanwhile=OneByOne(double), patience=0.0)
    list(pool.run(tasks(wish=0, count=1)))
    assert pool.workers == []


def test_a_patient_pool_goes_on_alone_if_workers_cannot_start() -> None:
    pool = Pool(build_mistake, 1, {}, meanwhile=OneByOne(double), patience=0.0)
    with pytest.warns(RuntimeWarning, match="going on without more worker processes: method is 'mine'"):
        for _ in range(10_000):
            assert processes(list(pool.run(tasks(wish=0)))) == {os.getpid()}
            if not pool.size:
                break
            time.sleep(0.01)
    assert processes(list(pool.run(tasks(wish=0)))) == {os.getpid()}
    pool.close()


@pytest.mark.parametrize(
    ("build", "reason"),
    [(build_mistake, "method is 'mine'; accepted"), (build_death, "ended 2 times while it started")],
)
def test_a_pool_that_was_asked_for_says_why_it_cannot_start(
    build: Callable[[], OneByOne], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "FALSE_STARTS", 2)
    pool = Pool(build, 1, {})
    with pytest.raises(MotetError, match=f"no worker process can be started .*{reason}"):
        list(pool.run(tasks(wish=0)))
    pool.close()


def test_what_cannot_be_sent_to_a_worker_is_a_reason_too() -> None:
    pool = Pool(lambda: OneByOne(double), 1, {})
    with pytest.raises(MotetError, match=r"no worker process can be started .*lambda"):
        list(pool.run(tasks(wish=0)))
    assert pool.workers == []


def test_a_worker_does_not_import_the_main_script(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script that calls motet.run without a guard would start itself again in every worker."""
    main = pool_module.sys.modules["__main__"]
    monkeypatch.setattr(main, "__file__", "no/such/script.py", raising=False)
    monkeypatch.setattr(main, "__spec__", None, raising=False)
    pool = Pool(build_double, 1, {})
    assert len(list(pool.run(tasks(wish=0)))) == 5
    assert pool_module.sys.modules["__main__"] is main
    pool.close()


# ---------------------------------------------------------------- dealing, and what every engine keeps


def test_the_longest_group_goes_first_and_outcomes_come_in_the_order_of_tasks() -> None:
    asked = tasks(wish=0)
    deal = Dealing(asked, [[4, 0], [1, 3], [2]], {0: 1, 1: 5, 2: 3, 3: 5, 4: 1})
    order = [deal.hand_out() for _ in range(3)]
    assert order == [1, 2, 0] and not deal.anything_waits and not deal.finished
    assert [task.client_id for task in deal.tasks(1)] == [1, 3]
    for group in order:
        deal.done(group, [task.answered({"was": task.client_id}) for task in deal.tasks(group)])
    assert deal.finished and [o.reply for o in deal.ready()] == [{"was": i} for i in range(5)]


def test_a_lost_group_is_dealt_again_until_it_has_cost_too_many_workers() -> None:
    deal = Dealing(tasks(wish=0, count=2), [[0], [1]], {})
    for _ in range(dealing.TRIES - 1):
        group = deal.hand_out()
        deal.lost(group)
        assert deal.anything_waits
    with pytest.raises(MotetError, match=f"client {group} ended its process {dealing.TRIES} times"):
        deal.lost(deal.hand_out())


def test_a_group_that_nobody_began_is_not_blamed() -> None:
    deal = Dealing(tasks(wish=0, count=2), [[0], [1]], {})
    for _ in range(2 * dealing.TRIES):  # the worker that had it ahead died on another one
        deal.give_back(deal.hand_out())
    group = deal.hand_out()
    deal.lost(group)  # does not raise: it is the first death on it
    assert deal.waiting == 2


def test_inline_and_pool_keep_alike(pool: Pool) -> None:
    engine = Inline(OneByOne(double))
    list(engine.run(tasks(wish=0)))
    assert engine.private(3)["seen"] == 1.0
    pool.go_back(0, {})
    list(pool.run(tasks(wish=0)))
    assert pool.keep(7) == engine.keep(7)
    engine.close()


def test_engines_tell_the_bytes_that_went_and_came(pool: Pool) -> None:
    asked = tasks(wish=0)
    for engine in (pool, Inline(OneByOne(double))):
        for task, outcome in zip(asked, list(engine.run(asked)), strict=True):
            assert (outcome.kind, outcome.client_id, outcome.round) == (task.kind, task.client_id, task.round)
            assert outcome.reply is not None
            assert (outcome.sent, outcome.received) == (len(encode(task.build_message())), len(encode(outcome.reply)))
