"""When two experiments are the same one: also across versions of Motet that know other fields and other defaults.

A fingerprint is a hash of the choices that can change a number and differ from their defaults, so that a field that
comes later, and is left at its default, changes no fingerprint. It begins with the version of the defaults.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from motet.config.experiment import Experiment, merge, resolve
from motet.errors import MotetError

DEFAULTS = 3
"""Goes up when a default changes, or when a field comes whose default is not how Motet acted before."""

_UNTIL: dict[int, dict[str, Any]] = {
    0: {"local.batched_clients": False},
    1: {"data.normalize_on": "all", "scoring.train_loss": False, "scoring.test": "common"},
    2: {
        "data.partition": "dirichlet:0.3",
        "data.min_count": 1,
        "scoring.pm_source": "last_participation",
        "scoring.by_class": True,
        "scoring.class_weights": "literal",
    },
}
"""For each version, the fields that were otherwise up to it: their defaults then, or how Motet acted without them."""

# What may change without changing a number of the run.
_NO_MATTER: dict[str, bool | dict[str, bool]] = {
    "engine": True,
    "checkpoint": True,
    "data": {"download": True, "dir": True},
    "scoring": {"figures_learned": True},
    "net": {"weights": True},  # whose SHA-256 does matter
}


def fingerprint(experiment: Experiment, defaults: int = DEFAULTS) -> str:
    """Of every choice that can change a number: not the engine, nor how often it is saved."""
    usual = _defaults(defaults)
    chosen = {name: value for name, value in _choices(experiment).items() if repr(value) != repr(usual[name])}
    return f"{defaults}:{_hash(chosen)}"


def same_experiment(saved_as: str, there: Mapping[str, Any], here: Experiment) -> bool:
    """Whether a fingerprint, saved with an experiment as its Motet wrote it, is this experiment's."""
    version, colon, _ = saved_as.partition(":")
    if not colon:  # a hash of all fields that were known, before there were versions
        return saved_as == _of_known_fields(there, here)
    if int(version) > DEFAULTS:
        raise MotetError(
            f"a checkpoint has defaults of version {version}; accepted: up to {DEFAULTS}, so use a newer Motet"
        )
    return saved_as == fingerprint(here, int(version))


def recorded(values: Mapping[str, Any]) -> Experiment:
    """The experiment that a run wrote down: of a field that its Motet did not know, how that Motet acted."""
    return resolve(merge(Experiment.model_validate({}).model_dump(), _nested(_defaults(0)), values))


def differences(there: Experiment, here: Experiment) -> list[str]:
    """The choices that make two fingerprints differ, such as "local.lr: 0.01 there, 0.1 here"."""
    a, b = _choices(there), _choices(here)
    return [f"{name}: {a[name]} there, {b[name]} here" for name in a if repr(a[name]) != repr(b[name])]


def _of_known_fields(there: Mapping[str, Any], here: Experiment) -> str | None:
    """The hash as it was then; None if a field that it did not know is set to something else than it acted by."""
    known, usual = _flat(there), _defaults(0)
    choices = _choices(here)
    if any(repr(choices[name]) != repr(usual[name]) for name in choices if name not in known):
        return None
    return _hash(_nested({name: value for name, value in choices.items() if name in known}))


def _choices(experiment: Experiment) -> dict[str, Any]:
    return _flat(experiment.model_dump(exclude=_NO_MATTER))


def _defaults(version: int) -> dict[str, Any]:
    """Of every field that matters, as they were in that version."""
    found = _choices(Experiment.model_validate({}))
    for known in sorted((v for v in _UNTIL if v >= version), reverse=True):
        found |= _UNTIL[known]
    return found


def _hash(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {prefix + name: value}
    return flat


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for dotted, value in flat.items():
        *sections, name = dotted.split(".")
        inner = nested
        for section in sections:
            inner = inner.setdefault(section, {})
        inner[name] = value
    return nested
