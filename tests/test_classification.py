"""Metrics of classes of unequal size, against scikit-learn; over all clients' rows; what leaves a client."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn import metrics as sklearn
from torch import Tensor

from motet.config.scoring_section import ScoringSettings
from motet.metrics.classification import RankMetric, area_under_roc, levels_of, macro
from motet.metrics.metric import SampleMetric
from motet.metrics.one_pass import Answers
from motet.metrics.pooling import BINS, binned, log_odds, pooled_figures, told
from motet.metrics.registry import METRICS, metric_asked

EXACT = 1e-9
Problem = tuple[Tensor, Tensor]


def problem(
    classes: int, n: int = 300, seed: int = 0, ties: bool = False, dtype: torch.dtype = torch.float32
) -> Problem:
    """Logits that say something about y, of classes of unequal size; with ties many rows have the same logits."""
    rng = torch.Generator().manual_seed(seed)
    weights = torch.tensor([2.0**-c for c in range(classes)])
    y = torch.multinomial(weights, n, replacement=True, generator=rng)
    y[:classes] = torch.arange(classes)
    logits = torch.randn(n, classes, generator=rng, dtype=torch.float64) + torch.nn.functional.one_hot(y, classes)
    return ((logits.round() if ties else logits).to(dtype), y)


def value(name: str, logits: Tensor, y: Tensor) -> float | None:
    metric = METRICS[name]
    if isinstance(metric, SampleMetric):
        return float(metric.right(logits, y).double().mean())
    return metric.value(logits, y)  # type: ignore[attr-defined]


def probabilities(logits: Tensor) -> np.ndarray:
    return torch.softmax(logits.double(), 1).numpy()


def one_vs_rest(score: Callable[[Any, Any], float]) -> Callable[[Tensor, Tensor], float]:
    """scikit-learn's score of the second of two classes, or its mean over classes with both kinds of rows."""

    def of(logits: Tensor, y: Tensor) -> float:
        p, classes = probabilities(logits), logits.shape[1]
        if classes == 2:
            return score(y.numpy() == 1, p[:, 1])
        there = [c for c in range(classes) if 0 < int((y == c).sum()) < len(y)]
        return float(np.mean([score(y.numpy() == c, p[:, c]) for c in there]))

    return of


def of_answers(score: Callable[..., float]) -> Callable[[Tensor, Tensor], float]:
    def of(logits: Tensor, y: Tensor) -> float:
        average = "binary" if logits.shape[1] == 2 else "macro"
        return float(score(y.numpy(), logits.argmax(1).numpy(), average=average, zero_division=0))

    return of


def brier(logits: Tensor, y: Tensor) -> float:
    p, classes = probabilities(logits), logits.shape[1]
    if classes == 2:
        return float(sklearn.brier_score_loss(y.numpy(), p[:, 1]))
    return float(((p - np.eye(classes)[y.numpy()]) ** 2).sum(1).mean())


def log_loss(logits: Tensor, y: Tensor) -> float:
    return float(sklearn.log_loss(y.numpy(), probabilities(logits), labels=range(logits.shape[1])))


REFERENCES: dict[str, Callable[[Tensor, Tensor], float]] = {
    "auroc": one_vs_rest(sklearn.roc_auc_score),
    "average_precision": one_vs_rest(sklearn.average_precision_score),
    "f1": of_answers(sklearn.f1_score),
    "precision": of_answers(sklearn.precision_score),
    "recall": of_answers(sklearn.recall_score),
    "balanced_accuracy": lambda logits, y: float(sklearn.balanced_accuracy_score(y.numpy(), logits.argmax(1).numpy())),
    "brier": brier,
    "accuracy": lambda logits, y: float(sklearn.accuracy_score(y.numpy(), logits.argmax(1).numpy())),
}


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("classes", [2, 6])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("n", [300, 12])
def test_as_scikit_learn_has_it(name: str, classes: int, ties: bool, n: int) -> None:
    logits, y = problem(classes, n, seed=n, ties=ties)
    assert value(name, logits, y) == pytest.approx(REFERENCES[name](logits, y), abs=EXACT)


def test_the_loss_is_log_loss() -> None:
    logits, y = problem(6, dtype=torch.float64)
    assert value("loss", logits, y) == pytest.approx(log_loss(logits, y), abs=EXACT)
    assert metric_asked("log_loss") is METRICS["loss"]


def test_macro_auroc_is_that_of_scikit_learn_itself() -> None:
    logits, y = problem(6)
    said = sklearn.roc_auc_score(y.numpy(), probabilities(logits), multi_class="ovr", average="macro")
    assert value("auroc", logits, y) == pytest.approx(said, abs=EXACT)


@pytest.mark.parametrize("classes", [2, 6])
@pytest.mark.parametrize("only", [0, 1])
def test_rows_of_one_class_have_no_ranks(classes: int, only: int) -> None:
    logits, y = problem(classes)
    y = torch.full_like(y, only)
    assert value("auroc", logits, y) is None and value("average_precision", logits, y) is None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn warns of one class
        assert value("balanced_accuracy", logits, y) == pytest.approx(
            REFERENCES["balanced_accuracy"](logits, y), abs=EXACT
        )
    missing = classes == 2 and only == 0  # nothing to find, and nothing to be found
    for name in ("f1", "precision", "recall"):
        if missing:
            assert value(name, logits, y) is None
        else:
            assert value(name, logits, y) == pytest.approx(REFERENCES[name](logits, y), abs=EXACT)


