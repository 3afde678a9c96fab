"""The first bases: centroids of the clients' local models (section 4.4), or independent initializations."""

from collections.abc import Mapping

import torch
from torch import Tensor

from motet.messages.message import Message, State, number, tensor
from motet.methods.averaging import Averaging
from motet.nets import Net
from motet.training.flat_weights import Layout
from motet.training.randomness import derive, seeded

RESTARTS = 10


class WarmStart:
    """FedAvg for a share of the rounds, which remembers every client's most recent local model; then the bases."""

    def __init__(self, fedavg: Averaging, share: float, k: int, major: bool):
        self.fedavg, self.share, self.k, self.major = fedavg, share, k, major

    @property
    def lasts(self) -> int:
        """Return how many rounds the warm start has."""
        return max(1, round(self.share * self.fedavg.facts.rounds))

    def start(self) -> State:
        """Return FedAvg's state, and how many rounds the warm start lasts."""
        return {**self.fedavg.start(), "fedbasis.warm_rounds_left": self.lasts}

    def aggregate(self, server: State, replies: Mapping[int, Message]) -> State:
        """Run a FedAvg round; the last one ends in v′ = the global model and v_k = centroids of the local ones."""
        server = self.fedavg.aggregate(server, replies)
        server |= {f"fedbasis.local.{client_id}": tensor(reply, "w") for client_id, reply in replies.items()}
        server["fedbasis.warm_rounds_left"] = int(number(server, "fedbasis.warm_rounds_left")) - 1
        if server["fedbasis.warm_rounds_left"]:
            return server
        center = tensor(server, "w")
        local = torch.stack([tensor(server, name) for name in sorted(server) if name.startswith("fedbasis.local.")])
        layout = self.fedavg.layout
        bases = layout.keep(centroids(local, center, self.k, layout.trainable, self.fedavg.facts.seed), center)
        return {"fedbasis.V": torch.cat([center[None], bases]) if self.major else bases}


def independent(net: Net, layout: Layout, initial: Tensor, count: int, seed: int) -> Tensor:
    """Return the net's own first weights, then fresh draws of the same recipe."""
    models = [initial]
    for j in range(1, count):
        with seeded(seed, "fedbasis.independent", client=j):
            models.append(layout.flatten(net.another()))
    return layout.keep(torch.stack(models), initial)


def centroids(local: Tensor, center: Tensor, k: int, trainable: slice, seed: int) -> Tensor:
    """Return K bases from the clients' local models by k-means; statistics are averaged inside the clusters.

    Where there are fewer models (or clusters) than bases, they are used again, each time half as far from the center:
    equal bases would receive equal gradients and stay equal for ever.
    """
    labels = _cluster(local[:, trainable] - center[trainable], min(k, len(local)), seed)
    found = torch.stack([local[labels == label].mean(0) for label in range(k) if (labels == label).any()])
    laps = [torch.lerp(center, found, 0.5**lap) for lap in range(-(-k // len(found)))]
    return torch.cat(laps)[:k]


def _cluster(points: Tensor, k: int, seed: int) -> Tensor:
    """Return k-means++ labels. M points of a model's size have the distances of M points in M dimensions: use these."""
    from sklearn.cluster import KMeans  # takes as long to import as all of Motet, for one method

    scale, axes = torch.linalg.eigh((points @ points.T).double())
    rotated = axes * scale.clamp_min(0).sqrt()
    state = derive(seed, "fedbasis.k-means") % 2**32
    return torch.tensor(KMeans(k, n_init=RESTARTS, random_state=state).fit(rotated.numpy()).labels_)
