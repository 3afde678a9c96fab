"""Minimum description length of labels, given the features of a layer: how easily a probe reads them (DBE's MDL).

The online code length: a probe learns from more and more samples, and what it still does not know of the next ones is
added up. MDL = Σ_k (s_k − s_{k−1})·ℓ(s_k), where ℓ(s) is the validation loss of a probe that saw s samples.
"""

import math
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from motet.data import Samples
from motet.messages.message import Message, tensor
from motet.methods.base import Axis, LearnedFigure
from motet.metrics.feature_metric import LOGITS, WORDS, FeatureMetric
from motet.metrics.names import MetricName
from motet.metrics.run_metric import ClientScope, Finding, RunFacts
from motet.training.flat_weights import Layout
from motet.training.randomness import generator, seeded

FIRST_SIZE, HELD_OUT = 10, 0.1
HIDDEN, PROBE_BATCH, PROBE_LR = 512, 256, 1e-4
_Z, _Y, _WHICH = "mdl.z", "mdl.y", "mdl.which"


class MDL(FeatureMetric):
    """Of a model's features at a stage, on a pooled sample of all training clients' test data.

    Classes keep their shares in the sample. Features and labels leave their clients, so this is for simulations only.
    If clients have no test data, the generic model's are of the common test set and nothing leaves. With DBE they are
    z^g up to the split: before p is added.
    """

    name: ClassVar[str] = "mdl"
    summary: ClassVar[str] = (
        "description length of the labels given a model's features at a stage, or its logits: nats, bits"
    )
    paper: ClassVar[str] = "Whitney et al. 2020; Voita and Titov 2020; reported by DBE"

    samples: int = Field(2000, ge=20, description="samples in the pool (a tenth of them for validation)")
    sizes: int = Field(5, ge=2, description="sizes of training sets, from 10 to all (the library: 10)")
    seeds: int = Field(3, ge=1, description="probes of each size (the library: 5)")
    steps: int = Field(1000, ge=1, description="steps of Adam for each (the library: 4000)")

    # ------------------------------------------------------------ the pool

    def asked(self, run: RunFacts, client_id: int) -> Message:
        """Return which of the client's test samples, ordered by class, to use: evenly spaced over all clients' pool."""
        mine = run.own_tests[client_id]
        places = torch.tensor(evenly_spaced(self._pool(run), self.samples), dtype=torch.int64)
        return {_WHICH: places[(places >= mine.start) & (places < mine.stop)] - mine.start}

    def whom(self, run: RunFacts) -> list[int]:
        """Return the clients whose samples are used."""
        places = evenly_spaced(self._pool(run), self.samples)
        return [
            i for i, mine in run.own_tests.items() if bisect_left(places, mine.start) < bisect_left(places, mine.stop)
        ]

    def _pool(self, run: RunFacts) -> int:
        return sum(map(len, run.own_tests.values()))

    def at_client(self, here: ClientScope) -> Message:
        """Return the features and labels of the client's samples."""
        model, which = self.model_here(here), tensor(here.message, _WHICH)
        return {} if model is None else self._seen(model, here.client.data.test, which, here.client.rng("mdl"))

    def _seen(self, model: nn.Module, samples: Samples, which: Tensor, rng: torch.Generator) -> Message:
        some = samples.take(by_class(samples.y, rng)[which])
        z = self.features(model, some)
        return {} if z is None else {_Z: z, _Y: some.y}

    # ------------------------------------------------------------ the code length

    def found(self, run: RunFacts, replies: Mapping[int, Message]) -> Finding:
        """Return the MDL of the clients' features, or of the common test set."""
        if self.model != "generic" and not run.has_own_tests:
            return Finding(notes=["mdl: no client has test data of its own (data.test_share = 0)"])
        if self.model == "generic" and run.generic is None:
            return Finding(notes=["mdl: the method has no generic model; accepted: scoring.derived_generic = true"])
        pooled = [reply for reply in replies.values() if _Z in reply]
        data = "split" if pooled else "common"
        if not pooled and run.facts.test is not None and run.generic is not None and self.model == "generic":
            Layout(run.net).bind(run.net, run.generic)
            which = torch.tensor(evenly_spaced(len(run.facts.test), self.samples))
            pooled = [self._seen(run.net, run.facts.test, which, generator(run.seed, "mdl"))]
        if not pooled:
            return Finding(notes=["mdl: there are no test data"])
        z, y = (torch.cat([tensor(reply, name) for reply in pooled]) for name in (_Z, _Y))
        order = torch.randperm(len(y), generator=generator(run.seed, "mdl-order"))  # the last part is for validation
        pool = len(y) - held_out(len(y))
        if pool < FIRST_SIZE:
            return Finding(notes=[f"mdl: {len(y)} test samples are too few; accepted: at least {FIRST_SIZE + 2}"])
        sizes = subset_sizes(pool, self.sizes)
        losses = self.loss_curve(z[order], y[order], sizes, run.facts.classes, run.seed)
        return self._finding(run, data, sizes, losses)

    def loss_curve(self, z: Tensor, y: Tensor, sizes: Sequence[int], classes: int, seed: int) -> list[float]:
        """Return ℓ(s): validation loss of probes that saw s samples, mean over seeds; the last tenth validates."""
        pool = len(y) - held_out(len(y))
        z = (z - z[:pool].mean()) / z[:pool].std().clamp_min(1e-12)  # one mean and one deviation for all features
        losses = []
        for size in sizes:
            found = []
            for which in range(self.seeds):
                rng = generator(seed, "mdl-probe", size, which)
                rows = torch.randperm(pool, generator=rng)[:size]
                with seeded(seed, "mdl-probe-weights", size, which):
                    probe = _probe(z.shape[1], classes)
                _learn(probe, z[rows], y[rows], self.steps, rng)
                with torch.inference_mode():
                    found.append(float(cross_entropy(probe(z[pool:]), y[pool:])))
            losses.append(fmean(found))
        return losses

    def _finding(self, run: RunFacts, data: str, sizes: Sequence[int], losses: Sequence[float]) -> Finding:
        nats, layer = code_length(sizes, losses), self.stage(run.net)
        figures = {f"mdl:{layer}": nats, f"mdl_bits:{layer}": nats / math.log(2)}
        curve = LearnedFigure.lines(
            f"mdl-{re.sub('[^a-z0-9]+', '-', layer.lower()).strip('-')}"
            + ("" if self.model == "generic" else f"-{self.model}"),
            f"What a probe learns of the labels from the {'logits' if layer == LOGITS else f'features after {layer}'}"
            + ("" if self.model == "generic" else f" {WORDS[self.model]}"),
            f"The area under the stairs is the description length, {nats:.0f} nats: the sooner the loss falls, the "
            "easier the features are to read.",
            {"validation loss (nats)": losses},
            x=Axis("samples that the probe saw", tuple(sizes)),
            y="nats",
        )
        return Finding(
            {str(MetricName(self.whose, data, k, "pooled")): v for k, v in figures.items()}, figures_learned=[curve]
        )


