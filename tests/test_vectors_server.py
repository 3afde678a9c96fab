"""Optimizers at the server by Flower's figures and by their papers' equations; FedNova by its paper's.

Flower's FedAdam has a bias correction that the paper has not, and its second moments start at zero: figures of both are
here to be told apart.
"""

import pytest
import torch
from torch import Tensor
from vector_problem import Rounds, differs, linear_net, plain_sgd, same, tiny_data, tiny_net, vectors

pytestmark = pytest.mark.usefixtures("exact")
KINDS = ["adam", "yogi", "adagrad"]


def three_steps(method: str) -> list[Tensor]:
    """The server's model after each of three given changes, where clients differ in size and in what they say."""
    v = vectors("server_optimizers")
    run = Rounds(method, linear_net(4, 2, v["w0"], bias=False), tiny_data()[:2])
    found = []
    for delta in v["deltas"]:
        w = run.figure("w")
        run.receive([w + delta - 3, w + delta + 1], sizes=[10, 30])  # the mean by samples is w + Δ
        found.append(run.figure("w"))
    return found


@pytest.mark.parametrize("start", ["tau2", "zero"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_papers_equations(kind: str, start: str) -> None:
    v, tag = vectors("server_optimizers"), {"tau2": "v0=tau2", "zero": "v0=0"}
    other = {"tau2": "zero", "zero": "tau2"}[start]
    for t, w in enumerate(three_steps(f"fed{kind}(eta=0.1, v0={start})")):
        same("w", w, v[f"ours_{kind}_{tag[start]}_tau0.001"][t])
        differs("τ² or 0", w, v[f"ours_{kind}_{tag[other]}_tau0.001"][t], least=1e-8)


@pytest.mark.parametrize("tau", ["0.001", "1e-09"])
@pytest.mark.parametrize("kind", ["yogi", "adagrad"])
def test_flowers_figures_where_it_follows_the_paper(kind: str, tau: str) -> None:
    v = vectors("server_optimizers")
    for t, w in enumerate(three_steps(f"fed{kind}(eta=0.1, tau={tau}, v0=zero)")):
        same("w", w, v[f"flwr_fed{kind}_tau{tau}"][t])


@pytest.mark.parametrize("tau", ["0.001", "1e-09"])
@pytest.mark.parametrize("kind", KINDS)
def test_flowers_moments(kind: str, tau: str) -> None:
    """Also FedAdam's: its correction is in the step alone."""
    v = vectors("server_optimizers")
    run = Rounds(f"fed{kind}(eta=0.1, tau={tau}, v0=zero)", linear_net(4, 2, v["w0"], bias=False), tiny_data()[:1])
    for t, delta in enumerate(v["deltas"], 1):
        run.receive([run.figure("w") + delta])
        for moment in "mv":
            same(moment, torch.as_tensor(run.server[f"fed{kind}.{moment}"]), v[f"flwr_fed{kind}_tau{tau}_{moment}{t}"])


def test_flowers_bias_correction_is_not_followed() -> None:
    v = vectors("server_optimizers")
    differs("w", three_steps("fedadam(eta=0.1, v0=zero)")[0], v["flwr_fedadam_tau0.001"][0])


def test_fedavgm() -> None:
    v = vectors("server_optimizers")
    for t, w in enumerate(three_steps("fedavgm(eta=0.7, beta=0.9)")):
        same("w", w, v["flwr_fedavgm_lr0.7_m0.9"][t])
    differs("momentum", three_steps("fedavgm(eta=0.7, beta=0)")[2], v["flwr_fedavgm_lr0.7_m0.9"][2])


def test_fedavgm_without_momentum_and_with_step_one_is_fedavg() -> None:
    for ours, plain in zip(three_steps("fedavgm(beta=0)"), three_steps("fedavg"), strict=True):
        same("w", ours, plain)


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_fednova_by_its_equation(momentum: float) -> None:
    """Eq. 8, with the vector a_i written out: gradient k of K has weight (1 − m^(K−k))/(1 − m)."""
    w, data, local = vectors("problem")["w0"], tiny_data(), {"lr": 0.1, "momentum": momentum, "epochs": 2}
    run, plain = (Rounds(name, tiny_net(w), data, 2, **local) for name in ("fednova", "fedavg"))
    for _ in range(2):
        theta = torch.stack([plain_sgd(w, i, tiny_net(w), data, **local) for i in range(4)])
        p = torch.tensor([float(len(samples)) for samples in data])
        p = p / p.sum()
        steps = [2 * len(samples) // 6 for samples in data]
        a = torch.tensor([sum((1 - momentum**j) / (1 - momentum) for j in range(1, K + 1)) for K in steps])
        d = (w - theta) / (0.1 * a[:, None])  # normalized gradients
        expected = w - (p @ a) * 0.1 * (p @ d)
        run.play(range(4))
        plain.play(range(4))
        same("w", run.figure("w"), expected)
        differs("w", run.figure("w"), plain.figure("w"))
        w = run.figure("w")
        plain.put("w", w)


def test_fednova_with_equal_steps_is_fedavg() -> None:
    w, data = vectors("problem")["w0"], tiny_data([12] * 4)
    runs = [Rounds(name, tiny_net(w), data, 2, lr=0.1, momentum=0.5) for name in ("fednova", "fedavg")]
    for run in runs:
        run.play([0, 2])
        run.play([1, 2, 3])
    same("w", runs[0].figure("w"), runs[1].figure("w"))


def test_an_optimizer_sees_the_change_that_fednova_makes() -> None:
    """FedAvgM without momentum and with step one is nothing, also behind another mean; with half a step, half of it."""
    w, data, moves = vectors("problem")["w0"], tiny_data(), []
    for method in ("fednova", "fednova+fedavgm(beta=0)", "fednova+fedavgm(beta=0, eta=0.5)", "median"):
        run = Rounds(method, tiny_net(w), data, lr=0.1)
        run.play(range(4))
        moves.append(run.figure("w") - w)
    same("all of it", moves[1], moves[0])
    same("half of it", moves[2], moves[0] / 2)
