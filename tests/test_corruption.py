"""Label noise, the long tail, constants of a normalization; none of it changes an experiment without it."""

from typing import Any

import numpy as np
import pytest
import torch

from motet.config.experiment import resolve
from motet.config.identity import fingerprint
from motet.data import DataSettings, Federation, build
from motet.data.corruption import Noise, noise_of
from motet.data.image_changes import augment_of
from motet.data.partitions.assignment import tail_sizes
from motet.errors import MotetError


def digits(seed: int = 0, **choices: Any) -> Federation:
    return build(DataSettings.model_validate({"partition": "iid", "clients": 5} | choices), seed)


def transitions(clean: Federation, noisy: Federation, split: str) -> np.ndarray:
    """How often each label became each other, in one split of all clients."""
    found = np.zeros((10, 10))
    for a, b in zip(clean.clients, noisy.clients, strict=True):
        np.add.at(found, (getattr(a, split).y.numpy(), getattr(b, split).y.numpy()), 1)
    return found / found.sum(1, keepdims=True)


def test_pair_noise_gives_the_next_class() -> None:
    found = transitions(digits(), digits(label_noise="pair:0.4"), "train")
    expected = 0.6 * np.eye(10) + 0.4 * np.roll(np.eye(10), 1, axis=1)
    assert np.abs(found - expected).max() < 0.16 and (found[expected == 0] == 0).all()
    assert np.diag(found).mean() == pytest.approx(0.6, abs=0.04)


def test_symmetric_noise_gives_every_other_class_alike() -> None:
    found = transitions(digits(), digits(label_noise="symmetric:0.6"), "train")
    assert np.diag(found).mean() == pytest.approx(0.4, abs=0.04)
    off = found[~np.eye(10, dtype=bool)]
    assert off.mean() == pytest.approx(0.6 / 9, abs=0.01) and off.max() < 0.2


def test_test_labels_are_clean_unless_asked_for() -> None:
    clean = digits(val_share=0.2)
    noisy = digits(val_share=0.2, label_noise="pair:0.5")
    for split in ("val", "test"):
        assert np.array_equal(transitions(clean, noisy, split), np.eye(10))
    everywhere = digits(val_share=0.2, label_noise="pair:0.5", label_noise_on_test=True)
    assert np.diag(transitions(clean, everywhere, "test")).mean() == pytest.approx(0.5, abs=0.1)
    assert np.diag(transitions(clean, everywhere, "val")).mean() == pytest.approx(0.5, abs=0.1)
    assert torch.equal(clean.test.y, everywhere.test.y), "the common test set is the server's"
    assert torch.equal(noisy.clients[3].train.y, everywhere.clients[3].train.y)


def test_a_common_test_set_that_is_the_clients_has_their_labels() -> None:
    federation = digits(pool="all", label_noise="pair:0.5", label_noise_on_test=True)
    assert torch.equal(federation.test.y, torch.cat([client.test.y for client in federation.clients]))


def test_swapped_types_are_each_others() -> None:
    assert noise_of("pair:0.3", swapped=True) == Noise("symmetric", 0.3)
    assert noise_of("symmetric:0.3", swapped=True) == Noise("pair", 0.3)
    one, other = digits(label_noise="pair:0.3", label_noise_swapped=True), digits(label_noise="symmetric:0.3")
    assert one.content_hash == other.content_hash != digits(label_noise="pair:0.3").content_hash


@pytest.mark.parametrize("text", ["pair", "pair:0", "pair:1.1", "pair:nan", "triple:0.1", "0.2", "symmetric:x"])
def test_refused_noise(text: str) -> None:
    with pytest.raises(MotetError, match=r"data\.label_noise is .*; accepted: pair:RATE or symmetric:RATE"):
        digits(label_noise=text)


@pytest.mark.parametrize(
    ("imbalance", "sizes"),
    [
        (10, [6000, 4645, 3596, 2784, 2156, 1669, 1292, 1000, 774, 600]),
        (100, [6000, 3596, 2156, 1292, 774, 464, 278, 166, 100, 60]),
    ],
)
def test_the_tail_is_that_of_the_paper(imbalance: float, sizes: list[int]) -> None:
    assert tail_sizes(6000, 10, imbalance) == sizes


