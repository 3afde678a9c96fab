"""The local steps of a client, in phases where a part asks for them, and of several clients as one computation."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from motet.data import Samples
from motet.methods.base.part import Part
from motet.methods.base.training import Training
from motet.nets import Net
from motet.training.batched_clients import StackedNets, descend_batched
from motet.training.flat_weights import Layout, frozen
from motet.training.local import Descent

# -------- One client, in phases

Gradient = Callable[[Tensor, Tensor], None]


def learn_in_phases(t: Training, samples: Samples, gradient: Gradient) -> None:
    """Run the phases of local training that a part asks for, or one phase of all trainable weights if none does."""
    whole, asked = t.layout.trainable, next((part for part in t.parts if part.in_phases), None)
    if asked is None:
        _run_phase(t, t.descent, whole, samples, gradient)
        return
    kept, steps = t.descent.velocity, 0
    velocity = torch.zeros_like(t.w[whole]) if kept is None else kept.clone()
    for phase in asked.phases(t):
        if phase.moving.start == phase.moving.stop:
            continue  # all of these weights are frozen in the net
        moving = slice(phase.moving.start - whole.start, phase.moving.stop - whole.start)
        epochs = t.descent.epochs if phase.epochs is None else phase.epochs
        descent = replace(t.descent, epochs=epochs, velocity=velocity[moving])
        with frozen(t.net, t.layout.outside(phase.moving)):
            _run_phase(t, descent, phase.moving, samples, gradient)
        if descent.velocity is not None:
            velocity[moving] = descent.velocity
        if _within(t.layout.shared_trainable, phase.moving) != slice(
            0, 0
        ):  # only steps of weights that travel count in K
            steps += descent.steps
    t.descent.velocity = velocity if t.descent.settings.momentum else None
    t.descent.steps += steps


def _run_phase(t: Training, descent: Descent, moving: slice, samples: Samples, gradient: Gradient) -> None:
    """Run local steps that move only these weights."""
    groups = [_within(group, moving) for group in (t.layout.added, t.layout.own, t.layout.private_added)]
    descent.clipped_apart = tuple(group for group in groups if group.stop)
    descent.run(samples, t.w[moving], t.g[moving], gradient)


def _within(group: slice, moving: slice) -> slice:
    """Return where a slice of all weights lies among those that move, or slice(0, 0) where they do not overlap."""
    start, stop = max(group.start, moving.start), min(group.stop, moving.stop)
    return slice(start - moving.start, stop - moving.start) if start < stop else slice(0, 0)


# -------- Several clients at once


def learn_batched(net: Net, layout: Layout, ts: Sequence[Training]) -> None:
    """Run the local steps of several clients as one computation, for parts that do no more than correct gradients.

    Each client's result is that of training alone, up to rounding. The trainings with most steps must come first.
    """
    w = torch.stack([t.w for t in ts])
    g = torch.zeros_like(w)
    correcting = any(type(part).correct is not Part.correct for part in ts[0].parts)  # saves empty calls
    nets = StackedNets(net, layout, w, g)
    for t, row, g_row in zip(ts, w, g, strict=True):
        t.w, t.g = row, g_row

    def gradient(x: Tensor, y: Tensor, share: Tensor, losses: bool) -> Tensor | None:
        loss_values = nets.add_gradient(x, y, share, losses)
        for t in ts[: len(x)] if correcting else ():
            for part in t.parts:
                part.correct(t)
        return loss_values

    descend_batched([t.descent for t in ts], [t.client.data.train for t in ts], w, g, gradient)
    for t in ts:
        t.w = t.w.clone()  # a row of w that is kept would keep all clients' rows in memory
