"""What failed says so: a mark in every table, and a sentence in the record."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import motet
from motet.cli import main
from motet.metrics.metric import ACCURACY
from motet.metrics.names import GENERIC, MAJORITY, PERSONAL, MetricName, one_class
from motet.metrics.one_pass import one_pass
from motet.report.finished import read_finished
from motet.report.tables.runs import comparison
from motet.runs.failures import counted_warnings, failed, warnings_of
from motet.runs.summary import summarize
from motet.testing.twin import play, tiny


def warnings(method: str = "fedavg", **more: Any) -> list[str]:
    played = play(tiny(method, **more))
    found = summarize(
        played.assembly.experiment, played.assembly.method, played.rows, played.new.figures, 1.0
    ).model_dump()
    return list(found["warnings"])


def test_a_sound_run_has_none() -> None:
    assert warnings(local={"lr": 0.1, "epochs": 5}, rounds={"count": 4, "cohort": 1.0}) == []


def test_every_training_failed() -> None:
    said = warnings(local={"lr": 1e19}, rounds={"count": 2})
    assert said[0] == (
        "every training failed (training left the finite numbers (NaN or infinity in the weights)): the models are as "
        "they began; a smaller local.lr may help"
    )


def test_half_of_the_trainings_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    played = play(tiny("fedavg", rounds={"count": 2, "cohort": 1.0}))
    for row in played.rows:
        row["set_aside"] = {str(i): "it broke" for i in row["cohort"][::2]}
    found = summarize(played.assembly.experiment, played.assembly.method, played.rows, {}, 1.0).model_dump()
    asked = sum(len(row["cohort"]) for row in played.rows)
    assert any(said.endswith(f"of {asked} trainings failed (it broke)") for said in found["warnings"])


class Constant(torch.nn.Module):
    """Names class 1, whatever it is shown."""

    def __init__(self, of: int = 1) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.of = of

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.one_hot(torch.full((len(x),), self.of), 3).float() + self.weight


def test_one_class_is_noticed_where_there_are_several() -> None:
    samples = play(tiny("fedavg", rounds={"count": 1})).assembly.federation.clients[0].train
    assert one_pass(Constant(), samples, [ACCURACY], 10).one_class
    same = int(samples.y[0])
    rows = (samples.y == same).nonzero().squeeze(1)
    assert not one_pass(Constant(), samples, [ACCURACY], 10, rows).one_class  # one class is all there is


@pytest.mark.parametrize(("right", "said"), [(0.7, []), (0.66, ["the generic model predicts one class only"])])
def test_a_model_that_beats_the_most_frequent_class_may_give_a_small_client_one_answer(
    right: float, said: list[str]
) -> None:
    """Of six test rows all may be of the class that a sound model rightly names."""
    played = play(tiny("fedavg", rounds={"count": 1}))
    clients = len(played.assembly.method.facts.ids)
    headline = MetricName(PERSONAL, "split", "accuracy", "mean")
    one_answer = {one_class(GENERIC): clients, str(replace(headline, model=GENERIC)): right}
    own = {str(headline): 0.7, str(replace(headline, model=MAJORITY)): 0.65}
    rows = {GENERIC: one_answer, PERSONAL: own}
    assert warnings_of(played.assembly.method, played.rows[-1:], rows, headline) == said


def test_a_method_failed_if_training_broke_once_or_most_runs_learned_nothing() -> None:
    """Some splits of few rows have test rows on which nobody beats the most frequent class."""
    nothing, broke = "own models are at chance level", "1 of 5 clients' models left the finite numbers and count"
    assert not failed([[nothing], [], []])
    assert failed([[nothing], [nothing], []]) and failed([[nothing], []]) and failed([[nothing]])
    assert failed([[broke], [], []])
    assert counted_warnings([[nothing, broke], [nothing], [nothing]]) == [nothing, f"{broke}, in 1 of 3 runs"]


@pytest.fixture(scope="module")
def imbalanced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every client has the same nine of ten rows of one class, and columns that tell nothing."""
    folder = tmp_path_factory.mktemp("imbalanced")
    rng = np.random.default_rng(0)
    client, y = np.repeat(np.arange(5), 80), np.tile([0] * 9 + [1], 40)
    np.savez(folder / "rare.npz", x=rng.normal(size=(400, 4)).astype(np.float32), y=y, client=client)
    words = ["--data", str(folder / "rare.npz"), "--partition", "natural", "--rounds", "3", "--cohort", "1.0"]
    words += ["--lr", "0.01", "--json"]
    assert main(["run", *words, "--metric", "accuracy", "--out", str(folder / "run")]) == 0
    assert main(["run", *words, "--out", str(folder / "by-ranks")]) == 0
    return folder / "run"


def test_a_model_that_predicts_one_class_is_marked_in_every_table(
    imbalanced: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert motet.load(imbalanced).summary["warnings"] == [
        "the generic model predicts one class only",
        "own models (86.2 %) are no better than always answering with a client's most frequent class (86.2 %)",
    ]
    assert main(["show", str(imbalanced)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert (
        "fedavg !" in text and "! fedavg: the generic model predicts one class only; own models (86.2 %) are no" in text
    )
    assert main(["report", str(imbalanced), "--out", str(imbalanced.parent / "page.html")]) == 0
    assert "the generic model predicts one class only" in (imbalanced.parent / "page.html").read_text()


def test_a_model_that_ranks_is_not_judged_by_its_answers(imbalanced: Path) -> None:
    """A rare class makes AUROC the headline: of columns that tell nothing it is at chance, whatever the answers."""
    by_ranks = motet.load(imbalanced.parent / "by-ranks").summary
    assert by_ranks["reported"]["figure"] == "personal.split.auroc.mean"
    (said,) = by_ranks["warnings"]
    assert said.startswith("own models are at chance level (AUROC .4") and said.endswith("nothing was learned")


def test_python_is_warned() -> None:
    with pytest.warns(UserWarning, match="every training failed"):
        result = motet.run(clients=4, rounds=1, lr=1e19, **{"engine.name": "inline"})
    assert result.warnings[0].startswith("every training failed")


def test_a_run_that_failed_altogether_says_so_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--clients", "4", "--rounds", "2", "--lr", "1e19", "--out", str(tmp_path / "run")]
    assert main(["run", *words]) == 0  # it came to its end, and its record is whole
    out, err = capsys.readouterr()
    assert "warning: every training failed" in " ".join(err.split()) and "fedavg !" in out
    assert comparison([read_finished(tmp_path / "run")])
