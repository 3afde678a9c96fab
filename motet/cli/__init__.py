"""The command line. What a user did wrong is one sentence on stderr and exit code 2, never a traceback.

Other codes: 1 an error in the user's own code, whose traceback he sees, or a reader of stdout that left; 70 a bug of
Motet's; 130 Ctrl-C, 143 SIGTERM.
"""

import os
import sys
from collections.abc import Sequence

import typer

from motet.cli.bugs import BUG, NO_MEMORY, is_memory, tell_of_bug, tell_of_own_code
from motet.cli.commands import app
from motet.cli.stopped import Stopped, ended_by_signals, stop_code
from motet.errors import MotetError, one_sentence
from motet.printable import printable
from motet.user_modules import OWN_CODE, place_of

UNREAD = THEIRS = 1
WRONG = 2


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line of these words, or of this process; the exit code."""
    command = typer.main.get_command(app)
    try:
        with ended_by_signals():
            code = command.main(args=words, prog_name="motet", standalone_mode=False)
            sys.stdout.flush()
    except Stopped as stopped:
        return _say(str(stopped), stopped.code)
    except (KeyboardInterrupt, typer.Abort) as stopped:  # before there was anything to go on with
        return stop_code(stopped)
    except BrokenPipeError:  # `motet list methods | head -1`
        _give_up_stdout()
        return UNREAD
    except MotetError as error:
        return _say(f"error: {error}", THEIRS if OWN_CODE in str(error) else WRONG)  # a study that has nothing else
    except OSError as error:  # where no module had a better sentence
        _give_up_stdout()
        if place := place_of(error):
            return _say(tell_of_own_code(error, place), THEIRS)
        where = f"{error.filename}: " if error.filename else ""
        return _say(f"error: {one_sentence(f'{where}{error.strerror or error}')}", WRONG)
    except (Exception, SystemExit) as error:
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
    return code if isinstance(code, int) else 0


def _say(text: str, code: int) -> int:
    print(printable(" ".join(text.split())), file=sys.stderr)
    return code


def _give_up_stdout() -> None:
    """If stdout takes no more, let Python's last flush find a patient file, or it would complain again."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
