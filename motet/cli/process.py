"""The process of a command: unexpected errors, standard streams, and signals.

Ctrl-C, SIGTERM and SIGHUP end the work so that nothing is lost, and a message says how to continue.
"""

import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType, TracebackType

from motet.errors import MotetError, one_sentence, shown
from motet.io.text import printable
from motet.io.user_code import HINT, said_of, trace_of

BUG = 70  # EX_SOFTWARE of sysexits.h
NO_MEMORY = (
    "there is not enough memory for this experiment; accepted: a smaller net, batch or cohort, less data, fewer "
    "workers (engine.workers)"
)
DEBUG = "MOTET_DEBUG"


def tell_of_own_code(error: BaseException, place: str) -> str:
    """Print the traceback of an error in the user's own code, and return one sentence about it."""
    trace = trace_of(error.with_traceback(_below_the_command(error.__traceback__)))
    sys.stderr.write("".join(f"{printable(line)}\n" for line in trace.splitlines()))
    return f"error: {said_of(error, place)}; {HINT}"


def _below_the_command(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without Motet's command line, which does not help the author of the code."""
    below, at = trace, trace
    while at is not None:
        if at.tb_frame.f_code.co_filename.startswith(os.path.dirname(__file__)):
            below = at.tb_next
        at = at.tb_next
    return below


def tell_of_bug(error: BaseException) -> str:
    """Return one sentence about a bug in Motet; its traceback goes to a file, or is shown with MOTET_DEBUG=1."""
    trace = "".join(traceback.format_exception(error))
    what = one_sentence(f"{type(error).__name__}: {error}")[:300]
    if os.environ.get(DEBUG, "0") not in ("", "0"):
        sys.stderr.write(trace)
        return f"error: {what}; this is a bug of Motet's, with the traceback above"
    return f"error: {what}; this is a bug of Motet's, please report it ({_saved(trace)})"


def is_memory(error: BaseException) -> bool:
    """Return whether memory ran out: Python's own error, or torch's."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "can't allocate memory" in str(error))


def _saved(trace: str) -> str:
    try:
        descriptor, path = tempfile.mkstemp(prefix="motet-bug-", suffix=".txt", text=True)
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{' '.join(map(repr, sys.argv))}\n\n{trace}")
    except OSError:
        return f"the traceback could not be saved; {DEBUG}=1 shows it"
    return f"the traceback is in {path}; {DEBUG}=1 shows it"


# -------- Standard input, output and error


def open_closed_ones() -> None:
    """Open closed standard streams on the null device, so that no file of a run gets their number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # os.open returns the lowest free number
            os.set_inheritable(opened, True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r+", encoding="utf-8"))  # noqa: SIM115  as long as the process


def give_up_stdout() -> None:
    """Send stdout to the null device if it is closed, so that Python's last flush does not fail again."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def refuse_half_characters(words: Sequence[str]) -> None:
    """Raise a MotetError for words that are no text in this locale: files and JSON cannot hold them."""
    for word in words:
        if any("\ud800" <= c <= "\udfff" for c in word):
            raise MotetError(
                f"{shown(word)} is no text in this locale; accepted: UTF-8 (LC_ALL=C.UTF-8, or PYTHONUTF8=1, where the "
                f"locale knows ASCII alone)"
            )


# -------- Ctrl-C, SIGTERM and SIGHUP


ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""SIGTERM comes from a scheduler, a shutdown or `kill`; SIGHUP from a terminal that closed, and not on Windows."""

AGAIN = 0.02
"""Seconds until a signal that came during an import is raised again."""

_heard: list[int] = []  # the first signal; libraries may swallow its exception


class Stopped(Exception):
    """Raised when the user stopped the work; the text says how to continue."""

    def __init__(self, sentence: str):
        super().__init__(sentence)


class Terminated(KeyboardInterrupt):
    """Raised in the main thread by SIGTERM or SIGHUP."""


@contextmanager
def told_how_to_go_on(sentence: Callable[[], str]) -> Iterator[None]:
    """Turn Ctrl-C and ending signals inside the block into `Stopped` with that sentence."""
    try:
        yield
    except KeyboardInterrupt:
        raise Stopped(sentence()) from None


def stop_code() -> int:
    """Return the exit code after a signal, as shells have it: 128 plus its number."""
    return 128 + (_heard[0] if _heard else signal.SIGINT)


def is_stopping() -> bool:
    """Return whether a signal came: errors after it are its consequence, such as a library half imported."""
    return bool(_heard)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Inside the block SIGTERM and SIGHUP end the work as Ctrl-C does, with its workers; a second one ends the process
    at once.

    A signal that the caller handles or ignores, as nohup does, stays so.
    """
    _heard.clear()
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, *ENDING)}
    ours = [each for each, was in before.items() if was in (signal.SIG_DFL, signal.default_int_handler)]
    for each in ours:
        signal.signal(each, _end)
    try:
        yield
    finally:
        for each in ours:
            signal.signal(each, before[each])


def _end(number: int, frame: FrameType | None) -> None:
    """Raise an exception, or a moment later while something is imported.

    Libraries in C++ end the process with words of their own if an exception comes out of an import.
    """
    if _is_importing(frame):
        if not any(isinstance(each, threading.Timer) for each in threading.enumerate()):
            again = threading.Timer(AGAIN, signal.pthread_kill, [threading.get_ident(), number])
            again.daemon = True
            again.start()
        return
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    signal.signal(number, signal.SIG_DFL)
    _heard.append(number)
    raise Terminated


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
