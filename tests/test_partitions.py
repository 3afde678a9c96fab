"""Partitions: the published vectors exactly, and what holds for every deal."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.data import PARTITIONS, deal, describe_partitions
from motet.data.partitions.dirichlet import MOST_DRAWS
from motet.data.partitions.registry import parse
from motet.errors import MotetError

DBE_FMNIST_COUNTS = [
    [67, 1, 0, 0, 0, 0, 2, 0, 5, 7],
    [0, 157, 0, 19, 0, 0, 35, 15, 0, 94],
    [14, 0, 0, 0, 0, 29, 0, 318, 514, 0],
    [0, 0, 2498, 69, 3, 0, 3, 0, 0, 30],
    [1, 0, 680, 662, 0, 2, 8, 0, 0, 102],
    [5473, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    [298, 0, 20, 0, 9, 4058, 0, 0, 0, 0],
    [285, 23, 7, 2024, 0, 170, 1952, 0, 0, 0],
    [5, 236, 429, 381, 0, 0, 4509, 0, 0, 0],
    [0, 0, 11, 2269, 5, 369, 0, 439, 463, 0],
    [44, 1324, 8, 0, 1, 0, 0, 940, 3853, 0],
    [268, 1, 0, 221, 6313, 0, 0, 0, 0, 0],
    [13, 1, 781, 135, 0, 66, 106, 684, 0, 6765],
    [0, 1, 148, 6, 0, 244, 220, 4, 2, 1],
    [10, 0, 215, 915, 0, 0, 0, 188, 0, 0],
    [46, 4, 5, 4, 0, 0, 120, 0, 16, 0],
    [1, 0, 322, 21, 191, 0, 6, 249, 2147, 0],
    [71, 4761, 0, 0, 0, 0, 0, 0, 0, 0],
    [403, 0, 0, 7, 477, 2, 38, 4163, 0, 0],
    [1, 491, 1876, 267, 1, 2060, 1, 0, 0, 1],
]
"""DBE's released partition of Fashion-MNIST, beta 0.1, seed 1."""

PGFED_SIZES_25 = [
    *(1743, 1959, 1220, 2535, 2639, 3981, 2929, 2181, 2649, 3114, 2555, 2671, 1623),
    *(3017, 2690, 3155, 2582, 1997, 2859, 66, 1613, 3926, 1278, 2610, 2408),
]


def labels(classes: int, per_class: int) -> np.ndarray:
    return np.repeat(np.arange(classes), per_class)


def counts(y: np.ndarray, rows_per_client: list[np.ndarray], classes: int) -> list[list[int]]:
    return [np.bincount(y[rows], minlength=classes).tolist() for rows in rows_per_client]


def test_balanced_dirichlet_reproduces_dbe_table() -> None:
    y = labels(10, 7000)
    assert counts(y, deal("dirichlet-balanced:0.1", y, 20, seed=1), 10) == DBE_FMNIST_COUNTS


def test_balanced_dirichlet_does_not_depend_on_where_a_class_lies_in_the_file() -> None:
    y = np.random.default_rng(0).permutation(labels(10, 7000))
    assert counts(y, deal("dirichlet-balanced:0.1", y, 20, seed=1), 10) == DBE_FMNIST_COUNTS


def test_balanced_dirichlet_reproduces_pgfed_vectors() -> None:
    y = labels(10, 6000)
    rows_per_client = deal("dirichlet-balanced:0.3", y, 25, seed=1)
    assert [len(rows) for rows in rows_per_client] == PGFED_SIZES_25
    assert counts(y, rows_per_client, 10)[0] == [3, 64, 11, 11, 1, 373, 49, 1047, 170, 14]


@pytest.mark.parametrize(("clients", "smallest", "largest"), [(50, 145, 3105), (100, 86, 1514)])
def test_balanced_dirichlet_reproduces_pgfed_extremes(clients: int, smallest: int, largest: int) -> None:
    sizes = [len(rows) for rows in deal("dirichlet-balanced:0.3", labels(10, 6000), clients, seed=1)]
    assert (min(sizes), max(sizes)) == (smallest, largest)


