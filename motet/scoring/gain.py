"""Individual gain: how much better a client's model is than another that it could have (PGFed's, over Local)."""

from collections.abc import Sequence
from statistics import fmean, pstdev

from motet.scoring.figures import Figure
from motet.scoring.over_clients import Figures


def gained(figure: Figure, pairs: Sequence[tuple[float, float]], statistic: str) -> Figures:
    """Mean and standard deviation over clients of what the first of each pair is above the second."""
    if not pairs:
        return {}
    gains = [mine - other for mine, other in pairs]
    return {str(figure.over(statistic)): fmean(gains), str(figure.over(f"{statistic}_std")): pstdev(gains)}
