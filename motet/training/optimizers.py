"""The optimizers of local steps, on the flat vector of a client's weights or on a matrix with a row per client.

A step has two halves: `begin` before the gradient is added to g, and `move` after it. In matrices the clients that are
not done yet are the first rows, and both halves take their number.
"""

from math import sqrt
from typing import Protocol

import torch
from torch import Tensor

from motet.config.sections import LocalSettings

BETA2, EPSILON = 0.999, 1e-8  # of Adam, as its paper and torch have them


class LocalOptimizer(Protocol):
    """What local training needs of an optimizer."""

    def begin(self, rows: int | None = None) -> None:
        """Do the half of a step that comes before the gradient is added to g."""

    def move(self, rows: int | None = None) -> None:
        """Move the weights by the gradient that is in g."""

    def velocity(self) -> Tensor | None:
        """Return the momentum for a later training, or None where there is none."""


class LocalSGD:
    """torch.optim.SGD: v ← m·v + d·w + ∇, w ← w − η·v, with as few passes over memory as possible.

    Without clipping g is v itself, so that what computes the gradient must add to g and not read it.
    """

    def __init__(
        self,
        rule: LocalSettings,
        lr: float,
        w: Tensor,
        g: Tensor,
        velocity: Tensor | None,
        clipped_apart: tuple[slice, ...] = (),
    ):
        self.rule, self.lr, self.w, self.g, self.apart = rule, lr, w, g, clipped_apart
        self.v = torch.zeros_like(g) if rule.clip else g
        self.v.zero_() if velocity is None else self.v.copy_(velocity)
        self.momentum, self.weight_decay, self.clip = rule.momentum, rule.weight_decay, rule.clip

    def begin(self, rows: int | None = None) -> None:
        """Compute v ← m·v + d·w in place: all of a step but its gradient."""
        v, w = (self.v, self.w) if rows is None else (self.v[:rows], self.w[:rows])
        v.mul_(self.momentum) if self.momentum else v.zero_()
        if self.weight_decay:
            v.add_(w, alpha=self.weight_decay)
        if self.clip:
            self.g.zero_()

    def move(self, rows: int | None = None) -> None:
        """Compute w ← w − η·v in place, with the clipped gradient added to v where gradients are clipped."""
        v, w = (self.v, self.w) if rows is None else (self.v[:rows], self.w[:rows])
        if self.clip:
            clip(self.g, self.clip, self.apart)
            v.add_(self.g)
        w.sub_(v, alpha=self.lr)

    def velocity(self) -> Tensor | None:
        """Return v where there is momentum."""
        return self.v if self.rule.momentum else None


class LocalAdam:
    """torch.optim.Adam, or AdamW where weight decay acts on the weights themselves; β₁ is `local.momentum`.

    Moments are fresh in every training: those of a model that the server has replaced since mean little.
    """

    def __init__(self, rule: LocalSettings, lr: float, w: Tensor, g: Tensor, clipped_apart: tuple[slice, ...] = ()):
        self.rule, self.lr, self.w, self.g, self.apart = rule, lr, w, g, clipped_apart
        self.m, self.v, self.steps = torch.zeros_like(g), torch.zeros_like(g), 0

    def begin(self, rows: int | None = None) -> None:
        """Make g ready for a gradient."""
        self.g[:rows].zero_()

    def move(self, rows: int | None = None) -> None:
        """Compute w ← w − η·m̂/(√v̂ + ε) in place."""
        rule, w, g, m, v = self.rule, self.w[:rows], self.g[:rows], self.m[:rows], self.v[:rows]
        self.steps += 1
        if rule.clip:
            clip(g, rule.clip, self.apart)
        if rule.weight_decay and rule.optimizer == "adamw":
            w.mul_(1 - self.lr * rule.weight_decay)
        elif rule.weight_decay:
            g.add_(w, alpha=rule.weight_decay)
        beta1 = rule.momentum
        m.lerp_(g, 1 - beta1)
        v.mul_(BETA2).addcmul_(g, g, value=1 - BETA2)
        root = v.sqrt().div_(sqrt(1 - BETA2**self.steps)).add_(EPSILON)
        w.addcdiv_(m, root, value=-self.lr / (1 - beta1**self.steps))

    def velocity(self) -> Tensor | None:
        """Return None: nothing is carried to a later training."""
        return None


def optimizer_of(
    rule: LocalSettings,
    lr: float,
    w: Tensor,
    g: Tensor,
    velocity: Tensor | None = None,
    clipped_apart: tuple[slice, ...] = (),
) -> LocalOptimizer:
    """Return the optimizer that the settings name, for these weights and the memory of their gradient."""
    if rule.optimizer == "sgd":
        return LocalSGD(rule, lr, w, g, velocity, clipped_apart)
    return LocalAdam(rule, lr, w, g, clipped_apart)


def clip(g: Tensor, most: float, stretches: tuple[slice, ...]) -> None:
    """Scale a gradient in place so that its norm is at most `most`; stretches have norms of their own."""
    for stretch in stretches or (slice(None),):
        part = g[stretch]
        part.mul_((most / part.norm().clamp_min(1e-12)).clamp_max(1.0))
