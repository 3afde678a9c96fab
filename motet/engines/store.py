"""Private client states: the most recently used in memory, up to a limit; the others on disk."""

import tempfile
from collections import OrderedDict
from pathlib import Path

from motet.message import State, byte_count, decode, encode

LIMIT = 512 * 2**20  # bytes of states that stay in memory


class PrivateStore:
    """One state per client. A state that was never put is empty."""

    def __init__(self, limit: int = LIMIT):
        self.limit, self.held = limit, 0
        self._memory: OrderedDict[int, State] = OrderedDict()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._on_disk: set[int] = set()

    def get(self, client_id: int) -> State:
        """A client's state; its tensors are shared with the store, so replace them, never change them."""
        if client_id in self._memory:
            self._memory.move_to_end(client_id)
        elif client_id in self._on_disk:
            self._keep(client_id, decode(self._path(client_id).read_bytes()))
        return self._memory.get(client_id, {})

    def put(self, client_id: int, state: State) -> None:
        """A client's new state; what is on disk of it is old now."""
        self._forget(client_id)
        self._on_disk.discard(client_id)
        self._keep(client_id, state)

    def close(self) -> None:
        """Remove what is on disk."""
        if self._folder:
            self._folder.cleanup()
            self._folder = None
        self._on_disk.clear()

    def _keep(self, client_id: int, state: State) -> None:
        self._memory[client_id] = state
        self.held += byte_count(state)
        while self.held > self.limit and len(self._memory) > 1:
            self._spill(next(iter(self._memory)))

    def _spill(self, client_id: int) -> None:
        """Out of memory; written only if the disk does not have it already."""
        if client_id not in self._on_disk:
            self._path(client_id).write_bytes(encode(self._memory[client_id]))
            self._on_disk.add(client_id)
        self._forget(client_id)

    def _forget(self, client_id: int) -> None:
        if client_id in self._memory:
            self.held -= byte_count(self._memory.pop(client_id))

    def _path(self, client_id: int) -> Path:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="motet-private-")
        return Path(self._folder.name) / f"{client_id}.safetensors"
