"""Methods: what each paper does, one file per method, written against the contract in `base`.

Start reading in `fedprox.py` (a part of 28 lines), then `averaging.py` (FedAvg, which most others are parts of), then
`base/part.py` and `base/method.py` (every point at which a method may act). `registry.py` turns a name such as
`fedprox(mu=0.01)+ft` into a method. May import training, nets, data, messages, config and io; knows neither metrics nor
engines. Authors of methods need one import: `from motet.methods import Part, Training, Message, ...`.
"""

from typing import TYPE_CHECKING, Any

from motet.config.section import Section, tried
from motet.messages.message import Message, State, number, tensor
from motet.messages.replies import Replies, Rule, Weighting, average
from motet.methods.base import (
    Axis,
    Facts,
    Family,
    Forward,
    Learned,
    LearnedFigure,
    Method,
    MethodEntry,
    Part,
    Phase,
    Predictor,
    Serving,
    Training,
    Wrapped,
)
from motet.methods.base.method import MemoryNeed
from motet.methods.base.part import Acts
from motet.nets import Net
from motet.training.client import Client

if TYPE_CHECKING:
    from motet.methods.averaging import Averaging
    from motet.methods.registry import METHODS, build_method, canonical, describe_methods

__all__ = [
    "METHODS",
    "Acts",
    "Averaging",
    "Axis",
    "Client",
    "Facts",
    "Family",
    "Forward",
    "Learned",
    "LearnedFigure",
    "MemoryNeed",
    "Message",
    "Method",
    "MethodEntry",
    "Net",
    "Part",
    "Phase",
    "Predictor",
    "Replies",
    "Rule",
    "Section",
    "Serving",
    "State",
    "Training",
    "Weighting",
    "Wrapped",
    "average",
    "build_method",
    "canonical",
    "describe_methods",
    "number",
    "tensor",
    "tried",
]


def __getattr__(name: str) -> Any:
    """Import the registry, and with it every method, when one of its names is used for the first time."""
    if name == "Averaging":
        from motet.methods.averaging import Averaging

        return Averaging
    if name in ("METHODS", "build_method", "canonical", "describe_methods"):
        from motet.methods import registry

        return getattr(registry, name)
    raise AttributeError(f"module 'motet.methods' has no attribute {name!r}")
