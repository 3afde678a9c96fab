"""What a site keeps on its own disk for one run, so that it survives any kill.

    DIR/site.json            the site's name, a salt, a secret, and a hash of its data
    DIR/consent.json         what it consented to
    DIR/begun.json           the experiment, and the site's number
    DIR/seen.json            the number of the last message, so that none is accepted twice
    DIR/promised.safetensors what transforms must not forget, whatever state the coordinator names
    DIR/states/SHA.safetensors   private states by their SHA-256; a file never changes
    DIR/final.json, final.safetensors   what the site's own model is made from
    DIR/node                 its number at the SuperLink
    DIR/lock                 held by the one process that works

A state is on disk before the reply that names it leaves. What no checkpoint of the coordinator needs is removed.
"""

import os
import re
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import Field, JsonValue

from motet.errors import MotetError
from motet.io.files import is_own_folder, make_folder, read_own, remove_temporaries, sync_folder, write_atomic
from motet.io.hashed_files import FileEntry, entry_of, write_entry
from motet.io.json_models import Count, FileModel, Number, Sha256, Text
from motet.io.locks import FolderLock
from motet.messages.message import State, decode, encode
from motet.sites.wire import RunId, StateHash

MOST_BYTES = 2**26
_STATE_FILE = re.compile(r"([0-9a-f]{64})\.safetensors")
SITE, CONSENT, BEGUN, SEEN = "site.json", "consent.json", "begun.json", "seen.json"
FINAL, FINAL_MESSAGE, NODE = "final.json", "final.safetensors", "node"
PROMISED = "promised.safetensors"


class SiteIdentity(FileModel):
    """site.json: who keeps its states here."""

    name: Text
    salt: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    secret: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """What its masks and its noise are made from; it never leaves."""
    data: Sha256 | None = None
    """The hash of the site's rows when it joined; they must not change during a run."""
    files: tuple[Text, Text] | None = None
    """Where its table and the schema were when it last joined."""


class Begun(FileModel):
    """begun.json: the experiment as it runs, and the place of this site in it."""

    run: RunId
    client: Count
    sites: Annotated[int, Field(gt=0, lt=2**20)]
    experiment: dict[str, JsonValue]


class Seen(FileModel):
    """seen.json: the number of the last message that was accepted."""

    serial: Count


class FinalWords(FileModel):
    """final.json: which state and message the site's own model is made from, and its figures."""

    round: Count
    base: StateHash
    member: Text
    """Of a family of personal models, the one that is reported; empty without a family."""
    figures: dict[Text, Number]
    message: Sha256 | None = None
    """The SHA-256 of final.safetensors; None on its way to the site."""


F = TypeVar("F", bound=FileModel)


