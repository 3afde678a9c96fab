"""The accuracy of a model at a client, on the data of the headline or on validation data, for metrics of a run."""

import torch
from torch import nn

from motet.data import Samples
from motet.messages.message import Message
from motet.metrics.metric import ACCURACY
from motet.metrics.one_pass import class_weighted, one_pass, share_right
from motet.metrics.run_metric import ClientScope, RunFacts

_WEIGHTED, _CORRECTED = "metric.weighted", "metric.corrected"


def asked_data(run: RunFacts) -> Message:
    """Return what a client is told about the data: its own, or the common test set weighted by its classes."""
    corrected = run.scoring.class_weights == "count_corrected"
    return {_WEIGHTED: data_of(run) == "weighted", _CORRECTED: corrected}


def data_of(run: RunFacts) -> str:
    """Return the name of the data: `weighted` or `split`, as the headline has them."""
    return "weighted" if run.scoring.headline.data == "weighted" and run.facts.test is not None else "split"


def accuracy_here(here: ClientScope, model: nn.Module) -> float | None:
    """Return the accuracy of a model for the client on the data that its message says; None where there are none."""
    client, data = here.client, here.client.data
    if not here.message[_WEIGHTED]:
        return _accuracy_on(data.test, here, model)
    test = here.common_test(data)
    if test is None:
        return None
    held = torch.nonzero((client.counts > 0)[test.y]).squeeze(1)
    said = one_pass(model, test, [ACCURACY], client.classes, held)
    counts = test.counts(client.classes)
    return class_weighted(said.right[ACCURACY.name], counts, client.counts, bool(here.message[_CORRECTED]))


def validation_accuracy(here: ClientScope, model: nn.Module) -> float | None:
    """Return the accuracy of a model on the client's validation data; None where it has none."""
    return _accuracy_on(here.client.data.val, here, model)


def _accuracy_on(samples: Samples, here: ClientScope, model: nn.Module) -> float | None:
    said = one_pass(model, samples, [ACCURACY], here.client.classes)
    return share_right(said.right[ACCURACY.name], said.counts)
