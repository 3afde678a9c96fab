"""What acts at the server: which sums make sense, and that it acts on the net's own weights and nothing else."""

from collections import OrderedDict

import pytest
import torch
from inputs import input_of
from torch import Tensor, nn

from motet.errors import MotetError
from motet.messages.message import Message, State, tensor
from motet.methods import build_method
from motet.methods.averaging import Averaging
from motet.methods.base import Facts
from motet.methods.robust import GeometricMedian, TrimmedMean
from motet.nets import Net
from motet.server.assembly import assemble
from motet.testing.twin import play, tiny

OPTIMIZERS = ["fedavgm", "fedadam", "fedyogi", "fedadagrad"]


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        *(
            (f"feddyn+{name}", f"feddyn's server moves the mean by a rule of its own; accepted: one of {name} and")
            for name in (*OPTIMIZERS, "fednova")
        ),
        ("fedadam+fedyogi", "fedadam and fedyogi are both a server optimizer; accepted: one of them"),
        ("fedavgm+fedadagrad", "fedavgm and fedadagrad are both a server optimizer"),
        ("median+trimmed-mean", "median and trimmed-mean are both an aggregation; accepted: one of them"),
        ("krum+multi-krum", "krum and multi-krum are both an aggregation"),
        ("fednova+geometric-median", "geometric-median and fednova are both an aggregation"),
        ("norm-clip+fednova", "norm-clip and fednova are both an aggregation"),
        ("local+median", "local shares no weights, so median has nothing to act on"),
        ("local+fedadam", "local shares no weights, so fedadam has nothing to act on"),
        ("fedbasis+median", "fedbasis is a method of its own and cannot carry median"),
    ],
)
def test_a_sum_that_makes_no_sense_says_why(method: str, sentence: str) -> None:
    for text in (method, "+".join(reversed(method.split("+")))):
        with pytest.raises(MotetError) as error:
            assemble(tiny(text, rounds={"cohort": 1.0}))
        assert sentence in str(error.value) and "makes no sense" in str(error.value)


@pytest.mark.parametrize("method", ["fedper+fedgen", "fedrep+fedgen"])
def test_fedgen_needs_the_clients_heads(method: str) -> None:
    with pytest.raises(MotetError, match=r"^fedgen learns from the clients' heads, which stay private here"):
        assemble(tiny(method)).method.start()


@pytest.mark.parametrize("name", ["krum", "multi-krum"])
def test_krum_needs_a_cohort_larger_than_its_attackers_allow(name: str) -> None:
    with pytest.raises(MotetError, match=f"^method '{name}' cannot run here: {name} with f = 1 needs more than 4 "):
        assemble(tiny(name))


def net() -> Net:
    """With statistics, and a counter among them."""
    stages = OrderedDict(fc1=nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), fc2=nn.Linear(4, 2))
    return Net(stages, input_of(3))  # type: ignore[arg-type]


def given(method: str, changes: Tensor) -> tuple[Averaging, State, Tensor, Tensor]:
    """A method, its server state after a round of two clients, and w as sent and as averaged by samples."""
    torch.manual_seed(0)
    built = build_method(method, net(), Facts((0, 1), 2, 3, 2))
    assert isinstance(built, Averaging)
    server = built.start()
    sent = tensor(server, "w")
    more = {name: 2.0 for name in ("fednova.a",) if name in built.uploads}
    replies: dict[int, Message] = {i: {"w": sent + changes[i], "n": 1 + 2 * i, **more} for i in range(2)}
    return built, built.aggregate(server, replies), sent, sent + (changes[0] + 3 * changes[1]) / 4


@pytest.mark.parametrize("method", [*OPTIMIZERS, "fednova", "fedrod(head=hyper)+fedadam", "fedrod(head=hyper)+fedavgm"])
def test_statistics_and_what_parts_added_are_plainly_averaged(method: str) -> None:
    size = len(tensor(given(method, torch.zeros(2, 1))[1], "w"))
    changes = torch.randn(2, size, generator=torch.Generator().manual_seed(1))
    built, server, sent, mean = given(method, changes)
    own, w = built.layout.shared_trainable, tensor(server, "w")
    assert own.start >= 9  # 4 means, 4 variances and a counter
    torch.testing.assert_close(w[: own.start], mean[: own.start])
    same = torch.allclose(w[own], mean[own], atol=1e-6)
    assert same == (method.endswith(("fedavgm", "fednova"))), "the first round of momentum, or equal steps, is the mean"
    assert not torch.equal(w[own], sent[own])


def test_norm_clips_length_is_of_trainable_weights_alone() -> None:
    """A counter that goes up by hundreds does not make a change long; who is clipped is clipped in all it sends."""
    built = given("norm-clip(norm=1e6)", torch.zeros(2, 1))[0]
    changes = torch.zeros(2, built.layout.shared.stop)
    changes[:, 8] = 600.0
    changes[0, -1], changes[1, -1] = 3.0, 0.5
    _, server, sent, _ = given("norm-clip(norm=1)", changes)
    moved = tensor(server, "w") - sent
    assert float(moved[-1]) == pytest.approx((1.0 + 3 * 0.5) / 4)
    assert float(moved[8]) == pytest.approx((200.0 + 3 * 600.0) / 4)


def test_robust_means_are_of_statistics_too_and_weigh_clients_alike() -> None:
    changes = torch.ones(2, given("median", torch.zeros(2, 1))[0].layout.shared.stop)
    changes[1] = 3.0
    for method in ("median", "trimmed-mean(share=0.4)", "geometric-median"):
        _, server, sent, _ = given(method, changes)
        torch.testing.assert_close(tensor(server, "w") - sent, torch.full_like(sent, 2.0))


def test_a_robust_mean_weighs_other_fields_of_replies_alike_too() -> None:
    for method in ("median", "trimmed-mean", "geometric-median"):
        assert given(method, torch.zeros(2, 1))[0].weighting == "uniform"
    assert given("norm-clip", torch.zeros(2, 1))[0].weighting == "samples"


def test_a_share_that_is_a_whole_number_of_clients_cuts_so_many() -> None:
    """0.29 of 100 is a little less than 29 to a machine."""
    W = torch.arange(100.0)[:, None].square()
    torch.testing.assert_close(TrimmedMean(share=0.29).choose(W), W[29:71].mean(0))


def test_the_geometric_median_of_large_weights_that_differ_little() -> None:
    """float32 has seven digits, and weights may share the first five."""
    W = 1000 + 0.01 * torch.randn(7, 5, generator=torch.Generator().manual_seed(2))
    exact = GeometricMedian(tolerance=1e-12).choose(W.double())
    assert float((GeometricMedian().choose(W).double() - exact).abs().max()) < 5e-5
    W[0] = 1e6
    near = GeometricMedian().choose(W)
    assert float((near - 1000).abs().max()) < 0.05, "one of seven far away does not matter"


@pytest.mark.parametrize("method", ["fedavgm(beta=0)", "norm-clip(norm=1e20)", "fednova"])
def test_in_a_run_it_reduces_to_fedavg(method: str) -> None:
    steps = {"local": {"steps": 3}}  # alike for all clients
    ours, plain = play(tiny(method, **steps)), play(tiny("fedavg", **steps))
    torch.testing.assert_close(ours.server["w"], plain.server["w"], rtol=1e-4, atol=1e-6)
    trimmed, uniform = play(tiny("trimmed-mean(share=0)")), play(tiny("fedavg(weighting=uniform)"))
    torch.testing.assert_close(trimmed.server["w"], uniform.server["w"], rtol=1e-4, atol=1e-6)
