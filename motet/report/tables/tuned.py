"""What a tuning found, as a table for the terminal."""

from rich.console import Group
from rich.text import Text

from motet.io.text import printable
from motet.metrics.wording import NOTHING, choices, left_out, percent
from motet.report.tables.fitted import Packed
from motet.report.tables.prose import Prose
from motet.studies.tune import TuningFile


def tuned_table(tuning: TuningFile) -> Group:
    """Return a line per method: what was chosen, its accuracy on validation data, how many settings were tried."""
    labels = [[printable(found.method)] for found in tuning.methods]
    cells = [
        [choices(found.options) if found.options else NOTHING, percent(found.score), str(len(found.trials))]
        for found in tuning.methods
    ]
    notes = ["Accuracies in percent: personal models on clients' validation data, mean over clients."]
    notes += [
        f"{printable(found.method)} has no result: {printable(found.failure)}."
        for found in tuning.methods
        if found.failure
    ]
    notes += [left_out(name, why) for name, why in tuning.left_out.items()]
    notes += [printable(note) for note in tuning.notes]
    table = Packed(["method"], labels, ["chosen", "validation\naccuracy", "settings\ntried"], cells)
    return Group(table, Text(), *(Prose(note, "dim") for note in notes))
