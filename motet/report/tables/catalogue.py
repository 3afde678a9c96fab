"""Tables for people: the catalogue, a partition."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from motet.io.text import printable, shortened
from motet.report.tables.fitted import Packed
from motet.report.tables.prose import Prose

# -------- What a row of a catalogue says beside its summary


CatalogueRow = Mapping[str, Any]


def details(row: CatalogueRow) -> str:
    """The second line of what it is; empty where the summary says it all."""
    if "stages" in row:
        return _of_net(row)
    return _of_method(row) if "models_down" in row else ""


def _of_net(row: CatalogueRow) -> str:
    takes, stages = ", ".join(row["accepts"]), ", ".join(row["stages"])
    return f"takes {takes}; stages {stages}; {row['parameters']:,} parameters at {row['example']}"


def _of_method(row: CatalogueRow) -> str:
    weighed = row["kind"] != "personalization" and row["models_up"] != "0"  # FedAvg's mean is by size
    loss = ["its training loss"] if row["kind"] != "personalization" else []  # scoring.train_loss
    told = ", ".join([*(["its size"] if weighed else []), *loss, *row["tells"]]) or "nothing"
    return f"{_travels(row)}; keeps {row['stays'] or 'its data'}; tells {told}; {_composes(row)}"


def _travels(row: CatalogueRow) -> str:
    """The cost in models per round. What follows a method sends nothing itself."""
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


# ------------------------------------------------------------ Tables for people: the catalogue, a partition


MOST_CLASSES = 20
WIDEST_CLASS = 12  # a longer name of a class is shortened


def catalogue(rows: Sequence[Mapping[str, Any]], last: str = "paper") -> Table:
    """Names with one line and the paper for each, or another field of the rows."""
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


def partition(clients: Sequence[Mapping[str, Any]], test_samples: int, class_names: Sequence[str] = ()) -> Group:
    """The class counts of every client, by the names of both."""
    classes = len(clients[0]["counts"])
    names = [printable(name) for name in class_names or map(str, range(classes))]
    wide = classes > MOST_CLASSES
    titles = ["classes", "largest"] if wide else [_class_title(c, name) for c, name in enumerate(names)]
    splits = [split for split in ("train", "val", "test") if any(client[split] for client in clients)]
    cells = []
    for client in clients:
        counts: list[int] = client["counts"]
        dealt = [sum(1 for n in counts if n), max(counts)] if wide else counts
        cells.append([str(n) for n in (*dealt, *(client[split] for split in splits), sum(counts))])
    named = any(client["name"] != str(client["id"]) for client in clients)
    words = [*(["name"] if named else []), *(["domain"] if any(client.get("domain") for client in clients) else [])]
    labels = [[_number(client), *(printable(client[word] or "") for word in words)] for client in clients]
    table = Packed(["client", *words], labels, [*titles, *splits, "total"], cells)
    total = sum(sum(client["counts"]) for client in clients)
    note = f"{len(clients)} clients, {total} samples dealt, {test_samples} in the common test set"
    cut = [name for name in names if shortened(name, WIDEST_CLASS) != name]
    below: list[RenderableType] = [] if wide or not cut else [Text()]
    below += [Prose(f"{shortened(name, WIDEST_CLASS)}  is  {name}", "dim") for name in cut if not wide]
    return Group(table, *below, Text(), Prose(note, "dim"))


def _class_title(number: int, name: str) -> str:
    return f"c{number}" if name == str(number) else shortened(name, WIDEST_CLASS)


def _number(client: Mapping[str, Any]) -> str:
    what = "new" if client["new"] else "malicious" if client.get("malicious") else ""
    return f"{client['id']} {what}".strip()


def _options(options: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={_option(value)}" for name, value in options.items())


def _option(value: object) -> str:
    """As it would be typed; None cannot be, it is what leaving out means."""
    return "left out" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
