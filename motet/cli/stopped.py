"""Ctrl-C, SIGTERM and SIGHUP are answers too: nothing is lost, and the user is told how to go on."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

ENDING = (signal.SIGTERM, signal.SIGHUP)
"""From a scheduler, a shutdown, `kill`; from a terminal that went away."""

_heard: list[int] = []  # the first of them, whatever became of the exception on its way through libraries


class Stopped(Exception):
    """The user stopped the work; the text says how to go on."""

    def __init__(self, sentence: str):
        super().__init__(sentence)


class Terminated(KeyboardInterrupt):
    """One of the signals that end a process."""


@contextmanager
def told_how_to_go_on(sentence: Callable[[], str]) -> Iterator[None]:
    """Turn Ctrl-C and signals into that sentence."""
    try:
        yield
    except KeyboardInterrupt:
        raise Stopped(sentence()) from None


def stop_code() -> int:
    """The exit code of what stopped the work: a shell's, 128 and the number of the signal."""
    return 128 + (_heard[0] if _heard else signal.SIGINT)


def is_stopping() -> bool:
    """Whether a signal came: what fails then fails of that, such as a library in the middle of its import."""
    return bool(_heard)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Inside, SIGTERM and SIGHUP end the work as Ctrl-C does, workers included; a second one ends the process at once.

    What the caller handles or ignores, as nohup does, stays his.
    """
    _heard.clear()
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = [each for each in ENDING if signal.getsignal(each) == signal.SIG_DFL]
    for each in ours:
        signal.signal(each, _end)
    try:
        yield
    finally:
        for each in ours:
            signal.signal(each, signal.SIG_DFL)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_DFL)
    _heard.append(number)
    raise Terminated
