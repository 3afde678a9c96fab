"""The federation: splits, views, preparation, the common test set, the hash."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from sklearn.datasets import load_digits

from motet.config.data_section import SampleKind
from motet.data import (
    ClientData,
    DataSettings,
    Federation,
    ImagePrepare,
    Prepare,
    RawData,
    Samples,
    build,
    counts_table,
    fit_prepare,
)
from motet.data.prepare import Normalize
from motet.errors import MotetError
from motet.training.randomness import generator, numpy_generator

DIGITS_PER_CLASS = np.bincount(load_digits().target)


def digits(seed: int = 0, **choices: object) -> Federation:
    return build(DataSettings.model_validate(choices), seed)


def write(path, n: int = 60, **columns):
    rng = np.random.default_rng(0)
    content = {"x": rng.integers(0, 256, (n, 4, 4), dtype=np.uint8), "y": np.arange(n) % 3} | columns
    np.savez(path, **content)
    return str(path)


def test_digits_splits_add_up() -> None:
    federation = digits(val_share=0.25, clients=10)
    assert federation.input.shape == (1, 8, 8)
    assert (federation.classes, federation.default_net) == (10, "mlp")
    assert [client.id for client in federation.clients] == list(range(10))
    total = federation.test.counts(10)
    for client in federation.clients:
        n = len(client.train) + len(client.val) + len(client.test)
        assert len(client.test) == int(0.2 * n)
        assert len(client.val) == int(0.25 * (n - len(client.test)))
        total = total + client.counts(10)
    assert total.tolist() == DIGITS_PER_CLASS.tolist()
    assert federation.test.counts(10).tolist() == [round(0.2 * n) for n in DIGITS_PER_CLASS]


def test_no_sample_is_in_two_places(tmp_path) -> None:
    x = np.arange(90, dtype=np.float32)[:, None]
    federation = digits(
        name=write(tmp_path / "a.npz", 90, x=x), partition="iid", clients=4, normalize="none", val_share=0.2
    )
    seen = federation.test.x.flatten().tolist()
    for client in federation.clients:
        for part in (client.train, client.val, client.test):
            seen += part.x.flatten().tolist()
    assert sorted(seen) == list(range(90))


def test_each_client_splits_by_its_own_randomness(tmp_path) -> None:
    x = np.arange(60, dtype=np.float32)[:, None]
    name = write(tmp_path / "a.npz", x=x, client=np.repeat([0, 1], 30))
    federation = digits(name=name, partition="natural", pool="all", normalize="none", test_share=0.3)
    for client in federation.clients:
        rows = np.arange(30 * client.id, 30 * client.id + 30)
        mixed = numpy_generator(0, "split", 0, client.id).permutation(rows)
        assert client.train.x.flatten().tolist() == mixed[:21].tolist()
        assert client.test.x.flatten().tolist() == mixed[21:].tolist()


def test_client_splits_are_views_in_client_order() -> None:
    federation = digits()
    start = 0
    for client in federation.clients:
        for part in (client.train, client.val, client.test):
            if len(part):
                assert part.x.data_ptr() == federation.stored.x[start:].data_ptr()
                assert part.y.data_ptr() == federation.stored.y[start:].data_ptr()
            start += len(part)
    assert start == len(federation.stored)
    assert federation.stored.x.dtype == torch.uint8


def test_the_same_seed_gives_the_same_federation_and_another_does_not() -> None:
    first, again, other = digits(0), digits(0), digits(1)
    assert first.content_hash == again.content_hash
    assert torch.equal(first.stored.x, again.stored.x)
    assert first.content_hash != other.content_hash


def test_the_partition_seed_alone_decides() -> None:
    assert digits(5, partition_seed=3).content_hash == digits(3).content_hash


@pytest.mark.parametrize(
    "choice",
    [
        {"clients": 19},
        {"test_share": 0.3},
        {"new_clients": 0.1},
        {"partition": "iid"},
        {"pool": "all"},
        {"subset": 0.9},
    ],
)
def test_the_hash_tells_other_choices(choice: dict[str, object]) -> None:
    assert digits(**choice).content_hash != digits().content_hash


def test_the_hash_tells_one_changed_pixel_and_one_changed_label(tmp_path) -> None:
    x = np.zeros((60, 4, 4), np.uint8)
    y = np.arange(60) % 3
    hashes = [digits(name=write(tmp_path / "a.npz", x=x, y=y), partition="iid", clients=3).content_hash]
    x[17, 2, 2] = 1
    hashes.append(digits(name=write(tmp_path / "a.npz", x=x, y=y), partition="iid", clients=3).content_hash)
    y[17] = (y[17] + 1) % 3
    hashes.append(digits(name=write(tmp_path / "a.npz", x=x, y=y), partition="iid", clients=3).content_hash)
    assert len(set(hashes)) == 3


def test_new_clients_keep_their_ids_and_leave_training() -> None:
    federation = digits(new_clients=0.2)
    assert len(federation.new_ids) == 4
    assert sorted(federation.training_ids + federation.new_ids) == list(range(20))
    assert federation.new_ids == digits(new_clients=0.2).new_ids != digits(1, new_clients=0.2).new_ids
    pooled = federation.pooled()
    assert (pooled.id, pooled.new) == (-1, False)
    for split in ("train", "val", "test"):
        members = [getattr(federation.clients[i], split) for i in federation.training_ids]
        assert torch.equal(getattr(pooled, split).x, torch.cat([m.x for m in members]))
        assert torch.equal(getattr(pooled, split).y, torch.cat([m.y for m in members]))
    assert federation.pooled() is pooled


def test_shared_data_is_drawn_without_a_copy_of_everything() -> None:
    federation = digits(new_clients=0.2)
    shared = federation.shared_data()
    assert "_pooled" not in vars(federation)
    assert shared.counts(10).tolist() == [federation.shared_per_class] * 10
    everything = federation.pooled().train
    order = torch.randperm(len(everything), generator=generator(int(federation.content_hash[:8], 16), "shared-data"))
    rows = torch.cat([order[everything.y[order] == c][:10] for c in range(10)])
    assert torch.equal(shared.x, everything.x[rows]) and torch.equal(shared.y, everything.y[rows])


def test_pool_all_deals_everything_and_tests_on_the_union() -> None:
    federation = digits(pool="all", test_share=0.25)
    assert np.sum([row["counts"] for row in counts_table(federation)], axis=0).tolist() == DIGITS_PER_CLASS.tolist()
    assert torch.equal(federation.test.y, torch.cat([client.test.y for client in federation.clients]))


def test_subset_is_stratified_and_spares_the_common_test() -> None:
    whole, fifth = digits(), digits(subset=0.2, clients=5)
    assert torch.equal(whole.test.x, fifth.test.x)
    assert fifth.stored.counts(10).tolist() == [round(0.2 * n) for n in whole.stored.counts(10).tolist()]


def test_official_split_is_the_common_test(tmp_path) -> None:
    split = (np.arange(60) >= 45).astype(int)
    federation = digits(name=write(tmp_path / "a.npz", split=split), partition="iid", clients=3)
    with np.load(tmp_path / "a.npz") as file:
        assert federation.test.x[..., 0].numpy().tolist() == file["x"][45:].tolist()
    assert len(federation.stored) == 45


def test_counts_table() -> None:
    federation = digits(clients=3, val_share=0.1, new_clients=0.3, partition="iid")
    for client, row in zip(federation.clients, counts_table(federation), strict=True):
        sizes = {"train": len(client.train), "val": len(client.val), "test": len(client.test)}
        counts = torch.cat([client.train.y, client.val.y, client.test.y]).bincount(minlength=10).tolist()
        named = {"name": str(client.id), "domain": None}
        assert row == {"id": client.id, "new": client.new, "malicious": False, "counts": counts, **sizes, **named}


def test_domains_restrict_the_common_test(tmp_path) -> None:
    domain = np.repeat([4, 8], 60)
    x = domain.astype(np.float32)[:, None]
    name = write(tmp_path / "a.npz", 120, x=x, domain=domain, client=np.repeat([0, 1, 2], [60, 30, 30]))
    federation = digits(name=name, partition="natural", normalize="none")
    assert [client.domain for client in federation.clients] == [4, 8, 8]
    assert [federation.common_test(c).x.unique().tolist() for c in federation.clients] == [[4], [8], [8]]
    assert len(federation.common_test(federation.pooled())) == len(federation.test) == 24
    mixed = digits(name=name, partition="iid", clients=2)
    assert mixed.clients[0].domain is None
    assert mixed.common_test(mixed.clients[0]) is mixed.test


def test_a_domain_without_test_samples_is_refused(tmp_path) -> None:
    domain = np.repeat([0, 1], 30)
    name = write(tmp_path / "a.npz", domain=domain, client=domain, split=(np.arange(60) < 10).astype(int))
    with pytest.raises(MotetError, match="client 1 of domain 1 finds no common test data"):
        digits(name=name, partition="natural")


def test_refusals(tmp_path) -> None:
    with pytest.raises(MotetError, match=r"test_share 0 leaves no test data; accepted: a test_share above 0"):
        digits(pool="all", test_share=0)
    with pytest.raises(MotetError, match=r"new_clients 0.5 leaves no training client of 1"):
        digits(clients=1, new_clients=0.5)
    with pytest.raises(MotetError, match=r"too few samples \(3\)"):
        digits(name=write(tmp_path / "a.npz", 3), partition="iid", clients=1)
    with pytest.raises(MotetError, match="leaves no test samples"):
        digits(name=write(tmp_path / "b.npz", 6), partition="iid", clients=2, pool="all")
    for wrong in (
        {"clients": 0},
        {"new_clients": 1.0},
        {"subset": 0},
        {"normalize": "mean"},
        {"pool": "x"},
        {"colour": 1},
    ):
        with pytest.raises(ValidationError):
            DataSettings.model_validate(wrong)


def test_a_client_without_training_samples_is_named() -> None:
    none = digits().test.part(0, 0)
    with pytest.raises(MotetError, match="client 7 has no training samples"):
        ClientData(7, none, none, none)


def test_an_empty_client_is_named_when_min_size_is_switched_off() -> None:
    with pytest.raises(MotetError, match=r"client \d+ has no training samples"):
        digits(partition="dirichlet-balanced:0.01", clients=50, min_size=0)


def fitted(kind: SampleKind, x: np.ndarray, normalize: Normalize, top: float) -> Prepare:
    y = np.zeros(len(x), np.int64)
    return fit_prepare(RawData(x, y, kind, classes=1, top=top, net=""), normalize, np.arange(len(x)))


def normalized(values: np.ndarray, normalize: Normalize, top: float) -> np.ndarray:
    prepare = fitted("image", values, normalize, top)
    return prepare(torch.from_numpy(values)).numpy()


@pytest.mark.parametrize("top", [255, 16])
def test_normalizations(top: int) -> None:
    x = np.random.default_rng(0).integers(0, top + 1, (50, 5, 6, 3), dtype=np.uint8)
    wide = x.astype(np.float64).transpose(0, 3, 1, 2)
    mean, deviation = wide.mean((0, 2, 3), keepdims=True), wide.std((0, 2, 3), keepdims=True)
    assert np.allclose(normalized(x, "standard", top), (wide - mean) / deviation, atol=1e-5)
    assert np.allclose(normalized(x, "half", top), (wide / top - 0.5) / 0.5, atol=1e-6)
    assert np.allclose(normalized(x, "unit", top), wide / top, atol=1e-6)
    assert np.array_equal(normalized(x, "none", top), wide)


def test_signals_stay_as_they_are_under_half() -> None:
    """DBE's own code trains on raw signals; (x − 0.5)/0.5 would move all of them by one."""
    x = np.random.default_rng(0).normal(size=(20, 3, 8)).astype(np.float32)
    assert np.array_equal(fitted("signal", x, "half", 1)(torch.from_numpy(x)).numpy(), x)


