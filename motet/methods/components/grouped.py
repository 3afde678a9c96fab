"""The local steps of several clients as one computation, for parts that correct gradients and no more."""

from collections.abc import Sequence

import torch
from torch import Tensor

from motet.contract.part import Part
from motet.contract.training import Training
from motet.nets import Net
from motet.together import ManyNets, descend_together
from motet.weights import Layout


def learn_together(net: Net, layout: Layout, ts: Sequence[Training]) -> None:
    """Each training as it would be alone, up to rounding; those with most steps come first."""
    w = torch.stack([t.w for t in ts])
    g = torch.zeros_like(w)
    correcting = any(type(part).correct is not Part.correct for part in ts[0].parts)  # spares empty calls, no more
    nets = ManyNets(net, layout, w, g)
    for t, row, g_row in zip(ts, w, g, strict=True):
        t.w, t.g = row, g_row

    def gradient(x: Tensor, y: Tensor, share: Tensor, losses: bool) -> Tensor | None:
        told = nets.add_gradient(x, y, share, losses)
        for t in ts[: len(x)] if correcting else ():
            for part in t.parts:
                part.correct(t)
        return told

    descend_together([t.descent for t in ts], [t.client.data.train for t in ts], w, g, gradient)
    for t in ts:
        t.w = t.w.clone()  # what is kept of it shall not keep the others'
