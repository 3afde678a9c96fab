"""BatchNorm's statistics: averaged, kept by FedBN, or each batch's own; in every method."""

from pathlib import Path

import pytest
import torch
from inputs import input_of
from torch import Tensor, nn

from motet.messages.task import Task
from motet.nets import build_net
from motet.nets.net import BatchStatistics
from motet.testing import CHECKS, check_method
from motet.testing.twin import ALONE, NEED_MORE_CLIENTS, Played, play, tiny
from motet.training.flat_weights import Layout

NET = f"{Path(__file__).parent / 'batchnorm_net.py'}:build"
MEAN = "fc1.1.running_mean"
QUICK = {"fedavg", "pfedme", "apfl", "fedbasis"}


def generic_statistics(played: Played) -> dict[str, Tensor]:
    flat = played.assembly.method.generic(played.server)
    named = Layout(played.assembly.generic_net).named(flat) if flat is not None else {}
    return {name: value for name, value in named.items() if "running" in name}


@pytest.mark.parametrize(
    "name",
    [pytest.param(m, marks=() if m in QUICK else pytest.mark.slow) for m in [*ALONE, *sorted(NEED_MORE_CLIENTS)]],
)
def test_statistics_move_in_every_method(name: str) -> None:
    more = {"data": {"clients": 8}} if name in NEED_MORE_CLIENTS else {}
    played = play(tiny(name, net={"name": NET}, rounds={"count": 2, "cohort": 1.0}, **more))
    assembly, found = played.assembly, generic_statistics(played)
    assert all((value > 0).all() for name, value in found.items() if name.endswith("running_var"))
    assert not found or found[MEAN].abs().mean() > 0.01
    if assembly.method.pooled:
        return
    i = assembly.federation.training_ids[0]
    message = assembly.method.broadcast(played.server, i)
    client = assembly.workplace.client(Task("score", i, 2, message), dict(played.engine.private(i)))
    method, family = assembly.method, assembly.method.family
    one = method.member(client, message, family.members[-1]) if family else method.personal(client, message)
    assert one is not None
    means = [b for name, b in one.named_buffers() if name.endswith(MEAN)]
    assert means and all(b.abs().mean() > 0.01 for b in means)


def test_fedavg_averages_statistics_and_fedbn_keeps_them() -> None:
    fedavg = play(tiny("fedavg", net={"name": "resnet8"}, rounds={"count": 1, "cohort": 1.0}))
    names = {name for name in Layout(fedavg.assembly.generic_net).places if "running" in name}
    assert {*generic_statistics(fedavg)} == names and fedavg.server["w"].shape[0] == fedavg.assembly.method.layout.size  # type: ignore
    fedbn = play(tiny("fedbn", net={"name": "resnet8"}, rounds={"count": 1, "cohort": 1.0}))
    kept = [encoded for i, encoded in fedbn.private().items() if i in fedbn.assembly.federation.training_ids]
    assert len(set(kept)) == len(kept) and fedbn.server["w"].shape[0] < fedavg.server["w"].shape[0]  # type: ignore[union-attr]


# ---------------------------------------------------------------- each batch's own statistics


def test_batch_statistics_leave_nothing_to_average() -> None:
    net = build_net("resnet8", input_of(3, 8, 8), 10, batch_statistics=True)
    plain = build_net("resnet8", input_of(3, 8, 8), 10)
    assert not list(net.named_buffers()) and not list(net.another().named_buffers())
    assert [name for name, _ in net.named_parameters()] == [name for name, _ in plain.named_parameters()]
    plain.load_state_dict(net.state_dict(), strict=False)
    x = torch.randn(6, 3, 8, 8)
    assert torch.allclose(net(x), plain(x), atol=1e-6)  # in training
    assert torch.equal(net.eval()(x), net.train()(x)) and not torch.allclose(plain.eval()(x), net(x), atol=1e-2)
    assert net.normalizes_batches


def test_a_sample_alone_is_scored_as_the_shift() -> None:
    layer = BatchStatistics(nn.BatchNorm1d(4))
    layer.bias.data.copy_(torch.arange(4.0))
    torch.testing.assert_close(layer(torch.randn(1, 4)), torch.arange(4.0)[None], rtol=0, atol=1e-4)


def test_a_run_by_batch_statistics() -> None:
    net = {"name": NET, "batch_statistics": True}
    assert check_method("superfed-mm(start=0)", net=net, rounds={"count": 2}) == list(CHECKS)
    first, second = (play(tiny("fedavg", net=each)) for each in (net, {"name": NET}))
    assert first.rows[-1]["generic.common.accuracy.pooled"] != second.rows[-1]["generic.common.accuracy.pooled"]


@pytest.mark.parametrize("method", ["fedbn", "fedrod+fedbn", "dbe+fedbn"])
def test_fedbn_in_sums_on_a_residual_net(method: str) -> None:
    played = play(tiny(method, net={"name": "resnet8"}))
    shared = played.assembly.method.layout.shared  # type: ignore[attr-defined]
    places = played.assembly.method.layout.places  # type: ignore[attr-defined]
    travels = {name for name, place in places.items() if place.where.start < shared.stop}
    assert not {name for name in travels if "bn" in name} and "layer1.conv1.weight" in travels
