"""How a comparison was made, in sentences: every choice that another study might make otherwise."""

from collections.abc import Mapping, Sequence

from motet.report.tuned import left_out
from motet.studies.budget import Plan
from motet.studies.contestants import Field
from motet.studies.recommend import CONTROL, MARGIN
from motet.studies.results import Results
from motet.studies.tuning import Tuned, rungs

_DATA = {
    "weighted": "the common test set, weighted by each client's classes",
    "split": "each client's own test data",
}


def sentences(plan: Plan, field: Field, tuned: Mapping[str, Tuned], results: Results) -> list[str]:
    """For the table, the report and comparison.json."""
    experiment = field.contestants[0].experiment
    *earlier, last = rungs(experiment.rounds.count)
    first, methods = experiment.seed, len(results.methods)
    over = f"seeds {first} to {first + plan.seeds - 1}" if plan.seeds > 1 else f"seed {first}"
    return [
        f"Personal accuracy on {_DATA[results.figure.data]}, mean over {len(results.clients)} clients and {over}, each "
        f"alike, after round {last}.",
        f"Every method was tuned by {_settings(plan.trials)} on validation data alone "
        f"({100 * experiment.data.val_share:.0f} % of what a client trains with){_halved(earlier, plan.trials)}.",
        *_all_tried([name for name, found in tuned.items() if found.all_tried and name in results.methods]),
        "Test data were scored in the last runs alone, after every setting was chosen; the last round counts.",
        "A method that makes no personal models, such as fedavg, serves everybody its generic model.",
        "Clients are dealt once; seeds vary the training.",
        "Intervals of 95 %: bootstrap over clients and seeds, widened for few of them; differences are paired over "
        "both.",
        f"More than chance: after Holm's correction, of differences to {CONTROL} over the other methods, of any "
        f"other one over all {methods * (methods - 1) // 2} pairs.",
        f"Recommended is the simplest method whose difference to the best may be chance and is at most "
        f"{100 * MARGIN:.0f} points.",
        *plan.notes,
        *(left_out(name, why) for name, why in field.left_out.items()),
    ]


def _settings(trials: int) -> str:
    return f"{trials} settings" if trials > 1 else "1 setting, its defaults,"


def _halved(rounds: Sequence[int], trials: int) -> str:
    if not rounds or trials < 2:
        return ""
    return f"; the worse half stopped after round {' and '.join(map(str, rounds))}"


def _all_tried(names: Sequence[str]) -> list[str]:
    if not names:
        return []
    return [f"{', '.join(names)} {'have' if len(names) > 1 else 'has'} no more settings than were tried."]
