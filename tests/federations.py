"""Federations built so that one answer is right, from scikit-learn's digits as vectors of 64 numbers."""

import csv
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_digits

Numbers = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]


def identical(path: Path, seed: int) -> Path:
    """Eight clients with samples of one distribution: one model for all is right."""
    x, y = _digits(seed)
    return _save(path, x, _mislabelled(y, seed), np.arange(len(y)) % 8)


def tiny(path: Path, seed: int) -> Path:
    """Forty clients of one distribution, with a handful of training samples each: one model for all is right."""
    x, y = _digits(seed)
    return _save(path, x, _mislabelled(y, seed), np.arange(len(y)) % 40)


def contradictory(path: Path, seed: int) -> Path:
    """Every client calls the digits by other names: no model for all can be right."""
    x, y = _digits(seed)
    client, rng = np.arange(len(y)) % 8, np.random.default_rng(seed)
    names = np.array([rng.permutation(10) for _ in range(8)])
    return _save(path, x, names[client, y], client)


def domains(path: Path, seed: int) -> Path:
    """Sixteen clients in four domains, each with a faint background and three pairs of digits that it calls by each
    other's names: most can be learned from all, the rest from oneself alone. Personal models that learned from all are
    right.
    """
    x, y = _digits(seed)
    client, rng = np.arange(len(y)) % 16, np.random.default_rng(seed)
    domain = client % 4
    names = np.tile(np.arange(10), (4, 1))
    for of in names:
        a, b, c, d, e, f = rng.permutation(10)[:6]
        of[[a, b, c, d, e, f]] = b, a, d, c, f, e
    background = rng.uniform(0, 2, (4, 64)).astype(np.float32)
    return _save(path, x + background[domain], names[domain, y], client)


def noise(path: Path, seed: int) -> Path:
    """Labels that have nothing to do with the samples: whatever learns from them is right by chance, all alike."""
    x, y = _digits(seed)
    return _save(path, x, np.random.default_rng(seed).permutation(y), np.arange(len(y)) % 8)


def _digits(seed: int) -> tuple[Numbers, Labels]:
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    return x[order].astype(np.float32), y[order].astype(np.int64)


def _mislabelled(y: Labels, seed: int) -> Labels:
    """One label in seven is wrong, as everywhere: who learns from few samples learns that too."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(len(y)) < 1 / 7, rng.integers(0, 10, len(y)), y)


def _save(path: Path, x: Numbers, y: Labels, client: Labels) -> Path:
    np.savez(path, x=x, y=y, client=client)
    return path


def imbalanced(path: Path, seed: int) -> Path:
    """Thirty clients of one distribution in which one row of thirteen is of the rare class: by accuracy nobody is
    better than who always answers "no", by AUROC one model for all is. A CSV file.
    """
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(30 * 160, 30))
    weights = rng.normal(size=30)
    risk = x @ weights / np.linalg.norm(weights) + rng.normal(0, 1.0, len(x))
    y = risk > np.quantile(risk, 12 / 13)
    return _write_csv(path, x, np.where(y, "yes", "no"), np.arange(len(x)) % 30)


def checkered(path: Path, seed: int) -> Path:
    """Twenty clients with few rows each of one checkered plane, which trees learn from everybody's rows and no small
    net learns in a few rounds: pooling beats everything. A CSV file.
    """
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 4, size=(20 * 60, 2))
    y = (np.floor(x).sum(1) % 2).astype(int)
    return _write_csv(path, x, np.where(y == 1, "black", "white"), np.arange(len(x)) % 20)


def _write_csv(path: Path, x: npt.NDArray[np.float64], y: npt.NDArray[np.str_], client: npt.NDArray[np.int64]) -> Path:
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow([*(f"x{i}" for i in range(x.shape[1])), "site", "kind"])
        rows.writerows([*(f"{v:.4f}" for v in row), f"s{c}", k] for row, c, k in zip(x, client, y, strict=True))
    return path
