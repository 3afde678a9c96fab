"""FedGen's generator of features as a flat vector, and the clients' heads that judge what it makes."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.functional import one_hot

from motet.message import Message, tensor
from motet.nets import Net
from motet.weights import Layout

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # Adam's


class Generator:
    """z = G(ε, y): linear, BatchNorm, ReLU, linear. It is a form; its weights are handed in at each call."""

    def __init__(self, noise: int, hidden: int, shape: Sequence[int], classes: int):
        self.noise, self.hidden, self.shape, self.classes = noise, hidden, torch.Size(shape), classes
        with torch.device("meta"):
            self.form = self._module()
        self.layout = Layout(self.form)

    def _module(self) -> nn.Module:
        # no first bias: BatchNorm takes it out again, and Adam would make whole steps of the rounding errors left of it
        first = nn.Linear(self.noise + self.classes, self.hidden, bias=False)
        last = nn.Linear(self.hidden, self.shape.numel())
        return nn.Sequential(OrderedDict(first=first, norm=nn.BatchNorm1d(self.hidden), relu=nn.ReLU(), last=last))

    def fresh(self) -> Tensor:
        """First weights, from torch's own randomness."""
        return self.layout.flatten(self._module())

    def draw(self, p: Tensor, count: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """ε ~ N(0, I) and y ~ p"""
        y = torch.multinomial(p, count, replacement=True, generator=rng)
        return torch.randn(count, self.noise, generator=rng), y

    def features(self, G: Tensor, eps: Tensor, y: Tensor) -> Tensor:
        """G(ε, y) at rest, by the statistics of its training"""
        with torch.no_grad():
            return self._made(self.form.eval(), self.layout.named(G), eps, y)

    def step(self, G: Tensor, eps: Tensor, y: Tensor, loss: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        """The gradient of loss(G(ε, y)) in G, and G with renewed statistics: new vectors"""
        renewed, leaf = G.clone(), G.clone().requires_grad_()
        named = {name: at.view(renewed if at.is_buffer else leaf) for name, at in self.layout.places.items()}
        (gradient,) = torch.autograd.grad(loss(self._made(self.form.train(), named, eps, y)), leaf)
        return gradient, renewed

    def _made(self, form: nn.Module, named: Mapping[str, Tensor], eps: Tensor, y: Tensor) -> Tensor:
        z: Tensor = functional_call(form, dict(named), torch.cat([eps, one_hot(y, self.classes).to(eps)], 1))
        return z.view(-1, *self.shape)


class Adam:
    """w ← w − η·m̂/(√v̂ + ε) on a flat vector, from what was remembered of it."""

    def __init__(self, lr: float, m: Tensor, v: Tensor, t: int):
        self.lr, self.m, self.v, self.t = lr, m, v, t

    def __call__(self, w: Tensor, gradient: Tensor) -> Tensor:
        """The next w."""
        self.t += 1
        self.m = torch.lerp(gradient, self.m, BETA1)
        self.v = torch.lerp(gradient.square(), self.v, BETA2)
        root = (self.v / (1 - BETA2**self.t)).sqrt() + EPSILON
        return w - self.lr / (1 - BETA1**self.t) * self.m / root


def heads(net: Net, layout: Layout, replies: Mapping[int, Message]) -> Callable[[Tensor], Tensor]:
    """From features to the logits of every client's head, [client, sample, class]."""
    stages = net.stage_names[net.stage_names.index(net.split) :]
    head = nn.Sequential(OrderedDict((name, getattr(net, name)) for name in stages)).eval()
    names = [name for name, _ in (*head.named_parameters(), *head.named_buffers())]
    named = {name: torch.stack([layout.places[name].view(tensor(r, "w")) for r in replies.values()]) for name in names}
    judge = vmap(lambda of_one, z: functional_call(head, of_one, z), (0, None))
    return lambda z: judge(named, z)


def alike(eps: Tensor, z: Tensor) -> Tensor:
    """exp(−mean_ij ‖ε_i − ε_j‖²/D_ε · ‖z_i − z_j‖₁/D_z): near 1 where different ε make the same z"""
    z = z.flatten(1)
    apart = (eps[:, None] - eps).square().mean(2) * (z[:, None] - z).abs().mean(2)
    return torch.exp(-apart.mean())
