"""Run an experiment into a folder, or resume one after a kill with the same results to the byte."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch

from motet.config.experiment import Experiment, resolve
from motet.config.identity import differences, fingerprint, same_experiment
from motet.data.built_once import built_once
from motet.data.readers.in_memory import keep
from motet.engines.engine import LostStates
from motet.errors import MotetError
from motet.io.memory_limits import keep_freed_memory
from motet.messages.message import State, encode
from motet.runs.checkpoint import Checkpoints, CheckpointSchedule, Loaded, OtherExperiment
from motet.runs.clients_file import write_clients_info
from motet.runs.environment import cpu_has_bf16, environment
from motet.runs.fitting_states import UsedStates
from motet.runs.folder import claimed, keep_first_weights, with_kept_weights
from motet.runs.record import Record
from motet.runs.rows import refuse_gaps
from motet.runs.serving_file import write_serving
from motet.runs.summary import summarize
from motet.runs.thresholds_file import write_thresholds
from motet.runs.trust import code_of, refuse_other_code, remember, require_trust
from motet.server.assembly import Assembly, ServerSide, assemble, settle
from motet.server.evaluation import Row
from motet.server.final_evaluation import FinalState
from motet.server.round_loop import RoundLoop, RunState
from motet.server.stopping import Stopping, telling_samples
from motet.training.flat_weights import Layout

MOST_LOSSES = 5
"""How often in a row private states may be lost before a run is given up."""


class Watcher(Protocol):
    """Is called as a run proceeds, for example a progress bar."""

    def started(self, experiment: Experiment, folder: Path, round: int, warning: str | None) -> None:
        """React to the start of the rounds; `round` is 0, or the round of the checkpoint that is resumed."""

    def round(self, row: Row) -> None:
        """React to the end of a round."""


class Silent:
    """A watcher that does nothing."""

    def started(self, experiment: Experiment, folder: Path, round: int, warning: str | None) -> None:
        """Do nothing."""

    def round(self, row: Row) -> None:
        """Do nothing."""


def run(experiment: Experiment, folder: Path | None = None, watcher: Watcher | None = None) -> Path:
    """Run an experiment to its end and return its folder, a new one in runs/ unless `folder` is given."""
    with built_once():  # to settle an experiment may take its data
        return _run(settle(experiment), folder, watcher)


def _run(experiment: Experiment, folder: Path | None, watcher: Watcher | None) -> Path:
    keep_freed_memory()
    with one_thread(), claimed(folder, experiment) as mine:
        record = Record(mine)
        remember(experiment)
        assembly = assemble(experiment, record.checkpoint_folder)
        with record.create(experiment, environment(code_of(experiment))):
            keep(experiment.data.name, record.folder)
            finish(assembly, record, Checkpoints(record.checkpoint_folder), None, watcher or Silent())
    return record.folder


def resume(
    folder: Path,
    watcher: Watcher | None = None,
    trust_code: bool = False,
    engine: Mapping[str, Any] | None = None,
) -> Path:
    """Continue a run that was stopped at any moment, and return its folder; do nothing if it is finished.

    `engine` has settings of [engine] that count in place of the recorded ones: it may go on elsewhere. Raise
    `MotetError` if the run names Python code that the user has not run before, unless `trust_code` is True.
    """
    record = Record(folder)
    if record.finished:
        return folder
    require_trust(record.experiment, folder, trust_code)
    refuse_other_code(record.environment.code, record.experiment, folder)
    keep_freed_memory()
    with record.reopen(), one_thread():
        experiment = with_kept_weights(record.experiment, folder)
        if engine:
            experiment = experiment.with_({"engine": engine})
        assembly = assemble(experiment, record.checkpoint_folder)
        checkpoints = Checkpoints(record.checkpoint_folder)
        loaded = gone_back(assembly, record, checkpoints)
        finish(assembly, record, checkpoints, loaded, watcher or Silent())
    return folder


def gone_back(assembly: ServerSide, record: Record, checkpoints: Checkpoints) -> Loaded | None:
    """Restore the newest checkpoint and cut the record to it; without any checkpoint the run is at its beginning."""
    try:
        loaded = restore(assembly, checkpoints)
        record.truncate(loaded.lengths if loaded else None)
        refuse_gaps(record.rounds, loaded.round if loaded else 0, assembly.experiment.rounds.last, record.folder)
    except BaseException:
        assembly.engine.close()
        raise
    return loaded


def restore(assembly: ServerSide, checkpoints: Checkpoints) -> Loaded | None:
    """Return the newest undamaged checkpoint, if there is one, and restore the private states of its clients."""
    experiment = assembly.experiment
    try:
        data_hash = assembly.federation_facts.content_hash
        return checkpoints.load(partial(_is_of, experiment), data_hash, assembly.engine.go_back)
    except OtherExperiment as error:
        raise MotetError(f"{error}{_differences(checkpoints, experiment)}") from None


def _differences(checkpoints: Checkpoints, experiment: Experiment) -> str:
    """Return the fields in which the newest checkpoint's experiment differs, as text for an error; may be empty."""
    there = checkpoints.recorded_extra().get("experiment")
    try:
        found = differences(resolve(there), experiment) if isinstance(there, dict) else []
    except MotetError:
        return ""
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return f" ({'; '.join(text[:80] for text in found[:3])}{more})" if found else ""


