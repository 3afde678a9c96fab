"""Whether the states of a checkpoint fit their method: a folder may hold whole states of other shapes.

Nothing can tell what shapes a method's states may have, so the states are tried. If their first use fails, it is the
folder's fault where a field of the server is of another kind than the method begins with, or where the method does the
same from its own beginning. Anything else is a bug, and shows as one.
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
"""What torch raises for tensors of other shapes, types or values."""


class UsedStates:
    """States of a checkpoint in their first use."""

    def __init__(self, what: str, method: Method, engine: Engine, loaded: Loaded):
        """`what` begins the sentence about states that do not fit, such as `run x cannot go on`."""
        self.what, self.method, self.engine, self.loaded = what, method, engine, loaded

    def make(
        self,
        use: Callable[[State], T],
        trial: Callable[[State], object] | None = None,
        is_first: Callable[[], bool] = lambda: True,
    ) -> T:
        """Return what `use` makes of the server's state, or raise one sentence if the states do not fit.

        `trial` does the same from the method's beginning, if `use` itself cannot; `is_first` tells whether what failed
        was still the first use of the states.
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
        """The first field of the server that is of another kind or shape than the method begins with."""
        server = self.loaded.server
        for name, begun in self.method.start().items():
            if name in server and not _alike(server[name], begun):
                return f"{name} is {_described(server[name])}, and begins as {_described(begun)}"
        return None

    def _works_from_the_beginning(self, trial: Callable[[State], object]) -> bool:
        self.engine.go_back(0, {})  # no client has a private state then
        try:
            trial(self.method.start())
        except Exception:
            return False
        finally:
            self.engine.go_back(self.loaded.round, self.loaded.clients)
        return True


def _alike(found: Tensor | Scalar, begun: Tensor | Scalar) -> bool:
    """Whether both are numbers, or tensors of one shape; a side that is 0 at the beginning may have any length."""
    if not isinstance(found, Tensor) or not isinstance(begun, Tensor):
        return isinstance(found, Tensor) == isinstance(begun, Tensor)
    sides = zip(found.shape, begun.shape, strict=False)
    return found.dtype == begun.dtype and found.dim() == begun.dim() and all(b in (a, 0) for a, b in sides)


def _described(value: Tensor | Scalar) -> str:
    return f"{value.dtype} of shape {tuple(value.shape)}" if isinstance(value, Tensor) else "a number"