def test_standard_takes_its_constants_from_the_pool_alone() -> None:
    federation = digits(normalize_on="all")
    pool = federation.prepare(federation.stored.x)
    assert abs(float(pool.mean())) < 1e-5
    assert abs(float(pool.std(correction=0)) - 1) < 1e-5
    assert abs(float(federation.prepare(federation.test.x).mean())) > 1e-4


def test_standard_is_per_channel_of_signals_and_per_feature_of_vectors() -> None:
    signals = np.random.default_rng(0).normal([[3], [-2]], [[1], [9]], (400, 2, 8)).astype(np.float32)
    out = fitted("signal", signals, "standard", 1)(torch.from_numpy(signals))
    assert torch.allclose(out.mean((0, 2)), torch.zeros(2), atol=1e-5)
    assert torch.allclose(out.std((0, 2), correction=0), torch.ones(2), atol=1e-5)
    vectors = np.stack([np.arange(10.0), np.full(10, 5.0)], axis=1).astype(np.float32)
    out = fitted("vector", vectors, "standard", 1)(torch.from_numpy(vectors))
    assert torch.allclose(out[:, 0].std(correction=0), torch.tensor(1.0))
    assert out[:, 1].eq(0).all(), "a constant feature becomes 0, not NaN"


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32])
def test_preparing_never_writes_into_the_stored_samples(dtype: torch.dtype) -> None:
    x = torch.arange(24).reshape(2, 2, 2, 3).to(dtype)
    before = x.clone()
    out = ImagePrepare((2, 2, 3), torch.full((2, 2, 3), 2.0), torch.full((2, 2, 3), 1.0))(x)
    assert torch.equal(x, before)
    assert out.dtype == torch.float32
    assert torch.equal(out, (before.float() * 2 + 1).permute(0, 3, 1, 2))


