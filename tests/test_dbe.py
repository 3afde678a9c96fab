"""DBE, PRBM and MR: their invariants, and every term of the equations against plain torch."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from by_hand import FACTS
from inputs import input_of
from running import after_cohorts, exchange, refusal, run_twice
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from motet.config.experiment import Experiment, resolve
from motet.config.nesting import merge
from motet.data import Input
from motet.messages.message import Message, State, byte_count, tensor
from motet.messages.task import Task
from motet.methods import build_method
from motet.methods.averaging import Averaging
from motet.methods.base import Method, Part, Training
from motet.methods.base.personal_model import through
from motet.methods.dbe import DBE, MR, aligned
from motet.nets import Net, build_net
from motet.runs.record import Record
from motet.runs.run import Silent, resume, run
from motet.server.assembly import Assembly, assemble, settle
from motet.server.evaluation import Row
from motet.training.client import Client

SMALL: dict[str, Any] = {
    "data": {"clients": 6, "subset": 0.4, "min_size": 5},
    "rounds": {"count": 2, "cohort": 3.0},
    "local": {"epochs": 1, "batch": 10, "momentum": 0.0, "weight_decay": 0.0, "lr": 0.05},
    "scoring": {"personal_model": "global_plus_personal", "every": 2},
}
COHORTS = [[0, 1, 2], [1, 2, 4], [0, 2, 5]]


def experiment(method: str, **more: Any) -> Experiment:
    return settle(resolve(merge(SMALL, {"method": method}, more)))


def rounds(method: str, cohorts: list[list[int]], **more: Any) -> tuple[Assembly, list[State]]:
    return after_cohorts(experiment(method, **more), cohorts)


def averaging(assembly: Assembly) -> Averaging:
    assert isinstance(assembly.method, Averaging)
    return assembly.method


def client_of(assembly: Assembly, client_id: int, round: int) -> Client:
    return assembly.workplace.client(Task("train", client_id, round, {}), {})


def plain_net(assembly: Assembly, w: Tensor) -> Net:
    """A net of its own with these plain weights, known to no method."""
    net = copy.deepcopy(assembly.workplace.generic_net)
    averaging(assembly).plain.bind(net, w.clone())
    return net


def flat(net: nn.Module) -> Tensor:
    """The mlp of these tests has no convolutions, so parameters lie in the vector as they are."""
    return torch.cat([p.detach().flatten() for p in net.parameters()])


# invariants


@pytest.mark.parametrize(("head", "size"), [("conv2", 28_800), ("fc1", 10_816), ("fc2", 512)])
def test_prbm_has_the_full_shape_of_the_features(head: str, size: int) -> None:
    """Table 1: one number per channel and position, at any stage boundary of the 4-layer CNN on 64x64x3."""
    net = build_net("cnn4", input_of(3, 64, 64), 10, head)
    plain = build_net("cnn4", input_of(3, 64, 64), 10, head)
    method = build_method("fedavg+prbm", net, FACTS)
    assert isinstance(method, Averaging)
    assert net.get_parameter("prbm").shape == net.feature_shape()
    assert method.layout.size == sum(p.numel() for p in plain.parameters()) + size
    assert method.layout.private == slice(method.layout.size - size, method.layout.size)
    assert method.fresh[method.layout.private].count_nonzero() == 0
    x = torch.randn(2, 3, 64, 64)
    assert torch.equal(through(net, method.parts, x).logits, net(x))  # at p = 0


class Frozen(Part):
    """Holds p at zero."""

    def correct(self, t: Training) -> None:
        t.g[t.layout.private].zero_()


def test_without_kappa_and_with_p_held_at_zero_it_is_fedavg() -> None:
    _, plain = rounds("fedavg", COHORTS)
    _, mr = rounds("fedavg+mr(kappa=0)", COHORTS)
    assert torch.equal(tensor(mr[-1], "w"), tensor(plain[-1], "w"))
    assembly, states = rounds("fedavg+dbe(kappa=0)", [])
    method = averaging(assembly)
    method.parts = (*method.parts, Frozen())
    for round, cohort in enumerate(COHORTS, 1):
        states.append(method.aggregate(states[-1], exchange(assembly, states[-1], cohort, round)))
    assert torch.equal(tensor(states[-1], "w"), tensor(plain[-1], "w"))
    assert not any(tensor(assembly.engine.private(i), "private").any() for i in (0, 1, 2, 4, 5))


@pytest.mark.parametrize("without", ["fedavg+prbm", "fedavg+mr(kappa=50)", "fedavg"])
def test_each_half_changes_the_result(without: str) -> None:
    _, dbe = rounds("fedavg+dbe(kappa=50)", COHORTS)
    _, other = rounds(without, COHORTS)
    assert not torch.allclose(tensor(dbe[-1], "w"), tensor(other[-1], "w"), atol=1e-3)


def test_mean_regularization_moves_the_extractor_and_not_p() -> None:
    start = rounds("fedavg", COHORTS[:2])[1][-1]["w"]
    assert isinstance(start, Tensor)
    assembly, _ = rounds("fedavg+dbe(kappa=50)", [])
    results = []
    for kappa in (0.0, 50.0):
        method = averaging(assembly)
        method.parts = (DBE(kappa=kappa, mu=1),)
        message: Message = {"w": start, "mr.mean": torch.full((64,), 0.3)}
        t = method.begin_round(client_of(assembly, 3, 1), message)
        t.w[t.layout.private] = 0.1
        method.layout.bind(method.net, t.w, t.g)
        x, y = next(t.descent.batches(t.client.data.train))
        t.loss(x, y).backward()
        results.append(t.g.clone())
    difference, places = results[1] - results[0], averaging(assembly).layout.places
    assert not difference[averaging(assembly).layout.private].any()
    assert not difference[places["fc3.weight"].where].any()  # nor the head
    assert difference[places["fc2.linear.weight"].where].abs().max() > 1e-3


def test_without_mu_mean_regularization_has_no_gradient() -> None:
    """m stays zero, a constant, whatever κ."""
    _, plain = rounds("fedavg", COHORTS)
    _, ours = rounds("fedavg+mr(mu=0, kappa=500)", COHORTS)
    assert torch.equal(tensor(ours[-1], "w"), tensor(plain[-1], "w"))
    _, moving = rounds("fedavg+mr(mu=0.1, kappa=500)", COHORTS)
    assert not torch.equal(tensor(moving[-1], "w"), tensor(plain[-1], "w"))


# The equations, against plain torch


@pytest.mark.parametrize(
    ("method", "kappa", "mu", "prbm"),
    [("dbe(kappa=20, mu=0.3)", 20, 0.3, True), ("mr(kappa=5)", 5, 1, False), ("prbm", 0, 1, True)],
)
def test_a_client_does_what_the_equations_say(method: str, kappa: float, mu: float, prbm: bool) -> None:
    """Two trainings of one client: L = CE(h(z^g + p), y) + κ·mean ½(m − z̄^g)², separate SGD on θ and on p."""
    assembly, states = rounds(f"fedavg+{method}", [])
    p = torch.zeros(64, requires_grad=prbm)
    consensus = states[0].get("mr.mean", torch.zeros(64))
    assert isinstance(consensus, Tensor)
    for round in (1, 2):
        net = plain_net(assembly, tensor(states[-1], "w"))
        client = client_of(assembly, 2, round)
        optimizers = [torch.optim.SGD(net.parameters(), lr=client.lr)]
        optimizers += [torch.optim.SGD([p], lr=client.lr)] if prbm else []
        m = torch.zeros(64)
        for x, y in client.descent().batches(client.data.train):
            z = net.body(x)
            m = (1 - mu) * m.detach() + mu * z.sum(0) / len(y)
            loss = cross_entropy(net.head(z + p), y) + kappa / 64 * torch.sum((m - consensus) ** 2) / 2
            for optimizer in optimizers:
                optimizer.zero_grad()
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
        reply = exchange(assembly, states[-1], [2], round)[2]
        torch.testing.assert_close(reply["w"], flat(net), rtol=1e-4, atol=1e-5)
        if prbm:
            torch.testing.assert_close(assembly.engine.private(2)["private"], p.detach(), rtol=1e-3, atol=1e-5)
            assert p.abs().max() > 1e-3
        states.append(assembly.method.aggregate(states[-1], {2: reply}))


def test_the_running_mean_starts_anew_in_every_training() -> None:
    assembly, states = rounds("fedavg+mr(mu=0.2)", [])
    method = averaging(assembly)
    for round in (1, 2):
        t = method.begin_round(client_of(assembly, 1, round), method.broadcast(states[0], 1))
        assert not t["mr.m"].any()
        method.learn(t, t.client.data.train)
        assert t["mr.m"].any() and not t["mr.m"].requires_grad


# The consensus mean


def initial_training(assembly: Assembly, client_id: int, mu: float) -> tuple[Net, Tensor]:
    """One epoch of plain SGD on cross-entropy, with the running mean of the features before each step."""
    client = client_of(assembly, client_id, 0)
    method = averaging(assembly)
    net = plain_net(assembly, method.layout.convert(method.fresh, method.plain))
    optimizer = torch.optim.SGD(net.parameters(), lr=client.lr)
    m = torch.zeros(64)
    for x, y in client.descent("prepare", epochs=1).batches(client.data.train):
        z = net.body(x)
        m = (1 - mu) * m + mu * z.detach().mean(0)
        optimizer.zero_grad()
        cross_entropy(net.head(z), y).backward()
        optimizer.step()
    return net, m


@pytest.mark.parametrize("method", ["dbe", "mr", "prbm+mr", "fedrod+dbe"])
@pytest.mark.parametrize("options", ["", "mean_init=ema_last", "mean_init=ema_last, mu=0.4"])
def test_the_consensus_is_the_clients_mean_after_one_plain_epoch(method: str, options: str) -> None:
    """Without DBE: p is not trained. The models of that epoch are thrown away."""
    assembly, states = rounds(f"fedavg+{method}({options})", [])
    expected, n = torch.zeros(64), sum(len(c.train) for c in assembly.federation.clients)
    for client in assembly.federation.clients:
        net, m = initial_training(assembly, client.id, 0.4 if "0.4" in options else 1.0)
        if not options:
            with torch.no_grad():
                m = net.body(client.train.batch(torch.arange(len(client.train)))[0]).mean(0)
        expected += len(client.train) / n * m
    torch.testing.assert_close(tensor(states[0], "mr.mean"), expected, rtol=1e-4, atol=1e-5)
    assert torch.equal(tensor(states[0], "w"), averaging(assembly).fresh[averaging(assembly).layout.shared])
    assert not any(assembly.engine.private(i) for i in assembly.client_ids)


def test_noise_hides_a_clients_mean_before_it_leaves() -> None:
    """z̃ = (1−q)·z̄ + N(0, s²I): q shrinks the signal, it does not scale the noise."""

    def told(options: str) -> Tensor:
        assembly = assemble(experiment(f"fedavg+dbe(kappa=50, {options})"))
        server = assembly.method.start()
        replies = exchange(assembly, server, assembly.client_ids, 0, "prepare")
        return torch.stack([tensor(r, "mr.mean") for r in replies.values()])

    clear, shrunk, noisy = told(""), told("noise_q=0.2"), told("noise_q=0.2, noise_s=3")
    torch.testing.assert_close(shrunk, 0.8 * clear)
    noise = (noisy - shrunk) / 3
    assert abs(float(noise.mean())) < 0.2 and 0.8 < float(noise.std()) < 1.2
    assert not torch.equal(noise[0], noise[1])  # every client has its own
    assert torch.equal(noisy, told("noise_q=0.2, noise_s=3"))


# κ and μ that are "auto"


@pytest.mark.parametrize(
    ("net", "input", "kappa", "mu"),
    [
        ("cnn4", input_of(1, 28, 28), 50.0, 1.0),
        ("resnet18", input_of(3, 32, 32), 1.0, 0.1),
        ("resnet8", input_of(1, 8, 8), 1.0, 0.1),  # BatchNorm
        ("resnet8(norm=group)", input_of(1, 8, 8), "auto", 1.0),
        ("mlp", input_of(1, 8, 8), "auto", 1.0),
    ],
)
def test_auto_is_what_the_paper_has_for_a_net(net: str, input: Input, kappa: float | str, mu: float) -> None:
    method = build_method("dbe+ft", build_net(net, input, 10), FACTS)
    assert method.left_to_auto == {"dbe.kappa": kappa, "dbe.mu": mu}
    named = build_method("dbe(kappa=3, mu=0.5)", build_net(net, input, 10), FACTS)
    assert named.left_to_auto == {} and averaging_parts(named) == [(3.0, 0.5)]


def averaging_parts(method: Method) -> list[tuple[object, object]]:
    """κ and μ of the parts of a method that have them"""
    assert isinstance(method, Averaging)
    return [(part.kappa, part.mu) for part in method.parts if isinstance(part, MR)]


def test_kappa_is_the_loss_over_the_mean_square() -> None:
    """Σ n·loss / Σ n·(mse + its mean's distance from the consensus), over clients that measured."""
    consensus = torch.tensor([1.0, 1.0])
    replies: dict[int, Message] = {
        0: {"n": 10, "mr.loss": 0.6, "mr.mse": 0.1, "mr.mean": torch.tensor([1.0, 1.0])},
        1: {"n": 30, "mr.loss": 0.2, "mr.mse": 0.3, "mr.mean": torch.tensor([2.0, 1.0])},  # ½·½(1 + 0) away
        2: {"n": 90, "mr.loss": 0.0, "mr.mse": 0.0, "mr.mean": torch.tensor([9.0, 9.0])},  # did not measure
    }
    assert aligned(replies, consensus) == pytest.approx((10 * 0.6 + 30 * 0.2) / (10 * 0.1 + 30 * (0.3 + 0.25)))
    assert aligned({2: replies[2]}, consensus) == 1.0


def test_a_client_measures_both_losses_once_it_has_learned() -> None:
    """Against plain torch: SGD goes on until the loss is a tenth of its first."""
    assembly = assemble(experiment("fedavg+mr", local={"lr": 0.5}))
    told = exchange(assembly, assembly.method.start(), [1], 0, "prepare")[1]
    client = client_of(assembly, 1, 0)
    net = plain_net(assembly, averaging(assembly).fresh)
    x, y = next(client.data.train.all_batches(10_000))
    first = float(cross_entropy(net(x), y).detach())
    batches, optimizer = client.descent("prepare", epochs=100).batches(client.data.train), None
    optimizer = torch.optim.SGD(net.parameters(), lr=client.lr)
    an_epoch = len(client.descent("prepare", epochs=1).sizes(client.samples))
    for epoch in range(100):
        for _ in range(an_epoch):
            part, labels = next(batches)
            optimizer.zero_grad()
            cross_entropy(net(part), labels).backward()
            optimizer.step()
        with torch.no_grad():
            loss, m = float(cross_entropy(net(x), y)), net.body(x)
        if not epoch:
            consensus = m.mean(0)
        if loss <= 0.1 * first:
            break
    assert 1 < epoch < 99
    squares = [((z.mean(0) - consensus) ** 2).mean() / 2 * len(z) / len(m) for z in torch.split(m, 10)]
    assert told["mr.loss"] == pytest.approx(loss, rel=1e-3) and told["mr.mse"] == pytest.approx(
        float(sum(squares)), rel=1e-3
    )


def test_eight_clients_measure_and_kappa_is_used_and_recorded(tmp_path: Path) -> None:
    asked = experiment(
        "fedavg+dbe", data={"clients": 12, "subset": 0.6, "new_clients": 0.2}, local={"lr": 0.3}, rounds={"cohort": 1.0}
    )
    assembly = assemble(asked)
    replies = exchange(assembly, assembly.method.start(), assembly.client_ids, 0, "prepare")
    assert sum(float(r["mr.loss"]) > 0 for r in replies.values()) == 8
    record = run_twice(asked, tmp_path)
    kappa = record.summary.automatic["dbe.kappa"]
    assert isinstance(kappa, float) and 0.05 < kappa < 20 and record.summary.automatic["dbe.mu"] == 1.0
    assert kappa == record.rounds[-1]["mr_kappa"]
    assert any(f"dbe.kappa = {kappa:.3g}" in note for note in record.summary.notes)
    same, other = (
        Record(run(asked.with_({"method": f"fedavg+dbe(kappa={k!r})"}), tmp_path / str(k))) for k in (kappa, 1 / kappa)
    )
    weights = [(r.folder / "weights.safetensors").read_bytes() for r in (record, same, other)]
    assert weights[0] == weights[1] != weights[2]


def test_a_measured_kappa_is_kept_over_a_stop(tmp_path: Path) -> None:
    class Stops(Silent):
        def round(self, row: Row) -> None:
            if row["round"] == 1:
                raise KeyboardInterrupt

    asked = experiment("fedavg+dbe", local={"lr": 0.3}, checkpoint={"every": 1})
    whole = Record(run(asked, tmp_path / "whole"))
    with pytest.raises(KeyboardInterrupt):
        run(asked, tmp_path / "stopped", Stops())
    record = Record(resume(tmp_path / "stopped"))
    assert record.summary.automatic == whole.summary.automatic != {}
    assert (record.folder / "weights.safetensors").read_bytes() == (whole.folder / "weights.safetensors").read_bytes()


# What travels and what stays


def test_p_stays_and_a_round_costs_what_fedavgs_costs() -> None:
    """The consensus mean goes to a client once, with its first round."""
    fedavg, plain = rounds("fedavg", [])
    assembly, states = rounds("fedavg+dbe(kappa=50)", [])
    down, up = fedavg.method.broadcast(plain[0], 0), exchange(fedavg, plain[0], [0], 1)[0]
    for round, cohort in enumerate(COHORTS, 1):
        for i in cohort:
            message = assembly.method.broadcast(states[-1], i)
            first = not any(i in earlier for earlier in COHORTS[: round - 1])
            assert set(message) == ({"w", "mr.mean"} if first else {"w"})
            assert first or byte_count(message) == byte_count(down)
        replies = exchange(assembly, states[-1], cohort, round)
        assert all(r.keys() == up.keys() and byte_count(r) == byte_count(up) for r in replies.values())
        states.append(assembly.method.aggregate(states[-1], replies))
    assert tensor(states[-1], "mr.told").tolist() == [0, 1, 2, 4, 5]
    biases = [tensor(assembly.engine.private(i), "private") for i in (0, 1, 2, 4, 5)]
    assert all(b.shape == (64,) and b.any() for b in biases) and not torch.equal(biases[0], biases[1])


def test_a_client_that_was_set_aside_is_told_again() -> None:
    assembly, states = rounds("fedavg+dbe(kappa=50)", [])
    replies = exchange(assembly, states[0], [0, 1], 1)
    server = assembly.method.aggregate(states[0], {0: replies[0]})
    assert "mr.mean" not in assembly.method.broadcast(server, 0)
    assert "mr.mean" in assembly.method.broadcast(server, 1)


def test_the_personal_model_is_the_global_one_with_the_clients_bias() -> None:
    assembly, states = rounds("fedavg+dbe(kappa=50)", COHORTS)
    client = assembly.workplace.client(Task("score", 1, 3, {}), assembly.engine.private(1))
    net, x = plain_net(assembly, tensor(states[-1], "w")), client.data.test.batch(torch.arange(3))[0]
    p = tensor(client.private, "private")
    model = assembly.method.personal(client, assembly.method.broadcast(states[-1], 1))
    assert model is not None
    torch.testing.assert_close(model(x), net.head(net.body(x) + p))
    generic = assembly.method.generic(states[-1])
    assert generic is not None and torch.equal(generic, tensor(states[-1], "w"))
    assert not torch.allclose(model(x), net(x), atol=1e-3)


def test_a_new_client_starts_at_p_zero_and_trains_everything() -> None:
    assembly, states = rounds("fedavg+dbe(kappa=50)", COHORTS[:1])
    method = averaging(assembly)
    client = client_of(assembly, 3, 1)
    message = method.broadcast(states[-1], 3)
    before = method.received(client, message)
    assert not before[method.layout.private].any()
    adapted = {}
    for kappa in (50.0, 0.0):
        method.parts = (DBE(kappa=kappa, mu=1),)
        method.adapt(client_of(assembly, 3, 1), message)
        adapted[kappa] = {name: p.detach().clone() for name, p in method.net.named_parameters()}
    for name, place in method.layout.places.items():
        assert not torch.equal(adapted[50.0][name], place.view(before))
    assert not torch.allclose(adapted[50.0]["fc1.linear.weight"], adapted[0.0]["fc1.linear.weight"], atol=1e-4)


# The house


def test_the_halves_together_are_the_whole() -> None:
    _, whole = rounds("fedavg+dbe(kappa=7, mu=0.5)", COHORTS)
    _, halves = rounds("fedavg+prbm+mr(kappa=7, mu=0.5)", COHORTS)
    assert torch.equal(tensor(whole[-1], "w"), tensor(halves[-1], "w"))


@pytest.mark.parametrize(
    "method",
    ["fedavg+dbe(kappa=50)", "fedavg+prbm", "scaffold+dbe(kappa=50)", "fedrod+dbe(kappa=50, mean_init=ema_last)"],
)
def test_a_run_twice_is_the_same_run(method: str, tmp_path: Path) -> None:
    record = run_twice(experiment(method, data={"new_clients": 0.2}), tmp_path)
    assert record.rounds[0]["round"] == (0 if "dbe" in method else 1)  # the consensus comes first


@pytest.mark.parametrize(
    "method", ["fedprox+dbe(kappa=50)", "feddyn+dbe(kappa=50)", "fedavg+mr(kappa=50)", "fedavg+dbe(kappa=50)+lp"]
)
def test_it_joins_anything_of_fedavgs_shape(method: str, tmp_path: Path) -> None:
    summary = Record(run(experiment(method), tmp_path / "run")).summary.model_dump()
    assert 0 < summary["personal"]["weighted"]["personal_models"] <= 1


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        ("dbe+mr", "method 'dbe+mr' makes no sense: dbe already contains mr; accepted: one of them"),
        ("prbm+dbe", "method 'prbm+dbe' makes no sense: dbe already contains prbm; accepted: one of them"),
        ("local+dbe", "method 'local+dbe' makes no sense: local shares no weights, so dbe has nothing to act on"),
        ("dbe(mu=2)", "method dbe: mu is 2; accepted: a number of at least 0 and of at most 1"),
        ("mr(noise_q=2)", "method mr: noise_q is 2; accepted: a number of at least 0 and of at most 1"),
        ("dbe(mean_init=half)", "method dbe: mean_init is 'half'; accepted: full_pass | ema_last"),
    ],
)
def test_nonsense_is_refused_in_one_sentence(method: str, sentence: str) -> None:
    assert refusal(method).startswith(sentence)
