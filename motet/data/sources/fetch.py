"""Finding the files of a data set on this machine, and downloading them: checked by SHA-256, resumed after a break."""

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from filelock import FileLock

from motet.config.data_section import READING, DataSettings
from motet.data.locations import cache_folder, places
from motet.data.sources.source import Form, Source
from motet.errors import MotetError, shown, unknown
from motet.io.user_paths import user_path

TIMEOUT = 60  # seconds without a byte
_BLOCK = 2**20
_RANGE_NOT_SATISFIABLE = 416


def fetch(address: str, path: Path, sha256: str, what: str) -> None:
    """Have the file of this address and SHA-256 at that path; `what` says in errors what it is for.

    What came before a break stays beside it as PATH.part, and the next call goes on there.
    """
    if path.exists():
        return
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _alone(path):
            if not path.exists():  # nor fetched by another process in the meantime
                _fetch_part(address, part, sha256, what)
                os.replace(part, path)
    except (OSError, http.client.HTTPException) as error:
        raise MotetError(f"{what}: {address} could not be fetched to {path.parent} ({error})") from error


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Wait until no other process fetches the same file; the lock is a file beside it, which goes with the block."""
    with FileLock(path.with_name(path.name + ".lock"), thread_local=False) as lock:
        try:
            yield
        finally:
            with suppress(OSError):  # who waits for it takes a new one, for filelock looks whether it still exists
                os.unlink(lock.lock_file)


def _fetch_part(address: str, part: Path, sha256: str, what: str) -> None:
    """Have the whole file at `part`, or what came of it; an empty one is not left behind."""
    try:
        with open(part, "ab") as file:
            found = _fill(address, file, part, sha256)
            if found != sha256:
                raise MotetError(f"{what}: {address} has SHA-256 {found}; accepted: {sha256}")
            os.fsync(file.fileno())
    finally:
        if part.exists() and not part.stat().st_size:
            part.unlink(missing_ok=True)


def _fill(address: str, file: IO[bytes], part: Path, sha256: str) -> str:
    """Receive what is missing and return the hash of all; a part that turns out to be of another file is dropped."""
    resumes = _size(file) > 0
    _receive(address, file)
    found = _sha256(part)
    if found != sha256:
        file.truncate(0)
        if resumes:
            return _fill(address, file, part, sha256)
    return found


def _receive(address: str, file: IO[bytes]) -> None:
    """Append the bytes that the file does not have yet."""
    begun = _size(file)
    request = urllib.request.Request(address, headers={"Range": f"bytes={begun}-"} if begun else {})
    try:
        answer = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if begun and error.code == _RANGE_NOT_SATISFIABLE:  # nothing is missing, or it is another file: the hash tells
            return
        raise
    with answer:
        if begun and answer.status != http.client.PARTIAL_CONTENT:  # the whole file again
            file.truncate(0)
        expected = answer.headers.get("Content-Length")
        received = _copy(answer, file)
    if expected is not None and received < int(expected):
        raise OSError(f"the connection ended after {received} of {expected} bytes; asked again, it goes on there")


def _copy(answer: Any, file: IO[bytes]) -> int:
    received = 0
    while block := answer.read(_BLOCK):
        file.write(block)
        received += len(block)
    file.flush()
    return received


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _size(file: IO[bytes]) -> int:
    return os.fstat(file.fileno()).st_size


# -------- Data sets by name


@dataclass(frozen=True)
class Found:
    """A data set on this machine: in which form, and its files."""

    form: Form
    paths: tuple[Path, ...]

    @property
    def place(self) -> Path:
        """Return the path to show for it: the one file, or the folder of several."""
        return self.paths[0] if len(self.paths) == 1 else self.paths[0].parent


def find(source: Source, first: str = "") -> Found | None:
    """The data set in the first place that holds it whole, in the first of its forms."""
    for place in places(first):
        for folder in (place, *(place / name for name in (source.name, *source.folders))):
            for form in source.forms:
                if form.own_folder and folder == place:
                    continue
                if paths := _present(folder, form.files):
                    return Found(form, paths)
    return None


def get(source: Source, folder: Path | None = None, say: Callable[[str], None] | None = None) -> list[Path]:
    """Fetch its files, checked, into the folder or else the cache; those that are there already are left alone.

    `say` is told what is fetched before it is, which may take long.
    """
    if not source.downloads:
        raise MotetError(
            f"data {source.name!r} is not fetched, for no SHA-256 of its official file is known; accepted: "
            f"{_by_hand(source)}"
        )
    target = (folder or cache_folder()) / source.name
    paths = [target / download.file for download in source.downloads]
    for download, path in zip(source.downloads, paths, strict=True):
        if say and not path.exists():
            say(f"fetching {download.address}")
        fetch(download.address, path, download.sha256, f"data {source.name!r}")
    return paths


def absent(source: Source) -> MotetError:
    """The sentence about a data set that is nowhere: what to put where, or how to have it fetched."""
    ways = [f"Debian's package {source.package}"] if source.package else []
    if source.downloads:
        ways.append(f"`motet data get {source.name}` or download = true")
    accepted = ", ".join([_by_hand(source), *ways])
    return MotetError(f"data {source.name!r} is not on this machine; accepted: {accepted}")


def check_fields(settings: DataSettings, obeys: Sequence[str], variants: Sequence[str] = ()) -> None:
    """Refuse a choice that these data would not obey, and a version that they do not have."""
    for field in READING:
        value, usual = getattr(settings, field), DataSettings.model_fields[field].default
        if value != usual and field not in obeys:
            raise MotetError(
                f"data.{field} is {shown(value)}, but data {shown(settings.name)} has no such choice; accepted: none"
            )
    if settings.variant and settings.variant not in variants:
        raise unknown(f"data.variant of {settings.name}", settings.variant, variants)


def target_folder(text: str) -> Path | None:
    """Return the folder that the user names for downloads, or None."""
    return user_path(text, "data.dir") if text else None


def _by_hand(source: Source) -> str:
    forms = " or ".join(dict.fromkeys(map(str, source.forms)))
    where = f" (from {source.where})" if source.where else ""
    return f"{forms}{where} in a folder that --data-dir or MOTET_DATA names or in {cache_folder() / source.name}"


def _present(folder: Path, patterns: Sequence[str]) -> tuple[Path, ...]:
    """The paths of all patterns in their order, or none at all."""
    found: list[Path] = []
    for pattern in patterns:
        try:
            matches = sorted(folder.glob(pattern)) if "*" in pattern else [folder / pattern]
            matches = [path for path in matches if path.exists()]
        except OSError:  # a folder that may not be looked into
            return ()
        if not matches:
            return ()
        found += matches
    return tuple(found)