def test_image_batches_are_nchw_in_channels_last_memory() -> None:
    x = torch.randint(0, 256, (20, 6, 7, 3), dtype=torch.uint8)
    prepare = fitted("image", x.numpy(), "unit", 255)
    rows = torch.tensor([5, 0, 19])
    batch, labels = Samples(x, torch.arange(20), prepare).batch(rows)
    assert batch.shape == (3, 3, 6, 7)
    assert batch.is_contiguous(memory_format=torch.channels_last)
    assert torch.allclose(batch, x[rows].permute(0, 3, 1, 2) / 255)
    assert labels.tolist() == [5, 0, 19]


def test_all_batches_walk_in_order_and_keep_the_last_small_one() -> None:
    federation = digits()
    batches = list(federation.test.all_batches(100))
    assert [len(y) for _, y in batches] == [100, 100, 100, len(federation.test) - 300]
    assert torch.equal(torch.cat([y for _, y in batches]), federation.test.y)
    whole, _ = federation.test.batch(torch.arange(len(federation.test)))
    assert torch.equal(torch.cat([x for x, _ in batches]), whole)


@given(held=st.lists(st.booleans(), min_size=10, max_size=10))
@settings(max_examples=20, deadline=None)
def test_classes_only_keeps_what_is_held(held: list[bool]) -> None:
    test = SHARED.test
    kept = test.classes_only(torch.tensor(held))
    expected = [int(n) if keep else 0 for n, keep in zip(test.counts(10), held, strict=True)]
    assert kept.counts(10).tolist() == expected
    assert torch.equal(kept.x, test.x[torch.tensor(held)[test.y]])


