"""What is private stays: no reply of any method carries class counts, raw data or private state.

The bytes of every reply are read as an eavesdropper would read them. A client's upload w is no secret, and neither
is what the server itself sent. In a client's first training a state that starts at zero and its change are the
same numbers (SCAFFOLD's Δc = c_i⁺ − 0), so private states are looked for from the second training on.
"""

from collections.abc import Iterator
from functools import cache

import pytest
import torch
from strict_engine import ALONE, Exchange, Played, Strict, play, tiny
from torch import Tensor

from motet.client import Client
from motet.contract import Entry, Part, Training
from motet.data import Samples
from motet.message import Message, State, decode, encode
from motet.methods import METHODS
from motet.methods.averaging import Averaging
from motet.work import POOLED

PIECE = 64  # bytes: 16 numbers of float32


def pieces(value: Tensor) -> set[bytes]:
    """A tensor's bytes cut into pieces, without those that say nothing because all their numbers are equal."""
    rows = value.detach().contiguous().flatten()
    data, size = rows.numpy().tobytes(), rows.element_size()
    cut = (data[at : at + PIECE] for at in range(0, len(data), PIECE))
    return {piece for piece in cut if len(piece) == PIECE and piece != piece[:size] * (PIECE // size)}


def count_vectors(counts: Tensor) -> Iterator[tuple[str, bytes]]:
    """The class counts in every form in which a method might send them."""
    for kind in (torch.int64, torch.int32, torch.float32, torch.float64):
        yield f"class counts as {kind}", counts.to(kind).numpy().tobytes()
    for kind in (torch.float32, torch.float64):
        share = counts.to(kind) / counts.sum()
        yield f"class shares as {kind}", share.numpy().tobytes()
        yield f"log class counts as {kind}", counts.to(kind).log().numpy().tobytes()


def raw_data(samples: Samples, rows: int = 10) -> Iterator[tuple[str, bytes]]:
    """Labels and images, as stored and as prepared."""
    yield "labels", samples.y.numpy().tobytes()
    prepared, _ = samples.batch(torch.arange(min(rows, len(samples))))
    for stored, ready in zip(samples.x[:rows], prepared, strict=True):
        yield "a stored sample", stored.contiguous().numpy().tobytes()
        yield "a prepared sample", ready.contiguous().numpy().tobytes()


def windows(data: bytes) -> set[bytes]:
    """Every stretch of the data that is as long as a piece and begins where a number may begin."""
    return {data[at : at + PIECE] for at in range(0, len(data) - PIECE + 1, 4)}


def found_in(reply: bytes, exchange: Exchange, client: Client) -> set[str]:
    """What of a client's secrets the bytes of a reply give away."""
    found = {name for name, secret in (*count_vectors(client.counts), *raw_data(client.data.train)) if secret in reply}
    return found | told(reply, exchange) if exchange.before else found


def told(reply: bytes, exchange: Exchange) -> set[str]:
    """The private tensors of which the reply holds a piece that the server could not know."""
    everything, beside_w = windows(reply), windows(encode({k: v for k, v in decode(reply).items() if k != "w"}))
    found = set()
    for name, value in (*exchange.before.items(), *exchange.after.items()):
        # The shared part of the kept model is the upload w; its private part is kept as "private" too.
        seen = beside_w if name == "model" else everything
        if isinstance(value, Tensor) and any(piece not in exchange.sent for piece in pieces(value) & seen):
            found.add(name)
    return found


@cache
def overheard(method: str) -> Played:
    """Two rounds in which everybody takes part: in the second each trains with a private state that it kept."""
    changes = {"pm_source": "last_participation", "every": 2}
    return play(
        tiny(method, rounds={"count": 2, "cohort": 1.0}, local={"momentum_across_rounds": "persist"}, scoring=changes),
        strict=True,
    )


@pytest.mark.parametrize("method", ALONE)
def test_no_reply_gives_a_secret_away(method: str) -> None:
    played = overheard(method)
    engine: Strict = played.engine
    kinds = set()
    for e in engine.exchanges:
        assert e.answered is not None
        client = played.assembly.workplace.client(e.task, e.before)
        assert client.counts.count_nonzero() > 1  # a vector that can be recognized
        assert not found_in(e.answered, e, client)
        kinds.add(e.task.kind)
    assert {"train", "score", "adapt"} <= kinds


@pytest.mark.parametrize("method", ALONE)
def test_replies_hold_declared_names_alone(method: str) -> None:
    """A part's fields bear a name before a dot, private names never travel, and scores are numbers."""
    played = overheard(method)
    made_of_parts = isinstance(played.assembly.method, Averaging)
    for e in played.engine.exchanges:
        assert e.answered is not None
        reply = decode(e.answered)
        if e.task.kind in ("train", "prepare"):
            assert not reply.keys() & e.after.keys()
            assert not made_of_parts or all("." in name for name in reply.keys() - {"w", "n"})
        else:
            assert all(isinstance(value, int | float) for value in reply.values())


def test_what_is_kept_by_whom() -> None:
    """The private names that the test above looked for were really there."""
    kept = {method: overheard(method).engine.private(0).keys() for method in ("scaffold", "feddyn", "local")}
    assert {"model", "velocity", "scaffold.c_i"} <= kept["scaffold"]
    assert {"model", "velocity", "feddyn.h_i"} <= kept["feddyn"]
    assert {"model", "velocity", "private"} <= kept["local"]
    assert "model" in overheard("centralized").engine.private(POOLED)


# ---------------------------------------------------------------- the reader of bytes finds what it is for


class PrivateHead(Part):
    """Keeps the head: a method with a secret."""

    def private(self, net: object) -> tuple[str, ...]:
        """The last layer."""
        return ("fc3.",)


class TellsCounts(PrivateHead):
    """Wrong on purpose."""

    def after(self, t: Training, reply: Message) -> None:
        """Class counts, as a share."""
        reply["tells.share"] = t.client.counts / t.client.counts.sum()


class TellsData(PrivateHead):
    """Wrong on purpose."""

    def after(self, t: Training, reply: Message) -> None:
        """Three of its images."""
        reply["tells.x"] = t.client.data.train.batch(torch.arange(3))[0]


class TellsHead(PrivateHead):
    """Wrong on purpose."""

    def after(self, t: Training, reply: Message) -> None:
        """Half of its private head."""
        private = t.w[t.layout.private]
        reply["tells.head"] = private[: len(private) // 2].clone()


class TellsVelocity(PrivateHead):
    """Wrong on purpose."""

    def after(self, t: Training, reply: Message) -> None:
        """Its momentum."""
        assert t.descent.velocity is not None
        reply["tells.velocity"] = t.descent.velocity.clone()


@pytest.mark.parametrize(
    ("part", "secrets"),
    [
        (PrivateHead, set()),
        (TellsCounts, {"class shares as torch.float32"}),
        (TellsData, {"a prepared sample"}),
        (TellsHead, {"private", "model"}),
        (TellsVelocity, {"velocity"}),
    ],
)
def test_a_method_that_tells_is_found_out(part: type[Part], secrets: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "tells", Entry("tells", "", "", part=part))
    run = play(
        tiny("tells", rounds={"count": 2, "cohort": 1.0}, local={"momentum_across_rounds": "persist"}), strict=True
    )
    found: set[str] = set()
    for e in run.engine.exchanges:
        if e.task.kind == "train":
            found |= found_in(e.answered, e, run.assembly.workplace.client(e.task, e.before))
    assert found == secrets


def test_uploading_the_private_part_with_w_is_found_out() -> None:
    """The mistake of a method that sends its whole weights instead of the slice that travels."""
    state: State = {"model": torch.arange(40.0), "private": torch.arange(20.0, 40.0)}
    task = overheard("fedavg").engine.exchanges[0].task
    reply = encode({"w": torch.arange(40.0), "n": 3})
    assert told(reply, Exchange(task, encode({"w": torch.zeros(20)}), reply, state, state)) == {"private"}
