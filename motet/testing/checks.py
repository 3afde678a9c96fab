"""What every method must pass: each check says in one sentence what is wrong."""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from motet.contract import Entry, Method, Part, Wrapped
from motet.ending import End
from motet.engines import Task
from motet.engines.replies import TRAIN_LOSS, without_losses
from motet.errors import MotetError
from motet.evaluation import Row
from motet.message import State, decode, encode
from motet.methods import METHODS
from motet.rounds import Progress
from motet.runs.assembly import assemble
from motet.runs.experiment import Experiment
from motet.runs.run import resume, run
from motet.testing.privacy import COUNTS, found_in
from motet.testing.twin import Notes, Played, Strict, last_states, loop_of, play, tiny

RELATIVE, ABSOLUTE = 1e-3, 1e-4  # up to rounding, after a few rounds
NO_CLIPPING = 1e20  # larger than any gradient


class Fault(AssertionError):
    """What is wrong with a method, in one sentence."""


def check_method(method: str | Entry | type[Part] | type[Method], **changes: Any) -> list[str]:
    """Run every check on a method: a name or a sum, `file.py:Name`, a class, or an entry.

    `changes` are for the tiny experiment that it is tried in: `local={"momentum": 0.0}`.
    """
    with _known(method) as text:
        trial = Trial(text, changes)
        for check in CHECKS.values():
            check(trial)
    return list(CHECKS)


class Trial:
    """A method in a tiny experiment, played in several ways, each once."""

    def __init__(self, text: str, changes: Mapping[str, Any]):
        self.text, self.changes = text, dict(changes)
        self.play = cache(self._play)
        try:
            assemble(self.experiment())
        except MotetError as error:
            if "cannot run here" not in str(error):
                raise
            self.changes["rounds"] = {"cohort": 1.0, **self.changes.get("rounds", {})}
            self.changes["data"] = {"clients": 8, **self.changes.get("data", {})}

    def experiment(self, **local: Any) -> Experiment:
        """The tiny experiment, with other local settings."""
        return tiny(self.text, **{**self.changes, "local": {**self.changes.get("local", {}), **local}})

    def _play(self, strict: bool = False, **local: Any) -> Played:
        return play(self.experiment(**local), strict)

    def fault(self, what: str) -> Fault:
        """A sentence about this method."""
        return Fault(f"method {self.text!r}: {what}")


# ---------------------------------------------------------------- the checks


def runs_on_bytes_alone(trial: Trial) -> None:
    """The strict twin: a fresh method for every task, one client's data, nothing but bytes between."""
    inline, strict = trial.play(), trial.play(strict=True)
    where = _first_difference(_everything(inline), _everything(strict))
    if where is None and (inline.timeless(), inline.clients) != (strict.timeless(), strict.clients):
        where = "a score"
    if where:
        raise trial.fault(
            f"{where} is another one when each task is done by a fresh method on one client's data; a method keeps "
            "nothing in itself (`client.private` and the server state are its memory), changes no tensor that it was "
            "handed, and reads no other client's data"
        )


def reports_the_bytes_it_sends(trial: Trial) -> None:
    """The record's bytes are those on the wire."""
    strict = trial.play(strict=True)
    for row in strict.rows if not strict.assembly.method.pooled else ():
        reported, sent = (row["bytes_down"], row["bytes_up"]), strict.engine.wire_bytes(row["round"])
        if reported != sent:
            raise trial.fault(f"round {row['round']} reports {reported} bytes down and up; on the wire were {sent}")


def uploads_what_it_declares(trial: Trial) -> None:
    """Every field of a reply is declared and has another name than what stays; scores are numbers."""
    assembly = assemble(trial.experiment())
    engine = assembly.engine = Strict(assembly, assembly.federation)
    declared = assembly.method.uploads
    with suppress(MotetError):  # the loop refuses such replies too
        loop_of(assembly, Notes()).run(Progress(0, assembly.method.start()))
    for exchange in engine.exchanges:
        work, reply = exchange.task.kind in ("prepare", "train"), decode(exchange.answered or encode({}))
        for name, value in reply.items():
            if work and name not in {*declared, "n", TRAIN_LOSS}:
                raise trial.fault(f"a reply has the field {name!r}; `uploads` declares {_listed(declared)}")
            if work and name in exchange.after:
                raise trial.fault(f"a reply has the field {name!r}, the name of a private state of the client's")
            if not work and isinstance(value, Tensor):
                raise trial.fault(f"the score {name!r} is a tensor; accepted: numbers")


