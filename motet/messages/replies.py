"""The replies of a round as a method sees them, added up while they arrive to save memory.

A method declares for every field of its replies how the server uses it: `mean`, `sum`, or `each` (one by one). Tensors
with `mean` or `sum` are added up as they arrive, in the order of client ids, so that the bits are those of adding them
up at once; ten thousand clients take the memory of one. Numbers and fields with `each` are kept as they are. Workers
may add up the replies of several clients before they travel (`packed`), which gives other bits.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

import torch
from torch import Tensor

from motet.errors import MotetError
from motet.messages.checks import Form, Reasons, ReplyChecks, forms_of
from motet.messages.message import AddedUp, Message, number, tensor
from motet.messages.partial_sums import FIRST, PartialSums, own_fields
from motet.messages.partial_sums import Weighting as Weighting

Rule = Literal["mean", "each", "sum"]
"""How the server uses a field of the replies: their mean, each client's own, or their sum."""

_Signature = tuple[tuple[str, Form], ...]
_K = TypeVar("_K")


class Replies(Mapping[int, Message]):
    """The usable replies of a round, in the order of client ids.

    A field whose rule is `mean` or `sum` has been added up: call `mean(name)` or `sum(name)` for it. A single reply
    holds an `AddedUp` in its place, so that reading it there raises an error that says so.
    """

    def __init__(
        self,
        replies: Mapping[int, Message],
        means: Mapping[tuple[str, Weighting], Tensor] | None = None,
        sums: Mapping[str, Tensor] | None = None,
    ):
        self._replies, self._means, self._sums = dict(replies), dict(means or {}), dict(sums or {})

    def __getitem__(self, client_id: int) -> Message:
        return self._replies[client_id]

    def __iter__(self) -> Iterator[int]:
        return iter(self._replies)

    def __len__(self) -> int:
        return len(self._replies)

    def mean(self, name: str, weighting: Weighting = "samples") -> Tensor:
        """Return the mean of a field over the replies, by samples or uniform."""
        found = self._means.get((name, weighting))
        if found is not None:
            return found.clone()
        if any(isinstance(reply.get(name), AddedUp) for reply in self._replies.values()):
            raise MotetError(
                f"reply field {name!r} was not added up with weighting {weighting!r}; accepted: a weighting that the "
                f"method's `weightings({name!r})` names, or the rule 'each' in its uploads"
            )
        return _mean_of(self._replies, name, weighting)

    def sum(self, name: str) -> Tensor:
        """Return the sum of a field over the replies."""
        if name in self._sums:
            return self._sums[name].clone()
        total = torch.zeros_like(tensor(next(iter(self._replies.values())), name))
        for reply in self._replies.values():
            total.add_(tensor(reply, name))
        return total


def average(replies: Mapping[int, Message], name: str, weighting: Weighting = "samples") -> Tensor:
    """Return the mean of one field over replies that were not added up, by samples or uniform, in the order of ids."""
    return replies.mean(name, weighting) if isinstance(replies, Replies) else _mean_of(replies, name, weighting)


def _mean_of(replies: Mapping[int, Message], name: str, weighting: str) -> Tensor:
    shares = [_share(reply, weighting) for reply in replies.values()]
    total, whole = torch.zeros_like(tensor(next(iter(replies.values())), name)), sum(shares)
    for reply, share in zip(replies.values(), shares, strict=True):
        total.add_(tensor(reply, name), alpha=share / whole)
    return total


def _share(reply: Message, weighting: str) -> float:
    return number(reply, "n") if weighting == "samples" else 1.0


@dataclass
class _Sums:
    """The running sums of clients whose replies have the same form."""

    replies: dict[int, Message] = field(default_factory=dict)
    means: dict[tuple[str, Weighting], Tensor] = field(default_factory=dict)
    sums: dict[str, Tensor] = field(default_factory=dict)

    def take_in(self, other: "_Sums") -> None:
        """Add the sums of clients whose replies have another form."""
        self.replies |= other.replies
        for key, total in other.means.items():
            self.means[key] = self.means[key].add_(total) if key in self.means else total
        for name, total in other.sums.items():
            self.sums[name] = self.sums[name].add_(total) if name in self.sums else total