class SiteDisk:
    """The folder of a site. Reading needs no lock; `locked` gives the right to write."""

    def __init__(self, folder: Path):
        self.folder, self.states = folder, folder / "states"
        self._lock: FolderLock | None = None

    def locked(self) -> "SiteDisk":
        """Make the folder if it is not there, and take it for this process; raise if another one has it."""
        if os.path.lexists(self.folder / "experiment.toml"):
            raise MotetError(f"--state is {self.folder}, the folder of a run; accepted: a folder of its own")
        is_own_folder(self.folder)
        make_folder(self.folder)
        os.chmod(self.folder, 0o700)
        is_own_folder(self.states)
        make_folder(self.states)
        try:
            self._lock = FolderLock(self.folder)
        except MotetError as error:
            raise MotetError(str(error).replace("run ", "--state ", 1)) from None
        for each in (self.folder, self.states):
            remove_temporaries(each)
        return self

    def release(self) -> None:
        """Let another process have the folder."""
        if self._lock is not None:
            self._lock.release()

    # ------------------------------------------------------------ small files

    def read(self, name: str, model: type[F]) -> F | None:
        """Return the content of a file, or None if it is not there; raise a `MotetError` if it is damaged."""
        path = self.folder / name
        try:
            return model.from_json(read_own(path, MOST_BYTES), str(path))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise MotetError(f"cannot read {path}: {error.strerror}") from error

    def write(self, name: str, content: FileModel) -> None:
        """Write a file, whole or not at all."""
        write_atomic(self.folder / name, content.to_json(indent=2))

    def identity(self, name: str) -> SiteIdentity:
        """Return who this folder belongs to, which from the first call on is this site; raise for another's."""
        found = self.read(SITE, SiteIdentity)
        if found is None:
            found = SiteIdentity(name=name, salt=secrets.token_hex(16), secret=secrets.token_hex(32))
            self.write(SITE, found)
        if found.name != name:
            raise MotetError(
                f"--state is {self.folder}, which belongs to {found.name!r}; accepted: --name {found.name}"
            )
        return found

    @property
    def node(self) -> int | None:
        """The number that this site last had at the SuperLink."""
        try:
            text = read_own(self.folder / NODE, 100).decode()
        except (OSError, ValueError):
            return None
        return int(text) if text.isdecimal() else None

    @node.setter
    def node(self, number: int) -> None:
        write_atomic(self.folder / NODE, str(number).encode())

    # ------------------------------------------------------------ private states

    def state(self, sha256: str) -> State:
        """Return the private state of this hash, an empty one for no hash; raise a `MotetError` if it is not here."""
        if not sha256:
            return {}
        path = self.states / f"{sha256}.safetensors"
        try:
            data = read_own(path)
        except OSError as error:
            raise MotetError(f"the private state {sha256[:12]} is not on the site's disk ({error.strerror})") from None
        if entry_of("state", data).sha256 != sha256:
            raise MotetError(f"the private state {sha256[:12]} on the site's disk is damaged")
        return decode(data)

    def keep(self, state: State) -> FileEntry | None:
        """Write a private state and return what a reply tells of it; None for an empty one. It is on disk then."""
        if not state:
            return None
        data = encode(state)
        sha256 = entry_of("state", data).sha256
        if not (self.states / f"{sha256}.safetensors").exists():
            write_entry(self.states, f"{sha256}.safetensors", data)
            sync_folder(self.states)
        return FileEntry(file=f"state-{sha256[:16]}-at-its-site", sha256=sha256, bytes=len(data))

    def forget_but(self, needed: Iterable[str]) -> None:
        """Remove the states that nobody needs any more."""
        kept = set(needed)
        for path in self.states.iterdir():
            found = _STATE_FILE.fullmatch(path.name)
            if found and found[1] not in kept:
                path.unlink(missing_ok=True)

    @property
    def promised(self) -> State:
        """What the transforms of replies must not forget; a state that is never taken back."""
        path = self.folder / PROMISED
        try:
            return decode(read_own(path, MOST_BYTES))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise MotetError(f"cannot read {path}: {error.strerror}") from error

    @promised.setter
    def promised(self, state: State) -> None:
        write_atomic(self.folder / PROMISED, encode(state))

    # ------------------------------------------------------------ the end

    def write_final(self, words: FinalWords, message: State) -> None:
        """Write what the site's own model is made from."""
        data = encode(message)
        write_atomic(self.folder / FINAL_MESSAGE, data)
        self.write(FINAL, words.model_copy(update={"message": entry_of("final", data).sha256}))

    def final(self) -> tuple[FinalWords, State] | None:
        """Return what `write_final` wrote, or None before the run ended; raise a `MotetError` if it is damaged."""
        words = self.read(FINAL, FinalWords)
        if words is None:
            return None
        path = self.folder / FINAL_MESSAGE
        try:
            data = read_own(path)
        except OSError as error:
            raise MotetError(f"cannot read {path}: {error.strerror}") from error
        if entry_of("final", data).sha256 != words.message:
            raise MotetError(f"{path} is damaged: its SHA-256 is another than final.json says")
        return words, decode(data)
