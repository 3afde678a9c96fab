"""Analyses in the space of weights: lines, planes, summaries of clients' models, and what happens inside a round."""

from dataclasses import replace
from pathlib import Path
from statistics import fmean, pstdev

import numpy as np
import pytest
import torch
from test_run_metrics import asking, found_in, pictures_of
from torch.nn.functional import cosine_similarity, cross_entropy

import motet
from motet.data import Samples
from motet.errors import MotetError
from motet.messages.message import tensor
from motet.messages.task import Task
from motet.methods.base.personal_model import PersonalModel
from motet.methods.knn_per import NeighbourMemory
from motet.metrics.summaries import ModelSpace
from motet.runs import run as runs
from motet.runs.record import Record
from motet.server.assembly import assemble
from motet.testing.twin import Played, tiny
from motet.training.flat_weights import Layout


def logits_of(played: Played, w: torch.Tensor, samples: Samples) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what the plain net with these weights says of all samples, and their classes."""
    net = played.assembly.evaluator.generic_net
    Layout(net).bind(net.eval(), w)
    x, y = samples.batch(torch.arange(len(samples)))
    with torch.no_grad():
        return net(x), y


def accuracy_of(played: Played, w: torch.Tensor, samples: Samples) -> float:
    logits, y = logits_of(played, w, samples)
    return float((logits.argmax(1) == y).double().mean())


# ---------------------------------------------------------------- the line


def test_superfeds_line_is_that_of_its_members_with_the_spread_of_each() -> None:
    played = asking("superfed-mm(start=0)", "line")
    found = found_in(played)
    last = [row for row in played.clients if row["round"] == 3]
    for lam in ("0.0", "0.3", "1.0"):
        values = [row[f"member:{lam}.weighted.accuracy"] for row in last]
        name = f"personal.weighted.line_{float(lam):g}".replace("0.3", "0_3")
        assert found.figures[f"{name}.mean"] == pytest.approx(fmean(values))
        assert found.figures[f"{name}.std"] == pytest.approx(pstdev(values))
    (picture,) = found.figures_learned
    assert picture.x.ticks[3] == 0.3 and len(picture.series) == 2


def test_the_line_of_apfl_goes_from_w_to_v() -> None:
    played = asking("apfl", "line(points=5)", rounds={"cohort": 1.0}, scoring={"test": "split"})
    found, w_g = found_in(played).figures, played.assembly.method.generic(played.server)
    assert w_g is not None
    clients = [c for c in played.assembly.federation.clients if not c.new]
    for lam, name in ((0, "0"), (0.25, "0_25"), (1, "1")):
        mixed = [(1 - lam) * w_g + lam * tensor(played.engine.private(c.id), "apfl.v") for c in clients]
        values = [accuracy_of(played, w, c.test) for w, c in zip(mixed, clients, strict=True)]
        assert found[f"personal.split.line_{name}.mean"] == pytest.approx(fmean(values))


def test_the_line_of_fedbasis_ends_in_the_model_that_is_scored() -> None:
    played = asking("fedbasis(k=2, warm_start=false)", "line(points=2)")
    scored = [row["personal.weighted.accuracy"] for row in played.clients if row["round"] == 3]
    found = found_in(played).figures
    assert found["personal.weighted.line_1.mean"] == pytest.approx(fmean(scored))
    assert found["personal.weighted.line_0.mean"] == pytest.approx(played.rows[-1]["generic.weighted.accuracy.mean"])


def test_a_line_without_length_says_so_and_may_go_to_a_trained_model() -> None:
    found = found_in(asking("fedavg", "line", "line(model=trained, points=2)", scoring={"test": "split"}))
    assert found.notes == ["line: clients' own models are the generic one; accepted: line(model=trained)"]
    assert list(pictures_of(found)) == ["line-trained"]
    assert "no generic model" in found_in(asking("fedper", "line")).notes[0]


# ---------------------------------------------------------------- the plane


def test_the_plane_by_hand() -> None:
    played = asking("superfed-mm(start=0)", "plane(points=3, samples=100000, second=2)", rounds={"cohort": 1.0})
    (picture,) = found_in(played).figures_learned
    assert picture.x.ticks == (-0.5, 0.0, 0.5, 1.0, 1.5) and picture.y.ticks == (1.5, 1.0, 0.5, 0.0, -0.5)
    w_g = played.assembly.method.generic(played.server)
    assert w_g is not None
    ids = played.assembly.federation_facts.training_ids
    own = [tensor(played.engine.private(ids[place]), "superfed.w_l") for place in (0, 2)]
    for s, t in ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.5, 1.5), (-0.5, 0.5)):
        w = w_g + s * (own[0] - w_g) + t * (own[1] - w_g)
        logits, y = logits_of(played, w, played.assembly.federation.test)
        cell = picture.series[0].rows[picture.y.ticks.index(t)][picture.x.ticks.index(s)]
        assert cell == pytest.approx(float(cross_entropy(logits, y)), rel=2e-3), (s, t)


def test_a_plane_needs_two_clients() -> None:
    with pytest.raises(MotetError, match="needs two clients; accepted: two of 0 to 3"):
        assemble(tiny("fedavg", scoring={"metrics": ("plane(second=9)",)}))
    assert "accepted: plane(model=trained)" in found_in(asking("fedavg", "plane")).notes[0]


# ---------------------------------------------------------------- summaries


def test_principal_components_are_those_of_numpy() -> None:
    points = torch.randn(6, 40, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    space, away = ModelSpace(points), (points - points.mean(0)).numpy()
    _, scale, axes = np.linalg.svd(away, full_matrices=False)
    assert space.variances[:5].sqrt().tolist() == pytest.approx(scale[:5].tolist())
    for k in (1, 3, 5, 6):
        expected = points.mean(0).numpy() + away[2] @ axes[:k].T @ axes[:k]
        assert space.rebuilt(2, k).tolist() == pytest.approx(expected.tolist(), abs=1e-9)
    assert space.rebuilt(2, 5).tolist() == pytest.approx(points[2].tolist(), abs=1e-9)


def test_equal_models_have_no_components() -> None:
    same = ModelSpace(torch.ones(3, 5, dtype=torch.float64))
    assert torch.equal(same.rebuilt(1, 2), torch.ones(5, dtype=torch.float64))


def test_summaries_of_a_run_from_one_model_to_everybodys_own() -> None:
    scoring = {"test": "split", "personal_model": "last_participation"}
    played = asking("fedavg", "summaries(k=1/3/4, model=own)", rounds={"cohort": 1.0}, scoring=scoring)
    found = found_in(played)
    clients = [c for c in played.assembly.federation.clients if not c.new]
    own = [tensor(played.engine.private(c.id), "model") for c in clients]
    mean = torch.stack(own).mean(0)

    def scored(models: list[torch.Tensor]) -> float:
        return fmean(accuracy_of(played, w, c.test) for w, c in zip(models, clients, strict=True))

    figure = "personal.split.summaries_{}.mean"
    assert found.figures[figure.format("own")] == pytest.approx(scored(own))
    assert found.figures[figure.format("kmeans_1")] == pytest.approx(scored([mean] * 4))
    assert (
        found.figures[figure.format("kmeans_4")] == found.figures[figure.format("pca_3")] == pytest.approx(scored(own))
    )
    space = ModelSpace(torch.stack(own).double())
    assert found.figures[figure.format("pca_1")] == pytest.approx(
        scored([space.rebuilt(i, 1).float() for i in range(4)])
    )
    curve, plane = found.figures_learned
    assert curve.x.ticks == (1, 3, 4) and len(plane.series[0].rows) == 4 and plane.groups[0] == "cluster 1"


@pytest.mark.filterwarnings("error")
def test_models_that_are_alike_have_no_summary() -> None:
    (note,) = found_in(asking("fedavg", "summaries(model=own)")).notes
    assert "no two clients have different weights" in note
    assert set(ModelSpace(torch.ones(4, 6, dtype=torch.float64)).clusters(3, 0).tolist()) == {0}


def test_sizes_that_are_none_are_refused() -> None:
    with pytest.raises(MotetError, match="whole numbers above 0 with / between them"):
        assemble(tiny("fedavg", scoring={"metrics": ("summaries(k=0/2)",)}))


# ---------------------------------------------------------------- inside a round


@pytest.mark.parametrize("joint", ["true", "false"])
def test_after_all_epochs_the_bases_are_those_that_a_client_sends(joint: str) -> None:
    method = f"fedbasis(k=3, plain=true, warm_start=false, psi_lr=2.0, joint={joint})"
    played = asking(method, "within_round(clients=1, epochs=2)", local={"epochs": 2})
    ours, server, place = found_in(played).figures_learned[0], played.server, played.assembly.workplace
    lines = {series.name.replace(" ", "_"): series.values for series in ours.series}
    i = played.assembly.federation_facts.training_ids[0]
    train = Task("train", i, played.progress.round, place.method.broadcast(server, i))
    reply = place.perform(train, {}).reply
    assert reply is not None
    for epochs, V in ((0, tensor(server, "fedbasis.V")), (2, tensor(reply, "fedbasis.V"))):
        v = V[place.method.mixing.first :]  # type: ignore[attr-defined]
        pairs = [float(cosine_similarity(v[a], v[b], dim=0)) for a, b in ((0, 1), (0, 2), (1, 2))]
        assert lines["fedbasis_cosine"][epochs] == pytest.approx(fmean(pairs), rel=1e-3)
    assert lines["fedbasis_entropy"][2] == pytest.approx(float(reply["fedbasis.entropy"]), rel=1e-3)
    assert ours.x.ticks == (0, 1, 2)


def test_a_method_without_such_numbers_says_so() -> None:
    assert "within_round: the method has no such numbers" in found_in(asking("fedavg", "within_round")).notes[0]


# ---------------------------------------------------------------- kNN-Per + FT


def test_neighbours_are_taken_of_the_fine_tuned_model() -> None:
    played = asking("fedavg+knn-per(ft=2)")
    place, server = played.assembly.workplace, played.server
    client = place.client(Task("score", 0, 3, {}), {})
    message = place.method.broadcast(server, 0, scoring=True)
    memory = place.method.personal(client, message)
    assert isinstance(memory, NeighbourMemory)
    z, tuned = memory.z.clone(), asking("fedavg+ft(epochs=2)").assembly.workplace
    model = tuned.method.personal(client, message)
    assert isinstance(model, PersonalModel)
    x, _ = next(client.data.train.all_batches(1000))
    with torch.no_grad():
        assert torch.allclose(model.net.body(x).flatten(1), z, atol=1e-5)
    plain = asking("fedavg+knn-per").assembly.workplace.method.personal(client, message)
    assert isinstance(plain, NeighbourMemory) and not torch.allclose(plain.z, z, atol=1e-3)
    new = replace(client, data=replace(client.data, new=True)).adapting(epochs=2)
    adapted = place.method.adapt(new, message)
    assert isinstance(adapted, NeighbourMemory) and torch.allclose(adapted.z, z, atol=1e-5)


# ---------------------------------------------------------------- on every engine, and afterwards


def test_the_same_bytes_on_every_engine_and_when_measured_again(tmp_path: Path) -> None:
    """Also where clients are asked twice (`summaries`) and where they train for it."""
    metrics = (
        *("line(points=2)", "line(points=2, model=trained)", "plane(points=2)", "summaries(k=1/2)", "drift"),
        *("fisher(model=trained)", "features(samples=3, clients=2)", "adaptation(epochs=1)"),
    )
    settings = {"metrics": metrics, "heads": True, "training_data": True, "common_test": "whole"}
    folders = []
    for name in ("inline", "pool"):
        asked = tiny("superfed-mm(start=0)", scoring=settings, engine={"name": name, "workers": 1})
        folders.append(runs.run(asked, tmp_path / name))
    first, second = (Record(folder).summary.model_dump() for folder in folders)
    assert first["figures"] == second["figures"] and first["training"] == second["training"]
    settled = {"local_init": "at_mixing", "lr_compensation": "true", "lambda_eval": "common_validation"}
    said = ", ".join(f"superfed-mm.{name} = {value}" for name, value in settled.items())
    assert first["notes"] == second["notes"] == [f"options that were auto: {said}"]
    drawn = [(folder / "figures_learned.json").read_bytes() for folder in folders]
    assert drawn[0] == drawn[1]
    again = motet.load(folders[0]).measure("summaries(k=1/2)", "line(points=2)")
    assert again and all(first["figures"][name] == pytest.approx(value) for name, value in again.items())
