"""PGFed and PGFedMo by the figures of their authors' code, where momentum persists over a client's rounds, and with
that momentum reset."""

import pytest
import torch
from vector_problem import Rounds, differs, plain_sgd, same, tiny_data, tiny_net, vectors

pytestmark = pytest.mark.usefixtures("exact")
METHODS = {"pgfed": "pgfed(mu={mu}, eta2={eta2})", "pgfedmo": "pgfedmo(mu={mu}, eta2={eta2}, beta={beta})"}


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("file", ["pgfed", "pgfed_reset", "pgfedmo", "pgfedmo_reset"])
def test_pgfed(file: str, together: bool) -> None:
    v, w = vectors(file), vectors("problem")["w0"]
    method, M = METHODS[file.removesuffix("_reset")].format(**v), v["cohorts"].shape[1]
    local = {name: v[name] for name in ("lr", "momentum", "epochs")}
    kept = {"momentum_across_rounds": "persist" if v["momentum_persists"] else "reset"}
    run = Rounds(method, tiny_net(w), tiny_data(), 4, cohort=M, together=together, **local, **kept)
    for t, cohort in enumerate(v["cohorts"].tolist()):
        run.play(cohort)
        for i in cohort:
            theta, c = run.figure("theta", i), run.figure("pgfed c", i)
            same("theta", theta, v["theta"][t, i])
            same("G", run.figure("pgfed G", i), v["G"][t, i])
            same("c", c, v["c"][t, i])
            same("loss_minus", c / v["mu"], v["loss_minus"][t, i])
            same("plain SGD", plain_sgd(w, i, tiny_net(w), tiny_data(), **local), v["plain_sgd"][t, i])
            if t:  # round one is FedAvg's
                same("g̃", run.figure("pgfed g_tilde", i), v["g_tilde"][t, i])
                differs("theta", theta, v["plain_sgd"][t, i])
        w = run.figure("w")
        same("w", w, v["w"][t])
        same("ḡ", run.figure("pgfed g_bar"), v["g_bar"][t])
        same("α", run.figure("pgfed alpha"), v["alpha"][t])
    assert (run.figure("pgfed alpha") == 0).any(), "some α are clipped"


def test_each_choice_shows() -> None:
    """Momentum of the steps that persists, and momentum of the auxiliary gradient."""
    files = [vectors(name)["w"][-1] for name in METHODS] + [vectors("pgfed_reset")["w"][-1]]
    for a, b in ((0, 1), (0, 2)):
        differs("w", files[a], files[b])
    assert torch.stack(files).isfinite().all()
