"""One generated input, one verdict: refused in one sentence, accepted rightly, or failed."""

import contextlib
import io
import os
import signal
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import motet
from motet.cli import main
from motet.errors import MotetError

Wanted = Literal["refuse", "accept", "either"]
SECONDS = 30
MOST_CHARACTERS = 600


@dataclass
class Case:
    """An input: how it is tried, what is wanted, and what else has to hold if it is accepted."""

    name: str
    attempt: Callable[[], Any]
    wanted: Wanted = "either"
    holds: Callable[[Any], str | None] = lambda found: None


@dataclass
class Tally:
    """All verdicts, and the failures in words."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def line(self) -> str:
        """For the report."""
        refused, accepted, failed = (self.counts[word] for word in ("refused", "accepted", "failed"))
        return f"fuzz: {self.counts.total()} inputs: {refused} refused, {accepted} accepted, {failed} failed"


class TooLong(BaseException):
    """The time is up; not an Exception, so that nobody catches it on the way."""


class Refused(Exception):
    """A command line ended with exit code 2; the text is its sentence."""


@contextmanager
def time_limit(seconds: float = SECONDS) -> Iterator[None]:
    """Raise TooLong inside the block after that time."""

    def ring(number: int, frame: Any) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def command(*words: str) -> str:
    """What a command line prints; `Refused` with its sentence, or AssertionError if it ends otherwise."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    said = err.getvalue()
    if code == 2:
        assert not out.getvalue(), f"stdout of a refused command: {out.getvalue()[:200]!r}"
        last = said.rstrip("\n").split("\n")[-1]
        assert last.startswith("error: "), f"no sentence: {said[-300:]!r}"
        raise Refused(last.removeprefix("error: "))
    assert code == 0, f"exit code {code}: {said[-500:]!r}"
    return out.getvalue()


def judge(case: Case, tally: Tally) -> None:
    """Try a case and count it."""
    problem, verdict = None, "accepted"
    try:
        with time_limit():
            found = case.attempt()
        problem = case.holds(found) if case.wanted != "refuse" else "accepted, but it makes no sense"
    except (MotetError, Refused) as refusal:
        verdict = "refused"
        said = str(refusal)
        if len(said) >= MOST_CHARACTERS or "\n" in said or "Traceback" in said or not said:
            problem = f"no short sentence ({len(said)} characters): {said[:300]!r}"
        elif case.wanted == "accept":
            problem = f"refused, but it makes sense: {said}"
    except TooLong:
        problem = f"no answer in {SECONDS} s"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        problem = "".join(traceback.format_exception(error)[-6:])[-1500:]
    if problem:
        verdict = "failed"
        tally.failures.append(f"{case.name}: {problem}")
    tally.counts[verdict] += 1


def fingerprint_of(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below a folder, to see that nothing there was touched."""
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def run_in_python(**keywords: Any) -> motet.Result:
    """As a user calls it."""
    assert os.getcwd() != "/"
    return motet.run(**keywords)
