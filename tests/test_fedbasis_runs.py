"""FedBasis on real digits: warm start, FedAvg as a special case, the shortcut over whole runs, and the collapse."""

import math
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from motet.config.experiment import Experiment
from motet.messages.message import Message, State, encode, tensor
from motet.messages.task import Task
from motet.methods.fedbasis.warm_start import centroids
from motet.server.assembly import assemble
from motet.testing.twin import Played, play, tiny


def small(method: str) -> Experiment:
    """Seven rounds of two clients out of four, of which 0.3 · 7 ≈ 2 are the warm start's."""
    changes = {"local": {"epochs": 2}, "adapt": {"epochs": 5, "lr": 0.05}, "scoring": {"every": 4}}
    return tiny(method, rounds={"count": 7, "cohort": 0.5}, **changes)


@cache
def played(method: str) -> Played:
    return play(small(method))


def assert_close(ours: Tensor, reference: Tensor, start: Tensor, tolerance: float) -> None:
    """Equal up to rounding, where the way from the start is far longer than that."""
    assert (reference - start).abs().max() > 200 * tolerance
    torch.testing.assert_close(ours, reference, rtol=tolerance, atol=tolerance)


# ---------------------------------------------------------------- warm start


def test_centroids_are_the_means_of_well_separated_groups() -> None:
    rng = torch.Generator().manual_seed(0)
    centers = torch.randn(3, 50, generator=rng) * 5
    group = torch.tensor([0, 1, 2, 1, 0, 2, 2, 1, 0, 0])
    local = centers[group] + torch.randn(10, 50, generator=rng) / 10
    local[:, :10] = torch.randn(10, 10, generator=rng) * 1000  # statistics: averaged, but no reason to part
    found = centroids(local, local.mean(0), 3, slice(10, 50), seed=0)
    expected = torch.stack([local[group == g].mean(0) for g in range(3)])
    order = torch.cdist(expected[:, 10:], found[:, 10:]).argmin(1)
    assert order.sort().values.tolist() == [0, 1, 2]
    torch.testing.assert_close(found[order], expected)


def test_fewer_models_than_bases_still_give_different_bases() -> None:
    local, center = torch.tensor([[2.0, 0.0], [0.0, 4.0]]), torch.zeros(2)
    found = {tuple(row) for row in centroids(local, center, 5, slice(0, 2), seed=0).tolist()}
    assert {(2.0, 0.0), (0.0, 4.0), (1.0, 0.0), (0.0, 2.0)} < found and len(found) == 5


def two_rounds(method: str, cohorts: list[list[int]]) -> list[tuple[State, dict[int, Message]]]:
    assembly = assemble(small(method))
    server, history = assembly.method.start(), []
    for round, cohort in enumerate(cohorts, 1):
        outcomes = list(
            assembly.engine.run([Task("train", i, round, assembly.method.broadcast(server, i)) for i in cohort])
        )
        replies = {o.client_id: o.reply for o in outcomes if o.reply is not None}
        server = assembly.method.aggregate(server, replies)
        history.append((server, replies))
    return history


def test_the_warm_start_is_fedavg_and_ends_in_its_models() -> None:
    ids = assemble(small("fedavg")).client_ids
    cohorts = [[ids[0], ids[1]], [ids[1], ids[2]]]
    (first, _), (last, _) = two_rounds("fedbasis(k=3)", cohorts)
    (fedavg, replies), (end, replies_2) = two_rounds("fedavg", cohorts)
    assert torch.equal(tensor(first, "w"), tensor(fedavg, "w"))
    assert "fedbasis.V" not in first and last.keys() == {"fedbasis.V"}
    V = tensor(last, "fedbasis.V")
    assert torch.equal(V[0], tensor(end, "w"))  # v′ is the global model
    recent = replies | replies_2  # client 1 took part twice: its newer model counts
    found = {row.numpy().tobytes() for row in V[1:]}  # three models, three clusters
    assert found == {tensor(reply, "w").numpy().tobytes() for reply in recent.values()}


