"""The adaptation of a client that took no part in training: which epoch's model is kept."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn

from motet.data import Samples
from motet.training.client import Client

PASS_BATCH = 1000

_Model = TypeVar("_Model")


def best_on_validation(
    client: Client,
    learn: Callable[[Samples], None],
    snapshot: Callable[[], _Model],
    predictor: Callable[[_Model], nn.Module],
) -> _Model:
    """Return the model of the best epoch; of equals, the last.

    Epochs are compared on the validation data that the clients of a domain share, each class weighted by its share of
    this client's training data; without such data, on a tenth of its training data. `learn` does one epoch, `snapshot`
    returns a copy of the model, `predictor` makes a module from it.
    """
    train = client.data.train
    if client.data.shares_val:
        validation = client.data.val
        weights = client.counts / validation.counts(client.classes).clamp(min=1)
    else:
        order = torch.randperm(client.samples, generator=client.rng("adapt-validation"))
        held = max(1, client.samples // 10)
        validation, train = train.take(order[:held]), train.take(order[held:]) if held < client.samples else train
        weights = torch.ones(client.classes)
    best = snapshot()
    most = right_answers(predictor(best), validation, weights)
    for _ in range(client.adapt.epochs):
        learn(train)
        model = snapshot()
        right = right_answers(predictor(model), validation, weights)
        if right >= most:
            best, most = model, right
    return best


def right_answers(model: nn.Module, samples: Samples, weights: Tensor) -> float:
    """Return how many samples the model gets right, each counted by the weight of its class.

    Of numbers, return the sum of squared errors with a minus, so that more is better here too.
    """
    device = next(model.eval().parameters()).device
    right = 0.0
    with torch.no_grad():
        for x, y in samples.all_batches(PASS_BATCH):
            if y.is_floating_point():
                right -= float((model(x.to(device)).squeeze(1).cpu().double() - y).square().sum())
                continue
            hits = y[model(x.to(device)).argmax(1).cpu() == y]
            right += float(weights.double()[hits].sum())
    return right
