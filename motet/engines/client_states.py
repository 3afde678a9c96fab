"""Clients' private states on this machine: in use, and kept for checkpoints.

    client-00005-000011.safetensors    client 5 as it was when round 11 was kept; the file never changes

A client's file is written when its state changed. Those of the two newest checkpoints stay.
"""

import re
import tempfile
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import IO, Protocol

from motet.engines.engine import Engine
from motet.errors import MotetError
from motet.io.files import is_own_folder, make_folder, sync_folder
from motet.io.hashed_files import ClientFiles, Damaged, FileEntry, entry_of, intact, read_entry, write_entry
from motet.messages.message import State, byte_count, decode, decoded, encode

# -------- Private client states


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


# -------- Clients' private states on this machine


_FILE = re.compile(r"client-(-?[0-9]{4,12})-[0-9]{6,12}\.safetensors")  # the pooled client is number -1


class StateShelf(Protocol):
    """Where the bytes of kept states are."""

    def write(self, name: str, data: bytes) -> FileEntry:
        """Put one there."""

    def settle(self) -> None:
        """All that was written stays, whatever happens now."""

    def read(self, entry: FileEntry) -> bytes:
        """Get one back, or say that it is damaged."""

    def remove(self, name: str) -> None:
        """One is not needed any more."""

    def names(self) -> list[str]:
        """All that are there."""


class FolderShelf:
    """Files of a run's checkpoint folder."""

    def __init__(self, path: Path):
        self.path = path

    def write(self, name: str, data: bytes) -> FileEntry:
        """On disk with the next `settle`."""
        if not is_own_folder(self.path):
            make_folder(self.path)
        return write_entry(self.path, name, data)

    def settle(self) -> None:
        """The names are on disk too."""
        if self.path.is_dir():
            sync_folder(self.path)

    def read(self, entry: FileEntry) -> bytes:
        """The bytes of a file that is whole; its name is one that `write` was given."""
        if not _FILE.fullmatch(entry.file):
            raise Damaged(f"the entry of a client names the file {entry.file[:100]!r}")
        return read_entry(self.path, entry)

    def remove(self, name: str) -> None:
        """If it is still there."""
        with suppress(OSError):
            (self.path / name).unlink()

    def names(self) -> list[str]:
        """The clients' files."""
        return [path.name for path in self.path.iterdir() if _FILE.fullmatch(path.name)] if self.path.is_dir() else []


class MemoryShelf:
    """For an engine that was given no folder: what is kept lasts as long as the process."""

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}

    def write(self, name: str, data: bytes) -> FileEntry:
        """Into memory."""
        self.data[name] = data
        return entry_of(name, data)

    def settle(self) -> None:
        """Nothing to do."""

    def read(self, entry: FileEntry) -> bytes:
        """From memory."""
        if entry.file not in self.data:
            raise Damaged(f"{entry.file} is not there")
        return intact(entry, self.data[entry.file])

    def remove(self, name: str) -> None:
        """From memory."""
        self.data.pop(name, None)

    def names(self) -> list[str]:
        """The clients' states."""
        return list(self.data)


class ClientStates:
    """The private states of all clients. A state that was never put is empty, and an empty one is not kept."""

    def __init__(self, folder: Path | None = None):
        self.store = PrivateStore()
        self.shelf: StateShelf = FolderShelf(folder) if folder else MemoryShelf()
        self._changed: set[int] = set()  # since the last checkpoint
        self._entries: ClientFiles = {}  # of the last checkpoint
        self._next: ClientFiles = {}  # of the one that is being made
        self._outdated: list[str] | None = None  # what only its predecessor needs; None: nobody has looked yet

    def get(self, client_id: int) -> State:
        """A client's state; its tensors are shared, so replace them, never change them."""
        return self.store.get(client_id)

    def put(self, client_id: int, state: State) -> None:
        """A client's new state."""
        self.store.put(client_id, state)
        self._changed.add(client_id)

    def keep(self, round: int) -> ClientFiles:
        """Write the states that changed, one at a time; the entries of all clients."""
        self._next = dict(self._entries)
        for client_id in sorted(self._changed):
            self._next.pop(client_id, None)  # of a client that emptied its state, nothing is left to come back
            if state := self.store.get(client_id):
                self._next[client_id] = self.shelf.write(
                    f"client-{client_id:05d}-{round:06d}.safetensors", encode(state)
                )
        self.shelf.settle()
        return self._next

    def kept(self) -> None:
        """Keep what this checkpoint and its predecessor need."""
        now, before = _names(self._next), _names(self._entries)
        if self._outdated is None:  # the first time, whatever earlier processes left
            self._outdated = [name for name in self.shelf.names() if name not in now | before]
        for name in self._outdated:
            self.shelf.remove(name)
        self._outdated = sorted(before - now)
        self._entries = self._next
        self._changed.clear()

    def go_back(self, entries: ClientFiles) -> None:
        """The states of a checkpoint and no others; each is read once, and none is held that does not fit."""
        self.store.close()
        self.store = PrivateStore()
        for client_id, entry in sorted(entries.items()):
            self.store.put(client_id, decoded(entry, self.shelf.read(entry)))
        self._entries, self._outdated = dict(entries), None
        self._changed.clear()

    def close(self) -> None:
        """Remove what the store wrote to disk for itself."""
        self.store.close()


class WithStates(Engine):
    """An engine whose clients' private states are all on this machine."""

    def __init__(self, folder: Path | None = None):
        """States are kept in this folder, or without one in memory."""
        self.states = ClientStates(folder)

    def keep(self, round: int) -> ClientFiles:
        return self.states.keep(round)

    def kept(self, round: int) -> None:
        self.states.kept()

    def go_back(self, round: int, entries: ClientFiles) -> None:
        self.states.go_back(entries)

    def private(self, client_id: int) -> State:
        return self.states.get(client_id)

    def close(self) -> None:
        """Remove what states took on disk beside the checkpoints."""
        self.states.close()


def _names(entries: ClientFiles) -> set[str]:
    return {entry.file for entry in entries.values()}
