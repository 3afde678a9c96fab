"""FedDyn by the figures of its authors' code, and by its paper's equations.

The code gives each client a λ of its own, by its size. Where all clients have 12 samples that is the paper's one λ.
"""

import pytest
import torch
from vector_problem import Rounds, cohorts, differs, plain_sgd, same, tiny_data, tiny_net, vectors

pytestmark = [pytest.mark.usefixtures("exact"), pytest.mark.parametrize("together", [False, True])]


def test_the_authors_code_on_equal_sizes(together: bool) -> None:
    v, w = vectors("feddyn_equal"), vectors("problem")["w0"]
    data, lam, local = tiny_data(v["samples"].tolist()), v["lam"], {"lr": v["lr"], "epochs": v["epochs"]}
    run, nothing = Rounds(f"feddyn(lam={lam})", tiny_net(w), data, 4, together=together, **local), torch.zeros(74)
    x = [w] * 4
    for t, cohort in cohorts(v):
        run.play(cohort)
        for i in cohort:
            x[i] = run.figure("theta", i)
            same("plain SGD", plain_sgd(w, i, tiny_net(w), data, **local), v["plain_sgd"][t, i])
            differs("x", x[i], v["plain_sgd"][t, i])
        w, h = run.figure("w"), run.figure("feddyn h")
        for i in range(4):
            same("x", x[i], v["x"][t, i])
            same("hist", -run.figure("feddyn h_i", i, nothing) / lam, v["hist"][t, i])
        same("w", w, v["w"][t])
        same("mean of the cohort", w + h / lam, v["mean_of_cohort"][t])
        same("mean of hist", -h / lam, v["hist"][t].mean(0))


def test_the_papers_equations(together: bool) -> None:
    v, paper, w = vectors("feddyn"), vectors("feddyn_paper"), vectors("problem")["w0"]
    local = {"lr": v["lr"], "epochs": v["epochs"]}
    run = Rounds(f"feddyn(lam={v['lam']})", tiny_net(w), tiny_data(), 4, together=together, **local)
    for t, cohort in cohorts(v):
        run.play(cohort)
        for i in cohort:
            same("x", run.figure("theta", i), paper["x"][t, i])
        for i in range(4):
            same("h_i", run.figure("feddyn h_i", i, torch.zeros(74)), paper["h_i"][t, i])
        same("h", run.figure("feddyn h"), paper["h"][t])
        same("w", run.figure("w"), paper["w"][t])
        differs("one λ for all", run.figure("w"), v["w"][t])
