"""Bases trained one by one: step 4 as the paper writes it, and the joint training of Eq. 7 that collapses."""

import torch
from torch import Tensor

from motet.methods.fedbasis.combined import BasesPhase
from motet.methods.fedbasis.mixing import Mixing, softened


def train_each(
    phase: BasesPhase, mixing: Mixing, V: Tensor, psi: Tensor, tau: float, psi_lr: float = 0.0
) -> tuple[Tensor, Tensor]:
    """The client's bases and its α after SGD on all bases; with a learning rate, ψ moves beside them (Eq. 7)."""
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
