"""How a comparison or a bench was made, in sentences: every choice that another study might make differently."""

from collections.abc import Mapping, Sequence

from motet.config.experiment import Experiment
from motet.config.identity import differs, field_of
from motet.config.section import dotted_fields
from motet.io.text import printable
from motet.metrics.metric import SetMetric
from motet.metrics.statistics import CONTROL
from motet.metrics.wording import left_out, level_words, own_models, with_unit
from motet.studies.budget import Plan
from motet.studies.recommend import ENOUGH_ALONE, LOSSES_ALIKE, margin_of, named
from motet.studies.results import Results
from motet.studies.study_methods import StudyMethods
from motet.studies.tuning import FEWEST_TO_THE_END, Tuned, ends_by_itself, halves, rungs

_DATA = {
    "weighted": "the common test set, weighted by each client's classes",
    "split": "each client's own test data",
}
_NOT_OF_THE_PROTOCOL = {"seed", "data.download", "method"}


def sentences(plan: Plan, study: StudyMethods, tuned: Mapping[str, Tuned], results: Results) -> list[str]:
    """Return how a comparison was made, for the table, the page and comparison.json."""
    experiment = study.methods[0].experiment
    auto = ends_by_itself(experiment)
    *earlier, last = rungs(experiment.rounds.last)
    after = "" if auto else f", after round {last}"
    stopped = _ended(experiment) if auto else _halved(earlier, plan.trials)
    first, methods = experiment.seed, len(results.methods)
    over = f"seeds {first} to {first + plan.seeds - 1}" if plan.seeds > 1 else f"seed {first}"
    return [
        f"Personal {results.metric.said} on {_DATA[results.figure.data]}, mean over {len(results.clients)} clients and "
        f"{over}, each alike{after}.",
        f"Every method was tuned by {_settings(plan.trials)} on validation data alone "
        f"({100 * experiment.data.val_share:.0f} % of what a client trains with){stopped}.",
        *_nets_tried(study),
        *_all_tried([name for name, found in tuned.items() if found.all_tried and name in results.methods]),
        f"Test data were scored in the last runs alone, after every setting was chosen; {_last_runs(study)}.",
        *_beside_accuracy(results),
        *own_models((name, ran.reported) for name, ran in results.methods.items()),
        _what_varies(results, plan),
        _intervals(results),
        *_chance(methods),
        f"Recommended is the simplest method whose difference to the best may be chance and is at most "
        f"{margin_of(results.metric)} and whose loss is at most {100 * LOSSES_ALIKE:.0f} % above the lowest of these, "
        f"or that was still learning and may catch up; `local` only where the median "
        f"client has at least {ENOUGH_ALONE} training rows. Without enough evidence it is, of one model for all, that "
        f"fine-tuned and each client alone, the one with the lowest loss, if it may be as good as the best.",
        *_not_compared(results),
        *_failed_trials(tuned),
        *(f"! {name}: {'; '.join(ran.warnings)}." for name, ran in results.methods.items() if ran.warnings),
        *plan.notes,
        *(left_out(name, why) for name, why in study.left_out.items()),
    ]


def _what_varies(results: Results, plan: Plan) -> str:
    """Return what differs between the runs of a method."""
    if results.splits < 2:
        return "Clients are dealt once; seeds vary the training."
    seeds = f", with {plan.seeds} seeds on each" if plan.seeds > 1 else ""
    return (
        f"Each client's rows were split {results.splits} times{seeds}: every split has test, training and validation "
        f"rows of its own, and was tuned by itself. The setting in the table is the one that all splits together find "
        f"best, which the exported models have; a split's own may differ."
    )


def _intervals(results: Results) -> str:
    over = "seeds" if results.splits < 2 else "splits"
    wider = (
        ""
        if results.splits < 2
        else "; that over splits is widened by Nadeau and Bengio's rule, because splits share rows"
    )
    return (
        f"Intervals of 95 %: Student's, with the variances of the mean over clients and over {over} added up{wider}; "
        f"differences are paired over both."
    )


def _not_compared(results: Results) -> list[str]:
    """Return a sentence that names the clients without a value in some run, such as those without test data."""
    if not results.left_out:
        return []
    both = ", test rows of both kinds" if isinstance(results.metric, SetMetric) else ""
    return [f"Not compared, for they lack test data{both} or a model somewhere: {named(results.left_out)}."]


