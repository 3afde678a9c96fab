"""What nobody foresaw: a bug of Motet's says that it is one, and keeps what is needed to find it."""

import os
import sys
import tempfile
import traceback

from motet.errors import one_sentence
from motet.user_modules import USERS

BUG = 70  # EX_SOFTWARE of sysexits.h
NO_MEMORY = (
    "there is not enough memory for this experiment; accepted: a smaller net, batch or cohort, less data, fewer "
    "workers (engine.workers)"
)
DEBUG = "MOTET_DEBUG"


def of_the_user(error: BaseException) -> str | None:
    """A sentence about an error in code that an experiment imported from the user's own file; None for any other."""
    own = [frame for frame, _ in traceback.walk_tb(error.__traceback__) if _is_own(frame.f_globals.get("__name__", ""))]
    if not own:
        return None
    where = f"{own[-1].f_code.co_filename}, line {own[-1].f_lineno}"
    return one_sentence(f"error: {type(error).__name__}: {error} (in {where}); {DEBUG}=1 shows the traceback")


def _is_own(module: str) -> bool:
    return module.startswith(USERS)


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
