"""Balanced-risk losses: Table 5 of FED-ROD by hand, and what becomes of missing classes."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import cross_entropy

from motet.training.losses import bsm, cdt, ir, ldam, resampled

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
LOSSES: dict[str, Loss] = {
    "bsm": bsm,
    "bsm(0.5)": lambda g, y, n: bsm(g, y, n, 0.5),
    "ir": ir,
    "ir(0.5)": lambda g, y, n: ir(g, y, n, 0.5),
    "ldam": ldam,
    "ldam(3)": lambda g, y, n: ldam(g, y, n, 3.0),
    "cdt": lambda g, y, n: cdt(g, y, n, 0.3),
}
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)

COUNTS = torch.tensor([12, 0, 3, 1])
G = torch.tensor([[0.5, 2.0, -1.0, 0.25], [-0.5, 0.0, 1.5, 1.0], [1.0, -2.0, 0.75, -0.125]])
Y = torch.tensor([0, 2, 3])


def by_hand(row: Callable[[list[float], int], float]) -> float:
    """The mean over the batch of a loss of one sample, in plain Python."""
    return sum(row(g, y) for g, y in zip(G.tolist(), Y.tolist(), strict=True)) / len(Y)


def log_softmax(g: list[float], y: int) -> float:
    return g[y] - math.log(sum(math.exp(v) for v in g))


def test_balanced_softmax_by_hand() -> None:
    def row(g: list[float], y: int) -> float:
        odds = [n**0.7 * math.exp(v) for n, v in zip(COUNTS.tolist(), g, strict=True)]
        return -math.log(odds[y] / sum(odds))

    assert float(bsm(G, Y, COUNTS, 0.7)) == pytest.approx(by_hand(row), rel=1e-6)


def test_importance_re_weighting_by_hand() -> None:
    n = COUNTS.tolist()
    expected = by_hand(lambda g, y: -(sum(n) / n[y]) / 3 * log_softmax(g, y))  # 3 classes are there
    assert float(ir(G, Y, COUNTS)) == pytest.approx(expected, rel=1e-6)


def test_the_mean_weight_of_a_clients_samples_is_one() -> None:
    y = torch.repeat_interleave(torch.arange(4), COUNTS)
    equal_losses = torch.zeros(len(y), 4)
    assert float(ir(equal_losses, y, COUNTS)) == pytest.approx(math.log(4), rel=1e-6)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0])
def test_importance_by_a_power_of_the_counts_by_hand(gamma: float) -> None:
    n = COUNTS.tolist()
    mean = sum(count * count**-gamma for count in n if count) / sum(n)  # of the weights over the client's samples
    expected = by_hand(lambda g, y: -(n[y] ** -gamma) / mean * log_softmax(g, y))
    assert float(ir(G, Y, COUNTS, gamma)) == pytest.approx(expected, rel=1e-6)
    if gamma == 0:
        assert float(ir(G, Y, COUNTS, gamma)) == pytest.approx(float(cross_entropy(G, Y)), rel=1e-6)


def test_re_sampling_makes_classes_equally_frequent() -> None:
    """Of a batch of 12, 3 and 1 samples each class has a third of the rows that are drawn; so has it of the loss."""
    y = torch.repeat_interleave(torch.arange(4), COUNTS)
    logits = torch.tensor([[3.0, 0.0, 0.0, 0.0]]).expand(len(y), 4)
    rng = torch.Generator().manual_seed(0)
    found = [float(resampled(logits, y, COUNTS, rng)) for _ in range(2000)]
    right, wrong = (float(cross_entropy(logits[:1], torch.tensor([c]))) for c in (0, 2))
    assert sum(found) / len(found) == pytest.approx((right + 2 * wrong) / 3, rel=0.01)
    again = torch.Generator().manual_seed(0)
    assert float(resampled(logits, y, COUNTS, again)) == found[0] != found[1]


@pytest.mark.parametrize(("gamma", "used"), [(2.0, 2.0), (None, 0.5)])  # the rarest class has one sample
def test_label_aware_margins_by_hand(gamma: float | None, used: float) -> None:
    def row(g: list[float], y: int) -> float:
        return -log_softmax([v - used * COUNTS.tolist()[c] ** -0.25 if c == y else v for c, v in enumerate(g)], y)

    assert float(ldam(G, Y, COUNTS, gamma)) == pytest.approx(by_hand(row), rel=1e-6)


def test_the_default_margin_of_the_rarest_class_is_a_half() -> None:
    counts, y = torch.tensor([400, 0, 16]), torch.tensor([2])
    g = torch.tensor([[0.3, -0.1, 0.9]])
    margin = torch.tensor([[0.0, 0.0, 0.5]])
    torch.testing.assert_close(ldam(g, y, counts), cross_entropy(g - margin, y))


def test_class_dependent_temperatures_by_hand() -> None:
    def row(g: list[float], y: int) -> float:
        return -log_softmax([v * (n / 12) ** 0.3 for n, v in zip(COUNTS.tolist(), g, strict=True)], y)

    assert float(cdt(G, Y, COUNTS, 0.3)) == pytest.approx(by_hand(row), rel=1e-6)


@pytest.mark.parametrize("name", ["bsm", "bsm(0.5)", "ir", "cdt"])
def test_equal_counts_make_it_cross_entropy(name: str) -> None:
    torch.testing.assert_close(LOSSES[name](G, Y, torch.full((4,), 7)), cross_entropy(G, Y))


def test_gamma_zero_is_cross_entropy_to_the_bit() -> None:
    for loss in (bsm, ldam, cdt):
        assert torch.equal(loss(G, Y, COUNTS, 0.0), cross_entropy(G, Y)), loss


@pytest.mark.parametrize("name", ["bsm", "bsm(0.5)", "cdt"])
def test_a_missing_class_gets_no_gradient(name: str) -> None:
    g = G.clone().requires_grad_()
    LOSSES[name](g, Y, COUNTS).backward()
    assert g.grad is not None and g.grad.isfinite().all()
    assert g.grad[:, 1].eq(0).all() and g.grad[:, [0, 2, 3]].ne(0).all()


def test_a_missing_class_has_no_probability() -> None:
    without = bsm(G[:, [0, 2, 3]], torch.tensor([0, 1, 2]), COUNTS[[0, 2, 3]])
    torch.testing.assert_close(bsm(G, Y, COUNTS), without)


def test_a_client_of_one_class_has_nothing_to_learn() -> None:
    g = G.clone().requires_grad_()
    loss = bsm(g, torch.full((3,), 2), torch.tensor([0, 0, 9, 0]))
    loss.backward()
    assert g.grad is not None
    assert loss.item() == 0 and g.grad.eq(0).all()


@every_loss
@given(st.permutations(range(4)))
def test_class_ids_are_only_names(loss: Loss, order: list[int]) -> None:
    place = torch.tensor(order).argsort()
    torch.testing.assert_close(loss(G[:, order], place[Y], COUNTS[order]), loss(G, Y, COUNTS))


@given(st.lists(st.integers(1, 500), min_size=4, max_size=4), st.floats(0.1, 2))
def test_counts_and_proportions_are_the_same(counts: list[int], gamma: float) -> None:
    n = torch.tensor(counts)
    torch.testing.assert_close(bsm(G, Y, n / n.sum(), gamma), bsm(G, Y, n, gamma))


def test_a_learned_gamma_has_the_slope_of_the_loss() -> None:
    def at(gamma: float) -> float:
        return float(bsm(G.double(), Y, COUNTS.double(), gamma))

    gamma = torch.tensor([0.8], dtype=torch.float64, requires_grad=True)
    bsm(G.double(), Y, COUNTS.double(), gamma).backward()
    assert gamma.grad is not None
    assert float(gamma.grad) == pytest.approx((at(0.8 + 1e-5) - at(0.8 - 1e-5)) / 2e-5, rel=1e-6)


@pytest.mark.parametrize("gamma", [0.0, -0.5])
def test_a_learned_gamma_never_brings_a_missing_class_back(gamma: float) -> None:
    g = G.clone().requires_grad_()
    losses = bsm(g, Y, COUNTS, torch.tensor([gamma]), reduction="none")
    losses.sum().backward()
    assert losses.shape == Y.shape and losses.isfinite().all()
    assert g.grad is not None and g.grad[:, 1].eq(0).all()
