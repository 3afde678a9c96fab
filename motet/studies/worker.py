"""The main program of a worker process: jobs come in as lines of JSON, rounds and ends go out the same way."""

import json
import os
import queue
import signal
import sys
import threading
from typing import Any, Protocol

from motet.data.built_once import built_once
from motet.studies.job import attempt, job_of


class Say(Protocol):
    """A function that sends the parent a message."""

    def __call__(self, **word: object) -> None:
        """Write the fields as a line of JSON."""


def main() -> None:
    """Run jobs until standard input ends, which it does when the parent ends in any way."""
    for name in ("SIGINT", "SIGHUP"):  # the parent handles Ctrl-C and a closed terminal; Windows has only SIGINT
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    out, sys.stdout = sys.stdout, sys.stderr  # the user's code may print, which must not mix with messages
    asked: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_listen, args=(asked,), daemon=True).start()

    def say(**word: object) -> None:
        out.write(json.dumps(word) + "\n")
        out.flush()

    with built_once():  # all jobs of this process share the data
        while True:
            _do(asked.get(), say)


def _listen(asked: "queue.Queue[dict[str, Any]]") -> None:
    for line in sys.stdin:
        asked.put(json.loads(line))
    os._exit(0)  # even in the middle of a round: the record can be resumed


def _do(asked: dict[str, Any], say: Say) -> None:
    say(word="ended", why=attempt(job_of(asked), lambda round: say(word="round", round=round)))


if __name__ == "__main__":
    main()
