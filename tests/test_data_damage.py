"""The papers' data sets in files that are cut, mislabelled or something else: one sentence each, exit code 2."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_files import (
    CHANNELS,
    cifar10,
    cifar_pixels,
    emnist_mat,
    folder_of,
    har,
    image,
    leaf,
    put,
    python2_batch,
    refusal,
    tarred,
    tiny_imagenet,
    zipped,
)
from test_data_formats import FOUR, HAR_LABELS, SIGNALS, SUBJECTS, emnist_parts, femnist_user, some_images

from motet.data.sources import SOURCES


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def _emnist(data: Path, content: bytes) -> None:
    put(data / "emnist" / "matlab" / "emnist-digits.mat", content)


def _cifar(data: Path, name: str, change: Callable[[bytes], bytes]) -> None:
    binary, python = cifar10(cifar_pixels(12), np.arange(12) % 10)
    files = binary if name.endswith(".bin") else python
    folder_of(data / ("cifar-10-batches-bin" if files is binary else "cifar-10-batches-py"), files)
    folder = data / ("cifar-10-batches-bin" if files is binary else "cifar-10-batches-py")
    put(folder / name, change(files[name]))


def _femnist(data: Path, content: bytes) -> None:
    put(data / "femnist" / "train" / "a.json", content)
    put(data / "femnist" / "test" / "a.json", leaf({"u": femnist_user(2, 0)}))


def _har(data: Path, name: str, content: bytes | None) -> None:
    files = har(SIGNALS, HAR_LABELS, SUBJECTS)
    files = {k: v for k, v in files.items() if k != name} | ({name: content} if content is not None else {})
    folder_of(data / "UCI HAR Dataset", files)


def _organ(data: Path, **changes: Any) -> None:
    fields: dict[str, Any] = {}
    for part in ("train", "val", "test"):
        fields |= {f"{part}_images": some_images(3), f"{part}_labels": np.array([[0], [1], [10]])}
    fields = {k: v for k, v in (fields | changes).items() if v is not None}
    np.savez(data / "organamnist.npz", **fields)


def _tiny(data: Path, **changes: bytes | None) -> None:
    files = tiny_imagenet(lambda value: image((64, 64), value=value))
    named = {
        "annotations": "val/val_annotations.txt",
        "wnids": "wnids.txt",
        "first": "train/n01443537/images/n01443537_0.JPEG",
    }
    for key, content in changes.items():
        if content is None:
            del files[named[key]]
        else:
            files[named[key]] = content
    folder_of(data / "tiny-imagenet-200", files)


def _gld(data: Path, train: bytes, test: bytes = b"image_id,class\na,1\n") -> None:
    files = {"mini_gld_train_split.csv": train, "mini_gld_test.csv": test}
    folder_of(data / "gld23k", files | {"images/a.jpg": image(), "images/b.jpg": image()})


def _shakespeare(data: Path, content: bytes) -> None:
    put(data / "shakespeare.jsonl", content)


def _leaf_shakespeare(data: Path, x: list[Any], y: list[Any]) -> None:
    put(data / "shakespeare" / "all_data" / "a.json", leaf({"u": (x, y)}))


DAMAGE: list[tuple[str, Callable[[Path], Any], str]] = [
    ("emnist", lambda d: _emnist(d, cut(emnist_mat(emnist_parts()))), "cannot be read as EMNIST's .mat"),
    ("emnist", lambda d: _emnist(d, b"MATLAB 7.3 MAT-file" + bytes(200)), "cannot be read as EMNIST's .mat"),
    ("emnist", lambda d: _emnist(d, emnist_mat(emnist_parts(5))), "label 14 in train; accepted: labels from 0 to 9"),
    ("emnist", lambda d: put(d / "emnist" / "matlab.zip", b"PK"), "matlab.zip: cannot be read"),
    ("emnist", lambda d: zipped(d / "emnist" / "gzip.zip", {"gzip/x": b""}), "it has no gzip/emnist-digits-train"),
    ("emnist", lambda d: (d / "emnist" / "matlab").mkdir(parents=True), "emnist-digits.mat: no such file"),
    ("cifar10", lambda d: _cifar(d, "data_batch_2.bin", lambda c: c[:-1]), "data_batch_2.bin holds 6145 bytes"),
    (
        "cifar10",
        lambda d: _cifar(d, "test_batch.bin", lambda c: b"\x0b" + c[1:]),
        "label 11; accepted: labels from 0 to 9",
    ),
    ("cifar10", lambda d: _cifar(d, "test_batch.bin", lambda c: b""), "test_batch.bin holds 0 bytes"),
    ("cifar10", lambda d: _cifar(d, "data_batch_3", cut), "data_batch_3 is no batch of CIFAR"),
    ("cifar10", lambda d: _cifar(d, "data_batch_3", lambda c: b"hello"), "data_batch_3 is no batch of CIFAR"),
    (
        "cifar10",
        lambda d: _cifar(d, "data_batch_3", lambda c: python2_batch({"labels": [1]})),
        "no rows of 3072 pixels",
    ),
    (
        "cifar10",
        lambda d: _cifar(d, "data_batch_3", lambda c: python2_batch({"labels": [1], "data": cifar_pixels(2)})),
        "no label for each of 2 images",
    ),
    ("cifar10", lambda d: (d / "cifar-10-batches-py").mkdir(), "data_batch_1"),
    (
        "cifar10",
        lambda d: put(d / "cifar-10-binary.tar.gz", b"\x1f\x8b none"),
        "cifar-10-binary.tar.gz: cannot be read",
    ),
    (
        "cifar10",
        lambda d: tarred(d / "cifar-10-binary.tar.gz", {"x/data_batch_1.bin": b"\0" * 3073}),
        "it has no data_batch_2",
    ),
    (
        "cifar10",
        lambda d: np.savez(d / "cifar10.npz", x=np.zeros((4, 5)), y=[0, 1, 2, 3]),
        "holds vector data of 4 classes",
    ),
    ("femnist", lambda d: _femnist(d, cut(leaf({"u": femnist_user(2, 0)}))), "is no JSON"),
    ("femnist", lambda d: _femnist(d, b"[" * 100_000), "is no JSON"),
    ("femnist", lambda d: _femnist(d, b'{"users": []}'), "has no user_data"),
    ("femnist", lambda d: _femnist(d, leaf({"u": ([[0.5] * 783], [1])})), "x of user 'u' is no list of images"),
    ("femnist", lambda d: _femnist(d, leaf({"u": ([[2.0] * 784], [1])})), "x of user 'u' is no list of images"),
    ("femnist", lambda d: _femnist(d, leaf({"u": ([["a"] * 784], [1])})), "x of user 'u' is no list of images"),
    (
        "femnist",
        lambda d: _femnist(d, leaf({"u": ([[0.5] * 784], [62])})),
        "y of user 'u' holds 62; accepted: whole numbers",
    ),
    ("femnist", lambda d: _femnist(d, leaf({"u": ([[0.5] * 784], [])})), "no lists x and y of one length"),
    ("har", lambda d: _har(d, "train/y_train.txt", None), "y_train.txt"),
    ("har", lambda d: _har(d, "train/y_train.txt", b"1\n2\n7\n1\n"), "no labels from 1 to 6"),
    ("har", lambda d: _har(d, "train/y_train.txt", b"1\nx\n"), "holds text that is no whole numbers"),
    ("har", lambda d: _har(d, "test/subject_test.txt", b"1\n"), "2 labels but 1 subjects in test"),
    (
        "har",
        lambda d: _har(d, f"train/Inertial Signals/{CHANNELS[4]}_train.txt", b"1 2 3"),
        "body_gyro_y_train.txt holds 3",
    ),
    (
        "har",
        lambda d: _har(d, f"train/Inertial Signals/{CHANNELS[4]}_train.txt", b"a"),
        "holds text that is no numbers",
    ),
    (
        "har",
        lambda d: np.savez(d / "har.npz", x=np.zeros((4, 6, 128)), y=[0, 1, 2, 3]),
        "has shape (4, 6, 128); accepted",
    ),
    ("organamnist", lambda d: _organ(d, val_images=None), "field 'val_images' is missing"),
    ("organamnist", lambda d: _organ(d, test_labels=np.array([[0], [1], [11]])), "label 11 in test"),
    ("organamnist", lambda d: _organ(d, train_labels=np.array([[0], [1]])), "3 images but 2 labels in train"),
    ("organamnist", lambda d: _organ(d, val_images=some_images(3)[:, 1:]), "differ in size"),
    ("organamnist", lambda d: _organ(d, test_images=np.zeros((3, 28, 28))), "test holds images of float64"),
    ("organamnist", lambda d: put(d / "organamnist.npz", b"PK"), "cannot be read as .npz"),
    ("tiny-imagenet", lambda d: _tiny(d, wnids=None), "wnids.txt is missing"),
    ("tiny-imagenet", lambda d: _tiny(d, wnids=b"n01443537\n"), "names no classes"),
    ("tiny-imagenet", lambda d: _tiny(d, wnids=b"n01443537\nn5\n"), "is of class 'n01629819'"),
    ("tiny-imagenet", lambda d: _tiny(d, annotations=b"other.JPEG\tn01443537\n"), "names 'other.JPEG'"),
    ("tiny-imagenet", lambda d: _tiny(d, first=b"broken"), "n01443537_0.JPEG' cannot be read as an image"),
    ("tiny-imagenet", lambda d: put(d / "tiny-imagenet-200.zip", b"PK"), "tiny-imagenet-200.zip: cannot be read"),
    ("gld23k", lambda d: _gld(d, b"user_id,image,class\n1,a,0\n"), "column 'image_id' is missing among"),
    ("gld23k", lambda d: _gld(d, b"user_id,image_id,class\n"), "holds no rows"),
    ("gld23k", lambda d: _gld(d, b"user_id,image_id,class\n1,c,0\n"), "holds no image 'c'"),
    ("gld23k", lambda d: _gld(d, b"user_id,image_id,class\n1,a,x\n"), "class is 'x'; accepted: whole numbers"),
    ("gld23k", lambda d: _gld(d, b"user_id,image_id,class\n1,a\n"), "row 1 has 2 cells"),
    ("gld23k", lambda d: _gld(d, b"\xff\xfe"), "is no text in UTF-8"),
    ("pacs", lambda d: zipped(d / "pacs.zip", {"photo/1.png": image()}), "data.levels is 'domain/class'"),
    ("pacs", lambda d: put(d / "pacs.zip", b""), "pacs.zip: cannot be read"),
    (
        "office-home",
        lambda d: [(d / "OfficeHome" / f).mkdir(parents=True) for f in FOUR["office-home"]],
        "holds no image",
    ),
    ("shakespeare", lambda d: _shakespeare(d, b'{"client": "A"}\n'), "line 1 is no JSON object with client and text"),
    ("shakespeare", lambda d: _shakespeare(d, b"[1]\n"), "line 1 is no JSON object"),
    ("shakespeare", lambda d: _shakespeare(d, b'{"client": "A", "text": ""}\n' * 2), "line 2 is 'A' again"),
    ("shakespeare", lambda d: _shakespeare(d, b""), "no role says 1,000 characters"),
    ("shakespeare", lambda d: put(d / "shakespeare.jsonl.gz", cut(gzip.compress(b"{}" * 99))), "cannot be read"),
    ("shakespeare", lambda d: _leaf_shakespeare(d, ["short"] * 1000, ["a"] * 1000), "samples that are no windows"),
    ("agnews", lambda d: put(d / "agnews.csv", b"split,label\ntrain,0\n"), "column 'text' is missing"),
    (
        "agnews",
        lambda d: put(d / "agnews.csv", b"split,label,text\ntrain,4,a\n"),
        "a label is '4'; accepted: 0, 1, 2, 3",
    ),
    (
        "agnews",
        lambda d: put(d / "agnews.csv", b"split,label,text\ndev,1,a\n"),
        "split is 'dev'; accepted: train or test",
    ),
    ("agnews", lambda d: put(d / "agnews.csv", b"split,label,text\ntest,1,a\n"), "holds no training rows"),
    ("agnews", lambda d: put(d / "agnews.csv.gz", b"no gzip"), "agnews.csv.gz: cannot be read"),
    (
        "agnews",
        lambda d: folder_of(d / "ag_news_csv", {"train.csv": b"0,a,b\n", "test.csv": b"1,a,b\n"}),
        "a label is '0'; accepted: 1, 2, 3, 4",
    ),
    (
        "agnews",
        lambda d: folder_of(d / "ag_news_csv", {"train.csv": b"1,a\n", "test.csv": b"1,a,b\n"}),
        "row 1 has 2 cells; accepted: class, title and description",
    ),
]


@pytest.mark.parametrize(("name", "write", "sentence"), DAMAGE, ids=[f"{n}-{s[:40]}" for n, _, s in DAMAGE])
def test_damage_is_told_in_one_sentence(
    data: Path, capfd: pytest.CaptureFixture[str], name: str, write: Callable[[Path], Any], sentence: str
) -> None:
    write(data)
    assert sentence in refusal(name, capfd)


def test_every_data_set_is_tried_with_damage() -> None:
    embedded = {name for name, source in SOURCES.items() if source.load}
    elsewhere = {"digits4", "mnist", "fmnist", "cifar100"}  # .npz and IDX in test_data_sources; as cifar10
    assert {name for name, _, _ in DAMAGE} == set(SOURCES) - embedded - elsewhere
