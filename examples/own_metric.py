"""Your own metric: a function of logits and labels. Here the mean over classes of the share that was found.

motet run --metrics examples/own_metric.py:macro_recall
"""

import torch
from torch import Tensor

import motet


def macro_recall(logits: Tensor, y: Tensor) -> float:
    """A rare class counts as much as a frequent one; classes that are not in the set count nothing."""
    found = torch.bincount(y[logits.argmax(1) == y], minlength=logits.shape[1])
    there = torch.bincount(y, minlength=logits.shape[1])
    return float((found / there)[there > 0].mean())


if __name__ == "__main__":
    for method in ("fedavg", "fedavg+bsm"):
        result = motet.run(
            method=method, clients=10, rounds=10, lr=0.05, set={"scoring.metrics": [f"{__file__}:macro_recall"]}
        )
        accuracy, recall = (result.figures[f"personal.split.{metric}.mean"] for metric in ("accuracy", "macro_recall"))
        print(f"{method:12} personal models on their own data: accuracy {accuracy:.3f}, macro recall {recall:.3f}")
