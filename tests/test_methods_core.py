"""The first methods do what their papers say: each against plain autograd and torch.optim.SGD, step by step."""

import copy
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from strict_engine import play, tiny
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from motet.client import AdaptSettings, Client
from motet.data import ClientData, Prepare, Samples
from motet.fields import checked
from motet.local import LocalSettings
from motet.message import Message, State, encode, tensor
from motet.methods import METHODS, Facts, Method, build_method
from motet.methods.components.scaffold import Scaffold
from motet.methods.part import Training
from motet.methods.registry import Entry
from motet.nets import Net
from motet.rng import generator
from motet.runs.assembly import assemble
from motet.weights import Layout

LOCAL = {"epochs": 2, "batch": 4, "lr": 0.1, "lr_decay": 1.0, "momentum": 0.5, "weight_decay": 0.01}
SIZES = {0: 9, 1: 6, 2: 12, 3: 60}  # unequal, so that uniform and by-samples averages differ
EXACT = {"rtol": 1e-4, "atol": 1e-6}


def small_net() -> Net:
    """Six features, four hidden units, three classes."""
    torch.manual_seed(3)
    stages: OrderedDict[str, nn.Module] = OrderedDict(
        fc1=nn.Sequential(OrderedDict(linear=nn.Linear(6, 4), act=nn.Tanh())), fc2=nn.Linear(4, 3)
    )
    return Net(stages, (6,))


