"""`motet report`, `motet figures`, and the page that other commands write at their end."""

from collections.abc import Sequence
from pathlib import Path

from motet.api.comparison import PAGE
from motet.api.pages import report
from motet.cli.console import note, output
from motet.errors import MotetError
from motet.io.text import printable
from motet.report.page import write_figures, write_report


def write_page(folders: Sequence[Path], out: Path) -> None:
    """Write the page and say where it is."""
    _say(f"Report in {report(*folders, out=out)}")


def write_figures_learned(folders: Sequence[Path], out: Path, format: str) -> None:
    """Write the pictures and say where they are."""
    found = write_figures(folders, out, format)
    _say(f"{len(found)} pictures in {out}")


def page_at_the_end(folders: Sequence[Path], folder: Path) -> None:
    """Write the page of runs that just ended into their folder; a page that cannot be written loses no run."""
    try:
        note(f"Report in {write_report(folders, folder / PAGE)}")
    except MotetError as error:
        note(f"no report: {error}")
    except Exception as error:  # a page is not worth a run's table
        note(f"no report ({type(error).__name__}: {error}), which is a mistake of Motet; the record is whole")


def _say(text: str) -> None:
    output().print(printable(text), markup=False, soft_wrap=True)
