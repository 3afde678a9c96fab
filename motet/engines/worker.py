"""One worker process of the pool: it takes a task, works, answers, until its parent says stop or is gone."""

import json
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import torch

from motet.engines.engine import Outcome, Perform, Task
from motet.engines.shared_box import InBox, OutBox
from motet.errors import MotetError
from motet.message import decode, encode

STOP = b"stop"


def work(connection: Connection, build: Callable[[], Perform]) -> None:
    """The life of a worker. Tensors come and go through shared memory, the pipe carries their sizes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    torch.set_num_threads(1)
    inbox, outbox, perform = InBox(), OutBox(), build()
    while True:
        try:
            order = connection.recv_bytes()
        except EOFError:
            break
        if order == STOP:
            break
        connection.send_bytes(_answer(json.loads(order), inbox, outbox, perform))
    inbox.close()
    outbox.close()


def _answer(order: dict[str, Any], inbox: InBox, outbox: OutBox, perform: Perform) -> bytes:
    if order["box"]:
        inbox.open(order["box"])
    message, private = inbox.read(*order["sizes"])
    task = Task(order["kind"], order["client"], order["round"], decode(message))
    answer: dict[str, Any] = {"box": None, "sizes": [None, None], "failure": None, "mistake": None, "bug": None}
    try:
        outcome = perform(task, decode(private))
    except MotetError as error:
        return json.dumps(answer | {"mistake": str(error)}).encode()
    except Exception:
        return json.dumps(answer | {"bug": traceback.format_exc()}).encode()
    pieces = _pieces(outcome)
    answer["box"] = outbox.write(*(p for p in pieces if p is not None))
    answer["sizes"] = [None if p is None else len(p) for p in pieces]
    return json.dumps(answer | {"failure": outcome.failure}).encode()


def _pieces(outcome: Outcome) -> list[bytes | None]:
    return [None if state is None else encode(state) for state in (outcome.reply, outcome.private)]


def _end_with(parent: int) -> None:
    """A worker whose parent was killed ends too, also in the middle of its work."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)
