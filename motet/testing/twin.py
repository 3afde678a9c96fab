"""A strict variant of the inline engine, which treats a method as a network of real machines would.

Every message, reply and private state is turned into bytes and back. Each task gets a workplace of its own, built anew
from the experiment, with the data of one client only. Clients work in reverse order. A method that keeps something in
itself, reads another client's data, changes a tensor in place or depends on the order of work gives other numbers here
than inline.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from motet.config.experiment import Experiment, resolve
from motet.data import Federation, Site
from motet.engines import Engine, Inline, OneByOne
from motet.io.hashed_files import ClientFiles, entry_of, intact
from motet.messages.message import State, byte_count, decode, encode
from motet.messages.task import LOSS_BYTES, Outcome, Task, counted
from motet.methods import METHODS
from motet.server.assembly import Assembly, ServerSide, assemble, settle, workplace_of
from motet.server.evaluation import Row, Scores
from motet.server.round_loop import RoundLoop, RunState
from motet.server.workplace import POOLED

# Small enough for every test of every method: five clients, one of them new, two of four in a round.
TINY: dict[str, Any] = {
    "data": {
        "name": "digits",
        "partition": "dirichlet:0.5",
        "clients": 5,
        "new_clients": 0.2,
        "val_share": 0.2,
        "subset": 0.3,
    },
    "rounds": {"count": 3, "cohort": 0.5},
    "local": {
        "epochs": 1,
        "batch": 32,
        "lr": 0.05,
        "batched_clients": False,
    },  # batched clients are equal only up to rounding
    "adapt": {"epochs": 1},
    "scoring": {"every": 2},
    "engine": {"name": "inline"},
    "checkpoint": {"every": 1},  # which rounds are saved must not depend on the machine's speed
}


# Every registered name as a method that can be run in TINY: what personalizes others follows FedAvg.
NEED_MORE_CLIENTS = {"krum", "multi-krum", "apple", "l2gd"}  # than TINY has
NEED_ANOTHER_NET = {"fedbn"}
SMALLER = {"fedgen": "fedgen(noise=8, hidden=16, steps=5)"}  # with smaller options than the defaults, for speed
ALONE = [
    SMALLER.get(name, name) if entry.kind != "personalization" else f"fedavg+{name}"
    for name, entry in METHODS.items()
    if name not in NEED_MORE_CLIENTS | NEED_ANOTHER_NET
]


def tiny(method: str, **changes: Any) -> Experiment:
    """Return the tiny experiment of a method; `local={"epochs": 2}` changes a field of a section."""
    sections = {name: TINY.get(name, {}) | value for name, value in changes.items() if isinstance(value, dict)}
    return settle(resolve(TINY | {"method": method} | changes | sections))


@dataclass(frozen=True)
class Exchange:
    """One task as an eavesdropper sees it, with the client's private state before and after."""

    task: Task
    sent: bytes
    answered: bytes | None
    before: State
    after: State
    train_loss: float | None = None  # sent beside the reply


