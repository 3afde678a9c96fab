"""The geometric median (Pillutla, Kakade and Harchaoui 2022, RFA)."""

from pydantic import Field
from torch import Tensor

from motet.contract import Entry
from motet.methods.components.robust import Robust

MOST_ITERATIONS = 1000


class GeometricMedian(Robust):
    """w ← argmin_z Σ_i ‖z − w_i‖, by z ← Σ (w_i/d_i) / Σ (1/d_i) with d_i = max(ν, ‖z − w_i‖) (smoothed Weiszfeld)

    From the mean until z stands still. RFA weighs clients by their samples; here they weigh alike.
    """

    nu: float = Field(1e-6, gt=0, description="ν, the least distance that counts")
    tolerance: float = Field(
        1e-6, gt=0, description="z stands still when it moves by less than this share of Σ d_i/|S|"
    )

    def choose(self, W: Tensor) -> Tensor:
        """In float64: distances are small beside the weights"""
        points = W.double()
        z = points.mean(0)
        for _ in range(MOST_ITERATIONS):
            d = (points - z).norm(dim=1).clamp_min(self.nu)
            moved, z = z, (1 / d) @ points / (1 / d).sum()
            if (z - moved).norm() <= self.tolerance * d.mean():
                break
        return z.to(W.dtype)


ENTRY = Entry("geometric-median", "the point nearest to all models", "Pillutla et al. 2022", part=GeometricMedian)
