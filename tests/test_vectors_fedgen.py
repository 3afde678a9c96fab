"""FedGen by the figures of its authors' code at a client, and by what their server's loss was meant to be.

In the released product of losses and label weights every sample's loss meets every sample's weight, so the server's
steps are compared with the equations alone (`ours_…`). Its client has two losses, whose weights are options here.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from vector_problem import Rounds, differs, same, samples, tiny_net, vectors

from motet.methods import fedgen
from motet.methods.fedgen import Adam, Generator, alike

pytestmark = pytest.mark.usefixtures("exact")
OURS = ("first.weight", "norm.weight", "norm.bias", "last.weight", "last.bias")
NAMES = ("fc_layers.0.weight", "fc_layers.1.weight", "fc_layers.1.bias")
THEIRS = (*NAMES, "representation_layer.weight", "representation_layer.bias")
STATISTICS = {"norm.running_mean": "fc_layers.1.running_mean", "norm.running_var": "fc_layers.1.running_var"}
SMALL = "noise=5, hidden=7"


def flat(v: dict[str, Any], tag: str) -> Tensor:
    """Their generator in our layout."""
    form = Generator(5, 7, (4,), 3)
    G = torch.zeros(form.layout.size)
    for ours, theirs in (*zip(OURS, THEIRS, strict=True), *STATISTICS.items()):
        form.layout.places[ours].view(G).copy_(v[f"{tag}_{theirs}"])
    form.layout.places["norm.running_mean"].view(G).sub_(v[f"{tag}_fc_layers.0.bias"])  # ours has no such bias
    return G


def without_bias(gradient: Tensor) -> Tensor:
    """BatchNorm lets no gradient through to the bias before it, which is theirs alone."""
    assert float(gradient[56:63].abs().max()) < 1e-15
    return torch.cat([gradient[:56], gradient[63:]])


def parameters(G: Tensor) -> Tensor:
    places = Generator(5, 7, (4,), 3).layout.places
    return torch.cat([places[name].view(G).flatten() for name in OURS])


def given(monkeypatch: pytest.MonkeyPatch, draws: list[tuple[Tensor, Tensor]]) -> Iterator[tuple[Tensor, Tensor]]:
    """Each draw of the generator is the next of these."""
    left = iter(draws)
    monkeypatch.setattr(Generator, "draw", lambda self, p, count, rng: next(left))
    return left


@pytest.mark.parametrize(
    ("ensemble", "tag"),
    [("losses", "label_weighted_losses"), ("logits", "label_weighted_logits"), ("mean", "mean_logits")],
)
def test_the_servers_step(ensemble: str, tag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loss and gradient on one batch, and the step of torch's Adam along it."""
    v, w = vectors("fedgen"), vectors("second_problem")["w0"]
    losses, gradients, step = [], [], Generator.step

    def noted(self: Generator, G: Tensor, eps: Tensor, y: Tensor, loss: Any) -> tuple[Tensor, Tensor]:
        gradient, renewed = step(self, G, eps, y, lambda z: losses.append(loss(z)) or losses[-1])
        gradients.append(parameters(gradient))
        return gradient, renewed

    given(monkeypatch, [(v["div_eps"][0], v["div_y"][0])])
    monkeypatch.setattr(Generator, "step", noted)
    run = Rounds(f"fedgen({SMALL}, steps=1, lr=0.05, ensemble={ensemble})", tiny_net(w), four(), 2)
    run.put("fedgen G", flat(v, "gen0"))
    run.receive(v["client_models"], [24, 18, 30, 12], **{"fedgen.counts": v["label_counts"]})
    same("loss", losses[0], v[f"ours_{tag}_loss"])
    same("gradient", gradients[0], without_bias(v[f"ours_{tag}_gradient"]))
    before = parameters(flat(v, "gen0")).requires_grad_()
    before.grad = without_bias(v[f"ours_{tag}_gradient"])
    torch.optim.Adam([before], 0.05).step()
    same("G", parameters(run.figure("fedgen G")), before.detach())
    same("p", run.figure("fedgen p"), v["label_counts"].sum(0) / v["label_counts"].sum())
    expected = {name: v[f"div_gen_{theirs}"] for name, theirs in STATISTICS.items()}  # they do not depend on the loss
    expected["norm.running_mean"] = expected["norm.running_mean"] - v["gen0_fc_layers.0.bias"]
    for name, value in expected.items():
        same(name, Generator(5, 7, (4,), 3).layout.places[name].view(run.figure("fedgen G")), value)


