"""Local training of several clients as one computation, for nets so small that overhead costs more than arithmetic.

Each client has its own weights, batches and steps, as one row of a matrix. The numbers are those of one client after
the other, up to rounding.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from motet.data import Samples
from motet.nets import Net
from motet.nets.criterion import losses_and_slopes
from motet.nets.dense import leading_row, takes_vectors
from motet.training.flat_weights import Layout
from motet.training.local import Descent
from motet.training.optimizers import optimizer_of

WEIGHTS = 2**20  # of all nets of a group: with their momentum they should fit in a processor's cache
GROUP = 32  # clients; more gain nothing

Gradient = Callable[[Tensor, Tensor, Tensor, bool], Tensor | None]
"""Takes x, y, the weight of each sample in its batch's mean, and whether to return the mean losses of batches."""


def descend_batched(
    descents: Sequence[Descent], samples: Sequence[Samples], w: Tensor, g: Tensor, gradient: Gradient
) -> None:
    """Do `Descent.run` for many clients: row i of w and g belongs to client i; clients with more steps come first.

    `gradient` adds to the first rows of g, as many as x has, which are the clients that are not done yet.
    """
    rule = descents[0]  # the same for all clients, except batches and velocity
    feeds = [descent.batches(mine) for descent, mine in zip(descents, samples, strict=True)]
    optimizer = optimizer_of(rule.settings, rule.lr, w, g, _velocities(descents, g))
    batches = [next(feed, None) for feed in feeds]
    losses = _Losses(descents, samples)
    while found := [batch for batch in batches if batch is not None]:
        optimizer.begin(len(found))
        losses.add(gradient(*_padded(found, w.device), losses.wanted), [len(y) for _, y in found])
        optimizer.move(len(found))
        batches = [next(feed, None) for feed in feeds[: len(found)]]
    left = optimizer.velocity()
    for i, descent in enumerate(descents):
        descent.velocity = None if left is None else left[i].clone()  # a view would keep the memory of all clients
    losses.tell()


def _velocities(descents: Sequence[Descent], g: Tensor) -> Tensor | None:
    """Return the momentum that each client brings, a row per client; None where nobody brings any."""
    if all(descent.velocity is None for descent in descents):
        return None
    return torch.stack(
        [torch.zeros_like(row) if d.velocity is None else d.velocity for row, d in zip(g, descents, strict=True)]
    )


class _Losses:
    """Collects the mean losses of each client's last epoch; earlier steps compute none."""

    def __init__(self, descents: Sequence[Descent], samples: Sequence[Samples]):
        self.descents, self.step = descents, 0
        of = list(zip(descents, (len(mine) for mine in samples), strict=True))
        self.ends = [descent.count(n) for descent, n in of]
        self.starts = [max(0, end - len(d.sizes(n))) for end, (d, n) in zip(self.ends, of, strict=True)]
        self.first = min(self.starts) if any(d.told is not None for d in descents) else max(self.ends)
        self.found: list[Tensor] = []  # per step from `first` on, for clients that are not done yet
        self.sizes: list[list[int]] = []  # samples of their batches; 0 before the last epoch

    @property
    def wanted(self) -> bool:
        """Whether any client may be in its last epoch."""
        return self.step >= self.first

    def add(self, losses: Tensor | None, sizes: Sequence[int]) -> None:
        """Add the losses of one step of the clients that are not done yet."""
        if losses is not None:
            self.found.append(losses)
            counts = [n if self.step >= start else 0 for n, start in zip(sizes, self.starts, strict=False)]
            self.sizes.append(counts + [0] * (len(self.starts) - len(counts)))
        self.step += 1

    def tell(self) -> None:
        """Report to each client its mean loss over samples."""
        if not self.found:
            return
        losses = torch.nn.utils.rnn.pad_sequence(self.found).double()  # a row per client
        sizes = torch.tensor(self.sizes, dtype=torch.float64, device=losses.device).T
        for descent, mean in zip(self.descents, (losses * sizes).sum(1) / sizes.sum(1), strict=True):
            if descent.told is not None:
                descent.told.begin(1)
                descent.told.add(mean, 1)


