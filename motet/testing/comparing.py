"""Whether two runs, or two states, are the same: to the bit, or up to rounding."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from motet.messages.message import State, decode
from motet.testing.twin import Played

RELATIVE, ABSOLUTE = 1e-3, 1e-4  # up to rounding, after a few rounds


def everything(played: Played) -> dict[str, State]:
    """The server state a run ended in, and everybody's private state."""
    return {"the server state": played.server, **{f"client {i}": decode(s) for i, s in played.private().items()}}


def first_difference(ours: Mapping[str, State], theirs: Mapping[str, State]) -> str | None:
    """The first name under which two sets of states differ, to the bit."""
    for who in {**ours, **theirs}:
        a, b = ours.get(who, {}), theirs.get(who, {})
        for name in {**a, **b}:
            if not alike(a.get(name), b.get(name)):
                return f"{name!r} of {who}"
    return None


def alike(a: object, b: object) -> bool:
    """To the bit."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a.nan_to_num(), b.nan_to_num())
    return type(a) is type(b) and (a == b or a != a)


def far(ours: State, theirs: State) -> str | None:
    """Which numbers of two server states differ by more than rounding."""
    for name, a in ours.items():
        b = theirs.get(name)
        if isinstance(a, Tensor) and isinstance(b, Tensor) and a.is_floating_point() and a.shape == b.shape:
            if not torch.allclose(a, b, RELATIVE, ABSOLUTE):
                return f"the server's {name!r} differs by {float((a - b).abs().max()):.2g}"
        elif isinstance(a, float) and isinstance(b, float):
            if not math.isclose(a, b, rel_tol=RELATIVE, abs_tol=ABSOLUTE):
                return f"the server's {name!r} is {b:.4g} instead of {a:.4g}"
        elif not isinstance(b, type(a)):
            return f"the server has {name!r} in one case only"
    return None


def decoded(states: Mapping[str, bytes]) -> dict[str, State]:
    """The files of a run by whose state they hold."""
    names = {"server": "the server state", "weights": "the generic model"}
    return {names.get(role, role.replace("/", " ")): decode(data) for role, data in states.items()}
