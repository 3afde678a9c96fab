"""Where client work runs."""

from motet.engines.engine import Engine, Kind, Outcome, Perform, Task, Work
from motet.engines.inline import Inline
from motet.engines.pool import Pool
from motet.engines.store import PrivateStore

__all__ = ["Engine", "Inline", "Kind", "Outcome", "Perform", "Pool", "PrivateStore", "Task", "Work"]
