"""Detect states of a checkpoint that do not fit their method: undamaged files may still have other shapes.

A method does not declare the shapes of its states, so the states are tried. If their first use fails, the folder is to
blame where a field of the server has another type or shape than in the method's start state, or where the same work
succeeds from the start state. Any other error is a bug and is raised as it is.
"""

from collections.abc import Callable
from typing import TypeVar

from torch import Tensor

from motet.engines import Engine
from motet.errors import MotetError
from motet.io.user_code import place_of
from motet.messages.message import Scalar, State
from motet.methods.base import Method
from motet.runs.checkpoint import Loaded

T = TypeVar("T")

_OF_TENSORS = (ArithmeticError, LookupError, RuntimeError, ValueError)
"""Errors that torch raises for tensors of wrong shapes, types or values."""


class UsedStates:
    """The states of a checkpoint, with errors of their first use explained."""

    def __init__(self, what: str, method: Method, engine: Engine, loaded: Loaded):
        """Take the states; `what` begins the sentence of the error, such as `run x cannot go on`."""
        self.what, self.method, self.engine, self.loaded = what, method, engine, loaded

    def make(
        self,
        use: Callable[[State], T],
        trial: Callable[[State], object] | None = None,
        is_first: Callable[[], bool] = lambda: True,
    ) -> T:
        """Return `use(server state)`; raise `MotetError` if it fails because the states do not fit.

        `trial` does the same work from a start state, where `use` itself cannot be called twice; `is_first` returns
        whether the failure was still in the first use of the states.
        """
        try:
            return use(self.loaded.server)
        except MotetError:
            raise
        except Exception as error:
            if place_of(error) or not is_first():  # the user's own code, or later states
                raise
            why = self._misfit()
            if why is None and isinstance(error, _OF_TENSORS) and self._works_from_the_beginning(trial or use):
                why = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:150]}"
            if why is None:
                raise
            raise MotetError(f"{self.what}: the states in its checkpoint do not fit its method ({why})") from error

    def _misfit(self) -> str | None:
        """Return a description of the first field whose type or shape differs from the start state, or None."""
        server = self.loaded.server
        for name, begun in self.method.start().items():
            if name in server and not _alike(server[name], begun):
                return f"{name} is {_described(server[name])}, and begins as {_described(begun)}"
        return None

    def _works_from_the_beginning(self, trial: Callable[[State], object]) -> bool:
        """Return whether `trial` succeeds from the method's start state; private states are restored afterwards."""
        self.engine.go_back(0, {})  # no client has a private state then
        try:
            trial(self.method.start())
        except Exception:
            return False
        finally:
            self.engine.go_back(self.loaded.round, self.loaded.clients)
        return True


def _alike(found: Tensor | Scalar, begun: Tensor | Scalar) -> bool:
    """Return whether both are numbers, or tensors of one type and shape; a side of length 0 may have grown."""
    if not isinstance(found, Tensor) or not isinstance(begun, Tensor):
        return isinstance(found, Tensor) == isinstance(begun, Tensor)
    sides = zip(found.shape, begun.shape, strict=False)
    return found.dtype == begun.dtype and found.dim() == begun.dim() and all(b in (a, 0) for a, b in sides)


def _described(value: Tensor | Scalar) -> str:
    return f"{value.dtype} of shape {tuple(value.shape)}" if isinstance(value, Tensor) else "a number"
