"""The contract that every method and every part of a method follows, on every engine.

The smallest method is a part with one line of its own. FedProx, whole:

    class FedProx(Part):
        acts = "correction"
        mu: float = Field(0.01, ge=0)

        def correct(self, t: Training) -> None:
            t.g_shared.add_(t.shared - t.anchor, alpha=self.mu)

    ENTRY = MethodEntry("fedprox", "stay near the model the server sent", "Li et al. 2020", part=FedProx)

`Part` lists every hook of a part. `Method` lists what a method must define that is not a sum of parts.
"""

from motet.messages.replies import average
from motet.methods.base.entry import MethodEntry
from motet.methods.base.learned_figure import Axis, Learned, LearnedFigure
from motet.methods.base.method import Facts, Family, Method, Predictor
from motet.methods.base.part import Forward, Part, Phase
from motet.methods.base.serving import Serving
from motet.methods.base.training import Training
from motet.methods.base.wrapped import Wrapped

__all__ = [
    "Axis",
    "Facts",
    "Family",
    "Forward",
    "Learned",
    "LearnedFigure",
    "Method",
    "MethodEntry",
    "Part",
    "Phase",
    "Predictor",
    "Serving",
    "Training",
    "Wrapped",
    "average",
]
