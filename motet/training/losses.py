"""Balanced-risk losses (FED-ROD, Table 5): the client's class counts N_c against its class imbalance.

`logits` g are (samples, C), `y` their labels, `counts` N_c over the client's whole training set, so that every label
has N_y > 0. Each is the mean over the batch; with γ = 0 each but IR is plain cross-entropy, to the bit.
"""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

LARGEST_MARGIN = 0.5  # LDAM's default γ gives the rarest class that the client has this margin


def ir(logits: Tensor, y: Tensor, counts: Tensor, gamma: float = 1.0) -> Tensor:
    """Importance re-weighting (Hsu et al. 2020): q_y ∝ N_y^(−γ) on each sample's cross-entropy; γ = ½ is 1/√N_y.

    Scaled so that the mean weight of the client's samples is 1: with γ = 1, (Σ_c N_c)/N_y over the number of classes
    that it has.
    """
    if gamma == 1:
        weight = counts.sum() / (counts * (counts > 0).sum())
    else:
        weight = counts.clamp_min(1).to(logits) ** -gamma
        weight = weight * (counts.sum() / (counts * weight).sum())
    return (cross_entropy(logits, y, reduction="none") * weight[y]).mean()


def resampled(logits: Tensor, y: Tensor, counts: Tensor, rng: torch.Generator) -> Tensor:
    """Re-sampling: mean cross-entropy of as many samples, drawn from the batch with probability ∝ 1/N_y."""
    drawn = torch.multinomial((1 / counts.clamp_min(1))[y].cpu(), len(y), replacement=True, generator=rng)
    return cross_entropy(logits[drawn.to(y.device)], y[drawn.to(y.device)])


def ldam(logits: Tensor, y: Tensor, counts: Tensor, gamma: float | None = None) -> Tensor:
    """Label-distribution-aware margin (Cao et al. 2019): the true class's logit loses γ·N_y^(−1/4)."""
    scale = LARGEST_MARGIN * counts[counts > 0].min() ** 0.25 if gamma is None else gamma
    margin = scale * counts[y] ** -0.25
    return cross_entropy(logits - one_hot(y, logits.shape[1]) * margin[:, None], y)


def cdt(logits: Tensor, y: Tensor, counts: Tensor, gamma: float) -> Tensor:
    """Class-dependent temperatures (Ye et al. 2020): logit c times (N_c/N_max)^γ; 0 for a class the client lacks."""
    return cross_entropy(logits * (counts / counts.max()) ** gamma, y)


def bsm(logits: Tensor, y: Tensor, counts: Tensor, gamma: float | Tensor = 1.0, reduction: str = "mean") -> Tensor:
    """Balanced softmax (Ren et al. 2020; Eq. 6): −log of N_y^γ e^{g_y} / Σ_c N_c^γ e^{g_c}.

    A class that the client lacks leaves the softmax: no probability, no gradient to its row. So a client of one class
    has loss 0. A γ that is learned (a tensor) never brings such a class back.
    """
    if not isinstance(gamma, Tensor) and gamma == 0:  # 0⁰ = 1: no class leaves
        return cross_entropy(logits, y, reduction=reduction)
    return cross_entropy(logits + log_prior(counts, gamma), y, reduction=reduction)


def log_prior(counts: Tensor, gamma: float | Tensor) -> Tensor:
    """γ log N_c, which balanced softmax adds to the logits; −∞ for a class that the client lacks."""
    held = counts > 0
    shift = gamma * torch.where(held, counts, 1).log()
    return shift.masked_fill(~held, -torch.inf)
