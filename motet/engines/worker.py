"""The code of a worker process of the pool: it does groups of tasks until its parent stops it or is gone."""

import gc
import json
import multiprocessing
import os
import threading
import traceback
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any

import torch

from motet.engines.engine import Work
from motet.engines.shared_memory import InBox, OutBox
from motet.errors import MotetError
from motet.io.memory_limits import keep_freed_memory
from motet.io.user_code import packed, place_of
from motet.messages.message import decode, pieces
from motet.messages.task import Outcome, Task

STOP = b"stop"
NOTHING: dict[str, Any] = {"new_box": False, "sizes": [], "outcomes": [], "mistake": None, "theirs": None, "bug": None}


def work(connection: Connection, parent: int, environment: Mapping[str, str], build: Callable[[], Work]) -> None:
    """Run a worker process until it is stopped. Tensors travel through shared memory; the pipe carries their sizes.

    The environment variables are the parent's of now: those of the process that forked this one may be older.
    """
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ.clear()
    os.environ.update(environment)
    keep_freed_memory()
    torch.set_num_threads(1)
    inbox, outbox = InBox(), OutBox()
    try:
        here = build()
    except (Exception, SystemExit) as error:
        connection.send_bytes(json.dumps(NOTHING | what_is_wrong(error)).encode())
        return
    gc.collect()
    gc.freeze()  # these objects stay, so that collecting after each task costs next to nothing
    connection.send_bytes(json.dumps(NOTHING).encode())  # ready
    while True:
        try:
            order = connection.recv_bytes()
        except EOFError:
            break
        if order == STOP:
            break
        answer = _answer(connection, json.loads(order), inbox, outbox, here)
        connection.send_bytes(json.dumps(answer).encode())
        if answer["new_box"]:
            outbox.hand_over(connection, parent)
        gc.collect()  # frees models of finished trainings, which reference cycles hold
    inbox.close()
    outbox.close()


def _answer(connection: Connection, order: dict[str, Any], inbox: InBox, outbox: OutBox, here: Work) -> dict[str, Any]:
    """Do a group of tasks, write replies and private states to the outbox, and return the answer for the pipe."""
    if order["new_box"]:
        inbox.receive(connection)
    states = list(map(decode, inbox.read(*order["sizes"])))  # message and private state of each task
    words = zip(order["tasks"], states[::2], strict=True)
    tasks = [Task(kind, client, round, message) for (kind, client, round), message in words]
    try:
        outcomes = here.perform_group(tasks, states[1::2])
        answers = [state for outcome in outcomes for state in (outcome.reply, outcome.private)]
        parts = [None if state is None else pieces(state) for state in answers]
        new_box = outbox.write(*(piece for of_one in parts if of_one for piece in of_one))
    except (Exception, SystemExit) as error:
        return NOTHING | what_is_wrong(error)
    sizes = [None if of_one is None else sum(map(len, of_one)) for of_one in parts]
    return NOTHING | {"new_box": new_box, "sizes": sizes, "outcomes": list(map(words_of, outcomes))}


def words_of(outcome: Outcome) -> list[Any]:
    """Return what an answer says of an outcome besides its reply and private state (`outcome_of` reads it)."""
    return [outcome.kind, outcome.client_id, outcome.round, outcome.failure, outcome.train_loss]


def what_is_wrong(error: BaseException) -> dict[str, object]:
    """Return an error as fields of an answer: a user's mistake, an error in the user's own code, or a bug of Motet."""
    if isinstance(error, MotetError):
        return {"mistake": str(error)}
    place = place_of(error)
    return {"theirs": packed(error, place)} if place else {"bug": traceback.format_exc()}


def _end_with_parent() -> None:
    """End this process when the one that asked for it is gone, even in the middle of its work."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
