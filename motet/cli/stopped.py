"""Ctrl-C and SIGTERM are answers too: nothing is lost, and the user is told how to go on."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

CTRL_C, TERMINATED = 130, 143


class Stopped(Exception):
    """The user stopped the work; the text says how to go on."""

    def __init__(self, sentence: str, code: int = CTRL_C):
        super().__init__(sentence)
        self.code = code


class Terminated(KeyboardInterrupt):
    """SIGTERM: from a scheduler, a shutdown, `kill`."""


@contextmanager
def told_how_to_go_on(sentence: Callable[[], str]) -> Iterator[None]:
    """Turn Ctrl-C and SIGTERM into that sentence."""
    try:
        yield
    except KeyboardInterrupt as stop:
        raise Stopped(sentence(), stop_code(stop)) from None


def stop_code(stop: BaseException | None) -> int:
    """The exit code of what stopped the work: a shell's, 128 and the number of the signal."""
    while stop is not None:
        if isinstance(stop, Terminated):
            return TERMINATED
        stop = stop.__cause__
    return CTRL_C


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Inside, SIGTERM ends the work as Ctrl-C does, workers included; a second one ends the process at once."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield  # signals are the caller's
        return
    signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise Terminated
