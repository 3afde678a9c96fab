"""Data files: every field wrong in every way, headers that lie, archives with damage, and what is no file at all."""

import io
import json
import os
import random
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from fuzz_judge import Case, Wanted, command
from PIL import Image

from motet.data.readers.registry import COLUMNS

Fields = dict[str, Any]


def data_case(rng: random.Random, folder: Path) -> Case:
    """One file, tried by `data show` or a short run."""
    path = folder / f"d{rng.randrange(10**9)}.npz"
    kind = rng.random()
    wanted: Wanted = "either"
    if rng.random() < 0.15:
        return _stream_case(rng, folder)
    if kind < 0.1:
        name, wanted = "sound", "accept"
        np.savez(path, **_sound(rng))
    elif kind < 0.5:
        name, wanted = _wrong_field(rng, path)
    elif kind < 0.7:
        name, wanted = _lying_header(rng, path)
    elif kind < 0.9:
        name = _damaged_archive(rng, path)
    else:
        name, wanted = _no_file(rng, path)
    return Case(f"data {name} {path.name}", lambda: _try(rng, path), wanted)


def _stream_case(rng: random.Random, folder: Path) -> Case:
    """A folder of Hugging Face's: a damaged stream, splits that are none, pictures of other kinds, a pipe."""
    path, kind = (
        folder / f"h{rng.randrange(10**9)}",
        rng.choice(["sound", "bytes", "offsets", "cut", "pipe", "splits", "eps"]),
    )
    rows = [{"a": i / 2, "s": f"c{i % 4}", "label": i % 2, "who": f"w{i % 3}"} for i in range(90)]
    features = {name: {"_type": "Value"} for name in rows[0]} | {"label": {"_type": "ClassLabel", "names": ["n", "y"]}}
    if kind == "eps":
        file = io.BytesIO()
        Image.new("RGB", (16, 16)).save(file, rng.choice(["EPS", "PDF", "ICO"]))
        rows = [{**row, "image": {"bytes": file.getvalue(), "path": None}} for row in rows]
        features["image"] = {"_type": "Image"}
    path.mkdir()
    table, stream = pa.Table.from_pylist(rows), path / "data.arrow"
    with pa.OSFile(str(stream), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    (path / "state.json").write_text(json.dumps({"_data_files": [{"filename": stream.name}]}))
    (path / "dataset_info.json").write_text(json.dumps({"features": features}))
    data = bytearray(stream.read_bytes())
    for _ in range(rng.choice([1, 5, 30])) if kind == "bytes" else ():
        data[rng.randrange(len(data))] = rng.randrange(256)
    for _ in range(rng.choice([1, 5])) if kind == "offsets" else ():
        at = 4 * rng.randrange(len(data) // 4)
        data[at : at + 4] = rng.choice([b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\x10\0"])
    stream.write_bytes(data[: rng.randrange(len(data))] if kind == "cut" else data)
    if kind == "pipe":
        stream.unlink()
        os.mkfifo(stream)
    if kind == "splits":
        (path / "dataset_dict.json").write_text(
            json.dumps({"splits": rng.choice([[["train"]], [{}], {}, [1], "train"])})
        )
    wanted: Wanted = {"sound": "accept", "pipe": "refuse", "splits": "refuse", "eps": "refuse"}.get(kind, "either")  # type: ignore[assignment]
    return Case(
        f"stream {kind} {path.name}", lambda: command("data", "show", str(path), "--client", "who", "--json"), wanted
    )


def _try(rng: random.Random, path: Path) -> str:
    dealt = ["--partition", rng.choice(["natural", "iid"]), "--clients", "3"]
    if rng.random() < 0.7:
        return command("data", "show", str(path), *dealt, "--json")
    short = ["--rounds", "1", "--epochs", "1", "--set", "engine.name=inline", "--net", "mlp", "--cohort", "1"]
    return command("run", "--data", str(path), *dealt, *short, "--out", str(path) + "-run", "--json")


def _sound(rng: random.Random) -> Fields:
    rows = np.arange(90)
    fields: Fields = {"x": np.outer(rows % 3, np.ones(4, np.float32)), "y": rows % 3, "client": rows // 30}
    if rng.random() < 0.3:
        fields["y"] = np.array(["a", "b", "ü"])[rows % 3]
    if rng.random() < 0.3:
        fields["domain"] = rows // 30 % 2
    if rng.random() < 0.3:
        fields["client"] = np.array(["[bold]", "b\nb", "c"])[rows // 30]
    return fields


_ARRAYS: list[tuple[str, Any]] = [
    ("object", np.array([{}] * 90)),
    ("text", np.array(["a"] * 90)),
    ("bytes", np.array([b"a"] * 90)),
    ("complex", np.ones(90, complex)),
    ("date", np.array(["2020-01-01"] * 90, "datetime64[D]")),
    ("structured", np.zeros(90, [("a", int)])),
    ("scalar", np.array(3)),
    ("empty", np.zeros(0)),
    ("no rows", np.zeros((0, 4), np.float32)),
    ("no features", np.zeros((90, 0), np.float32)),
    ("six sides", np.zeros((90, 1, 1, 1, 1, 1), np.float32)),
    ("nan", np.full((90, 4), np.nan)),
    ("infinite", np.full((90, 4), np.inf, np.float32)),
    ("too large", np.full((90, 4), 1e300)),
    ("negative", -np.arange(90)),
    ("huge labels", np.full(90, 2**62)),
    ("unsigned", np.full(90, 2**64 - 1, np.uint64)),
    ("short", np.arange(89) % 3),
    ("long", np.arange(91) % 3),
    ("two sides", np.zeros((90, 2), int)),
    ("floats", np.linspace(0, 1, 90)),
    ("truth", np.arange(90) % 2 == 0),
    ("no unicode", np.frombuffer(struct.pack("<90I", *[0x7FFFFFFF] * 90), "<U1")),
    ("half a character", np.array(["\ud800"] * 90)),
    ("a novel", np.array(["a" * 2000] * 90)),
    ("long double", np.ones((90, 4), np.longdouble)),
]
_ALWAYS_WRONG = {"object", "complex", "date", "structured", "scalar", "empty", "no rows", "two sides", "bytes"}


def _wrong_field(rng: random.Random, path: Path) -> tuple[str, Wanted]:
    fields = _sound(rng)
    name, array = rng.choice(_ARRAYS)
    field = rng.choice(["x", "y", *COLUMNS, "kind", "vocabulary"])
    wanted: Wanted = "refuse" if name in _ALWAYS_WRONG and field in ("y", *COLUMNS) else "either"
    if rng.random() < 0.1:
        del fields[rng.choice(["x", "y"])]
        wanted, name = "refuse", "missing"
    else:
        fields[field] = array
    with np.errstate(all="ignore"):
        np.savez(path, **fields)
    return f"{field} {name}", wanted


def _npy(header: str, body: bytes, version: bytes = b"\x01\x00") -> bytes:
    text = header.encode("latin1", "replace")
    size = struct.pack("<H" if version == b"\x01\x00" else "<I", len(text))
    return b"\x93NUMPY" + version + size + text + body


_HEADERS = [
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000, 4)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (10**30,)}",
    f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({10**30}, 4)}}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 4)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (90, -4)}",
    "{'descr': '|O', 'fortran_order': False, 'shape': (90,)}",
    "{'descr': '<U1000000000', 'fortran_order': False, 'shape': (90,)}",
    "{'descr': 'nonsense', 'fortran_order': False, 'shape': (90, 4)}",
    "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (90, 4)}",
    "{'descr': '<f4', 'fortran_order': 3, 'shape': (90, 4)}",
    "{'descr': '<f4', 'shape': (90, 4)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': 90}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': ('a', 4)}",
    "[" * 3000,
    "{" + "'a': " * 2000,
    "",
    "__import__('os').system('touch outside')",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "1, " * 100 + "90)}",
    "{'descr': '<V0', 'fortran_order': False, 'shape': (1000000000000,)}",
    "{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000000,)}",
    "a" * 60_000,
]