def test_classes_that_are_not_there_do_not_count() -> None:
    logits, y = problem(6)
    y[y > 2] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn warns of answers with classes that are not there
        for name in REFERENCES:
            assert value(name, logits, y) == pytest.approx(REFERENCES[name](logits, y), abs=EXACT)


def test_a_model_that_is_not_finite_has_the_worst_value_where_there_is_one() -> None:
    logits, y = problem(2)
    logits[3, 0] = float("nan")
    answers = Answers(torch.bincount(y), {}, logits, y)
    assert answers.value(METRICS["auroc"]) == 0.5 and answers.value(METRICS["f1"]) == 0.0
    alone = Answers(torch.tensor([len(y), 0]), {}, logits, torch.zeros_like(y))
    assert alone.value(METRICS["auroc"]) is None and alone.value(METRICS["f1"]) is None


# ---------------------------------------------------------------- over all clients' rows


RANKS_AND_ANSWERS = [
    METRICS[name] for name in ("auroc", "average_precision", "f1", "precision", "recall", "balanced_accuracy")
]


RANKS = [metric for metric in RANKS_AND_ANSWERS if isinstance(metric, RankMetric)]


def replies_of(parts: list[Problem], pooling: str) -> list[dict[str, Any]]:
    scoring = ScoringSettings.model_validate({"pooling": pooling})
    return [told("personal", "split", logits, y, RANKS_AND_ANSWERS, scoring) for logits, y in parts]


@pytest.mark.parametrize("classes", [2, 6])
def test_pooled_figures_are_those_of_all_rows_together(classes: int) -> None:
    """Also with clients whose rows hold one class, or few rows that tie with others'."""
    parts = [problem(classes, n, seed, ties=seed % 2 == 0) for seed, n in enumerate((50, 7, 120, 6, 33))]
    parts[1] = (parts[1][0], torch.ones_like(parts[1][1]))
    whole = torch.cat([logits for logits, _ in parts]), torch.cat([y for _, y in parts])
    figures = pooled_figures(replies_of(parts, "exact"), ["personal"], RANKS_AND_ANSWERS)
    assert len(figures) == len(RANKS_AND_ANSWERS)
    for metric in RANKS_AND_ANSWERS:
        said = figures[f"personal.split.{metric.name}.pooled"]
        assert said == pytest.approx(REFERENCES[metric.name](*whole), abs=EXACT)


def tied_in_bins(logits: Tensor, y: Tensor) -> float:
    """The largest share of pairs of two kinds in one bin, over classes: twice as far as binned AUROC can be off."""
    counts = binned(logits, y).double()
    return max(float((c[:, 0] * c[:, 1]).sum() / (c[:, 0].sum() * c[:, 1].sum())) for c in counts)


@pytest.mark.parametrize("classes", [2, 6])
@pytest.mark.parametrize("spread", [0.3, 1.0, 5.0, 30.0])
def test_binned_counts_are_near_the_exact_figures(classes: int, spread: float) -> None:
    parts = [problem(classes, n, seed) for seed, n in enumerate((400, 300, 500))]
    parts = [(spread * logits, y) for logits, y in parts]
    exact = pooled_figures(replies_of(parts, "exact"), ["personal"], RANKS_AND_ANSWERS)
    about = pooled_figures(replies_of(parts, "binned"), ["personal"], RANKS_AND_ANSWERS)
    logits, y = torch.cat([logits for logits, _ in parts]), torch.cat([y for _, y in parts])
    ranked = {metric.name: macro(log_odds(logits), y, metric.of_levels) for metric in RANKS}
    off = {name: abs(about[f"personal.split.{name}.pooled"] - value) for name, value in ranked.items() if value}
    assert off["auroc"] <= tied_in_bins(logits, y) / 2 + EXACT
    assert off["auroc"] < 5e-4 and off["average_precision"] < 1e-2
    if spread < 30:  # else probabilities are 1 up to rounding, and exact figures have ties that log-odds do not have
        assert ranked == pytest.approx({name: exact[f"personal.split.{name}.pooled"] for name in ranked}, abs=EXACT)
    assert about["personal.split.f1.pooled"] == exact["personal.split.f1.pooled"]


def test_binned_counts_are_counts_of_all_rows() -> None:
    logits, y = problem(6)
    counts = binned(logits, y)
    assert counts.shape == (6, BINS, 2) and counts.sum((1, 2)).tolist() == [len(y)] * 6
    assert counts[:, :, 0].sum(1).tolist() == torch.bincount(y, minlength=6).tolist()


def test_nothing_is_told_without_a_metric_that_needs_it() -> None:
    logits, y = problem(2)
    for pooling, metrics in (("exact", [METRICS["accuracy"], METRICS["ece"]]), ("none", RANKS_AND_ANSWERS)):
        scoring = ScoringSettings.model_validate({"pooling": pooling})
        assert told("personal", "split", logits, y, metrics, scoring) == {}
    scoring = ScoringSettings.model_validate({"pooling": "binned"})
    assert list(told("personal", "split", logits, y, RANKS, scoring)) == ["pool.bins.personal.split"]


def test_the_area_counts_a_tie_half() -> None:
    score, positive = torch.tensor([0.1, 0.5, 0.5, 0.9]), torch.tensor([False, True, False, True])
    assert area_under_roc(levels_of(score, positive)) == (1 + 0.5 + 1 + 1) / 4
