"""What `motet list` and `motet data` print: methods, nets and data by name, and a partition drawn in characters."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from motet.io.text import printable, shortened
from motet.report.tables.layout import Packed, Prose

CatalogueRow = Mapping[str, Any]


def details(row: CatalogueRow) -> str:
    """Return the second line of a row's description; empty if the summary says all."""
    if "stages" in row:
        return _of_net(row)
    return _of_method(row) if "models_down" in row else ""


def _of_net(row: CatalogueRow) -> str:
    takes, stages = ", ".join(row["accepts"]), ", ".join(row["stages"])
    return f"takes {takes}; stages {stages}; {row['parameters']:,} parameters at {row['example']}"


def _of_method(row: CatalogueRow) -> str:
    weighed = row["kind"] != "personalization" and row["models_up"] != "0"  # FedAvg's mean is by samples
    loss = ["its training loss"] if row["kind"] != "personalization" else []  # scoring.train_loss
    told = ", ".join([*(["its size"] if weighed else []), *loss, *row["tells"]]) or "nothing"
    return f"{_travels(row)}; keeps {row['stays'] or 'its data'}; tells {told}; {_composes(row)}"


def _travels(row: CatalogueRow) -> str:
    """Return the cost in models per round; wrappers send nothing themselves."""
    if row["kind"] == "personalization":
        return "sends nothing more"
    return f"models down {row['models_down']}, up {row['models_up']}"


def _composes(row: CatalogueRow) -> str:
    if row["kind"] == "personalization":
        return "after any method with a generic model"
    if row["kind"] == "part":
        return "joins other parts"
    carried = row["carries"]
    if carried == ["*"]:
        return "carries any part"
    return f"carries {', '.join(carried)}" if carried else "stands alone"


# -------- The tables


MOST_CLASSES = 20
WIDEST_CLASS = 12  # longer class names are shortened


def catalogue(rows: Sequence[Mapping[str, Any]], last: str = "paper") -> Table:
    """Return a table of names with a summary and the paper of each, or another field of the rows."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("name", no_wrap=True)
    table.add_column("what it is", ratio=3)
    table.add_column(last, ratio=2)
    for row in rows:
        name = f"{row['name']}:{row['argument']}" if row.get("argument") else str(row["name"])
        about = Text(str(row["summary"]))
        if row.get("options"):
            about.append(f"\noptions: {_options(row['options'])}", style="cyan")
        table.add_row(Text(name), about, Text(str(row[last]), style="dim"))
    return table


def partition(clients: Sequence[Mapping[str, Any]], test_samples: int | None, class_names: Sequence[str] = ()) -> Group:
    """Return a table of every client's class counts, with the names of both; None: there is no common test set."""
    classes = len(clients[0]["counts"])
    names = [printable(name) for name in class_names or map(str, range(classes))]
    wide = classes > MOST_CLASSES
    titles = ["classes", "largest"] if wide else [_class_title(c, name) for c, name in enumerate(names)]
    if "mean" in clients[0]:
        titles = [f"mean of\n{shortened(names[0], WIDEST_CLASS)}", "deviation"]
    splits = [split for split in ("train", "val", "test") if any(client[split] for client in clients)]
    cells = []
    for client in clients:
        counts: list[int] = client["counts"]
        dealt: list[Any]
        dealt = [sum(1 for n in counts if n), max(counts)] if wide else counts
        if "mean" in client:  # the label is a number
            dealt = [f"{client['mean']:.4g}", f"{client['deviation']:.3g}"]
        cells.append([str(n) for n in (*dealt, *(client[split] for split in splits), sum(counts))])
    named = any(client["name"] != str(client["id"]) for client in clients)
    words = [*(["name"] if named else []), *(["domain"] if any(client.get("domain") for client in clients) else [])]
    labels = [[_number(client), *(printable(client[word] or "") for word in words)] for client in clients]
    table = Packed(["client", *words], labels, [*titles, *splits, "total"], cells)
    total = sum(sum(client["counts"]) for client in clients)
    aside = "none set aside: each client is tested on rows of its own"
    if test_samples is not None:
        aside = f"{test_samples} in the common test set"
    note = f"{len(clients)} clients, {total} samples dealt, {aside}"
    cut = [name for name in names if shortened(name, WIDEST_CLASS) != name]
    below: list[RenderableType] = [] if wide or not cut else [Text()]
    below += [Prose(f"{shortened(name, WIDEST_CLASS)}  is  {name}", "dim") for name in cut if not wide]
    return Group(table, *below, Text(), Prose(note, "dim"))


