"""MOON, Ditto, APFL, Per-FedAvg and pFedMe by the figures of released codes, and by their papers where these depart."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from vector_problem import Rounds, cohorts, differs, plain_sgd, same, samples, tiny_data, tiny_net, vectors

from motet.data import Samples

pytestmark = pytest.mark.usefixtures("exact")
BATCH = 6


def turned(data: Sequence[Samples], batches: Sequence[int]) -> list[Samples]:
    """Each client's samples, twice over and begun after so many batches: how codes go on where they stopped."""
    found = []
    for mine, done in zip(data, batches, strict=True):
        at = done * BATCH % len(mine)
        x, y = (torch.cat([a[at:], a, a[:at]]) for a in (mine.x, mine.y))
        found.append(samples(x, y))
    return found


def problem() -> tuple[Tensor, Tensor]:
    """The first weights, and each client's second model."""
    return vectors("problem")["w0"], vectors("problem")["v0"]


# ---------------------------------------------------------------- MOON


def test_moon() -> None:
    v, (w, _) = vectors("moon"), problem()
    local = {"lr": v["lr"], "momentum": v["momentum"], "epochs": int(v["epochs"])}
    run = Rounds(f"moon(mu={v['mu']}, tau={v['tau']})", tiny_net(w), tiny_data(), rounds=3, **local)
    for t, cohort in cohorts(v):
        run.play(cohort)
        for i in cohort:
            same("theta", run.figure("theta", i), v["theta"][t, i], 2e-10)
            plain = plain_sgd(w, i, tiny_net(w), tiny_data(), **local)
            (differs if t else same)("plain SGD", run.figure("theta", i), plain)
        w = run.figure("w")
        same("w", w, v["w"][t], 2e-10)


def test_moon_has_no_contrast_in_a_clients_first_round() -> None:
    """The released code contrasts with the random weights that a late client's net object was made with."""
    v, ours, (w, _) = vectors("moon_late"), vectors("moon_late_paper"), problem()
    local = {"lr": v["lr"], "momentum": v["momentum"], "epochs": int(v["epochs"])}
    run = Rounds(f"moon(mu={v['mu']}, tau={v['tau']})", tiny_net(w), tiny_data(), rounds=3, **local)
    for t, cohort in cohorts(v):
        run.play(cohort)
        for i in cohort:
            same("theta", run.figure("theta", i), ours["theta"][t, i], 2e-10)
        same("w", run.figure("w"), ours["w"][t], 2e-10)


# ---------------------------------------------------------------- Ditto


def test_ditto() -> None:
    """v and w take the same batches, which go on over rounds; the mean is uniform."""
    v, (w0, v0) = vectors("ditto"), problem()
    steps, data, done = int(v["local_steps"]), tiny_data(), [0] * 4
    method = f"ditto(lam={v['lam']}, weighting=uniform)"
    run = Rounds(method, tiny_net(w0), data, rounds=3, lr=v["lr"], steps=steps)
    for i in range(4):
        run.put("ditto v", v0[i], i)
    for t, cohort in cohorts(v):
        run.data = turned(data, done)
        run.play(cohort)
        done = [n + steps * (i in cohort) for i, n in enumerate(done)]
        for i in range(4):
            same("v", run.figure("ditto v", i), v["v"][t, i])
        same("w", run.figure("w"), v["w"][t])
    differs("v", v["v"][0, 0], v["plain_sgd"][0])


def test_ditto_on_paper_from_the_first_weights() -> None:
    v, ours, (w0, _) = vectors("ditto_shuu"), vectors("ditto_shuu_paper"), problem()
    run = Rounds(f"ditto(lam={v['lam']})", tiny_net(w0), tiny_data(), rounds=3, lr=v["lr"], epochs=int(v["epochs"]))
    for t, cohort in cohorts(v):
        run.play(cohort)
        for i in cohort:
            same("v", run.figure("ditto v", i), ours["v"][t, i])
        same("w", run.figure("w"), ours["w"][t])


# ---------------------------------------------------------------- APFL


@pytest.mark.parametrize("adaptive", [True, False])
def test_apfl_on_paper(adaptive: bool) -> None:
    """The released code mixes outputs; the paper mixes weights."""
    v, ours, (w0, v0) = vectors("apfl"), vectors("apfl_paper"), problem()
    method = f"apfl(alpha={v['alpha0']}, adaptive={str(adaptive).lower()})"
    run = Rounds(method, tiny_net(w0), tiny_data(), rounds=3, lr=v["lr"], epochs=int(v["epochs"]))
    for i in range(4):
        run.put("apfl v", v0[i], i)
    for t, cohort in cohorts(v):
        run.play(cohort)
        for i in range(4):
            same("v", run.figure("apfl v", i), ours["v" if adaptive else "v_fixed"][t, i])
            if adaptive:
                alpha = run.figure("apfl alpha", i, torch.tensor(v["alpha0"]))
                same("alpha", alpha, ours["alpha"][t, i])
        if adaptive:
            same("w", run.figure("w"), ours["w"][t])
        for i in cohort:  # w itself is FedAvg's in either code
            same("x", run.figure("theta", i), v["x"][t, i])
    differs("v", ours["v"][0, 0], v["plain_sgd"][0])


# ---------------------------------------------------------------- Per-FedAvg, pFedMe


def test_per_fedavg_of_first_order() -> None:
    """Two batches of the released code are one of ours, cut in two."""
    v, (w0, _) = vectors("perfedavg"), problem()
    steps, data, done = int(v["local_steps"]), tiny_data(), [0] * 4
    local: dict[str, Any] = {"lr": v["beta"], "steps": steps, "batch": 2 * BATCH}
    run = Rounds(f"per-fedavg(alpha={v['alpha']})", tiny_net(w0), data, rounds=3, **local)
    for t, cohort in cohorts(v):
        run.data = turned(data, done)
        run.play(cohort)
        done = [n + 2 * steps * (i in cohort) for i, n in enumerate(done)]
        for i in cohort:
            same("w_i", run.figure("theta", i), v["w_i"][t, i])
            if not t:
                differs("w_i", run.figure("theta", i), v["plain_sgd"][i])
        same("w", run.figure("w"), v["w"][t])


def test_pfedme_on_paper() -> None:
    """All clients train in the released code, and a cohort is averaged; its decay of θ is switched off (`_no_mu`)."""
    v, (w0, _) = vectors("pfedme"), problem()
    steps, data = int(v["local_steps"]), tiny_data()
    method = f"pfedme(lam={v['lam']}, K={v['K']}, personal_lr={v['personal_lr']}, beta={v['beta']})"
    run = Rounds(method, tiny_net(w0), data, rounds=3, lr=v["eta"], steps=steps)
    for t, cohort in cohorts(v):
        run.data = turned(data, [steps * t] * 4)
        run.play(cohort)
        for i in cohort:
            same("theta", run.figure("pfedme theta", i), v["theta_no_mu"][t, i])
            same("w_i", run.figure("theta", i), v["w_i_no_mu"][t, i])
            differs("theta", run.figure("pfedme theta", i), run.figure("theta", i))
        same("w", run.figure("w"), v["w_no_mu"][t])