def _beside_accuracy(results: Results) -> list[str]:
    """Return the level that an accuracy must exceed to say anything."""
    if results.majority is None:
        return []
    return [
        f"Always answering with {level_words(results.metric)} reaches {with_unit(results.majority, results.metric)}."
    ]


def _failed_trials(tuned: Mapping[str, Tuned]) -> list[str]:
    """Return a sentence for each method some of whose settings failed: the choice was among fewer."""
    said = []
    for name, found in tuned.items():
        if failed := [trial.failure for trial in found.trials if trial.failure]:
            said.append(f"{name}: {len(failed)} of {len(found.trials)} settings failed in tuning ({failed[0]}).")
    return said


def _settings(trials: int) -> str:
    return f"{trials} settings" if trials > 1 else "1 setting, its defaults,"


def _halved(rounds: Sequence[int], trials: int) -> str:
    if not rounds or trials <= FEWEST_TO_THE_END:
        return ""
    return f"; the worse half, but for two, stopped after round {' and '.join(map(str, rounds))}"


def _ended(experiment: Experiment) -> str:
    rounds = experiment.rounds
    half = f" the worse half, but for two, stopped after its first {rounds.patience} rounds, the others"
    return (
        f";{half if halves(experiment) else ' trials ended'} when their figure there had not improved for "
        f"{rounds.patience} rounds, at most after {rounds.most}, and the best round counts: the lowest loss of those "
        f"within a standard error of the best figure"
    )


def _nets_tried(study: StudyMethods) -> list[str]:
    nets = {net for each in study.methods for net in each.nets}
    return [f"The net is part of what is tuned: {', '.join(sorted(nets))}."] if len(nets) > 1 else []


def _chance(methods: int) -> list[str]:
    """Return over what differences are corrected for being many; nothing where there is one."""
    pairs = methods * (methods - 1) // 2
    if pairs < 2:
        return []
    return [
        f"More than chance: after Holm's correction, of differences to {CONTROL} over the other methods, of any "
        f"other one over all {pairs} pairs."
    ]


def _last_runs(study: StudyMethods) -> str:
    """Return what the last runs learn from, and which round of them counts."""
    experiment = study.methods[0].experiment
    rounds = "they have the number of rounds that was best" if ends_by_itself(experiment) else "the last round counts"
    if experiment.scoring.report == "best_on_validation" and not ends_by_itself(experiment):
        return "the best round on validation data counts"
    if experiment.scoring.threshold:
        return f"{rounds}; validation rows are kept for the thresholds"
    needing = [each.name for each in study.methods if each.validates]
    but = f", but for {named(needing)}, which need{'s' * (len(needing) == 1)} them to choose by" if needing else ""
    return f"{rounds}, and they learn from the validation rows too{but}"


def _all_tried(names: Sequence[str]) -> list[str]:
    if not names:
        return []
    return [f"{', '.join(names)} {'have' if len(names) > 1 else 'has'} no more settings than were tried."]


def choices_in_common(experiments: Sequence[Experiment]) -> list[str]:
    """Return every choice that experiments share, a sentence per section, and the names of those that differ."""
    said: dict[str, list[str]] = {}
    differ = []
    for name, _ in dotted_fields(Experiment):
        if name in _NOT_OF_THE_PROTOCOL or name.startswith(("engine.", "checkpoint.")):
            continue
        values = [field_of(experiment, name) for experiment in experiments]
        section, _, field = name.rpartition(".")
        if differs(experiments, name):
            differ.append(name)
        elif any(repr(value) != repr(values[0]) for value in values):
            continue  # goes with the method
        elif name == "data.partition_seed" and all(e.data.partition_seed == e.seed for e in experiments):
            said.setdefault(section, []).append(f"{field} = the run's seed")
        elif values[0] not in (None, "", ()):
            said.setdefault(section, []).append(f"{field} = {printable(values[0])}")
    lines = [f"{f'[{section}] ' if section else ''}{', '.join(words)}." for section, words in said.items()]
    return lines + ([f"Cases differ in {', '.join(differ)}."] if differ else [])
