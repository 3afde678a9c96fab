"""In which fields experiments differ: for tables, pages and the notes of a study."""

from collections.abc import Sequence
from functools import reduce

from motet.config.experiment import Experiment
from motet.config.section import dotted_fields

BY_METHOD = "scoring.personal_model"
"""The field that follows the method, so that it differs where methods do."""


def field_of(experiment: Experiment, dotted: str) -> object:
    """Return the value of a field by its dotted name."""
    return reduce(getattr, dotted.split("."), experiment)


def differs(experiments: Sequence[Experiment], name: str) -> bool:
    """Return whether a field is not the same in all experiments; of `BY_METHOD`, in all of one method."""
    values = {(e.method if name == BY_METHOD else "", repr(field_of(e, name))) for e in experiments}
    return len(values) > (len({e.method for e in experiments}) if name == BY_METHOD else 1)


def differing_fields(experiments: Sequence[Experiment]) -> list[str]:
    """Return the dotted names of the fields that differ, besides the method and what says where the work ran."""
    names = [name for name, _ in dotted_fields(Experiment) if not name.startswith(("method", "engine.", "checkpoint."))]
    return [name for name in names if differs(experiments, name)]
