"""Transforms at real sites: what a site consents to, its own secret, and what no coordinator can make it forget."""

from pathlib import Path
from typing import Any, get_args

import pytest
import torch

pytest.importorskip("cryptography", reason="needs the extra sites: pip install 'motet[sites]'")

from test_sites_refusals import Place

from motet.errors import MotetError
from motet.messages.message import State
from motet.messages.transforms import build_transforms
from motet.server.assembly import ServerSide, method_of, net_of
from motet.server.message_walk import MessageWalk
from motet.sites.settling import refuse_missing_sites
from motet.sites.wire import Replied, unpacked

PLAIN = {"scoring": {"train_loss": False}, "rounds": {"cohort": 1.0}}


class Masked(Place):
    """Three sites that mask, and what a coordinator knows of them."""

    def __init__(self, folder: Path, transforms: str = "clip(norm=5.0)+mask"):
        super().__init__(folder, "fedavg", transforms=transforms, **PLAIN)
        assert self.invited().failure is None and self.begin().failure is None
        self.transforms = build_transforms(transforms)
        self.server = self.introduced()

    def introduced(self, **others: bytes) -> State:
        """Return the server state with the keys of this site and of two that are made up."""
        assert self.answer("introduce").failure is None
        replies = {0: unpacked(self.last)}
        for i in (1, 2):
            key = others.get(f"key{i}", bytes([i] * 32))
            replies[i] = {"mask.key": torch.frombuffer(bytearray(key), dtype=torch.uint8)}
        server: State = {}
        for transform in self.transforms:
            server = transform.introduced(server, replies)
        return server

    def addressed(self, server: State | None = None) -> State:
        message = self.message()
        for transform in self.transforms:
            message = {**transform.address(server or self.server, {0: 10.0, 1: 10.0, 2: 10.0}, message)}
        return message


@pytest.fixture
def masked(tmp_path: Path) -> Masked:
    return Masked(tmp_path)


def test_a_site_consents_to_masked_fields_and_to_nothing_readable(masked: Masked) -> None:
    consent = masked.site.consent
    assert consent is not None and "introduce" in consent.kinds
    assert consent.introduces == {"mask.key": "uint8 [32]"}
    assert consent.uploads == {"mask.n": "int32 [1]", "mask.w.samples": "int32 [2410]"}
    said = "\n".join(masked.statement)
    assert "mask.w.samples (int32 [2410])" in said and "mask.key (uint8 [32])" in said
    told = masked.answer("train", masked.addressed())
    assert told.failure is None and unpacked(masked.last).keys() == consent.uploads.keys()
    with pytest.raises(MotetError, match=r"holds 'w' \(float32 \[2410\]\), to which this site did not consent"):
        consent.refuse_reply("train", masked.message(), None)


def test_every_kind_of_message_has_a_word_of_flowers() -> None:
    from motet.messages.task import SITE_TASKS
    from motet.sites.flower.carrier import TYPES
    from motet.sites.wire import Kind

    assert set(get_args(Kind)) == set(TYPES) == SITE_TASKS | {"hello", "begin", "finish"}


def test_without_transforms_a_site_introduces_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path, "fedavg")
    assert place.invited().failure is None and place.begin().failure is None
    assert "asks for 'introduce', to which this site did not consent" in str(place.answer("introduce").failure)


def test_a_message_that_is_repeated_has_the_same_reply_and_another_of_the_round_has_none(masked: Masked) -> None:
    """A coordinator that was killed asks once more; one that lies asks from another state, or with another model."""
    message = masked.addressed()
    first = masked.answer("train", message)
    reply = unpacked(masked.last)
    masked.site = masked.join()  # a restart
    assert masked.answer("train", message).failure is None
    again = unpacked(masked.last)
    assert all(torch.equal(again[name], reply[name]) for name in reply)  # type: ignore[arg-type]
    assert first.entry is not None
    refused = "the server asks again for a masked reply of round 1, in other words"
    assert isinstance(message["w"], torch.Tensor)
    other = message | {"w": message["w"] + 1}
    assert refused in str(masked.answer("train", other).failure)
    other_state = masked.answer("train", masked.addressed(), base=first.entry.sha256)
    assert refused in str(other_state.failure)
    assert unpacked(masked.last) == {}
    later = masked.answer("train", masked.addressed(), round=2, base=first.entry.sha256)
    assert later.failure is None


