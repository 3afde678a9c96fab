"""Where client work runs."""

from motet.engines.engine import Engine, Outcome, Perform, Task
from motet.engines.inline import Inline
from motet.engines.pool import Pool
from motet.engines.store import PrivateStore

__all__ = ["Engine", "Inline", "Outcome", "Perform", "Pool", "PrivateStore", "Task"]
