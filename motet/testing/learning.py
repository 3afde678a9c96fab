"""Checks of what a method learns from, in which mode its net is, and whether it learns at all."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from motet.messages.message import State
from motet.messages.task import Task
from motet.methods.base import Wrapped
from motet.testing.trial import MethodTrial
from motet.testing.twin import RELATIVE, Played, alike

GENERIC, PERSONAL = "generic model's", "personal models'"
LEAST_PROGRESS = 0.001  # how much of the initial loss must be gone after the rounds


def looks_at_training_data_alone(trial: MethodTrial) -> None:
    """Check that a method reads no test data, and validation data only if it declares that it chooses by them."""
    _, watched = trial.watched  # raises a fault where the method reads data that it must not see
    for seen in watched.trainings:
        if seen.on_validation:
            raise trial.fault(
                f"client {seen.client} learns from its validation data in round {seen.round}: they go through the net "
                "in train mode, for a gradient; `needs_validation = True` is for choosing by them, in eval mode"
            )


def learns_in_train_mode(trial: MethodTrial) -> None:
    """Check that every local step has a pass in train mode on a net with BatchNorm and dropout, and that batches differ
    by round."""
    _, watched = trial.watched
    for seen in watched.trainings if watched.has_modes else ():
        if seen.learning < seen.steps:
            raise trial.fault(
                f"of {seen.steps} local steps of client {seen.client} in round {seen.round}, {seen.learning} were "
                "taken with the net in train mode; BatchNorm and dropout learn in train mode (`t.bind()` sets it; who "
                "looks at the net in between uses `t.at`)"
            )
    if (same := watched.same_batches()) is not None:
        raise trial.fault(
            f"client {same.client} takes the same batches in the same order in round {same.round} as in one before; "
            "draw them by `client.descent(purpose)` or `client.rng(purpose)`, which differ from round to round"
        )


def predicts_at_rest(trial: MethodTrial) -> None:
    """Check that a model's prediction of a sample is always the same, also with other samples in its batch."""
    played, _ = trial.watched
    federation = played.assembly.federation
    x, _ = federation.test.batch(torch.arange(min(16, len(federation.test))))
    net = played.assembly.generic_net.eval()
    with torch.no_grad():  # a net may normalize by each batch on purpose: net.batch_statistics
        alone = torch.allclose(net(x), torch.cat([net(x[:3]), net(x[3:])]), RELATIVE, RELATIVE)
    for client_id in (*federation.training_ids, *federation.new_ids):
        first = _answers(played, client_id, x, x, x[:3], x[3:])
        if first is None:
            continue
        once, twice, some, others = first
        if not alike(once, twice):
            raise trial.fault(
                f"the model of client {client_id} answers otherwise when asked again: dropout or other randomness is "
                "at work when it predicts; a predictor is in eval mode (`.eval()` must reach its net)"
            )
        if alone and not torch.allclose(once, torch.cat([some, others]), RELATIVE, RELATIVE):
            raise trial.fault(
                f"what the model of client {client_id} says of a sample depends on the other samples of its batch: "
                "BatchNorm is in train mode when it predicts; a predictor is in eval mode (`.eval()` must reach its "
                "net)"
            )
        again = _answers(played, client_id, x)
        if again is None or not alike(once, again[0]):
            raise trial.fault(
                f"client {client_id} has another model when it is asked a second time; `personal` and `adapt` make it "
                "of the message and `client.private` alone, and change neither"
            )


def learns(trial: MethodTrial) -> None:
    """Check that after the rounds the models fit the clients' training data better than at the start.

    Either loss or accuracy must improve: a server with large steps may be more often right and too sure of it. The
    personal models of wrappers are not checked, as they are made after the rounds, perhaps without learning.
    """
    played = trial.play()
    start, end = (_fits(played, at_start) for at_start in (True, False))
    if isinstance(played.assembly.method, Wrapped):
        start.pop(PERSONAL, None)
    for which, (loss, right) in start.items():
        loss_after, right_after = end.get(which, (0.0, 1.0))
        if not (loss_after < loss * (1 - LEAST_PROGRESS) or right_after > right):
            raise trial.fault(
                f"it does not learn: the {which} loss on training data is {loss_after:.4f} after "
                f"{played.progress.round} rounds, and was {loss:.4f} before the first (is `t.g` zeroed after "
                "`t.backward`, is a gradient computed under no_grad, or is the server's mean not kept?)"
            )


def _model(played: Played, client_id: int, server: State, private: State, round: int) -> nn.Module | None:
    """Return a client's personal model in eval mode, as it is scored; for a new client the adapted one."""
    method, workplace = played.assembly.method, played.assembly.workplace
    message = method.broadcast(server, client_id)
    client = workplace.client(Task("score", client_id, round, message), dict(private))
    if client.data.new:
        workplace.method.net.train()
        return method.adapt(workplace.shown(client.selecting("last")), message).eval()
    workplace.method.net.eval()
    model = method.personal(workplace.shown(client), message)
    return None if model is None else model.eval()


def _answers(played: Played, client_id: int, *batches: Tensor) -> list[Tensor] | None:
    """Return what a client's model predicts for some batches, one after the other; None where it has no model."""
    model = _model(played, client_id, played.server, played.engine.private(client_id), played.progress.round)
    with torch.no_grad():
        return None if model is None else [model(x) for x in batches]


def _fits(played: Played, at_start: bool) -> dict[str, tuple[float, float]]:
    """Return mean loss and accuracy of the generic and the personal models on training clients' data."""
    assembly, method = played.assembly, played.assembly.method
    server = method.start() if at_start else played.server
    found = dict[str, list[Tensor]]()
    for i in assembly.federation.training_ids:
        x, y = assembly.federation.clients[i].train.batch(torch.arange(len(assembly.federation.clients[i].train)))
        models: dict[str, nn.Module | None] = {}
        if (flat := method.generic(server)) is not None:
            assembly.workplace.generic_layout.bind(assembly.workplace.generic_net.eval(), flat)
            models[GENERIC] = assembly.workplace.generic_net
        private = {} if at_start else played.engine.private(i)
        models[PERSONAL] = _model(played, i, server, private, 0 if at_start else played.progress.round)
        for which, model in models.items():
            if model is not None:
                with torch.no_grad():
                    logits = model(x)
                right = (logits.argmax(1) == y).double().mean()
                found.setdefault(which, []).append(torch.stack([cross_entropy(logits, y).double(), right]))
    means = {which: torch.stack(each).mean(0).tolist() for which, each in found.items()}
    return {which: (loss, right) for which, (loss, right) in means.items()}
