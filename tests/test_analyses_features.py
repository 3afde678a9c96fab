"""Analyses of features: whose they are, t-SNE by class and by client, Fisher's ratio, and DBE's rule of convergence."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from test_run_metrics import QUICK_MDL, asking, found_in, pictures_of
from torch import Tensor

from motet.messages.message import Message, tensor
from motet.messages.task import Task
from motet.methods.base.personal_model import PersonalModel
from motet.metrics.convergence import stops_at
from motet.metrics.feature_plane import FeaturePlane
from motet.metrics.fisher import ratio
from motet.testing.twin import Played, play, tiny
from motet.training.flat_weights import Layout


def replies_of(played: Played) -> dict[int, Message]:
    """Return what the clients tell for the first metric of a run, as the server asks it."""
    final, end = played.assembly.final_evaluation, played.progress
    generic = final.evaluator.generic(end.server, end.round)
    metric, run = final.evaluator.run_metrics[0], replace(final.before, generic=generic)
    build = lambda i: final._build_message(metric, 0, end.server, run, {}, i)  # noqa: E731
    return final._ask("run_metric", metric.whom(run), end.round, build)


# ---------------------------------------------------------------- whose features


def test_the_logits_of_personal_models_are_those_that_are_scored() -> None:
    played = asking("fedrod", "features(layer=logits, model=personal, samples=600)", rounds={"cohort": 1.0})
    own = {row["client"]: row["personal.split.accuracy"] for row in played.clients if row["round"] == 3}
    for i, reply in replies_of(played).items():
        right = (tensor(reply, "features.z").argmax(1) == tensor(reply, "features.y")).double().mean()
        assert own[i] == pytest.approx(float(right)), i


def test_trained_features_are_those_after_one_more_local_training() -> None:
    played = asking("fedavg", "features(layer=fc1, model=trained, samples=600)", rounds={"cohort": 1.0})
    place, method, net = played.assembly.workplace, played.assembly.method, played.assembly.evaluator.generic_net
    for i, reply in replies_of(played).items():
        train = Task("train", i, played.progress.round, method.broadcast(played.server, i))
        after = place.perform(train, {}).reply
        assert after is not None
        x, y = next(played.assembly.federation.clients[i].test.all_batches(1000))
        for w, same in ((tensor(after, "w"), True), (tensor(played.server, "w"), False)):
            Layout(net).bind(net.eval(), w)
            with torch.no_grad():
                z = net.get_submodule("fc1")(x)
            assert torch.allclose(z, tensor(reply, "features.z"), atol=1e-4) == same
        assert torch.equal(y, tensor(reply, "features.y"))


def test_after_the_split_features_have_what_the_parts_add() -> None:
    """DBE's p is in the stages behind it, and not in those before."""
    played = asking(
        "fedavg+dbe", net={"name": "mlp", "head": "fc2"}, scoring={"personal_model": "global_plus_personal"}
    )
    place, server = played.assembly.workplace, played.server
    client = place.client(Task("score", 0, 3, {}), played.engine.private(0))
    model = place.method.personal(client, place.method.broadcast(server, 0, scoring=True))
    assert isinstance(model, PersonalModel)
    net, test = model.net, client.data.test
    p = net.get_parameter("prbm").detach()
    assert p.abs().max() > 0
    x, _ = next(test.all_batches(1000))
    with torch.no_grad():
        z = net.get_submodule("fc1")(x)
        behind = net.get_submodule("fc2")(z + p)
    for layer, expected in (("fc1", z), ("fc2", behind)):
        found = FeaturePlane(layer=layer, model="personal").features(model, test)
        assert found is not None and torch.allclose(found, expected, atol=1e-5), layer


def test_mdl_before_and_after_local_training_and_of_logits() -> None:
    asked = [QUICK_MDL.replace("(", f"({words}, ") for words in ("model=trained", "layer=logits", "model=personal")]
    found = found_in(asking("fedavg", QUICK_MDL, *asked, scoring={"personal_model": "last_participation"}))
    assert not found.notes and {name.split(":")[0] for name in found.figures} == {
        f"{model}.split.{metric}"
        for model in ("personal@trained", "generic", "personal")
        for metric in ("mdl", "mdl_bits")
    }
    assert {*pictures_of(found)} == {"mdl-fc2-trained", "mdl-logits", "mdl-fc2-personal", "mdl-fc2"}
    lengths = [found.figures[f"{model}.split.mdl:fc2.pooled"] for model in ("generic", "personal", "personal@trained")]
    assert len(set(lengths)) == 3, "each is of other models"
    without = found_in(asking("fedavg", QUICK_MDL.replace("(", "(model=trained, "), data={"test_share": 0.0}))
    assert without.notes == ["mdl: no client has test data of its own (data.test_share = 0)"]