def client(id: int, round: int = 1, private: State | None = None, new: bool = False, **local: Any) -> Client:
    """A client with its own few samples of mostly its own class."""
    rng = torch.Generator().manual_seed(100 + id)
    n = SIZES[id]
    prepare = Prepare("vector", (6,), None, None)
    x, y = torch.randn(n, 6, generator=rng), torch.randint(3, (n,), generator=rng)
    y[: n // 2] = id % 3
    train, nothing = Samples(x, y, prepare), Samples(x[:0], y[:0], prepare)
    return Client(
        ClientData(id, train, nothing, train, new=new),
        classes=3,
        round=round,
        seed=7,
        local=checked(LocalSettings, LOCAL | local, "local"),
        adapt=checked(AdaptSettings, {"epochs": 2, "lr": 0.05}, "adapt"),
        private={} if private is None else private,
    )


def build(method: str, clients: int = 3) -> tuple[Method, State]:
    built = build_method(method, small_net())
    return built, built.start(Facts(tuple(range(clients)), clients, 5, 3))


def flat(module: nn.Module) -> Tensor:
    return Layout(module).flatten(module)


def loaded(w: Tensor) -> Net:
    """A net with these flat weights."""
    net = small_net()
    Layout(net).bind(net, w.clone())
    return net


def batches(who: Client, epochs: int, purpose: str = "train") -> Iterator[tuple[Tensor, Tensor]]:
    """What the client's randomness deals, written out."""
    rng, n = generator(7, purpose, who.round, who.id), who.samples
    for _ in range(epochs):
        order = torch.randperm(n, generator=rng)
        for start in range(0, n, who.local.batch):
            rows = order[start : start + who.local.batch]
            yield who.data.train.x[rows], who.data.train.y[rows]


def sgd(
    who: Client,
    w: Tensor,
    correction: Callable[[Tensor], Tensor] | None = None,
    epochs: int | None = None,
    purpose: str = "train",
    lr: float | None = None,
    parameters: Callable[[Net], Any] = Net.parameters,
) -> tuple[Tensor, int]:
    """Local training by torch.optim.SGD on a copy, with a correction of the gradient; the weights and K."""
    net, rule = copy.deepcopy(loaded(w)), who.local
    optimizer = torch.optim.SGD(parameters(net), lr or rule.lr, momentum=rule.momentum, weight_decay=rule.weight_decay)
    steps = 0
    for x, y in batches(who, epochs or rule.epochs, purpose):
        net.zero_grad()
        cross_entropy(net(x), y).backward()
        if correction is not None:
            extra = correction(flat(net))
            for name, p in net.named_parameters():
                p.grad = p.grad + Layout(net).places[name].view(extra)
        optimizer.step()
        steps += 1
    return flat(net), steps


def mean(values: list[Tensor], shares: list[int] | None = None) -> Tensor:
    weights = torch.tensor(shares or [1] * len(values), dtype=torch.float32)
    return (torch.stack(values) * weights[:, None]).sum(0) / weights.sum()


def train(method: Method, server: State, ids: list[int], round: int, kept: dict[int, State]) -> dict[int, Message]:
    """One round of these clients; `kept` holds their private states."""
    replies = {}
    for i in ids:
        who = client(i, round, kept.setdefault(i, {}))
        replies[i] = method.train(who, method.broadcast(server, i))
    return replies


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


# ---------------------------------------------------------------- SCAFFOLD


def scaffold_by_hand(rounds: int, sign: int = 1, factor: float | None = None) -> tuple[State, dict[int, Tensor]]:
    """Karimireddy et al., option II, with all three clients; the server and every c_i."""
    w = flat(small_net())
    c = torch.zeros_like(w)
    c_i = {i: torch.zeros_like(w) for i in range(3)}
    for round in range(1, rounds + 1):
        xs, changes = [], []
        for i in range(3):
            x, steps = sgd(client(i, round), w, lambda _, i=i, c=c: sign * (c - c_i[i]))
            momentum = LOCAL["momentum"]  # step j of K moves x by η(1 + m + … + m^(K−j)) times its gradient
            plain_steps = sum(momentum**k for last in range(steps) for k in range(last + 1))
            new = c_i[i] - c + (w - x) / (LOCAL["lr"] * plain_steps if factor is None else steps * factor)
            xs.append(x)
            changes.append(new - c_i[i])
            c_i[i] = new
        w = mean(xs)
        c = c + sum(changes) / 3
    return {"w": w, "scaffold.c": c}, c_i


def test_scaffold_against_plain_autograd_over_two_rounds() -> None:
    """In the second round c and c_i are not zero and differ, so a dropped or turned correction shows."""
    method, server = build("scaffold")
    kept: dict[int, State] = {}
    for round in (1, 2):
        server = method.aggregate(server, train(method, server, [0, 1, 2], round, kept))
    expected, c_i = scaffold_by_hand(2)
    torch.testing.assert_close(server["w"], expected["w"], **EXACT)
    torch.testing.assert_close(server["scaffold.c"], expected["scaffold.c"], rtol=1e-3, atol=1e-5)
    for i in range(3):
        torch.testing.assert_close(kept[i]["scaffold.c_i"], c_i[i], rtol=1e-3, atol=1e-5)
    for sign in (0, -1):
        assert (scaffold_by_hand(2, sign)[0]["w"] - server["w"]).abs().max() > 1e-3
    biased, _ = scaffold_by_hand(2, factor=LOCAL["lr"])  # the estimate without momentum's share
    assert (biased["scaffold.c"] - server["scaffold.c"]).abs().max() > 1e-2


def test_scaffold_sends_the_change_of_its_control_variate() -> None:
    method, server = build("scaffold")
    kept: dict[int, State] = {}
    train(method, server, [0], 1, kept)
    before = kept[0]["scaffold.c_i"]
    reply = train(method, server, [0], 2, kept)[0]
    assert torch.equal(reply["scaffold.dc"], kept[0]["scaffold.c_i"] - before)


def test_scaffold_c_is_the_mean_of_all_clients_control_variates() -> None:
    """Also of those that have not taken part: their c_i is zero, and Σ Δc is divided by N, not by the cohort."""
    method, server = build("scaffold", clients=3)
    kept: dict[int, State] = {}
    for round, cohort in enumerate([[0, 1], [1], [0, 1]], 1):
        server = method.aggregate(server, train(method, server, cohort, round, kept))
        total = sum(state["scaffold.c_i"] for state in kept.values())
        torch.testing.assert_close(server["scaffold.c"], total / 3, rtol=1e-4, atol=1e-6)


def test_scaffold_server_step() -> None:
    plain, server = build("scaffold")
    replies = train(plain, server, [0, 1, 2], 1, {})
    half, _ = build("scaffold(eta_g=0.5)")
    move = plain.aggregate(server, replies)["w"] - server["w"]
    torch.testing.assert_close(half.aggregate(server, replies)["w"], server["w"] + 0.5 * move, **EXACT)


class HeldAtZero(Scaffold):
    """SCAFFOLD whose control variates never leave zero."""

    def after(self, t: Training, reply: Message) -> None:
        """As SCAFFOLD, then forget."""
        super().after(t, reply)
        t.client.private["scaffold.c_i"] = torch.zeros_like(t.client.private["scaffold.c_i"])
        reply["scaffold.dc"] = torch.zeros_like(reply["scaffold.dc"])


def test_scaffold_with_control_variates_at_zero_is_uniform_fedavg_bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "held", Entry("held", "", "", part=HeldAtZero))
    held, plain = play(tiny("held")), play(tiny("fedavg(weighting=uniform)"))
    assert encode({"w": held.server["w"]}) == encode(plain.server)
    scores = [{k: v for k, v in row.items() if not k.startswith("bytes")} for row in held.timeless()]
    assert scores == [{k: v for k, v in row.items() if not k.startswith("bytes")} for row in plain.timeless()]
    assert encode({"w": play(tiny("scaffold")).server["w"]}) != encode(plain.server)


