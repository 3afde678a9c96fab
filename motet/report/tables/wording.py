"""How tables and progress write figures and sentences, and which models of clients the figures are of."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.text import Text

NOTHING = "–"


def percent(share: object) -> str:
    """A share as percent with one decimal; a dash where there is none."""
    return f"{100 * share:.1f}" if isinstance(share, int | float) else NOTHING


_OWN_MODELS = {
    "last_participation": "the client's after its last local training",
    "final_sync": "the client's after one more training of everybody at the end",
    "global_plus_personal": "made from the server's model and what the client keeps",
}
_ONE_MODEL = "the server's model, for the method makes none of clients' own"


def own_models(runs: Iterable[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """Which model of a client was scored, in words, from methods and what their summaries say under `reported`."""
    said: dict[str, list[str]] = {}
    for method, reported in runs:
        source = reported.get("personal_model")
        if not isinstance(source, str) or source not in _OWN_MODELS:
            continue
        one = source == "global_plus_personal" and reported.get("personalizes") is False
        words = _ONE_MODEL if one else _OWN_MODELS[source]
        if method not in said.setdefault(words, []):
            said[words].append(method)
    if len(said) < 2:
        return [f"Own models: {words}." for words in said]
    each = (f"of {', '.join(methods)} {words}" for words, methods in said.items())
    return [f"Own models: {'; '.join(each)}."]


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
    """Return the name of data for a table or a page, without the folders of the machine that it lies on."""
    return PurePath(name).name or name


# -------- Sentences


@dataclass(frozen=True)
class Prose:
    """A paragraph that is wrapped between words; its text is never read as markup."""

    text: str
    style: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        for line in wrapped(self.text, options.max_width) or [""]:
            yield Text(line, style=self.style, overflow="fold")


def wrapped(text: str, width: int) -> list[str]:
    """Return lines of whole words; a word that is wider than a line gets a line of its own."""
    lines: list[str] = []
    for word in text.split(" "):
        if lines and cell_len(lines[-1]) + 1 + cell_len(word) <= width:
            lines[-1] += " " + word
        else:
            lines.append(word)
    return [line.rstrip() for line in lines]
