"""benchmarks/learned.py: what it makes of a picture's values, by hand."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from motet.methods.base.learned_figure import Axis, LearnedFigure

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import learned


def run(*figures: LearnedFigure, folder: Path = Path("run"), rows: Any = ()) -> Any:
    """What the script reads of a run."""
    summary = SimpleNamespace(reported=SimpleNamespace(round=3))
    return SimpleNamespace(figures_learned=figures, folder=folder, summary=summary, clients_of=lambda round: rows)


def rows(*accuracies: float) -> list[dict[str, Any]]:
    """Rows of training clients, and one of a new client, which does not count."""
    own = [{"client": i, "new": False, "personal.split.accuracy": a} for i, a in enumerate(accuracies)]
    return [*own, {"client": len(own), "new": True, "personal.split.accuracy": 1.0}]


def test_a_gain_is_over_the_same_client_alone() -> None:
    found = learned.gain(run(rows=rows(0.9, 0.5, 0.6)), run(rows=rows(0.8, 0.7, 0.6)))
    assert found == {
        "clients": 3,
        "mean": pytest.approx(-10 / 3),
        "std": pytest.approx(15.2752523),
        "better": 1,
        "worse": 1,
    }


def test_a_gain_needs_the_same_clients(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="not the same clients"):
        learned.gain(run(rows=rows(0.9)), run(rows=rows(0.8, 0.7)))
    with pytest.raises(SystemExit, match="--local"):
        learned.gain(run(rows=rows(0.9)), None)


def test_the_ranks_of_samples_and_coefficients() -> None:
    series = {"given": [0.1, 0.2, 0.4, 0.3], "taken": [-1.0, -2.0, -3.0, -4.0]}
    picture = LearnedFigure.lines("pgfed-alpha-samples", "t", "s", series, x=Axis("n", ("5", "9", "20", "70")), y="α")
    found = learned.pgfed_samples(run(picture), None)
    assert found == {"clients": 4, "given_with_n": pytest.approx(0.8), "taken_with_n": pytest.approx(-1.0)}


def test_the_nearest_coefficients_are_of_the_own_domain_or_not(tmp_path: Path) -> None:
    clients = [{"name": name, "domain": domain} for name, domain in zip("abcd", (0, 0, 1, 1), strict=True)]
    (tmp_path / "clients.json").write_text(json.dumps({"clients": clients}), "utf-8")
    names = Axis("client", tuple("abcd"))
    alpha = [[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.8, 0.2]]  # d lies with the other domain
    picture = LearnedFigure.heatmap("fedbasis-coefficients", "t", "s", alpha, x=Axis("k", ("1", "2")), y=names)
    found = learned.fedbasis_domains(run(picture, folder=tmp_path), None)
    assert (found["clients"], found["domains"]) == (4, 2)
    assert found["nearest_of_own_domain"] == 0.75  # a and b: each other; c: d; d: b
    assert found["by_chance"] == pytest.approx(1 / 3)
    assert found["within"] == pytest.approx((0.02 + 1.28) / 2)
    assert found["across"] == pytest.approx((2.0 + 0.08 + 1.62 + 0.02) / 4)


def test_a_head_on_its_own_and_on_other_data() -> None:
    names = Axis("client", ("a", "b"))
    heads = [
        LearnedFigure.heatmap(f"cross-client-{head}", "t", "s", matrix, x=names, y=names)
        for head, matrix in (("generic", [[0.8, 0.6], [0.7, 0.9]]), ("personal", [[0.9, 0.2], [None, 1.0]]))
    ]
    found = learned.two_heads(run(*heads), None)
    assert found == {
        "clients": 2,
        "generic_own": pytest.approx(0.85),
        "generic_others": pytest.approx(0.65),
        "personal_own": pytest.approx(0.95),
        "personal_others": pytest.approx(0.2),
    }


def test_the_triangle_of_a_plane_is_what_lies_between_the_models() -> None:
    ticks = ("-0.5", "0.0", "0.5", "1.0")
    loss = [[9.0, 9.0, 9.0, 9.0], [9.0, 1.0, 4.0, 2.0], [9.0, 4.0, 7.0, 9.0], [9.0, 3.0, 9.0, 9.0]]
    picture = LearnedFigure.heatmap("plane", "t", "s", loss, x=Axis("s", ticks), y=Axis("t", ticks))
    found = learned.plane(run(picture), None)
    assert (found["generic"], found["first"], found["second"]) == (1.0, 2.0, 3.0)
    assert found["triangle"] == pytest.approx((1 + 4 + 2 + 4 + 7 + 3) / 6) and found["highest_in_triangle"] == 7.0
    assert found["whole_plane"] == pytest.approx(sum(map(sum, loss)) / 16)


def test_a_run_without_the_picture_is_named() -> None:
    with pytest.raises(SystemExit, match="no learned figure 'fedbasis-coefficients'; it has: none"):
        learned.fedbasis_domains(run(), None)
