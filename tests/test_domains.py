"""Simulated domains, dealing inside domains, digits-domains."""

from typing import Any

import numpy as np
import pytest

from motet.data import DataSettings, Federation, RawData, build, deal
from motet.data.domains import parse_domains, simulate
from motet.data.image_changes import blurred, resized, rotated
from motet.data.sources import load
from motet.errors import MotetError

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 17, (120, 6, 6, 1), dtype=np.uint8)


def raw(**more: Any) -> RawData:
    fields: dict[str, Any] = {"x": IMAGES, "y": np.arange(120) % 4, "kind": "image", "classes": 4, "top": 16, "net": ""}
    return RawData(**(fields | more))


def made(**choices: Any) -> Federation:
    return build(DataSettings.model_validate(choices), 0)


def test_each_domain_has_its_share_of_each_class_and_its_name() -> None:
    changed = simulate(raw(), "plain,rotate:90,invert", 0)
    assert changed.domain is not None
    assert np.array_equal(np.bincount(changed.y * 3 + changed.domain), [10] * 12)
    assert changed.domain_names == ("plain", "rotate:90", "invert")


def test_what_each_word_does() -> None:
    changed = simulate(raw(), "plain,rotate:90,invert,permute,rotate:180+invert", 3)
    of = [np.flatnonzero(changed.domain == d) for d in range(5)]
    assert np.array_equal(changed.x[of[0]], IMAGES[of[0]])
    assert np.array_equal(changed.x[of[1]], np.rot90(IMAGES[of[1]], axes=(1, 2)))
    assert np.array_equal(changed.x[of[2]], 16 - IMAGES[of[2]])
    assert np.array_equal(changed.x[of[3]], IMAGES[of[3]])
    assert np.array_equal(changed.x[of[4]], 16 - IMAGES[of[4], ::-1, ::-1])
    others = np.concatenate([of[d] for d in (0, 1, 2, 4)])
    y = np.arange(120) % 4
    assert np.array_equal(changed.y[others], y[others])
    called = [set(changed.y[of[3]][y[of[3]] == c].tolist()) for c in range(4)]
    assert all(len(names) == 1 for names in called) and set.union(*called) == {0, 1, 2, 3}
    assert changed.x.dtype == np.uint8


def test_noise_keeps_the_range_and_is_as_large_as_told() -> None:
    middle = np.full((400, 10, 10, 1), 128, np.uint8)
    changed = simulate(raw(x=middle, y=np.arange(400) % 4, top=255), "plain,noise:0.1", 0)
    noisy = changed.x[changed.domain == 1].astype(float)
    assert noisy.std() == pytest.approx(25.5, rel=0.05) and noisy.mean() == pytest.approx(128, abs=1)
    loud = simulate(raw(), "plain,noise:5", 0).x
    assert loud.max() == 16 and loud.min() == 0


def test_another_seed_draws_other_domains_and_other_names() -> None:
    one, again, other = (simulate(raw(), "plain,permute", seed) for seed in (0, 0, 1))
    assert np.array_equal(one.domain, again.domain) and np.array_equal(one.y, again.y)
    assert not np.array_equal(one.domain, other.domain)


def test_natural_clients_have_one_domain_each() -> None:
    changed = simulate(raw(client=np.arange(120) // 10), "plain,invert,blur", 0)
    of_client = [set(changed.domain[10 * c : 10 * c + 10].tolist()) for c in range(12)]  # type: ignore[index]
    assert all(len(domains) == 1 for domains in of_client)
    assert np.bincount([domains.pop() for domains in of_client]).tolist() == [4, 4, 4]


def test_any_partition_deals_simulated_domains_one_by_one() -> None:
    federation = made(partition="iid", clients=6, domains="plain,invert,plain")
    assert [client.domain for client in federation.clients] == [0, 0, 1, 1, 2, 2]
    assert federation.domain_names == ("plain", "invert", "plain (2)")
    tests = [federation.common_test(client) for client in federation.clients]
    assert sum(len(test) for test in tests[::2]) == len(federation.test) and tests[0] is tests[1]
    assert made(partition="pflbed:0.3", clients=6, domains="plain,invert").clients[-1].domain == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("plain", "data.domains is 'plain'; accepted: 2 to 1000 domains"),
        ("plain,swirl", "data.domains has 'swirl'; accepted: plain, rotate:DEGREES from -360 to 360, invert"),
        ("plain,rotate", "data.domains has 'rotate'; accepted: rotate:DEGREES"),
        ("plain,rotate:x", "data.domains has 'rotate:x'; accepted"),
        ("plain,blur:nan", "data.domains has 'blur:nan'; accepted: blur:SIGMA from 0.1 to 20 (or blur for 1)"),
        ("plain,invert:2", "data.domains has 'invert:2'; accepted: invert"),
        ("plain,,invert", "data.domains has ''; accepted"),
    ],
)
def test_refused_words(text: str, sentence: str) -> None:
    with pytest.raises(MotetError) as refusal:
        parse_domains(text)
    assert sentence in str(refusal.value)


def test_refused_data() -> None:
    with pytest.raises(MotetError, match="is for data that have no domains"):
        simulate(raw(domain=np.zeros(120, np.int64)), "plain,invert", 0)
    vectors = raw(x=np.zeros((120, 3), np.float32), kind="vector")
    with pytest.raises(MotetError, match="has 'blur', but these data are of kind 'vector'; accepted: plain, noise"):
        simulate(vectors, "plain,blur", 0)


# ------------------------------------------------------------ images


