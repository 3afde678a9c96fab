"""One engine for all methods: starting workers takes seconds, so a field beside each message says which one it is."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from motet.data import FederationFacts
from motet.data.federation import SharedFederation
from motet.engines import ClientStates, Engine, OneByOne, Perform
from motet.io.hashed_files import ClientFiles
from motet.messages.message import State, byte_count, encode
from motet.messages.task import Outcome, Task
from motet.runs.record import Record
from motet.server.assembly import assemble, workplace_of
from motet.server.round_loop import RoundLoop, RunState
from motet.testing.twin import ALONE, Notes, last_states, play, tiny

WHICH = "test.method"


def build_every_method(shared: SharedFederation) -> OneByOne:
    """The work of a worker that knows all methods."""
    federation = shared.cut()
    facts = FederationFacts.of(federation)

    @cache
    def workplace(number: int) -> Perform:
        return workplace_of(tiny(ALONE[number]), federation, facts).perform

    def perform(task: Task, private: State) -> Outcome:
        message = task.build_message()
        number = int(message.pop(WHICH))
        return workplace(number)(Task(task.kind, task.client_id, task.round, message), private)

    return OneByOne(perform)


def build() -> Callable[[], OneByOne]:
    """What workers are built from; it can be sent to them."""
    return partial(build_every_method, SharedFederation.of(assemble(tiny("fedavg")).federation))


class OneMethod(Engine):
    """The engine of all methods, for one of them, with private states of its own."""

    def __init__(self, engine: Any, number: int, states: ClientStates):
        self.engine, self.number = engine, number
        engine.states = states

    def run(self, tasks: Sequence[Task]) -> list[Outcome]:
        outcomes = list(self.engine.run([Task(t.kind, t.client_id, t.round, partial(self._message, t)) for t in tasks]))
        # The field beside each message is the test's, not the method's.
        return [replace(o, sent=byte_count(t.build_message())) for t, o in zip(tasks, outcomes, strict=True)]

    def _message(self, task: Task) -> State:
        return task.build_message() | {WHICH: self.number}

    def private(self, client_id: int) -> State:
        return self.engine.private(client_id)

    def keep(self, round: int) -> ClientFiles:
        return self.engine.keep(round)

    def go_back(self, round: int, entries: ClientFiles) -> None:
        self.engine.go_back(round, entries)


def assert_same_as_inline(engine: Any, number: int, states: ClientStates) -> None:
    """A method gives the same rows, the same server state and private states, and the same scores of new clients."""
    inline, assembly, notes = play(tiny(ALONE[number])), assemble(tiny(ALONE[number])), Notes()
    assembly.engine = OneMethod(engine, number, states)
    progress = RoundLoop(assembly, notes).run(RunState(0, assembly.method.start()))
    rows = [{k: v for k, v in row.items() if not k.endswith("seconds")} for row in notes.rows]
    assert rows == inline.timeless()
    assert notes.clients == inline.clients
    assert encode(progress.server) == encode(inline.server)
    assert {i: encode(assembly.engine.private(i)) for i in inline.private()} == inline.private()
    new = assembly.evaluator.new_clients(progress.server, progress.round)
    assert (new.figures, new.clients) == (inline.new.figures, inline.new.clients)


def assert_same_run(folder: Path, other: Path) -> None:
    """Two folders have the same record, but for times, and the same checkpoint."""
    rows = [[{k: v for k, v in row.items() if "seconds" not in k} for row in Record(f).rounds] for f in (folder, other)]
    assert rows[0] == rows[1]
    for name in ("weights.safetensors", "clients.jsonl"):
        found = [(f / name).read_bytes() if (f / name).exists() else None for f in (folder, other)]
        assert found[0] == found[1] and (found[0] or name == "weights.safetensors")  # none without a generic model
    assert last_states(folder) == last_states(other)