def keeps_secrets(trial: Trial) -> None:
    """No reply holds class counts, samples or private state, but what the method declares to tell."""
    strict = play(
        tiny(
            trial.text,
            **{
                **trial.changes,
                "rounds": {"count": 2, "cohort": 1.0},
                "local": {**trial.changes.get("local", {}), "momentum_across_rounds": "persist"},
            },
        ),
        strict=True,
    )
    told = strict.assembly.method.tells
    for exchange in strict.engine.exchanges:
        if exchange.answered is None:
            continue
        client = strict.assembly.workplace.client(exchange.task, exchange.before)
        for secret in sorted(found_in(exchange.answered, exchange, client)):
            if not (secret.startswith(COUNTS) and COUNTS in told):
                raise trial.fault(
                    f"a client's reply to {exchange.task.kind!r} gives away {_words(secret)}; `tells` declares "
                    f"{_listed(told)}"
                )


def leaves_the_momentum_alone(trial: Trial) -> None:
    """Clipping keeps the gradient apart from the momentum, so a limit that is never reached must change nothing."""
    plain, apart = trial.play(), trial.play(clip=NO_CLIPPING)
    if away := _far(plain.server, apart.server):
        raise trial.fault(
            f"with local.clip = {NO_CLIPPING:g}, which clips nothing, {away}; t.g holds the momentum as well as the "
            "gradient: add to it, never zero, scale or read it (`t.gradient_at` gives a gradient of one's own)"
        )


def is_the_same_in_a_group(trial: Trial) -> None:
    """Clients trained as one computation end where each alone would."""
    changes = {"together": True}
    assembly = assemble(trial.experiment(**changes))
    if assembly.workplace.together == 1 or assembly.method.prepares:
        return
    alone, server, privates = trial.play(), assembly.method.start(), dict[int, State]()
    loop = loop_of(assembly, Notes())
    for round in range(1, assembly.experiment.rounds.count + 1):
        server = {**server, "round": round}
        tasks = [Task("train", i, round, assembly.method.broadcast(server, i)) for i in loop.sample(round)]
        outcomes = assembly.workplace.perform_together(tasks, [privates.get(t.client_id, {}) for t in tasks])
        privates |= {o.client_id: o.private for o in outcomes if o.private is not None}
        replies, _ = without_losses({o.client_id: o.reply for o in outcomes if o.reply is not None})
        server = {**assembly.method.aggregate(server, replies), "round": round}
    if away := _far(alone.server, server):
        raise trial.fault(
            f"trained as one computation with other clients, {away}; `plain_steps = True` promises that nothing of a "
            "local step is changed but by parts that correct the gradient"
        )


def is_scored_as_it_is_served(trial: Trial) -> None:
    """What is sent to be scored makes the same personal model as what is sent to train."""
    played = trial.play()
    assembly, method = played.assembly, played.assembly.method
    x, _ = assembly.federation.test.batch(torch.arange(min(16, len(assembly.federation.test))))
    for client_id in assembly.federation.training_ids:
        logits = []
        for scoring in (False, True):
            message = method.broadcast(played.server, client_id, scoring)
            task = Task("score", client_id, played.progress.round, message)
            client = assembly.workplace.client(task, dict(played.engine.private(client_id)))
            model = method.personal(client, message)
            with torch.no_grad():
                logits.append(None if model is None else model(x))
        if not _alike(*logits):
            raise trial.fault(
                f"client {client_id} makes another personal model of what it is sent to be scored than of what it is "
                "sent to train; `broadcast(scoring=True)` may leave out only what the personal model does not need"
            )


def goes_on_after_a_stop(trial: Trial) -> None:
    """Stopped after its first round and resumed in a new process' place, a run ends in the same bytes."""
    experiment = trial.experiment()
    with tempfile.TemporaryDirectory() as parent:
        whole = run(experiment, Path(parent) / "whole")
        stopped = Path(parent) / "stopped"
        try:
            run(experiment, stopped, _StopsAfter(1))
        except KeyboardInterrupt:
            resume(stopped)
        ends = [_decoded(last_states(folder)) for folder in (whole, stopped)]
    if where := _first_difference(*ends):
        raise trial.fault(
            f"{where} is another one after a stop and a resume; `start` is not called again, so whatever later rounds "
            "need must be in the server state, in `client.private` or in `facts`"
        )


