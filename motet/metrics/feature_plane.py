"""Features of clients' samples in a plane, coloured by class and by client (DBE's Figure 1)."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from pydantic import Field

from motet.messages.message import Message, tensor
from motet.methods.base import LearnedFigure
from motet.methods.base.plane import in_a_plane
from motet.metrics.feature_metric import WORDS, FeatureMetric
from motet.metrics.run_metric import ClientScope, Finding, RunFacts

_Z, _Y = "features.z", "features.y"
MOST_POINTS = 600  # t-SNE takes time with their square


class FeaturePlane(FeatureMetric):
    """t-SNE of features, twice in one plane: once each colour is a class, once a client."""

    name: ClassVar[str] = "features"
    summary: ClassVar[str] = "t-SNE of features of any method's models, coloured by class and by client"
    paper: ClassVar[str] = "DBE, Zhang et al. 2023, Figure 1; van der Maaten and Hinton 2008"

    clients: int = Field(8, ge=1, le=20, description="how many clients, the first ones")
    samples: int = Field(25, ge=2, le=MOST_POINTS, description="how many test samples of each, spread over its classes")

    def whom(self, run: RunFacts) -> list[int]:
        """Return the first clients."""
        return run.facts.training_ids[: self.clients]

    def at_client(self, here: ClientScope) -> Message:
        """Return features and classes of a few samples."""
        model = self.model_here(here)
        some = here.spread_over_classes(self.samples_here(here), self.samples)
        z = None if model is None or not len(some) else self.features(model, some)
        return {} if z is None else {_Z: z, _Y: some.y}

    def found(self, run: RunFacts, replies: Mapping[int, Message]) -> Finding:
        """Return both pictures, or a note where no client has such features."""
        told = {i: reply for i, reply in replies.items() if _Z in reply}
        if not told:
            return Finding(notes=[f"features: no client has a model with these features, {WORDS[self.model]}"])
        z, y = (torch.cat([tensor(reply, name) for reply in told.values()])[:MOST_POINTS] for name in (_Z, _Y))
        owner = [place for place, reply in enumerate(told.values()) for _ in tensor(reply, _Y)][:MOST_POINTS]
        at, names, words = in_a_plane(z, run.seed), run.facts.class_names, WORDS[self.model]
        stage = self.stage(run.net)
        return Finding(
            figures_learned=[
                LearnedFigure.points(
                    f"features-{self.model}-by-class",
                    f"Features after {stage} {words}, by class (t-SNE)",
                    "Each colour is a class: the better they are apart, the easier a classifier has it.",
                    at,
                    y.tolist(),
                    [name[:100] for name in names] or [str(c) for c in range(run.facts.classes)],
                ),
                LearnedFigure.points(
                    f"features-{self.model}-by-client",
                    f"Features after {stage} {words}, by client (t-SNE)",
                    "The same points, each colour is a client: the more they mix, the less the features tell whose a "
                    "sample is.",
                    at,
                    owner,
                    [run.names[i] for i in told],
                ),
            ]
        )
