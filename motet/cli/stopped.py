"""Ctrl-C is an answer too: nothing is lost, and the user is told how to go on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Stopped(Exception):
    """The user stopped the work; the text says how to go on."""


@contextmanager
def told_how_to_go_on(sentence: Callable[[], str]) -> Iterator[None]:
    """Turn Ctrl-C into that sentence."""
    try:
        yield
    except KeyboardInterrupt:
        raise Stopped(sentence()) from None