def _lying_header(rng: random.Random, path: Path) -> tuple[str, Wanted]:
    header = rng.choice(_HEADERS)
    version = rng.choice([b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x09"])
    field = rng.choice(["x", "y", "client"])
    with zipfile.ZipFile(path, "w") as archive:
        for name, value in _sound(rng).items():
            if name != field:
                buffer = io.BytesIO()
                np.save(buffer, value)
                archive.writestr(f"{name}.npy", buffer.getvalue())
        archive.writestr(f"{field}.npy", _npy(header, bytes(rng.choice([0, 10, 1440])), version))
    return f"{field} header {header[:80]!r}", "refuse"


def _damaged_archive(rng: random.Random, path: Path) -> str:
    np.savez_compressed(path, **_sound(rng)) if rng.random() < 0.5 else np.savez(path, **_sound(rng))
    data = bytearray(path.read_bytes())
    kind = rng.randrange(6)
    if kind == 0:
        del data[rng.randrange(len(data)) :]
    elif kind == 1:
        for _ in range(rng.randint(1, 20)):
            data[rng.randrange(len(data))] = rng.randrange(256)
    elif kind == 2:  # flags, ways of compression and sizes in the directory
        at = data.rfind(b"PK\x01\x02")
        data[at + 8 + rng.randrange(20)] = rng.randrange(256)
    elif kind == 3:
        at = data.find(b"PK\x03\x04")
        data[at + 6 + rng.randrange(20)] = rng.randrange(256)
    elif kind == 4:
        data = bytearray(rng.randbytes(rng.randrange(2000)))
    else:
        return _special_archive(rng, path)
    path.write_bytes(data)
    return f"archive {kind}"


def _special_archive(rng: random.Random, path: Path) -> str:
    name = rng.choice(["empty member", "twice", "outside", "bomb", "no member", "many"])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        if name == "empty member":
            archive.writestr("x.npy", b"")
        elif name == "twice":
            for _ in range(2):
                archive.writestr("x.npy", b"\x93NUMPY")
        elif name == "outside":
            archive.writestr("../../x.npy", b"x")
        elif name == "bomb":
            header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({10**8}, 4)}}"
            archive.writestr("x.npy", _npy(header, bytes(10**6)))
        elif name == "many":
            for i in range(3000):
                archive.writestr(f"{i}.npy", b"")
    return name


def _no_file(rng: random.Random, path: Path) -> tuple[str, Wanted]:
    name = rng.choice(["pipe", "folder", "dangling", "device", "loop", "endless", "folder of pipes", "unreadable name"])
    if name == "pipe":
        os.mkfifo(path)
    elif name == "folder":
        path.mkdir()
    elif name == "folder of pipes":
        path.mkdir()
        os.mkfifo(path / "a.npz")
    elif name == "loop":
        path.symlink_to(path.name)
    elif name != "unreadable name":
        path.symlink_to({"dangling": "nowhere", "device": "/dev/null", "endless": "/dev/zero"}[name])
    return name, "refuse"
