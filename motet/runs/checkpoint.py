"""Checkpoints: the server's state, the clients' private states and where the run stands.

    checkpoint/
      server-000012.safetensors         data files never change; a client's is written when its state changed
      client-00005-000011.safetensors
      000012.json                       the manifest, written last: it names every file and its SHA-256

A checkpoint exists once its manifest does. The two newest are kept, so that a damaged one has a predecessor.
Whoever uses a folder holds its lock (`Record`).
"""

import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from motet.errors import MotetError
from motet.files import make_folder, remove_temporaries, replace_file, sync_folder, to_json, write_atomic
from motet.message import State, decode, encode

FORMAT = 1

_DATA_FILE = re.compile(r"(server|client--?\d+)-\d+\.safetensors")  # the pooled client is number -1
_MANIFEST = re.compile(r"\d+\.json")

Entry = dict[str, Any]  # file, sha256, bytes


class Damaged(Exception):
    """A checkpoint that cannot be used; the text names the file."""


class OtherExperiment(MotetError):
    """A checkpoint of another experiment."""


@dataclass(frozen=True)
class Loaded:
    """A checkpoint read from disk. Private states are read when asked for."""

    round: int
    server: State
    lengths: dict[str, int]
    extra: dict[str, Any]
    warning: str | None
    clients: dict[int, Entry]
    folder: Path

    @property
    def client_ids(self) -> list[int]:
        """The clients that have a private state."""
        return sorted(self.clients)

    def private(self, client_id: int) -> State:
        """A client's private state; good until two more checkpoints are saved."""
        try:
            return decode(_read(self.folder, self.clients[client_id]))
        except Damaged as error:
            raise MotetError(f"checkpoint of round {self.round} in {self.folder} is damaged: {error}") from error


