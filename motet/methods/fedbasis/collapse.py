"""Figure 2: do the bases collapse into one model?"""

from itertools import combinations
from statistics import fmean

from torch import Tensor
from torch.nn.functional import cosine_similarity


def signs_of_collapse(v: Tensor) -> dict[str, float]:
    """Mean cosine of two bases (1: collapsed), and their mean distance from their mean, relative to its length.

    Bases that were warm-started share most of their weights, and their cosine is near 1 from the first: there
    the spread says more.
    """
    mean = v.mean(0)
    return {
        "fedbasis_cosine": fmean(float(cosine_similarity(a, b, dim=0)) for a, b in combinations(v, 2)),
        "fedbasis_spread": float((v - mean).norm(dim=1).mean() / mean.norm()),
    }
