"""Robust means by the figures of Flower and ByzFL, and by their papers' equations.

Flower's Multi-Krum averages by samples, ByzFL's Krum counts one neighbour more than the paper: both are told apart.
"""

import pytest
import torch
from torch import Tensor
from vector_problem import Rounds, differs, linear_net, same, tiny_data, vectors

pytestmark = [pytest.mark.usefixtures("exact"), pytest.mark.parametrize("n", [7, 8])]


def combined(method: str, n: int, sent: Tensor | None = None) -> Tensor:
    """What the server makes of the n models, which come from clients of different sizes."""
    v = vectors("robust_aggregation")
    net = linear_net(5, 2, torch.zeros(10) if sent is None else sent, bias=False)
    run = Rounds(method, net, tiny_data([12] * 4) * 2, cohort=n)
    run.receive(v[f"n{n}_x"], v[f"n{n}_samples"].tolist())
    return run.figure("w")


def test_the_plain_mean_is_elsewhere(n: int) -> None:
    v = vectors("robust_aggregation")
    same("mean", combined("fedavg", n), v[f"n{n}_flwr_mean"])
    for rule in ("median", "trimmed-mean", "krum", "multi-krum(f=2)", "geometric-median", "norm-clip"):
        differs(rule, combined(rule, n), v[f"n{n}_flwr_mean"], least=0.1)


def test_median(n: int) -> None:
    v = vectors("robust_aggregation")
    for library in ("flwr", "byzfl"):
        same("median", combined("median", n), v[f"n{n}_{library}_median"])


def test_trimmed_mean(n: int) -> None:
    v = vectors("robust_aggregation")
    for share in (0.2, 0.3):
        same("trimmed", combined(f"trimmed-mean(share={share})", n), v[f"n{n}_flwr_trimmed{share}"])
    for f in (1, 2):  # a share that is f of n, though f/n·n may come out just below f
        same("trimmed", combined(f"trimmed-mean(share={f / n!r})", n), v[f"n{n}_byzfl_trmean_f{f}"])


def test_trimming_nothing_is_the_uniform_mean(n: int) -> None:
    same("mean", combined("trimmed-mean(share=0)", n), combined("fedavg(weighting=uniform)", n))


@pytest.mark.parametrize("f", [1, 2])
def test_krum_and_multi_krum(n: int, f: int) -> None:
    v = vectors("robust_aggregation")
    same("Krum", combined(f"krum(f={f})", n), v[f"n{n}_flwr_krum_f{f}"])
    same("Multi-Krum", combined(f"multi-krum(f={f})", n), v[f"ours_n{n}_multikrum_f{f}_m{n - f}"])
    same("the same by hand", combined(f"multi-krum(f={f}, m={n - f})", n), combined(f"multi-krum(f={f})", n))
    same("Multi-Krum of one", combined(f"multi-krum(f={f}, m=1)", n), combined(f"krum(f={f})", n))
    differs("plain, not by samples", combined(f"multi-krum(f={f}, m=3)", n), v[f"n{n}_flwr_multikrum_f{f}_keep3"])
    if (n, f) in ((7, 1), (8, 2)):
        differs("one neighbour more", combined(f"krum(f={f})", n), v[f"n{n}_byzfl_krum_f{f}"])


def test_geometric_median(n: int) -> None:
    v = vectors("robust_aggregation")
    ours = combined("geometric-median(tolerance=1e-14)", n)
    same("geometric median", ours, v[f"n{n}_byzfl_geomed_nu1e-06_T1000"])
    same("smoothed", combined("geometric-median(nu=0.1, tolerance=1e-14)", n), v[f"n{n}_byzfl_geomed_nu0.1_T100"])
    away = v[f"n{n}_x"] - ours
    assert float((away / away.norm(dim=1, keepdim=True)).sum(0).norm()) < 1e-6, "the pulls of all points cancel"
    loose = combined("geometric-median", n)
    assert float((loose - ours).norm()) < 1e-4


def test_the_geometric_median_of_equal_points_is_the_point(n: int) -> None:
    w = vectors("robust_aggregation")["n7_x"][0]
    run = Rounds("geometric-median", linear_net(5, 2, torch.zeros(10), bias=False), tiny_data(), cohort=n)
    run.receive([w] * n)
    same("point", run.figure("w"), w)


def test_norm_clip(n: int) -> None:
    v = vectors("robust_aggregation")
    clipped = v[f"n{n}_byzfl_clipped2"]
    same("uniform", combined("fedavg(weighting=uniform)+norm-clip(norm=2)", n), clipped.mean(0))
    p = v[f"n{n}_samples"].double()
    same("by samples", combined("norm-clip(norm=2)", n), p @ clipped / p.sum())
    same("a bound beyond all", combined("norm-clip(norm=1e20)", n), v[f"n{n}_flwr_mean"])
    lengths = v[f"n{n}_x"].norm(dim=1)
    middle = lengths.sort().values[(n - 1) // 2 : n // 2 + 1].mean()
    same("the median of norms", combined("norm-clip", n), combined(f"norm-clip(norm={float(middle)!r})", n))


def test_a_change_is_clipped_around_what_was_sent(n: int) -> None:
    v = vectors("robust_aggregation")
    model, sent = v["clip_before"]
    run = Rounds("norm-clip(norm=1.5)", linear_net(5, 2, sent, bias=False), tiny_data())
    run.receive([model] * n)
    same("w", run.figure("w"), v["flwr_clip_update_norm1.5"])
