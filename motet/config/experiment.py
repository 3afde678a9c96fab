"""The experiment: every choice of a run, resolved, comparable and written to one file.

Defaults, which for a user's own data are those of `own_data.py`, are overridden by the preset of `protocol`, that by
the choices of the file, those by the command line.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import Field, ValidationError

from motet.config import toml
from motet.config.data_section import DataSettings
from motet.config.nesting import Values, merge, nest
from motet.config.own_data import defaults_for
from motet.config.presets import PROTOCOLS
from motet.config.scoring_section import ScoringSettings
from motet.config.section import LARGEST_SEED, Section, refusal
from motet.config.sections import (
    AdaptSettings,
    CheckpointSettings,
    EngineSettings,
    LocalSettings,
    NetSettings,
    RoundSettings,
)
from motet.config.short_names import FIELDS
from motet.config.toml import commented, parse_set, read
from motet.errors import MotetError, shown
from motet.io.files import write_atomic
from motet.metrics.names import AFTER, BENIGN, MetricName

__all__ = [
    "CheckpointSettings",
    "EngineSettings",
    "Experiment",
    "NetSettings",
    "Values",
    "commented_template",
    "merge",
    "parse_set",
    "read",
    "resolve",
    "to_toml",
    "write",
]

_S = TypeVar("_S", bound=Section)


def _default(section: type[_S]) -> _S:
    return section.model_validate({})


class Experiment(Section):
    """Every choice of one run."""

    short_names: ClassVar[tuple[str, ...]] = tuple(FIELDS)

    method: str = Field("fedavg", description="a method of `motet list methods`, or a sum such as fedprox(mu=0.01)+ft")
    seed: int = Field(0, ge=0, le=LARGEST_SEED, description="the one source of all randomness")
    protocol: Literal["motet", "fedrod", "fedrod-emnist", "fedrod-cifar", "pgfed", "fedbasis", "superfed", "dbe"] = (
        Field("motet", description="whose way of training and measuring fills in the fields that are left out")
    )
    transforms: str = Field(
        "",
        description="what happens to a reply on its way: transforms of `motet list transforms`, such as clip(norm=1.0)",
    )
    device: str = Field("cpu", description="where tensors live, in torch's words")
    precision: Literal["fp32", "bf16"] = Field(
        "fp32", description="of the nets in training; bf16 pays where the hardware has it, steps and scores stay fp32"
    )
    data: DataSettings = _default(DataSettings)
    net: NetSettings = _default(NetSettings)
    rounds: RoundSettings = _default(RoundSettings)
    local: LocalSettings = _default(LocalSettings)
    adapt: AdaptSettings = _default(AdaptSettings)
    scoring: ScoringSettings = _default(ScoringSettings)
    engine: EngineSettings = _default(EngineSettings)
    checkpoint: CheckpointSettings = _default(CheckpointSettings)

    def with_(self, *changes: Mapping[str, Any]) -> "Experiment":
        """Return the same experiment with other choices, checked as if they had been written in its file.

        A change is nested, `{"local": {"lr": 0.1}}`, or has dotted names, `{"local.lr": 0.1}`; later ones win.
        """
        return resolve(merge(self.model_dump(), *map(nest, changes)))

    @property
    def headline(self) -> MetricName:
        """The figure that is reported first: of the training clients, or of new ones."""
        return replace(self.scoring.headline, model=AFTER) if self.scoring.clients == "new" else self.training_headline

    @property
    def training_headline(self) -> MetricName:
        """The headline of the training clients, over the benign ones if some are malicious."""
        return replace(self.scoring.headline, among=BENIGN if self.data.malicious else "")


def resolve(values: Mapping[str, Any]) -> Experiment:
    """Return the experiment with these choices; None means not chosen. Raise `MotetError` for an invalid choice."""
    try:
        chosen = merge(values)
        name = chosen.get("protocol", "motet")
        preset = PROTOCOLS[name].values if isinstance(name, str) and name in PROTOCOLS else {}
        text = json.dumps(merge(defaults_for(chosen), _beside_clients(preset, chosen), chosen), default=_plain)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise MotetError(
            f"the experiment holds what no field can ({_reason(error)}); accepted: numbers, words and lists, by names"
        ) from error
    try:
        # Strict JSON: no text for a number, no bool for a count, but a list for a tuple.
        return Experiment.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise refusal(error, Experiment) from error


def _beside_clients(preset: Mapping[str, Any], chosen: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a preset, without its partition if a client column is chosen, which defines the clients then."""
    data, dealt = chosen.get("data"), preset.get("data")
    if not isinstance(data, Mapping) or data.get("client") is None or not isinstance(dealt, Mapping):
        return preset
    return {**preset, "data": {name: value for name, value in dealt.items() if name != "partition"}}


def to_toml(experiment: Experiment) -> str:
    """Return the fully resolved experiment as TOML."""
    return toml.dumps(experiment.model_dump())


def write(experiment: Experiment, path: Path) -> None:
    """Write the fully resolved experiment to a file."""
    write_atomic(path, to_toml(experiment).encode())


def commented_template(experiment: Experiment | None = None) -> str:
    """Return a complete experiment file with every field explained; the defaults unless an experiment is given."""
    return commented(experiment or resolve({}))


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "values within values without end"
    return "a number of thousands of digits" if "digits" in str(error) else shown(str(error))


def _plain(value: Any) -> Any:
    if getattr(value, "shape", ()):
        return f"an array of shape {tuple(value.shape)}"  # in a sentence; no field takes one
    return value.tolist() if hasattr(value, "tolist") else str(value)
