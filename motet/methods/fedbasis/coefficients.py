"""Coefficients on frozen bases: step 2 of the local round, and all that a new client learns (Algorithm 2)."""

from functools import partial

import torch
from torch import Tensor

from motet.data import Samples
from motet.methods.fedbasis.base_training import Combined
from motet.methods.fedbasis.mixing import Mixing, softened
from motet.nets import Net
from motet.training.adaptation import best_on_validation
from motet.training.client import Client
from motet.training.local import Descent


class Coefficients:
    """ψ in every block, from 0; with `free`, also the classifier as weights of its own, from the uniform mixture."""

    def __init__(self, net: Net, mixing: Mixing, V: Tensor, free: slice | None = None):
        self.net, self.mixing, self.V, self.free = net, mixing, V, free or slice(0, 0)
        alpha = mixing.uniform(V)
        self.learned = torch.cat([torch.zeros_like(alpha).flatten(), mixing.theta(alpha, V)[self.free]])
        self.psi = self.learned[: alpha.numel()].view_as(alpha)
        self.classifier = self.learned[alpha.numel() :]

    def theta(self, tau: float = 1.0, out: Tensor | None = None) -> Tensor:
        """Return the personal model θ."""
        theta = self.mixing.theta(softened(self.psi, tau), self.V, out)
        theta[self.free] = self.classifier
        return theta

    def learn(self, descent: Descent, samples: Samples) -> None:
        """α* = argmin_α L(α, V) with τ = 1: the bases and their statistics stay as they are."""
        model = Combined(self.net, self.mixing.layout, self.theta(), training=False)
        g, moving = torch.zeros_like(self.learned), self.mixing.layout.trainable
        v, G = self.V[:, moving], model.G[moving]

        def gradient(x: Tensor, y: Tensor) -> None:
            self.theta(out=model.theta)
            model.gradient(x, y)
            g[self.psi.numel() :] += model.G[self.free]
            model.G[self.free] = 0  # the client's own classifier has no part in the gradient of ψ
            g[: self.psi.numel()] += self.mixing.psi_gradient(softened(self.psi, 1.0), v, G).flatten()

        descent.run(samples, self.learned, g, gradient)


def adapted(coefficients: Coefficients, client: Client, tau: float) -> Tensor:
    """Algorithm 2: return the client's θ after `adapt.epochs`, the last or the best on validation data."""
    if client.adapt.select == "last":
        coefficients.learn(client.descent("adapt", client.adapt.epochs, client.adapt.lr), client.data.train)
        return coefficients.theta(tau)
    net, layout = coefficients.net, coefficients.mixing.layout
    descent = client.descent("adapt", 1, client.adapt.lr)

    def bound(theta: Tensor) -> Net:
        layout.bind(net, theta)
        return net.eval()

    return best_on_validation(client, partial(coefficients.learn, descent), partial(coefficients.theta, tau), bound)
