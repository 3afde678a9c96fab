"""SCAFFOLD by the figures of two released codes, on equal sizes, and by its paper's algorithm (option II).

NIID-Bench averages x by samples but c uniformly; Acar et al. scale c by a client's size in the steps alone. On equal
sizes both are the paper's algorithm, whose means are uniform.
"""

import pytest
import torch
from vector_problem import Rounds, cohorts, differs, plain_sgd, same, tiny_data, tiny_net, vectors

pytestmark = [pytest.mark.usefixtures("exact"), pytest.mark.parametrize("together", [False, True])]


@pytest.mark.parametrize(
    ("settings", "figures"),
    [
        ("scaffold_equal", "scaffold_equal"),
        ("scaffold_equal_acar", "scaffold_equal_acar"),
        ("scaffold", "scaffold_paper"),
    ],
)
def test_scaffold(settings: str, figures: str, together: bool) -> None:
    v, theirs, w = vectors(settings), vectors(figures), vectors("problem")["w0"]
    data, local = tiny_data(v["samples"].tolist()), {"lr": v["lr"], "epochs": v["epochs"]}
    run = Rounds("scaffold", tiny_net(w), data, len(v["w"]), together=together, **local)
    for t, cohort in cohorts(v):
        run.play(cohort)
        for i in cohort:
            x, plain = run.figure("theta", i), plain_sgd(w, i, tiny_net(w), data, **local)
            same("x", x, theirs["x"][t, i])
            if settings == figures:  # the paper's w are others, so that plain SGD starts elsewhere
                same("plain SGD", plain, v["plain_sgd"][t, i])
            if t:  # in round one c and c_i are zero
                differs("x", x, plain)
        for i in range(4):
            same("c_i", run.figure("scaffold c_i", i, torch.zeros(74)), theirs["c_i"][t, i])
        same("c", run.figure("scaffold c"), theirs["c"][t])
        w = run.figure("w")
        same("w", w, theirs["w"][t])
