"""What a method becomes when its own term is switched off, to the bit or nearly; and what is left of it then."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor
from vector_problem import Rounds, differs, linear_net, same, tiny_data, tiny_net, vectors

from motet.methods.averaging import Averaging
from motet.methods.base import Facts
from motet.methods.knn_per import KNNPer
from motet.testing import CHECKS, check_method

LOCAL = {"lr": 0.1, "momentum": 0.5, "epochs": 2}


def rounds(method: str, count: int = 3, **local: object) -> Rounds:
    """A few rounds in which everybody takes part, batches in stored order."""
    w0 = vectors("problem")["w0"]
    run = Rounds(method, tiny_net(w0), tiny_data(), rounds=count, **(LOCAL | local))
    for _ in range(count):
        run.play(range(4))
    return run


def personal(run: Rounds, i: int, source: str = "last_participation") -> Tensor:
    method, who = run.method, run.client(i)
    assert isinstance(method, Averaging)
    who.source = source  # type: ignore[assignment]
    w = method.personal_weights(who, method.broadcast(run.server, i))
    assert w is not None
    return method.layout.convert(w, method.plain)


@pytest.mark.usefixtures("exact")
def test_ditto_without_lambda_keeps_a_purely_local_model() -> None:
    ditto, local, fedavg = rounds("ditto(lam=0)"), rounds("local"), rounds("fedavg")
    for i in range(4):
        same("v", personal(ditto, i), personal(local, i), 1e-12)
        differs("v", personal(rounds("ditto(lam=1)"), i), personal(local, i))
    same("w", ditto.figure("w"), fedavg.figure("w"), 0)


@pytest.mark.usefixtures("exact")
def test_mtl_without_lambda_is_local() -> None:
    for i in range(4):
        same("w_i", personal(rounds("mtl(lam=0)"), i), personal(rounds("local"), i), 1e-12)
        differs("w_i", personal(rounds("mtl(lam=0.5)"), i), personal(rounds("local"), i))


@pytest.mark.usefixtures("exact")
def test_mtls_circulated_penalty_is_the_gradient_of_its_formula() -> None:
    """10^(−p)·(‖W‖² + tr(WΩWᵀ)) with the other columns at rest at their mean."""
    from motet.methods.mtl import Lineage

    d, m = 5, 3
    w, mean = torch.randn(d), torch.randn(d)
    leaf = w.clone().requires_grad_()
    W = torch.stack([leaf, *[mean] * (m - 1)], 1)
    omega = (torch.eye(m) - 1 / m).square()
    scale = 10.0 ** -(math.floor(math.log10(d) + 1) + 1)
    (scale * ((leaf**2).sum() + (W @ omega @ W.T).trace())).backward()

    class Stub:
        shared, anchor, g_shared = w, mean, torch.zeros(d)

    Lineage(m=m).correct(Stub())  # type: ignore[arg-type]
    assert leaf.grad is not None
    torch.testing.assert_close(Stub.g_shared, leaf.grad)


@pytest.mark.usefixtures("exact")
def test_apfl_with_alpha_zero_scores_the_global_model() -> None:
    run = rounds("apfl(alpha=0, adaptive=false)")
    for i in range(4):
        same("personal", personal(run, i, "global_plus_personal"), run.figure("w"), 0)
        other = rounds("apfl(alpha=0.5, adaptive=false)")
        differs("personal", personal(other, i, "global_plus_personal"), other.figure("w"))
    same("w", run.figure("w"), rounds("fedavg(weighting=uniform)").figure("w"), 1e-14)


@pytest.mark.usefixtures("exact")
def test_fedrep_without_head_epochs_leaves_the_head() -> None:
    w0 = vectors("problem")["w0"]
    for i in range(4):
        same("head", personal(rounds("fedrep(head_epochs=0)"), i)[59:], w0[59:], 0)
        differs("head", personal(rounds("fedrep(head_epochs=1)"), i)[59:], w0[59:])


@pytest.mark.usefixtures("exact")
def test_what_stays_is_not_uploaded() -> None:
    sizes = {"fedper": 59, "fedrep": 59, "fedbabu": 59, "lg-fedavg": 15, "fedavg": 74}
    for method, size in sizes.items():
        assert all(len(reply["w"]) == size for reply in rounds(method, 1).replies.values())  # type: ignore[arg-type]


@pytest.mark.usefixtures("exact")
def test_per_fedavg_with_inner_rate_zero_takes_plain_steps_on_the_second_halves() -> None:
    v = vectors("perfedavg")
    run = rounds("per-fedavg(alpha=0)", 1, lr=v["beta"], momentum=0.0, steps=3, epochs=1, batch=12)
    same("w_i", run.figure("theta", 0), v["plain_sgd"][0])  # the first client has whole batches of twelve
    hf = rounds("per-fedavg(alpha=0, variant=hf)", 1, momentum=0.0, batch=12)
    differs("hf", rounds("per-fedavg(alpha=0.2, variant=hf)", 1, momentum=0.0, batch=12).figure("w"), hf.figure("w"))


@pytest.mark.usefixtures("exact")
def test_the_hessian_free_step_is_that_of_the_true_hessian() -> None:
    """(I − α∇²f(w; D″))∇f(w − α∇f(w; D); D′), by autograd's second derivative."""
    alpha = 0.3
    run = rounds(f"per-fedavg(alpha={alpha}, variant=hf, delta=0.0001)", 0)
    method, w0 = run.method, vectors("problem")["w0"]
    assert isinstance(method, Averaging)
    t = method.begin_round(run.client(0), method.broadcast(run.server, 0))
    t.bind()
    method.net.train()
    x, y = tiny_data()[0].batch(torch.arange(24))
    method.gradient(t, x, y)

    net = tiny_net(w0)

    def risk(w: Tensor, part: int) -> Tensor:
        named = {name: place.view(w) for name, place in method.plain.places.items()}
        logits = torch.func.functional_call(net, named, x[8 * part : 8 * part + 8])
        return torch.nn.functional.cross_entropy(logits, y[8 * part : 8 * part + 8])

    g = torch.func.grad(risk)
    inner = g(w0 - alpha * g(w0, 0), 1)
    _, bend = torch.func.jvp(lambda w: g(w, 2), (w0,), (inner,))
    same("step", t.g, inner - alpha * bend, 1e-6)
    differs("step", inner - alpha * bend, inner)


