"""The local steps of several clients as one computation, for parts that correct gradients and no more."""

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

# -------- Local steps in stretches


Gradient = Callable[[Tensor, Tensor], None]


def learn_in_phases(t: Training, samples: Samples, gradient: Gradient) -> None:
    """The stretches that a part of the training asks for; without one, a single stretch of all trainable weights."""
    whole, asked = t.layout.trainable, next((part for part in t.parts if part.in_phases), None)
    if asked is None:
        _stretch(t, t.descent, whole, samples, gradient)
        return
    kept, steps = t.descent.velocity, 0
    velocity = torch.zeros_like(t.w[whole]) if kept is None else kept.clone()
    for phase in asked.phases(t):
        if phase.moving.start == phase.moving.stop:
            continue  # the net freezes all of it
        moving = slice(phase.moving.start - whole.start, phase.moving.stop - whole.start)
        epochs = t.descent.epochs if phase.epochs is None else phase.epochs
        descent = replace(t.descent, epochs=epochs, velocity=velocity[moving])
        with frozen(t.net, t.layout.outside(phase.moving)):
            _stretch(t, descent, phase.moving, samples, gradient)
        if descent.velocity is not None:
            velocity[moving] = descent.velocity
        if _within(t.layout.shared_trainable, phase.moving) != slice(0, 0):  # K of what travels
            steps += descent.steps
    t.descent.velocity = velocity if t.descent.settings.momentum else None
    t.descent.steps += steps


def _stretch(t: Training, descent: Descent, moving: slice, samples: Samples, gradient: Gradient) -> None:
    groups = [_within(group, moving) for group in (t.layout.added, t.layout.own, t.layout.private_added)]
    descent.clipped_apart = tuple(group for group in groups if group.stop)
    descent.run(samples, t.w[moving], t.g[moving], gradient)


def _within(group: slice, moving: slice) -> slice:
    """A stretch of the whole weights as it lies in those that move; slice(0, 0) where it does not."""
    start, stop = max(group.start, moving.start), min(group.stop, moving.stop)
    return slice(start - moving.start, stop - moving.start) if start < stop else slice(0, 0)


# -------- The local steps of several clients as one computation, for parts that correct gradients and no more


def learn_batched(net: Net, layout: Layout, ts: Sequence[Training]) -> None:
    """Each training as it would be alone, up to rounding; those with most steps come first."""
    w = torch.stack([t.w for t in ts])
    g = torch.zeros_like(w)
    correcting = any(type(part).correct is not Part.correct for part in ts[0].parts)  # spares empty calls, no more
    nets = StackedNets(net, layout, w, g)
    for t, row, g_row in zip(ts, w, g, strict=True):
        t.w, t.g = row, g_row

    def gradient(x: Tensor, y: Tensor, share: Tensor, losses: bool) -> Tensor | None:
        told = nets.add_gradient(x, y, share, losses)
        for t in ts[: len(x)] if correcting else ():
            for part in t.parts:
                part.correct(t)
        return told

    descend_batched([t.descent for t in ts], [t.client.data.train for t in ts], w, g, gradient)
    for t in ts:
        t.w = t.w.clone()  # what is kept of it shall not keep the others'
