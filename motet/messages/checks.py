"""What a server asks of replies before a method sees them: a client may be broken, late, or a liar.

Whoever does not pass is set aside for the round with a sentence; the others go on.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from motet.engines.engine import Outcome, TaskKind
from motet.messages.message import Message, Scalar

Replies = dict[int, Message]
Reasons = dict[int, str]
_T = TypeVar("_T")
Form = tuple[torch.dtype, tuple[int, ...]] | None  # of a field; None: a number


TRAIN_LOSS = "train.loss"
"""The field in which a client tells the loss of its training. No method sees it."""


def without_losses(replies: Replies) -> tuple[Replies, dict[int, float]]:
    """The replies as methods know them, and the training loss of each client that told a number."""
    told = {which: reply.get(TRAIN_LOSS) for which, reply in replies.items()}
    losses = {i: v for i, v in told.items() if isinstance(v, float) and math.isfinite(v)}
    rest = {i: {name: v for name, v in reply.items() if name != TRAIN_LOSS} for i, reply in replies.items()}
    return rest, losses


def answers(outcomes: Sequence[Outcome], kind: TaskKind, round: int, asked: Sequence[int]) -> tuple[Replies, Reasons]:
    """The replies to what was asked, in the order of client ids, and why others have none."""
    replies: Replies = {}
    reasons: Reasons = {}
    times = Counter(outcome.client_id for outcome in outcomes)
    for outcome in outcomes:
        which = outcome.client_id
        if which not in asked:
            reasons[which] = "answered unasked"
        elif times[which] > 1:
            reasons[which] = f"answered {times[which]} times; accepted: once"
        elif (outcome.kind, outcome.round) != (kind, round):
            reasons[which] = f"answered {outcome.kind} of round {outcome.round}; accepted: {kind} of round {round}"
        elif outcome.reply is None:
            reasons[which] = outcome.failure or "no answer"
        else:
            replies[which] = outcome.reply
    reasons |= {which: "no answer" for which in asked if which not in times}
    return dict(sorted(replies.items())), reasons


def well_formed(
    replies: Replies, declared: Mapping[str, str] | None = None, like: Mapping[str, Tensor] | None = None
) -> tuple[Replies, Reasons]:
    """The replies that have the fields they should have, of the form they should have, and finite.

    `declared` are all fields that a reply may have. `like` has tensors whose form is known. For the rest, what most
    replies have is right: clients of one round run one method on one net.
    """
    usual = _most([frozenset(reply.keys() & declared if declared else reply) for reply in replies.values()])
    forms = {name: _most([_form(r[name]) for r in replies.values() if name in r]) for name in usual or ()}
    forms |= {name: _form(value) for name, value in (like or {}).items() if name in forms}
    reasons: Reasons = {}
    for which, reply in replies.items():
        wrong = _wrong_names(reply, usual or frozenset(), declared)
        for name, value in reply.items() if not wrong else ():
            wrong = wrong or _wrong_field(name, value, forms)
        if wrong:
            reasons[which] = wrong
    return {which: reply for which, reply in replies.items() if which not in reasons}, reasons


def _wrong_names(reply: Message, usual: frozenset[str], declared: Mapping[str, str] | None) -> str | None:
    known = set(declared) if declared else usual
    for name in sorted(reply.keys() - known):
        return f"reply field {name!r} is not known; accepted: {', '.join(sorted(known)) or 'an empty reply'}"
    for name in sorted(usual - reply.keys()):
        return f"reply field {name!r} is missing; accepted: {', '.join(sorted(usual))}"
    return None


def _wrong_field(name: str, value: Tensor | Scalar, forms: Mapping[str, Form]) -> str | None:
    found = _form(value)
    right = forms.get(name, found)
    if found is None or right is None:
        if found != right:
            return f"reply field {name!r} is {_words(found)}; accepted: {_words(right)}"
    elif found[1] != right[1]:
        return f"reply field {name!r} has shape {found[1]}; accepted: {right[1]}"
    elif found[0] != right[0]:
        return f"reply field {name!r} has type {found[0]}; accepted: {right[0]}"
    if not _finite(value):
        return f"reply field {name!r} holds NaN or infinity; accepted: finite numbers"
    if name == "n" and not isinstance(value, Tensor) and value <= 0:
        return f"reply field 'n' is {value}; accepted: a number of samples above 0"
    return None


def _form(value: Tensor | Scalar) -> Form:
    return (value.dtype, tuple(value.shape)) if isinstance(value, Tensor) else None


def _words(form: Form) -> str:
    return "a number" if form is None else "a tensor"


def _finite(value: Tensor | Scalar) -> bool:
    if isinstance(value, Tensor):
        return not value.is_floating_point() or bool(torch.isfinite(value).all())
    return math.isfinite(value)


def _most(found: Sequence[_T]) -> _T | None:
    """What most have; of equals, what comes first in the order of client ids."""
    return Counter(found).most_common(1)[0][0] if found else None
