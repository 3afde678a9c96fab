"""Compute more metrics of a finished run from its last models; the record does not change."""

from collections.abc import Sequence
from dataclasses import replace

from motet.errors import MotetError
from motet.metrics.names import MetricName
from motet.metrics.registry import metrics_of
from motet.metrics.run_metric import Finding
from motet.runs.checkpoint import Checkpoints
from motet.runs.fitting_states import UsedStates
from motet.runs.folder import data_from, with_kept_weights
from motet.runs.record import Record
from motet.runs.run import one_thread, restore
from motet.runs.trust import require_trust
from motet.server.assembly import Assembly, assemble
from motet.server.final_evaluation import FinalState


def measure_again(
    record: Record, asked: Sequence[str], trust_code: bool = False, threshold: str = "", place: str | None = None
) -> Finding:
    """Return what these metrics find for the last models of a finished run, on its data; raise if it cannot be done.

    `threshold` is a rule by which thresholds are chosen, as in `scoring.threshold`; `place` is where the data are, if
    not where the record says.
    """
    record.require_finished()
    require_trust(record.experiment, record.folder, trust_code)
    recorded = with_kept_weights(record.experiment, record.folder)
    if not recorded.scoring.looks_at_test:
        raise MotetError(f"run {record.folder} was for tuning and looks at no test data; accepted: another run")
    scoring = recorded.scoring.model_copy(
        update={"metrics": tuple(asked), "figures_learned": False, "threshold": threshold}
    )
    with one_thread():
        here = data_from(recorded.model_copy(update={"scoring": scoring}), place)
        assembly = assemble(here, record.checkpoint_folder)
        try:
            return _found(assembly, replace(assembly, experiment=recorded), record)
        finally:
            assembly.engine.close()


def _found(assembly: Assembly, as_recorded: Assembly, record: Record) -> Finding:
    loaded = restore(as_recorded, Checkpoints(record.checkpoint_folder))
    if loaded is None:
        raise MotetError(f"run {record.folder} has no checkpoint, so there are no models to measure")
    asked = assembly.experiment.scoring.metrics
    last = [row for row in record.clients_of(loaded.round) if not row["new"]]
    round, rows = loaded.round, record.rounds
    states = UsedStates(f"run {record.folder} cannot be measured", assembly.method, assembly.engine, loaded)
    found = states.make(lambda server: assembly.final_evaluation.find(FinalState(server, round, rows, last)))
    of_logits = {metric.name for metric in metrics_of(asked)} - {metric.name for metric in metrics_of(())}
    if of_logits:
        scores = states.make(lambda server: assembly.evaluator.training_clients(server, round, last=True))
        found.notes += assembly.final_evaluation.without_figures(scores.clients, scores.figures)
        for name, value in scores.figures.items():
            figure = MetricName.read(name)
            if figure and figure.metric in of_logits and isinstance(value, int | float):
                found.figures[name] = value
    return found
