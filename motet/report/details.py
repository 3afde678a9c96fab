"""What a row of a catalogue says beside its summary: of a net how it is built, of a method what it costs and tells."""

from collections.abc import Mapping
from typing import Any

Row = Mapping[str, Any]


def details(row: Row) -> str:
    """The second line of what it is; empty where the summary says it all."""
    if "stages" in row:
        return _of_net(row)
    return _of_method(row) if "models_down" in row else ""


def _of_net(row: Row) -> str:
    takes, stages = ", ".join(row["accepts"]), ", ".join(row["stages"])
    return f"takes {takes}; stages {stages}; {row['parameters']:,} parameters at {row['example']}"


def _of_method(row: Row) -> str:
    weighed = row["kind"] != "personalization" and row["models_up"] != "0"  # FedAvg's mean is by size
    loss = ["its training loss"] if row["kind"] != "personalization" else []  # scoring.train_loss
    told = ", ".join([*(["its size"] if weighed else []), *loss, *row["tells"]]) or "nothing"
    return f"{_travels(row)}; keeps {row['stays'] or 'its data'}; tells {told}; {_composes(row)}"


def _travels(row: Row) -> str:
    """The cost in models per round. What follows a method sends nothing itself."""
    if row["kind"] == "personalization":
        return "sends nothing more"
    return f"models down {row['models_down']}, up {row['models_up']}"


def _composes(row: Row) -> str:
    if row["kind"] == "personalization":
        return "after any method with a generic model"
    if row["kind"] == "part":
        return "joins other parts"
    carried = row["carries"]
    if carried == ["*"]:
        return "carries any part"
    return f"carries {', '.join(carried)}" if carried else "stands alone"
