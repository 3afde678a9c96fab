"""SCAFFOLD and FedDyn do what their papers say: against plain autograd and torch.optim.SGD, step by step."""

import pytest
import torch
from by_hand import EXACT, LOCAL, build, client, flat, mean, sgd, small_net, train
from torch import Tensor

from motet.messages.message import Message, State, tensor
from motet.methods import METHODS
from motet.methods.base import MethodEntry, Training
from motet.methods.scaffold import Scaffold
from motet.testing.twin import play, tiny

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
    monkeypatch.setitem(METHODS, "held", MethodEntry("held", "", "", part=HeldAtZero))
    held, plain = play(tiny("held")), play(tiny("fedavg(weighting=uniform)"))
    assert torch.equal(held.server["w"], plain.server["w"])
    scores = [{k: v for k, v in row.items() if not k.startswith("bytes")} for row in held.timeless()]
    assert scores == [{k: v for k, v in row.items() if not k.startswith("bytes")} for row in plain.timeless()]
    assert not torch.equal(play(tiny("scaffold")).server["w"], plain.server["w"])


def test_scaffold_by_samples_weighs_models_and_variates_alike() -> None:
    """With everybody taking part c is then Σ (n_i/n) c_i, the variate of the objective that is averaged."""
    method, server = build("fedavg(weighting=samples)+scaffold")
    kept: dict[int, State] = {}
    server = method.aggregate(server, train(method, server, [0, 1, 2], 1, kept))
    sizes = torch.tensor([float(client(i).samples) for i in range(3)])
    c_i = torch.stack([tensor(kept[i], "scaffold.c_i") for i in range(3)])
    assert len(set(sizes.tolist())) > 1
    torch.testing.assert_close(server["scaffold.c"], (sizes / sizes.sum()) @ c_i, rtol=1e-4, atol=1e-6)


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
    dyn, server = build("feddyn(lam=1e-15)", clients=4)
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
