"""The transform `mask`: secure aggregation, after which the server can read the sum over a cohort and nothing else.

A client turns its weighted change into whole numbers (fixed point, modulo 2^32), adds its pairwise masks and sends
that. The server adds up what it cannot read; the masks cancel exactly, and what is left is the sum of the whole
numbers. The weights of a mean are applied at the client, and the number of samples is masked like everything else.

If one client of the cohort fails, the masks of the others do not cancel: the round is void, nobody's reply is used, and
the next round draws a cohort anew, in which clients train again with other batches. Nothing is ever sent that would
unmask a reply, and a client masks one reply per round.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import ClassVar

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from motet.errors import Diverged, MotetError
from motet.messages.checks import Reasons, ReplyChecks, forms_of
from motet.messages.message import AddedUp, Message, State, encode, number, tensor
from motet.messages.noise import GaussianNoise, uncovered
from motet.messages.pairwise_masks import KEY_BYTES, KeyPair, MaskedRound, import_cryptography
from motet.messages.replies import Replies, Weighting
from motet.messages.transform import (
    PREFIX,
    Collector,
    RunPlan,
    Sender,
    StandIn,
    Transform,
    TransformEntry,
    references,
)

LEAST = 3
"""Clients in a cohort: of two, each would know the other's reply from the sum."""
OURS = "mask."  # how the names of fields begin that this transform adds to messages and replies
KEY, IDS, KEYS, TOTAL, COUNT = "mask.key", "mask.ids", "mask.keys", "mask.total", "mask.n"
KNOWN_IDS, KNOWN_KEYS, LAST = f"{PREFIX}mask.ids", f"{PREFIX}mask.keys", f"{PREFIX}mask.round"
ROUNDS, ASKED, DIGEST_BYTES = f"{PREFIX}mask.rounds", f"{PREFIX}mask.asked", 32  # of what a site promised


