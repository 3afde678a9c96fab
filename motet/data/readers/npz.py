"""Reading .npz files: their arrays, or no more than type and shape; nothing is ever unpickled.

A file is looked at before it is read: an array's header, the size that the archive gives it and the memory that is
there must agree, or else a file of some kilobytes could ask for all of it.
"""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np

from motet.data.readers.raw import Array
from motet.errors import MotetError, shown
from motet.io.memory_limits import refuse_if_too_large
from motet.io.user_paths import regular_size, shown_path

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
_ENCRYPTED = 0x1
_BLOCK = 2**20


@dataclass(frozen=True)
class Header:
    """The header of an array: its type, its shape and its order."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool

    @property
    def bytes(self) -> int:
        """Return how many bytes all values take."""
        return prod(self.shape) * self.dtype.itemsize


def names_in(path: Path) -> list[str]:
    """Return the names of the fields of an .npz file."""
    try:
        regular_size(path, shown_path(path))
        with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
    except FileNotFoundError:
        raise MotetError(f"{path}: no such file; accepted: an .npz file or a folder of .npz files") from None
    except MotetError:
        raise
    except Exception as error:  # whatever zipfile has for a file that somebody else wrote
        raise MotetError(f"{path}: cannot be read as .npz ({_why(error)}); accepted: a complete .npz file") from error
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise MotetError(f"{path}: field {shown(twice)} is there more than once; accepted: each field once")
    return names


def read_array(path: Path, field: str) -> Array:
    """Return one field of an .npz file, read whole."""
    with _opened(path, field) as (file, header):
        refuse_if_too_large(2 * header.bytes, f"{path}: field {field!r}", "an array that fits twice")
        values = bytearray(header.bytes)
        at, view = 0, memoryview(values)
        while at < len(values) and (read := file.readinto(view[at : at + _BLOCK])):  # type: ignore[attr-defined]
            at += read
        if at < len(values) or file.read(1):  # whose end is where the checksum is looked at
            raise ValueError(f"{at} bytes for shape {header.shape}")
        array: Array = np.frombuffer(values, header.dtype)
        return array.reshape(header.shape[::-1]).transpose() if header.fortran else array.reshape(header.shape)


def peek(path: Path, field: str) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return the type and shape of a field without reading its values."""
    with _opened(path, field) as (_, header):
        return header.dtype, header.shape


@contextmanager
def _opened(path: Path, field: str) -> Iterator[tuple[IO[bytes], Header]]:
    """A field after its header, which fits the size that the archive gives."""
    try:
        regular_size(path, shown_path(path))
        with open(path, "rb") as raw, zipfile.ZipFile(raw) as archive:
            info = archive.getinfo(f"{field}.npy")
            if info.flag_bits & _ENCRYPTED:
                raise ValueError("it is encrypted")
            if info.compress_type not in _COMPRESSIONS:
                raise ValueError(f"it is compressed in way {info.compress_type}")
            with archive.open(info) as file:
                header = _header(file)
                if file.tell() + header.bytes != info.file_size:
                    raise ValueError(f"{info.file_size} bytes for shape {shown(header.shape)}")
                yield file, header
    except MotetError:
        raise
    except Exception as error:  # whatever zipfile, its ways of compression and NumPy's headers have
        raise MotetError(
            f"{path}: field {field!r} holds Python objects or is damaged ({_why(error)}); "
            f"accepted: an array of numbers, or of text as NumPy's str type"
        ) from error


def _header(file: IO[bytes]) -> Header:
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"format {version}")
    shape, fortran, dtype = _HEADERS[version](file)
    if dtype.hasobject:
        raise ValueError("Python objects")
    if any(side < 0 for side in shape) or len(shape) > 32:
        raise ValueError(f"shape {shown(shape)}")
    return Header(dtype, shape, fortran)


def _why(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return shown(lines[0])[1:-1] if lines else type(error).__name__
