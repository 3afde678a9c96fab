"""What a threshold is chosen for: the words of `scoring.threshold`."""

import re
from dataclasses import dataclass

ACCEPTED = 'accepted: "", f1, balanced_accuracy, "recall>=0.9" or "precision>=0.8" (in quotation marks in a shell)'


@dataclass(frozen=True)
class ThresholdRule:
    """A metric that is made as large as possible, or of which a least value is asked."""

    metric: str
    least: float | None = None

    @classmethod
    def read(cls, text: str) -> "ThresholdRule":
        """Return the rule of a text such as `f1` or `recall>=0.9`; raise `ValueError` for any other."""
        found = re.fullmatch(r"(recall|precision)\s*>=\s*(0?\.\d+|1(?:\.0*)?|0)", text.strip(), re.ASCII)
        if found is None:
            if text.strip() not in ("f1", "balanced_accuracy"):
                raise ValueError(ACCEPTED)
            return cls(text.strip())
        least = float(found[2])
        if not 0 < least <= 1:
            raise ValueError(ACCEPTED)
        return cls(found[1], least)

    def __str__(self) -> str:
        return self.metric if self.least is None else f"{self.metric}>={self.least:g}"


def threshold_text(text: str) -> str:
    """Return the text of a rule as Motet writes it; an empty text stays empty; raise `ValueError` for any other."""
    return str(ThresholdRule.read(text)) if text.strip() else ""
