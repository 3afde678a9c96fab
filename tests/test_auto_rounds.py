"""Rounds that end by themselves: on validation data alone, with the models of the best round, after any kill."""

from dataclasses import replace
from math import sqrt
from pathlib import Path
from typing import Any

import pytest
import torch

from motet.config.data_section import DataSettings
from motet.config.experiment import Experiment
from motet.data import ClientData, Federation, Samples, build
from motet.errors import MotetError
from motet.metrics.names import MetricName
from motet.runs.clients_file import read_clients_info
from motet.runs.record import Record
from motet.runs.run import resume, run
from motet.server import assembly
from motet.server.evaluation import Row
from motet.server.stopping import Stopping, telling_samples
from motet.studies.study_methods import prepare_methods
from motet.testing.twin import tiny

VALIDATION = MetricName("personal", "validation", statistic="mean")
LOSS = replace(VALIDATION, metric="loss")


def auto(method: str = "ditto", **rounds: Any) -> Experiment:
    """An experiment that learns fast, so that it stops long before its cap."""
    return assembly.settle(
        tiny(
            method,
            rounds={"count": "auto", "most": 30, "patience": 4, "cohort": 1.0, **rounds},
            local={"optimizer": "adam", "lr": 0.02, "epochs": 3},
            data={"val_share": 0.3},
        )
    )


def scored(record: Record) -> dict[int, float]:
    return {row["round"]: value for row in record.rounds if (value := VALIDATION.of(row)) is not None}


@pytest.mark.parametrize("method", ["fedavg", "ditto", "superfed-mm(lambda_eval=fixed)", "fedavg+ft(epochs=1)"])
def test_it_stops_after_its_patience_and_keeps_the_best_round(method: str, tmp_path: Path) -> None:
    experiment = auto(method)
    record = Record(run(experiment, tmp_path / "auto"))
    values, best = scored(record), record.summary.reported.round
    after = assembly.assemble(experiment).method.settled_after
    assert record.rounds[-1]["round"] in (best + 4, 30)
    highest = max(value for round, value in values.items() if round > after)
    samples = sum(client.val or 0 for client in read_clients_info(record).clients if not client.new)
    enough = highest - sqrt(highest * (1 - highest) / samples)
    losses = {row["round"]: LOSS.of(row) for row in record.rounds if values.get(row["round"], 0) >= enough}
    assert losses[best] == pytest.approx(min(loss for round, loss in losses.items() if round > after), rel=1e-3)
    assert record.summary.reported.rule == "best_on_validation"
    assert set(record.summary.reported.rounds.values()) == {best}  # of both kinds of models
    assert record.summary.personal.validation.personal_models == values[best]

    fixed = experiment.with_({"rounds": {"count": best, "horizon": 30}, "scoring": {"report": "last"}})
    whole = Record(run(fixed, tmp_path / "fixed"))
    assert best > 1
    assert files(record.folder) == files(whole.folder)  # the models of that round, to the byte


def files(folder: Path) -> dict[str, bytes]:
    """The generic model, and the states of the newest checkpoint by client."""
    newest = max((folder / "checkpoint").glob("*.json"))
    found = {"weights": folder / "weights.safetensors", "server": newest.with_name(f"server-{newest.stem}.safetensors")}
    for path in sorted((folder / "checkpoint").glob("client-*")):
        found[path.name[:12]] = path  # the last one that is there
    return {name: path.read_bytes() for name, path in found.items() if path.exists()}


class Killed(Exception):
    """Raised in place of a kill."""


class Killer:
    """A watcher that ends the run after a round."""

    def __init__(self, after: int):
        self.after = after

    def started(self, *of: Any) -> None:
        """Do nothing."""

    def round(self, row: Row) -> None:
        """Raise after the round."""
        if row["round"] == self.after:
            raise Killed


@pytest.mark.parametrize(
    "every", [3, pytest.param(1, marks=pytest.mark.slow), pytest.param("auto", marks=pytest.mark.slow)]
)
def test_a_resumed_run_ends_as_an_uninterrupted_one(every: Any, tmp_path: Path) -> None:
    experiment = auto().with_({"checkpoint": {"every": every}})
    whole = Record(run(experiment, tmp_path / "whole"))
    last = whole.rounds[-1]["round"]
    for after in (1, whole.summary.reported.round, last - 1, last):
        folder = tmp_path / f"killed-{after}"
        with pytest.raises(Killed):
            run(experiment, folder, Killer(after))
        record = Record(resume(folder))
        assert record.summary.reported == whole.summary.reported
        assert files(record.folder) == files(whole.folder)
        assert [row["round"] for row in record.rounds] == [row["round"] for row in whole.rounds]


