"""Checks of replies before a method gets them: a client may be broken, late or malicious.

A reply is checked when it arrives (`ReplyChecks.wrong`), and again when all are there (`ReplyChecks.outliers`), because
some shapes are known only from what most clients sent. A client that fails a check is set aside for the round, with the
reason; the others go on.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from motet.messages.message import Message, Scalar
from motet.messages.task import Outcome, TaskKind

Reasons = dict[int, str]
_T = TypeVar("_T")
Form = tuple[torch.dtype, tuple[int, ...]] | None
"""The type and shape of a field; None for a number."""


def unusable(outcome: Outcome, kind: TaskKind, round: int, waiting: set[int], asked: Sequence[int]) -> str | None:
    """Return why an outcome does not answer its task, or None; `waiting` are clients that have not answered yet."""
    if outcome.client_id not in asked:
        return "answered unasked"
    if outcome.client_id not in waiting:
        return "answered more than once; its first answer counts"
    if (outcome.kind, outcome.round) != (kind, round):
        return f"answered {outcome.kind} of round {outcome.round}; accepted: {kind} of round {round}"
    if outcome.reply is None:
        return outcome.failure or "no answer"
    return None


class ReplyChecks:
    """Checks the replies of one round: the declared fields, of the form they should have, and finite.

    `declared` has all fields that a reply may have; without it, any field is allowed. `like` has tensors whose form is
    known. For the rest, the form that most replies have is right: clients of one round run one method on one net.
    """

    def __init__(self, declared: Mapping[str, str] | None = None, like: Mapping[str, Tensor] | None = None):
        self.declared = declared
        self.known = {name: form_of(value) for name, value in (like or {}).items()}
        self._names: Counter[frozenset[str]] = Counter()
        self._forms: dict[str, Counter[Form]] = {}

    def wrong(self, reply: Message, added_up: Mapping[str, Form] | None = None) -> str | None:
        """Return why a reply that just arrived cannot be used, or None; its form counts for the majority either way.

        `added_up` has the forms of fields that were added up before the reply travelled, where their values were
        checked.
        """
        forms = forms_of(reply) | dict(added_up or {})
        self._names[frozenset(forms.keys() & self.declared if self.declared else forms)] += 1
        for name, form in forms.items():
            self._forms.setdefault(name, Counter())[form] += 1
        unknown = sorted(forms.keys() - self.declared.keys()) if self.declared else []
        if unknown:
            return _not_known(unknown[0], set(self.declared or ()))
        for name, form in forms.items():
            why = _wrong_form(name, form, self.known) or (_wrong_value(name, reply[name]) if name in reply else None)
            if why:
                return why
        return None

    def outliers(self, forms: Mapping[int, Mapping[str, Form]]) -> Reasons:
        """Return how replies that passed differ from the form that most have, by client; call it when all are there."""
        usual = _most(self._names) or frozenset()
        right = {name: _most(self._forms[name]) for name in usual if name in self._forms} | {
            name: form for name, form in self.known.items() if name in usual
        }
        allowed = usual | self.declared.keys() if self.declared else usual
        reasons = {client_id: _outlier(form, usual, allowed, right) for client_id, form in forms.items()}
        return {client_id: why for client_id, why in reasons.items() if why}


def well_formed(
    replies: Mapping[int, Message],
    declared: Mapping[str, str] | None = None,
    like: Mapping[str, Tensor] | None = None,
) -> tuple[dict[int, Message], Reasons]:
    """Return the replies that pass all checks, and why the others do not."""
    checks = ReplyChecks(declared, like)
    reasons = {i: why for i, reply in replies.items() if (why := checks.wrong(reply))}
    forms = {i: forms_of(reply) for i, reply in replies.items() if i not in reasons}
    reasons |= checks.outliers(forms)
    return {i: reply for i, reply in replies.items() if i not in reasons}, reasons


def forms_of(reply: Message) -> dict[str, Form]:
    """Return the form of every field of a reply."""
    return {name: form_of(value) for name, value in reply.items()}


def form_of(value: Tensor | Scalar) -> Form:
    """Return the type and shape of a field; None for a number."""
    return (value.dtype, tuple(value.shape)) if isinstance(value, Tensor) else None


def _outlier(
    found: Mapping[str, Form], usual: frozenset[str], allowed: frozenset[str], right: Mapping[str, Form]
) -> str | None:
    for name in sorted(found.keys() - allowed):
        return _not_known(name, usual)
    for name in sorted(usual - found.keys()):
        return f"reply field {name!r} is missing; accepted: {', '.join(sorted(usual))}"
    return next((why for name, form in found.items() if (why := _wrong_form(name, form, right))), None)


def _not_known(name: str, known: Iterable[str]) -> str:
    return f"reply field {name!r} is not known; accepted: {', '.join(sorted(known)) or 'an empty reply'}"


def _wrong_form(name: str, found: Form, forms: Mapping[str, Form]) -> str | None:
    right = forms.get(name, found)
    if found is None or right is None:
        return None if found == right else f"reply field {name!r} is {_words(found)}; accepted: {_words(right)}"
    if found[1] != right[1]:
        return f"reply field {name!r} has shape {found[1]}; accepted: {right[1]}"
    if found[0] != right[0]:
        return f"reply field {name!r} has type {found[0]}; accepted: {right[0]}"
    return None


def _wrong_value(name: str, value: Tensor | Scalar) -> str | None:
    if not _finite(value):
        return f"reply field {name!r} holds NaN or infinity; accepted: finite numbers"
    if name == "n" and not isinstance(value, Tensor) and value <= 0:
        return f"reply field 'n' is {value}; accepted: a number of samples above 0"
    return None


def _words(form: Form) -> str:
    return "a number" if form is None else "a tensor"


def _finite(value: Tensor | Scalar) -> bool:
    if isinstance(value, Tensor):
        return not value.is_floating_point() or bool(torch.isfinite(value).all())
    return math.isfinite(value)


def _most(found: Counter[_T]) -> _T | None:
    """Return the most frequent item; of equals, the first in the order of client ids."""
    return found.most_common(1)[0][0] if found else None
