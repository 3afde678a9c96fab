"""PGFed and PGFedMo: its invariants, and every term of the equations against plain torch."""

import copy
import math
from collections import OrderedDict
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
from motet.messages.message import Message, State, byte_count, tensor
from motet.messages.task import Task
from motet.methods.averaging import Averaging
from motet.methods.base import Facts, Serving
from motet.methods.pgfed import PGFed, PGFedMo
from motet.nets import Net, build_net
from motet.server.assembly import Assembly, assemble, settle
from motet.training.flat_weights import Layout
from motet.training.randomness import seeded

SMALL: dict[str, Any] = {
    "data": {"clients": 8, "subset": 0.4, "min_size": 5},
    "rounds": {"count": 3, "cohort": 4.0},
    "local": {"epochs": 1, "batch": 16},
    "scoring": {"every": 3},
}


def experiment(method: str, **more: Any) -> Experiment:
    kept = {"scoring": {"personal_model": "last_participation"}}  # FedAvg's clients keep their models too
    return settle(resolve(merge(SMALL, {"method": method}, kept, more)))


def rounds(method: str, cohorts: list[list[int]], **more: Any) -> tuple[Assembly, list[State]]:
    return after_cohorts(experiment(method, **more), cohorts)


COHORTS = [[0, 1, 2, 5], [1, 2, 4, 6], [0, 2, 3, 6], [0, 1, 3, 5]]


# invariants


@pytest.mark.parametrize("method", ["pgfed(mu=5)", "pgfedmo(mu=5)"])
def test_round_one_is_fedavg_and_round_two_is_not(method: str) -> None:
    _, plain = rounds("fedavg", COHORTS[:2])
    _, ours = rounds(method, COHORTS[:2])
    assert torch.equal(tensor(ours[1], "w"), tensor(plain[1], "w"))
    assert not torch.allclose(tensor(ours[2], "w"), tensor(plain[2], "w"), atol=1e-4)


@pytest.mark.parametrize("method", ["pgfed(mu=0)", "pgfedmo(mu=0)"])
def test_without_mu_it_is_fedavg_bit_for_bit(method: str) -> None:
    fedavg, plain = rounds("fedavg", COHORTS)
    pgfed, ours = rounds(method, COHORTS)
    assert torch.equal(tensor(ours[-1], "w"), tensor(plain[-1], "w"))
    for i in range(7):  # the personal models too
        assert torch.equal(tensor(pgfed.engine.private(i), "model"), tensor(fedavg.engine.private(i), "model"))


def test_without_beta_pgfedmo_is_pgfed() -> None:
    _, pgfed = rounds("pgfed(mu=2)", COHORTS)
    _, without = rounds("pgfedmo(mu=2, beta=0)", COHORTS)
    _, momentum = rounds("pgfedmo(mu=2, beta=0.5)", COHORTS)
    for name in ("w", "pgfed.A", "pgfed.G"):
        assert torch.equal(tensor(without[-1], name), tensor(pgfed[-1], name))
    assert not torch.equal(tensor(momentum[-1], "w"), tensor(pgfed[-1], "w"))


def test_alpha_never_falls_below_zero_unless_it_may() -> None:
    assembly, clipped = rounds("pgfed(mu=1, eta2=0.05)", COHORTS)
    _, free = rounds("pgfed(mu=1, eta2=0.05, clip=false)", COHORTS)
    assert all((tensor(s, "pgfed.A") >= 0).all() for s in clipped)
    assert (tensor(free[-1], "pgfed.A") < 0).any()  # so the bound was needed
    figures = assembly.method.diagnostics(clipped[-1])
    assert figures["pgfed_alpha_min"] == 0 and 0 < figures["pgfed_alpha_clipped"] <= 1


def test_alpha_moves_by_default_and_the_record_says_how_far() -> None:
    """With the default η₂ it leaves 1/M; with 1e-4, as before, it all but stays."""
    moved = {}
    for options in ("", "(eta2=0.0001)", "(eta2=0)"):
        assembly, states = rounds(f"pgfed{options}", COHORTS, local={"lr": 0.05})
        moved[options] = assembly.method.diagnostics(states[-1])["pgfed_alpha_moved"]
        learned = tensor(states[-1], "pgfed.learned")
        assert moved[options] == pytest.approx(float((learned - 1 / 4).abs().mean() / (1 / 4)), abs=1e-6)
    assert moved["(eta2=0)"] == 0 and moved[""] > 0.02 > 2 * moved["(eta2=0.0001)"]