def group_size(net: Net, layout: Layout) -> int:
    """Return how many clients to train as one computation; 1 for a net that is not a sequence of linear layers."""
    stages = [net.get_submodule(name) for name in net.stage_names]
    whole = leading_row(stages)[1] == len(stages) and takes_vectors(stages[0], 1 + len(net.input.shape))
    fits = whole and layout.trainable == slice(0, layout.size) and not net.bf16
    return max(1, min(GROUP, WEIGHTS // layout.size)) if fits else 1


class StackedNets:
    """Many copies of one net, with row i of w as weights; computes gradients without autograd."""

    def __init__(self, net: Net, layout: Layout, w: Tensor, g: Tensor):
        names = {id(p): name for name, p in net.named_parameters()}
        self.layers, self.criterion = [], net.criterion
        for linear, relu in leading_row(net.get_submodule(name) for name in net.stage_names)[0]:
            places = [layout.places[names[id(p)]] for p in (linear.weight, linear.bias) if p is not None]
            views = [[flat[:, place.where].view(-1, *place.shape) for flat in (w, g)] for place in places]
            self.layers.append((views[0], views[1] if len(views) > 1 else None, relu))

    def add_gradient(self, x: Tensor, y: Tensor, share: Tensor, losses: bool = False) -> Tensor | None:
        """Add the gradient of Σ share·loss to g for as many nets as x has; return that sum if `losses` is True."""
        k, values = len(x), [x.flatten(2)]
        for (W, _), bias, relu in self.layers:
            product = W[:k].transpose(1, 2)
            x = (
                torch.bmm(values[-1], product)
                if bias is None
                else torch.baddbmm(bias[0][:k, None], values[-1], product)
            )
            values.append(x.relu_() if relu else x)
        d, means = self._slope(values[-1], y, share, losses)
        for (W, g_W), bias, relu in reversed(self.layers):
            out = values.pop()
            if relu:
                d = torch.ops.aten.threshold_backward(d, out, 0)
            if bias is not None:
                bias[1][:k] += d.sum(1)
            g_W[:k].baddbmm_(d.transpose(1, 2), values[-1])
            if len(values) > 1:
                d = torch.bmm(d, W[:k])
        return means

    def _slope(self, outputs: Tensor, y: Tensor, share: Tensor, losses: bool) -> tuple[Tensor, Tensor | None]:
        """Return the derivative of Σ share·loss by the outputs, and that sum if `losses` is True."""
        if self.criterion != "classes":
            each, slope = losses_and_slopes(self.criterion, outputs, y)
            return (slope * share)[..., None], (each * share).sum(1) if losses else None
        d = torch.softmax(outputs, 2)
        means = -(_log(d.gather(2, y[..., None]).squeeze(2)) * share).sum(1) if losses else None
        d.sub_(torch.nn.functional.one_hot(y, outputs.shape[2])).mul_(share[..., None])
        return d, means


def _log(p: Tensor) -> Tensor:
    """Return the logarithm of a probability, finite even where it underflowed."""
    return p.clamp_min(torch.finfo(p.dtype).tiny).log_()


def _padded(batches: Sequence[tuple[Tensor, Tensor]], device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Return the batches as one tensor with labels and weights; padding of smaller batches has weight 0."""
    sizes = [len(y) for _, y in batches]
    share = torch.tensor([[1 / size] * size + [0.0] * (max(sizes) - size) for size in sizes])
    if min(sizes) < max(sizes):
        fill = [torch.zeros(max(sizes) - size, dtype=torch.int64) for size in sizes]  # repeats the first sample
        batches = [
            (torch.cat([x, x[none]]), torch.cat([y, y[none]])) for (x, y), none in zip(batches, fill, strict=True)
        ]
    x, y = torch.stack([x for x, _ in batches]), torch.stack([y for _, y in batches])
    return x.to(device), y.to(device), share.to(device)
