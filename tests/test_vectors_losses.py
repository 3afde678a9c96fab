"""Balanced losses by the figures of their authors' codes, and of equations where those are not defined.

Through the contract: eight one-hot samples in a linear layer without bias, whose weights are then the logits. One step
of size 1 moves them by the gradient.
"""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from vector_problem import Rounds, differs, linear_net, same, samples, vectors

from motet.training.losses import bsm, cdt, ir, ldam

pytestmark = pytest.mark.usefixtures("exact")
CASES = {  # case of the file: the method's name, and its loss
    "ce": ("fedavg", lambda g, y, counts: cross_entropy(g, y)),
    "bsm": ("bsm", bsm),
    "ldam_s1": ("ldam", ldam),
    "cdt_gamma0.2": ("cdt", lambda g, y, counts: cdt(g, y, counts, 0.2)),
    "cdt_gamma0.3": ("cdt(gamma=0.3)", lambda g, y, counts: cdt(g, y, counts, 0.3)),
    "vs_gamma0.3_tau0": ("cdt(gamma=0.3)", lambda g, y, counts: cdt(g, y, counts, 0.3)),
    "ours_ir_divided_by_classes": ("ir", ir),
    "bsm_missing": ("bsm", bsm),
    "ours_ir_missing_divided_by_classes": ("ir", ir),
    "ours_cdt_gamma0.3_missing": ("cdt(gamma=0.3)", lambda g, y, counts: cdt(g, y, counts, 0.3)),
    "ours_ldam_missing_max0.5": ("ldam", ldam),
}


def inputs(case: str) -> tuple[Tensor, Tensor, Tensor]:
    """Logits, labels and class counts; `missing` is a client without class 3."""
    v, tag = vectors("balanced_losses"), "_missing" if "missing" in case else ""
    return v["logits"], v["labels" + tag], v["counts" + tag]


@pytest.mark.parametrize("case", CASES)
def test_a_clients_step_is_the_losss_gradient(case: str) -> None:
    v, (g, y, counts) = vectors("balanced_losses"), inputs(case)
    net, one_hot = linear_net(8, 4, g.T.flatten(), bias=False), samples(torch.eye(8), y)
    run = Rounds(CASES[case][0], net, [one_hot], classes=4, counts=counts, lr=1.0, batch=8)
    run.play([0])
    gradient = g - run.figure("theta", 0).view(4, 8).T
    same("gradient", gradient, v[case + "_grad"])
    if case != "ce":
        differs("gradient", gradient, v["ce_grad"])


@pytest.mark.parametrize("case", CASES)
def test_the_losss_value(case: str) -> None:
    g, y, counts = inputs(case)
    same("loss", CASES[case][1](g, y, counts.double()), vectors("balanced_losses")[case + "_loss"])


def test_balanced_softmax_of_each_sample() -> None:
    g, y, counts = inputs("bsm")
    same("loss", bsm(g, y, counts.double(), reduction="none"), vectors("balanced_losses")["bsm_per_sample"])


def test_ldams_scale_is_a_scale_of_logits_and_margins() -> None:
    """The authors multiply by s = 30 what FED-ROD leaves alone."""
    v, (g, y, counts) = vectors("balanced_losses"), inputs("ldam")
    margins, g = 0.5 * (counts.min() / counts) ** 0.25, g.clone().requires_grad_()
    same("margins", margins, v["ldam_margins"])
    loss = ldam(30 * g, y, counts.double(), gamma=30 * 0.5 * float(counts.min()) ** 0.25)
    same("loss", loss, v["ldam_s30_loss"])
    same("gradient", torch.autograd.grad(loss, g)[0], v["ldam_s30_grad"])


def test_re_weighting_is_normalized_in_three_ways() -> None:
    """Ours ÷ the number of classes; FED-ROD prints it without; the library's ÷ the weights of the batch."""
    v, (g, y, counts) = vectors("balanced_losses"), inputs("ir")
    ours = ir(g, y, counts.double())
    same("as printed", 4 * ours, v["ours_ir_fedrod_as_printed_loss"])
    weights = counts.sum() / (4 * counts.double())
    same("weighted mean", ours / weights[y].mean(), v["ir_weighted_mean_loss"])
