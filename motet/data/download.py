"""The one way to fetch a file: it goes on where it stopped, is checked by SHA-256, and appears only when whole."""

import fcntl
import hashlib
import http.client
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import IO, Any

from motet.errors import MotetError

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
        with open(part, "ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # another process may be fetching the same file: let it finish
            found = sha256 if path.exists() else _fill(address, file, part, sha256)
            if found != sha256:
                raise MotetError(f"{what}: {address} has SHA-256 {found}; accepted: {sha256}")
            if not path.exists():
                os.fsync(file.fileno())
                os.replace(part, path)
    except (OSError, http.client.HTTPException) as error:
        raise MotetError(f"{what}: {address} could not be fetched to {path.parent} ({error})") from error
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
    """Append what the file does not have yet."""
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
