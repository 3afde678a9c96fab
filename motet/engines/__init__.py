"""Where client work runs."""

from motet.engines.engine import Engine, Outcome, Perform, Task
from motet.engines.inline import Inline

__all__ = ["Engine", "Inline", "Outcome", "Perform", "Task"]
