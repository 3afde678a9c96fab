"""What metrics of features share: whose model they are of, and after which stage of the net."""

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from motet.data import Samples
from motet.methods.base import Part
from motet.methods.base.personal_model import PersonalModel, through
from motet.metrics.names import GENERIC, PERSONAL, variant
from motet.metrics.run_metric import BATCH, ClientScope, RunFacts, RunMetric
from motet.nets import Net

LOGITS = "logits"
WORDS = {
    "generic": "of the generic model",
    "personal": "of the personal models",
    "trained": "of the clients' models after one more local training",
}


class FeatureMetric(RunMetric):
    """The base of metrics of features; they leave their clients, so these are for simulations only."""

    asks_clients: ClassVar[bool] = True
    needs_generic: ClassVar[bool] = True

    layer: str = Field(
        "", description="features after this stage of the net, or logits; left out: those that its head sees"
    )
    model: Literal["generic", "personal", "trained"] = Field(
        "generic",
        description="the generic model, each client's personal model as it is scored, or its model after one more "
        "local training (trained)",
    )

    @property
    def trains(self) -> bool:
        """Whether clients train for it."""
        return self.model == "trained"

    @property
    def whose(self) -> str:
        """The name of the models in figures."""
        return {"generic": GENERIC, "personal": PERSONAL}.get(self.model, variant(PERSONAL, self.model))

    def refuse(self, run: RunFacts) -> str | None:
        """Return a sentence if the net does not have the stage."""
        inner = [*run.net.stage_names[:-1], LOGITS]
        if self.layer and self.layer not in inner:
            return f"{self.name}(layer={self.layer}) names no inner stage of the net; accepted: {', '.join(inner)}"
        return None

    def stage(self, net: Net) -> str:
        """Return the name of the stage whose output the features are, or `logits`."""
        return self.layer or net.stage_names[net.stage_names.index(net.split) - 1]

    def model_here(self, here: ClientScope) -> nn.Module | None:
        """Return the model at a client; None where there is none."""
        if self.model == "generic":
            return here.generic()
        return here.heads().get(PERSONAL) if self.model == "personal" else here.trained()

    def features(self, model: nn.Module, samples: Samples) -> Tensor | None:
        """Return the flattened features of samples, one row each; None for a model that has no stages."""
        net, parts = (model.net, model.parts) if isinstance(model, PersonalModel) else (model, ())
        if not isinstance(net, Net) and self.layer != LOGITS:
            return None
        device, model = next(model.parameters()).device, model.eval()

        def seen(x: Tensor) -> Tensor:
            if self.layer == LOGITS:
                logits: Tensor = model(x)
                return logits
            assert isinstance(net, Net)
            return _between(net, parts, x, self.stage(net))

        with torch.no_grad():
            return torch.cat([seen(x.to(device)).flatten(1).float().cpu() for x, _ in samples.all_batches(BATCH)])

    def samples_here(self, here: ClientScope) -> Samples:
        """Return the client's test data; without any, those of the common test set whose class it holds."""
        own, common = here.client.data.test, here.common_test(here.client.data)
        if len(own) or common is None:
            return own
        return common.classes_only(here.client.counts > 0)


def _between(net: Net, parts: Sequence[Part], x: Tensor, last: str) -> Tensor:
    """Return the output of a stage; after the split, of what the method's parts make of the features."""
    names = net.stage_names
    end = names[names.index(last) + 1]
    if names.index(end) <= names.index(net.split) or not parts:
        return net.between(x, None, end)
    return net.between(through(net, parts, x).z, net.split, end)
