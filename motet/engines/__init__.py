"""Where client work runs."""

from motet.engines.client_states import ClientStates, PrivateStore, WithStates
from motet.engines.engine import Engine, Kind, OneByOne, Outcome, Perform, Task, Work
from motet.engines.inline import Inline
from motet.engines.pool import Pool

__all__ = [
    "ClientStates",
    "Engine",
    "Inline",
    "Kind",
    "OneByOne",
    "Outcome",
    "Perform",
    "Pool",
    "PrivateStore",
    "Task",
    "WithStates",
    "Work",
]
