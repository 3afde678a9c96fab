"""Motet: personalized federated learning, one model per client and one for everybody in the same run."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from motet.api.result import Result, load, resume, run
    from motet.errors import MotetError
    from motet.export import load_model

__all__ = ["MotetError", "Result", "load", "load_model", "resume", "run"]


def __getattr__(name: str) -> Any:
    """On first use: torch takes seconds to import, and `motet --help` does not need it."""
    if name not in __all__:
        raise AttributeError(f"module 'motet' has no attribute {name!r}")
    from motet import errors, export
    from motet.api import result

    home = {"MotetError": errors, "load_model": export}.get(name, result)
    return getattr(home, name)
