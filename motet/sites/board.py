"""What the coordinator knows of its sites at this moment, for the status page and for the log; any thread may ask."""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

State = Literal["not seen yet", "waiting", "working", "away", "done"]
MOST_LINES = 200


class Board:
    """The present state of a run: each site, the rounds so far, and the last sentences."""

    def __init__(self, names: Sequence[str], said: Callable[[str], None] = lambda sentence: None):
        self._lock = threading.Lock()
        self._said = said
        self._sites: dict[str, dict[str, Any]] = {
            name: {"name": name, "state": "not seen yet", "what": "", "since": time.time(), "late": False, "last": None}
            for name in names
        }
        self._rounds: list[dict[str, Any]] = []
        self._lines: deque[dict[str, Any]] = deque(maxlen=MOST_LINES)
        self._about: dict[str, Any] = {"method": "", "rounds": 0, "metric": "", "higher_is_better": True, "ended": ""}

    def say(self, sentence: str) -> None:
        """Note a sentence, and pass it on."""
        with self._lock:
            self._lines.append({"at": time.time(), "text": sentence})
        self._said(sentence)

    def about(self, **words: Any) -> None:
        """Note what the run is: its method, its rounds, its metric, how it ended."""
        with self._lock:
            self._about |= words

    def site(self, name: str, state: State, what: str = "", late: bool = False) -> None:
        """Note what a site does now."""
        with self._lock:
            found = self._sites[name]
            if (found["state"], found["what"]) != (state, what):
                found |= {"state": state, "what": what, "since": time.time()}
            found["late"] = late

    def answered(self, name: str) -> None:
        """Note that a site answered just now."""
        with self._lock:
            self._sites[name] |= {"state": "waiting", "what": "", "since": time.time(), "late": False}
            self._sites[name]["last"] = time.time()

    def is_away(self, name: str) -> bool:
        """Return whether a site was noted as away."""
        with self._lock:
            return bool(self._sites[name]["state"] == "away")

    def round(self, row: Mapping[str, Any], generic: float | None, personal: float | None) -> None:
        """Note the end of a round."""
        aside = {str(name): str(why) for name, why in row["set_aside"].items()}
        with self._lock:
            self._rounds = [each for each in self._rounds if each["round"] < row["round"]]
            self._rounds.append(
                {
                    "round": row["round"],
                    "seconds": round(float(row["seconds"]), 2),
                    "cohort": len(row["cohort"]),
                    "set_aside": aside,
                    "bytes_up": row["bytes_up"],
                    "bytes_down": row["bytes_down"],
                    "generic": generic,
                    "personal": personal,
                }
            )

    def snapshot(self) -> dict[str, Any]:
        """Return everything as plain values."""
        with self._lock:
            return {
                "now": time.time(),
                "about": dict(self._about),
                "sites": [dict(site) for site in self._sites.values()],
                "rounds": [dict(row) for row in self._rounds],
                "lines": [dict(line) for line in self._lines],
            }
