"""The loop a good script has: usual layers in the usual order, torch.optim.SGD, batches from resident tensors."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from motet.local import LocalSettings

Data = tuple[Tensor, Tensor]
State = dict[str, Tensor]

EVALUATION_BATCH = 200  # half as fast again as 1000, which glibc gives back to the system after every batch
PASSES = ("generic", "personal")
"""Each client's test split is scored twice. FedAvg's personal model in DBE's protocol is the global one, but whoever
reports both for methods in general makes both passes; the generic score is the sum over the splits."""


def plain_net(name: str) -> nn.Module:
    """The networks of the workloads for images of 28 x 28, parameters in the order of Motet's."""
    if name == "twonn":
        hidden = [*dense(784, 200), *dense(200, 200), *dense(200, 200)]
        return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(200, 10, bias=False))
    features, bias = {"cnn4": (512, True), "fedrod-conv": (50, False)}[name]
    body = [*conv(1, 32), *conv(32, 64), nn.Flatten(), *dense(1024, features, bias=True)]
    return nn.Sequential(*body, nn.Linear(features, 10, bias=bias))


def conv(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    """A convolution in the usual order."""
    return nn.Conv2d(inputs, outputs, 5), nn.ReLU(inplace=True), nn.MaxPool2d(2)


def dense(inputs: int, outputs: int, bias: bool = False) -> tuple[nn.Module, ...]:
    """A linear layer in the usual order."""
    return nn.Linear(inputs, outputs, bias=bias), nn.ReLU(inplace=True)


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
        total[name].add_(value, alpha=share)
