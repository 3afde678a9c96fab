"""Meta-BSM (FED-ROD, appendix B.5): each client learns its γ_m and its samples' weights on a small balanced set."""

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from motet.messages.message import Message, tensor
from motet.methods.balanced import BalancedRisk
from motet.methods.base import Forward, MethodEntry, Training
from motet.nets import Net
from motet.training.client import Client
from motet.training.flat_weights import matches
from motet.training.losses import bsm

HIDDEN = 100  # hidden units of the Meta-Weight-Net (Shu et al. 2019)


class MetaBSM(BalancedRisk):
    """L_BR ∝ Σ_i q_i ℓ_i, with ℓ_i the balanced softmax of γ_m and q_i = MWNet(ℓ_i; ζ_m).

    γ_m and ζ_m never leave the client. As printed, the meta loss is weighted by q too, so that q → 0 minimizes it;
    the default is plain cross-entropy on D_meta, as in Meta-Weight-Net.
    """

    needs_shared_data: ClassVar[bool] = True

    gamma: float = Field(1.0, description="γ_m before the client's first training")
    learn_gamma: bool = Field(True, description="learn γ_m beside the samples' weights, or leave it as it is")
    virtual: Literal["full", "head"] = Field(
        "full", description="weights of the virtual step: all of the generic model, or its head alone (cheaper)"
    )
    meta_loss: Literal["ce", "literal"] = Field(
        "ce", description="on the shared set: cross-entropy, or the weighted BSM loss that the paper prints"
    )
    eta: float | None = Field(
        None, gt=0, description="η of the virtual step and of γ_m, ζ_m; left out: the round's learning rate"
    )

    def extend(self, net: Net) -> None:
        """Turn off the net's fast path: step 4 differentiates through the gradient of step 3, which it does not
        support."""
        net.rows = False

    def before(self, t: Training, message: Message) -> None:
        """Store D_meta, and γ_m, ζ_m as the last training left them."""
        shared, mine = t.client.shared_data, t.client.private
        assert shared is not None
        x, y = shared.batch(torch.arange(len(shared)))
        if self.meta_loss == "literal":  # log 0 = −∞: a class the client lacks has no BSM loss
            held = t.counts.cpu()[y] > 0
            x, y = x[held], y[held]
        t["meta-bsm.x"], t["meta-bsm.y"] = x.to(t.w.device), y.to(t.w.device)
        known = "meta-bsm.gamma" in mine
        t["meta-bsm.gamma"] = (tensor(mine, "meta-bsm.gamma") if known else torch.tensor([self.gamma])).to(t.w)
        t["meta-bsm.zeta"] = (tensor(mine, "meta-bsm.zeta") if known else initial_zeta(t.client)).to(t.w)

    def criterion(self, t: Training, out: Forward, y: Tensor) -> Tensor:
        """Step 5: return the real loss, with γ_m and q after the meta step."""
        if t.net.training and torch.is_grad_enabled():
            self.meta_step(t, out.logits, y)
        loss = bsm(out.logits, y, t.counts, t["meta-bsm.gamma"], "none")
        return weighted(mwnet(loss, t["meta-bsm.zeta"]), loss)

    def meta_step(self, t: Training, logits: Tensor, y: Tensor) -> None:
        """Steps 1 to 4: γ_m and ζ_m descend the meta loss of a model that is one virtual step ahead."""
        gamma, zeta = (t[name].detach().requires_grad_() for name in ("meta-bsm.gamma", "meta-bsm.zeta"))
        eta = self.eta or t.descent.lr
        loss = bsm(logits, y, t.counts, gamma, "none")  # 1
        q = mwnet(loss, zeta)  # 2
        w = self.virtual_weights(t)
        steps = torch.autograd.grad(weighted(q, loss), list(w.values()), create_graph=True)  # 3
        ahead = {name: p - eta * g for (name, p), g in zip(w.items(), steps, strict=True)}
        slopes = torch.autograd.grad(self.meta_risk(t, ahead, gamma, zeta), (gamma, zeta))  # 4
        t["meta-bsm.zeta"] = zeta.detach() - eta * slopes[1]
        if self.learn_gamma:
            t["meta-bsm.gamma"] = gamma.detach() - eta * slopes[0]

    def virtual_weights(self, t: Training) -> dict[str, Tensor]:
        """w, by name: θ and ψ, or ψ alone"""
        stages = t.net.head_names() if self.virtual == "head" else [name + "." for name in t.net.stage_names]
        return {name: p for name, p in t.net.named_parameters() if p.requires_grad and matches(name, stages)}

    def meta_risk(self, t: Training, w: dict[str, Tensor], gamma: Tensor, zeta: Tensor) -> Tensor:
        """Return the loss of the generic model with weights w on D_meta, without a change of the net's statistics."""
        buffers = {name: b.clone() for name, b in t.net.named_buffers()}
        logits = functional_call(t.net, w | buffers, t["meta-bsm.x"])
        if self.meta_loss == "ce":
            return cross_entropy(logits, t["meta-bsm.y"])
        loss = bsm(logits, t["meta-bsm.y"], t.counts, gamma, "none")
        return (mwnet(loss, zeta) * loss).sum() / max(1, len(loss))

    def after(self, t: Training, reply: Message) -> None:
        """Keep γ_m and ζ_m."""
        t.client.private["meta-bsm.gamma"], t.client.private["meta-bsm.zeta"] = t["meta-bsm.gamma"], t["meta-bsm.zeta"]


def weighted(q: Tensor, loss: Tensor) -> Tensor:
    """Σ q_i ℓ_i / Σ q_i: Table 5 leaves the normalization open; with this one a batch counts as in plain BSM."""
    return (q * loss).sum() / q.sum().clamp_min(1e-12)


def mwnet(loss: Tensor, zeta: Tensor) -> Tensor:
    """Meta-Weight-Net: q = sigmoid(a₂·ReLU(a₁ℓ + b₁) + b₂), ζ = (a₁, b₁, a₂, b₂); no gradient flows through ℓ."""
    a1, b1, a2, b2 = zeta.tensor_split([HIDDEN, 2 * HIDDEN, 3 * HIDDEN])
    return torch.sigmoid(torch.relu(loss.detach()[:, None] * a1 + b1) @ a2 + b2)


def initial_zeta(client: Client) -> Tensor:
    """Uniform in ±1/√(fan-in) for each layer, as torch draws them."""
    bound = torch.tensor([1.0] * 2 * HIDDEN + [HIDDEN**-0.5] * (HIDDEN + 1))
    return bound * (2 * torch.rand(len(bound), generator=client.rng("meta-bsm.zeta")) - 1)


ENTRY = MethodEntry(
    "meta-bsm",
    "balanced softmax, meta-learned on a shared set",
    "Chen and Chao 2022",
    part=MetaBSM,
    stays="γ_m and its weights' net ζ_m",
)