# ---------------------------------------------------------------- whole runs


def test_one_basis_without_a_major_one_is_fedavg_with_uniform_weights() -> None:
    """Bit for bit where bases are trained one by one; the one vector adds c·θ_0 to U, which rounds differently."""
    fedavg = played("fedavg(weighting=uniform)")
    w, start = tensor(fedavg.server, "w"), tensor(fedavg.assembly.method.start(), "w")
    each = played("fedbasis(k=1, major=false, warm_start=0, plain=true)")
    assert torch.equal(tensor(each.server, "fedbasis.V")[0], w)
    one = played("fedbasis(k=1, major=false, warm_start=0)")
    assert_close(tensor(one.server, "fedbasis.V")[0], w, start, 1e-5)
    assert one.rows[-1]["generic.common.accuracy.pooled"] == fedavg.rows[-1]["generic.common.accuracy.pooled"]


@pytest.mark.parametrize("options", ["k=3", "k=3, major=false, blocks=single"])
def test_the_one_vector_gives_the_same_run_as_all_bases(options: str) -> None:
    one, each = played(f"fedbasis({options})"), played(f"fedbasis({options}, plain=true)")
    V = tensor(each.server, "fedbasis.V")
    assert_close(tensor(one.server, "fedbasis.V"), V, torch.zeros_like(V), 1e-4)
    assert one.rows[-1]["fedbasis_entropy"] == pytest.approx(each.rows[-1]["fedbasis_entropy"], abs=1e-3)
    assert one.rows[-1]["bytes_up"] < 1.1 * one.rows[0]["bytes_up"]  # the first round is FedAvg's
    assert each.rows[-1]["bytes_up"] > 2.9 * each.rows[0]["bytes_up"]


@pytest.mark.parametrize(
    ("options", "floor"),
    [("k=3", 0.6), ("k=2, generic=major", 0.6), ("k=2, joint=true, tau=1, warm_start=0", 0.3)],
)
def test_a_run_twice_is_the_same_and_learns(options: str, floor: float) -> None:
    one = played(f"fedbasis({options})")
    two = play(one.assembly.experiment)
    assert encode(one.server) == encode(two.server)
    assert one.timeless() == two.timeless() and one.clients == two.clients and one.new == two.new
    figures = {**one.rows[-1], **one.new.figures}
    assert all(math.isfinite(v) for v in figures.values() if isinstance(v, float))
    assert figures["personal.weighted.accuracy.mean"] > floor
    assert figures["after.weighted.accuracy.mean"] > figures["before.weighted.accuracy.mean"]
    assert not any(one.engine.private(i) for i in one.assembly.client_ids)  # clients keep nothing


def test_joint_training_collapses_and_coordinate_descent_does_not() -> None:
    """Figure 2: trained jointly, bases grow alike and α uniform; sharpened coordinate descent parts the bases."""

    def study(options: str) -> list[dict[str, Any]]:
        experiment = tiny(
            f"fedbasis({options})",
            data={"partition": "dirichlet:0.3", "clients": 10, "new_clients": 0.0, "val_share": 0.0, "subset": 0.5},
            rounds={"count": 8},
            local={"epochs": 3, "batch": 16, "lr": 0.01, "lr_decay": 1.0, "weight_decay": 1e-4},
            scoring={"every": 8},
        )
        return [row for row in play(experiment).rows if "fedbasis_entropy" in row]

    joint, ours = study("joint=true, tau=1"), study("")
    for earlier, later in pairwise(joint):
        assert later["fedbasis_cosine"] > earlier["fedbasis_cosine"]
        assert later["fedbasis_spread"] < earlier["fedbasis_spread"]
    for earlier, later in pairwise(ours):
        assert later["fedbasis_cosine"] < earlier["fedbasis_cosine"]
        assert later["fedbasis_spread"] > earlier["fedbasis_spread"]
    assert min(row["fedbasis_entropy"] for row in joint) > max(row["fedbasis_entropy"] for row in ours)
    assert joint[-1]["fedbasis_entropy"] > 0.9999 * math.log(4)