def _is_of(experiment: Experiment, saved_as: str, extra: Mapping[str, Any]) -> bool:
    """Return whether a checkpoint with this fingerprint belongs to the experiment."""
    return same_experiment(saved_as, experiment)


def finish(
    assembly: ServerSide, record: Record, checkpoints: Checkpoints, loaded: Loaded | None, watcher: Watcher
) -> None:
    """Finish a run. Whenever a machine takes private states with it, go back to the newest checkpoint, and say so."""
    said, at, times = None, -1, 0
    while True:
        try:
            return _finish_once(assembly, record, checkpoints, loaded, watcher, said)
        except LostStates as lost:
            if not isinstance(assembly, Assembly):
                raise
            assembly = assemble(assembly.experiment, record.checkpoint_folder)  # the engine of before is closed
            loaded = gone_back(assembly, record, checkpoints)
            back = loaded.round if loaded else 0
            times = times + 1 if back == at else 1
            if times > MOST_LOSSES:
                assembly.engine.close()
                raise MotetError(
                    f"{lost}; that was {times} times in a row before the next checkpoint; accepted: checkpoint.every = "
                    f"1, engine.states = driver, or machines that last longer (then `motet resume {record.folder}`)"
                ) from lost
            at, said = back, f"{lost}; the run went back to {f'round {back}' if back else 'its beginning'}"


def _finish_once(
    assembly: ServerSide,
    record: Record,
    checkpoints: Checkpoints,
    loaded: Loaded | None,
    watcher: Watcher,
    said: str | None,
) -> None:
    """Do the remaining rounds and the final evaluation, then write weights, figures and the summary.

    `said` is one more warning for the watcher.
    """
    experiment, method = assembly.experiment, assembly.method
    progress = RunState(loaded.round, loaded.server) if loaded else RunState(0, method.start())
    write_clients_info(record.folder, assembly.federation_facts, _class_counts(assembly))
    notes = assembly.federation_facts.notes
    warnings = [w for w in (said, loaded.warning if loaded else None, slow_precision(experiment), *notes) if w]
    watcher.started(experiment, record.folder, progress.round, "; ".join(warnings) or None)
    facts = assembly.federation_facts
    validated = sum(facts.by_id[i].val for i in facts.training_ids)  # of real sites no more is known
    if isinstance(assembly, Assembly):
        clients = [assembly.federation.clients[i] for i in facts.training_ids]
        validated = telling_samples(experiment.scoring.metric_name, clients, facts.classes)
    stopping = Stopping.of(experiment, method.settled_after, validated, record.rounds)
    log = _RecordLog(assembly, record, checkpoints, watcher, stopping)
    keep_first_weights(experiment, record.folder)
    loop = RoundLoop(assembly, log, already_prepared=loaded is not None, stopping=stopping)
    try:
        if loaded is None:
            progress = loop.run(progress)
        else:
            states = UsedStates(f"run {record.folder} cannot go on", method, assembly.engine, loaded)
            start = progress.round
            progress = states.make(
                lambda server: loop.run(RunState(start, server)), partial(_first_round, loop), log.no_round_yet
            )
        if stopping and log.keeps_best:
            progress = _back_to_the_best(assembly, checkpoints, stopping, progress)
        began = time.perf_counter()
        scores = assembly.evaluator.new_clients(progress.server, progress.round)
        record.append_clients(scores.clients)
        rows = record.rounds
        seconds = sum(row["seconds"] for row in rows) + time.perf_counter() - began
        last = [row for row in record.clients_of(progress.round) if not row.get("new")]
        found = assembly.final_evaluation.find(FinalState(progress.server, progress.round, rows, last))
        assembly.ended(progress.server, progress.round, last)
    finally:
        assembly.engine.close()
    write_generic(assembly, progress.server, record)
    write_serving(record, assembly.federation_facts, assembly.prepare)
    write_thresholds(record, found.thresholds)
    record.write_figures_learned(found.figures_learned)
    kept = stopping.kept if stopping else None
    automatic = method.automatic(progress.server)
    record.write_summary(summarize(experiment, method, rows, scores.figures, seconds, found, notes, kept, automatic))