class Mask(Transform):
    """Hides single replies behind pairwise masks that cancel in their sum."""

    needs_one_message: ClassVar[bool] = True
    needs_whole_cohort: ClassVar[bool] = True

    range: float = Field(16.0, gt=0, le=2**16, description="the largest change of a number that fits; in 2^30 steps")

    def refuse(self, plan: RunPlan) -> str | None:
        """Return why the server would have to read single replies, or would learn one from the sum."""
        import_cryptography()
        if why := uncovered(plan, "mask"):
            return why
        if plan.cohort < LEAST:
            return f"rounds.cohort is {plan.cohort} clients; accepted: {LEAST} or more, so that a sum tells of no one"
        if plan.transforms[-1] is not self:
            return "mask is followed by another transform, which could not read what it hides; accepted: mask last"
        for each in plan.transforms[:-1]:
            shares = isinstance(each, GaussianNoise) and each.at == "client"
            if each.compresses or (type(each).open is not Transform.open and not shares):
                return (
                    f"transform {each} reads single replies at the server, which mask hides; accepted: clip and "
                    f"noise(at=client) before mask"
                )
        return None

    # ------------------------------------------------------------ public keys

    def introduce(self, client: Sender) -> Message:
        """Return the client's public key."""
        return {KEY: _bytes(_pair(client).public())}

    def introduced(self, server: State, replies: Mapping[int, Message]) -> State:
        """Return the server state with the public keys of these clients; what is no key is left out."""
        known = _keys(server, KNOWN_IDS, KNOWN_KEYS)
        for client_id, reply in replies.items():
            key = reply.get(KEY)
            if isinstance(key, Tensor) and key.dtype == torch.uint8 and key.shape == (KEY_BYTES,):
                known.setdefault(client_id, bytes(key.tolist()))
        return {**server, **_written(known, KNOWN_IDS, KNOWN_KEYS)}

    def stranger(self, server: State, client_id: int) -> bool:
        """Return whether the server lacks a client's public key."""
        return client_id not in _keys(server, KNOWN_IDS, KNOWN_KEYS)

    def address(self, server: State, cohort: Mapping[int, float], message: Message) -> Message:
        """Return the message with the public keys of the cohort and with how many samples it has."""
        known = _keys(server, KNOWN_IDS, KNOWN_KEYS)
        return message | _written({i: known[i] for i in cohort}, IDS, KEYS) | {TOTAL: float(sum(cohort.values()))}

    # ------------------------------------------------------------ at the client

    def promise(self, kept: State, round: int, asked: bytes, message: Message) -> State:
        """Return the others' keys and what was asked in each round; raise if a key or a round's question is another."""
        keys, known = _keys(message, IDS, KEYS), _keys(kept, KNOWN_IDS, KNOWN_KEYS)
        _refuse_other_key(keys, known)
        answered = _answered(kept)
        if answered.setdefault(round, asked) != asked:
            raise MotetError(
                f"the server asks again for a masked reply of round {round}, in other words; accepted: one"
            )
        order = sorted(answered)
        digests = b"".join(answered[each] for each in order)
        return {
            **_written(known | keys, KNOWN_IDS, KNOWN_KEYS),
            ROUNDS: torch.tensor(order),
            ASKED: _bytes(digests).view(-1, DIGEST_BYTES),
        }

    def announced(self, kept: State) -> str:
        """Return the fingerprints of the keys, which sites compare by another way: a server could tell its own keys."""
        known = _keys(kept, KNOWN_IDS, KNOWN_KEYS)
        prints = (f"{i} {hashlib.sha256(known[i]).hexdigest()[:16]}" for i in sorted(known))
        return f"public keys for masks, to compare with the other sites by telephone: {', '.join(prints)}"

    def pack(self, client: Sender, message: Message, reply: Message) -> Message:
        """Return the masked reply; raise `MotetError` if the server asks for what could unmask it."""
        agreed = self._agreed(client, message)
        numbers = self._whole_numbers(client, message, reply)
        parts = [numbers[name].flatten() for name in sorted(numbers)]
        flat = np.concatenate(parts).astype(np.int64).astype(np.uint32)  # modulo 2^32
        flat = flat + agreed.masks(client.id, _pair(client), len(flat))
        sent, at = Message(), 0
        for name in sorted(numbers):
            size = numbers[name].size
            sent[name] = torch.from_numpy(flat[at : at + size].view(np.int32).reshape(numbers[name].shape).copy())
            at += size
        client.private[LAST] = client.round
        return sent

    def _agreed(self, client: Sender, message: Message) -> MaskedRound:
        """Return what the cohort agrees on, and keep its keys: a client's key must never change."""
        keys, known = _keys(message, IDS, KEYS), _keys(client.private, KNOWN_IDS, KNOWN_KEYS)
        if len(keys) < LEAST or len(set(keys.values())) < len(keys) or keys.get(client.id) != _pair(client).public():
            raise MotetError(
                f"the server asks to mask a reply for {len(keys)} clients; accepted: {LEAST} or more with a public key "
                f"each, this one among them"
            )
        if len(keys) != client.cohort:
            raise MotetError(f"the server asks to mask for {len(keys)} clients; accepted: {client.cohort}, a cohort")
        _refuse_other_key(keys, known)
        if client.round <= number({LAST: 0, **client.private}, LAST):
            raise MotetError(f"the server asks again for a masked reply of round {client.round}; accepted: one")
        client.private |= _written(known | keys, KNOWN_IDS, KNOWN_KEYS)
        plain = {name: value for name, value in message.items() if not name.startswith(OURS)}
        return MaskedRound(client.round, keys, encode({**plain, TOTAL: message[TOTAL]}))

    def _whole_numbers(self, client: Sender, message: Message, reply: Message) -> dict[str, "np.ndarray"]:
        """Return the weighted changes of a reply as whole numbers, by the names under which they travel."""
        n, cohort = number({"n": 1, **reply}, "n"), client.cohort
        weights = {"samples": n / number(message, TOTAL), "uniform": 1 / cohort, "sum": 1 / cohort}
        found, start = {COUNT: np.array([n])}, references(message, reply)
        for name, value in reply.items():
            if name == "n":
                continue
            if not isinstance(value, Tensor) or value.dtype != torch.float32:
                raise MotetError(f"reply field {name!r} is no tensor of 32-bit floats, which alone can be masked")
            change = (value - tensor(start, name)).detach().cpu().double().numpy()
            if (largest := float(np.abs(change).max(initial=0))) > self.range:
                raise Diverged(
                    f"reply field {name!r} changes by {largest:.3g}; accepted: up to the {self.range:g} of mask(range)"
                )
            for way in client.added_up[name]:
                found[f"{OURS}{name}.{way}"] = np.rint(change * (weights[way] * self._steps))
        return found

    @property
    def _steps(self) -> float:
        return 2**30 / self.range

    # ------------------------------------------------------------ at the server

    def collector(self, plan: RunPlan, cohort: Mapping[int, float], message: Callable[[], Message]) -> Collector:
        """Return what adds up masked replies."""
        return MaskedReplies(plan, cohort, message(), self._steps)


