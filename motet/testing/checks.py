"""The checks that every method must pass; each raises one sentence that says what is wrong."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from motet.config.experiment import Experiment
from motet.errors import MotetError
from motet.messages.message import Message, State, decode, encode
from motet.messages.task import Task
from motet.methods import METHODS
from motet.methods.base import Method, MethodEntry, Part, Wrapped
from motet.runs.run import one_thread, resume, run
from motet.server.assembly import assemble
from motet.server.evaluation import Row
from motet.server.final_evaluation import FinalState
from motet.server.round_loop import RoundLoop, RunState
from motet.testing.conduct import (
    changes_nothing_in_place,
    draws_by_its_own_randomness,
    keeps_nothing_in_its_class,
    uses_every_reply_alike,
)
from motet.testing.learning import learns, learns_in_train_mode, looks_at_training_data_alone, predicts_at_rest
from motet.testing.privacy import COUNTS, disguised_in, found_in, private_in_disguise, scalars_told
from motet.testing.trial import MethodTrial
from motet.testing.twin import Notes, Strict, alike, decoded, everything, far, first_difference, last_states, play, tiny
from motet.training.client import Client
from motet.training.flat_weights import parameter_count

NO_CLIPPING = 1e20  # a clipping limit larger than any gradient


def check_method(method: str | MethodEntry | type[Part] | type[Method], **changes: Any) -> list[str]:
    """Run every check on a method, and return the names of the checks.

    The method is a name or a sum, `file.py:Name`, a class, or an entry. `changes` are fields of the tiny experiment in
    which it is checked: `local={"momentum": 0.0}`.
    """
    with _known(method) as text, one_thread():
        trial = MethodTrial(text, changes)
        for check in CHECKS.values():
            check(trial)
    return list(CHECKS)


# ---------------------------------------------------------------- the checks


def sends_replies_that_can_be_used(trial: MethodTrial) -> None:
    """Check that no reply is set aside: all have the same fields and shapes, and finite numbers."""
    try:
        rows = trial.play().rows
    except MotetError as error:
        raise trial.fault(f"a run ends early ({error})") from error
    for row in rows:
        for client_id, reason in row["set_aside"].items():  # type: ignore[attr-defined]
            raise trial.fault(f"the reply of client {client_id} in round {row['round']} is set aside: {reason}")


def runs_on_bytes_alone(trial: MethodTrial) -> None:
    """Check that the strict engine gives the same numbers: a new method for every task, one client's data, only bytes
    between."""
    inline, strict = trial.play(), trial.play(strict=True)
    where = first_difference(everything(inline), everything(strict))
    if where is None and (inline.timeless(), inline.clients) != (strict.timeless(), strict.clients):
        where = "a score"
    if where:
        raise trial.fault(
            f"{where} is another one when each task is done by a fresh method on one client's data; a method keeps "
            "nothing in itself (`client.private` and the server state are its memory), changes no tensor that it was "
            "handed, and reads no other client's data"
        )


def reports_the_bytes_it_sends(trial: MethodTrial) -> None:
    """Check that the bytes in the record are those on the wire."""
    strict = trial.play(strict=True)
    for row in strict.rows if not strict.assembly.method.pooled else ():
        reported, sent = (row["bytes_down"], row["bytes_up"]), strict.engine.wire_bytes(row["round"])
        if reported != sent:
            raise trial.fault(f"round {row['round']} reports {reported} bytes down and up; on the wire were {sent}")


def uploads_what_it_declares(trial: MethodTrial) -> None:
    """Check that every field of a reply is declared, that no private field has the same name, and that scores are
    numbers."""
    assembly = assemble(trial.experiment())
    engine = assembly.engine = Strict(assembly, assembly.federation)
    declared = assembly.method.uploads
    with suppress(MotetError):  # the loop refuses such replies too
        RoundLoop(assembly, Notes()).run(RunState(0, assembly.method.start()))
    for exchange in engine.exchanges:
        work, reply = exchange.task.kind in ("prepare", "train"), decode(exchange.answered or encode({}))
        for name, value in reply.items():
            if work and name not in {*declared, "n"}:
                raise trial.fault(f"a reply has the field {name!r}; `uploads` declares {_listed(declared)}")
            if work and name in exchange.after:
                raise trial.fault(f"a reply has the field {name!r}, the name of a private state of the client's")
            if not work and isinstance(value, Tensor):
                raise trial.fault(f"the score {name!r} is a tensor; accepted: numbers")


def keeps_secrets(trial: MethodTrial) -> None:
    """Check that no reply holds class counts, samples or private state, except what the method declares in `tells`."""
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
    parameters = parameter_count(strict.assembly.generic_net)
    rounds = dict[tuple[str, int], dict[int, tuple[Message, Client]]]()
    for exchange in strict.engine.exchanges:
        task = exchange.task
        if exchange.answered is None:
            continue
        client, reply = strict.assembly.workplace.client(task, exchange.before), decode(exchange.answered)
        secrets = found_in(exchange.answered, exchange, client)
        if task.kind in ("prepare", "train"):
            secrets |= disguised_in(reply, client, parameters) | private_in_disguise(reply, exchange, parameters)
            rounds.setdefault((task.kind, task.round), {})[client.id] = reply, client
        _refuse_telling(trial, task.kind, secrets, told)
    for (kind, _), met in rounds.items():
        replies, clients = {i: reply for i, (reply, _) in met.items()}, {i: client for i, (_, client) in met.items()}
        _refuse_telling(trial, kind, scalars_told(replies, clients), told)


def _refuse_telling(trial: MethodTrial, kind: str, secrets: set[str], told: frozenset[str]) -> None:
    for secret in sorted(secrets):
        if not (secret.startswith(COUNTS) and COUNTS in told):
            raise trial.fault(
                f"a client's reply to {kind!r} gives away {_words(secret)}; `tells` declares {_listed(told)}"
            )


def leaves_the_momentum_alone(trial: MethodTrial) -> None:
    """Check that a clipping limit that is never reached changes nothing.

    Clipping keeps the gradient apart from the momentum in t.g; a method that reads or zeroes t.g gives other numbers
    then.
    """
    plain, apart = trial.play(), trial.play(clip=NO_CLIPPING)
    if away := far(plain.server, apart.server):
        raise trial.fault(
            f"with local.clip = {NO_CLIPPING:g}, which clips nothing, {away}; t.g holds the momentum as well as the "
            "gradient: add to it, never zero, scale or read it (`t.gradient_at` gives a gradient of one's own)"
        )


def is_the_same_in_a_group(trial: MethodTrial) -> None:
    """Check that clients trained as one computation end where each alone would."""
    changes = {"batched_clients": True}
    assembly = assemble(trial.experiment(**changes))
    if assembly.workplace.most_batched == 1 or assembly.method.prepares:
        return
    alone, server, privates = trial.play(), assembly.method.start(), dict[int, State]()
    loop = RoundLoop(assembly, Notes())
    for round in range(1, assembly.experiment.rounds.last + 1):
        server = {**server, "round": round}
        tasks = [Task("train", i, round, assembly.method.broadcast(server, i)) for i in loop.sample(round)]
        outcomes = assembly.workplace.perform_group(tasks, [privates.get(t.client_id, {}) for t in tasks])
        privates |= {o.client_id: o.private for o in outcomes if o.private is not None}
        replies = {o.client_id: o.reply for o in outcomes if o.reply is not None}
        server = {**assembly.method.aggregate(server, replies), "round": round}
    if away := far(alone.server, server):
        raise trial.fault(
            f"trained as one computation with other clients, {away}; `plain_steps = True` promises that nothing of a "
            "local step is changed but by parts that correct the gradient"
        )


def is_scored_as_it_is_served(trial: MethodTrial) -> None:
    """Check that the message for scoring makes the same personal model as the message for training."""
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
        if not alike(*logits):
            raise trial.fault(
                f"client {client_id} makes another personal model of what it is sent to be scored than of what it is "
                "sent to train; `broadcast(scoring=True)` may leave out only what the personal model does not need"
            )


def goes_on_after_a_stop(trial: MethodTrial) -> None:
    """Check that a run that was stopped after its first round and resumed ends in the same bytes."""
    experiment = trial.experiment()
    with tempfile.TemporaryDirectory() as parent:
        whole = run(experiment, Path(parent) / "whole")
        stopped = Path(parent) / "stopped"
        try:
            run(experiment, stopped, _StopsAfter(1))
        except KeyboardInterrupt:
            resume(stopped)
        ends = [decoded(last_states(folder)) for folder in (whole, stopped)]
    if where := first_difference(*ends):
        raise trial.fault(
            f"{where} is another one after a stop and a resume; `start` is not called again, so whatever later rounds "
            "need must be in the server state, in `client.private` or in `facts`"
        )


def hands_over_pictures_that_can_be_drawn(trial: MethodTrial) -> None:
    """Check that the method's figures are well-formed, have different names, and are the same in the strict engine."""
    drawn = []
    for played in (trial.play(), trial.play(strict=True)):
        end = FinalState(played.server, played.progress.round, played.timeless(), played.clients)
        try:
            drawn.append(played.assembly.final_evaluation.learned_by_the_method(end))
        except Exception as error:  # a method may raise anything
            raise trial.fault(f"`figures_learned` fails ({type(error).__name__}: {error})") from error
    names = [picture.name for picture in drawn[0]]
    if len(set(names)) < len(names):
        raise trial.fault(f"two of its pictures have one name; there are {_listed(names)}")
    if drawn[0] != drawn[1]:
        raise trial.fault(
            "its pictures are others when each snapshot is made by a fresh method on one client's data; they are made "
            "of the server state, the record and what `client_snapshot` hands over"
        )