def test_any_angle_turns_as_quarters_do() -> None:
    images = np.zeros((1, 21, 21, 1), np.float32)
    images[0, 8:13, 14:19] = 1  # to the right of the middle
    for degrees in (30.0, 89.999, -45.0, 200.0):
        turned = rotated(images, degrees)[0, :, :, 0]
        rows, columns = (turned.sum(1 - axis) @ (np.arange(21) - 10) / turned.sum() for axis in (0, 1))
        angle = np.degrees(np.arctan2(-rows, columns))
        assert (angle - degrees + 180) % 360 - 180 == pytest.approx(0, abs=3)
    wide = np.zeros((1, 4, 8, 1), np.float32)
    wide[0, 1:3, 5:7] = 1  # which a quarter brings out of the frame
    assert rotated(wide, 90).shape == wide.shape and rotated(wide, 90).sum() < 2.5
    near = rotated(images, 89.9999)
    assert np.abs(near - np.rot90(images, axes=(1, 2))).max() < 0.01


def test_blur_spreads_a_point_as_a_gaussian_does() -> None:
    point = np.zeros((1, 21, 21, 1), np.float32)
    point[0, 10, 10] = 1
    spot = blurred(point, 1.5)[0, :, :, 0]
    assert spot.sum() == pytest.approx(1, abs=1e-3)
    assert spot.sum(0) @ (np.arange(21) - 10) ** 2 == pytest.approx(1.5**2, rel=0.05)
    assert np.array_equal(blurred(np.full((2, 8, 8, 3), 77, np.uint8), 3.0), np.full((2, 8, 8, 3), 77, np.uint8))


def test_resize_keeps_the_type_and_what_is_seen() -> None:
    images = np.repeat(np.repeat(RNG.integers(0, 256, (3, 8, 8, 3), dtype=np.uint8), 4, 1), 4, 2)
    small = resized(images, 8)
    assert small.shape == (3, 8, 8, 3) and small.dtype == np.uint8
    correlation = np.corrcoef(small.ravel(), images[:, ::4, ::4].ravel())[0, 1]
    assert correlation > 0.9
    flat = np.full((1, 5, 9, 1), 200, np.uint8)
    assert np.array_equal(resized(flat, 28), np.full((1, 28, 28, 1), 200, np.uint8))


def test_a_federation_of_another_size_stays_bytes() -> None:
    federation = made(resize=6)
    assert federation.input.shape == (1, 6, 6)
    assert federation.stored.x.dtype.itemsize == 1
    assert federation.content_hash != made().content_hash


# ------------------------------------------------------------ inside domains


def test_dealing_inside_domains_gives_each_client_one() -> None:
    y, domain = np.arange(300) % 3, np.repeat([4, 7, 9], [150, 90, 60])
    rows_per_client = deal("dirichlet:0.5@domain", y, 7, 0, min_size=1, domain=domain)
    assert [set(domain[hand].tolist()) for hand in rows_per_client] == [{4}] * 3 + [{7}] * 2 + [{9}] * 2
    assert sorted(np.concatenate(rows_per_client).tolist()) == list(range(300))


def test_each_domain_has_a_draw_of_its_own() -> None:
    y, domain = np.tile(np.repeat(np.arange(4), 100), 2), np.repeat([0, 1], 400)
    for partition in ("dirichlet:0.3@domain", "dirichlet-balanced:0.3@domain"):
        rows_per_client = deal(partition, y, 6, 0, min_size=1, domain=domain)
        counts = [np.bincount(y[hand], minlength=4).tolist() for hand in rows_per_client]
        assert counts[:3] != counts[3:]


def test_inside_natural_clients_each_is_a_domain(tmp_path) -> None:
    client = np.repeat(["anna", "bert"], [60, 40])
    np.savez(tmp_path / "a.npz", x=np.arange(100, dtype=np.float32)[:, None], y=np.arange(100) % 2, client=client)
    federation = made(name=str(tmp_path / "a.npz"), partition="iid@client", clients=4, normalize="none")
    assert [federation.domain_name(client) for client in federation.clients] == ["anna", "anna", "bert", "bert"]
    assert all(float(x) < 60 for x in federation.common_test(federation.clients[0]).x)


@pytest.mark.parametrize(
    ("spec", "more", "sentence"),
    [
        ("iid@domain", {}, "needs data with a field 'domain'"),
        ("iid@planet", {}, "accepted: iid@domain or iid@client"),
        ("natural@domain", {}, "partition 'natural' cannot be dealt inside each domain"),
        ("iid@domain", {"domain": np.arange(30)}, "has 4 clients for 30 of a domain; accepted: at least 30"),
    ],
)
def test_refused_insides(spec: str, more: dict[str, Any], sentence: str) -> None:
    with pytest.raises(MotetError) as refusal:
        deal(spec, np.arange(30) % 2, 4, 0, **more)
    assert sentence in str(refusal.value) and "accepted" in str(refusal.value)


# ------------------------------------------------------------ digits-domains


def test_digits_domains_is_a_federation() -> None:
    data = load("digits-domains")
    plain = load("digits")
    assert data.domain is not None and data.client is not None
    assert np.bincount(data.domain).tolist() == [450, 449, 449, 449]
    assert len(data.client_names) == 40 and data.client_names[10] == "rotate:90 1"
    assert (data.client // 10 == data.domain).all(), "a client has one domain"
    assert (data.y == plain.y)[data.domain != 3].all()
    assert (data.y == plain.y)[data.domain == 3].mean() < 0.5, "the last one calls its classes otherwise"
    federation = made(name="digits-domains", partition="natural")
    held = [(client.train.counts(10) > 0).sum().item() for client in federation.clients]
    assert np.mean(held) < 9, "clients differ in their classes"