# ---------------------------------------------------------------- in a plane


def test_the_same_points_by_class_and_by_client() -> None:
    played = asking("fedavg+ft", "features(clients=3, samples=7)")
    by_class, by_client = found_in(played).figures_learned
    assert (by_class.name, by_client.name) == ("features-generic-by-class", "features-generic-by-client")
    points = [figure.series[0].rows for figure in (by_class, by_client)]
    assert [p[:2] for p in points[0]] == [p[:2] for p in points[1]] and len({p[:2] for p in points[0]}) > 10
    told = replies_of(played)
    assert [p[2] for p in points[0]] == [int(y) for reply in told.values() for y in tensor(reply, "features.y")]
    assert [p[2] for p in points[1]] == [
        k for k, reply in enumerate(told.values()) for _ in tensor(reply, "features.y")
    ]
    assert by_client.groups == ("0", "2", "3") and len(points[0]) <= 21


def test_without_own_tests_they_are_of_the_common_set_in_a_clients_classes() -> None:
    played = asking("fedrod", "features(model=personal)", data={"test_share": 0.0})
    for i, reply in replies_of(played).items():
        held = played.assembly.federation.clients[i].train.y.unique().tolist()
        assert set(tensor(reply, "features.y").tolist()) <= set(held)


# ---------------------------------------------------------------- Fisher's ratio


def by_hand(z: Tensor, group: Tensor) -> float:
    z = z.double()
    mean, between, within = z.mean(0), 0.0, 0.0
    for g in group.unique():
        mine = z[group == g]
        between += len(mine) * float((mine.mean(0) - mean).square().sum())
        within += sum(float((row - mine.mean(0)).square().sum()) for row in mine)
    return between / within


def test_fisher_of_a_run_by_hand() -> None:
    played = asking("fedavg", "features(samples=600)", "fisher")
    told = replies_of(played)
    found = found_in(played)
    z, y = (torch.cat([tensor(reply, name) for reply in told.values()]) for name in ("features.z", "features.y"))
    owner = torch.cat([torch.full((len(tensor(reply, "features.y")),), i) for i, reply in told.items()])
    own = [by_hand(z[owner == i], y[owner == i]) for i in told]
    figures = {name.partition(":")[0] + name[name.rindex(".") :]: value for name, value in found.figures.items()}
    assert figures["generic.split.fisher.mean"] == pytest.approx(sum(own) / len(own), rel=1e-4)
    assert figures["generic.split.fisher.pooled"] == pytest.approx(by_hand(z, y), rel=1e-4)
    assert figures["generic.split.fisher_of_clients.pooled"] == pytest.approx(by_hand(z, owner), rel=1e-4)
    bars = pictures_of(found)["fisher-generic"]
    assert bars.x.ticks[-1] == "all" and bars.series[0].values[:-1] == pytest.approx(own, rel=1e-3)


def test_one_group_has_no_ratio() -> None:
    one = torch.tensor([4.0, 0.0]), torch.tensor([[8.0], [0.0]]), torch.tensor([20.0, 0.0])
    assert ratio(*one) is None
    same = torch.tensor([2.0, 2.0]), torch.tensor([[2.0], [4.0]]), torch.tensor([2.0, 8.0])  # no spread within
    assert ratio(*same) is None


# ---------------------------------------------------------------- convergence


@pytest.mark.parametrize(
    ("values", "patience", "place"),
    [
        ([1, 2, 3, 2, 2, 2], 3, 5),  # the best is at place 2: of six values it is four back, more than three
        ([1, 2, 3, 2, 2], 3, None),
        ([3, 2, 4, 1, 1, 9], 2, 4),
        ([1, 1, 1], 2, 2),  # equal is not better
        ([], 1, None),
    ],
)
def test_the_rule_of_dbes_library(values: list[float], patience: int, place: int | None) -> None:
    assert stops_at(values, patience) == place


def test_convergence_of_a_run_counts_rounds_and_bytes() -> None:
    rounds: dict[str, Any] = {"count": 8, "cohort": 1.0}
    asked = tiny(
        "fedavg", rounds=rounds, local={"lr": 1e-9}, scoring={"every": 2, "metrics": ("convergence(patience=2)",)}
    )
    played = play(asked)  # nothing is learned: the first scoring is the best
    figures = found_in(played).figures
    assert figures["personal.weighted.rounds_to_best.mean"] == 2
    assert figures["personal.weighted.rounds_to_stop.mean"] == 6
    sent = sum(row["bytes_down"] + row["bytes_up"] for row in played.rows[:6])
    assert figures["personal.weighted.bytes_to_stop.mean"] == sent
    (note,) = found_in(asking("fedavg", "convergence")).notes
    assert "never more than 100" in note