def _back_to_the_best(
    assembly: ServerSide, checkpoints: Checkpoints, stopping: Stopping, progress: RunState
) -> RunState:
    """Return the state of the best round, and make its checkpoint the newest.

    A kill after that resumes from the best round, does the later ones again, and comes back here.
    """
    best = stopping.kept
    if best is None or best == progress.round:
        return progress
    loaded = checkpoints.load_round(best, assembly.engine.go_back)
    checkpoints.remove_after(best)
    assembly.engine.kept(best, assembly.engine.keep(best))  # deletes the states of later rounds
    return RunState(best, loaded.server)


def _class_counts(assembly: ServerSide) -> dict[int, tuple[int, ...]]:
    """Return each client's training samples by class for the report; empty where clients are real sites."""
    if not isinstance(assembly, Assembly):
        return {}
    classes = assembly.federation.classes
    return {client.id: tuple(client.train.counts(classes).tolist()) for client in assembly.federation.clients}


def slow_precision(experiment: Experiment) -> str | None:
    """Return a warning if bfloat16 costs time on this processor instead of saving it, or None."""
    if experiment.precision == "bf16" and experiment.device == "cpu" and not cpu_has_bf16():
        return "this processor emulates bfloat16, so that precision = bf16 is many times slower than fp32"
    return None


def write_generic(assembly: ServerSide, server: State, record: Record) -> None:
    """Write the generic model as named tensors to weights.safetensors, if the method has one."""
    generic = assembly.method.generic(server)
    if generic is not None:
        named = Layout(assembly.generic_net).named(generic)
        record.write_weights(encode({name: t if t.dim() else t.view(1) for name, t in named.items()}))


class _OneRound:
    """A log that ends the loop after its first round and records nothing."""

    class Ended(Exception):
        """Raised when the round is done."""

    def round_done(self, row: Row, clients: list[Row], progress: RunState) -> None:
        """Raise `Ended`."""
        raise self.Ended


def _first_round(loop: RoundLoop, start: State) -> None:
    """Do one round from a method's start state and record nothing."""
    with suppress(_OneRound.Ended):
        replace(loop, log=_OneRound(), already_prepared=False).run(RunState(0, start))


class _RecordLog:
    """A log that writes each round to the record, and a checkpoint when one is due."""

    def __init__(
        self,
        assembly: ServerSide,
        record: Record,
        checkpoints: Checkpoints,
        watcher: Watcher,
        stopping: Stopping | None = None,
    ):
        self.assembly, self.record, self.checkpoints, self.watcher = assembly, record, checkpoints, watcher
        self.stopping = stopping
        self.keeps_best = stopping is not None and assembly.experiment.scoring.looks_at_test  # a trial serves nobody
        self.fingerprint = fingerprint(assembly.experiment)
        self.rounds = 0  # done in this process
        self.schedule = CheckpointSchedule(assembly.experiment.checkpoint.every, assembly.experiment.rounds.last)

    def no_round_yet(self) -> bool:
        """Return whether this process has not finished a round yet."""
        return not self.rounds

    def round_done(self, row: Row, clients: list[Row], progress: RunState) -> None:
        """Write the rows, then a checkpoint if due: a kill in between repeats rounds but loses no line."""
        self.rounds += 1
        row["checkpoint_seconds"] = self.schedule.seconds()  # of checkpoints since the row before
        self.record.append_round(row)
        self.record.append_clients(clients)
        best = self.stopping.best if self.stopping and self.keeps_best else None
        if best == progress.round or self.schedule.is_due(progress.round):
            self.checkpoints.held = best or None
            with self.schedule.saving():
                self._save(progress)
        self.watcher.round(row)

    def _save(self, progress: RunState) -> None:
        """Save private states, then the manifest that names them; after that the engine may delete older states."""
        engine = self.assembly.engine
        self.checkpoints.save(
            progress.round,
            progress.server,
            engine.keep(progress.round),
            self.record.lengths(),
            {"experiment": self.assembly.experiment.model_dump()},
            self.fingerprint,
            self.assembly.federation_facts.content_hash,
        )
        held = self.checkpoints.held
        if held is None:
            engine.kept(progress.round)
        else:
            engine.kept(progress.round, self.checkpoints.clients_of(held))


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit torch to one thread inside the block, so that all engines compute the same bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
