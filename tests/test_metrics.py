"""Figures have one name, measures one pass: by hand, in whole runs, and a user's own in worker processes too."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import motet
from motet.data import Samples
from motet.data.prepare import VectorPrepare
from motet.messages.message import Message
from motet.messages.task import Task
from motet.metrics.calibration import ece, mce
from motet.metrics.names import DATA, STATISTICS, MetricName, is_scored, member, variant
from motet.metrics.one_pass import one_pass
from motet.metrics.over_clients import figures_over, spread
from motet.metrics.registry import METRICS, Metric, metrics_of
from motet.testing.twin import Played, play, tiny
from motet.training.flat_weights import Layout

ALL = tuple(METRICS[name] for name in ("accuracy", "loss", "top5", "ece", "mce"))

# ---------------------------------------------------------------- names

models = st.sampled_from(["generic", "personal", member("0.4"), member("brm"), variant("personal", "final_sync")])
figures = st.builds(
    MetricName,
    models,
    st.sampled_from(list(DATA)),
    st.sampled_from([*METRICS, "own"]),
    st.sampled_from(["", *STATISTICS]),
)


@given(figures)
def test_a_name_is_read_as_it_was_made(figure: MetricName) -> None:
    assert MetricName.read(str(figure)) == figure


def test_the_name_of_the_headline() -> None:
    assert str(MetricName("personal", "weighted", "accuracy", "mean")) == "personal.weighted.accuracy.mean"
    assert str(MetricName(member("0.4"), "split")) == "member:0.4.split.accuracy"


@pytest.mark.parametrize("column", ["round", "n.split", "personal.diverged", "generic.derived", "family_rule", "a.b.c"])
def test_other_columns_are_no_figures(column: str) -> None:
    assert MetricName.read(column) is None and not is_scored({column: 0.5})


# ---------------------------------------------------------------- one pass for all


class Table(nn.Module):
    """Answers as a table says; counts how often it is asked."""

    def __init__(self, logits: Tensor):
        super().__init__()
        self.logits, self.calls = nn.Parameter(logits), 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.logits[x[:, 0].long()]


def problem(n: int = 450, classes: int = 7) -> tuple[Table, Samples]:
    rng = torch.Generator().manual_seed(3)
    x = torch.stack([torch.arange(n).float(), torch.zeros(n)], 1)
    y = torch.randint(0, classes, (n,), generator=rng)
    return Table(torch.randn(n, classes, generator=rng)), Samples(x, y, VectorPrepare((2,)))


def test_every_measure_from_one_pass() -> None:
    model, samples = problem()
    answers = one_pass(model, samples, ALL, 7)
    assert model.calls == 3  # batches of 200
    logits, y = model.logits.detach(), samples.y
    confidence, said = logits.softmax(1).max(1)
    by_hand = {
        "accuracy": float((said == y).double().mean()),
        "loss": float(-logits.double().log_softmax(1)[torch.arange(450), y].mean()),
        "top5": sum(int(y[i]) in logits[i].argsort(descending=True)[:5].tolist() for i in range(450)) / 450,
        "ece": ece(confidence, said == y),
        "mce": mce(confidence, said == y),
    }
    assert {metric.name: answers.value(metric) for metric in ALL} == pytest.approx(by_hand)
    assert 0 < by_hand["accuracy"] < by_hand["top5"] < 1


def test_parts_of_a_set_add_up_to_the_set() -> None:
    model, samples = problem()
    some = samples.y < 3
    parts = [one_pass(model, samples, ALL, 7, rows.nonzero().squeeze(1)) for rows in (some, ~some)]
    both, whole = parts[0] + parts[1], one_pass(model, samples, ALL, 7)
    assert torch.equal(both.counts, whole.counts) and torch.equal(both.right["top5"], whole.right["top5"])
    for metric in ALL:
        assert both.value(metric) == pytest.approx(whole.value(metric))
        assert parts[0].value(metric) != pytest.approx(whole.value(metric))


def test_nothing_was_asked_of_no_samples() -> None:
    model, samples = problem()
    answers = one_pass(model, samples.part(0, 0), ALL, 7)
    assert model.calls == 0 and [answers.value(metric) for metric in ALL] == [None] * 5


def test_logits_are_kept_only_where_a_measure_needs_them() -> None:
    model, samples = problem()
    assert one_pass(model, samples, metrics_of(["top5"]), 7).logits is None
    assert one_pass(model, samples, metrics_of(["ece"]), 7).logits is not None


def test_the_five_of_three_classes_are_all() -> None:
    model, samples = problem(classes=3)
    assert one_pass(model, samples, ALL, 3).value(METRICS["top5"]) == 1


# ---------------------------------------------------------------- over clients


def test_the_worst_tenth_of_an_error_are_the_largest() -> None:
    found = spread([0.5, 0.1, 0.2], [1, 1, 1], higher_is_better=False)
    assert found is not None and (found.worst_tenth, found.minimum) == (0.5, 0.1)


def replies(metric: str, *pairs: tuple[float, float]) -> list[Message]:
    return [{f"personal.split.{metric}": mine, f"generic.split.{metric}": other, "n.split": 1} for mine, other in pairs]


@pytest.mark.parametrize(("name", "hurt"), [("accuracy", 1), ("ece", 2)])
def test_who_is_worse_off_than_with_the_generic_model(name: str, hurt: int) -> None:
    told = replies(name, (0.5, 0.4), (0.3, 0.4), (0.4, 0.4), (0.9, 0.1))
    found = figures_over(told, ["generic", "personal"], ALL)
    assert found[f"personal.split.{name}.hurt_clients"] == hurt
    assert found[f"personal.split.{name}.hurt"] == hurt / 4
    assert f"generic.split.{name}.hurt" not in found


def test_without_a_generic_model_nobody_is_worse_off_than_with_it() -> None:
    found = figures_over([{"personal.split.accuracy": 0.5, "n.split": 1}], ["generic", "personal"], ALL)
    assert found["personal.split.accuracy.mean"] == 0.5 and "personal.split.accuracy.hurt" not in found
    assert found["generic.split.accuracy.mean"] is None  # the column is there, and empty


# ---------------------------------------------------------------- whole runs


@cache
def measured(method: str = "fedavg") -> Played:
    scoring = {"every": 1, "metrics": ["top5", "ece", "mce"]}
    return play(tiny(method, scoring=scoring, rounds={"count": 2}))


def logits_of(w: Tensor, samples: Samples, played: Played) -> Tensor:
    net = played.assembly.workplace.generic_net.another()
    Layout(net).bind(net, w.clone())
    with torch.no_grad():
        return net(samples.prepare(samples.x))


def by_hand(metrics: Sequence[Metric], logits: Tensor, y: Tensor) -> dict[str, float]:
    confidence, said = logits.softmax(1).max(1)
    five = (logits.topk(5, 1).indices == y[:, None]).any(1)
    every = {"accuracy": (said == y).double().mean(), "top5": five.double().mean()}
    every |= {"ece": ece(confidence, said == y), "mce": mce(confidence, said == y)}  # type: ignore[dict-item]
    every["loss"] = -logits.double().log_softmax(1)[torch.arange(len(y)), y].mean()
    return {metric.name: float(every[metric.name]) for metric in metrics}


def test_the_generic_model_by_every_measure() -> None:
    played = measured()
    test = played.assembly.federation.test
    expected = by_hand(ALL, logits_of(played.server["w"], test, played), test.y)
    row = played.rows[-1]
    assert {m.name: row[f"generic.common.{m.name}.pooled"] for m in ALL} == pytest.approx(expected, abs=1e-6)
    client = played.assembly.federation.clients[played.clients[-1]["client"]]
    expected = by_hand(ALL, logits_of(played.server["w"], client.test, played), client.test.y)
    own = {m.name: played.clients[-1][f"generic.split.{m.name}"] for m in ALL}
    assert own == pytest.approx(expected, abs=1e-6)


def test_personal_models_meet_the_whole_common_test_set_in_the_last_round() -> None:
    played = measured()
    test = played.assembly.federation.test
    assert played.rows[0]["personal.common.accuracy.mean"] is None
    rows = [row for row in played.clients if row["round"] == 2]
    for row in rows:
        kept = played.engine.private(row["client"]).get("model", played.server["w"])
        expected = by_hand(ALL, logits_of(kept, test, played), test.y)
        assert {m.name: row[f"personal.common.{m.name}"] for m in ALL} == pytest.approx(expected, abs=1e-6)
    mean = sum(row["personal.common.accuracy"] for row in rows) / len(rows)
    assert played.rows[-1]["personal.common.accuracy.mean"] == pytest.approx(mean)
    assert mean != pytest.approx(played.rows[-1]["personal.weighted.accuracy.mean"])


def test_measures_of_a_whole_set_are_not_weighted_by_class() -> None:
    row = measured().rows[-1]
    assert row["personal.weighted.top5.mean"] >= row["personal.weighted.accuracy.mean"]
    assert not any(".weighted.ece" in name or ".weighted.mce" in name for name in row)


def test_a_family_has_every_measure_but_no_pass_over_everything() -> None:
    played = measured("superfed-mm(start=0.3)")
    row, client = played.rows[-1], played.clients[-1]
    assert row["personal.common.accuracy.mean"] is None and "member:0.4.common.accuracy" not in client
    assert 0 <= row["personal.split.ece.mean"] <= 1 and "member:0.4.split.ece" in client


def test_more_measures_leave_accuracy_alone() -> None:
    plain = play(tiny("fedavg", scoring={"every": 1}, rounds={"count": 2}))
    for with_more, row in zip(measured().timeless(), plain.timeless(), strict=True):
        assert {name: with_more[name] for name in row} == row


def test_a_diverged_model_is_the_worst_by_every_measure() -> None:
    workplace = measured().assembly.workplace
    client = workplace.client(Task("score", 0, 1, {}), {})
    told = workplace.scorer.nothing_right("personal", client, "all")
    assert told["personal.split.accuracy"] == told["personal.weighted.top5"] == 0
    assert told["personal.common.ece"] == told["personal.split.mce"] == 1 and told["personal.diverged"] is True


OWN = """
import math