def hands_over_pictures_that_can_be_drawn(trial: Trial) -> None:
    """Its pictures are well-formed, each has a name of its own, and bytes alone make the same ones."""
    drawn = []
    for played in (trial.play(), trial.play(strict=True)):
        end = End(played.server, played.progress.round, played.timeless(), played.clients)
        try:
            drawn.append(played.assembly.ending.learned_by_the_method(end))
        except Exception as error:  # whatever a method does wrong
            raise trial.fault(f"`pictures` fails ({type(error).__name__}: {error})") from error
    names = [picture.name for picture in drawn[0]]
    if len(set(names)) < len(names):
        raise trial.fault(f"two of its pictures have one name; there are {_listed(names)}")
    if drawn[0] != drawn[1]:
        raise trial.fault(
            "its pictures are others when each portrait is made by a fresh method on one client's data; they are made "
            "of the server state, the record and what `portrait` hands over"
        )


CHECKS: dict[str, Callable[[Trial], None]] = {
    check.__name__.replace("_", " "): check
    for check in (
        uploads_what_it_declares,
        runs_on_bytes_alone,
        reports_the_bytes_it_sends,
        keeps_secrets,
        leaves_the_momentum_alone,
        is_the_same_in_a_group,
        is_scored_as_it_is_served,
        goes_on_after_a_stop,
        hands_over_pictures_that_can_be_drawn,
    )
}

# ---------------------------------------------------------------- comparing


def _everything(played: Played) -> dict[str, State]:
    return {"the server state": played.server, **{f"client {i}": decode(s) for i, s in played.private().items()}}


def _first_difference(ours: Mapping[str, State], theirs: Mapping[str, State]) -> str | None:
    """The first name under which two sets of states differ, to the bit."""
    for who in {**ours, **theirs}:
        a, b = ours.get(who, {}), theirs.get(who, {})
        for name in {**a, **b}:
            if not _alike(a.get(name), b.get(name)):
                return f"{name!r} of {who}"
    return None


def _alike(a: object, b: object) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a.nan_to_num(), b.nan_to_num())
    return type(a) is type(b) and (a == b or a != a)


def _far(ours: State, theirs: State) -> str | None:
    """Which numbers of two server states differ by more than rounding."""
    for name, a in ours.items():
        b = theirs.get(name)
        if isinstance(a, Tensor) and isinstance(b, Tensor) and a.is_floating_point() and a.shape == b.shape:
            if not torch.allclose(a, b, RELATIVE, ABSOLUTE):
                return f"the server's {name!r} differs by {float((a - b).abs().max()):.2g}"
        elif not isinstance(b, type(a)):
            return f"the server has {name!r} in one case only"
    return None


def _decoded(states: Mapping[str, bytes]) -> dict[str, State]:
    names = {"server": "the server state", "weights": "the generic model"}
    return {names.get(role, role.replace("/", " ")): decode(data) for role, data in states.items()}


class _StopsAfter:
    """A watcher that stops the run as Ctrl-C does."""

    def __init__(self, rounds: int):
        self.rounds = rounds

    def started(self, experiment: Experiment, folder: Path, round: int, warning: str | None) -> None:
        """Nothing to do."""

    def round(self, row: Row) -> None:
        """Stop."""
        if row["round"] == self.rounds:
            raise KeyboardInterrupt


@contextmanager
def _known(method: str | Entry | type[Part] | type[Method]) -> Iterator[str]:
    """The method's text, while its entry is in the registry."""
    if isinstance(method, str):
        yield method
        return
    entry = method if isinstance(method, Entry) else _entry_of_class(method)
    before = METHODS.get(entry.name)
    METHODS[entry.name] = entry
    try:
        yield entry.name if entry.kind != "personalization" else f"fedavg+{entry.name}"
    finally:
        if before is None:
            METHODS.pop(entry.name)
        else:
            METHODS[entry.name] = before  # in its old place: the order of the catalogue is the order of sums


def _entry_of_class(kind: type[Part] | type[Method]) -> Entry:
    name = kind.__name__.lower()
    if issubclass(kind, Part):
        return Entry(name, "", "", part=kind)
    return Entry(name, "", "", wraps=kind) if issubclass(kind, Wrapped) else Entry(name, "", "", whole=kind)


def _listed(names: object) -> str:
    found = sorted(names)  # type: ignore[call-overload]
    return ", ".join(map(repr, found)) if found else "nothing"


def _words(secret: str) -> str:
    known = secret.startswith((COUNTS, "a ", "labels"))
    return f"its {secret}" if known else f"its private {secret!r}"
