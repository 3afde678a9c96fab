"""A generic model for methods that have none: the mean of the clients' personal models."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from motet.contract import Method
from motet.engines import Engine, Task
from motet.message import State, number, tensor

AT_ONCE = 16  # models in memory at a time, besides their sum


def mean_of_personal_models(
    method: Method, server: State, engine: Engine, client_ids: Sequence[int], round: int
) -> Tensor | None:
    """Σ n_i w_i / Σ n_i in the order of client ids; None where clients' models are no weights of the plain net.

    For this the personal models leave their clients. A client whose model left the finite numbers is left out.
    """
    total, samples = None, 0.0
    for start in range(0, len(client_ids), AT_ONCE):
        tasks = [
            Task("export", i, round, partial(method.broadcast, server, i, scoring=True))
            for i in client_ids[start : start + AT_ONCE]
        ]
        for outcome in engine.run(tasks):
            if outcome.reply:
                w, n = tensor(outcome.reply, "w").double(), number(outcome.reply, "n")
                total = w * n if total is None else total.add_(w, alpha=n)
                samples += n
    return None if total is None else (total / samples).to(torch.get_default_dtype())
