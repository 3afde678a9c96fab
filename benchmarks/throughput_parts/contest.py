"""The referee: starts the contestants, lets one at a time do one round, in an order that rotates."""

import json
import os
import select
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from throughput_parts.contestants import CONTESTANTS
from throughput_parts.workloads import Values

PATIENCE = 900  # seconds without an answer, after which a contestant is out
WARM_UP = 2  # rounds that are not counted: memory is allocated, workers have arrived
PARTS = Path(__file__).parent.parent


Answer = dict[str, Any]


class Out(Exception):
    """A contestant cannot go on, for the reason given."""


@dataclass
class Result:
    """What a contest found: the answers of each counted round, and why somebody is missing."""

    answers: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    def seconds(self, name: str) -> list[float]:
        """The times of one contestant's counted rounds."""
        return [answer["seconds"] for answer in self.answers[name]]


class Player:
    """A contestant's process, as the referee sees it."""

    def __init__(self, contestant: str, experiment: Values):
        chosen = CONTESTANTS[contestant]
        self.restless = chosen.restless
        path = [str(PARTS), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.words = tempfile.TemporaryFile()  # noqa: SIM115  closed by `end`
        self.process = subprocess.Popen(
            [*chosen.command, "throughput_parts", contestant, json.dumps(experiment)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.words,
            env=os.environ | chosen.environment | {"PYTHONPATH": os.pathsep.join(path)},
            start_new_session=True,
        )

    def rest(self, resting: bool = True) -> None:
        """Stop its processes where they are while others are timed, or let them go on; who only waits may."""
        for pid in descendants(self.process.pid) if self.restless else ():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP if resting else signal.SIGCONT)

    def go(self) -> None:
        """Your turn."""
        assert self.process.stdin
        self.rest(False)
        try:
            self.process.stdin.write(b"go\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Out(self._last_words()) from None

    def answer(self) -> Answer:
        """The next line it says."""
        assert self.process.stdout
        if not select.select([self.process.stdout], [], [], PATIENCE)[0]:
            raise Out(f"no answer in {PATIENCE} seconds")
        line = self.process.stdout.readline()
        if not line:
            raise Out(self._last_words())
        answer: Answer = json.loads(line)
        if "unable" in answer:
            raise Out(answer["unable"])
        return answer

    def dismiss(self) -> None:
        """Close the line: it leaves after the round it is in."""
        assert self.process.stdin
        self.rest(False)
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def end(self) -> None:
        """Wait for it to leave; if it stays it is ended with everything it started."""
        assert self.process.stdout
        self.dismiss()
        try:
            self.process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)  # a session of its own: see start_new_session
            self.process.wait()
        self.process.stdout.close()
        self.words.close()

    def _last_words(self) -> str:
        self.words.seek(0)
        lines = [line for line in self.words.read().decode(errors="replace").splitlines() if line.strip()]
        return lines[-1].strip() if lines else f"ended with code {self.process.wait()}"


Act = Callable[[Player], Answer]


def contest(entries: Mapping[str, tuple[str, Values]], repeats: int) -> Result:
    """`repeats` counted rounds of each entry (a contestant and its experiment), one at a time."""
    result = Result({name: [] for name in entries})
    players: dict[str, Player] = {}
    try:
        for name, entry in entries.items():
            try:
                players[name] = Player(*entry)
            except FileNotFoundError as error:
                result.skipped[name] = f"{error.filename} is not on this machine"
                del result.answers[name]
        for name in list(players):
            _try(result, players, name, Player.answer)
        for player in players.values():
            player.rest()
        for repeat in range(-WARM_UP, repeats):
            names = list(players)
            start = repeat % len(names) if names else 0
            for name in names[start:] + names[:start]:
                answer = _try(result, players, name, _one_round)
                if answer is not None and repeat >= 0:
                    result.answers[name].append(answer)
    finally:
        for player in players.values():
            player.dismiss()
        for player in players.values():
            player.end()
    return result


def _one_round(player: Player) -> Answer:
    player.go()
    answer = player.answer()
    player.rest()
    return answer


def descendants(pid: int) -> list[int]:
    """A process and all that it started, directly or not; nobody where the system does not tell."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            child, parent = int(path.parent.name), int(path.read_text().rpartition(")")[2].split()[1])
            parents.setdefault(parent, []).append(child)
    found = [pid] if parents else []
    for one in found:
        found += parents.get(one, [])
    return found


def _try(result: Result, players: dict[str, Player], name: str, act: Act) -> Answer | None:
    """What a player answers; None if it is out, with its reason noted and its process ended."""
    try:
        return act(players[name])
    except Out as reason:
        result.skipped[name] = str(reason)
        del result.answers[name]
        players.pop(name).end()
        return None
