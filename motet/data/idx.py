"""The IDX files of MNIST and its successors: a magic number, the sizes, the bytes; each file gzipped."""

import gzip
import struct
import zlib
from math import prod
from pathlib import Path

import numpy as np
import numpy.typing as npt

from motet.errors import MotetError
from motet.inspect_files import regular_size

MOST_BYTES = 10**9  # unpacked; Fashion-MNIST has 47 million


def read_idx(path: Path, dimensions: int) -> npt.NDArray[np.uint8]:
    """The unsigned bytes of a gzipped IDX file with that many dimensions."""
    try:
        regular_size(path, str(path))
        with gzip.open(path) as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise MotetError(f"{path}: cannot be read ({error}); accepted: a complete .gz file") from error
    header = 4 + 4 * dimensions
    magic = 0x0800 + dimensions
    found = int.from_bytes(data[:4], "big")
    if len(data) < header or found != magic:
        raise MotetError(f"{path}: not an IDX file of {dimensions} dimensions (magic {found:#x}); accepted: {magic:#x}")
    shape = struct.unpack_from(f">{dimensions}I", data, 4)
    expected = header + prod(shape)
    if len(data) != expected:
        raise MotetError(f"{path}: holds {len(data)} bytes for shape {shape}; accepted: {expected} bytes")
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape)
