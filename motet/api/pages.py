"""`motet.report`: one page about finished runs or a comparison."""

from pathlib import Path

from motet.api.choices import AnyPath
from motet.api.comparison import PAGE, Comparison
from motet.api.result import Result
from motet.errors import MotetError
from motet.io.user_paths import shown_path, user_path
from motet.report.page import write_report


def report(*runs: AnyPath | Result | Comparison, out: AnyPath = PAGE) -> Path:
    """Write one page about finished runs, as `motet report` does, and return where it is.

    The page has the figures, every client by name and the cost. It opens in a browser and asks for nothing from a
    network.

    Parameters
    ----------
    runs
        Results, folders of runs, folders of such, or one comparison or its folder.
    out
        The file of the page.

    >>> import motet, tempfile
    >>> result = motet.run(data="digits", clients=4, rounds=1)
    >>> motet.report(result, out=tempfile.mkdtemp() + "/page.html").name
    'page.html'
    """
    folders = [run.folder if isinstance(run, Result | Comparison) else user_path(run, "folder") for run in runs]
    if not folders:
        raise MotetError("report needs something to show; accepted: results, folders of runs, or one comparison")
    page = user_path(out, "out")
    if page.is_dir():
        raise MotetError(f"out {shown_path(page)!r} is a folder; accepted: a file such as {PAGE}")
    return write_report(folders, page)
