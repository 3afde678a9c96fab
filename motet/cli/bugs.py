"""What nobody foresaw: a bug of Motet's says that it is one, and keeps what is needed to find it."""

import os
import sys
import tempfile
import traceback
from types import TracebackType

from motet.errors import one_sentence
from motet.printable import printable
from motet.user_modules import HINT, said_of, trace_of

BUG = 70  # EX_SOFTWARE of sysexits.h
NO_MEMORY = (
    "there is not enough memory for this experiment; accepted: a smaller net, batch or cohort, less data, fewer "
    "workers (engine.workers)"
)
DEBUG = "MOTET_DEBUG"


def tell_of_own_code(error: BaseException, place: str) -> str:
    """One sentence about an error in the user's own code, after its traceback: he can mend it, we cannot."""
    trace = trace_of(error.with_traceback(_below_the_command(error.__traceback__)))
    sys.stderr.write("".join(f"{printable(line)}\n" for line in trace.splitlines()))
    return f"error: {said_of(error, place)}; {HINT}"


def _below_the_command(trace: TracebackType | None) -> TracebackType | None:
    """Without the steps from the command line to the work, which tell an author nothing."""
    below, at = trace, trace
    while at is not None:
        if at.tb_frame.f_code.co_filename.startswith(os.path.dirname(__file__)):
            below = at.tb_next
        at = at.tb_next
    return below


def tell_of_bug(error: BaseException) -> str:
    """One sentence about an error that should not be; its traceback goes to a file, or is shown with MOTET_DEBUG=1."""
    trace = "".join(traceback.format_exception(error))
    what = one_sentence(f"{type(error).__name__}: {error}")[:300]
    if os.environ.get(DEBUG, "0") not in ("", "0"):
        sys.stderr.write(trace)
        return f"error: {what}; this is a bug of Motet's, with the traceback above"
    return f"error: {what}; this is a bug of Motet's, please report it ({_saved(trace)})"


def is_memory(error: BaseException) -> bool:
    """Whether memory ran out: Python's own error, or torch's."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "can't allocate memory" in str(error))


def _saved(trace: str) -> str:
    try:
        descriptor, path = tempfile.mkstemp(prefix="motet-bug-", suffix=".txt", text=True)
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{' '.join(map(repr, sys.argv))}\n\n{trace}")
    except OSError:
        return f"the traceback could not be saved; {DEBUG}=1 shows it"
    return f"the traceback is in {path}; {DEBUG}=1 shows it"
