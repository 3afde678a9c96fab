"""The loop a good script has: usual layers in the usual order, torch.optim.SGD, batches from resident tensors."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from motet.config.sections import LocalSettings

Data = tuple[Tensor, Tensor]
State = dict[str, Tensor]

EVALUATION_BATCH = 200  # half as fast again as 1000, which glibc gives back to the system after every batch
PASSES = ("generic", "personal")
"""Each client's test split is scored twice. FedAvg's personal model in DBE's protocol is the global one, but whoever
reports both for methods in general makes both passes; the generic score is the sum over the splits."""


def train(net: nn.Module, data: Data, local: LocalSettings, lr: float, rng: torch.Generator, fused: bool) -> None:
    """A client's local epochs."""
    x, y = data
    optimizer = torch.optim.SGD(
        net.parameters(), lr, momentum=local.momentum, weight_decay=local.weight_decay, fused=fused or None
    )
    net.train()
    for _ in range(local.epochs):
        order = torch.randperm(len(y), generator=rng)
        if local.drop_last and len(y) > local.batch:
            order = order[: len(y) - len(y) % local.batch]
        for rows in order.split(local.batch):
            optimizer.zero_grad()
            cross_entropy(net(x[rows]), y[rows]).backward()
            optimizer.step()


def train_from_loader(net: nn.Module, data: Data, local: LocalSettings, lr: float, rng: torch.Generator) -> None:
    """The same with a DataLoader, as tutorials write it; its batches have another order, and are as many."""
    drop_last = local.drop_last and len(data[1]) > local.batch
    loader = DataLoader(TensorDataset(*data), local.batch, shuffle=True, drop_last=drop_last, generator=rng)
    optimizer = torch.optim.SGD(net.parameters(), lr, momentum=local.momentum, weight_decay=local.weight_decay)
    net.train()
    for _ in range(local.epochs):
        for x, y in loader:
            optimizer.zero_grad()
            cross_entropy(net(x), y).backward()
            optimizer.step()


@torch.inference_mode()
def right(net: nn.Module, data: Data) -> int:
    """How many samples the net gets right."""
    net.eval()
    batches = zip(*(t.split(EVALUATION_BATCH) for t in data), strict=True)
    return sum(int((net(x).argmax(1) == y).sum()) for x, y in batches)


def add(total: State, net: nn.Module, share: float) -> None:
    """Add a share of the net's weights to a running average."""
    for name, value in net.state_dict().items():
        accumulate(total[name], value, share)


def accumulate(total: Tensor, value: Tensor, share: float) -> None:
    """Numbers add up; a count, such as BatchNorm's of batches, is taken as it is."""
    total.add_(value, alpha=share) if total.is_floating_point() else total.copy_(value)
