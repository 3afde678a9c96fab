"""Step 4 for all bases at the price of one model: with α frozen, the bases move along a single vector.

Every basis receives the same gradient times its weight, ∇_{v_k} L = a_k G with G = ∇_θ L (Eq. 8), and SGD with
momentum m and decay d is linear in what it receives:

    b_k ← m·b_k + a_k·G + d·v_k,    v_k ← v_k − η·b_k

So with â = a/‖a‖ in each block, v_k(t) = c_t·v_k(0) + â_k·U_t and b_k(t) = e_t·v_k(0) + â_k·R_t, where

    e ← m·e + d·c,                  c ← c − η·e             from c = 1, e = 0: two numbers
    R ← m·R + ‖a‖·G + d·U,          U ← U − η·R             from U = R = 0: SGD on one model-sized vector
    θ_t = Σ_k a_k·v_k(t) = c_t·θ_0 + ‖a‖·U_t

As â has length one, U is as long as what all bases moved together, and clipping means the same too.

Nor is U needed before the end. P = e·θ_0 + ‖a‖·R moves θ as a velocity does: the lines above give

    P ← m·P + ‖a‖²·G + d·θ,         θ ← θ − η·P             from θ_0 and P = 0: SGD on θ, G scaled per block

and then U_T = (θ_T − c_T·θ_0)/‖a‖. The client sends U, α and c; the server rebuilds the bases.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import Tensor

from motet.data import Samples
from motet.messages.message import Message, number, tensor
from motet.methods.fedbasis.mixing import Mixing, softened
from motet.nets import Net
from motet.training.client import Client
from motet.training.flat_weights import Layout
from motet.training.local import Descent

# -------- The combined model θ


class Combined:
    """The combined model θ in the net, on which batches give G = ∇_θ L."""

    def __init__(self, net: Net, layout: Layout, theta: Tensor, training: bool, decay: float = 0.0):
        self.net, self.theta, self.G, self.decay = net, theta, torch.zeros_like(theta), decay
        layout.bind(net, self.theta, self.G)
        net.train(training)

    def gradient(self, x: Tensor, y: Tensor) -> Tensor:
        """Fill G and return the loss; with `decay`, G includes the gradient of (decay/2)‖θ‖², which the loss leaves
        out."""
        self.G.zero_()
        loss = self.net.add_gradient(x, y)
        if self.decay:
            self.G.add_(self.theta, alpha=self.decay)
        return loss


@dataclass
class BasesPhase:
    """Step 4 of a local round: θ at its start, and how the bases behind it move."""

    model: Combined
    descent: Descent
    samples: Samples
    compensate: bool  # bases receive a_k/‖a‖²·G instead of a_k·G, so that θ moves as far as in FedAvg

    @classmethod
    def of(cls, client: Client, net: Net, layout: Layout, theta: Tensor, compensate: bool, decay: str) -> "BasesPhase":
        """Return the phase with fresh momentum; `decay` says whether weight decay acts on the bases or on θ alone."""
        descent, pull = client.descent("train"), 0.0
        if decay == "theta":
            pull = descent.settings.weight_decay
            descent.settings = descent.settings.model_copy(update={"weight_decay": 0.0})
        return cls(Combined(net, layout, theta, training=True, decay=pull), descent, client.data.train, compensate)


# -------- Bases trained one by one


def train_each(
    phase: BasesPhase, mixing: Mixing, V: Tensor, psi: Tensor, tau: float, psi_lr: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Return the client's bases and its α after SGD on all bases; with a learning rate, ψ moves too (Eq. 7)."""
    model, moving, statistics = phase.model, mixing.layout.trainable, slice(0, mixing.layout.trainable.start)
    ratio = (psi_lr / phase.descent.lr) ** 0.5  # SGD on φ = ψ/ratio at the bases' rate is SGD on ψ at its own,
    extra_decay = (ratio**2 - 1) * phase.descent.settings.weight_decay  # but for weight decay
    learned = torch.cat([V[:, moving].flatten(), psi.flatten() / ratio if psi_lr else psi.new_empty(0)])
    g = torch.zeros_like(learned)
    end = V[:, moving].numel()
    v, g_v = learned[:end].view(len(V), -1), g[:end].view(len(V), -1)
    theta, G = model.theta[moving], model.G[moving]

    def alpha() -> Tensor:
        return softened(learned[end:].view_as(psi) * ratio if psi_lr else psi, tau)

    def gradient(x: Tensor, y: Tensor) -> None:
        a = mixing.weights(alpha())
        mixing.moving.combine(a, v, out=theta)
        phase.descent.note(model.gradient(x, y), len(y))
        pull = a / a.square().sum(1, keepdim=True) if phase.compensate else a
        for b, s in mixing.moving.stretches:
            g_v[:, s].addr_(pull[b], G[s])  # ∇_{v_k} L = a_k·∇_θ L (Eq. 8)
        if psi_lr:
            g[end:] += mixing.psi_gradient(alpha(), v, G, tau).flatten() * ratio + extra_decay * learned[end:]

    phase.descent.run(phase.samples, learned, g, gradient)
    return torch.cat([mixing.new_statistics(alpha(), V, model.theta[statistics]), v], 1), alpha()


