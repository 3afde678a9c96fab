"""Reading .npz files: their arrays, or no more than type and shape; nothing is ever unpickled."""

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from motet.data.raw import Array
from motet.errors import MotetError

_READERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def names_in(path: Path) -> list[str]:
    """The fields of an .npz file."""
    try:
        with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist()]
    except FileNotFoundError:
        raise MotetError(f"{path}: no such file; accepted: an .npz file or a folder of .npz files") from None
    except (OSError, zipfile.BadZipFile) as error:
        raise MotetError(f"{path}: cannot be read as .npz ({error}); accepted: a complete .npz file") from error


def read_array(path: Path, field: str) -> Array:
    """One field, whole."""
    with _refusing(path, field), np.load(path, allow_pickle=False) as archive:
        array: Array = archive[field]
        return array


def peek(path: Path, field: str) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Type and shape of a field, without its content."""
    with _refusing(path, field), zipfile.ZipFile(path) as archive, archive.open(f"{field}.npy") as file:
        version = np.lib.format.read_magic(file)
        if version not in _READERS:
            raise ValueError(f"format {version}")
        shape, _, dtype = _READERS[version](file)
        if dtype.hasobject:
            raise ValueError("Python objects")
        return dtype, shape


@contextmanager
def _refusing(path: Path, field: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise MotetError(
            f"{path}: field {field!r} holds Python objects or is damaged ({error}); "
            f"accepted: an array of numbers, or of text as NumPy's str type"
        ) from error
