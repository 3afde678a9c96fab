"""Shared memory from one process to another: `OutBox` is the writer's end, `InBox` the reader's; it grows on demand."""

import mmap
import os
import tempfile
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import IO

from motet.errors import MotetError
from motet.messages.message import Piece

FOLDERS = ("/dev/shm", tempfile.gettempdir())  # memory, or a mapped file where a container has little of it
LEAST = 2**16  # bytes


class OutBox:
    """The writer's end. Its file has no name in any folder, so that nothing is left behind after a kill."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._memory: mmap.mmap | None = None

    def write(self, *pieces: Piece) -> bool:
        """Write the pieces one after the other; return True if the memory is new, so that `hand_over` must follow."""
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
        """Send the file descriptor of new memory to the reading process."""
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
        """Release the memory."""
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
        """Receive the file descriptor that `hand_over` sent, and map its memory in place of the old."""
        self.close()
        handle = recv_handle(connection)
        self._memory = mmap.mmap(handle, 0)
        os.close(handle)

    def read(self, *sizes: int) -> list[bytes]:
        """Return copies of the pieces, which have these sizes and lie one after the other."""
        assert self._memory is not None
        self._memory.seek(0)
        return [self._memory.read(size) for size in sizes]

    def close(self) -> None:
        """Release the memory."""
        if self._memory is not None:
            self._memory.close()
            self._memory = None


def _file_of(size: int, folder: str) -> IO[bytes]:
    """Return a nameless file with its space allocated: writing to a mapping beyond it would kill the process."""
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