class Checkpoints:
    """The checkpoints of one run. A folder that holds some is loaded before it is saved to."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._round: int | None = None  # of the checkpoint last saved or loaded
        self._files: dict[str, Entry] = {}  # its files
        self._outdated: list[str] | None = None  # what only its predecessor needs; None: nobody has looked yet

    def save(
        self,
        round: int,
        server: State,
        changed: Mapping[int, State],
        lengths: Mapping[str, int],
        extra: Mapping[str, Any],
        fingerprint: str,
        data_hash: str,
    ) -> None:
        """Write a checkpoint; `changed` holds the private states that changed since the last one.

        One state at a time is asked for. The work is that of the changed clients, but for one manifest of all.
        """
        if self._round is None and self._manifests():
            raise RuntimeError(
                f"{self.folder} holds checkpoints that were not loaded; saving would forget their clients"
            )
        make_folder(self.folder)
        if self._outdated is None:
            remove_temporaries(self.folder)
        files = self._files | {"server": self._write(f"server-{round:06d}", server)}
        for client_id in sorted(changed):
            if state := changed[client_id]:  # an empty one is none
                files[f"client/{client_id}"] = self._write(f"client-{client_id:05d}-{round:06d}", state)
        sync_folder(self.folder)
        manifest = {
            "format": FORMAT,
            "round": round,
            "fingerprint": fingerprint,
            "data_hash": data_hash,
            "files": files,
            "lengths": dict(lengths),
            "extra": json.loads(to_json(extra)),
        }
        text = _canonical(manifest)
        signed = f'{text[:-1]}, "checksum": "{_sha256(text)}"}}'
        write_atomic(self.folder / f"{round:06d}.json", signed.encode())
        self._remove_outdated(round, files)
        self._round, self._files = round, files

    def load(self, fingerprint: str, data_hash: str) -> Loaded | None:
        """The newest checkpoint that is whole, or None if there never was one."""
        remove_temporaries(self.folder)
        damage: list[str] = []
        for round in sorted(self._manifests(), reverse=True):
            try:
                manifest = self._manifest(round)
                self._check_origin(manifest, fingerprint, data_hash)
                return self._load(manifest, damage)
            except Damaged as error:
                damage.append(f"the checkpoint of round {round} is damaged ({error})")
        if damage:
            raise MotetError(f"no checkpoint in {self.folder} can be used: {', '.join(damage)}")
        return None

    def recorded_extra(self) -> dict[str, Any]:
        """The `extra` of the newest manifest that can be read, whatever experiment it belongs to."""
        for round in sorted(self._manifests(), reverse=True):
            with suppress(Damaged):
                return dict(self._manifest(round)["extra"])
        return {}

    def _load(self, manifest: dict[str, Any], damage: list[str]) -> Loaded:
        files: dict[str, Entry] = manifest["files"]
        clients = {int(role.removeprefix("client/")): entry for role, entry in files.items() if role != "server"}
        for entry in clients.values():
            _read(self.folder, entry)
        server = decode(_read(self.folder, files["server"]))
        round = self._round = manifest["round"]
        self._files, self._outdated = files, None
        warning = f"{', '.join(damage)}; going on from round {round}" if damage else None
        return Loaded(round, server, manifest["lengths"], manifest["extra"], warning, clients, self.folder)

    def _check_origin(self, manifest: dict[str, Any], fingerprint: str, data_hash: str) -> None:
        which = f"the checkpoint of round {manifest['round']} in {self.folder}"
        if manifest["fingerprint"] != fingerprint:
            raise OtherExperiment(f"{which} belongs to another experiment; accepted: the one in its experiment.toml")
        if manifest["data_hash"] != data_hash:
            raise MotetError(f"{which} was trained on other data; accepted: data with the hash {manifest['data_hash']}")

    def _write(self, name: str, state: State) -> Entry:
        data = encode(state)
        path = self.folder / f"{name}.safetensors"
        replace_file(path, data)
        return {"file": path.name, "sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}

    def _manifests(self) -> list[int]:
        if not self.folder.is_dir():
            return []
        return [int(path.stem) for path in self.folder.iterdir() if _MANIFEST.fullmatch(path.name)]

    def _manifest(self, round: int) -> dict[str, Any]:
        path = self.folder / f"{round:06d}.json"
        try:
            manifest = json.loads(path.read_bytes())
        except OSError as error:
            raise Damaged(f"{path.name}: {error.strerror}") from error
        except ValueError as error:
            raise Damaged(f"{path.name} is not JSON") from error
        version = manifest.get("format") if isinstance(manifest, dict) else None
        if isinstance(version, int) and version > FORMAT:
            raise MotetError(f"checkpoint {path} has format {version}; accepted: up to {FORMAT}, so use a newer Motet")
        if version != FORMAT or manifest.pop("checksum", None) != _checksum(manifest):
            raise Damaged(f"{path.name} has a wrong checksum")
        return dict(manifest)

    def _remove_outdated(self, round: int, files: dict[str, Entry]) -> None:
        """Keep this checkpoint and its predecessor, which is the one last saved or loaded."""
        now = {entry["file"] for entry in files.values()}
        before = {entry["file"] for entry in self._files.values()}
        if self._outdated is None:  # the first time, whatever earlier processes left
            kept = {f"{known:06d}.json" for known in (round, self._round) if known is not None}
            names = [path.name for path in self.folder.iterdir()]
            self._outdated = [name for name in names if _MANIFEST.fullmatch(name) and name not in kept]
            self._outdated += [name for name in names if _DATA_FILE.fullmatch(name) and name not in now | before]
        for name in self._outdated:
            with suppress(OSError):
                (self.folder / name).unlink()
        manifest = [] if self._round in (None, round) else [f"{self._round:06d}.json"]
        self._outdated = [*manifest, *sorted(before - now)]


def _checksum(manifest: Mapping[str, Any]) -> str:
    return _sha256(_canonical(manifest))


def _canonical(manifest: Mapping[str, Any]) -> str:
    """A manifest as it is signed; it may name thousands of files, so the one call that writes JSON fastest."""
    return json.dumps(manifest, sort_keys=True, allow_nan=False, ensure_ascii=False)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _read(folder: Path, entry: Entry) -> bytes:
    """The bytes of a data file, if they are those that were written."""
    try:
        data = folder.joinpath(entry["file"]).read_bytes()
    except OSError as error:
        raise Damaged(f"{entry['file']}: {error.strerror}") from error
    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
        raise Damaged(f"{entry['file']} has a wrong SHA-256")
    return data
