"""The fingerprint of an experiment, and the fields in which experiments differ.

A fingerprint is a hash of the choices that can change a number and differ from their defaults, so that a new field at
its default does not change it. It begins with the version of the defaults. A checkpoint stores the fingerprint of its
experiment.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from motet.config.experiment import Experiment
from motet.config.nesting import flatten
from motet.config.section import dotted_fields
from motet.config.sections import EngineSettings
from motet.errors import MotetError

BY_METHOD = "scoring.personal_model"
"""The field whose default depends on the method."""


IN_ENGINE = "partial_sums"
"""The one field of [engine] that can change a number, by rounding."""


def field_of(experiment: Experiment, dotted: str) -> object:
    """Return the value of a field by its dotted name."""
    return reduce(getattr, dotted.split("."), experiment)


def differs(experiments: Sequence[Experiment], name: str) -> bool:
    """Return whether a field differs between experiments; `BY_METHOD` only counts within the same method."""
    values = {(e.method if name == BY_METHOD else "", repr(field_of(e, name))) for e in experiments}
    return len(values) > (len({e.method for e in experiments}) if name == BY_METHOD else 1)


def differing_fields(experiments: Sequence[Experiment]) -> list[str]:
    """Return the dotted names of the fields that differ, except method, checkpoint and what is no matter in engine."""
    names = [name for name, _ in dotted_fields(Experiment) if not name.startswith(("method", "engine.", "checkpoint."))]
    return [name for name in [*names, f"engine.{IN_ENGINE}"] if differs(experiments, name)]


# -------- Fingerprint


DEFAULTS = 7
"""The version of the defaults: raise it when a default changes or a new field's default changes behaviour."""

# Fields that may change without changing a number of the run.
_NO_MATTER: dict[str, bool | dict[str, bool]] = {
    "engine": dict.fromkeys(EngineSettings.model_fields.keys() - {IN_ENGINE}, True),
    "checkpoint": True,
    "data": {"download": True, "dir": True},
    "scoring": {"figures_learned": True},
    "net": {"weights": True},  # the path; its SHA-256 does matter
}


def fingerprint(experiment: Experiment) -> str:
    """Return the hash of every choice that can change a number: not where it is computed, nor how often it is saved."""
    usual = _choices(Experiment.model_validate({}))
    chosen = {name: value for name, value in _choices(experiment).items() if repr(value) != repr(usual[name])}
    return f"{DEFAULTS}:{hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()}"


def same_experiment(saved: str, here: Experiment) -> bool:
    """Return whether a saved fingerprint is this experiment's; raise if it was made with other defaults."""
    version = saved.partition(":")[0]
    if version != str(DEFAULTS):
        raise MotetError(
            f"a checkpoint has defaults of version {version}; accepted: {DEFAULTS}, so use the Motet that wrote it, or "
            f"run it anew"
        )
    return saved == fingerprint(here)


def differences(there: Experiment, here: Experiment) -> list[str]:
    """Return the choices that make two fingerprints differ, such as "local.lr: 0.01 there, 0.1 here"."""
    a, b = _choices(there), _choices(here)
    return [f"{name}: {a[name]} there, {b[name]} here" for name in a if repr(a[name]) != repr(b[name])]


def _choices(experiment: Experiment) -> Mapping[str, Any]:
    return flatten(experiment.model_dump(exclude=_NO_MATTER))
