"""From values to places on paper, with round numbers at the axis."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, floor, log10


@dataclass(frozen=True)
class Scale:
    """A straight line from values to pixels."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        inside = min(max(value, self.low), self.high)
        return self.start + (self.stop - self.start) * (inside - self.low) / (self.high - self.low)


def span(
    values: Iterable[float], least: float = 0.0, floor_at: float | None = None, ceil_at: float | None = None
) -> tuple[float, float]:
    """From the smallest to the largest with a little air, at least so long, within what can be."""
    found = list(values)
    low, high = (min(found), max(found)) if found else (0.0, 1.0)
    length = max(high - low, least, abs(high) * 1e-6, 1e-12)
    middle = (low + high) / 2
    low, high = min(low, middle - length / 2) - 0.06 * length, max(high, middle + length / 2) + 0.06 * length
    if floor_at is not None:
        low = max(low, floor_at)
    if ceil_at is not None:
        high = min(high, ceil_at)
    return (low, high) if high > low else (low, low + 1)


def round_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten, about so many."""
    rough = (high - low) / max(1, about)
    power = 10.0 ** floor(log10(rough))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= rough * 0.999)
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    decimals = max(0, 2 - floor(log10(step)))  # which leave nothing of how 0.1 is stored
    return [round(i * step, decimals) for i in range(first, last + 1)]


def written(value: float, signed: bool = False) -> str:
    """A number as short as its digits allow; a minus that is one."""
    size = abs(value)
    text = f"{value:,.0f}" if size >= 1000 else f"{value:.4g}"
    if "e" in text:
        text = f"{value:.1e}"
    if signed and value > 0:
        text = f"+{text}"
    return text.replace("-", "−")