class MaskedReplies:
    """Adds up masked replies modulo 2^32, and reads the sum when every client of the cohort is in it."""

    def __init__(self, plan: RunPlan, cohort: Mapping[int, float], message: Message, steps: float):
        self.plan, self.cohort, self.message, self.steps = plan, cohort, message, steps
        ways = ((name, way) for name, ways in plan.added_up().items() if name != "n" for way in ways)
        self.fields: dict[str, tuple[str, str]] = {f"{OURS}{name}.{way}": (name, way) for name, way in ways}
        known = {field: message[name] for field, (name, _) in self.fields.items() if name == "w" and name in message}
        like = {field: torch.empty_like(w, dtype=torch.int32) for field, w in known.items() if isinstance(w, Tensor)}
        like[COUNT] = torch.zeros(1, dtype=torch.int32)
        self.checks = ReplyChecks(dict.fromkeys([*self.fields, COUNT], "sum"), like)
        self.void = False
        self._totals: dict[str, np.ndarray] = {}
        self._forms: dict[int, dict[str, object]] = {}
        self._reasons: Reasons = {}

    def add(self, client_id: int, reply: Message) -> None:
        """Add one masked reply; its numbers are not kept."""
        why = self.checks.wrong(reply)
        for name, value in reply.items() if not why else ():
            if not isinstance(value, Tensor) or value.dtype != torch.int32:
                why = f"reply field {name!r} is not masked; accepted: a tensor of torch.int32"
            elif name in self._totals and self._totals[name].shape != tuple(value.shape):
                why = f"reply field {name!r} has shape {tuple(value.shape)}; accepted: {self._totals[name].shape}"
        if why:
            self._reasons[client_id] = why
            return
        for name in reply:
            numbers = tensor(reply, name).contiguous().numpy().view(np.uint32)
            self._totals[name] = self._totals[name] + numbers if name in self._totals else numbers.copy()
        self._forms[client_id] = dict(forms_of(reply))

    def finish(self, stand_in: StandIn | None = None) -> tuple[Replies, Reasons]:
        """Return the sums as replies of which no single one can be read; none if a client of the cohort is missing."""
        self._reasons |= self.checks.outliers(self._forms)  # type: ignore[arg-type]
        missing = sorted((self.cohort.keys() - self._forms.keys()) | self._reasons.keys())
        if missing:
            self.void = True
            why = f"its masks do not cancel without client {missing[0]}, so that the round is void"
            return Replies({}), dict.fromkeys(self._forms, why) | self._reasons
        samples = float(self._signed(COUNT)[0])
        means: dict[tuple[str, Weighting], Tensor] = {}
        sums: dict[str, Tensor] = {}
        for field in self._totals.keys() & self.fields.keys():
            name, way = self.fields[field]
            change = torch.from_numpy(self._signed(field) / self.steps)
            start = tensor(references(self.message, {name: change.float()}), name).double()
            if way == "sum":
                sums[name] = (len(self.cohort) * (start + change)).float()
            elif way == "samples":
                means[name, "samples"] = (start + change * (sum(self.cohort.values()) / samples)).float()
            else:
                means[name, "uniform"] = (start + change).float()
        marks = {name: AddedUp(name, self.plan.uploads[name]) for name in {n for n, _ in means} | sums.keys()}
        one: Message = {**marks, "n": AddedUp("n", "sum")}  # type: ignore[dict-item]  # marks, not values
        return Replies({i: dict(one) for i in sorted(self.cohort)}, means, sums), {}

    def _signed(self, field: str) -> "np.ndarray":
        return self._totals[field].view(np.int32).astype(np.float64)


def _pair(client: Sender) -> KeyPair:
    return KeyPair(client.secret("mask key"))


def _refuse_other_key(keys: Mapping[int, bytes], known: Mapping[int, bytes]) -> None:
    for other in sorted(keys.keys() & known.keys()):
        if keys[other] != known[other]:
            raise MotetError(f"the server tells another public key of client {other} than before; accepted: one")


def _answered(kept: State) -> dict[int, bytes]:
    """Return a hash of what was asked in each round for which a reply was masked."""
    if ROUNDS not in kept:
        return {}
    digests = tensor(kept, ASKED).contiguous().numpy()
    return {each: digests[at].tobytes() for at, each in enumerate(tensor(kept, ROUNDS).tolist())}


def _bytes(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def _keys(state: State, ids: str, keys: str) -> dict[int, bytes]:
    """Return the public keys in a state or message by client id; raise `MotetError` if it holds something else."""
    if ids not in state and keys not in state:
        return {}
    told, rows = tensor(state, ids), tensor(state, keys)
    ids_right = told.dtype == torch.int64 and told.dim() == 1
    keys_right = rows.dtype == torch.uint8 and rows.shape[1:] == (KEY_BYTES,)
    if not (ids_right and keys_right and len(told) == len(rows) == len(set(told.tolist()))):
        raise MotetError(f"message field {keys!r} holds no public keys; accepted: 32 bytes for each of {ids!r}")
    flat = rows.contiguous().numpy().tobytes()
    return {client_id: flat[at * KEY_BYTES : (at + 1) * KEY_BYTES] for at, client_id in enumerate(told.tolist())}


def _written(keys: Mapping[int, bytes], ids: str, name: str) -> State:
    order = sorted(keys)
    if not order:
        return {}
    return {ids: torch.tensor(order), name: _bytes(b"".join(keys[i] for i in order)).view(-1, KEY_BYTES)}


ENTRY = TransformEntry("mask", "secure aggregation: the server reads sums alone", "Bonawitz et al. 2017", Mask)
