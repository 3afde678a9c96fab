"""Points of many dimensions in a plane, for a picture of features."""

import torch
from torch import Tensor

NEIGHBOURS = 20  # that keep a point in its place, at most


def in_a_plane(points: Tensor, seed: int) -> Tensor:
    """Their places by t-SNE (van der Maaten and Hinton 2008): near points stay near, distances mean little else."""
    from sklearn.manifold import TSNE  # takes as long to import as all of Motet
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    if len(points) < 4:
        return points.new_zeros(len(points), 2)
    perplexity = min(NEIGHBOURS, (len(points) - 1) / 3)
    tsne = TSNE(2, perplexity=perplexity, init="pca", method="exact", random_state=seed % 2**32)
    with threadpool_limits(1):  # sums in one order: the same picture everywhere
        return torch.from_numpy(tsne.fit_transform(points.double().numpy()))
