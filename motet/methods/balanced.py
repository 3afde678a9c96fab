"""Balanced risks L_BR (FED-ROD, Eqs. 5 and 6, Table 5): a client's loss as if its classes were equally frequent.

`fedavg+bsm` is the paper's FedAvg (BRM). N_c are counts over the client's whole training set.
"""

from typing import ClassVar

from pydantic import Field
from torch import Tensor
from torch.nn.functional import cross_entropy

from motet.config.section import tried
from motet.methods.base import Forward, MethodEntry, Part, Training
from motet.methods.base.part import Acts
from motet.training.losses import cdt, ir, ldam, log_prior, resampled


class BalancedRisk(Part):
    """The base class of balanced losses: each replaces cross-entropy, and a sum may have one of them."""

    acts: ClassVar[Acts] = "loss"
    needs_sharing: ClassVar[bool] = False
    role: ClassVar[str | None] = "loss"
    needs_classes: ClassVar[bool] = True


class BSM(BalancedRisk):
    """Balanced softmax: g_c + γ log N_c (Eq. 6)"""

    gamma: float = Field(1.0, ge=0, description="γ, power of the class counts (the paper: 1; 0 is cross-entropy)")

    def criterion(self, t: Training, out: Forward, y: Tensor) -> Tensor:
        """L_BR = mean CE(g + γ log N, y)"""
        if not self.gamma:
            return cross_entropy(out.logits, y)
        if "bsm.prior" not in t.values:  # the same for every batch
            t["bsm.prior"] = log_prior(t.counts, self.gamma)
        return cross_entropy(out.logits + t["bsm.prior"], y)


class IR(BalancedRisk):
    """Importance re-weighting: q_y ∝ N_y^(−γ) (Eq. 5)"""

    gamma: float = Field(
        1.0,
        ge=0,
        description="γ, power of the class counts (Eq. 5: 1; the appendix: 0.5, which is 1/√N)",
        json_schema_extra=tried(0.5, 1.0),
    )

    def criterion(self, t: Training, out: Forward, y: Tensor) -> Tensor:
        """L_BR = mean q_y CE(g, y)"""
        return ir(out.logits, y, t.counts, self.gamma)


class Resampling(BalancedRisk):
    """Re-sampling: every batch is drawn again, so that the client's classes are equally frequent in it"""

    def criterion(self, t: Training, out: Forward, y: Tensor) -> Tensor:
        """L_BR = mean CE(g_i, y_i) over rows i drawn with probability ∝ 1/N_y, with replacement"""
        return resampled(out.logits, y, t.counts, t.client.rng(f"resampling-{t.descent.steps}"))


class LDAM(BalancedRisk):
    """Label-distribution-aware margin: g_y − γ N_y^(−1/4)"""

    gamma: float | None = Field(
        None, ge=0, description="γ, scale of the margins (grid: 0.1 to 3); left out: the client's largest margin is 0.5"
    )

    def criterion(self, t: Training, out: Forward, y: Tensor) -> Tensor:
        """L_BR = mean CE(g − γ N_y^(−1/4) e_y, y)"""
        return ldam(out.logits, y, t.counts, self.gamma)


class CDT(BalancedRisk):
    """Class-dependent temperatures: (N_c/N_max)^γ g_c"""

    gamma: float = Field(
        0.2,
        ge=0,
        description="γ, power of the relative class counts (grid: 0.1, 0.2, 0.3)",
        json_schema_extra=tried(0.1, 0.2, 0.3),
    )

    def criterion(self, t: Training, out: Forward, y: Tensor) -> Tensor:
        """L_BR = mean CE((N/N_max)^γ g, y)"""
        return cdt(out.logits, y, t.counts, self.gamma)


ENTRIES = (
    MethodEntry("bsm", "balanced softmax loss: FedAvg (BRM) of FED-ROD", "Ren et al. 2020", part=BSM),
    MethodEntry("ir", "loss re-weighted by inverse class counts", "Hsu et al. 2020", part=IR),
    MethodEntry(
        "resampling", "batches drawn again with equally frequent classes", "FED-ROD's appendix", part=Resampling
    ),
    MethodEntry("ldam", "loss with larger margins for rarer classes", "Cao et al. 2019", part=LDAM),
    MethodEntry("cdt", "loss with class-dependent temperatures", "Ye et al. 2020", part=CDT),
)
