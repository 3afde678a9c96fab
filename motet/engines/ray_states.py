"""Private states of which large ones stay in the cluster, in the object store of the node that made them.

Only references travel then. A checkpoint fetches what changed since the one before, one state at a time. What a node
takes with it is read from the newest checkpoint; if it changed since, the run goes back to that checkpoint.
"""

from pathlib import Path
from typing import Any

import numpy as np

from motet.engines.client_states import ClientStates
from motet.engines.engine import LostStates
from motet.engines.ray_actor import bytes_of
from motet.io.hashed_files import ClientFiles, FileEntry
from motet.messages.message import State, decode, decoded

PATIENCE = 60.0  # seconds until a state that does not come counts as lost


class ClusterStates(ClientStates):
    """The private states of all clients: those of more than `most` bytes in the cluster, the others with the driver."""

    def __init__(self, ray: Any, folder: Path | None, most: float):
        super().__init__(folder)
        self.ray, self.most = ray, most
        self._references: dict[int, Any] = {}
        self._on_shelf: dict[int, FileEntry] = {}  # large states of a checkpoint that no task has needed yet

    def argument(self, client_id: int) -> Any:
        """Return a client's state as an argument of a task: a reference, an array, or None for an empty state."""
        if client_id in self._on_shelf:
            data = np.frombuffer(self.shelf.read(self._on_shelf.pop(client_id)), dtype=np.uint8)
            self._references[client_id] = self.ray.put(data)
        if client_id in self._references:
            return self._references[client_id]
        state = self.store.get(client_id)
        return bytes_of(state) if state else None

    def get(self, client_id: int) -> State:
        """Return a client's state, from wherever it is."""
        if client_id in self._references or client_id in self._on_shelf:
            return decode(self.encoded(client_id))
        return super().get(client_id)

    def encoded(self, client_id: int) -> bytes:
        """Return a client's state as a checkpoint has it; raise `LostStates` if it went with a node."""
        if client_id in self._references:
            try:
                data: bytes = self.ray.get(self._references[client_id], timeout=PATIENCE).tobytes()
                return data
            except self.ray.exceptions.RayError as error:
                self.fetch_again(client_id, error)
        if client_id in self._on_shelf:
            return self.shelf.read(self._on_shelf[client_id])
        return super().encoded(client_id)

    def put(self, client_id: int, state: State) -> None:
        """Store a client's new state with the driver."""
        self._forget(client_id)
        super().put(client_id, state)

    def put_reference(self, client_id: int, reference: Any) -> None:
        """Take note of a client's new state, which stays in the cluster."""
        self.put(client_id, {})
        self._references[client_id] = reference

    def put_back(self, client_id: int, entry: FileEntry, data: bytes) -> None:
        """Take a state from a checkpoint; a large one is only checked, and read again when a task needs it."""
        if len(data) <= self.most:
            super().put_back(client_id, entry, data)
        else:
            decoded(entry, data)
            self._on_shelf[client_id] = entry

    def go_back(self, entries: ClientFiles) -> None:
        """Replace all states by those of a checkpoint; raise `Damaged` if one of them cannot be read."""
        self._references.clear()
        self._on_shelf.clear()
        super().go_back(entries)

    def find_lost(self, client_ids: list[int]) -> None:
        """Look for states of these clients that went with a node, and take them from the newest checkpoint.

        Raise `LostStates` if one of them changed since.
        """
        for client_id in client_ids:
            if client_id in self._references:
                try:
                    self.ray.get(self._references[client_id], timeout=PATIENCE)
                except self.ray.exceptions.RayError as error:
                    self.fetch_again(client_id, error)

    def fetch_again(self, client_id: int, error: Exception) -> None:
        """Take a lost state from the newest checkpoint; raise `LostStates` if it changed since."""
        if client_id in self._changed or client_id not in self._entries:
            raise LostStates(
                f"the private state of client {client_id} was lost with a node of the cluster "
                f"({type(error).__name__}), and no checkpoint has it yet"
            ) from error
        self._forget(client_id)
        self._on_shelf[client_id] = self._entries[client_id]

    def _forget(self, client_id: int) -> None:
        self._references.pop(client_id, None)
        self._on_shelf.pop(client_id, None)

    def close(self) -> None:
        """Let go of all states; files of checkpoints stay."""
        self._references.clear()
        self._on_shelf.clear()
        super().close()
