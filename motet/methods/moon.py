"""MOON (Li, He and Song 2021): pull features towards the global model's, and away from those of the client's last
model."""

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import cosine_similarity, cross_entropy

from motet.config.section import tried
from motet.messages.message import Message, tensor
from motet.methods.base import Forward, MethodEntry, Part, Training
from motet.methods.base.part import Acts


class MOON(Part):
    """L += μ·−log( e^{cos(z, z_g)/τ} / (e^{cos(z, z_g)/τ} + e^{cos(z, z_p)/τ}) ) (Eq. 3)

    z are the body's features, z_g those of the model received, z_p those of the client's model of its last round. In a
    client's first round there is no contrast, as it has no last model.
    """

    acts: ClassVar[Acts] = "features"
    serves_adaptation: ClassVar[bool] = False

    mu: float = Field(
        1.0,
        ge=0,
        description="μ, weight of the contrast (the paper's grid: 0.1, 1, 5, 10)",
        json_schema_extra=tried(0.1, 1.0, 5.0, 10.0),
    )
    tau: float = Field(0.5, gt=0, description="τ, temperature of the contrast")

    def objective(self, t: Training, out: Forward, y: Tensor, loss: Tensor) -> Tensor:
        """+ μ·CE([cos(z, z_g), cos(z, z_p)]/τ, first)"""
        if "moon.previous" not in t.client.private:
            return loss
        z = out.raw.flatten(1)
        others = [self.features_of(t, w, out.x) for w in (t.start, tensor(t.client.private, "moon.previous"))]
        alike = torch.stack([cosine_similarity(z, other) for other in others], 1)
        return loss + self.mu * cross_entropy(alike / self.tau, torch.zeros_like(y, dtype=torch.int64))

    def features_of(self, t: Training, w: Tensor, x: Tensor) -> Tensor:
        """z of another model, in eval mode"""
        with torch.no_grad(), t.at(w):
            return t.net.body(x).flatten(1)

    def after(self, t: Training, reply: Message) -> None:
        """Keep the client's model for its next round."""
        t.client.private["moon.previous"] = t.w.clone()


ENTRY = MethodEntry(
    "moon",
    "features near the global model's, far from the last ones",
    "Li, He and Song 2021",
    part=MOON,
    stays="its model of its last round",
)
