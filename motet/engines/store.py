"""Private client states: the most recently used in memory, up to a limit; the others on disk."""

import tempfile
from collections import OrderedDict
from typing import IO

from motet.errors import MotetError
from motet.message import State, byte_count, decode, encode

LIMIT = 256 * 2**20  # bytes of states that stay in memory


class PrivateStore:
    """One state per client. A state that was never put is empty."""

    def __init__(self, limit: int = LIMIT):
        self.limit, self.held = limit, 0
        self._memory: OrderedDict[int, State] = OrderedDict()
        self._file: IO[bytes] | None = None  # without a name: it ends with the process, however that ends
        self._end = 0
        self._slots: dict[int, tuple[int, int]] = {}  # where in the file a client's bytes may go: start, capacity
        self._on_disk: dict[int, int] = {}  # clients whose slot holds their state, and its length

    def get(self, client_id: int) -> State:
        """A client's state; its tensors are shared with the store, so replace them, never change them."""
        if client_id in self._memory:
            self._memory.move_to_end(client_id)
        elif client_id in self._on_disk:
            self._keep(client_id, decode(self._read(client_id)))
        return self._memory.get(client_id, {})

    def put(self, client_id: int, state: State) -> None:
        """A client's new state; what is on disk of it is old now."""
        self._forget(client_id)
        self._on_disk.pop(client_id, None)
        self._keep(client_id, state)

    def close(self) -> None:
        """Remove what is on disk."""
        if self._file:
            self._file.close()
        self._file, self._end = None, 0
        self._slots.clear()
        self._on_disk.clear()

    def _keep(self, client_id: int, state: State) -> None:
        self._memory[client_id] = state
        self.held += byte_count(state)
        while self.held > self.limit and len(self._memory) > 1:
            self._spill(next(iter(self._memory)))

    def _spill(self, client_id: int) -> None:
        """Out of memory; written only if the disk does not have it already."""
        if client_id not in self._on_disk:
            self._write(client_id, encode(self._memory[client_id]))
        self._forget(client_id)

    def _forget(self, client_id: int) -> None:
        if client_id in self._memory:
            self.held -= byte_count(self._memory.pop(client_id))

    def _write(self, client_id: int, data: bytes) -> None:
        start, capacity = self._slots.get(client_id, (0, 0))
        if capacity < len(data):
            start, self._end = self._end, self._end + len(data)
            self._slots[client_id] = start, len(data)
        try:
            self._file = self._file or tempfile.TemporaryFile()  # noqa: SIM115  `close` does
            self._file.seek(start)
            self._file.write(data)
            self._file.flush()
        except OSError as error:
            raise MotetError(
                f"cannot keep private states in {tempfile.gettempdir()}: {error.strerror}; "
                f"accepted: a TMPDIR with room for the states of all clients"
            ) from error
        self._on_disk[client_id] = len(data)

    def _read(self, client_id: int) -> bytes:
        assert self._file is not None
        self._file.seek(self._slots[client_id][0])
        return self._file.read(self._on_disk[client_id])
