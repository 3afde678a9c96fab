"""FedAvg, FedProx, the yardsticks and sums: each against plain autograd and torch.optim.SGD, step by step."""

import pytest
import torch
from by_hand import EXACT, SIZES, batches, build, client, flat, loaded, mean, sgd, small_net, train
from torch.nn.functional import cross_entropy

from motet.messages.message import State, encode
from motet.server.assembly import assemble
from motet.testing.twin import play, tiny
from motet.training.flat_weights import Layout
from motet.training.randomness import generator

# ---------------------------------------------------------------- FedAvg


def test_fedavg_is_sgd_at_the_clients_and_the_mean_by_samples() -> None:
    method, server = build("fedavg")
    w = server["w"].clone()
    torch.testing.assert_close(w, flat(small_net()))
    replies = train(method, server, [0, 1, 2], 1, {})
    expected = [sgd(client(i), w)[0] for i in range(3)]
    for i in range(3):
        torch.testing.assert_close(replies[i]["w"], expected[i], **EXACT)
        assert replies[i]["n"] == SIZES[i]
    found = method.aggregate(server, replies)["w"]
    torch.testing.assert_close(found, mean(expected, [SIZES[i] for i in range(3)]), **EXACT)
    assert (found - mean(expected)).abs().max() > 1e-3
    assert torch.equal(server["w"], w)  # the old state is as it was


def test_fedavg_uniform() -> None:
    method, server = build("fedavg(weighting=uniform)")
    replies = train(method, server, [0, 1, 2], 1, {})
    expected = mean([replies[i]["w"] for i in range(3)])
    torch.testing.assert_close(method.aggregate(server, replies)["w"], expected, **EXACT)


def test_momentum_persists_only_when_asked() -> None:
    method, server = build("fedavg")
    for across, keeps in (("persist", True), ("reset", False)):
        private: State = {}
        method.train(client(0, 1, private, momentum_across_rounds=across), method.broadcast(server, 0))
        assert ("velocity" in private) is keeps
        again = method.train(client(0, 2, dict(private), momentum_across_rounds=across), method.broadcast(server, 0))
        fresh = method.train(client(0, 2, {}, momentum_across_rounds=across), method.broadcast(server, 0))
        assert torch.equal(again["w"], fresh["w"]) is not keeps


def test_persisting_momentum_is_one_optimizer_on_new_weights() -> None:
    """PGFed's optimizer object: its velocity lives on while the weights are replaced by the global ones."""
    method, server = build("fedavg")
    private: State = {}
    net, w = loaded(server["w"]), server["w"].clone()
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.5, weight_decay=0.01)
    for round in (1, 2):
        reply = method.train(client(0, round, private, momentum_across_rounds="persist"), method.broadcast(server, 0))
        Layout(net).bind(net, w.clone())
        for x, y in batches(client(0, round), 2):
            net.zero_grad()
            cross_entropy(net(x), y).backward()
            optimizer.step()
        torch.testing.assert_close(reply["w"], flat(net), **EXACT)


# ---------------------------------------------------------------- FedProx


def test_fedprox_adds_mu_times_the_way_from_the_anchor() -> None:
    method, server = build("fedprox(mu=0.8)")
    w = server["w"]
    found = method.train(client(0), method.broadcast(server, 0))["w"]
    by_sign = {s: sgd(client(0), w, lambda x, s=s: s * 0.8 * (x - w))[0] for s in (1, 0, -1)}
    torch.testing.assert_close(found, by_sign[1], **EXACT)
    assert min((found - by_sign[s]).abs().max() for s in (0, -1)) > 1e-3


def test_fedprox_with_mu_zero_is_fedavg_bit_by_bit() -> None:
    prox, plain = play(tiny("fedprox(mu=0)")), play(tiny("fedavg"))
    assert encode(prox.server) == encode(plain.server)
    assert prox.timeless() == plain.timeless() and prox.private() == plain.private()
    assert encode(play(tiny("fedprox(mu=0.5)")).server) != encode(plain.server)


# ---------------------------------------------------------------- local, centralized


def test_local_goes_on_from_its_own_weights_and_has_no_generic_model() -> None:
    method, server = build("local")
    kept: dict[int, State] = {}
    w = flat(small_net())
    for round in (1, 2):
        assert train(method, server, [0], round, kept) == {0: {}}
        w, _ = sgd(client(0, round), w)
        torch.testing.assert_close(kept[0]["private"], w, **EXACT)
    assert method.broadcast(server, 0) == {}
    assert method.generic(server) is None
    assert encode(method.aggregate(server, {0: {}})) == encode(server)


def test_centralized_is_sgd_on_the_union_of_the_training_clients() -> None:
    played = play(tiny("centralized"))
    federation, local = played.assembly.federation, played.assembly.experiment.local
    members = [federation.clients[i].train for i in federation.training_ids]
    x = members[0].prepare(torch.cat([m.x for m in members]))
    y = torch.cat([m.y for m in members])
    assert len(y) == sum(len(m) for m in members) and len(federation.new_ids) == 1
    net = assemble(played.assembly.experiment).method.net
    for round in (1, 2, 3):
        optimizer = torch.optim.SGD(
            net.parameters(), local.at_round(round), momentum=local.momentum, weight_decay=local.weight_decay
        )
        order = torch.randperm(len(y), generator=generator(0, "train", round, -1))
        for rows in torch.split(order, local.batch):
            net.zero_grad()
            cross_entropy(net(x[rows]), y[rows]).backward()
            optimizer.step()
    torch.testing.assert_close(played.server["w"], flat(net), rtol=1e-3, atol=1e-5)
    assert [row["cohort"] for row in played.rows] == [[-1]] * 3


def test_centralized_does_not_mind_a_cohort_in_numbers() -> None:
    assert play(tiny("centralized", rounds={"count": 1, "cohort": 2.0})).rows[0]["cohort"] == [-1]


# ---------------------------------------------------------------- sums


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("fedprox(mu=0.3)+feddyn", "feddyn+fedprox(mu=0.3)"),
        ("scaffold+fedprox+ft", "ft+fedprox+scaffold"),
        ("fedavg+fedprox", "fedprox"),
        ("fedavg+scaffold", "scaffold"),
    ],
)
def test_a_sum_does_not_depend_on_the_order_of_its_terms(one: str, other: str) -> None:
    a, b = play(tiny(one)), play(tiny(other))
    assert encode(a.server) == encode(b.server) and a.private() == b.private()
    assert a.timeless() == b.timeless() and a.new == b.new


def test_a_sum_has_both_corrections() -> None:
    """∇ + μ(x − w) − h_i + λ(x − w), in the second round, where h_i is not zero."""
    method, server = build("fedprox(mu=0.6)+feddyn(lam=0.4)")
    w, h_i = server["w"], torch.linspace(-0.3, 0.3, len(server["w"]))
    found = method.train(client(0, private={"feddyn.h_i": h_i}), method.broadcast(server, 0))["w"]
    expected, _ = sgd(client(0), w, lambda x: 0.6 * (x - w) - h_i + 0.4 * (x - w))
    torch.testing.assert_close(found, expected, **EXACT)


def test_centralized_serves_its_one_model_whoever_was_sampled() -> None:
    """Under pgfed's rule a client never sampled is scored with the first weights; here nobody is ever sampled."""
    played = play(tiny("centralized", scoring={"never_sampled": "initial", "every": 1}))
    row = played.timeless()[-1]
    assert row["personal.split.accuracy.mean"] == row["generic.split.accuracy.mean"]
    assert row["personal.weighted.accuracy.mean"] == row["generic.weighted.accuracy.mean"]
