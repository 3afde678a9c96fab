"""The combined model θ in the net, and what it is trained with."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from motet.client import Client
from motet.data import Samples
from motet.local import Descent
from motet.nets import Net
from motet.weights import Layout


class Combined:
    """θ in the net, where batches give G = ∇_θ L."""

    def __init__(self, net: Net, layout: Layout, theta: Tensor, training: bool, decay: float = 0.0):
        self.net, self.theta, self.G, self.decay = net, theta, torch.zeros_like(theta), decay
        layout.bind(net, self.theta, self.G)
        net.train(training)

    def gradient(self, x: Tensor, y: Tensor) -> Tensor:
        """Fill G, and give the loss; with `decay`, L includes (decay/2)‖θ‖², which the loss given does not."""
        self.G.zero_()
        with self.net.collecting():
            loss = cross_entropy(self.net(x), y)
            loss.backward()  # type: ignore[no-untyped-call]
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
        """With fresh momentum; `decay` says whether weight decay pulls at the bases, or at θ alone."""
        descent, pull = client.descent("train"), 0.0
        if decay == "theta":
            pull = descent.settings.weight_decay
            descent.settings = descent.settings.model_copy(update={"weight_decay": 0.0})
        return cls(Combined(net, layout, theta, training=True, decay=pull), descent, client.data.train, compensate)