# -------- All bases as one vector


ONE_VECTOR = ("fedbasis.U", "fedbasis.alpha", "fedbasis.c")  # what a client sends


@dataclass
class Decay:
    """How much is left of the bases that were sent: c_t, and e_t of their momentum."""

    lr: float
    momentum: float
    weight_decay: float
    c: float = 1.0
    e: float = 0.0

    def step(self) -> None:
        """e ← m·e + d·c;  c ← c − η·e"""
        self.e = self.momentum * self.e + self.weight_decay * self.c
        self.c -= self.lr * self.e


def train_as_one(phase: BasesPhase, mixing: Mixing, alpha: Tensor) -> Message:
    """Run step 4 with α frozen, from the θ_0 that is in the model, and return the reply."""
    model, rule = phase.model, phase.descent.settings
    moving, statistics = mixing.layout.trainable, slice(0, mixing.layout.trainable.start)
    theta, G, theta_0 = model.theta[moving], model.G[moving], model.theta[moving].clone()
    lengths: list[float] = mixing.weights(alpha).norm(dim=1).tolist()  # ‖a‖ of each block
    factors = [1.0 if phase.compensate else length**2 for length in lengths]
    decay = Decay(phase.descent.lr, rule.momentum, rule.weight_decay)
    P = torch.zeros_like(theta)

    def gradient(x: Tensor, y: Tensor) -> None:
        phase.descent.note(model.gradient(x, y), len(y))
        kept = clipping()
        for b, s in mixing.moving.stretches:
            P[s].add_(G[s], alpha=kept * factors[b])
        decay.step()

    def clipping() -> float:
        """Return the factor by which clipping scales the gradient of all bases, or of R, which is as long."""
        if not rule.clip:
            return 1.0
        squares = [(factors[b] / lengths[b] * float(G[s].norm())) ** 2 for b, s in mixing.moving.stretches]
        return min(1.0, rule.clip / max(math.sqrt(sum(squares)), 1e-12))

    phase.descent.settings = rule.model_copy(update={"clip": 0.0})  # clipping is done here
    phase.descent.run(phase.samples, theta, P, gradient)
    U = theta.sub_(theta_0, alpha=decay.c).div_(mixing.moving.spread(theta.new_tensor(lengths)))
    return {"fedbasis.U": torch.cat([model.theta[statistics], U]), "fedbasis.alpha": alpha, "fedbasis.c": decay.c}


def rebuild(V: Tensor, replies: Collection[Message], mixing: Mixing) -> Tensor:
    """Return the unweighted mean of the clients' bases (Eq. 9): mean_m(c_m)·v_k(0) + mean_m(â_{m,k}·U_m)."""
    moving, statistics = mixing.layout.trainable, slice(0, mixing.layout.trainable.start)
    share = 1 / len(replies)
    mean = V * (share * sum(number(r, "fedbasis.c") for r in replies))
    mean[:, statistics] = 0
    for reply in replies:
        U, alpha = tensor(reply, "fedbasis.U"), tensor(reply, "fedbasis.alpha")
        a = mixing.weights(alpha)
        unit = a / a.norm(dim=1, keepdim=True)
        for b, s in mixing.moving.stretches:
            mean[:, moving][:, s].addr_(unit[b], U[moving][s], alpha=share)
        mean[:, statistics] += share * mixing.new_statistics(alpha, V, U[statistics])
    return mean