def test_each_way_to_teach_is_told_apart() -> None:
    v = vectors("fedgen")
    tags = ("label_weighted_losses", "label_weighted_logits", "mean_logits")
    gradients = [v[f"ours_{tag}_gradient"] for tag in tags]
    for a, b in ((0, 1), (0, 2), (1, 2)):
        differs("gradient", gradients[a], gradients[b])


def test_label_weights_and_diversity() -> None:
    v = vectors("fedgen")
    counts = v["label_counts"]
    same("shares", (counts / counts.sum(0)).T, v["label_weights"])
    same("diversity", alike(v["diversity_noise"], v["diversity_output"]), v["diversity_value"])


def test_adam_goes_on_where_it_was() -> None:
    """Three steps, two of them by one object and the third by another, are torch's three."""
    w, gradients = torch.linspace(-1, 1, 5), [torch.linspace(k, 2 - k, 5) for k in range(3)]
    theirs = w.clone().requires_grad_()
    optimizer = torch.optim.Adam([theirs], 0.1)
    ours, adam = w, Adam(0.1, torch.zeros(5), torch.zeros(5), 0)
    for k, gradient in enumerate(gradients):
        adam = Adam(0.1, adam.m, adam.v, adam.t) if k == 2 else adam
        ours, theirs.grad = adam(ours, gradient), gradient
        optimizer.step()
    same("w", ours, theirs.detach())


def four() -> list[Any]:
    v = vectors("second_problem")
    return [samples(v[f"x{i}"], v[f"y{i}"]) for i in range(4)]


@pytest.mark.parametrize(
    ("options", "figure"),
    [
        ("alpha=10, beta=10, decay=0.98", "client_w"),
        ("alpha=0", "client_noreg_w"),
        ("alpha=1", "ours_client_alpha1_no_kl_w"),
    ],
)
def test_a_clients_training(options: str, figure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Client 0, three steps in the second round, with the generator that was trained in the first."""
    v, w = vectors("fedgen"), vectors("second_problem")["w0"]
    draws = [(v["client_eps_sampled"], v["client_sampled_y"]), (v["client_eps_same_label"], v["client_sampled_y"])]
    given(monkeypatch, [(eps[k], y[k]) for k in range(3) for eps, y in draws])
    run = Rounds(f"fedgen({SMALL}, {options})", tiny_net(w), four(), 2, lr=v["client_lr"], steps=3)
    run.put("fedgen G", flat(v, "three_gen"))
    run.put("fedgen p", torch.ones(3) / 3)
    run.round = v["client_glob_iter"]
    run.sent = {0: run.method.broadcast(run.server, 0)}
    run.round += 1
    theta = torch.as_tensor(run.method.train(run.client(0), run.sent[0])["w"])
    same("theta", theta, v[figure])
    if figure != "client_noreg_w":
        differs("theta", theta, v["client_noreg_w"])


def test_the_first_round_is_fedavgs_and_the_second_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    v = vectors("second_problem")
    run, plain = (
        Rounds(name, tiny_net(v["w0"]), four(), 2, lr=0.1) for name in (f"fedgen({SMALL}, steps=3)", "fedavg")
    )
    for run_ in (run, plain):
        run_.play(range(4))
    assert "fedgen.G" not in run.sent[0] and torch.equal(run.figure("w"), plain.figure("w"))
    for i in range(4):
        assert torch.equal(torch.as_tensor(run.replies[i]["fedgen.counts"]), v["counts"][i])
    for run_ in (run, plain):
        run_.play(range(4))
    assert "fedgen.G" in run.sent[0]
    differs("w", run.figure("w"), plain.figure("w"))


def test_each_step_of_a_client_draws_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, draw = [], Generator.draw
    run = Rounds(f"fedgen({SMALL}, steps=2)", tiny_net(vectors("second_problem")["w0"]), four(), 2, lr=0.1)
    run.play([0])
    monkeypatch.setattr(Generator, "draw", lambda *how: drawn.append(draw(*how)) or drawn[-1])
    run.play([0])
    assert len(drawn) == 4 * 2 + 2  # four steps of the client, two of the server
    assert len({eps.numpy().tobytes() for eps, _ in drawn}) == len(drawn)


def test_draws_are_of_the_rounds_randomness_and_of_p() -> None:
    """ε is standard normal, y follows p, and each step of a client draws anew."""
    form, rng = Generator(3, 4, (2,), 3), torch.Generator().manual_seed(1)
    eps, y = form.draw(torch.tensor([0.2, 0.0, 0.8]), 4000, rng)
    assert abs(float(eps.mean())) < 0.05 and abs(float(eps.std()) - 1) < 0.05
    assert (y != 1).all() and abs(float((y == 2).double().mean()) - 0.8) < 0.03
    assert fedgen.BETA2 == 0.999
