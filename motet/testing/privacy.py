"""Reads the bytes of replies as an eavesdropper would, and says what of a client's secrets they give away.

A client's upload w is no secret, and neither is what the server itself sent. In a client's first training a state that
starts at zero and its change are the same numbers (SCAFFOLD's Δc = c_i⁺ − 0), so private states are looked for from the
second training on.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from motet.client import Client
from motet.data import Samples
from motet.message import decode, encode
from motet.testing.twin import Exchange

PIECE = 64  # bytes: 16 numbers of float32
COUNTS = "class counts"  # the word for `tells`


def found_in(reply: bytes, exchange: Exchange, client: Client) -> set[str]:
    """What of a client's secrets the bytes of a reply give away."""
    found = {name for name, secret in (*count_vectors(client.counts), *raw_data(client.data.train)) if secret in reply}
    return found | told(reply, exchange) if exchange.before else found


def count_vectors(counts: Tensor) -> Iterator[tuple[str, bytes]]:
    """The class counts in every form in which a method might send them."""
    for kind in (torch.int64, torch.int32, torch.float32, torch.float64):
        yield f"{COUNTS} as {kind}", counts.to(kind).numpy().tobytes()
    for kind in (torch.float32, torch.float64):
        share = counts.to(kind) / counts.sum()
        yield f"{COUNTS} as shares of {kind}", share.numpy().tobytes()
        yield f"{COUNTS} as logarithms of {kind}", counts.to(kind).log().numpy().tobytes()


def raw_data(samples: Samples, rows: int = 10) -> Iterator[tuple[str, bytes]]:
    """Labels and images, as stored and as prepared."""
    yield "labels", samples.y.numpy().tobytes()
    prepared, _ = samples.batch(torch.arange(min(rows, len(samples))))
    for stored, ready in zip(samples.x[:rows], prepared, strict=True):
        yield "a stored sample", stored.contiguous().numpy().tobytes()
        yield "a prepared sample", ready.contiguous().numpy().tobytes()


def told(reply: bytes, exchange: Exchange) -> set[str]:
    """The private tensors of which the reply holds a piece that the server could not know."""
    everything, beside_w = windows(reply), windows(encode({k: v for k, v in decode(reply).items() if k != "w"}))
    found = set()
    for name, value in (*exchange.before.items(), *exchange.after.items()):
        # The shared part of a kept model is the upload w; its private part is kept as "private" too.
        seen = beside_w if _holds_w(value, reply) else everything
        if isinstance(value, Tensor) and any(piece not in exchange.sent for piece in pieces(value) & seen):
            found.add(name)
    return found


def _holds_w(value: object, reply: bytes) -> bool:
    """Whether a private tensor is a whole model, of which the upload is the part that travels."""
    w = decode(reply).get("w")
    return isinstance(value, Tensor) and isinstance(w, Tensor) and value.dim() == 1 and torch.equal(value[: len(w)], w)


def pieces(value: Tensor) -> set[bytes]:
    """A tensor's bytes cut into pieces, without those that say nothing because all their numbers are equal."""
    rows = value.detach().contiguous().flatten()
    data, size = rows.numpy().tobytes(), rows.element_size()
    cut = (data[at : at + PIECE] for at in range(0, len(data), PIECE))
    return {piece for piece in cut if len(piece) == PIECE and piece != piece[:size] * (PIECE // size)}


def windows(data: bytes) -> set[bytes]:
    """Every stretch of the data that is as long as a piece and begins where a number may begin."""
    return {data[at : at + PIECE] for at in range(0, len(data) - PIECE + 1, 4)}