def test_a_long_tail_is_over_all_clients_and_leaves_the_test_set() -> None:
    usual, tailed = digits(), digits(long_tail=10)
    largest = int(sum(c.counts(10) for c in usual.clients).max())
    total = sum(client.counts(10) for client in tailed.clients)
    assert total.tolist() == [
        min(n, most)
        for n, most in zip(sum(c.counts(10) for c in usual.clients).tolist(), tail_sizes(largest, 10, 10), strict=True)
    ]
    assert torch.equal(usual.test.y, tailed.test.y)
    also = digits(long_tail=10, long_tail_test=True).test.counts(10).tolist()
    assert also[0] > 8 * also[9] and also == sorted(also, reverse=True)
    with pytest.raises(MotetError, match=r"data\.long_tail leaves the test set as it is"):
        digits(long_tail=10, pool="all")


def test_given_constants_are_of_values_from_0_to_1() -> None:
    federation = digits(normalize="constants", normalize_mean=[0.25], normalize_std=[0.5])
    rows = torch.arange(20)
    x, _ = federation.stored.batch(rows)
    assert torch.allclose(x[:, 0], (federation.stored.x[:20, :, :, 0] / 16 - 0.25) / 0.5, atol=1e-6)


def test_one_constant_for_each_channel(tmp_path) -> None:
    x = np.random.default_rng(0).integers(0, 256, (40, 4, 4, 3), dtype=np.uint8)
    np.savez(tmp_path / "a.npz", x=x, y=np.arange(40) % 2)
    given: dict[str, Any] = {"normalize": "constants", "normalize_mean": [0.1, 0.2, 0.3], "normalize_std": [1, 2, 4]}
    federation = digits(name=str(tmp_path / "a.npz"), **given)
    batch, _ = federation.stored.batch(torch.arange(5))
    stored = federation.stored.x[:5].permute(0, 3, 1, 2) / 255
    expected = (stored - torch.tensor([0.1, 0.2, 0.3])[:, None, None]) / torch.tensor([1.0, 2, 4])[:, None, None]
    assert torch.allclose(batch, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("mean", "std", "sentence"),
    [
        ([], [1.0], r"data.normalize_mean is \[\]; accepted: one number"),
        ([0.5], [0.0], r"data.normalize_std is \[0.0\]; accepted: one number, above 0"),
        ([0.5, 0.5], [1.0], r"data.normalize_mean is \[0.5, 0.5\]"),
    ],
)
def test_refused_constants(mean: list[float], std: list[float], sentence: str) -> None:
    with pytest.raises(MotetError, match=sentence):
        digits(normalize="constants", normalize_mean=mean, normalize_std=std)


def test_a_pad_of_two_moves_by_two() -> None:
    augment = augment_of("flip-crop", 2)
    assert augment is not None
    image = torch.zeros(500, 9, 9, 1, dtype=torch.uint8)
    image[:, 4, 4] = 1
    places = augment(image, torch.Generator().manual_seed(0)).nonzero()[:, 1:3]
    assert set(map(tuple, places.tolist())) == {(r, c) for r in range(2, 7) for c in range(2, 7)}


@pytest.mark.parametrize(
    ("choices", "hash"),
    [
        ({}, "9f620c7f6329deab"),
        ({"partition": "dirichlet-balanced:0.3", "clients": 10, "min_size": 5}, "89ea3513690e906f"),
        ({"partition": "shards:2", "clients": 8, "new_clients": 0.25, "val_share": 0.1}, "bab2994d65e883a1"),
    ],
)
def test_what_was_dealt_before_is_dealt_the_same(choices: dict[str, Any], hash: str) -> None:
    """Constants from before there were domains, noise and tails: old runs find their data again."""
    assert build(DataSettings.model_validate(choices), 0).content_hash.startswith(hash)


def test_fields_left_alone_change_no_fingerprint() -> None:
    usual = resolve({})
    said = resolve({"data": {"long_tail": 1.0, "label_noise": "", "domains": "", "resize": 0, "new_share": 1.0}})
    assert fingerprint(said) == fingerprint(usual)
    for other in ({"label_noise": "pair:0.1"}, {"domains": "plain,invert"}, {"resize": 6}, {"augment_pad": 2}):
        assert fingerprint(resolve({"data": other})) != fingerprint(usual)


def test_all_of_it_goes_together() -> None:
    federation = digits(label_noise="pair:0.1", long_tail=2, domains="plain,invert", clients=4, resize=10)
    assert federation.input.shape == (1, 10, 10) and federation.domain_names == ("plain", "invert")
