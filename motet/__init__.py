"""Motet: personalized federated learning, one model per client and one for everybody in the same run."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from motet.errors import MotetError
    from motet.result import Result, load, resume, run

__all__ = ["MotetError", "Result", "load", "resume", "run"]


def __getattr__(name: str) -> Any:
    """On first use: torch takes seconds to import, and `motet --help` does not need it."""
    if name not in __all__:
        raise AttributeError(f"module 'motet' has no attribute {name!r}")
    from motet import errors, result

    return getattr(errors if name == "MotetError" else result, name)