def test_pathological_assigns_classes_as_dbe() -> None:
    y = labels(10, 7000)
    table = np.array(counts(y, deal("pathological:2", y, 20, seed=1), 10))
    for client in range(20):
        first = 2 * (client // 4)
        assert np.flatnonzero(table[client]).tolist() == [first, first + 1]
        if client % 4 < 3:
            assert (table[client][[first, first + 1]] >= 175).all()
            assert (table[client][[first, first + 1]] < 1750).all()
        else:
            assert (table[client][[first, first + 1]] > 1750).all()
    assert not (table[0::4, 0::2].max(0) == 1749).all(), "sizes are random, not equal"


def test_strided_shards_form_superfeds_five_groups() -> None:
    y = labels(10, 5000)
    rows_per_client = deal("shards:2", y, 50, seed=0)
    for client, row in enumerate(np.array(counts(y, rows_per_client, 10))):
        assert np.flatnonzero(row).tolist() == [client // 10, client // 10 + 5]
        assert row.sum() == 1000
    assert all((a == b).all() for a, b in zip(rows_per_client, deal("shards:2", y, 50, seed=9), strict=True)), (
        "nothing is drawn"
    )


def test_random_shards_differ_from_strided_and_hold_few_classes() -> None:
    y = labels(10, 5000)
    table = np.array(counts(y, deal("random-shards:2", y, 50, seed=0), 10))
    held = {tuple(np.flatnonzero(row)) for row in table}
    assert (table.sum(1) == 1000).all()
    assert ((table > 0).sum(1) <= 2).all()
    assert len(held) > 5


def test_iid_gives_everybody_every_class() -> None:
    table = np.array(counts(labels(10, 500), deal("iid", labels(10, 500), 20, seed=0), 10))
    assert (table.sum(1) == 250).all()
    assert (table > 8).all()


def test_plain_dirichlet_grows_uneven_as_alpha_shrinks() -> None:
    y = labels(10, 1000)

    def largest_class_share(alpha: float) -> float:
        table = np.array(counts(y, deal(f"dirichlet:{alpha}", y, 10, seed=3), 10))
        return float((table.max(1) / table.sum(1)).mean())

    assert largest_class_share(0.1) > 0.4 > 0.2 > largest_class_share(100)


def test_natural_follows_the_client_column() -> None:
    y = labels(2, 3)
    rows_per_client = deal("natural", y, 99, seed=0, client_column=np.array([7, 3, 7, 3, 9, 9]))
    assert [rows.tolist() for rows in rows_per_client] == [[1, 3], [0, 2], [4, 5]]


@given(
    spec=st.sampled_from(
        ["iid", "dirichlet:0.5", "dirichlet-balanced:0.5", "pathological:2", "shards:2", "random-shards:3", "natural"]
    ),
    y=st.lists(st.integers(0, 5), min_size=80, max_size=200),
    clients=st.integers(1, 6),
    seed=st.integers(0, 2**40),
)
@settings(max_examples=150, deadline=None)
def test_every_sample_is_dealt_once_and_again_the_same(spec: str, y: list[int], clients: int, seed: int) -> None:
    everything = np.array(y)
    column = np.arange(len(y)) % clients
    try:
        rows_per_client = deal(spec, everything, clients, seed, column, min_size=0)
    except MotetError as refusal:
        assert spec == "pathological:2", refusal
        return
    assert len(rows_per_client) == clients
    assert sorted(np.concatenate(rows_per_client).tolist()) == list(range(len(y)))
    assert (
        np.sum(counts(everything, rows_per_client, 6), axis=0).tolist() == np.bincount(everything, minlength=6).tolist()
    )
    again = deal(spec, everything, clients, seed, column, min_size=0)
    assert all((a == b).all() for a, b in zip(rows_per_client, again, strict=True))


@pytest.mark.parametrize(
    "spec", ["iid", "dirichlet:0.5", "dirichlet-balanced:0.5", "pathological:2", "random-shards:2"]
)
def test_another_seed_deals_otherwise(spec: str) -> None:
    y = labels(10, 100)
    first, second = (deal(spec, y, 10, seed) for seed in (0, 1))
    assert any(a.tolist() != b.tolist() for a, b in zip(first, second, strict=True))


@given(seed=st.integers(0, 1000), least=st.integers(0, 30))
@settings(max_examples=30, deadline=None)
def test_dirichlet_redraws_until_nobody_is_too_small(seed: int, least: int) -> None:
    for name in ("dirichlet", "dirichlet-balanced"):
        assert min(map(len, deal(f"{name}:1", labels(5, 100), 5, seed, min_size=least))) >= least


def test_own_default_sizes_of_the_dirichlet_partitions() -> None:
    y = labels(10, 60)
    sizes = {
        name: [min(map(len, deal(f"{name}:0.5", y, 10, s))) for s in range(20)] for name in PARTITIONS if "dir" in name
    }
    assert 10 <= min(sizes["dirichlet"]) < 40 <= min(sizes["dirichlet-balanced"])


REFUSALS = [
    ("dirichlet", 5, None, "partition 'dirichlet' has argument ''; accepted: dirichlet:ALPHA, a number above 0"),
    ("dirichlet:0", 5, None, "partition 'dirichlet' has argument '0'; accepted"),
    ("dirichlet:-1", 5, None, "has argument '-1'"),
    ("dirichlet:nan", 5, None, "has argument 'nan'"),
    ("dirichlet-balanced:inf", 5, None, "has argument 'inf'"),
    ("shards:1.5", 5, None, "partition 'shards' has argument '1.5'; accepted: shards:SHARDS, a whole number from 1"),
    ("pathological:zwei", 5, None, "partition 'pathological' has argument 'zwei'"),
    ("iid:3", 5, None, "partition 'iid' takes no argument, not '3'"),
    ("dirichlett:0.3", 5, None, "unknown partition 'dirichlett': did you mean 'dirichlet'?"),
    ("natural", 5, None, "partition 'natural' needs data with a field 'client'"),
    ("iid", 101, None, "cannot give 101 clients at least 1 of 100 samples"),
    ("dirichlet:0.3", 20, 6, "cannot give 20 clients at least 6 of 100 samples"),
    ("dirichlet:0.001", 10, 10, f"none of {MOST_DRAWS} draws gave each of 10 clients at least 10 samples"),
    ("pathological:1", 8, None, "finds 0 of 8 clients for the 10 samples of class 8"),
    ("pathological:9", 40, None, "finds 36 of 40 clients for the 10 samples of class 0"),
    ("random-shards:2", 60, 2, "cannot give 60 clients at least 2"),
    ("shards:3", 34, 3, "cannot give 34 clients at least 3"),
    ("shards:2", 45, 2, None),
    ("iid", 30, 3, None),
    ("shards:1", 40, 2, None),
]


@pytest.mark.parametrize(("spec", "clients", "least", "sentence"), REFUSALS)
def test_refusals_name_the_partition_the_value_and_what_is_accepted(
    spec: str, clients: int, least: int | None, sentence: str | None
) -> None:
    y = labels(10, 10)
    if sentence is None:
        assert len(deal(spec, y, clients, 0, min_size=least)) == clients
        return
    with pytest.raises(MotetError) as refusal:
        deal(spec, y, clients, 0, min_size=least)
    assert sentence in str(refusal.value)
    assert "accepted" in str(refusal.value)


def test_a_client_left_too_small_is_named() -> None:
    with pytest.raises(MotetError, match=r"'natural' gives client 1 only 2 samples; accepted: at least 5"):
        deal("natural", labels(2, 5), 2, 0, client_column=np.array([0] * 8 + [1] * 2), min_size=5)


def test_every_partition_describes_itself() -> None:
    described = describe_partitions()
    assert {
        "iid",
        "dirichlet",
        "dirichlet-balanced",
        "pathological",
        "shards",
        "random-shards",
        "natural",
        "pflbed",
    } == {entry["name"] for entry in described}
    assert all(entry["summary"] and entry["paper"] for entry in described)
    assert parse("dirichlet:1e-1") == (PARTITIONS["dirichlet"], 0.1)