class ReplyCollector:
    """Collects the replies of a round one by one, in the order of client ids, into a `Replies`.

    A mean needs the weights of all clients before the first reply is added. `expected` has the number of samples of
    each client of the cohort, as the server knows it. If a client fails or reports another number, the sum is scaled by
    the ratio at the end, which is right up to rounding. With `partial`, workers are trusted to have added up replies.
    """

    void = False  # a reply that is missing does not spoil the others

    def __init__(
        self,
        checks: ReplyChecks,
        rules: Mapping[str, Rule],
        weightings: Callable[[str], Sequence[Weighting]],
        expected: Mapping[int, float],
        partial: bool = False,
    ):
        self.checks, self.rules, self.weightings, self.partial = checks, rules, weightings, partial
        self.expected: dict[Weighting, float] = {"samples": sum(expected.values()), "uniform": float(len(expected))}
        self.asked = frozenset(expected)
        self.reasons: Reasons = {}
        self._by_form: dict[_Signature, _Sums] = {}  # one of them, unless clients differ
        self._carried: dict[int, dict[str, Form]] = {}  # forms of fields in partial sums, by who carries these

    def add(self, client_id: int, reply: Message) -> None:
        """Add one reply; its fields that are added up are not kept."""
        if self.partial and FIRST in reply:
            self._add_partial(client_id, reply)
            return
        if why := self.checks.wrong(reply):
            self.reasons[client_id] = why
            return
        self._add_to(self._sums_of(forms_of(reply)), client_id, reply)

    def _add_to(self, sums: _Sums, client_id: int, reply: Message) -> None:
        kept = dict(reply)
        for name, value in reply.items():
            rule = self.rules.get(name, "each")
            if not isinstance(value, Tensor) or rule == "each":
                continue
            kept[name] = AddedUp(name, rule)  # type: ignore[assignment]  # a mark, not a value
            if rule == "sum":
                _start(sums.sums, name, value).add_(value)
                continue
            for weighting in self.weightings(name):
                share = _share(reply, weighting) / self.expected[weighting]
                _start(sums.means, (name, weighting), value).add_(value, alpha=share)
        sums.replies[client_id] = kept

    def _add_partial(self, client_id: int, reply: Message) -> None:
        """Add a reply of which a worker has added up some fields; the first client of a sum carries it."""
        own, first = own_fields(reply), int(number(reply, FIRST))
        carried = PartialSums.of(reply) if first == client_id else None
        if carried:
            self._carried[first] = forms_of(dict(carried.like()))
        added_up = self._carried[first]
        if why := self.checks.wrong(own, added_up):
            self.reasons[client_id] = why
            return
        sums = self._sums_of(forms_of(own) | added_up)
        if carried:
            for (name, weighting), total in carried.means.items():
                share = carried.weights[weighting] / self.expected[weighting]
                _start(sums.means, (name, weighting), total).add_(total, alpha=share)
            for name, total in carried.sums.items():
                _start(sums.sums, name, total).add_(total)
        marks = {name: AddedUp(name, self.rules[name]) for name in added_up}
        sums.replies[client_id] = own | marks  # type: ignore[assignment]  # marks, not values

    def packed(self) -> dict[int, Message]:
        """Return what travels of each reply that was added: its own fields, and the sums with the first of a form."""
        found: dict[int, Message] = {}
        for sums in self._by_form.values():
            first = next(iter(sums.replies))
            for client_id, reply in sums.replies.items():
                found[client_id] = {n: v for n, v in reply.items() if not isinstance(v, AddedUp)} | {FIRST: first}
            found[first] |= PartialSums(sums.means, sums.sums, self.expected).fields()
        return found

    def _sums_of(self, forms: Mapping[str, Form]) -> _Sums:
        return self._by_form.setdefault(tuple(sorted(forms.items())), _Sums())

    def finish(self, stand_in: Callable[[int, Mapping[str, Form]], Message] | None = None) -> tuple[Replies, Reasons]:
        """Return the usable replies, and why others are set aside.

        With `stand_in`, the reply that it makes of an id and the form of replies counts for each client that failed.
        """
        forms = {i: dict(form) for form, sums in self._by_form.items() for i in sums.replies}
        self.reasons |= self.checks.outliers(forms)
        found = _Sums()
        usual: _Signature = ()
        for form, sums in self._by_form.items():  # all clients of one form are outliers, or none
            if sums.replies.keys() - self.reasons.keys():
                found.take_in(sums)
                usual = form
        if stand_in and found.replies:
            for client_id in sorted(self.asked - found.replies.keys()):
                self._add_to(found, client_id, stand_in(client_id, dict(usual)))
        for (name, weighting), total in found.means.items():
            weights = [_share(reply, weighting) for reply in found.replies.values() if name in reply]
            if sum(weights) != self.expected[weighting]:
                total.mul_(self.expected[weighting] / sum(weights))
        return Replies(dict(sorted(found.replies.items())), found.means, found.sums), self.reasons


def _start(totals: dict[_K, Tensor], key: _K, like: Tensor) -> Tensor:
    """Return the running total under a key, zero if there is none yet."""
    if key not in totals:
        totals[key] = torch.zeros_like(like)
    return totals[key]
