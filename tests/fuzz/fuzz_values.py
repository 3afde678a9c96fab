"""Values that people and accidents write, as TOML: right ones, wrong ones, and some at the edge of arithmetic."""

import random

from motet.config.experiment import Experiment
from motet.config.short_names import FIELDS

WRONG = [
    "'x'", "''", "-1", "0", "1.5", "-0.0", "true", "false", "[]", "[1, 2]", "{}", "{a = 1}", "[[1], [2]]", "nan",
    "inf", "-inf", "1e308", "-1e308", "1e-320", "1e400", "9" * 25, "9" * 400, "9" * 4000, "9" * 5000, "-" + "9" * 30,
    "2020-01-01", "12:30:00", "2020-01-01T00:00:00Z", '"\\u0000"', '"\\n"', '"\\u001b[31m"', "'" + "a" * 5000 + "'",
    "'../../x'", "'~nosuchuser/x.npz'", "'/dev/zero'", "'[bold]'", "'None'", "'null'", "'1'", "[{a = 1}]",
    "[" * 300 + "]" * 300, "0x7fffffffffffffffffff", "1_000_000_000_000", "1e20", "1e-15", "1e21", "1e-16",
]  # fmt: skip
RIGHT = {
    "method": ["'fedavg'", "'scaffold'", "'fedprox(mu=0.1)+ft'", "'local'"],
    "seed": ["1", "9223372036854775807"],
    "protocol": ["'motet'", "'dbe'", "'pgfed'"],
    "transforms": ["''", "'clip(norm=1.0)'", "'int8'", "'top-k(share=0.5)'"],
    "device": ["'cpu'"],
    "precision": ["'fp32'", "'bf16'"],
    "data.name": ["'digits'"],
    "data.partition": ["'iid'", "'dirichlet:0.5'", "'pathological:3'", "'shards:2'"],
    "data.clients": ["4", "6"],
    "data.new_clients": ["0.25", "0"],
    "data.subset": ["0.5", "1.0", "1"],
    "rounds.count": ["1", "2"],
    "rounds.cohort": ["1", "1.0", "0.5", "2"],
    "local.epochs": ["1", "2"],
    "local.batch": ["10", "1000000000"],
    "local.lr": ["0.1", "1", "1e-15"],
    "local.momentum": ["0", "0.5"],
    "net.name": ["'mlp'", "'auto'", "'twonn'"],
    "scoring.every": ["1", "1000000000"],
    "engine.name": ["'inline'"],
}


def all_fields() -> list[str]:
    """Every plain field by its dotted name."""
    from motet.config.section import dotted_fields

    return [name for name, _ in dotted_fields(Experiment)]


def a_name(rng: random.Random) -> str:
    """A field: dotted, short, a section alone, or nearly one."""
    fields = all_fields()
    kind = rng.random()
    if kind < 0.45:
        return rng.choice(fields)
    if kind < 0.8:
        return rng.choice(list(FIELDS))
    if kind < 0.9:
        return rng.choice(list(Experiment.model_fields))
    name = rng.choice(fields)
    at = rng.randrange(len(name))
    return rng.choice(
        [name[:at] + name[at + 1 :], name + "s", name.upper(), "x", "data.data", "local.local.lr", name * 3]
    )


def a_value(rng: random.Random, name: str) -> str:
    """A right value where one is known, or any."""
    right = RIGHT.get(FIELDS.get(name, name), [])
    if right and rng.random() < 0.5:
        return rng.choice(right)
    return rng.choice(WRONG)
