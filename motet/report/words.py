"""How tables and progress write figures."""

from pathlib import PurePath

NOTHING = "–"


def percent(share: object) -> str:
    """A share as percent with one decimal; a dash where there is none."""
    return f"{100 * share:.1f}" if isinstance(share, int | float) else NOTHING


def megabytes(*counts: object, runs: int = 1) -> str:
    """The sum of byte counts in millions, or its mean over so many runs; a dash where one is not there."""
    known = [count for count in counts if isinstance(count, int | float)]
    return f"{sum(known) / runs / 1e6:.2f}" if known and len(known) == len(counts) else NOTHING


def number(value: object) -> str:
    """A plain number with three digits; a dash where there is none."""
    return f"{value:.3g}" if isinstance(value, int | float) else NOTHING


def signed(share: float) -> str:
    """A difference of shares in points of percent, always with its sign; a difference of nothing has none."""
    text = f"{100 * share:+.1f}"
    return "0.0" if float(text) == 0 else text.replace("-", "−")


def data_name(name: str) -> str:
    """Data as a table or a page names them: where a file lies on somebody's machine is nobody else's business."""
    return PurePath(name).name or name