SHARED = digits()


def test_raw_input_is_prepared_as_the_training_data_was() -> None:
    prepare = SHARED.prepare
    expected = prepare(SHARED.test.x)
    images = SHARED.test.x[..., 0]
    for given_x in (images, images.numpy(), images.double().numpy(), images.unsqueeze(-1), images.unsqueeze(1)):
        out = prepare.raw(given_x)
        assert torch.equal(out, expected)
        assert out.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(prepare.raw(images[:2].tolist()), expected[:2])
    with pytest.raises(MotetError, match=r"input x has shape \(n, 9, 8\); accepted: \[n, 8, 8, 1\]"):
        prepare.raw(torch.zeros(5, 9, 8))


def test_raw_colour_input_in_either_order() -> None:
    x = np.random.default_rng(0).integers(0, 256, (4, 6, 5, 3), dtype=np.uint8)
    prepare = fitted("image", x, "half", 255)
    assert prepare.input.shape == (3, 6, 5)
    for order in (x, x.transpose(0, 3, 1, 2), torch.from_numpy(x).permute(0, 3, 1, 2).contiguous()):
        out = prepare.raw(order)
        assert torch.equal(out, prepare(torch.from_numpy(x)))
        assert out.is_contiguous(memory_format=torch.channels_last)
    with pytest.raises(MotetError, match="accepted"):
        prepare.raw(x[..., 0])


def test_prepare_survives_pickling() -> None:
    prepare = pickle.loads(pickle.dumps(SHARED.prepare))
    assert torch.equal(prepare(SHARED.test.x), SHARED.prepare(SHARED.test.x))


def test_standard_is_fitted_on_what_training_sees() -> None:
    settings = {"clients": 8, "new_clients": 0.25, "val_share": 0.2, "partition": "dirichlet:0.3"}
    federation = digits(**settings)
    seen = torch.cat([federation.clients[i].train.x for i in federation.training_ids]).double()
    prepare = federation.prepare
    assert torch.allclose(prepare.scale.double(), 1 / seen.std(correction=0), rtol=1e-5)
    assert torch.allclose(prepare.shift.double(), -seen.mean() / seen.std(correction=0), rtol=1e-5)
    dealt = federation.stored.x.double()
    everything = digits(**settings, normalize_on="all").prepare
    assert torch.allclose(everything.scale.double(), 1 / dealt.std(correction=0), rtol=1e-5)
    assert not torch.allclose(everything.shift, prepare.shift, rtol=1e-5)


def test_test_data_and_new_clients_have_no_say_in_normalization(tmp_path: Path) -> None:
    """Whatever they hold: the same training data give the same constants."""
    rng = np.random.default_rng(0)
    x, y, client = rng.normal(size=(120, 4)).astype(np.float32), np.arange(120) % 3, np.repeat(np.arange(6), 20)
    settings = {"partition": "natural", "new_clients": 0.34, "pool": "all"}
    np.savez(tmp_path / "a.npz", x=x, y=y, client=client)
    one = digits(name=str(tmp_path / "a.npz"), **settings)
    hidden = np.concatenate([one.clients[i].train.x for i in one.new_ids] + [c.test.x for c in one.clients])
    far = (x[:, None] == hidden[None]).all(2).any(1)
    np.savez(tmp_path / "b.npz", x=np.where(far[:, None], 1000 * x, x), y=y, client=client)
    other = digits(name=str(tmp_path / "b.npz"), **settings)
    assert far.sum() == len(hidden) and torch.equal(one.prepare.scale, other.prepare.scale)
    wide = digits(name=str(tmp_path / "b.npz"), **settings, normalize_on="all")
    assert not torch.equal(wide.prepare.scale, other.prepare.scale)