def test_alpha_moves_only_from_this_cohort_to_the_last_one() -> None:
    _, states = rounds("pgfed(mu=1, eta2=1e-3)", COHORTS)
    assert torch.equal(tensor(states[1], "pgfed.A"), torch.full((8, 8), 1 / 4))
    for round in (2, 3, 4):
        moved = tensor(states[round], "pgfed.A") != tensor(states[round - 1], "pgfed.A")
        in_play = torch.zeros(8, 8, dtype=torch.bool)
        in_play[torch.tensor(COHORTS[round - 1])[:, None], torch.tensor(COHORTS[round - 2])] = True
        assert torch.equal(moved, in_play)


def test_equal_alpha_makes_the_auxiliary_gradient_the_mean_one() -> None:
    assembly, states = rounds("pgfed(mu=0.3, eta2=0)", COHORTS[:2])
    message = assembly.method.broadcast(states[-1], 7)
    torch.testing.assert_close(message["pgfed.g"], message["pgfed.g_bar"])
    torch.testing.assert_close(message["pgfed.g_bar"], 0.3 * tensor(states[-1], "pgfed.G").mean(0))
    assert tensor(message, "pgfed.g").norm() > 0


# The equations, against plain torch


def reference(assembly: Assembly, client_id: int, round: int, message: Message, part: PGFed, g: Tensor) -> Message:
    """Algorithm 1's ClientUpdate written out: torch.optim.SGD on separate tensors, one loop over j for α."""
    rule = assembly.experiment.local
    method = assembly.method
    assert isinstance(method, Averaging)
    net = copy.deepcopy(assembly.workplace.generic_net)
    method.layout.bind(net, tensor(message, "w").clone())
    order = list(net.named_parameters())

    def flat(tensors: list[Tensor]) -> Tensor:
        """In the layout's order, convolutions aside, which this net has none of."""
        return torch.cat([t.detach().flatten() for t in tensors])

    client = assembly.workplace.client(Task("train", client_id, round, {}), {})
    optimizer = torch.optim.SGD(net.parameters(), lr=client.lr, momentum=rule.momentum, weight_decay=rule.weight_decay)
    alpha, c = tensor(message, "pgfed.alpha").tolist(), tensor(message, "pgfed.c").tolist()
    pieces = torch.split(g, [p.numel() for _, p in order])
    for x, y in client.descent().batches(client.data.train):
        optimizer.zero_grad()
        cross_entropy(net(x), y).backward()
        shared = float(tensor(message, "pgfed.g_bar") @ flat([p for _, p in order]))
        for j in range(len(alpha)):
            alpha[j] = max(0.0, alpha[j] - part.eta2 * (c[j] + shared))
        for (_, p), piece in zip(order, pieces, strict=True):
            assert p.grad is not None
            p.grad += piece.view(p.shape)
        optimizer.step()
    net.zero_grad()
    x, y = client.data.train.batch(torch.arange(client.samples))
    f = cross_entropy(net(x), y)
    f.backward()
    G, theta = flat([p.grad for _, p in order if p.grad is not None]), flat([p for _, p in order])
    return {"w": theta, "G": G, "c": part.mu * float(f.detach() - G @ theta), "alpha": torch.tensor(alpha)}


