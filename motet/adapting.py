"""A client that took no part in training learns its own model: how long, and which of its epochs is kept."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn

from motet.client import Client
from motet.data import Samples

PASS_BATCH = 1000

_Model = TypeVar("_Model")


def best_on_validation(
    client: Client,
    learn: Callable[[Samples], None],
    snapshot: Callable[[], _Model],
    predictor: Callable[[_Model], nn.Module],
) -> _Model:
    """The best epoch's model, judged on a tenth of the client's training data; of equals, the last.

    `learn` does one epoch, `snapshot` keeps the model as it is, `predictor` makes one that predicts.
    """
    order = torch.randperm(client.samples, generator=client.rng("adapt-validation"))
    held = max(1, client.samples // 10)
    train = client.data.train
    validation, rest = train.take(order[:held]), train.take(order[held:]) if held < client.samples else train
    best = snapshot()
    most = right_answers(predictor(best), validation)
    for _ in range(client.adapt.epochs):
        learn(rest)
        model = snapshot()
        right = right_answers(predictor(model), validation)
        if right >= most:
            best, most = model, right
    return best


def right_answers(model: nn.Module, samples: Samples) -> int:
    """How many samples the model gets right."""
    device = next(model.parameters()).device
    with torch.no_grad():
        return sum(int((model(x.to(device)).argmax(1).cpu() == y).sum()) for x, y in samples.all_batches(PASS_BATCH))
