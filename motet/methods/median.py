"""The coordinate-wise median (Yin et al. 2018)."""

from torch import Tensor

from motet.contract import Entry
from motet.methods.components.robust import Robust, middle


class Median(Robust):
    """w_k ← median_i w_ik; of an even number, the mean of the two in the middle"""

    def choose(self, W: Tensor) -> Tensor:
        """All but one or two are cut."""
        return middle(W, (len(W) - 1) // 2)


ENTRY = Entry("median", "the median of every weight", "Yin et al. 2018", part=Median)
