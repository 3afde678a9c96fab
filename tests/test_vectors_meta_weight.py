"""Meta-BSM's weight net and its order of steps by the figures of Meta-Weight-Net's authors' code.

Equal class counts make balanced softmax cross-entropy and leave γ alone. Their sum is divided by the batch size n, ours
by Σ q: so weights are compared with n/Σ q between them, and the gradient of ζ with n in the place of Σ q.
Their weight net and their classifier have rates of their own, ours have one, so each step is compared from its start.
"""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from vector_problem import Rounds, differs, linear_net, same, samples, vectors

from motet.methods import meta_bsm
from motet.methods.meta_bsm import MetaBSM, mwnet

ETA = 0.5  # the classifier's, and so the virtual step's
STILL = 1e-15  # a rate at which ζ does not move
pytestmark = [
    pytest.mark.usefixtures("exact"),
    pytest.mark.parametrize("tag", ["paper_sgd", "released"]),
    pytest.mark.parametrize("step", [1, 2]),
]


def zeta(v: dict[str, Any], prefix: str) -> Tensor:
    return torch.cat([v[prefix + name].flatten() for name in ("v1w", "v1b", "v2w", "v2b")])


def before(v: dict[str, Any], tag: str, step: int) -> tuple[Tensor, Tensor]:
    """Classifier and ζ at the start of a step."""
    if step == 1:
        return torch.cat([v["W0"].flatten(), v["b0"]]), zeta(v, "")
    return after(v, tag, step - 1)


def after(v: dict[str, Any], tag: str, step: int) -> tuple[Tensor, Tensor]:
    prefix = f"{tag}_step{step}_"
    return torch.cat([v[prefix + "W"].flatten(), v[prefix + "b"]]), zeta(v, prefix)


def batch(v: dict[str, Any], step: int) -> tuple[Tensor, Tensor]:
    rows = slice(6 * step - 6, 6 * step)
    return v["x"][rows], v["y"][rows]


def losses(v: dict[str, Any], w: Tensor, step: int) -> Tensor:
    x, y = batch(v, step)
    return cross_entropy(linear_net(6, 3, w)(x), y, reduction="none")


def trained(v: dict[str, Any], w: Tensor, zeta: Tensor, step: int, eta: float) -> Rounds:
    """One client, one batch, from these weights and this ζ."""
    data, shared = [samples(*batch(v, step))], samples(v["x_meta"], v["y_meta"])
    net, counts = linear_net(6, 3, w), torch.ones(3, dtype=torch.int64)
    run = Rounds(f"meta-bsm(eta={eta})", net, data, counts=counts, shared=shared, lr=v["lr_model"])
    run.put("meta gamma", torch.ones(1), 0)
    run.put("meta zeta", zeta, 0)
    run.play([0])
    return run


def test_weights_of_samples(tag: str, step: int) -> None:
    """q before and after ζ's step, from the loss of each sample."""
    v, (w, zeta_before) = vectors("meta_weight_net"), before(vectors("meta_weight_net"), tag, step)
    loss, prefix = losses(v, w, step), f"{tag}_step{step}_"
    same("losses", loss, v[prefix + "losses"])
    same("q before", mwnet(loss, zeta_before), v[prefix + "q_before"])
    same("q after", mwnet(loss, after(v, tag, step)[1]), v[prefix + "q_after"])


def test_the_meta_step(tag: str, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """ζ descends cross-entropy on the shared set, at weights one virtual step ahead."""
    monkeypatch.setattr(meta_bsm, "weighted", lambda q, loss: (q * loss).sum() / len(loss))
    v, (w, start) = vectors("meta_weight_net"), before(vectors("meta_weight_net"), tag, step)
    ahead, risk = {}, MetaBSM.meta_risk
    monkeypatch.setattr(MetaBSM, "meta_risk", lambda self, t, w, *rest: ahead.update(w) or risk(self, t, w, *rest))
    run = trained(v, w, start, step, ETA)
    same("virtual W", ahead["fc.weight"], v[f"{tag}_step{step}_virtual_W"])
    same("virtual b", ahead["fc.bias"], v[f"{tag}_step{step}_virtual_b"])
    same("gradient of ζ", (start - run.figure("meta zeta", 0)) / ETA, zeta(v, f"{tag}_step{step}_grad_"))
    same("γ", run.figure("meta gamma", 0), torch.ones(1))


def test_the_real_step(tag: str, step: int) -> None:
    """w descends with q of the new ζ. Released: theirs has momentum and decay, which are taken out here."""
    v, (w, _) = vectors("meta_weight_net"), before(vectors("meta_weight_net"), tag, step)
    new_w, new_zeta = after(v, tag, step)
    theirs = (w - new_w) / v["lr_model"]
    if tag == "released":
        theirs = theirs - v["wd_model_released"] * w
    if tag == "released" and step == 2:
        theirs = theirs - v["momentum_released"] * (before(v, tag, 1)[0] - w) / v["lr_model"]
    q = v[f"{tag}_step{step}_q_after"]
    run = trained(v, w, new_zeta, step, STILL)
    same("step of w", (w - run.figure("theta", 0)) / v["lr_model"], theirs * len(q) / q.sum())


def test_the_meta_step_comes_first(tag: str, step: int) -> None:
    """The real step is that of the ζ which the meta step has just made."""
    v, (w, start) = vectors("meta_weight_net"), before(vectors("meta_weight_net"), tag, step)
    run = trained(v, w, start, step, ETA)
    moved = run.figure("meta zeta", 0)
    differs("ζ", moved, start)
    same("w", run.figure("theta", 0), trained(v, w, moved, step, STILL).figure("theta", 0))
    differs("w", run.figure("theta", 0), trained(v, w, start, step, STILL).figure("theta", 0))