@pytest.mark.usefixtures("exact")
def test_pfedmes_theta_is_the_envelopes_minimum() -> None:
    """With enough inner steps ∇f(θ) + λ(θ − x) = 0 on the last batch, of a net without kinks."""
    w0 = vectors("problem")["w0"][:21]
    run = Rounds("pfedme(lam=4, K=4000, personal_lr=0.05)", linear_net(6, 3, w0), tiny_data(), lr=0.1)
    method = run.method
    assert isinstance(method, Averaging)
    t = method.begin_round(run.client(0), method.broadcast(run.server, 0))
    t.bind()
    x, y = tiny_data()[0].batch(torch.arange(6))
    method.gradient(t, x, y)
    theta = t["pfedme.theta"]
    residual = t.gradient_at(theta, x, y) + 4 * (theta - t.w)
    assert residual.abs().max() < 1e-8 and (theta - t.w).abs().max() > 1e-3


@pytest.mark.usefixtures("exact")
def test_l2gd_that_never_averages_is_local_at_a_fourth_of_the_rate() -> None:
    ours, local = rounds("l2gd(p=0, rate=literal)", lr=0.4, steps=1), rounds("local", lr=0.1, steps=1)
    for i in range(4):
        same("x_i", personal(ours, i), personal(local, i), 1e-12)


@pytest.mark.usefixtures("exact")
def test_knn_per_without_neighbours_answers_as_the_model_does() -> None:
    x = tiny_data()[0].x
    for lam, equal in ((0.0, True), (1.0, False)):
        run = rounds(f"fedavg+knn-per(lam={lam})", 1)
        method = run.method
        assert isinstance(method, KNNPer)
        message = method.broadcast(run.server, 1)
        ours = method.personal(run.client(1), message)
        assert ours is not None
        answers = ours(x).exp()
        plain = method.inner.personal(run.client(1).from_the_global_model(), message)
        assert plain is not None
        assert torch.allclose(answers, torch.softmax(plain(x), 1)) is equal


def test_fedbn_keeps_normalization_and_needs_some(tmp_path: Path) -> None:
    from motet.errors import MotetError
    from motet.methods import build_method
    from motet.nets import build_net

    net = f"{Path(__file__).parent / 'batchnorm_net.py'}:build"
    assert check_method("fedbn", net={"name": net}) == list(CHECKS)
    from inputs import input_of

    method = build_method("fedbn", build_net(net, input_of(1, 8, 8), 10), Facts((0, 1), 2, 3, 10))
    assert isinstance(method, Averaging)
    kept = {n for n, p in method.layout.places.items() if p.where.start >= method.layout.private.start}
    assert kept == {n for n in method.layout.places if n.startswith(("conv.1.", "fc1.1."))}
    with pytest.raises(MotetError, match="keeps normalization layers, and this net has none"):
        build_method("fedbn", build_net("mlp", input_of(8), 3), Facts((0, 1), 2, 3, 10))


@pytest.mark.parametrize(
    "method",
    [
        "fedrep(head_epochs=1)",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("fedavg", "ditto", "per-fedavg", "pfedme", "moon")),
    ],
)
def test_methods_run_on_nets_that_normalize(method: str) -> None:
    assert check_method(method, net={"name": f"{Path(__file__).parent / 'batchnorm_net.py'}:build"}) == list(CHECKS)
