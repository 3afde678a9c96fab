"""thresholds.json of a record: from which probability on each model predicts the second class.

It is there if `scoring.threshold` was set. All clients' thresholds are in it, which in a simulation are known; a real
site would keep its own.
"""

import os
from typing import Annotated, Final, Literal

from pydantic import Field

from motet.io.files import write_atomic
from motet.io.json_models import Count, FileModel, Text
from motet.metrics.threshold import ClientThreshold, Thresholds
from motet.runs.record import Record

FORMAT: Final = 1
FILE = "thresholds.json"

Share = Annotated[float, Field(ge=0, le=1)]


class ThresholdOfClient(FileModel):
    """The threshold of one client's own model."""

    client: Count
    threshold: Share
    own: bool
    rows: Count
    reached: bool


class ThresholdsFile(FileModel):
    """The content of thresholds.json."""

    format: Literal[1]
    rule: Text
    common: Share
    rows: Count
    clients: tuple[ThresholdOfClient, ...]
    on_test: dict[Text, dict[Text, Share]]


def write_thresholds(record: Record, found: Thresholds | None) -> None:
    """Write the thresholds of a run, if some were chosen."""
    if found is None:
        return
    clients = tuple(
        ThresholdOfClient(client=i, threshold=each.value, own=each.own, rows=each.rows, reached=each.reached)
        for i, each in sorted(found.clients.items())
    )
    file = ThresholdsFile(
        format=FORMAT,
        rule=found.rule,
        common=found.common,
        rows=found.rows,
        clients=clients,
        on_test={model: dict(values) for model, values in found.on_test.items()},
    )
    write_atomic(record.folder / FILE, file.to_json(indent=1))


def read_thresholds(record: Record) -> Thresholds | None:
    """Return the thresholds of a run, or None if it chose none; raise `MotetError` if the file is damaged."""
    if not os.path.lexists(record.folder / FILE):
        return None
    file = ThresholdsFile.from_json(record.read_bytes(FILE), str(record.folder / FILE))
    clients = {c.client: ClientThreshold(c.threshold, c.own, c.rows, c.reached) for c in file.clients}
    return Thresholds(file.rule, file.common, file.rows, clients, file.on_test)
