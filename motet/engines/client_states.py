"""The private states of clients on this machine: in memory while a run works, and in files for its checkpoints.

    client-00005-000011.safetensors    the state of client 5 after round 11; the file never changes

A checkpoint writes only the states that changed since the one before. The files of the two newest checkpoints are kept.
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

LIMIT = 256 * 2**20  # bytes of states that stay in memory


class PrivateStore:
    """One state per client, in memory up to `limit` bytes and beyond that in a temporary file; empty until put."""

    def __init__(self, limit: int = LIMIT):
        self.limit, self.held = limit, 0
        self._memory: OrderedDict[int, State] = OrderedDict()
        self._file: IO[bytes] | None = None  # has no name, so that it is gone with the process even after a kill
        self._end = 0
        self._slots: dict[int, tuple[int, int]] = {}  # the place of each client in the file: start, capacity
        self._on_disk: dict[int, int] = {}  # length of the state, for clients whose slot is up to date

    def get(self, client_id: int) -> State:
        """Return a client's state. Its tensors are shared with the store: replace them, never change them in place."""
        if client_id in self._memory:
            self._memory.move_to_end(client_id)
        elif client_id in self._on_disk:
            self._keep(client_id, decode(self._read(client_id)))
        return self._memory.get(client_id, {})

    def put(self, client_id: int, state: State) -> None:
        """Store a client's new state; what the file holds of it is outdated then."""
        self._forget(client_id)
        self._on_disk.pop(client_id, None)
        self._keep(client_id, state)

    def close(self) -> None:
        """Delete the temporary file."""
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
        """Move a state from memory to the file; write it only if the file does not have it already."""
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


# -------- States of checkpoints


_FILE = re.compile(r"client-(-?[0-9]{4,12})-[0-9]{6,12}\.safetensors")  # the pooled client is number -1


class StateShelf(Protocol):
    """A place that stores the states of checkpoints as named files."""

    def write(self, name: str, data: bytes) -> FileEntry:
        """Store the bytes under this name and return the entry that finds them again."""

    def settle(self) -> None:
        """Make everything written so far survive a crash."""

    def read(self, entry: FileEntry) -> bytes:
        """Return the bytes of an entry; raise `Damaged` if they are missing or not the ones that were written."""

    def remove(self, name: str) -> None:
        """Delete a file; do nothing if it is not there."""

    def names(self) -> list[str]:
        """Return the names of all stored files."""


class FolderShelf:
    """Stores states as files in the checkpoint folder of a run."""

    def __init__(self, path: Path):
        self.path = path

    def write(self, name: str, data: bytes) -> FileEntry:
        """Write a file and return its entry; after the next `settle` it survives a crash."""
        if not is_own_folder(self.path):
            make_folder(self.path)
        return write_entry(self.path, name, data)

    def settle(self) -> None:
        """Sync the folder, so that the names of the files written so far survive a crash too."""
        if self.path.is_dir():
            sync_folder(self.path)

    def read(self, entry: FileEntry) -> bytes:
        """Return the bytes of a file; raise `Damaged` for a name that is no client's or a wrong SHA-256."""
        if not _FILE.fullmatch(entry.file):
            raise Damaged(f"the entry of a client names the file {entry.file[:100]!r}")
        return read_entry(self.path, entry)

    def remove(self, name: str) -> None:
        """Delete a file; do nothing if it cannot be deleted."""
        with suppress(OSError):
            (self.path / name).unlink()

    def names(self) -> list[str]:
        """Return the names of all files of clients in the folder."""
        return [path.name for path in self.path.iterdir() if _FILE.fullmatch(path.name)] if self.path.is_dir() else []


