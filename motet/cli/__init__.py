"""The command line. What a user did wrong is one sentence on stderr and exit code 2, never a traceback."""

import os
import sys
from collections.abc import Sequence

import typer

from motet.cli.commands import app
from motet.cli.stopped import Stopped
from motet.errors import MotetError
from motet.printable import printable

UNREAD, WRONG, STOPPED = 1, 2, 130


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line of these words, or of this process; the exit code."""
    command = typer.main.get_command(app)
    try:
        code = command.main(args=words, prog_name="motet", standalone_mode=False)
        sys.stdout.flush()
    except Stopped as stopped:
        return _say(str(stopped), STOPPED)
    except BrokenPipeError:  # `motet list methods | head -1`
        _give_up_stdout()
        return UNREAD
    except MotetError as error:
        return _say(f"error: {error}", WRONG)
    except OSError as error:  # where no module had a better sentence
        _give_up_stdout()
        where = f"{error.filename}: " if error.filename else ""
        return _say(f"error: {where}{error.strerror or error}", WRONG)
    except typer.Abort:
        return STOPPED
    except Exception as error:
        complaint = getattr(error, "format_message", None)  # click's errors about the words of a command line
        if complaint is None:
            raise
        return _say(f"error: {complaint()} (see motet --help)", WRONG)
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
