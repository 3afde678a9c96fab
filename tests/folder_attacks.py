"""Run folders as an attacker, a bad disk or a bad editor might leave them: a list of changes to a real one.

Each is a name and a function of the folder and of a canary tree beside it, which nothing may ever touch.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from motet.messages.message import encode

Attack = Callable[[Path, Path], None]

FILES = (
    "lock",
    "experiment.toml",
    "environment.json",
    "clients.json",
    "rounds.jsonl",
    "clients.jsonl",
    "summary.json",
    "serving.json",
    "serving.safetensors",
    "figures_learned.json",
    "weights.safetensors",
    "checkpoint",
    "checkpoint/{manifest}",
    "checkpoint/{server}",
    "checkpoint/{client}",
    ".rounds.jsonl.tmp",
    ".summary.json.tmp",
    ".weights.safetensors.tmp",
    ".serving.json.tmp",
    "checkpoint/.server-000003.safetensors.tmp",
    "checkpoint/.000003.json.tmp",
)
DEEP = "[" * 900 + "]" * 900
VALUES = {  # as JSON, where Python would not write it
    "null": "null",
    "true": "true",
    "minus": "-1",
    "half": "0.5",
    "inf": "1e999",
    "large": "1e308",
    "very negative": "-1e308",
    "tiny": "5e-324",
    "far": "4611686018427387904",
    "nan": "NaN",
    "Infinity": "-Infinity",
    "huge": "1" + "0" * 400,
    "endless": "1" * 5000,
    "text": '"x"',
    "path": '"../../canary/victim.safetensors"',
    "list": "[]",
    "numbers": "[1, 2]",
    "object": "{}",
    "nested": '{"a": {"b": {"c": "d"}}}',
    "deep": DEEP,
    "surrogate": '"\\ud800"',
    "escape": '"\\u001b[31m[red]\\u0000"',
    "long": json.dumps("x" * 100_000),
}
MANIFEST = ("format", "round", "fingerprint", "data_hash", "files", "lengths", "extra")
NAMES = (
    "../../canary/victim.safetensors",
    "../lock",
    "/etc/hostname",
    "",
    ".",
    "..",
    "a/b",
    "server-000001.safetensors\x00",
    "x" * 5000,
    "000001.json",
)
ROUND_KEYS = ("round", "cohort", "set_aside", "bytes_up", "seconds", "lr", "personal.split.accuracy.mean")
CLIENT_KEYS = ("round", "client", "new", "set_aside", "personal.split.accuracy")
SUMMARY_KEYS = ("method", "data", "reported", "generic", "personal", "new_clients", "figures", "bytes_per_round")
SUMMARY_KEYS += ("set_aside", "seconds", "seed", "protocol", "diverged", "rounds")
CLIENTS_KEYS = ("clients", "classes", "common_test")
SERVING_KEYS = ("format", "name", "classes", "class_names", "content_hash", "prepare", "clients")
PREPARES = (
    '{"kind": "image", "shape": [8, 8, 1], "vocabulary": 0, "constants": false}',
    '{"kind": "image", "shape": [9, 9, 1], "vocabulary": 0, "constants": false}',
    '{"kind": "image", "shape": [1, 1, 16777216], "vocabulary": 0, "constants": true}',
    '{"kind": "image", "shape": [4000000000, 4000000000, 1], "vocabulary": 0, "constants": true}',
    '{"kind": "vector", "shape": [64], "vocabulary": 0, "constants": false}',
    '{"kind": "tokens", "shape": [8], "vocabulary": 10, "constants": false}',
    '{"kind": "tokens", "shape": [8], "vocabulary": 1e5, "constants": []}',
    '{"kind": [], "shape": {}, "vocabulary": {}, "constants": {}}',
)
TOML = {
    "import": 'method = "{canary}/evil.py:Evil"',
    "import a sum": 'method = "fedavg+{canary}/evil.py:Evil"',
    "import a net": '[net]\nname = "{canary}/evil.py:Evil"',
    "import data": '[data]\nname = "{canary}/evil.py:Evil"',
    "import a metric": '[scoring]\nmetrics = ["{canary}/evil.py:Evil"]',
    "import a module": 'method = "this:d"',
    "an unknown field": "what = 1",
    "a scalar for a section": "data = 5",
    "deep": "method = " + "[" * 600 + "]" * 600,
    "endless": "seed = " + "1" * 5000,
    "huge": "seed = 1" + "0" * 400,
    "nan": "[local]\nlr = nan",
    "inf": "[local]\nlr = inf",
    "no TOML": "= = =",
    "long": f'method = "{"x" * 100_000}"',
    "another experiment": "seed = 77",
    "other data": '[data]\npartition = "iid"',
    "no data": '[data]\nname = "{canary}/nothing.npz"',
    "a folder as data": '[data]\nname = "{canary}"',
}
SAFETENSORS = {
    "nothing": b"",
    "noise": bytes(range(256)) * 8,
    "a header without end": (2**62).to_bytes(8, "little") + b"{}",
    "a header too long": (10**6).to_bytes(8, "little") + b"{}",
    "a deep header": (2000).to_bytes(8, "little") + b"[" * 1000 + b"]" * 1000,
    "no field": encode({}),
    "another field": encode({"other": 1.0}),
    "a number for weights": encode({"w": 1.0, "round": 2}),
    "short weights": encode({"w": torch.zeros(3), "round": 2}),
    "square weights": encode({"w": torch.zeros(3, 3), "round": 2}),
    "whole numbers": encode({"w": torch.zeros(2410, dtype=torch.int64), "round": 2}),
    "NaN": encode({"w": torch.full((2410,), torch.nan), "round": 2}),
    "no weights at all": encode({"w": torch.zeros(0), "round": -5}),
}


def attacks() -> dict[str, Attack]:
    """All of them, by name."""
    return dict(_all())


def _all() -> Iterator[tuple[str, Attack]]:
    for file in FILES:
        for kind in ("link", "folder link", "dangling link", "device link", "hard link", "pipe", "folder", "giant"):
            yield f"{file} is a {kind}", partial(_replace, file, kind)
    for key in MANIFEST:
        for word, value in VALUES.items():
            yield f"manifest {key} is {word}", partial(_manifest, (key,), value)
        yield f"manifest without {key}", partial(_manifest, (key,), None)
    for key in ("file", "sha256", "bytes"):
        for word, value in VALUES.items():
            yield f"server's {key} is {word}", partial(_manifest, ("files", "server", key), value)
    for role in ("server", "client"):
        for name in NAMES:
            yield f"{role} named {name[:40]!r}", partial(_manifest, ("files", role, "file"), json.dumps(name))
    for role in ("client/x", "client/1e5", "client/-7", "../x", "", "client/99999999999999999999"):
        yield f"a role {role!r}", partial(_manifest, ("files", role), "{}")
    for word, value in VALUES.items():
        yield f"lengths are {word}", partial(_manifest, ("lengths", "rounds.jsonl"), value)
        yield f"the manifest's experiment is {word}", partial(_manifest, ("extra", "experiment"), value)
        for name in ("summary.json", "environment.json", "clients.json", "serving.json", "figures_learned.json"):
            yield f"{name} is {word}", partial(_write, name, value.encode())
        for name in ("rounds.jsonl", "clients.jsonl"):
            yield f"a line of {name} is {word}", partial(_line, name, value)
        yield f"a manifest is {word}", partial(_write, "checkpoint/{manifest}", value.encode())
    for name, keys in (("rounds.jsonl", ROUND_KEYS), ("clients.jsonl", CLIENT_KEYS)):
        for key in keys:
            for word, value in VALUES.items():
                yield f"{key} of {name} is {word}", partial(_lines, name, key, value)
            yield f"{name} without {key}", partial(_lines, name, key, None)
    for key in ("rule", "round", "rounds", "headline", "figure", "client_weighting", "personal_model"):
        for word, value in VALUES.items():
            yield f"reported {key} is {word}", partial(_inner, "summary.json", "reported", key, value)
    for name in ("personal.common.accuracy.mean", "x.split.accuracy.mean", "after.split.accuracy.mean", "a.b.c"):
        yield f"reported figure is {name}", partial(_inner, "summary.json", "reported", "figure", json.dumps(name))
    for key in SUMMARY_KEYS:
        for word, value in VALUES.items():
            yield f"summary {key} is {word}", partial(_object, "summary.json", key, value)
        yield f"summary without {key}", partial(_object, "summary.json", key, None)
    for key in CLIENTS_KEYS:
        for word, value in VALUES.items():
            yield f"clients.json {key} is {word}", partial(_object, "clients.json", key, value)
        yield f"clients.json without {key}", partial(_object, "clients.json", key, None)
    for key in ("id", "name", "new", "train", "val", "domain", "counts"):
        for word, value in VALUES.items():
            yield f"{key} of a client is {word}", partial(_first_client, key, value)
    for key in SERVING_KEYS:
        for word, value in VALUES.items():
            yield f"serving {key} is {word}", partial(_object, "serving.json", key, value)
        yield f"serving without {key}", partial(_object, "serving.json", key, None)
    for text in PREPARES:
        yield f"serving prepare is {text}", partial(_object, "serving.json", "prepare", text)
    for word, text in TOML.items():
        yield f"experiment: {word}", partial(_toml, text)
    for word, data in SAFETENSORS.items():
        for role in ("server", "client"):
            yield f"{role} state: {word}", partial(_state, role, data)
    for name in (file for file in FILES if not file.endswith((".tmp", "lock"))):
        yield f"{name} is empty", partial(_write, name, b"")
        yield f"{name} is noise", partial(_write, name, b"\x00\xff\xfe" * 100)
        yield f"{name} is gone", partial(_remove, name)


# ---------------------------------------------------------------- what they do


def _at(folder: Path, name: str) -> Path:
    """The newest manifest, server state or client state, or a file by its name."""
    newest = max(folder.glob("checkpoint/0*.json"))
    files = json.loads(newest.read_text())["files"]
    client = next((entry["file"] for role, entry in files.items() if role != "server"), "none")
    return folder / name.format(manifest=newest.name, server=files["server"]["file"], client=client)


def _remove(name: str, folder: Path, canary: Path) -> None:
    path = _at(folder, name)
    if path.is_dir():
        path.rename(canary.parent / "gone")
    else:
        path.unlink(missing_ok=True)


def _replace(name: str, kind: str, folder: Path, canary: Path) -> None:
    path = _at(folder, name)
    _remove(name, folder, canary)
    match kind:
        case "link":
            path.symlink_to(canary / "precious.txt")
        case "folder link":
            path.symlink_to(canary)
        case "dangling link":
            path.symlink_to(canary / "new-file")
        case "device link":
            path.symlink_to("/dev/zero")
        case "hard link":
            os.link(canary / "precious.txt", path)
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
            (path / "inside").write_text("1")
        case "giant":
            with path.open("wb") as file:
                file.truncate(2**43)  # a hole, which takes no disk


def _write(name: str, data: bytes, folder: Path, canary: Path) -> None:
    path = _at(folder, name)
    if not path.is_dir():
        path.write_bytes(data)


def _manifest(where: tuple[str, ...], value: str | None, folder: Path, canary: Path) -> None:
    """Change one value, and sign the manifest anew."""
    path = _at(folder, "checkpoint/{manifest}")
    manifest: dict[str, Any] = json.loads(path.read_text())
    del manifest["checksum"]
    inner = manifest
    for name in where[:-1]:
        found = next((role for role in inner if role.startswith("client/")), name) if name == "client" else name
        inner = inner.setdefault(found, {})
    if value is None:
        del inner[where[-1]]
    else:
        inner[where[-1]] = "@@"
    text = json.dumps(manifest, sort_keys=True, ensure_ascii=False).replace('"@@"', value or "")
    signed = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
    path.write_text(f'{text[:-1]}, "checksum": "{signed}"}}')


def _state(role: str, data: bytes, folder: Path, canary: Path) -> None:
    """Other bytes under the right SHA-256."""
    path = _at(folder, "checkpoint/{" + role + "}")
    manifest = json.loads(_at(folder, "checkpoint/{manifest}").read_text())
    mine = next((entry for entry in manifest["files"].values() if entry["file"] == path.name), None)
    if mine is None:
        return
    path.write_bytes(data)
    which = "server" if role == "server" else "client"
    for key, value in (("sha256", hashlib.sha256(data).hexdigest()), ("bytes", len(data))):
        _manifest(("files", which, key), json.dumps(value), folder, canary)


def _object(name: str, key: str, value: str | None, folder: Path, canary: Path) -> None:
    path = folder / name
    if path.exists():
        path.write_text(_changed(json.loads(path.read_text()), key, value))


def _inner(name: str, section: str, key: str, value: str, folder: Path, canary: Path) -> None:
    path = folder / name
    if path.exists():
        words = json.loads(path.read_text())
        path.write_text(_changed(words, section, _changed(words[section], key, value)))


def _first_client(key: str, value: str, folder: Path, canary: Path) -> None:
    path = folder / "clients.json"
    words = json.loads(path.read_text())
    clients = ", ".join([_changed(words["clients"][0], key, value), *map(json.dumps, words["clients"][1:])])
    path.write_text(_changed(words, "clients", f"[{clients}]"))


def _lines(name: str, key: str, value: str | None, folder: Path, canary: Path) -> None:
    """In every line, and signed: the checkpoints count on as many bytes."""
    path = folder / name
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(_changed(row, key, value) + "\n" for row in rows))
    if list(folder.glob("checkpoint/0*.json")):
        _manifest(("lengths", name), str(path.stat().st_size), folder, canary)


def _line(name: str, value: str, folder: Path, canary: Path) -> None:
    path = folder / name
    path.write_text(value + "\n" + path.read_text())


def _changed(row: dict[str, Any], key: str, value: str | None) -> str:
    row.pop(key, None)
    if value is not None:
        row[key] = "@@"
    return json.dumps(row).replace('"@@"', value or "")


def _toml(text: str, folder: Path, canary: Path) -> None:
    """Over what the file says: a section of it or a field at its top goes."""
    path = folder / "experiment.toml"
    text = text.replace("{canary}", str(canary))
    if text.startswith("["):
        head, field = text.split("\n")
        key = field.partition(" ")[0]
        lines, inside = [], False
        for line in path.read_text().splitlines():
            inside = line == head if line.startswith("[") else inside
            if not (inside and line.partition(" ")[0] == key):
                lines.append(line)
            if line == head:
                lines.append(field)
        path.write_text("\n".join(lines) + "\n")
        return
    key = text.partition(" ")[0]
    kept = [line for line in path.read_text().splitlines() if line.partition(" ")[0] != key]
    path.write_text(text + "\n" + "\n".join(kept) + "\n")