class MemoryShelf:
    """Stores states in memory, for an engine without a folder; they last as long as the process."""

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}

    def write(self, name: str, data: bytes) -> FileEntry:
        """Store the bytes in memory and return their entry."""
        self.data[name] = data
        return entry_of(name, data)

    def settle(self) -> None:
        """Do nothing: memory does not survive a crash."""

    def read(self, entry: FileEntry) -> bytes:
        """Return the bytes of an entry; raise `Damaged` if they are not there."""
        if entry.file not in self.data:
            raise Damaged(f"{entry.file} is not there")
        return intact(entry, self.data[entry.file])

    def remove(self, name: str) -> None:
        """Delete the bytes of this name, if there are any."""
        self.data.pop(name, None)

    def names(self) -> list[str]:
        """Return all names."""
        return list(self.data)


class ClientStates:
    """The private states of all clients, with their checkpoints. A state that was never put is empty."""

    def __init__(self, folder: Path | None = None):
        self.store = PrivateStore()
        self.shelf: StateShelf = FolderShelf(folder) if folder else MemoryShelf()
        self._changed: set[int] = set()  # clients whose state changed since the last checkpoint
        self._entries: ClientFiles = {}  # files of the last checkpoint
        self._next: ClientFiles = {}  # files of the checkpoint that is being written
        self._outdated: list[str] | None = None  # files that only the one before needs; None: not listed yet

    def get(self, client_id: int) -> State:
        """Return a client's state. Its tensors are shared: replace them, never change them in place."""
        return self.store.get(client_id)

    def put(self, client_id: int, state: State) -> None:
        """Store a client's new state."""
        self.store.put(client_id, state)
        self._changed.add(client_id)

    def encoded(self, client_id: int) -> bytes:
        """Return a client's state as a checkpoint has it; no bytes for an empty one."""
        state = self.get(client_id)
        return encode(state) if state else b""

    def keep(self, round: int) -> ClientFiles:
        """Write the states that changed since the last checkpoint, and return the entries of all clients."""
        self._next = dict(self._entries)
        for client_id in sorted(self._changed):
            self._next.pop(client_id, None)  # an emptied state must not come back after a resume
            if data := self.encoded(client_id):
                self._next[client_id] = self.shelf.write(f"client-{client_id:05d}-{round:06d}.safetensors", data)
        self.shelf.settle()
        return self._next

    def kept(self, also: ClientFiles | None = None) -> None:
        """Note that the checkpoint is complete; delete files that neither it nor the one before needs, nor `also`."""
        now, before = _names(self._next), _names(self._entries)
        if self._outdated is None or also is not None:  # the first time: everything that earlier processes left
            needed = now | before | _names(also or {})
            self._outdated = [name for name in self.shelf.names() if name not in needed]
        for name in self._outdated:
            self.shelf.remove(name)
        self._outdated = sorted(before - now)
        self._entries = self._next
        self._changed.clear()

    def go_back(self, entries: ClientFiles) -> None:
        """Replace all states by those of a checkpoint; raise `Damaged` if one of them cannot be read."""
        self.store.close()
        self.store = PrivateStore()
        for client_id, entry in sorted(entries.items()):
            self.put_back(client_id, entry, self.shelf.read(entry))
        self._entries, self._outdated = dict(entries), None
        self._changed.clear()

    def put_back(self, client_id: int, entry: FileEntry, data: bytes) -> None:
        """Take a state from a checkpoint; raise `Damaged` if its bytes are no state."""
        self.store.put(client_id, decoded(entry, data))

    def close(self) -> None:
        """Delete the temporary file of the store; files of checkpoints stay."""
        self.store.close()


class WithStates(Engine):
    """An engine whose clients' private states are all on this machine."""

    def __init__(self, folder: Path | None = None):
        """Keep the states of checkpoints in `folder`, or in memory without one."""
        self.states: ClientStates = ClientStates(folder)

    def keep(self, round: int) -> ClientFiles:
        return self.states.keep(round)

    def kept(self, round: int, also: ClientFiles | None = None) -> None:
        self.states.kept(also)

    def go_back(self, round: int, entries: ClientFiles) -> None:
        self.states.go_back(entries)

    def private(self, client_id: int) -> State:
        return self.states.get(client_id)

    def close(self) -> None:
        """Delete temporary files; files of checkpoints stay."""
        self.states.close()


def _names(entries: ClientFiles) -> set[str]:
    return {entry.file for entry in entries.values()}
