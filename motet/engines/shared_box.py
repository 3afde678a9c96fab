"""A box of shared memory between two processes: one writes, the other reads, and it grows when it must."""

import mmap
import os
import tempfile
from pathlib import Path

FOLDER = "/dev/shm" if os.path.isdir("/dev/shm") else None  # else the usual place for temporary files


class OutBox:
    """The writer's end. The reader is told the path whenever the box is a new one."""

    def __init__(self) -> None:
        self.path, self._memory = "", None  # type: str, mmap.mmap | None

    def write(self, *pieces: bytes) -> str | None:
        """Put the pieces one after the other; the path of the box if the reader has not been told it yet."""
        size, told = sum(map(len, pieces)), None
        if self._memory is None or len(self._memory) < size:
            told = self._grow(max(size, 2**16))
        assert self._memory is not None
        self._memory.seek(0)
        for piece in pieces:
            self._memory.write(piece)
        return told

    def _grow(self, size: int) -> str:
        self.close()
        handle, self.path = tempfile.mkstemp(prefix="motet-", dir=FOLDER)
        os.ftruncate(handle, size + size // 4)
        self._memory = mmap.mmap(handle, 0)
        os.close(handle)
        return self.path

    def close(self) -> None:
        """Give the memory back; the file is gone already if the reader has opened it."""
        if self._memory is not None:
            self._memory.close()
            Path(self.path).unlink(missing_ok=True)
            self._memory = None


class InBox:
    """The reader's end."""

    def __init__(self) -> None:
        self._memory: mmap.mmap | None = None

    def open(self, path: str) -> None:
        """Look at this box from now on. Its name is removed, so that nothing is left behind after any kill."""
        self.close()
        with open(path, "r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)
        os.unlink(path)

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
