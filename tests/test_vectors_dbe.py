"""DBE and its first half PRBM by the figures of their authors' code, and DBE by its paper's initial consensus.

The code takes a client's mean from the running mean of the initial epoch (`ema_last`), the paper from all its data
with the extractor of that epoch (`full_pass`).
"""

from typing import Any

import pytest
import torch
from vector_problem import Rounds, cohorts, differs, plain_sgd, same, tiny_data, tiny_net, vectors

pytestmark = pytest.mark.usefixtures("exact")


def check_rounds(run: Rounds, v: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Cohorts and settings of v; m and plain SGD only where the file has them."""
    w, local = run.figure("w"), {"lr": v["lr"], "epochs": v["epochs"]}
    for t, cohort in cohorts(v):
        run.play(cohort)
        for i in cohort:
            plain = plain_sgd(w, i, tiny_net(w), tiny_data(), **local)
            same("theta", run.figure("theta", i), theirs["theta"][t, i])
            differs("theta", run.figure("theta", i), plain, least=1e-4)  # p begins at zero, and is slow
            if "m" in theirs:
                same("m", run.figure("dbe m", i), theirs["m"][t, i])
            if "plain_sgd" in theirs:
                same("plain SGD", plain, theirs["plain_sgd"][t, i])
        for i in range(4):
            same("p", run.figure("dbe p", i, torch.zeros(4)), theirs["p"][t, i])
        w = run.figure("w")
        same("w", w, theirs["w"][t])


@pytest.mark.parametrize(("mean_init", "tag"), [("ema_last", ""), ("full_pass", "_paper")])
@pytest.mark.parametrize("file", ["dbe_mu1", "dbe_mu01"])
def test_dbe(file: str, mean_init: str, tag: str) -> None:
    v, theirs, w = vectors(file), vectors(file + tag), vectors("problem")["w0"]
    method = f"dbe(kappa={v['kappa']}, mu={v['mu']}, mean_init={mean_init})"
    run = Rounds(method, tiny_net(w), tiny_data(), 3, lr=v["lr"], epochs=v["epochs"])
    run.prepare()
    for i in range(4):
        same("theta_init", run.figure("trained", i), v["theta_init"][i])
        same("z_bar_i", run.figure("dbe z_bar_i", i), theirs["z_bar_i"][i])
    same("z_bar", run.figure("dbe z_bar"), theirs["z_bar"])
    check_rounds(run, v, theirs)


def test_prbm() -> None:
    v = vectors("prbm")
    check_rounds(Rounds("prbm", tiny_net(vectors("problem")["w0"]), tiny_data(), 3, lr=v["lr"]), v, v)


def test_the_two_consensus_means_are_told_apart() -> None:
    for file in ("dbe_mu1", "dbe_mu01"):
        differs("w", vectors(file)["w"][0], vectors(file + "_paper")["w"][0])
