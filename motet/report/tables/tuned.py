"""What a tuning found, as a table."""

from collections.abc import Mapping
from typing import Any

from rich.console import Group
from rich.text import Text

from motet.io.text import printable
from motet.report.tables.fitted import Packed
from motet.report.tables.wording import NOTHING, Prose, percent


def tuned_table(result: Mapping[str, Any]) -> Group:
    """A line per method: what was chosen, its accuracy on validation data, how many settings were tried."""
    methods = result["methods"]
    labels = [[printable(found["method"])] for found in methods]
    cells = [
        [choices(found["options"]) if found["options"] else NOTHING, percent(found["score"]), str(len(found["trials"]))]
        for found in methods
    ]
    failed = [(found["method"], found["failure"]) for found in methods if found.get("failure")]
    notes = ["Accuracies in percent: personal models on clients' validation data, mean over clients."]
    notes += [f"{printable(name)} has no result: {printable(why)}." for name, why in failed]
    notes += [left_out(name, why) for name, why in result["left_out"].items()]
    notes += [printable(note) for note in result["notes"]]
    table = Packed(["method"], labels, ["chosen", "validation\naccuracy", "settings\ntried"], cells)
    return Group(table, Text(), *(Prose(note, "dim") for note in notes))


def choices(setting: Mapping[str, Any]) -> str:
    """Such as `lam=0.1, lr=0.03`; by full names where two would look alike."""
    short = [name.rpartition(".")[2] for name in setting]
    return ", ".join(
        f"{printable(name if short.count(last) > 1 else last)}={_value(value)}"
        for (name, value), last in zip(setting.items(), short, strict=True)
    )


def left_out(name: str, why: str) -> str:
    """The sentence about a method that cannot take part."""
    return f"{printable(name)} is left out: {printable(why)}."


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return str(value).lower() if isinstance(value, bool) else printable(value)