def held_out(samples: int) -> int:
    """Return how many of the samples are for validation."""
    return math.ceil(round(HELD_OUT * samples, 9))


def subset_sizes(pool: int, points: int) -> list[int]:
    """Return `points` sizes from 10 to the pool's size, evenly spaced in their logarithms and rounded up."""
    reach = math.log10(pool) - math.log10(FIRST_SIZE)
    sizes = (FIRST_SIZE * 10 ** (k * reach / (points - 1)) for k in range(points))
    return [math.ceil(round(size, 9)) for size in sizes]  # 1800.0000000000002 is 1800


def code_length(sizes: Sequence[int], losses: Sequence[float]) -> float:
    """Return Σ_k (s_k − s_{k−1})·ℓ(s_k) with s_0 = 0, in the unit of the losses."""
    return sum((after - before) * loss for (before, after), loss in zip(pairwise([0, *sizes]), losses, strict=True))


def evenly_spaced(total: int, count: int) -> list[int]:
    """Return `count` evenly spaced indices below `total`, or all of them."""
    count = min(total, count)
    return [k * total // count for k in range(count)]


def by_class(y: Tensor, rng: torch.Generator) -> Tensor:
    """Return all indices sorted by class, shuffled within each, so that evenly spaced ones keep the class shares."""
    drawn = torch.randperm(len(y), generator=rng)
    return drawn[y[drawn].argsort(stable=True)]


def _probe(features: int, classes: int) -> nn.Module:
    widths = [features, HIDDEN, HIDDEN]
    layers = [layer for pair in pairwise(widths) for layer in (nn.Linear(*pair), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(HIDDEN, classes))


def _learn(probe: nn.Module, z: Tensor, y: Tensor, steps: int, rng: torch.Generator) -> None:
    """Train a probe with Adam on shuffled batches of 256, or on all samples if there are fewer."""
    adam = torch.optim.Adam(probe.parameters(), lr=PROBE_LR, fused=True)  # one pass over the weights: twice as fast
    size, rows = min(PROBE_BATCH, len(y)), torch.zeros(0, dtype=torch.int64)
    for _ in range(steps):
        if len(rows) < size:
            rows = torch.randperm(len(y), generator=rng)
        batch, rows = rows[:size], rows[size:]
        adam.zero_grad(set_to_none=True)
        cross_entropy(probe(z[batch]), y[batch]).backward()  # type: ignore[no-untyped-call]
        adam.step()
