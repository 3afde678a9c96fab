"""Search the bytes of replies for a client's secrets, as an eavesdropper would.

Secrets are searched byte for byte, and also multiplied by a number or with a number added. What is hidden by noise, a
rotation or a nonlinear function cannot be found from outside.

A client's upload w is no secret, and neither is what the server itself sent. In a client's first training a state that
starts at zero and its change are the same numbers (SCAFFOLD's Δc = c_i⁺ − 0), so private states are searched from the
second training on.
"""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from motet.data import Samples
from motet.messages.message import Message, decode, encode
from motet.testing.twin import Exchange
from motet.training.client import Client

SHORTEST = 8  # a private tensor needs so many numbers to be searched as a multiple
PIECE = 64  # bytes: 16 numbers of float32
COUNTS = "class counts"  # the word for it in `tells`


def found_in(reply: bytes, exchange: Exchange, client: Client) -> set[str]:
    """Return which of a client's secrets are in the bytes of a reply."""
    found = {name for name, secret in (*count_vectors(client.counts), *raw_data(client.data.train)) if secret in reply}
    return found | told(reply, exchange) if exchange.before else found


def disguised_in(reply: Message, client: Client, parameters: int) -> set[str]:
    """Return which of a client's data a field of a reply is a multiple of, up to a constant.

    The field may hold more: every window of it is compared. Fields with at least half as many numbers as the net has
    parameters are left out, as they are weights and gradients: the gradient of a first layer consists of samples times
    numbers.
    """
    found = set()
    for name, value in reply.items():
        if name not in ("w", "n") and isinstance(value, Tensor) and value.numel() < parameters / 2:
            told = value.detach().double().flatten()
            found |= {secret for secret, of in secret_vectors(client) if _is_affine_in(told, of)}
    return found


def private_in_disguise(reply: Message, exchange: Exchange, parameters: int) -> set[str]:
    """Return the private tensors that a field of a reply is a multiple of, up to a constant, unless the message has
    such a field."""
    sent = [v.double().flatten() for v in decode(exchange.sent).values() if isinstance(v, Tensor)]
    found = set()
    for name, kept in (*exchange.before.items(), *exchange.after.items()) if exchange.before else ():
        if isinstance(kept, Tensor) and SHORTEST <= kept.numel() < parameters / 2:
            for told in (v for n, v in reply.items() if n != "w" and isinstance(v, Tensor)):
                same = _is_affine_in(told.double().flatten(), kept) and told.numel() < parameters / 2
                if same and not any(_is_affine_in(each, kept) for each in sent):
                    found.add(f"{name} times a number")
    return found


def secret_vectors(client: Client, rows: int = 10) -> Iterator[tuple[str, Tensor]]:
    """Yield class counts, labels, single samples, and the mean sample of all and of each class."""
    samples = client.data.train
    everything, y = samples.batch(torch.arange(len(samples)))
    yield f"{COUNTS} times a number", client.counts
    yield "labels times a number", y
    for x, form in ((everything, "prepared"), (samples.x, "stored")):
        yield f"the mean {form} sample", x.double().mean(0)
        for c in sorted(set(y.tolist())):
            yield f"the mean {form} sample of a class", x[y == c].double().mean(0)
        for row in x[:rows]:
            yield f"a {form} sample times a number", row


def scalar_secrets(client: Client) -> dict[str, float]:
    """Return numbers about a client's data that single numbers of a reply might reveal."""
    x, y = client.data.train.batch(torch.arange(client.samples))
    return {
        "the mean of its labels": float(y.double().mean()),
        "the sum of its labels": float(y.sum()),
        "the mean of its samples' values": float(x.double().mean()),
    }


def scalars_told(replies: Mapping[int, Message], clients: Mapping[int, Client]) -> set[str]:
    """Return the secret numbers of which a number in the replies is a multiple, up to a constant, over several
    clients."""
    secrets = [scalar_secrets(clients[i]) for i in replies]
    numbers: dict[str, list[float]] = {}
    for reply in replies.values():
        for name, value in reply.items():
            if not isinstance(value, Tensor) or value.numel() == 1:
                numbers.setdefault(name, []).append(float(value))
    found = set()
    for told in (values for name, values in numbers.items() if name != "n" and len(values) == len(replies) > 3):
        for secret in secrets[0]:
            if _is_affine_in(torch.tensor(told).double(), torch.tensor([each[secret] for each in secrets]), 1e-9):
                found.add(secret)
    return found


