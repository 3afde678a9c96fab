"""The command line. A user's mistake is one sentence on stderr and exit code 2, never a traceback.

Other exit codes: 1 an error in the user's own code, with its traceback, or a closed stdout; 70 a bug in Motet; 130
Ctrl-C, 143 SIGTERM, 129 SIGHUP.
"""

import errno
import sys
from collections.abc import Sequence
from contextlib import suppress

import typer

from motet.cli.commands import app
from motet.cli.process import (
    BUG,
    NO_MEMORY,
    Stopped,
    ended_by_signals,
    give_up_stdout,
    is_memory,
    is_stopping,
    open_closed_ones,
    refuse_half_characters,
    stop_code,
    tell_of_bug,
    tell_of_own_code,
)
from motet.errors import MotetError, one_sentence
from motet.io.text import printable
from motet.io.user_code import OWN_CODE, place_of

UNREAD = THEIRS = 1
WRONG = 2


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line with these words, or those of this process, and return the exit code."""
    open_closed_ones()
    command = typer.main.get_command(app)
    try:
        with ended_by_signals():
            refuse_half_characters(sys.argv[1:] if words is None else words)
            code = command.main(args=words, prog_name="motet", standalone_mode=False)
            sys.stdout.flush()
    except Stopped as stopped:
        return _say(str(stopped), stop_code())
    except (KeyboardInterrupt, typer.Abort):  # before there was anything to resume
        return stop_code()
    except BrokenPipeError:  # `motet list methods | head -1`
        give_up_stdout()
        return UNREAD
    except MotetError as error:
        if is_stopping():  # such as a worker that the same signal ended
            return _say(f"stopped: {error}", stop_code())
        return _say(f"error: {error}", THEIRS if OWN_CODE in str(error) else WRONG)  # a study in which all runs failed
    except OSError as error:  # no module turned it into a MotetError
        give_up_stdout()
        if is_stopping():
            return stop_code()
        if place := place_of(error):
            return _say(tell_of_own_code(error, place), THEIRS)
        # without the name of a file, a full disk is that of standard output
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
        where = f"{error.filename}: " if error.filename else "standard output: " if full else ""
        return _say(f"error: {one_sentence(f'{where}{error.strerror or error}')}", WRONG)
    except (Exception, SystemExit) as error:
        if is_stopping():
            return stop_code()
        complaint = getattr(error, "format_message", None)  # click's errors about the words of a command line
        if complaint is not None:
            return _say(f"error: {one_sentence(complaint())} (see motet --help)", WRONG)
        if is_memory(error):
            return _say(f"error: {NO_MEMORY}", WRONG)
        if place := place_of(error):
            return _say(tell_of_own_code(error, place), THEIRS)
        if isinstance(error, SystemExit):
            raise
        return _say(tell_of_bug(error), BUG)
    if is_stopping():  # typer replaces the exit code of an early signal
        return stop_code()
    return code if isinstance(code, int) else 0


def _say(text: str, code: int) -> int:
    with suppress(OSError):  # stderr may be full or closed; the exit code still counts
        print(printable(" ".join(text.split())), file=sys.stderr, flush=True)
    return code