# ---------------------------------------------------------------- FedDyn


def feddyn_by_hand(rounds: int, lam: float, linear: int = -1, quadratic: int = 1, server_sign: int = -1) -> State:
    """Acar et al. with all three clients of N = 4: the local objective's gradient and the server's rule."""
    w = flat(small_net())
    h = torch.zeros_like(w)
    h_i = {i: torch.zeros_like(w) for i in range(3)}
    for round in range(1, rounds + 1):
        xs = []
        for i in range(3):
            x, _ = sgd(client(i, round), w, lambda x, i=i, w=w: linear * h_i[i] + quadratic * lam * (x - w))
            h_i[i] = h_i[i] - lam * (x - w)
            xs.append(x)
        h = h - lam / 4 * sum(x - w for x in xs)
        w = mean(xs) + server_sign * h / lam
    return {"w": w, "feddyn.h": h, **{f"h_{i}": value for i, value in h_i.items()}}


def test_feddyn_against_plain_autograd_over_two_rounds() -> None:
    method, server = build("feddyn(lam=0.4)", clients=4)
    kept: dict[int, State] = {}
    for round in (1, 2):
        server = method.aggregate(server, train(method, server, [0, 1, 2], round, kept))
    expected = feddyn_by_hand(2, 0.4)
    torch.testing.assert_close(server["w"], expected["w"], **EXACT)
    torch.testing.assert_close(server["feddyn.h"], expected["feddyn.h"], **EXACT)
    for i in range(3):
        torch.testing.assert_close(kept[i]["feddyn.h_i"], expected[f"h_{i}"], **EXACT)
    wrong = [{"linear": 1}, {"linear": 0}, {"quadratic": 0}, {"quadratic": -1}, {"server_sign": 0}, {"server_sign": 1}]
    for signs in wrong:
        assert (feddyn_by_hand(2, 0.4, **signs)["w"] - server["w"]).abs().max() > 1e-3, signs


def test_feddyn_in_its_small_lambda_limit() -> None:
    """λ → 0: the clients are FedAvg's bit by bit, the server is not.

    The local terms −h_i + λ(x − w) vanish with λ, because h_i is made of λ(x − w) itself. The server's −h/λ does
    not: λ cancels, and in round one it is (1/N) Σ_S (x_i − w) = (|S|/N)·mean_S(x_i − w). So in this limit FedDyn's
    server takes a step longer than FedAvg's by the share of clients that took part, and goes on adding the sum of
    all earlier steps: a server momentum, not FedAvg.
    """
    dyn, server = build("feddyn(lam=1e-30)", clients=4)
    avg, plain = build("fedavg(weighting=uniform)", clients=4)
    ours, theirs = train(dyn, server, [0, 1, 2], 1, {}), train(avg, plain, [0, 1, 2], 1, {})
    for i in range(3):
        assert torch.equal(ours[i]["w"], theirs[i]["w"])
    sent, averaged = server["w"], avg.aggregate(plain, theirs)["w"]
    extra = dyn.aggregate(server, ours)["w"] - averaged
    torch.testing.assert_close(extra, 3 / 4 * (averaged - sent), rtol=1e-3, atol=1e-6)
    assert extra.abs().max() > 1e-2


def test_feddyn_averages_uniformly() -> None:
    method, server = build("feddyn(lam=0.4)", clients=4)
    replies = train(method, server, [0, 1, 2], 1, {})
    after = method.aggregate(server, replies)
    expected = mean([replies[i]["w"] for i in range(3)]) - after["feddyn.h"] / 0.4
    torch.testing.assert_close(after["w"], expected, **EXACT)


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


# ---------------------------------------------------------------- ft and lp


def weights_of(model: nn.Module | None) -> Tensor:
    assert model is not None
    return flat(model.net)


def test_ft_is_sgd_from_the_global_model() -> None:
    """Not from the client's last model, which another training left in its private state."""
    method, server = build("fedavg+ft(epochs=3, lr=0.07)")
    kept: dict[int, State] = {}
    train(method, server, [0], 1, kept)
    assert (kept[0]["model"] - server["w"]).abs().max() > 1e-3
    model = method.personal(client(0, 2, kept[0]), method.broadcast(server, 0))
    expected, _ = sgd(client(0, 2), server["w"], epochs=3, purpose="fine-tune", lr=0.07)
    torch.testing.assert_close(weights_of(model), expected, **EXACT)


