"""How tables and progress write figures."""

NOTHING = "–"


def percent(share: object) -> str:
    """A share as percent with one decimal; a dash where there is none."""
    return f"{100 * share:.1f}" if isinstance(share, int | float) else NOTHING


def megabytes(*counts: object) -> str:
    """The sum of byte counts in millions; a dash where one is not there."""
    known = [count for count in counts if isinstance(count, int | float)]
    return f"{sum(known) / 1e6:.2f}" if known and len(known) == len(counts) else NOTHING


def number(value: object) -> str:
    """A plain number with three digits; a dash where there is none."""
    return f"{value:.3g}" if isinstance(value, int | float) else NOTHING
