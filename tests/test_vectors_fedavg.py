"""FedAvg by the second problem's figures, and FedProx by those of MOON's repository."""

import pytest
from vector_problem import Rounds, cohorts, differs, plain_sgd, same, samples, tiny_data, tiny_net, vectors

pytestmark = pytest.mark.usefixtures("exact")


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(("epochs", "tag"), [(1, "1epoch"), (2, "2epochs")])
def test_fedavg(epochs: int, tag: str, together: bool) -> None:
    v = vectors("second_problem")
    data = [samples(v[f"x{i}"], v[f"y{i}"]) for i in range(4)]
    run = Rounds("fedavg", tiny_net(v["w0"]), data, together=together, lr=v["lr"], epochs=epochs)
    run.play(range(4))
    for i in range(4):
        same("theta", run.figure("theta", i), v[f"fedavg_local_{tag}"][i])
    same("w", run.figure("w"), v[f"fedavg_global_{tag}"])


@pytest.mark.parametrize("together", [False, True])
def test_fedprox(together: bool) -> None:
    """f_i(x) + (μ/2)‖x − w‖², averaged by samples."""
    v, w = vectors("fedprox"), vectors("problem")["w0"]
    local = {name: v[name] for name in ("lr", "momentum", "epochs")}
    run = Rounds(f"fedprox(mu={v['mu']})", tiny_net(w), tiny_data(), rounds=3, together=together, **local)
    for t, cohort in cohorts(v):
        run.play(cohort)
        for i in cohort:
            same("theta", run.figure("theta", i), v["theta"][t, i])
            same("plain SGD", plain_sgd(w, i, tiny_net(w), tiny_data(), **local), v["plain_sgd"][t, i])
            differs("theta", run.figure("theta", i), v["plain_sgd"][t, i])
        w = run.figure("w")
        same("w", w, v["w"][t])
