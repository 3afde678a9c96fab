"""Whether an exported model answers as the run's own does, told from samples."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from motet.data import Prepare
from motet.data.prepare import NumbersPrepare
from motet.data.schema import CategoryColumn, Column, NumberColumn
from motet.data.table_prepare import TablePrepare
from motet.errors import MotetError
from motet.rng import generator
from motet.runs.served import Served

SAMPLES = 64
CLOSE = {"torch": 1e-6, "torch.export": 1e-5, "onnx": 1e-4}
"""How far logits may be apart, relative to the largest where that is above 1."""


@dataclass(frozen=True)
class CheckedOn:
    """Samples as they are stored, and where they come from."""

    x: Tensor
    words: str


def samples_of(served: Served, stored: torch.dtype) -> CheckedOn:
    """Real ones where the run's data are; else made up, and said so."""
    found = served.real_samples(SAMPLES)
    if found is not None:
        return CheckedOn(found.to(stored), f"{len(found)} samples of the common test set")
    return CheckedOn(_made_up(served.prepare, stored), f"{SAMPLES} made-up samples, for the run's data are not here")


def difference(run: Callable[[Tensor], Tensor], reference: nn.Module, x: Tensor, format: str) -> float:
    """The largest difference of logits, of single samples and of all; a model that answers otherwise is refused."""
    largest = 0.0
    for some in (x[:1], x):
        mine, right = run(some), reference(some)
        apart = torch.where(mine == right, 0.0, (mine - right).abs())  # −∞ may stand on both sides
        largest = max(largest, float(apart.max()))
        finite = right[torch.isfinite(right)].abs()
        if not float(apart.max()) <= CLOSE[format] * max(1.0, float(finite.max()) if len(finite) else 1.0):
            raise MotetError(f"the model in format {format} differs from the run's own by {float(apart.max()):.2g}")
    return largest


def _made_up(prepare: Prepare, stored: torch.dtype) -> Tensor:
    """Whatever the preparation can take, spread as after a normalization."""
    rng, shape = generator(0, "export-check"), (SAMPLES, *prepare.sample_shape)
    if stored == torch.int64:
        return torch.randint(max(1, prepare.input.vocabulary), shape, generator=rng)
    if isinstance(prepare, TablePrepare):
        return torch.stack([_made_up_column(column, rng) for column in prepare.schema.columns.values()], 1)
    x = torch.randn(shape, generator=rng)
    if isinstance(prepare, NumbersPrepare) and prepare.scale is not None and prepare.shift is not None:
        x = (x - prepare.shift) / prepare.scale
    return x.clamp(0, 255).round().to(stored) if stored == torch.uint8 else x


def _made_up_column(column: Column, rng: torch.Generator) -> Tensor:
    """Numbers, truths, or places of categories."""
    if isinstance(column, NumberColumn):
        return column.mean + column.deviation * torch.randn(SAMPLES, generator=rng)
    most = len(column.categories) if isinstance(column, CategoryColumn) else 2
    return torch.randint(most, (SAMPLES,), generator=rng).float()
