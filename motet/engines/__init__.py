"""Where client work runs."""

from motet.engines.client_states import ClientStates, PrivateStore, WithStates
from motet.engines.engine import Engine, OneByOne, Outcome, Perform, Task, TaskKind, Work
from motet.engines.inline import Inline
from motet.engines.pool import Pool

__all__ = [
    "ClientStates",
    "Engine",
    "Inline",
    "OneByOne",
    "Outcome",
    "Perform",
    "Pool",
    "PrivateStore",
    "Task",
    "TaskKind",
    "WithStates",
    "Work",
]
