"""The coordinate-wise trimmed mean (Yin et al. 2018)."""

from pydantic import Field
from torch import Tensor

from motet.contract import Entry
from motet.methods.components.robust import Robust, middle


class TrimmedMean(Robust):
    """w_k ← mean of the w_ik without the ⌊β|S|⌋ smallest and the ⌊β|S|⌋ largest"""

    share: float = Field(0.2, ge=0, lt=0.5, description="β, the share that is cut at either end")

    def choose(self, W: Tensor) -> Tensor:
        """Rounded down; a product just below a whole number is that number."""
        return middle(W, int(self.share * len(W) + 1e-9))


ENTRY = Entry("trimmed-mean", "the mean of every weight without its extremes", "Yin et al. 2018", part=TrimmedMean)
