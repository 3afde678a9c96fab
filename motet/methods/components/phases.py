"""Local steps in stretches: which weights move, one stretch after the other."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from motet.contract.training import Training
from motet.data import Samples
from motet.local import Descent
from motet.weights import frozen

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
