"""FedProx (Li et al. 2020): stay near the model the server sent."""

from typing import ClassVar

from pydantic import Field

from motet.config.section import tried
from motet.methods.base import MethodEntry, Part, Training


class FedProx(Part):
    """f_i(x) + (μ/2)‖x − w‖², the gradient of the second term in closed form."""

    serves_adaptation: ClassVar[bool] = False

    mu: float = Field(
        0.01,
        ge=0,
        description="strength of the proximal term (FED-ROD's grid: 1e-2, 1e-3, 1e-4)",
        json_schema_extra=tried(1e-2, 1e-3, 1e-4),
    )

    def correct(self, t: Training) -> None:
        """∇ += μ(x − w)"""
        t.g_shared.add_(t.shared - t.anchor, alpha=self.mu)


ENTRY = MethodEntry("fedprox", "stay near the model the server sent", "Li et al. 2020", part=FedProx)
