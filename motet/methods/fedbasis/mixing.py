"""θ from bases: one vector of coefficients for each block of the net (Eq. 4, section 4.4)."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import torch
from torch import Tensor

from motet.training.flat_weights import Layout


@dataclass(frozen=True)
class Blocks:
    """A flat vector cut into slices, each of which has the coefficients of one block."""

    stretches: tuple[tuple[int, slice], ...]

    @classmethod
    def of(cls, placed: Iterable[tuple[int, slice]]) -> "Blocks":
        """Return the blocks from the block and the place of every parameter, in the vector's order."""
        runs = [(block, [where for _, where in run]) for block, run in groupby(placed, key=lambda item: item[0])]
        return cls(tuple((block, slice(run[0].start, run[-1].stop)) for block, run in runs))

    def combine(self, a: Tensor, V: Tensor, out: Tensor) -> Tensor:
        """Σ_j a[b, j] V[j] in every block b."""
        for b, s in self.stretches:
            torch.mv(V[:, s].t(), a[b], out=out[s])
        return out

    def dots(self, V: Tensor, g: Tensor, blocks: int) -> Tensor:
        """⟨V[j], g⟩ within every block: blocks × bases."""
        products = V.new_zeros(blocks, len(V))
        for b, s in self.stretches:
            products[b] += V[:, s] @ g[s]
        return products

    def spread(self, values: Tensor) -> Tensor:
        """Return one value per block, repeated over the block's entries."""
        return torch.cat([values[b].expand(s.stop - s.start) for b, s in self.stretches])


class Mixing:
    """Bases V, one model per row (with a major basis v′, it comes first), and the coefficients α, blocks × K."""

    def __init__(self, layout: Layout, blocks: Literal["per_group", "single"], k: int, major: bool):
        self.layout, self.k, self.major = layout, k, major
        self.first = int(major)  # the row of v_1
        groups = [name.split(".")[0] if blocks == "per_group" else "" for name in layout.places]
        self.names = list(dict.fromkeys(groups))
        placed = [(self.names.index(g), p) for g, p in zip(groups, layout.places.values(), strict=True)]
        start = layout.trainable.start
        self.whole = Blocks.of((b, p.where) for b, p in placed)
        self.statistics = Blocks.of((b, p.where) for b, p in placed if p.is_buffer)
        self.moving = Blocks.of(
            (b, slice(p.where.start - start, p.where.stop - start)) for b, p in placed if p.is_trained
        )

    def uniform(self, V: Tensor) -> Tensor:
        """α = 1/K in every block, which is ψ = 0."""
        return V.new_full((len(self.names), self.k), 1 / self.k)

    def weights(self, alpha: Tensor) -> Tensor:
        """a: the weight of each row of V in θ. The major basis always has ½ (section 4.4)."""
        return torch.cat([torch.full_like(alpha[:, :1], 0.5), alpha / 2], 1) if self.major else alpha

    def theta(self, alpha: Tensor, V: Tensor, out: Tensor | None = None) -> Tensor:
        """θ = ½v′ + ½Σ_k α_k v_k, or Σ_k α_k v_k without v′ (Eq. 4); statistics are mixed like weights.

        Weights that are frozen in the net are the same in all bases, and stay.
        """
        mixed = self.whole.combine(self.weights(alpha), V, torch.empty_like(V[0]) if out is None else out)
        return self.layout.keep(mixed, V[0])

    def psi_gradient(self, alpha: Tensor, v: Tensor, G: Tensor, tau: float = 1.0) -> Tensor:
        """∂L/∂α_k = ⟨v_k, G⟩ (Eq. 8), halved beside v′, then through α = softmax(ψ/τ).

        `v` and G = ∇_θ L are the trainable parts; one backward pass serves all bases.
        """
        d = self.moving.dots(v[self.first :], G, len(self.names)) * (0.5 if self.major else 1.0)
        return alpha * (d - (alpha * d).sum(1, keepdim=True)) / tau

    def new_statistics(self, alpha: Tensor, V: Tensor, seen: Tensor) -> Tensor:
        """Return the bases' statistics (BatchNorm's) after training made them `seen` in θ.

        The paper does not define them. Each basis moves towards `seen` by its share α_k, v′ all the way: means of means
        and of variances, so that no variance can turn negative.
        """
        share = torch.cat([torch.ones_like(alpha[:, :1]), alpha], 1) if self.major else alpha
        new = V[:, : len(seen)].clone()
        for b, s in self.statistics.stretches:
            new[:, s] += share[b, :, None] * (seen[s] - new[:, s])
        return new


def softened(psi: Tensor, tau: float) -> Tensor:
    """α = softmax(ψ/τ) in each block; τ < 1 sharpens."""
    return torch.softmax(psi / tau, dim=1)


def entropy(alpha: Tensor) -> float:
    """Return the mean entropy of the blocks' coefficients, in nats; log K when uniform."""
    return float(torch.special.entr(alpha).sum(1).mean())
