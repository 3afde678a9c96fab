"""A small run to export, and what its samples look like."""

from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor

import motet

TINY: dict[str, Any] = {
    **{"data": "digits", "clients": 4, "new_clients": 0.25, "subset": 0.2, "cohort": 1.0, "rounds": 2},
    **{"epochs": 1, "batch": 20, "lr": 0.05},
}
DIGITS = load_digits().images[:40].astype(np.uint8)


def tiny(method: str, **more: Any) -> motet.Result:
    return motet.run(method=method, **(TINY | more), **{"engine.name": "inline"})


def apart(mine: Tensor, right: Tensor) -> float:
    return float(torch.where(mine == right, 0.0, (mine - right).abs()).max())