def test_ft_without_a_learning_rate_takes_that_of_adapt() -> None:
    method, server = build("fedavg+ft(epochs=1)")
    model = method.personal(client(0), method.broadcast(server, 0))
    expected, _ = sgd(client(0), server["w"], epochs=1, purpose="fine-tune", lr=0.05)
    torch.testing.assert_close(weights_of(model), expected, **EXACT)


def test_lp_trains_the_head_and_leaves_the_body_bit_by_bit() -> None:
    method, server = build("fedavg+lp(epochs=3, lr=0.07)")
    tuned = weights_of(method.personal(client(0), method.broadcast(server, 0)))
    head = Layout(small_net()).slice_of("fc2.*")
    assert torch.equal(tuned[: head.start], server["w"][: head.start])
    expected, _ = sgd(
        client(0), server["w"], epochs=3, purpose="fine-tune", lr=0.07, parameters=lambda net: net.fc2.parameters()
    )
    torch.testing.assert_close(tuned[head], expected[head], **EXACT)
    assert (tuned[head] - server["w"][head]).abs().max() > 1e-3


@pytest.mark.parametrize("tuner", ["ft", "lp"])
def test_a_new_client_is_served_the_global_model_and_tuned_by_adapt(tuner: str) -> None:
    method, server = build(f"fedavg+{tuner}(epochs=3, lr=0.07)")
    who, message = client(1, new=True), method.broadcast(server, 1)
    assert torch.equal(weights_of(method.personal(who, message)), server["w"])
    moving = Net.parameters if tuner == "ft" else (lambda net: net.fc2.parameters())
    expected, _ = sgd(who, server["w"], epochs=2, purpose="fine-tune", lr=0.07, parameters=moving)  # adapt.epochs
    torch.testing.assert_close(weights_of(method.adapt(who, message)), expected, **EXACT)


def test_tuning_changes_nothing_that_the_federation_sees() -> None:
    tuned, plain = play(tiny("scaffold+ft")), play(tiny("scaffold"))
    assert encode(tuned.server) == encode(plain.server) and tuned.private() == plain.private()
    for a, b in zip(tuned.rows, plain.rows, strict=True):
        assert (a["bytes_down"], a["bytes_up"]) == (b["bytes_down"], b["bytes_up"])
    assert tuned.rows[-1]["generic_weighted"] == plain.rows[-1]["generic_weighted"]
    assert tuned.rows[-1]["personal_weighted"] != plain.rows[-1]["personal_weighted"]


# ---------------------------------------------------------------- new clients, without ft


def test_adapting_is_plain_local_training_from_the_global_model() -> None:
    """Corrections against drift serve the federation, not a client that adapts."""
    for name in ("fedavg", "fedprox(mu=5)", "scaffold", "feddyn(lam=5)"):
        method, server = build(name)
        adapted = method.adapt(client(2, new=True), method.broadcast(server, 2))
        expected, _ = sgd(client(2), server["w"], epochs=2, purpose="adapt", lr=0.05)
        torch.testing.assert_close(weights_of(adapted), expected, **EXACT)


def test_adapting_with_validation_never_ends_below_its_start() -> None:
    """The start is a candidate too: with a learning rate that only does harm, it is what is served."""
    method, server = build("fedavg")
    who = client(3, new=True)  # six of its sixty samples judge
    harmful = replace(who, adapt=checked(AdaptSettings, {"lr": 50.0, "select": "best_on_validation"}, "adapt"))
    good, _ = sgd(who, server["w"], epochs=200, lr=0.1)  # knows its samples by heart
    assert torch.equal(weights_of(method.adapt(harmful, {"w": good})), good)
    gentle = replace(who, adapt=checked(AdaptSettings, {"lr": 0.05, "select": "best_on_validation"}, "adapt"))
    assert not torch.equal(weights_of(method.adapt(gentle, method.broadcast(server, 3))), server["w"])


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
    assert row["personal_split"] == row["generic_split"]
    assert row["personal_weighted"] == row["generic_weighted"]


def test_scaffold_by_samples_weighs_models_and_variates_alike() -> None:
    """With everybody taking part c is then Σ (n_i/n) c_i, the variate of the objective that is averaged."""
    method, server = build("fedavg(weighting=samples)+scaffold")
    kept: dict[int, State] = {}
    server = method.aggregate(server, train(method, server, [0, 1, 2], 1, kept))
    sizes = torch.tensor([float(client(i).samples) for i in range(3)])
    c_i = torch.stack([tensor(kept[i], "scaffold.c_i") for i in range(3)])
    assert len(set(sizes.tolist())) > 1
    torch.testing.assert_close(server["scaffold.c"], (sizes / sizes.sum()) @ c_i, rtol=1e-4, atol=1e-6)
