"""SuPerFed-MM and -LM by the figures of their authors' code, and by their paper's equations, with the λ drawn there.

The code sums each tensor's norm ‖w^f − w^g‖ and adds 1e-6 to every product in the cosine; `_no_offset` are the figures
of the same code without that number. The paper squares the norm.
"""

import pytest
import torch
from vector_problem import Rounds, differs, drawing, plain_sgd, same, tiny_data, tiny_net, vectors

pytestmark = [pytest.mark.usefixtures("exact"), pytest.mark.parametrize("kind", ["mm", "lm"])]


def trained(kind: str, prox: str, start: float) -> Rounds:
    """One round of all clients, mixing from the start (start=0) or not yet (start=1): ν waits for it in these files."""
    v, problem = vectors(f"superfed_{kind}"), vectors("problem")
    local = {name: v[name] for name in ("lr", "momentum", "epochs", "weight_decay")}
    as_printed = f"start={start}, nu_from=mixing, local_init=fresh, lr_compensation=false"
    method = f"superfed-{kind}(mu={v['mu']}, nu={v['nu']}, prox={prox}, {as_printed})"
    run = Rounds(method, tiny_net(problem["w0_nobias"], bias=False), tiny_data(), **local)
    for i in range(4):
        run.put("superfed w_l", problem["wl_nobias"][i], i)
    steps = torch.cat([v["lam"][i, : 2 * n // 6] for i, n in enumerate(problem["sizes"].tolist())])
    with drawing(steps.reshape(len(steps), -1)):  # one λ for the model, or one for each module
        run.play(range(4))
    return run


def ends(run: Rounds) -> dict[str, torch.Tensor]:
    both = {"w_f": "theta", "w_l": "superfed w_l"}
    return {k: torch.stack([run.figure(name, i) for i in range(4)]) for k, name in both.items()}


@pytest.mark.parametrize("tag", ["_no_offset", "_before"])
def test_the_authors_code(kind: str, tag: str) -> None:
    v = vectors(f"superfed_{kind}")
    run = trained(kind, "sum_of_norms", start=float(tag == "_before"))
    for name, ours in ends(run).items():
        same(name, ours, v[name + tag])
        if tag == "_no_offset":
            same("with the offset", ours, v[name], tolerance=3e-6)
    same("w_g", run.figure("w"), v["w_g" + tag])


@pytest.mark.parametrize("tag", ["", "_before"])
def test_the_papers_equations(kind: str, tag: str) -> None:
    paper, problem = vectors(f"superfed_{kind}_paper"), vectors("problem")
    run = trained(kind, "squared", start=float(tag == "_before"))
    for name, ours in ends(run).items():
        same(name, ours, paper[name + tag])
    same("w_g", run.figure("w"), paper["w_g" + tag])
    differs("w_f", ends(run)["w_f"], paper["plain_sgd"])
    assert torch.equal(ends(run)["w_l"], problem["wl_nobias"]) == (tag == "_before"), "w^l rests until then"


def test_plain_sgd_is_fedavgs(kind: str) -> None:
    v, w = vectors(f"superfed_{kind}"), vectors("problem")["w0_nobias"]
    local = {name: v[name] for name in ("lr", "momentum", "epochs", "weight_decay")}
    for i in range(4):
        plain = plain_sgd(w, i, tiny_net(w, bias=False), tiny_data(), **local)
        same("plain SGD", plain, vectors(f"superfed_{kind}_paper")["plain_sgd"][i])
        differs("w_f", v["w_f"][i], plain)
    differs("squared or not", v["w_g"], vectors(f"superfed_{kind}_paper")["w_g"])
