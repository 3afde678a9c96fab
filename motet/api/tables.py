"""A list of rows (dictionaries) that shows itself in a notebook and converts to a pandas data frame."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from motet.errors import MotetError
from motet.io.text import printable

if TYPE_CHECKING:
    import pandas

MOST_ROWS = 20
"""Rows that a notebook shows; the others are counted."""
MOST_COLUMNS = 9


class Table(list[dict[str, Any]]):
    """Rows as a plain list of dictionaries, with `to_pandas()` and a view for notebooks.

    >>> rows = Table([{"method": "fedavg", "personal": 0.8}])
    >>> rows[0]["personal"]
    0.8
    """

    @property
    def columns(self) -> list[str]:
        """Return the names of all columns, in the order in which they first appear in the rows."""
        return list(dict.fromkeys(name for row in self for name in row))

    def to_pandas(self) -> "pandas.DataFrame":
        """Return the rows as a pandas.DataFrame; pandas is not installed with Motet."""
        try:
            import pandas
        except ImportError:
            raise MotetError("to_pandas needs pandas, which is not installed; accepted: pip install pandas") from None
        return pandas.DataFrame(list(self), columns=self.columns)

    def _repr_html_(self) -> str:
        shown, more = self.columns[:MOST_COLUMNS], len(self.columns) - MOST_COLUMNS
        notes = [f"{len(self) - MOST_ROWS:,} more rows"] if len(self) > MOST_ROWS else []
        notes += [f"{more} more columns"] if more > 0 else []
        return html_table(shown, ([row.get(name) for name in shown] for row in self[:MOST_ROWS])) + html_note(
            ", ".join(notes)
        )


def html_table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as HTML in which every title and value is text."""
    head = "".join(f"<th>{html_text(title)}</th>" for title in titles)
    body = "".join(f"<tr>{''.join(f'<td>{html_text(value)}</td>' for value in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_note(text: str) -> str:
    """Return a small paragraph, or an empty text if there is nothing to say."""
    return f"<p><small>{html_text(text)}</small></p>" if text else ""


def html_text(value: object) -> str:
    """Return a value as escaped text: numbers short, nothing for None."""
    if value is None:
        return ""
    text = f"{value:.4g}" if isinstance(value, float) else printable(value)
    return escape(text if len(text) <= 200 else f"{text[:199]}…")
