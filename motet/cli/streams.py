"""Standard input, output and error: there, whatever the caller closed, and what stdout did not take is an error."""

import os
import sys
from collections.abc import Sequence

from motet.errors import MotetError, shown


def open_closed_ones() -> None:
    """What is closed reads as empty and takes everything: else a file of a run would get its number, and the output."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            os.set_inheritable(opened, True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r+", encoding="utf-8"))  # noqa: SIM115  as long as the process


def give_up_stdout() -> None:
    """If stdout takes no more, let Python's last flush find a patient file, or it would complain again."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def refuse_half_characters(words: Sequence[str]) -> None:
    """Bytes of a command line that are no text in this locale come as half characters, which no file or JSON takes."""
    for word in words:
        if any("\ud800" <= c <= "\udfff" for c in word):
            raise MotetError(
                f"{shown(word)} is no text in this locale; accepted: UTF-8 (LC_ALL=C.UTF-8, or PYTHONUTF8=1, where the "
                f"locale knows ASCII alone)"
            )
