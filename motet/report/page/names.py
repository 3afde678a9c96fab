"""Names of clients and options in sentences and charts: not all of very many."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from motet.io.text import printable
from motet.runs.clients_file import ClientInfo

MOST_NAMES = 12  # in a sentence
MOST_ROWS = 240  # in a chart: two thirds of them from its beginning

T = TypeVar("T")


def label_of(client: ClientInfo) -> str:
    """Its name; a number alone says that it is a client."""
    name = f"client {client.id}" if client.name == str(client.id) else printable(client.name)
    return f"{name} (new)" if client.new else name


def names_of(names: Sequence[str]) -> str:
    """Names in a sentence."""
    shown = ", ".join(names[:MOST_NAMES])
    return shown if len(names) <= MOST_NAMES else f"{shown} and {len(names) - MOST_NAMES} more"


def options_text(options: Mapping[str, object]) -> str:
    """Return options in a line, such as lr = 0.1, mu = 0.01."""
    return ", ".join(f"{name[:200]} = {_plain(value)}" for name, value in options.items())


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)[:200]


def few(ordered: Sequence[T], first: str, last: str) -> tuple[list[T], str]:
    """Those to draw, and a sentence about it where they are not all."""
    if len(ordered) <= MOST_ROWS:
        return list(ordered), ""
    head, tail = 2 * MOST_ROWS // 3, MOST_ROWS // 3
    note = f" Of {len(ordered)} clients the {head} {first} and the {tail} {last} are drawn."
    return [*ordered[:head], *ordered[-tail:]], note