@dataclass
class Strict(Engine):
    """An engine with a new workplace for each task; only bytes go in and out."""

    server: ServerSide
    federation: Federation
    states: dict[int, bytes] = field(default_factory=dict)
    versions: dict[int, dict[int, bytes]] = field(default_factory=dict)
    exchanges: list[Exchange] = field(default_factory=list)

    def run(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        posted = [(task.with_message(), encode(task.build_message())) for task in tasks]
        outcomes = {task.client_id: self._perform(task, sent) for task, sent in reversed(posted)}
        yield from (outcomes[task.client_id] for task in tasks)

    def _perform(self, task: Task, sent: bytes) -> Outcome:
        federation, asked = self.federation, task.client_id
        own = federation.pooled() if asked == POOLED else federation.clients[asked]
        site = Site.of(federation, own, self.server.method.needs_shared_data)
        workplace = workplace_of(self.server.experiment, site, self.server.federation_facts)
        before = self.private(task.client_id)
        received = Task(task.kind, task.client_id, task.round, decode(sent))
        outcome = workplace.perform(received, self.private(task.client_id))
        if outcome.private is not None:
            self.states[task.client_id] = encode(outcome.private)
        answered = None if outcome.reply is None else encode(outcome.reply)
        self.exchanges.append(Exchange(task, sent, answered, before, self.private(task.client_id), outcome.train_loss))
        reply = None if answered is None else decode(answered)
        return counted(replace(outcome, reply=reply), byte_count(received.build_message()))

    def private(self, client_id: int) -> State:
        return decode(self.states[client_id]) if client_id in self.states else {}

    def keep(self, round: int) -> ClientFiles:
        """Keep the states as a site does: they stay, and only their hashes are returned."""
        self.versions[round] = dict(self.states)
        return {i: entry_of(f"state of client {i} at round {round}", data) for i, data in self.states.items()}

    def go_back(self, round: int, entries: ClientFiles) -> None:
        self.states = {i: intact(entry, self.versions[round][i]) for i, entry in entries.items()}

    def wire_bytes(self, round: int) -> tuple[int, int]:
        """Return the bytes that went down and up in a round's training; an empty message is not sent."""
        rows = [e for e in self.exchanges if e.task.round == round and e.task.kind in ("introduce", "train", "prepare")]
        down = sum(len(e.sent) for e in rows if e.task.build_message())
        up = sum(len(e.answered) for e in rows if e.answered is not None and decode(e.answered))
        return down, up + LOSS_BYTES * sum(e.train_loss is not None for e in rows)


@dataclass
class Played:
    """A whole run in memory: its rows, its clients' rows, its last state, and its engine."""

    assembly: Assembly
    rows: list[Row]
    clients: list[Row]
    progress: RunState
    new: Scores

    @property
    def engine(self) -> Any:
        """Return the engine, with the private states it holds."""
        return self.assembly.engine

    @property
    def server(self) -> State:
        """Return the last server state."""
        return self.progress.server

    def timeless(self) -> list[Row]:
        """Return the rows without their times."""
        return [{k: v for k, v in row.items() if not k.endswith("seconds")} for row in self.rows]

    def private(self) -> dict[int, bytes]:
        """Return every client's private state as bytes."""
        states = {i: self.engine.private(i) for i in (*self.assembly.client_ids, *self.assembly.federation.new_ids)}
        return {i: encode(state) for i, state in states.items()}


class Notes:
    """A listener that stores what the loop reports."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.clients: list[Row] = []

    def round_done(self, row: Row, clients: list[Row], progress: RunState) -> None:
        self.rows.append(row)
        self.clients += clients


def play(experiment: Experiment, strict: bool = False, assembly: Assembly | None = None) -> Played:
    """Run an experiment in memory, inline or in the strict engine."""
    assembly = assembly or assemble(experiment)
    assembly.engine = Strict(assembly, assembly.federation) if strict else Inline(OneByOne(assembly.workplace.perform))
    notes = Notes()
    progress = RoundLoop(assembly, notes).run(RunState(0, assembly.method.start()))
    new = assembly.evaluator.new_clients(progress.server, progress.round)
    return Played(assembly, notes.rows, notes.clients, progress, new)


def last_states(folder: Path) -> dict[str, bytes]:
    """Return the last state of a run as bytes: its weights, and the server's and clients' states of its last
    checkpoint."""
    manifest = json.loads(max((folder / "checkpoint").glob("*.json")).read_bytes())
    found = {role: folder / "checkpoint" / entry["file"] for role, entry in manifest["files"].items()}
    found["weights"] = folder / "weights.safetensors"
    return {role: path.read_bytes() for role, path in found.items() if path.exists()}


# -------- Comparisons of runs and states


RELATIVE, ABSOLUTE = 1e-3, 1e-4  # tolerances for rounding errors after a few rounds


def everything(played: Played) -> dict[str, State]:
    """Return the server state a run ended in, and every client's private state."""
    return {"the server state": played.server, **{f"client {i}": decode(s) for i, s in played.private().items()}}


def first_difference(ours: Mapping[str, State], theirs: Mapping[str, State]) -> str | None:
    """Return the first name under which two sets of states are not equal to the bit, or None."""
    for who in {**ours, **theirs}:
        a, b = ours.get(who, {}), theirs.get(who, {})
        for name in {**a, **b}:
            if not alike(a.get(name), b.get(name)):
                return f"{name!r} of {who}"
    return None


def alike(a: object, b: object) -> bool:
    """Return whether two values are equal to the bit."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a.nan_to_num(), b.nan_to_num())
    return type(a) is type(b) and (a == b or a != a)


def far(ours: State, theirs: State) -> str | None:
    """Return which numbers of two server states differ by more than rounding, or None."""
    for name, a in ours.items():
        b = theirs.get(name)
        if isinstance(a, Tensor) and isinstance(b, Tensor) and a.is_floating_point() and a.shape == b.shape:
            if not torch.allclose(a, b, RELATIVE, ABSOLUTE):
                return f"the server's {name!r} differs by {float((a - b).abs().max()):.2g}"
        elif isinstance(a, float) and isinstance(b, float):
            if not math.isclose(a, b, rel_tol=RELATIVE, abs_tol=ABSOLUTE):
                return f"the server's {name!r} is {b:.4g} instead of {a:.4g}"
        elif not isinstance(b, type(a)):
            return f"the server has {name!r} in one case only"
    return None


def decoded(states: Mapping[str, bytes]) -> dict[str, State]:
    """Return the state files of a run as states, by their owners."""
    names = {"server": "the server state", "weights": "the generic model"}
    return {names.get(role, role.replace("/", " ")): decode(data) for role, data in states.items()}