def test_a_key_cannot_be_replaced_by_naming_an_old_state(masked: Masked) -> None:
    """The private state of the first round has no keys in it: what was promised does not depend on the state."""
    assert masked.answer("train", masked.addressed()).failure is None
    assert any("public keys for masks, to compare" in line for line in masked.said)
    own = masked.introduced(key2=bytes([9] * 32))
    told = masked.answer("train", masked.addressed(own), round=2, base="")
    assert told.failure == "the server tells another public key of client 2 than before; accepted: one"


def test_keys_of_two_sites_differ_though_they_know_the_same_seed(masked: Masked, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Masked(tmp_path / "other")
    assert other.site.identity.secret != masked.site.identity.secret
    mine, theirs = (
        (masked.answer("introduce"), unpacked(masked.last)),
        (other.answer("introduce"), unpacked(other.last)),
    )
    assert not torch.equal(mine[1]["mask.key"], theirs[1]["mask.key"])  # type: ignore[arg-type]


def test_noise_at_a_site_comes_from_its_secret(tmp_path: Path) -> None:
    replies = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        noisy = "noise(norm=0.5, multiplier=1.0, at=client)"
        place = Place(tmp_path / name, "fedavg(weighting=uniform)", transforms=noisy, **PLAIN)
        assert place.invited().failure is None and place.begin().failure is None
        told: Replied = place.answer("train", place.message())
        assert told.failure is None
        replies.append(unpacked(place.last)["w"])
    assert isinstance(replies[0], torch.Tensor) and isinstance(replies[1], torch.Tensor)
    assert not torch.equal(*replies)
    assert abs(float((replies[0] - replies[1]).std()) - 0.5 * (2 / 3) ** 0.5) < 0.05  # two shares of a third


def side_of(place: Place, secret: bytes) -> ServerSide:
    assert place.site._own is not None
    facts = place.site._own[0].facts(place.site._own[1])
    net = net_of(place.experiment, facts)

    class Side(ServerSide):
        @property
        def secret(self) -> bytes:
            return secret

    engine: Any = None
    return Side(place.experiment, facts, method_of(place.experiment, facts), net, engine)


def test_noise_of_the_coordinator_comes_from_its_secret_for_sites_know_the_seed(tmp_path: Path) -> None:
    place = Place(tmp_path, "fedavg(weighting=uniform)", transforms="noise(norm=0.5, multiplier=1.0)", **PLAIN)
    assert place.invited().failure is None and place.begin().failure is None
    found = []
    for secret in (b"", b"a" * 32, b"b" * 32, b"a" * 32):
        side = side_of(place, secret)
        server: State = {**side.method.start(), "round": 1}
        walk = MessageWalk(side, server, [0, 1, 2], 1)
        found.append(walk.opened(0, {**place.message(), "n": 1})["w"])
    assert all(isinstance(each, torch.Tensor) for each in found)
    a, b, c, again = found
    assert torch.equal(b, again)  # type: ignore[arg-type]
    assert not torch.equal(a, b) and not torch.equal(b, c)  # type: ignore[arg-type]


def test_rounds_with_masks_do_not_go_on_without_a_site(masked: Masked) -> None:
    side = side_of(masked, b"")
    refuse_missing_sites(side, 3)
    with pytest.raises(MotetError, match=r"--least is 2, but a round with transforms .* is lost if one of its 3 sites"):
        refuse_missing_sites(side, 2)


@pytest.mark.parametrize("transforms", ["int8", "top-k(share=0.1)"])
def test_compressed_replies_are_what_was_consented_to(transforms: str, tmp_path: Path) -> None:
    place = Place(tmp_path, "scaffold", transforms=transforms)
    assert place.invited().failure is None and place.begin().failure is None
    first = place.answer("train", place.message())
    assert first.failure is None and first.entry is not None
    second = place.answer("train", place.message(), round=2, base=first.entry.sha256)
    assert second.failure is None
    assert "w" not in unpacked(place.last)
