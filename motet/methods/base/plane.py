"""Points of many dimensions in a plane, for a figure."""

import torch
from torch import Tensor

NEIGHBOURS = 20  # the perplexity of t-SNE, at most


def in_a_plane(points: Tensor, seed: int) -> Tensor:
    """Return places in a plane by t-SNE (van der Maaten and Hinton 2008): only nearness has a meaning there."""
    from sklearn.manifold import TSNE  # imported here because it takes as long as all of Motet
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    if len(points) < 4:
        return points.new_zeros(len(points), 2)
    perplexity = min(NEIGHBOURS, (len(points) - 1) / 3)
    tsne = TSNE(2, perplexity=perplexity, init="pca", method="exact", random_state=seed % 2**32)
    with threadpool_limits(1):  # sums in one order: the same figure on every machine
        return torch.from_numpy(tsne.fit_transform(points.double().numpy()))
