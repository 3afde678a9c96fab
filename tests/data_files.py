"""Small files in the exact forms of the papers' data sets, for tests."""

import gzip
import io
import json
import struct
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from motet.cli import main

RNG = np.random.default_rng(0)


def put(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def image(size: tuple[int, int] = (8, 8), mode: str = "RGB", value: int = 100, kind: str = "PNG") -> bytes:
    """(height, width) pixels of one value, the first of them 0."""
    pixels = np.full((*size, 3) if mode == "RGB" else size, value, np.uint8)
    pixels[0, 0] = 0
    out = io.BytesIO()
    Image.fromarray(pixels, mode=None).save(out, kind, **({"lossless": True} if kind == "WEBP" else {}))
    return out.getvalue()


def zipped(path: Path, files: Mapping[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def tarred(path: Path, files: Mapping[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def folder_of(path: Path, files: Mapping[str, bytes]) -> Path:
    for name, content in files.items():
        put(path / name, content)
    return path


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">I{array.ndim}I", 0x0800 + array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


# ---------------------------------------------------------------- CIFAR


def python2_batch(fields: Mapping[str, Any]) -> bytes:
    """A dict as cPickle of Python 2 wrote it in protocol 2: strings, lists of numbers and strings, arrays of bytes."""
    out, puts = io.BytesIO(), 0

    def remember() -> None:
        nonlocal puts
        puts += 1
        out.write(b"q" + bytes([puts]) if puts < 256 else b"r" + struct.pack("<I", puts))

    def text(value: str) -> None:
        data = value.encode("latin-1")
        out.write(b"U" + bytes([len(data)]) + data if len(data) < 256 else b"T" + struct.pack("<i", len(data)) + data)
        remember()

    def whole(value: int) -> None:
        if 0 <= value < 256:
            out.write(b"K" + bytes([value]))
        else:
            out.write(b"M" + struct.pack("<H", value) if 0 <= value < 65536 else b"J" + struct.pack("<i", value))

    def array(value: np.ndarray) -> None:
        out.write(b"cnumpy.core.multiarray\n_reconstruct\n")
        remember()
        out.write(b"cnumpy\nndarray\n")
        remember()
        out.write(b"K\x00\x85")
        remember()
        out.write(b"U\x01b\x87")
        remember()
        out.write(b"R")
        remember()
        out.write(b"(K\x01")
        for side in value.shape:
            whole(side)
        out.write(b"\x86")
        remember()
        out.write(b"cnumpy\ndtype\n")
        remember()
        out.write(b"U\x02u1K\x00K\x01\x87")
        remember()
        out.write(b"R")
        remember()
        out.write(b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89")
        out.write(b"T" + struct.pack("<i", value.size) + value.tobytes())
        remember()
        out.write(b"tb")

    def put_value(value: Any) -> None:
        if isinstance(value, str):
            text(value)
        elif isinstance(value, int):
            whole(value)
        elif isinstance(value, np.ndarray):
            array(value)
        else:
            out.write(b"]")
            remember()
            out.write(b"(")
            for each in value:
                put_value(each)
            out.write(b"e")

    out.write(b"\x80\x02}")
    remember()
    out.write(b"(")
    for key, value in fields.items():
        text(key)
        put_value(value)
    out.write(b"u.")
    return out.getvalue()


def cifar_pixels(count: int) -> np.ndarray:
    return RNG.integers(0, 256, (count, 3072), dtype=np.uint8)


def cifar10(pixels: np.ndarray, labels: np.ndarray) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The binary and the Python version of six batches."""
    names = [f"data_batch_{number}" for number in range(1, 6)] + ["test_batch"]
    parts = list(zip(names, np.split(pixels, 6), np.split(labels, 6), strict=True))
    binary = {f"{name}.bin": np.column_stack([y.astype(np.uint8), x]).tobytes() for name, x, y in parts}
    python = {
        name: python2_batch(
            {
                "batch_label": f"training batch {name}",
                "labels": y.tolist(),
                "data": x,
                "filenames": [f"{label}_s_{number:06}.png" for number, label in enumerate(y)],
            }
        )
        for name, x, y in parts
    }
    return binary, python


# ---------------------------------------------------------------- others


def leaf(users: Mapping[str, tuple[list[Any], list[Any]]]) -> bytes:
    return json.dumps(
        {
            "users": list(users),
            "num_samples": [len(y) for _, y in users.values()],
            "user_data": {user: {"x": x, "y": y} for user, (x, y) in users.items()},
        }
    ).encode()


CHANNELS = [f"{sensor}_{axis}" for sensor in ("body_acc", "body_gyro", "total_acc") for axis in "xyz"]


def har(
    signals: Mapping[str, np.ndarray], labels: Mapping[str, list[int]], subjects: Mapping[str, list[int]]
) -> dict[str, bytes]:
    """UCI's text files: signals [n, 9, 128] of train and test, labels from 1."""
    files = {}
    for part, x in signals.items():
        for number, channel in enumerate(CHANNELS):
            rows = ["  " + " ".join(f"{value: .7e}" for value in row) for row in x[:, number]]
            files[f"{part}/Inertial Signals/{channel}_{part}.txt"] = "\n".join(rows).encode() + b"\n"
        files[f"{part}/y_{part}.txt"] = "\n".join(map(str, labels[part])).encode() + b"\n"
        files[f"{part}/subject_{part}.txt"] = "\n".join(map(str, subjects[part])).encode() + b"\n"
    return files


def emnist_mat(parts: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]]) -> bytes:
    """MATLAB's version 5: images upright [n, 28, 28], labels and writers; stored column by column as NIST does."""
    from scipy.io import savemat

    out = io.BytesIO()
    fields = {
        part: {
            "images": x.transpose(0, 2, 1).reshape(len(x), 784),
            "labels": y[:, None].astype(np.float64),
            "writers": writers[:, None].astype(np.float64),
        }
        for part, (x, y, writers) in parts.items()
    }
    savemat(out, {"dataset": {**fields, "mapping": np.zeros((2, 2))}}, do_compression=True)
    return out.getvalue()


def tiny_imagenet(picture: Callable[[int], bytes]) -> dict[str, bytes]:
    """Two classes, two training images and one validation image of each."""
    ids = ["n01443537", "n01629819"]
    files = {
        "wnids.txt": "\n".join(reversed(ids)).encode() + b"\n",
        "words.txt": b"n01443537\tgoldfish, Carassius auratus\nn01629819\tEuropean fire salamander\nn00000001\telse\n",
        "val/val_annotations.txt": "".join(f"val_{n}.JPEG\t{id}\t0\t0\t62\t62\n" for n, id in enumerate(ids)).encode(),
        "test/images/test_0.JPEG": picture(99),
    }
    for label, id in enumerate(ids):
        files[f"train/{id}/{id}_boxes.txt"] = b"n\t0\t0\t1\t1\n"
        files[f"val/images/val_{label}.JPEG"] = picture(200 + label)
        for number in range(2):
            files[f"train/{id}/images/{id}_{number}.JPEG"] = picture(100 * label + number)
    return files


def gz(content: bytes) -> bytes:
    return gzip.compress(content)


def refusal(name: str, capfd: pytest.CaptureFixture[str], *words: str) -> str:
    """What the command line says of a data set that cannot be read: one sentence, exit code 2."""
    capfd.readouterr()
    assert main(["data", "show", name, "--clients", "2", *words]) == 2
    out, err = capfd.readouterr()
    assert out == "" and err.count("error:") == 1 and "accepted" in err and "Traceback" not in err
    return " ".join(err.split())
