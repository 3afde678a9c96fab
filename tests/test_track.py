"""Logs for other programs say what the record says, each round once, whatever happened; and never stop a run."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

import motet
from motet.cli import main
from motet.config.experiment import Experiment, resolve
from motet.errors import MotetError
from motet.runs.run import Silent, resume, run
from motet.server.evaluation import Row
from motet.track import tracked

HEADLINE = "personal.weighted.accuracy.mean"
Log = dict[str, list[tuple[int, float]]]


def tiny(**more: Any) -> Experiment:
    return resolve(
        {
            "data": {"clients": 3, "subset": 0.1, "new_clients": 0.34},
            "rounds": {"count": 4, "cohort": 1.0},
            "local": {"epochs": 1},
            "scoring": {"every": 1},
            "checkpoint": {"every": 2},
            "engine": {"name": "inline"},
            **more,
        }
    )


def in_tensorboard(folder: Path) -> Log:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = events.EventAccumulator(str(folder), size_guidance={"scalars": 0})
    found.Reload()
    return {tag: [(s.step, s.value) for s in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def in_mlflow(folder: Path) -> Log:
    """Of the one run that is there and not deleted."""
    from mlflow.tracking import MlflowClient

    assert "MLFLOW_ALLOW_FILE_STORE" not in os.environ  # as whoever opens it later
    client = MlflowClient(tracking_uri=f"sqlite:///{folder.resolve() / 'mlflow.db'}")
    where = client.get_experiment_by_name("motet")
    (found,) = client.search_runs([where.experiment_id])
    assert found.data.params["rounds.count"] == "4" and found.info.status == "FINISHED"
    history = {name: client.get_metric_history(found.info.run_id, name) for name in found.data.metrics}
    return {name: [(metric.step, metric.value) for metric in metrics] for name, metrics in history.items()}


def require_record(log: Log, folder: Path) -> None:
    """Every number of every round once, by its name; and the figures of new clients, which no round has."""
    rows = motet.load(folder).rounds
    for name in (HEADLINE, "generic.common.accuracy.pooled", "train_loss", "bytes_up"):
        assert [step for step, _ in log[name]] == [1, 2, 3, 4]
        assert [value for _, value in log[name]] == pytest.approx([row[name] for row in rows], rel=1e-6)
    after = "after.weighted.accuracy.mean"
    assert log[after] == [(4, pytest.approx(motet.load(folder).figures[after], rel=1e-6))]
    assert "cohort" not in log and "generic.derived" not in log


class StopsAfterThree(Silent):
    """As a user who presses Ctrl-C."""

    def round(self, row: Row) -> None:
        if row["round"] == 3:
            raise KeyboardInterrupt


@pytest.mark.parametrize(("name", "read"), [("tensorboard", in_tensorboard), ("mlflow", in_mlflow)])
def test_a_log_has_each_round_once_also_after_a_resume(name: str, read: Any, tmp_path: Path) -> None:
    """Round 3 was logged, is cut off from the record with its checkpoint, and is computed again."""
    pytest.importorskip(name)
    folder, warned = tmp_path / "run", list[str]()
    with pytest.raises(KeyboardInterrupt), tracked(StopsAfterThree(), [name], warned.append) as logged:
        run(tiny(), folder, logged)
    with tracked(Silent(), [name], warned.append) as logged:
        logged.finished(resume(folder, logged))
    assert not warned
    require_record(read(folder / name), folder)


def test_a_finished_run_gets_its_log_later(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    run(tiny(), tmp_path / "run")
    for _ in range(2):
        motet.resume(tmp_path / "run", track=[f"tensorboard:{tmp_path / 'logs'}"])
    require_record(in_tensorboard(tmp_path / "logs" / "run"), tmp_path / "run")
    assert not (tmp_path / "run" / "tensorboard").exists()


def test_the_command_line_takes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorboard")
    monkeypatch.chdir(tmp_path)
    Path("tiny.toml").write_text(
        'rounds.count = 4\nrounds.cohort = 1.0\nscoring.every = 1\nengine.name = "inline"\n'
        "data.clients = 3\ndata.subset = 0.1\ndata.new_clients = 0.34\nlocal.epochs = 1\n"
    )
    assert main(["run", "tiny.toml", "--out", "run", "--track", "tensorboard", "--json"]) == 0
    require_record(in_tensorboard(Path("run/tensorboard")), Path("run"))
    assert [path.name for path in Path("run/tensorboard").iterdir()] == ["events.out.tfevents.motet"]


def test_a_log_that_fails_is_told_and_the_run_goes_on(tmp_path: Path) -> None:
    """Here a link leads out of the run's folder."""
    pytest.importorskip("tensorboard")

    class Links(Silent):
        def started(self, experiment: Experiment, folder: Path, round: int, warning: str | None) -> None:
            (folder / "tensorboard").symlink_to(tmp_path)

    warned = list[str]()
    with tracked(Links(), ["tensorboard"], warned.append) as logged:
        logged.finished(run(tiny(), tmp_path / "run", logged))
    assert len(warned) == 1 and "is a link" in warned[0] and "the run goes on" in warned[0]
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["rounds"] == 4
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_log_that_nobody_knows_or_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MotetError, match="unknown track 'wandb': accepted: mlflow, tensorboard"):
        motet.run(track=["wandb"], out=tmp_path / "run")
    monkeypatch.setattr("motet.track.watching.find_spec", lambda name: None)
    with pytest.raises(MotetError, match=r"needs tensorboard; accepted: pip install 'motet\[tensorboard\]'"):
        motet.run(track=["tensorboard"], out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