def _class_title(number: int, name: str) -> str:
    return f"class\n{number}" if name == str(number) else shortened(name, WIDEST_CLASS)


def _number(client: Mapping[str, Any]) -> str:
    what = "new" if client["new"] else "malicious" if client.get("malicious") else ""
    return f"{client['id']} {what}".strip()


def _options(options: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={_option(value)}" for name, value in options.items())


def _option(value: object) -> str:
    """Return an option as it would be typed; None cannot be typed and means that it is left out."""
    return "left out" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


# -------- A partition drawn in characters


SHADES = ((0.7, "█"), (0.4, "▓"), (0.2, "▒"), (0.05, "░"))
"""From which share of a client's samples on."""
FEWER = "·"
MOST_ROWS = 20
"""More classes are shown in groups of neighbours."""
MOST_BLOCKS = 4
"""Of clients below one another; the rest is counted."""
WIDEST_NAME = 16
_GAP = 2


@dataclass(frozen=True)
class Shading:
    """A drawing of class counts per client in characters."""

    counts: Sequence[Sequence[int]]
    class_names: Sequence[str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows = self._rows()
        left = max(cell_len(name) for name, _ in rows)
        room = max(10, options.max_width - left - _GAP)
        step = 2 if 2 * len(self.counts) <= room else 1
        block = room // step // 10 * 10 or room // step
        shown = min(len(self.counts), MOST_BLOCKS * block)
        for first in range(0, shown, block):
            clients = range(first, min(first + block, shown))
            yield Text(" " * (left + _GAP) + self._numbers(clients, step), "dim")
            for name, classes in rows:
                cells = (self._shade(client, classes) for client in clients)
                yield Text(name + " " * (left + _GAP - cell_len(name)) + (" " * (step - 1)).join(cells).rstrip())
            yield Text()
        more = f"; {len(self.counts) - shown} more clients are not drawn" if shown < len(self.counts) else ""
        legend = ", ".join([f"{FEWER} fewer", *(f"{sign} from {share:.0%}" for share, sign in reversed(SHADES))])
        yield Prose(f"A column for each client; of its samples, a class has: {legend}{more}", "dim")

    def _rows(self) -> list[tuple[str, range]]:
        """Return the name and the classes of each row."""
        count = len(self.class_names)
        if count <= MOST_ROWS:
            return [(shortened(printable(name), WIDEST_NAME), range(c, c + 1)) for c, name in self._named()]
        size = -(-count // MOST_ROWS)
        groups = [range(at, min(at + size, count)) for at in range(0, count, size)]
        return [(f"{group[0]}–{group[-1]}" if len(group) > 1 else str(group[0]), group) for group in groups]

    def _named(self) -> Iterator[tuple[int, str]]:
        return enumerate(self.class_names)

    def _shade(self, client: int, classes: range) -> str:
        counts = self.counts[client]
        held = sum(counts[c] for c in classes)
        if not held:
            return " "
        return next((sign for share, sign in SHADES if held >= share * sum(counts)), FEWER)

    @staticmethod
    def _numbers(clients: range, step: int) -> str:
        """Return a line with the number of every fifth or tenth client above its column."""
        line = ""
        for client in clients:
            if client % (5 if step > 1 else 10) == 0:
                line = line.ljust((client - clients[0]) * step) + str(client)
        return line
