"""Data that a Python user gives in memory: written to a file once, and known by a name made from their content.

The name is a hash of the content, so that the same data have the same name in every run. The file goes into the folder
of the run, which can then be resumed and served; without a folder it lives as long as the result.
"""

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from torch import Tensor
from torch.utils.data import Dataset

from motet.config.own_data import IN_MEMORY, IN_MEMORY_TABLE
from motet.data.readers.raw import Array
from motet.errors import MotetError, shown
from motet.io.files import kind_of_file, writing
from motet.io.memory_limits import refuse_if_too_large

_PREFIX = "motet-scratch-"
_locks: dict[Path, FileLock] = {}
"""The locks that this process holds on its folders; the system frees them when it ends, however it ends."""


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make an empty folder for this process, which is removed with the block."""
    folder = new_scratch_folder()
    try:
        yield folder
    finally:
        remove_scratch_folder(folder)


def new_scratch_folder() -> Path:
    """Return a new empty folder that only this user may read; those of killed processes are removed first."""
    for forsaken in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            _remove_if_forsaken(forsaken)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    lock = _lock_of(folder)
    if lock is not None:
        _locks[folder] = lock
    return folder


def remove_scratch_folder(folder: Path) -> None:
    """Remove a scratch folder with all that is in it, and its lock."""
    shutil.rmtree(folder, ignore_errors=True)
    lock = _locks.pop(folder, None)
    if lock is not None:
        _unlock(lock)


def _remove_if_forsaken(folder: Path) -> None:
    """Remove the folder of a process that was killed: it is not empty, as a new one is, and its lock is free."""
    found = folder.lstat()
    ours = not hasattr(os, "getuid") or found.st_uid == os.getuid()  # Windows has a folder for each user's own
    if not ours or not stat.S_ISDIR(found.st_mode) or not any(folder.iterdir()):
        return
    lock = _lock_of(folder)
    if lock is not None:
        shutil.rmtree(folder, ignore_errors=True)
        _unlock(lock)


def _lock_of(folder: Path) -> FileLock | None:
    """Take the lock of a folder, a file beside it, so that the folder itself stays empty; None if it is taken."""
    lock = FileLock(f"{folder}.lock", blocking=False, thread_local=False)
    try:
        lock.acquire()
    except (Timeout, OSError):
        return None
    return lock


def _unlock(lock: FileLock) -> None:
    with suppress(OSError):
        os.unlink(lock.lock_file)
    lock.release(force=True)


# -------- Data in memory


PREFIX = IN_MEMORY
ARRAYS, TABLE = "in-memory.npz", "in-memory.parquet"
ACCEPTED = (
    "a name of `motet list data`, a path, (x, y), a data frame or Arrow table with label=, or a torch Dataset of (x, y)"
)
_HASH_LENGTH = 16
_OBJECT = 100  # bytes that Python takes for a sample, besides its numbers

_places: dict[str, Path] = {}
"""Where the data of a name are, as far as this process knows."""


@dataclass(frozen=True)
class Handed:
    """Data that were handed over and are in a file now: the name they got, and the names of their fields."""

    name: str
    client: str | None
    domain: str | None


def is_in_memory(name: str) -> bool:
    """Return whether this is the name of data that were handed over in memory."""
    return name.startswith(PREFIX)


@contextmanager
def handed_over(data: Any, client: Any, domain: Any) -> Iterator[Handed]:
    """The data under a name, until the block ends or a run keeps them."""
    with scratch_folder() as folder:
        if _is_frame(data) or _is_arrow(data):
            names = (_column_name(client, "client"), _column_name(domain, "domain"))
            handed, path = Handed(_write_table(data, folder / TABLE), *names), folder / TABLE
        else:
            fields = _arrays(data) | _given(client=client, domain=domain)
            names = tuple(field if field in fields else None for field in ("client", "domain"))  # type: ignore[assignment]
            handed, path = Handed(_write_arrays(fields, folder / ARRAYS), *names), folder / ARRAYS
        _places[handed.name] = path
        yield handed


def keep(name: str, folder: Path) -> None:
    """Move what was handed over into the folder of a run, which then has all that it needs to go on."""
    place = _places.get(name)
    if place is not None and place.is_file():
        kept = folder / place.name
        with writing(kept):
            shutil.copyfile(place, kept)
            _sync(kept)
        _places[name] = kept


def look_in(name: str, folder: Path) -> None:
    """Remember the file of data that were handed over, if this run folder keeps one."""
    for file in (ARRAYS, TABLE) if is_in_memory(name) else ():
        if kind_of_file(folder / file) == "a file":
            _places[name] = folder / file


def place_of(name: str) -> Path:
    """Return the file that holds data that were handed over in memory."""
    place = _places.get(name)
    if place is None or not place.is_file():
        raise MotetError(
            f"data {shown(name)} were in the memory of the process that ran, and no copy is here; accepted: a run "
            f"folder with {ARRAYS} or {TABLE}, or motet.run with the data again"
        )
    return place


@contextmanager
def called_memory(path: Path) -> Iterator[None]:
    """Sentences about data that were handed over do not name their file, which is of no use to the user."""
    try:
        yield
    except MotetError as error:
        if path not in _places.values():
            raise
        raise MotetError(str(error).replace(str(path), "data in memory")) from error


def refuse_other(data: object) -> MotetError:
    """Raise a `MotetError` for an object that is no data in any accepted form."""
    return MotetError(f"data is {_described(data)} in memory; accepted: {ACCEPTED}")


def _sync(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())


# -------- Arrays


def _arrays(data: Any) -> dict[str, Array]:
    """Return the arrays x and y of a pair or a torch Dataset."""
    if isinstance(data, Mapping) and "x" in data:
        return {str(field): _array(str(field), value) for field, value in data.items()}
    if isinstance(data, tuple | list) and len(data) == 2:
        return {"x": _array("x", data[0]), "y": _array("y", data[1])}
    if isinstance(data, Dataset):
        return _of_dataset(data)
    raise refuse_other(data)


def _of_dataset(data: Any) -> dict[str, Array]:
    """Return every sample of a torch Dataset once, in order."""
    tensors = getattr(data, "tensors", None)
    if isinstance(tensors, tuple) and len(tensors) == 2:
        return {"x": _array("x", tensors[0]), "y": _array("y", tensors[1])}
    samples = _samples(data)
    if not samples or not all(isinstance(sample, tuple | list) and len(sample) == 2 for sample in samples):
        raise MotetError(f"data is a {type(data).__name__} of {len(samples)} samples; accepted: samples (x, y), some")
    try:
        x = np.stack([_array("x", x) for x, _ in samples])
    except ValueError:
        raise MotetError(
            f"data is a {type(data).__name__} whose samples x have several shapes; accepted: one shape"
        ) from None
    return {"x": x, "y": _array("y", [y.item() if isinstance(y, Tensor) else y for _, y in samples])}


def _samples(data: Any) -> list[Any]:
    """Return all samples in order; a Dataset that claims more than memory holds is refused after its first sample."""
    if not hasattr(data, "__len__"):
        return list(data)
    count = len(data)
    first = [data[0]] if count else []
    each = sum(_bytes(part) for part in first[0]) if first and isinstance(first[0], tuple | list) else 0
    refuse_if_too_large(
        count * (each + _OBJECT), f"data is a {type(data).__name__} of {count:,} samples, which", "fewer"
    )
    return first + [data[i] for i in range(1, count)]


def _bytes(part: Any) -> int:
    return int(part.nelement() * part.element_size()) if isinstance(part, Tensor) else int(getattr(part, "nbytes", 8))


def _given(**columns: Any) -> dict[str, Array]:
    for name, column in columns.items():
        if isinstance(column, str):
            raise MotetError(f"{name} is {shown(column)}, but data has no columns; accepted: one value per sample")
    return {name: _array(name, column) for name, column in columns.items() if column is not None}


def _array(field: str, values: Any) -> Array:
    try:
        array = values.numpy(force=True) if isinstance(values, Tensor) else np.asarray(values)
    except (TypeError, ValueError, OverflowError, NotImplementedError, RuntimeError):
        array = np.empty(0, object)  # rows of several lengths, numbers without end, a tensor that holds nothing
    if isinstance(values, Tensor) and array.dtype.hasobject:
        raise MotetError(f"data: {field} is {_described(values)} that NumPy cannot hold; accepted: a plain tensor")
    if array.dtype.hasobject and array.size and all(isinstance(value, str) for value in array.flat):
        array = array.astype(str)
    if array.dtype.hasobject:
        raise MotetError(f"data: {field} is {_described(values)} of mixed values; accepted: an array of one type")
    return array.astype(np.int64) if field != "x" and array.dtype.kind == "b" else array


def _write_arrays(fields: Mapping[str, Array], path: Path) -> str:
    digest = hashlib.sha256()
    for field, array in sorted(fields.items()):
        digest.update(f"{field} {array.dtype.str} {array.shape};".encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    with writing(path):
        np.savez(path, **fields)  # type: ignore[arg-type]
    return PREFIX + digest.hexdigest()[:_HASH_LENGTH]


# -------- Tables


def _is_frame(data: Any) -> bool:
    return hasattr(data, "iloc") and hasattr(data, "columns")


def _is_arrow(data: Any) -> bool:
    return hasattr(data, "to_pydict") and hasattr(data, "schema")


def _column_name(name: Any, role: str) -> str | None:
    if name is not None and not isinstance(name, str):
        raise MotetError(f"{role} is {_described(name)}, but data is a table; accepted: the name of a column")
    return name


def _write_table(data: Any, path: Path) -> str:
    from motet.data.readers.cells import pa, parquet

    try:
        if _is_frame(data):
            data = data.rename(columns=str)
            table = pa.Table.from_pandas(data, preserve_index=False)
        else:
            table = pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data
            table.validate(full=True)
        parquet.write_table(table.replace_schema_metadata(), path)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        why = (str(error).splitlines() or [""])[0]
        raise MotetError(
            f"data is a table with a column that cannot be stored ({shown(why)}); accepted: one type per column, whole "
            f"numbers of 64 bits, text in Unicode"
        ) from error
    return IN_MEMORY_TABLE + _hash_of(path)


def _hash_of(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:_HASH_LENGTH]


def _described(value: object) -> str:
    """Return what an object is, never what it holds: a table of patients is no part of a sentence."""
    shape = getattr(value, "shape", None)
    return f"a {type(value).__name__}" + (f" of shape {tuple(shape)}" if shape else "")
