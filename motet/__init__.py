"""Motet: personalized federated learning, one model per client and one for everybody in the same run.

Run one experiment with `motet.run`, find out which method to take on your data with `motet.compare`. Each function has
a help text with its parameters and an example; docs/python.md shows all of them. To write a method of your own, start
at `motet.methods`.

>>> import motet
>>> result = motet.run(method="fedavg+ft", data="digits", clients=4, rounds=2)
>>> 0 <= result.generic.accuracy <= 1
True
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from motet.api.comparison import Comparison
    from motet.api.models import adapt, export, predict
    from motet.api.pages import report
    from motet.api.result import Result
    from motet.api.running import load, resume, run
    from motet.api.studies import bench, compare, tune
    from motet.errors import MotetError
    from motet.export.loading import load_model, load_models

    __version__: str

__all__ = [
    "Comparison",
    "MotetError",
    "Result",
    "__version__",
    "adapt",
    "bench",
    "compare",
    "export",
    "load",
    "load_model",
    "load_models",
    "predict",
    "report",
    "resume",
    "run",
    "tune",
]

_HOMES = {
    "Comparison": "api.comparison",
    "MotetError": "errors",
    "Result": "api.result",
    "adapt": "api.models",
    "bench": "api.studies",
    "compare": "api.studies",
    "export": "api.models",
    "load": "api.running",
    "load_model": "export.loading",
    "load_models": "export.loading",
    "predict": "api.models",
    "report": "api.pages",
    "resume": "api.running",
    "run": "api.running",
    "tune": "api.studies",
}


def __getattr__(name: str) -> Any:
    """Import a name on its first use: torch takes seconds to import, and `motet --help` does not need it."""
    if name == "__version__":
        # here, for it imports much: before `__main__` has tidied the path, that may be files of a stranger's folder
        from importlib.metadata import version

        return version("motet")
    if name not in _HOMES:
        raise AttributeError(f"module 'motet' has no attribute {name!r}")
    return getattr(import_module(f"motet.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)


class _Face(ModuleType):
    """Keeps `motet.report` and `motet.export` functions, though rooms of the package have these names too."""

    def __setattr__(self, name: str, value: object) -> None:
        if name in _HOMES and isinstance(value, ModuleType):
            return  # a room that was just imported
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Face
