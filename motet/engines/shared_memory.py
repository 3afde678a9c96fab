"""A box of shared memory between two processes: one writes, the other reads, and it grows when it must."""

import mmap
import os
import tempfile
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import IO

from motet.errors import MotetError
from motet.messages.message import Piece

FOLDERS = ("/dev/shm", tempfile.gettempdir())  # memory, or where a container has little of it, a mapped file
LEAST = 2**16


class OutBox:
    """The writer's end. It has no name in any folder, so that nothing is left behind after any kill."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._memory: mmap.mmap | None = None

    def write(self, *pieces: Piece) -> bool:
        """Put the pieces one after the other; whether the box is a new one, to be handed over."""
        size = sum(map(len, pieces))
        is_new = self._memory is None or len(self._memory) < size
        if is_new:
            self._grow(max(size + size // 4, LEAST))
        assert self._memory is not None
        self._memory.seek(0)
        for piece in pieces:
            self._memory.write(piece)
        return is_new

    def hand_over(self, connection: Connection, reader: int) -> None:
        """Give the reading process its end."""
        assert self._file is not None
        send_handle(connection, self._file.fileno(), reader)

    def _grow(self, size: int) -> None:
        self.close()
        reasons = []
        for folder in FOLDERS:
            try:
                self._file = _file_of(size, folder)
            except OSError as error:
                reasons.append(f"{folder}: {error.strerror}")
                continue
            self._memory = mmap.mmap(self._file.fileno(), size)
            return
        raise MotetError(
            f"no shared memory of {size} bytes for a message ({'; '.join(reasons)}); "
            f"accepted: more room there, or engine.name=inline"
        )

    def close(self) -> None:
        """Give the memory back."""
        if self._memory is not None:
            self._memory.close()
        if self._file is not None:
            self._file.close()
        self._memory = self._file = None


class InBox:
    """The reader's end."""

    def __init__(self) -> None:
        self._memory: mmap.mmap | None = None

    def receive(self, connection: Connection) -> None:
        """Take over the end of a new box; the one before is not looked at again."""
        self.close()
        handle = recv_handle(connection)
        self._memory = mmap.mmap(handle, 0)
        os.close(handle)

    def read(self, *sizes: int) -> list[bytes]:
        """The pieces of these sizes, one after the other."""
        assert self._memory is not None
        self._memory.seek(0)
        return [self._memory.read(size) for size in sizes]

    def close(self) -> None:
        """Give the memory back."""
        if self._memory is not None:
            self._memory.close()
            self._memory = None


def _file_of(size: int, folder: str) -> IO[bytes]:
    """A nameless file whose room is really there: writing to a mapping beyond it would kill the process."""
    file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  the box closes it
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        else:
            os.ftruncate(file.fileno(), size)
    except OSError:
        file.close()
        raise
    return file
