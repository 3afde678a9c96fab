"""Analyses over rounds: every head on the whole common test set, training accuracy, and how far models move."""

import pytest
import torch
from test_run_metrics import asking, found_in, pictures_of

from motet.messages.message import tensor
from motet.metrics.drift import Drift
from motet.metrics.run_metric import Cohort
from motet.testing.twin import Played, play, tiny
from motet.training.flat_weights import Layout

EVERYTHING = {"common_test": "whole", "heads": True, "training_data": True, "personal_model": "last_participation"}


def accuracy_of(played: Played, w: torch.Tensor, samples: object) -> float:
    """Return how often the plain net with these weights is right, by hand."""
    net = played.assembly.evaluator.generic_net
    Layout(net).bind(net.eval(), w)
    with torch.no_grad():
        x, y = samples.batch(torch.arange(len(samples)))  # type: ignore[attr-defined, arg-type]
        return float((net(x).argmax(1) == y).double().mean())


def test_each_scored_round_has_every_model_on_the_whole_common_set() -> None:
    played = asking("fedrod", "curves", scoring=EVERYTHING, rounds={"cohort": 1.0})
    for row in played.rows:
        for model in ("personal", "personal@generic_head"):
            for data in ("common", "split", "training"):
                assert row[f"{model}.{data}.accuracy.mean"] is not None, (model, data)
        assert row["personal@generic_head.common.accuracy.mean"] != row["personal.common.accuracy.mean"]
    (curves,) = found_in(played).figures_learned
    assert [s.name for s in curves.series] == ["generic model", "personal models", "generic heads of clients' models"]
    assert curves.series[2].values == pytest.approx(
        [row["personal@generic_head.common.accuracy.mean"] for row in played.rows], abs=1e-4
    )
    assert curves.series[0].values == pytest.approx(
        [row["generic.common.accuracy.pooled"] for row in played.rows], abs=1e-4
    )


def test_the_generic_head_of_a_client_is_its_own_trained_model_without_the_personal_head() -> None:
    """Against the plain net with the weights that the client kept: θ_m and ψ_m, without φ_m."""
    played = asking("fedrod(head=linear)", scoring=EVERYTHING, rounds={"cohort": 1.0})
    method, federation = played.assembly.method, played.assembly.federation
    for row in (row for row in played.clients if row["round"] == 3):
        w = method.layout.convert(tensor(played.engine.private(row["client"]), "model"), method.plain)  # type: ignore[attr-defined]
        assert row["personal@generic_head.common.accuracy"] == pytest.approx(accuracy_of(played, w, federation.test))
        train = federation.clients[row["client"]].train
        assert row["personal@generic_head.training.accuracy"] == pytest.approx(accuracy_of(played, w, train))


def test_nothing_of_it_is_there_unasked() -> None:
    played = play(tiny("fedrod", scoring={"every": 1}))
    names = {name for row in (*played.rows, *played.clients) for name in row}
    assert not any("_head" in name or ".training." in name for name in names)
    assert all(row["personal.common.accuracy.mean"] is None for row in played.rows[:-1])


def test_curves_that_have_nothing_to_draw_say_what_is_needed() -> None:
    notes = found_in(asking("fedavg", "curves", "curves(data=training)")).notes
    assert "scoring.common_test = whole" in notes[0] and "scoring.training_data = true" in notes[1]
    drawn = found_in(asking("fedavg", "curves(data=weighted)"))
    assert list(pictures_of(drawn)) == ["curves-weighted"] and not drawn.notes


def test_drift_by_hand() -> None:
    sent, models = torch.tensor([1.0, 1.0]), [torch.tensor([2.0, 1.0]), torch.tensor([0.0, 3.0])]
    found = Drift().in_round(Cohort(sent, models, [3, 1]))  # distances² 1 and 1 + 4
    assert found == {"drift": 6.0, "drift_by_samples": 0.75 * 1 + 0.25 * 5}


def test_drift_of_a_run_is_what_the_clients_sent_back() -> None:
    played = asking(
        "fedavg", "drift", rounds={"cohort": 1.0, "count": 1}, scoring={"personal_model": "last_participation"}
    )
    start = tensor(played.assembly.method.start(), "w")
    clients = [c for c in played.assembly.federation.clients if not c.new]
    squares = [float((tensor(played.engine.private(c.id), "model") - start).double().square().sum()) for c in clients]
    n = [len(c.train) for c in clients]
    (row,) = played.rows
    assert row["drift"] == pytest.approx(sum(squares), rel=1e-5)
    assert row["drift_by_samples"] == pytest.approx(
        sum(a * b for a, b in zip(n, squares, strict=True)) / sum(n), rel=1e-5
    )
    found = found_in(played)
    assert found.training["drift"] == row["drift"] and list(pictures_of(found)) == ["drift"]
