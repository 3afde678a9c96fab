"""Checkpoints: the server's state, the round, and where the clients' private states are.

    checkpoint/
      server-000012.safetensors         data files never change
      client-00005-000011.safetensors   a client's state, written by the engine, here or elsewhere
      000012.json                       the manifest, written last: every file with its SHA-256

A checkpoint exists once its manifest does. The two newest are kept, so that a damaged one has a predecessor. The caller
holds the lock of the folder (`Record`). A manifest is validated before any file that it names is read (`Manifest`).
"""

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, JsonValue, ValidationError, field_validator

from motet.errors import MotetError
from motet.io import json_models
from motet.io.files import is_own_folder, make_folder, read_own, remove_temporaries, sync_folder, write_atomic
from motet.io.hashed_files import ClientFiles, Damaged, FileEntry, read_entry, write_entry
from motet.io.json_models import Count, FileModel, first_fault, plain
from motet.messages.message import State, decoded, encode

FORMAT: Final = 1
MOST_BYTES = 2**30  # a manifest takes less than 200 bytes per client
SERVER = "server"
SERVER_FILE = re.compile(r"server-[0-9]{6,12}\.safetensors")

Fingerprint = Annotated[str, Field(pattern=r"^([0-9]{1,9}:)?[0-9a-z]{1,64}$")]
Role = Annotated[str, Field(pattern=r"^(server|client/(-1|0|[1-9][0-9]{0,11}))$")]  # the pooled client is number -1
LinesFile = Annotated[str, Field(pattern=r"^[a-z]{1,40}\.jsonl$")]


class Manifest(FileModel):
    """The description of one checkpoint: its round and its files.

    On disk it has a `checksum` beside these keys. The engine, which reads clients' files, checks their names again.
    """

    format: Literal[1]
    round: Count
    fingerprint: Fingerprint
    data_hash: Fingerprint
    files: dict[Role, FileEntry]
    lengths: dict[LinesFile, Count]
    extra: dict[str, JsonValue]

    @field_validator("files")
    @classmethod
    def _has_a_server(cls, files: dict[str, FileEntry]) -> dict[str, FileEntry]:
        if SERVER not in files or not SERVER_FILE.fullmatch(files[SERVER].file):
            raise ValueError("one of them is the server's state, in a file such as server-000012.safetensors")
        return files

    @property
    def server(self) -> FileEntry:
        """The entry of the file with the server's state."""
        return self.files[SERVER]

    @property
    def clients(self) -> ClientFiles:
        """The entries of the clients' private states, by client id."""
        return {int(role.partition("/")[2]): entry for role, entry in self.files.items() if role != SERVER}


# -------- Schedule


SHARE = 0.05  # of a run's time that saving may take