def check_against_reference(assembly: Assembly, states: list[State], part: PGFed, g: Tensor, client_id: int) -> None:
    round = len(states)
    message = assembly.method.broadcast(states[-1], client_id)
    expected = reference(assembly, client_id, round, message, part, g)
    reply = exchange(assembly, states[-1], [client_id], round)[client_id]
    torch.testing.assert_close(reply["w"], expected["w"], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(reply["pgfed.alpha"], expected["alpha"], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(reply["pgfed.G"], expected["G"], rtol=1e-3, atol=1e-6)
    assert reply["pgfed.c"] == pytest.approx(expected["c"], rel=1e-3)
    # and the check is fine enough to miss no term: without g̃, or with α at rest, it would not hold
    without = reference(assembly, client_id, round, message, part, g * 0)
    assert not torch.allclose(tensor(reply, "w"), tensor(without, "w"), rtol=1e-3, atol=1e-4)
    assert not torch.allclose(tensor(reply, "pgfed.alpha"), tensor(message, "pgfed.alpha"), rtol=1e-2)


@pytest.mark.parametrize("local", [{}, {"momentum": 0.0, "lr": 0.05}])
def test_a_client_does_what_the_algorithm_says(local: dict[str, float]) -> None:
    """θ ← θ − η₁(∇f + g̃), α ← max(0, α − η₂(c + ⟨ḡ, θ⟩)), then ∇f and c at the final θ."""
    assembly, states = rounds("pgfed(mu=1.5, eta2=2e-3)", COHORTS[:2], local=local)
    g = tensor(assembly.method.broadcast(states[-1], 7), "pgfed.g")
    check_against_reference(assembly, states, PGFed(mu=1.5, eta2=2e-3), g, 7)


@pytest.mark.parametrize("first", ["full", "scaled"])
def test_momentum_carries_a_clients_own_auxiliary_gradient(first: str) -> None:
    """g̃_i ← (1−β)g̃ + βg̃_i; the first time g̃ as sent, or (1−β)g̃."""
    part = PGFedMo(mu=1.0, eta2=1e-3, beta=0.7, mo_first="full" if first == "full" else "scaled")
    assembly, states = rounds(f"pgfedmo(mu=1.0, eta2=1e-3, beta=0.7, mo_first={first})", COHORTS[:1])
    kept: Tensor | None = None
    for cohort in ([0, 7], [1, 2], [4, 7]):  # client 7 stays out of the second
        sent = tensor(assembly.method.broadcast(states[-1], 7), "pgfed.g")
        before = kept if kept is not None else sent if first == "full" else torch.zeros_like(sent)
        g = 0.3 * sent + 0.7 * before
        if 7 in cohort:
            check_against_reference(assembly, states, part, g, 7)
            kept = g
            torch.testing.assert_close(assembly.engine.private(7)["pgfed.g"], g)
        others = exchange(assembly, states[-1], [i for i in cohort if i != 7], len(states))
        states.append(assembly.method.aggregate(states[-1], others))


def test_the_server_weighs_the_last_cohorts_gradients_by_each_clients_own_alpha() -> None:
    """On ids with gaps, as new clients leave them."""
    part, server, generator = PGFed(mu=0.5), {}, torch.Generator().manual_seed(0)
    ids, d = (2, 5, 7, 11, 12), 6
    net = build_net("mlp", input_of(6), 3)
    s = Serving(server, Facts(ids, cohort=2, rounds=9, classes=3), net, Layout(net))
    part.start(s)

    def replies(cohort: list[int], last: list[int]) -> dict[int, Message]:
        found: dict[int, Message] = {}
        for i in cohort:
            found[i] = {"pgfed.G": torch.randn(d, generator=generator), "pgfed.c": float(i)}
            if last:
                found[i]["pgfed.alpha"] = torch.rand(len(last), generator=generator)
        return found

    first, second = replies([5, 12], []), replies([2, 11, 12], [5, 12])
    part.aggregate(s, first)
    part.aggregate(s, second)
    alpha = {(i, j): 0.5 for i in ids for j in ids}
    alpha |= {(i, j): float(tensor(r, "pgfed.alpha")[k]) for i, r in second.items() for k, j in enumerate([5, 12])}
    assert [alpha[i, j] for i in ids for j in ids] == tensor(server, "pgfed.A").flatten().tolist()
    for i in ids:
        message: Message = {}
        part.broadcast(s, i, message)
        g = sum(0.5 * alpha[i, j] * tensor(r, "pgfed.G") for j, r in second.items())
        torch.testing.assert_close(message["pgfed.g"], g)
        torch.testing.assert_close(message["pgfed.g_bar"], sum(0.5 / 3 * tensor(r, "pgfed.G") for r in second.values()))
        assert tensor(message, "pgfed.c").tolist() == [2.0, 11.0, 12.0]
        assert tensor(message, "pgfed.alpha").tolist() == [alpha[i, j] for j in second]
    unknown: Message = {}
    part.broadcast(s, 6, unknown)
    assert not unknown  # a new client is served θ_glob alone


# The extra pass


def test_the_extra_pass_leaves_weights_and_statistics_alone() -> None:
    """With batch norm, whose statistics a forward pass in training mode would move."""
    assembly = assemble(experiment("fedavg"))

    def trained(part: PGFed | None) -> tuple[Message, State]:
        with seeded(0, "net"):
            body = nn.Sequential(nn.Flatten(), nn.Linear(64, 20), nn.BatchNorm1d(20), nn.ReLU())
            net = Net(OrderedDict(fc1=body, fc2=nn.Linear(20, 10)), input_of(1, 8, 8))
        method = Averaging(net, Averaging.Options(), [part] if part else [], FACTS)
        client = assembly.workplace.client(Task("train", 0, 1, {}), {})
        return method.train(client, method.broadcast(method.start(), 0)), client.private

    plain, kept = trained(None)
    ours, our_kept = trained(PGFed())
    assert torch.equal(tensor(ours, "w"), tensor(plain, "w"))
    assert torch.equal(tensor(our_kept, "model"), tensor(kept, "model"))


def test_the_gradient_can_leave_out_the_last_small_batch() -> None:
    gradients = {}
    for grad_pass in ("full", "drop_last"):
        assembly, states = rounds(f"pgfed(grad_pass={grad_pass})", [])
        gradients[grad_pass] = exchange(assembly, states[0], [2], 1)[2]
    client = assembly.workplace.client(Task("train", 2, 1, {}), {})
    assert client.samples % 16
    order = torch.randperm(client.samples, generator=client.rng("pgfed-gradient"))
    net = copy.deepcopy(assembly.workplace.generic_net)
    method = assembly.method
    assert isinstance(method, Averaging)
    method.layout.bind(net, tensor(gradients["full"], "w").clone())
    for grad_pass, rows in (("full", order), ("drop_last", order[: client.samples - client.samples % 16])):
        net.zero_grad()
        x, y = client.data.train.batch(rows)
        cross_entropy(net(x), y).backward()
        expected = torch.cat([p.grad.flatten() for p in net.parameters() if p.grad is not None])
        torch.testing.assert_close(gradients[grad_pass]["pgfed.G"], expected, rtol=1e-3, atol=1e-6)
    assert not torch.allclose(tensor(gradients["full"], "pgfed.G"), tensor(gradients["drop_last"], "pgfed.G"))


# The house


@pytest.mark.parametrize("method", ["pgfed", "pgfedmo"])
def test_traffic_is_two_and_a_half_times_fedavgs(method: str) -> None:
    """Down θ, g̃, ḡ and up θ, ∇f: five models where FedAvg sends two. Round one lacks g̃ and ḡ: three for two."""

    def traffic(name: str) -> list[float]:
        assembly, states = rounds(name, [])
        counts = []
        for round, cohort in enumerate(COHORTS, 1):
            down = [assembly.method.broadcast(states[-1], i) for i in cohort]
            replies = exchange(assembly, states[-1], cohort, round)
            counts.append(sum(map(byte_count, down)) + sum(map(byte_count, replies.values())))
            states.append(assembly.method.aggregate(states[-1], replies))
        return counts

    ratios = [ours / plain for ours, plain in zip(traffic(method), traffic("fedavg"), strict=True)]
    assert ratios[0] == pytest.approx(1.5, abs=0.02)
    assert ratios[1:] == pytest.approx([2.5] * 3, abs=0.02)


ALONE = ["pgfed", "pgfedmo(mo_first=scaled)", "pgfed(grad_pass=drop_last)+ft"]
SUMS = ["scaffold+pgfed", "fedrod(head=linear)+dbe+pgfedmo", "fedrod+pgfed"]


@pytest.mark.parametrize("method", ALONE + SUMS)
def test_a_run_twice_is_the_same_run(method: str, tmp_path: Path) -> None:
    last = run_twice(experiment(method, data={"new_clients": 0.25}), tmp_path).rounds[-1]
    assert all(math.isfinite(last[f"pgfed_alpha_{name}"]) for name in ("mean", "min", "clipped"))
    assert last["pgfed_alpha_mean"] != 1 / 4


@pytest.mark.parametrize("other", ["fedrod", "fedrod(head=linear)", "scaffold", "feddyn", "dbe(mu=0.5)"])
def test_on_top_of_another_method_it_adds_its_own_term_and_nothing_else(other: str) -> None:
    def after_three(method: str) -> Tensor:
        return tensor(rounds(method, COHORTS[:3], local={"lr": 0.05})[1][-1], "w")

    alone, without, with_term = (after_three(m) for m in (other, f"{other}+pgfed(mu=0)", f"{other}+pgfed(mu=2)"))
    assert torch.equal(without, alone)
    assert not torch.allclose(with_term, alone, atol=1e-4)


def test_new_clients_are_served_and_adapted_as_fedavg_would() -> None:
    """Only the global model differs: no auxiliary gradient reaches a client that never took part."""
    fedavg, _ = rounds("fedavg", [], data={"new_clients": 0.25})
    new, old = fedavg.federation.new_ids[0], fedavg.federation.training_ids
    pgfed, states = rounds("pgfed(mu=3)", [old[:2], old[1:3]], data={"new_clients": 0.25})
    message = pgfed.method.broadcast(states[-1], new)
    assert list(message) == ["w"]
    scores = [next(iter(a.engine.run([Task("adapt", new, 2, message)]))).reply for a in (pgfed, fedavg)]
    assert scores[0] == scores[1]


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        ("pgfed+pgfedmo", "method 'pgfed+pgfedmo' makes no sense: pgfed and pgfedmo are both a personalized global "),
        ("local+pgfed", "method 'local+pgfed' makes no sense: local shares no weights"),
        ("pgfed(mu=-1)", "method pgfed: mu is -1; accepted: a number of at least 0"),
        ("pgfedmo(beta=1)", "method pgfedmo: beta is 1; accepted: a number of at least 0 and below 1"),
        ("pgfed(grad_pass=half)", "method pgfed: grad_pass is 'half'; accepted: full | drop_last"),
    ],
)
def test_nonsense_is_refused_in_one_sentence(method: str, sentence: str) -> None:
    assert refusal(method).startswith(sentence)