def test_a_kill_while_it_goes_back_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = auto()
    whole = Record(run(experiment, tmp_path / "whole"))
    from motet.runs import run as runs

    def killed(*of: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(runs, "write_generic", killed)  # after the later checkpoints are gone
        run(experiment, tmp_path / "killed")
    record = Record(resume(tmp_path / "killed"))
    assert record.summary.reported == whole.summary.reported and files(record.folder) == files(whole.folder)


def test_test_data_have_no_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def other_tests(settings: DataSettings, seed: int) -> Federation:
        federation = build(settings, seed)
        wrong = [replace(c, test=replace(c.test, y=(c.test.y + 1) % federation.classes)) for c in federation.clients]
        return replace(federation, clients=wrong)

    honest = Record(run(auto(), tmp_path / "honest"))
    monkeypatch.setattr(assembly, "build", other_tests)
    changed = Record(run(auto(), tmp_path / "changed"))
    assert changed.summary.reported.rounds == honest.summary.reported.rounds
    assert files(changed.folder)["weights"] == files(honest.folder)["weights"]
    assert changed.summary.personal.split != honest.summary.personal.split  # they were looked at, for the record


def rows_of(figures: list[tuple[int, float, float]]) -> list[Row]:
    """Rows of a record with a round, a figure and a loss on validation data each."""
    return [{"round": r, str(VALIDATION): v, str(LOSS): loss} for r, v, loss in figures]


@pytest.mark.parametrize(
    ("samples", "figures", "best"),
    [
        (100, [(1, 0.80, 0.5), (2, 0.78, 0.4), (3, 0.84, 0.45)], 3),  # 0.78 is within 0.04 of 0.80, but not of 0.84
        (100, [(1, 0.80, 0.5), (2, 0.79, 0.4), (3, 0.82, 0.45)], 2),
        (10_000, [(1, 0.80, 0.5), (2, 0.79, 0.4), (3, 0.82, 0.45)], 3),  # on many samples the figure decides
        (0, [(1, 0.80, 0.5), (2, 0.79, 0.4), (3, 0.82, 0.45)], 3),
        (100, [(1, 0.70, 0.2), (2, 0.90, 0.5), (3, 0.88, 0.49)], 3),  # a low loss does not save a low figure
        (100, [(1, 0.80, 0.5), (2, 0.80, 0.49999), (3, 0.79, 0.49998)], 2),  # a digit that nobody sees is no gain
    ],
)
def test_on_few_samples_the_loss_decides(samples: int, figures: list[tuple[int, float, float]], best: int) -> None:
    rule = Stopping(VALIDATION, True, patience=9, most=99, samples=samples)
    for row in rows_of(figures):
        rule.see(row)
    assert rule.best == best


def with_validation_rows(*counts: int) -> ClientData:
    """A client with so many validation rows of each class."""
    asked = auto()
    y = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    rows = Samples(torch.zeros(len(y), 1), y, build(asked.data, asked.seed).prepare)
    return ClientData(0, rows, rows, rows)


@pytest.mark.parametrize(
    ("metric", "clients", "samples"),
    [
        ("accuracy", [(142, 8)], 150),
        ("auroc", [(142, 8)], 16),  # of eight deaths an AUROC is as sure as of 16 balanced rows, not as of 150
        ("auroc", [(70, 8), (72, 0)], 16),
        ("f1", [(142, 8)], 16),
        ("auroc", [(75, 75)], 150),
        ("auroc", [(150, 0)], 150),  # nobody has an AUROC
        ("balanced_accuracy", [(90, 90, 3)], 25),  # each class has a third of the mean: 3 · 3 / (1/90 + 1/90 + 1/3)
    ],
)
def test_figures_of_a_rare_class_are_as_sure_as_it_is_frequent(
    metric: str, clients: list[tuple[int, ...]], samples: int
) -> None:
    data = [with_validation_rows(*counts) for counts in clients]
    assert telling_samples(metric, data, len(clients[0])) == samples


def test_a_lucky_round_does_not_end_a_run_on_a_rare_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule of a run and of the tuner count the same rows: those that tell the metric."""
    told: list[int] = []
    of = Stopping.of.__func__  # type: ignore[attr-defined]
    remember = classmethod(
        lambda cls, what, after, samples, rows=(): told.append(samples) or of(cls, what, after, samples)
    )
    monkeypatch.setattr(Stopping, "of", remember)
    own_rows = {"data": {"test_share": 0.2}, "scoring": {"metric": "balanced_accuracy", "test": "split"}}
    asked = auto("fedavg", most=2, patience=1).with_(own_rows)
    run(asked, tmp_path / "run")
    dealt = build(asked.data, asked.seed)
    clients = [client for client in dealt.clients if not client.new]
    expected = telling_samples("balanced_accuracy", clients, dealt.classes)
    assert told == [expected] and expected < sum(len(client.val) for client in clients)
    assert prepare_methods(["fedavg"], asked).validation_rows == expected


def test_equal_figures_are_decided_by_the_loss_and_lower_may_be_better() -> None:
    rows = [(1, 0.5, 0.9), (2, 0.7, 0.8), (3, 0.7, 0.6), (4, 0.6, 0.5), (5, 0.7, 0.7)]
    of = rows_of(rows)
    rule = Stopping(VALIDATION, True, patience=2, most=99)
    ended = []
    for row in of:
        rule.see(row)
        ended.append(rule.is_over(row["round"]))
    assert rule.best == 3 and ended == [False, False, False, False, True]
    lower = Stopping(LOSS, False, patience=2, most=99)
    for row in of:
        lower.see(row)
    assert lower.best == 4
    late = Stopping(VALIDATION, True, patience=2, most=99, after=3)
    for row in of:
        late.see(row)
    assert late.best == 5 and not late.is_over(3) and late.is_over(7)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"scoring": {"report": "best"}}, "rounds.count is 'auto', which keeps the best round on validation"),
        ({"scoring": {"personal_model": "final_sync"}}, "final_sync"),
        ({"rounds": {"count": "often"}}, "rounds.count is 'often'"),
    ],
)
def test_contradictions_are_refused_in_a_sentence(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(MotetError, match=said):
        assembly.assemble(assembly.settle(tiny("fedavg", rounds={"count": "auto"}).with_(changes)))