def surprise(logits, y):
    return float(-logits.log_softmax(1)[range(len(y)), y].mean())


surprise.higher_is_better = False


def nothing(logits, y):
    return math.nan
"""


def test_ones_own_measure_is_a_row_like_any_other_also_in_worker_processes(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    asked: dict[str, Any] = {"scoring.metrics": [f"{tmp_path}/own.py:surprise", f"{tmp_path}/own.py:nothing"]}
    small = {"clients": 4, "rounds": 1, "epochs": 1, "subset": 0.3}
    inline = motet.run(**small, set=asked | {"engine.name": "inline"})
    pool = motet.run(**small, set=asked | {"engine.name": "pool", "engine.workers": 2})
    assert inline.clients == pool.clients and inline.figures == pool.figures
    values = [row["personal.split.surprise"] for row in inline.clients]
    assert inline.figures["personal.split.surprise.mean"] == pytest.approx(sum(values) / 4)
    assert inline.figures["personal.split.surprise.worst_tenth"] == max(values) > 0
    assert not any("nothing" in name for name in inline.figures)  # a value that is not finite is none


def test_two_measures_of_one_name_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text(OWN)
    with pytest.raises(motet.MotetError, match="two metrics named 'surprise'; accepted: each name once"):
        metrics_of([f"{tmp_path}/a.py:surprise", f"{tmp_path}/b.py:surprise"])
