"""The settings that tuning may try for a method: values of its options, of the learning rate, and of the net.

A setting is a dictionary of choices, such as `{"ditto.lam": 0.1, "local.lr": 0.03}`. Options that the user wrote in
brackets are not tuned. Learning rates are those of the optimizer. On a table whose net the user left open, a logistic
regression and a small MLP are tried. On every table it is tried how strongly weights are pulled towards zero, and few
long local steps beside many short ones: where clients differ, many steps between two averages lead away from the best
model for all.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from motet.config.experiment import Experiment
from motet.config.names import Term, parse
from motet.config.own_data import is_table
from motet.config.section import dotted_fields, values_to_try
from motet.methods.registry import entry_of

RATE, DECAY, BATCH, NET = "local.lr", "local.weight_decay", "local.batch", "net.name"
Setting = dict[str, Any]
Space = dict[str, tuple[Any, ...]]


LEARNING_RATES = {"adam": (0.001, 0.003, 0.01, 0.03), "adamw": (0.001, 0.003, 0.01, 0.03)}
"""The values to try for optimizers whose steps are not as long as their gradients; for SGD the field declares them."""
FULL_BATCH = 1024
"""A batch that is all rows of most clients of a table: one step in an epoch."""
TABLE_RECIPES: tuple[Setting, ...] = (
    {RATE: 0.03, DECAY: 0.003},
    {RATE: 0.3, DECAY: 0.03, BATCH: FULL_BATCH},
    {RATE: 0.1, DECAY: 1e-5},
    {RATE: 0.3, DECAY: 0.003, BATCH: FULL_BATCH},
    {RATE: 0.03, DECAY: 0.03},
)
"""What SGD tries on a table, in this order, with each net: the defaults, hardly any drift, more freedom; with the
experiment's own batch but where one is named. The pulls towards zero are those of a logistic regression on 300 rows
with C = 1, 0.1 and 300."""
TABLE_RATES, TABLE_DECAYS = (tuple(sorted({of[name] for of in TABLE_RECIPES})) for name in (RATE, DECAY))
TABLE_NETS = ("logistic", "mlp(hidden=32)")


def space_of(experiment: Experiment, nets: Sequence[str] = ()) -> Space:
    """Return every choice that the user left open, with the values to try; the net only where there are several."""
    space: Space = {}
    for term in parse(experiment.method):
        for name, info in entry_of(term.name).options.model_fields.items():
            if name not in term.options and (values := values_to_try(info)):
                space[f"{term.name}.{name}"] = _of_optimizer(name, values, experiment.local.optimizer)
    for name, info in dotted_fields(Experiment):
        if values := values_to_try(info):
            space[name] = values
    table = is_table(experiment.data.name)
    if (optimizer := experiment.local.optimizer) != "sgd":
        space[RATE] = LEARNING_RATES[optimizer]
    elif table:
        space[RATE] = TABLE_RATES
    if table:
        space[DECAY] = TABLE_DECAYS
        space[BATCH] = tuple(dict.fromkeys((experiment.local.batch, FULL_BATCH)))
    if len(nets) > 1:
        space[NET] = tuple(nets)
    return space


def recipe(space: Space, turn: int) -> Setting:
    """Return what SGD tries on a table at this turn; empty elsewhere, and where nothing is laid down."""
    if space.get(RATE) != TABLE_RATES or not 0 < turn < len(TABLE_RECIPES):
        return {}
    return {BATCH: space[BATCH][0], **TABLE_RECIPES[turn]}


def _of_optimizer(name: str, values: tuple[Any, ...], optimizer: str) -> tuple[Any, ...]:
    """Return the values to try for an option: without learning rates that are too long for steps of this optimizer."""
    if name != "lr" or optimizer == "sgd":
        return values
    longest = max(LEARNING_RATES[optimizer])
    return tuple(value for value in values if not isinstance(value, float) or value <= longest)


def size_of(space: Space) -> int:
    """Return how many settings there are."""
    return prod(len(values) for values in space.values())


def settings_in(space: Space) -> Iterator[Setting]:
    """Yield all settings, in order."""
    for values in product(*space.values()):
        yield dict(zip(space, values, strict=True))


def first_setting(space: Space, experiment: Experiment) -> Setting:
    """Return the setting that is tried first: every option's default, and the experiment's own fields.

    Where a choice has only one value, the setting has that value.
    """
    defaults = {
        f"{term.name}.{name}": info.default
        for term in parse(experiment.method)
        for name, info in entry_of(term.name).options.model_fields.items()
    }
    fields = experiment.model_dump()
    setting: Setting = {}
    for name, values in space.items():
        own = defaults[name] if name in defaults else _field(fields, name)
        setting[name] = values[0] if len(values) == 1 else own
    return setting


def with_setting(experiment: Experiment, setting: Mapping[str, Any]) -> Experiment:
    """Return the experiment with these choices."""
    fields = {name for name, _ in dotted_fields(Experiment)}
    chosen = {name: value for name, value in setting.items() if name in fields}
    options = {name: value for name, value in setting.items() if name not in fields}
    method = expression(experiment.method, options)
    return experiment.with_(chosen, {"method": method})


def expression(method: str, options: Mapping[str, Any]) -> str:
    """Return the method's name with these options in brackets."""
    return "+".join(str(_chosen(term, options)) for term in parse(method))


def _chosen(term: Term, options: Mapping[str, Any]) -> Term:
    mine = {
        name.removeprefix(f"{term.name}."): value
        for name, value in options.items()
        if name.rpartition(".")[0] == term.name
    }
    return Term(term.name, {**term.options, **mine})


def _field(values: Mapping[str, Any], dotted: str) -> Any:
    for name in dotted.split("."):
        values = values[name]
    return values