def _is_affine_in(told: Tensor, secret: Tensor, apart: float = 1e-6) -> bool:
    """Return whether some window of a vector is a + b·secret with b ≠ 0, up to rounding: their correlation is ±1."""
    secret = secret.double().flatten()
    secret = secret - secret.mean()
    if len(told) < len(secret) or len(secret) < 4 or not secret.any() or not torch.isfinite(told).all():
        return False
    for some in torch.split(told.unfold(0, len(secret), 1), 20_000):  # windows at a time
        away = some - some.mean(1, keepdim=True)
        lengths = away.norm(dim=1)
        alike = (away @ secret).abs() / (lengths * secret.norm()).clamp_min(1e-300)
        if bool(((alike > 1 - apart) & (lengths > 1e-6 * some.abs().amax(1))).any()):
            return True
    return False


def count_vectors(counts: Tensor) -> Iterator[tuple[str, bytes]]:
    """Yield the class counts in every form in which a method might send them."""
    for kind in (torch.int64, torch.int32, torch.float32, torch.float64):
        yield f"{COUNTS} as {kind}", counts.to(kind).numpy().tobytes()
    for kind in (torch.float32, torch.float64):
        share = counts.to(kind) / counts.sum()
        yield f"{COUNTS} as shares of {kind}", share.numpy().tobytes()
        yield f"{COUNTS} as logarithms of {kind}", counts.to(kind).log().numpy().tobytes()


def raw_data(samples: Samples, rows: int = 10) -> Iterator[tuple[str, bytes]]:
    """Yield labels and samples, as stored and as prepared."""
    yield "labels", samples.y.numpy().tobytes()
    prepared, _ = samples.batch(torch.arange(min(rows, len(samples))))
    for stored, ready in zip(samples.x[:rows], prepared, strict=True):
        yield "a stored sample", stored.contiguous().numpy().tobytes()
        yield "a prepared sample", ready.contiguous().numpy().tobytes()


def told(reply: bytes, exchange: Exchange) -> set[str]:
    """Return the private tensors of which the reply holds a piece that the server could not know."""
    everything, beside_w = windows(reply), windows(encode({k: v for k, v in decode(reply).items() if k != "w"}))
    found = set()
    for name, value in (*exchange.before.items(), *exchange.after.items()):
        if isinstance(value, Tensor):
            # Where a stored model equals the upload w, it is no secret: that is its shared part, or
            # only its statistics. Other fields of the reply must not hold any of it.
            seen = (pieces(value) & beside_w) | (pieces(_apart_from_w(value, reply)) & everything)
            if any(piece not in exchange.sent for piece in seen):
                found.add(name)
    return found


def _apart_from_w(value: Tensor, reply: bytes) -> Tensor:
    """Return a private tensor without the places where it equals the upload w, which is no secret."""
    w = decode(reply).get("w")
    if not isinstance(w, Tensor) or value.dim() != 1 or len(value) < len(w) or value.dtype != w.dtype:
        return value
    return torch.cat([value[: len(w)][value[: len(w)] != w], value[len(w) :]])


def pieces(value: Tensor) -> set[bytes]:
    """Return a tensor's bytes cut into pieces, without pieces whose numbers are all equal and say nothing."""
    rows = value.detach().contiguous().flatten()
    data, size = rows.numpy().tobytes(), rows.element_size()
    cut = (data[at : at + PIECE] for at in range(0, len(data), PIECE))
    return {piece for piece in cut if len(piece) == PIECE and piece != piece[:size] * (PIECE // size)}


def windows(data: bytes) -> set[bytes]:
    """Return every window of the data that is as long as a piece and begins where a number may begin."""
    return {data[at : at + PIECE] for at in range(0, len(data) - PIECE + 1, 4)}
