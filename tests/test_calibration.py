"""ECE and MCE on cases that can be counted by hand."""

import pytest
import torch
from torch import Tensor

from motet.metrics.calibration import ece, mce


def told(confidence: list[float], correct: list[int]) -> tuple[Tensor, Tensor]:
    return torch.tensor(confidence), torch.tensor(correct, dtype=torch.bool)


def calibrated(n: int) -> tuple[Tensor, Tensor]:
    """Answers that are right exactly as often as they are confident, in the long run."""
    rng = torch.Generator().manual_seed(0)
    confidence = 0.1 + 0.9 * torch.rand(n, generator=rng)
    return confidence, torch.rand(n, generator=rng) < confidence


def test_two_bins_by_hand() -> None:
    # (0.8, 0.867]: mean confidence 0.85, accuracy 1/2, gap 0.35; (0.533, 0.6]: 0.6 against 1, gap 0.4
    confidence, correct = told([0.82, 0.86, 0.86, 0.86, 0.6], [1, 0, 1, 0, 1])
    assert ece(confidence, correct) == pytest.approx(0.8 * 0.35 + 0.2 * 0.4)
    assert mce(confidence, correct) == pytest.approx(0.4)


def test_surplus_and_lack_of_confidence_do_not_cancel_across_bins() -> None:
    confidence, correct = told([0.9, 0.1], [0, 1])
    assert ece(confidence, correct) == pytest.approx(0.9)
    assert ece(confidence, correct, bins=1) == pytest.approx(0, abs=1e-6)


def test_a_confident_model_that_is_right_is_calibrated_and_one_that_is_wrong_is_not() -> None:
    confidence, right = told([1.0] * 8, [1] * 8)
    assert ece(confidence, right) == mce(confidence, right) == 0
    assert ece(confidence, ~right) == mce(confidence, ~right) == 1


@pytest.mark.parametrize(("confidence", "expected"), [(0.5, 0.0), (0.5000001, 0.5)])
def test_bins_are_closed_above(confidence: float, expected: float) -> None:
    # Two bins: (0, 0.5] and (0.5, 1]. With its lower neighbour the sample makes a calibrated bin, alone it does not.
    p, hit = torch.tensor([0.5, confidence], dtype=torch.float64), torch.tensor([True, False])
    assert ece(p, hit, bins=2) == pytest.approx(expected, abs=1e-6)


def test_rounding_above_one_stays_in_the_last_bin() -> None:
    confidence = torch.tensor([1.0, 1.0000001])
    assert confidence[1] > 1
    assert ece(confidence, torch.tensor([True, True])) == pytest.approx(0, abs=1e-6)


def test_per_batch_is_the_mean_over_batches_in_order() -> None:
    confidence, correct = calibrated(25)
    parts = [(confidence[i : i + 10], correct[i : i + 10]) for i in (0, 10, 20)]  # the short last one counts in full
    assert ece(confidence, correct, per_batch=10) == pytest.approx(sum(ece(*part) for part in parts) / 3)
    assert mce(confidence, correct, per_batch=10) == pytest.approx(sum(mce(*part) for part in parts) / 3)
    assert ece(confidence, correct, per_batch=25) == ece(confidence, correct)


def test_per_batch_inflates_the_error_of_a_calibrated_model() -> None:
    confidence, correct = calibrated(20_000)
    assert ece(confidence, correct) < 0.02
    assert ece(confidence, correct, per_batch=10) > 0.2


def test_without_samples_there_is_no_figure() -> None:
    for per_batch in (0, 10):
        assert ece(torch.empty(0), torch.empty(0, dtype=torch.bool), per_batch=per_batch) is None
        assert mce(torch.empty(0), torch.empty(0, dtype=torch.bool), per_batch=per_batch) is None
