"""Checks of how a method behaves: its randomness, its memory, and what it does to the objects it receives."""

import random
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from motet.messages.message import Message, State
from motet.messages.task import Outcome, Task
from motet.methods.base import Method, Part, Wrapped
from motet.server.assembly import assemble
from motet.testing.trial import MethodTrial
from motet.testing.twin import ABSOLUTE, RELATIVE, everything, far, first_difference, play
from motet.testing.walk import InPlace

# -------- The state of a user's classes and modules


FIRST = 100  # how many entries of a container are compared
THEIRS = ("motet", "builtins", "abc", "pydantic", "typing", "torch")  # packages that are not the user's


def kept_outside(method: Method) -> dict[str, object]:
    """Return the values of the classes and modules that a method is made of, by their names, in comparable form."""
    found = dict[str, object]()
    for kind in dict.fromkeys(each for thing in _things(method) for each in type(thing).__mro__):
        if kind.__module__.split(".")[0] in THEIRS:
            continue
        found |= {f"`{kind.__name__}.{name}`": _mark(value) for name, value in _values(vars(kind))}
        module = vars(sys.modules[kind.__module__]) if kind.__module__ in sys.modules else {}
        found |= {f"`{name}` of module {kind.__module__}": _mark(value) for name, value in _values(module)}
    return found


def _things(method: Method) -> Iterator[Method | Part]:
    """Yield a method, its parts, and the method that it wraps."""
    yield method
    yield from getattr(method, "parts", ())
    if isinstance(method, Wrapped):
        yield from _things(method.inner)


def _values(held: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield containers, tensors and numbers: the values that state is made of."""
    for name, value in held.items():
        if not name.startswith("_") and isinstance(value, dict | list | set | Tensor | int | float | str):
            yield name, value


def _mark(value: object) -> object:
    """Return something that changes when a value changes.

    It is the value itself for numbers and text, the sum of a tensor, the marks of a container's first entries, and the
    identity of any other object.
    """
    if isinstance(value, Tensor):
        return tuple(value.shape), value.data_ptr(), value._version, repr(value.double().sum())
    if isinstance(value, dict):
        return len(value), tuple((_mark(key), _mark(held)) for key, held in islice(value.items(), FIRST))
    if isinstance(value, list | tuple | set):
        return len(value), tuple(map(_mark, islice(value, FIRST)))
    return repr(value) if isinstance(value, int | float | str) else id(value)


# -------- The checks


def draws_by_its_own_randomness(trial: MethodTrial) -> None:
    """Check that a run on a net with dropout does not depend on the global generators of torch, NumPy and Python."""
    ends, moved = [], set[str]()
    for seed in (1, 2):
        with _global_seeds(seed, moved):
            ends.append(everything(play(trial.with_modes())))
    if where := first_difference(*ends):
        drawn = f"that of {' and '.join(sorted(moved))} was drawn from" if moved else "or from the clock"
        raise trial.fault(
            f"{where} is another one in a second run of the same experiment: something is drawn from global or "
            f"unseeded randomness ({drawn}); draw from `client.rng(purpose)`, `client.descent(purpose)` or "
            "`s.rng(purpose)`, and look at a net outside of its local steps inside `t.at(w)`, where dropout rests"
        )


def keeps_nothing_in_its_class(trial: MethodTrial) -> None:
    """Check that no task changes class attributes or globals of the user's own modules."""
    assembly = assemble(trial.experiment())
    perform, before = assembly.workplace.perform, kept_outside(assembly.method)

    def looked_after(task: Task, private: State) -> Outcome:
        outcome = perform(task, private)
        for name, value in kept_outside(assembly.method).items():
            if before.get(name) != value:
                raise trial.fault(
                    f"{name} changed during a run: what is kept in a class or a module is one for all clients and is "
                    "lost in another process; the server state and `client.private` are a method's memory"
                )
        return outcome

    if before:
        assembly.workplace.perform = looked_after  # type: ignore[method-assign]
        play(assembly.experiment, assembly=assembly)


def changes_nothing_in_place(trial: MethodTrial) -> None:
    """Check that states, messages and replies are the same after each call as before it."""
    try:
        trial.walk.rounds()
    except InPlace as found:
        raise trial.fault(f"{found}; put a new tensor in its place") from None


def uses_every_reply_alike(trial: MethodTrial) -> None:
    """Check that the order of replies does not change the generic model, nor a mean field anything but by its mean."""
    walk = trial.walk
    if not walk.replies:
        return
    method = walk.assembly.method
    plain, again = (method.aggregate(walk.server, walk.replies) for _ in range(2))
    if where := first_difference({"the server state": plain}, {"the server state": again}):
        raise trial.fault(
            f"{where} is another one when `aggregate` is asked again with the same state and replies; the server's "
            "memory is the server state, not the method"
        )
    ours, theirs = (walk.generic_from(order) for order in (dict, _reversed))
    if ours is not None and theirs is not None and not torch.allclose(ours, theirs, RELATIVE, ABSOLUTE):
        raise trial.fault(
            "the generic model is another one when the replies come in another order; a server weighs clients by what "
            "they tell, not by who comes first"
        )
    for name, rule in method.uploads.items():
        if rule == "each" or name in ("w", "n") or any(name not in reply for reply in walk.replies.values()):
            continue
        states = [walk.with_one_value(name, rule, weighting) for weighting in ("samples", "uniform")]
        if all(far(plain, state) for state in states):
            raise trial.fault(
                f"`uploads` declares {name!r} as {rule!r}, but the server state is another one when every client tells "
                f"the {'mean' if rule == 'mean' else 'same share of the sum'}; accepted: 'each' for what is used "
                "client by client"
            )


@contextmanager
def _global_seeds(seed: int, moved: set[str]) -> Iterator[None]:
    """Seed the global generators inside the block and restore them after it; note in `moved` which ones were used."""
    before = torch.get_rng_state(), np.random.get_state(), random.getstate()
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)
    began = torch.get_rng_state(), np.random.get_state(legacy=True), random.getstate()
    try:
        yield
    finally:
        if not torch.equal(began[0], torch.get_rng_state()):
            moved.add("torch")
        if repr(began[1]) != repr(np.random.get_state(legacy=True)):
            moved.add("numpy")
        if began[2] != random.getstate():
            moved.add("random")
        torch.set_rng_state(before[0])
        np.random.set_state(before[1])
        random.setstate(before[2])


def _reversed(replies: dict[int, Message]) -> dict[int, Message]:
    return dict(reversed(replies.items()))