class CheckpointSchedule:
    """Decides after which rounds to save: every `every` rounds, or (`auto`) so that saving takes little of the time."""

    def __init__(self, every: int | Literal["auto"], last: int, clock: Callable[[], float] = time.perf_counter):
        """Save every `every` rounds, and after round `last`, which is the last of the run."""
        self.every, self.last, self.clock = every, last, clock
        self._took: float | None = None  # seconds of the last save in this process
        self._ended = 0.0
        self._unreported = 0.0

    def is_due(self, round: int) -> bool:
        """Return whether to save after this round; round 0 and the last round are always saved."""
        if round in (0, self.last):
            return True
        if self.every != "auto":
            return round % self.every == 0
        return self._took is None or self._took <= SHARE * (self.clock() - self._ended)

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Measure the time of a save, which is done inside this block."""
        began = self.clock()
        yield
        self._ended = self.clock()
        self._took = self._ended - began
        self._unreported += self._took

    def seconds(self) -> float:
        """Return the seconds that saving took since the last call of this method."""
        seconds, self._unreported = self._unreported, 0.0
        return seconds


# -------- Checkpoints


_MANIFEST = re.compile(r"[0-9]{6,12}\.json")

IsOurs = Callable[[str, dict[str, Any]], bool]  # (fingerprint, extra): whether they belong to this run
GoBack = Callable[[int, ClientFiles], None]  # `Engine.go_back`: restores private states, or raises `Damaged`


class OtherExperiment(MotetError):
    """Raised for a checkpoint of another experiment."""


@dataclass(frozen=True)
class Loaded:
    """A checkpoint read from disk."""

    round: int
    server: State
    lengths: dict[str, int]
    extra: dict[str, Any]
    warning: str | None
    clients: ClientFiles


class Checkpoints:
    """The checkpoints of one run. If the folder holds some, `load` must come before `save`."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._round: int | None = None  # the round of the checkpoint last saved or loaded
        self._server: FileEntry | None = None  # its server file
        self._outdated: list[str] | None = None  # files that only the one before needs; None: not listed yet
        self.held: int | None = None  # the round of a checkpoint that stays while newer ones come and go

    def save(
        self,
        round: int,
        server: State,
        clients: ClientFiles,
        lengths: Mapping[str, int],
        extra: Mapping[str, Any],
        fingerprint: str,
        data_hash: str,
    ) -> None:
        """Write a checkpoint and delete the ones that are no longer needed.

        `clients` are the entries of private states that the engine has written, `lengths` the bytes of the record's
        line files, and `extra` is stored as it is.
        """
        if self._round is None and self._manifests():
            raise RuntimeError(
                f"{self.folder} holds checkpoints that were not loaded; saving would forget their clients"
            )
        if not is_own_folder(self.folder):
            make_folder(self.folder)
        if self._outdated is None:
            remove_temporaries(self.folder)
        saved = write_entry(self.folder, f"server-{round:06d}.safetensors", encode(server))
        sync_folder(self.folder)
        manifest = Manifest(
            format=FORMAT,
            round=round,
            fingerprint=fingerprint,
            data_hash=data_hash,
            files={SERVER: saved} | {f"client/{client_id}": entry for client_id, entry in clients.items()},
            lengths=dict(lengths),
            extra=plain(extra),
        )
        text = _canonical(manifest.model_dump())
        signed = f'{text[:-1]}, "checksum": "{_sha256(text)}"}}'
        write_atomic(self.folder / f"{round:06d}.json", signed.encode())
        self._remove_outdated(round, saved)
        self._round, self._server = round, saved

    def load(self, is_ours: IsOurs, data_hash: str, go_back: GoBack) -> Loaded | None:
        """Return the newest undamaged checkpoint and restore its private states; None if there never was one.

        Raise `OtherExperiment` if it belongs to another experiment, and `MotetError` if it was trained on other data or
        all checkpoints are damaged.
        """
        if not is_own_folder(self.folder):
            return None
        remove_temporaries(self.folder)
        damage: list[str] = []
        for round in sorted(self._manifests(), reverse=True):
            try:
                manifest = self._manifest(round)
                self._check_origin(manifest, is_ours, data_hash)
                return self._load(manifest, damage, go_back)
            except Damaged as error:
                damage.append(f"the checkpoint of round {round} is damaged ({error})")
        if damage:
            raise MotetError(f"no checkpoint in {self.folder} can be used: {_listed(damage)}")
        return None

    def load_round(self, round: int, go_back: GoBack) -> Loaded:
        """Return the checkpoint of this round and restore its private states; raise `MotetError` if it is damaged."""
        try:
            return self._load(self._manifest(round), [], go_back)
        except Damaged as error:
            raise MotetError(
                f"the checkpoint of round {round} in {self.folder}, the best one, is damaged ({error}); remove the "
                f"folder of the run and start again"
            ) from error

    @property
    def rounds(self) -> list[int]:
        """The rounds of all checkpoints in the folder, rising."""
        return sorted(self._manifests())

    def clients_of(self, round: int) -> ClientFiles:
        """Return the entries of the private states that a checkpoint needs; empty if it is not there."""
        with suppress(Damaged):
            return self._manifest(round).clients
        return {}

    def remove_after(self, round: int) -> None:
        """Delete the checkpoints of later rounds, so that this one is the newest."""
        for later in self._manifests():
            if later > round:
                (self.folder / f"{later:06d}.json").unlink()
        sync_folder(self.folder)
        needed = {self._manifest(known).server.file for known in self._manifests()}
        for path in self.folder.iterdir():
            if SERVER_FILE.fullmatch(path.name) and path.name not in needed:
                path.unlink()

    def recorded_extra(self) -> dict[str, Any]:
        """Return the `extra` of the newest readable manifest, of any experiment; empty if there is none."""
        for round in sorted(self._manifests(), reverse=True):
            with suppress(Damaged):
                return dict(self._manifest(round).extra)
        return {}

    def _load(self, manifest: Manifest, damage: list[str], go_back: GoBack) -> Loaded:
        server, round = decoded(manifest.server, read_entry(self.folder, manifest.server)), manifest.round
        go_back(round, manifest.clients)
        self._round, self._server, self._outdated = round, manifest.server, None
        warning = f"{_listed(damage)}; going on from round {round}" if damage else None
        return Loaded(round, server, manifest.lengths, manifest.extra, warning, manifest.clients)

    def _check_origin(self, manifest: Manifest, is_ours: IsOurs, data_hash: str) -> None:
        """Raise if a checkpoint belongs to another experiment or other data."""
        which = f"the checkpoint of round {manifest.round} in {self.folder}"
        if not is_ours(manifest.fingerprint, manifest.extra):
            raise OtherExperiment(f"{which} belongs to another experiment; accepted: the one in its experiment.toml")
        if manifest.data_hash != data_hash:
            raise MotetError(f"{which} was trained on other data; accepted: data with the hash {manifest.data_hash}")

    def _manifests(self) -> list[int]:
        """Return the rounds of all manifests in the folder."""
        if not is_own_folder(self.folder):
            return []
        return [int(path.stem) for path in self.folder.iterdir() if _MANIFEST.fullmatch(path.name)]

    def _manifest(self, round: int) -> Manifest:
        """Return the manifest of a round; raise `Damaged` unless it is exactly what `save` wrote."""
        path = self.folder / f"{round:06d}.json"
        try:
            found = json_models.loads(read_own(path, MOST_BYTES))
        except OSError as error:
            raise Damaged(f"{path.name}: {error.strerror}") from error
        except ValueError as error:
            raise Damaged(f"{path.name} is not JSON") from error
        version = found.get("format") if isinstance(found, dict) else None
        if type(version) is int and version > FORMAT:
            raise MotetError(f"checkpoint {path} has format {version}; accepted: up to {FORMAT}, so use a newer Motet")
        if not isinstance(found, dict) or found.pop("checksum", None) != _checksum(found):
            raise Damaged(f"{path.name} has a wrong checksum")
        try:
            manifest = Manifest.model_validate(found)
        except ValidationError as error:
            raise Damaged(f"{path.name}: {first_fault(error)}") from None
        if manifest.round != round:
            raise Damaged(f"{path.name} is of round {manifest.round}")
        return manifest

    def _remove_outdated(self, round: int, saved: FileEntry) -> None:
        """Delete all checkpoints but this one and its predecessor, the one last saved or loaded."""
        now, before = {saved.file}, {self._server.file} if self._server else set()
        if self._outdated is None or self.held is not None:  # the first time: everything that earlier processes left
            rounds = [known for known in (round, self._round, self.held) if known is not None]
            kept = {f"{known:06d}.json" for known in rounds} | {f"server-{known:06d}.safetensors" for known in rounds}
            names = [path.name for path in self.folder.iterdir()]
            self._outdated = [
                name
                for name in names
                if (_MANIFEST.fullmatch(name) or SERVER_FILE.fullmatch(name)) and name not in kept | now | before
            ]
        for name in self._outdated:
            with suppress(OSError):
                (self.folder / name).unlink()
        manifest = [] if self._round in (None, round) else [f"{self._round:06d}.json"]
        self._outdated = [*manifest, *sorted(before - now)]  # with `held` this is listed anew


def _listed(damage: list[str]) -> str:
    """Return the first two sentences and the number of the others, of which there may be many."""
    return ", ".join(damage[:2]) + (f" and {len(damage) - 2} more" if len(damage) > 2 else "")


def _checksum(manifest: Mapping[str, Any]) -> str:
    return _sha256(_canonical(manifest))


def _canonical(manifest: Mapping[str, Any]) -> str:
    """Return the JSON text of a manifest that its checksum is of."""
    return json.dumps(manifest, sort_keys=True, allow_nan=False, ensure_ascii=False)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