CHECKS: dict[str, Callable[[MethodTrial], None]] = {
    check.__name__.replace("_", " "): check
    for check in (
        uploads_what_it_declares,
        sends_replies_that_can_be_used,
        keeps_nothing_in_its_class,
        looks_at_training_data_alone,
        changes_nothing_in_place,
        draws_by_its_own_randomness,
        runs_on_bytes_alone,
        reports_the_bytes_it_sends,
        keeps_secrets,
        learns,
        leaves_the_momentum_alone,
        learns_in_train_mode,
        predicts_at_rest,
        uses_every_reply_alike,
        is_the_same_in_a_group,
        is_scored_as_it_is_served,
        goes_on_after_a_stop,
        hands_over_pictures_that_can_be_drawn,
    )
}


class _StopsAfter:
    """A watcher that stops the run as Ctrl-C does."""

    def __init__(self, rounds: int):
        self.rounds = rounds

    def started(self, experiment: Experiment, folder: Path, round: int, warning: str | None) -> None:
        """Do nothing."""

    def round(self, row: Row) -> None:
        """Stop the run after the given number of rounds."""
        if row["round"] == self.rounds:
            raise KeyboardInterrupt


@contextmanager
def _known(method: str | MethodEntry | type[Part] | type[Method]) -> Iterator[str]:
    """Yield the method's text, with its entry in the registry for the length of the block."""
    if isinstance(method, str):
        yield method
        return
    entry = method if isinstance(method, MethodEntry) else _entry_of_class(method)
    before = METHODS.get(entry.name)
    METHODS[entry.name] = entry
    try:
        yield entry.name if entry.kind != "personalization" else f"fedavg+{entry.name}"
    finally:
        if before is None:
            METHODS.pop(entry.name)
        else:
            METHODS[entry.name] = before  # in its old place: the order of the catalogue is the order of sums


def _entry_of_class(kind: type[Part] | type[Method]) -> MethodEntry:
    name = kind.__name__.lower()
    if issubclass(kind, Part):
        return MethodEntry(name, "", "", part=kind)
    return MethodEntry(name, "", "", wraps=kind) if issubclass(kind, Wrapped) else MethodEntry(name, "", "", whole=kind)


def _listed(names: object) -> str:
    found = sorted(names)  # type: ignore[call-overload]
    return ", ".join(map(repr, found)) if found else "nothing"


def _words(secret: str) -> str:
    if secret.startswith(("a ", "the ")):
        return secret
    return f"its {secret}" if secret.startswith((COUNTS, "labels")) else f"its private {secret!r}"
