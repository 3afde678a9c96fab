"""The contestant's side of the contest: it says that it is ready, waits for "go", does one round, says how long."""

import json
import os
import subprocess
import sys
import time
from typing import Any


class Over(Exception):
    """The contest is over: leave whatever loop this is in."""


class Unable(Exception):
    """This contestant cannot run here, for the reason given."""


class Turns:
    """Seconds run from "go" to the next call, so a round is over when its contestant asks for the next one."""

    def __init__(self) -> None:
        self._answers = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)  # what libraries print is no answer
        self._began = 0.0

    def next(self, **more: Any) -> None:
        """Answer for the round that just ended, if one did, and wait for the next."""
        seconds = time.perf_counter() - self._began
        self._say({"seconds": seconds, **more} if self._began else {"ready": True})
        if sys.stdin.readline() != "go\n":
            raise Over
        self._began = time.perf_counter()

    def unable(self, reason: str) -> None:
        """Step back from the contest."""
        self._say({"unable": reason})

    def handed_to(self, command: list[str]) -> None:
        """Let another program hear the referee and answer from now on, to the end."""
        code = subprocess.run(command, stdout=self._answers).returncode
        if code:
            raise Unable(f"its program ended with code {code}")

    def _say(self, answer: dict[str, Any]) -> None:
        self._answers.write(json.dumps(answer) + "\n")
        self._answers.flush()
