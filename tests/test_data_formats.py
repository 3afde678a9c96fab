"""The papers' data sets in their own forms: small files that these tests write."""

import gzip
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_files import (
    cifar10,
    cifar_pixels,
    emnist_mat,
    folder_of,
    har,
    idx,
    image,
    leaf,
    put,
    python2_batch,
    refusal,
    tarred,
    tiny_imagenet,
    zipped,
)

from motet.data import DataSettings, build
from motet.data.sources import load
from motet.data.sources.cifar import COARSE, FINE
from motet.data.sources.shakespeare import ALPHABET
from motet.errors import MotetError

pytestmark = pytest.mark.usefixtures("data")
RNG = np.random.default_rng(1)


def column(values: Any) -> list[int]:
    assert values is not None
    return list(values.tolist())


# ---------------------------------------------------------------- MNIST and EMNIST


def some_images(count: int) -> np.ndarray:
    return RNG.integers(0, 256, (count, 28, 28), dtype=np.uint8)


@pytest.mark.parametrize("gzipped", [True, False])
@pytest.mark.parametrize("folder", ["mnist", "MNIST/raw"])
def test_mnist_from_its_four_files(data: Path, gzipped: bool, folder: str) -> None:
    x, y = some_images(30), np.arange(30) % 10
    parts = {
        "train-images-idx3": x[:20],
        "train-labels-idx1": y[:20],
        "t10k-images-idx3": x[20:],
        "t10k-labels-idx1": y[20:],
    }
    for name, array in parts.items():
        content = idx(array)
        put(data / folder / f"{name}-ubyte{'.gz' if gzipped else ''}", gzip.compress(content) if gzipped else content)
    raw = load("mnist")
    assert (raw.x[..., 0] == x).all() and raw.y.tolist() == y.tolist()
    assert column(raw.split) == [0] * 20 + [1] * 10
    assert "30 samples (the whole data set has 70,000)" in raw.origin and "CC BY-SA 3.0" in raw.origin
    with pytest.raises(MotetError, match="'fmnist' is not on this machine"):
        load("fmnist")


def test_files_of_mnist_without_a_folder_of_its_own_are_not_taken(data: Path) -> None:
    for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        put(data / f"{name}-ubyte", idx(np.zeros((2, 28, 28) if "images" in name else 2)))
    with pytest.raises(MotetError, match="'mnist' is not on this machine"):
        load("mnist")


def emnist_parts(first: int = 0) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    return {
        "train": (some_images(12), np.arange(12) % 10 + first, np.array([3, 3, 3, 8, 8, 8, 8, 8, 5, 5, 5, 5])),
        "test": (some_images(6), np.arange(6) + first, np.array([3, 8, 8, 9, 9, 9])),
    }


@pytest.mark.parametrize("packed", [True, False])
def test_emnist_with_its_writers(data: Path, packed: bool) -> None:
    parts = emnist_parts()
    files = {"matlab/emnist-digits.mat": emnist_mat(parts), "matlab/emnist-letters.mat": emnist_mat(emnist_parts(1))}
    _ = zipped(data / "emnist" / "matlab.zip", files) if packed else folder_of(data / "emnist", files)
    raw = load("emnist")
    assert (raw.x[..., 0] == np.concatenate([parts["train"][0], parts["test"][0]])).all(), "upright"
    assert column(raw.client) == [3, 3, 3, 8, 8, 8, 8, 8, 5, 5, 5, 5, 3, 8, 8, 9, 9, 9]
    assert column(raw.split) == [0] * 12 + [1] * 6
    assert raw.class_names == tuple("0123456789")
    federation = build(DataSettings(name="emnist", partition="natural"), seed=0)
    assert [client.name for client in federation.clients] == ["3", "5", "8"]
    letters = load("emnist", variant="letters")
    assert (letters.classes, letters.y.min(), letters.class_names[:2]) == (26, 0, ("A", "B"))


@pytest.mark.parametrize("packed", [True, False])
def test_emnist_from_idx_has_no_writers(data: Path, packed: bool) -> None:
    x, y = some_images(20), np.arange(20) % 10
    files = {}
    for part, rows in (("train", slice(0, 15)), ("test", slice(15, 20))):
        stored = x[rows].transpose(0, 2, 1)
        files[f"gzip/emnist-digits-{part}-images-idx3-ubyte.gz"] = gzip.compress(idx(stored))
        files[f"gzip/emnist-digits-{part}-labels-idx1-ubyte.gz"] = gzip.compress(idx(y[rows]))
    _ = zipped(data / "emnist" / "gzip.zip", files) if packed else folder_of(data / "emnist", files)
    raw = load("emnist")
    assert (raw.x[..., 0] == x).all() and raw.y.tolist() == y.tolist() and raw.client is None
    assert "--partition natural needs matlab.zip" in raw.notes[0]
    with pytest.raises(MotetError, match="emnist-letters"):
        load("emnist", variant="letters")


# ---------------------------------------------------------------- CIFAR


def as_images(pixels: np.ndarray) -> np.ndarray:
    return pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


@pytest.mark.parametrize("form", ["bin", "binary", "py", "python"])
def test_cifar10_in_its_forms(data: Path, form: str) -> None:
    pixels, labels = cifar_pixels(48), np.arange(48) % 10
    binary, python = cifar10(pixels, labels)
    files = binary if form.startswith("bin") else python
    if form in ("bin", "py"):
        folder_of(data / f"cifar-10-batches-{form}", files)
    else:
        around = {"binary": "cifar-10-batches-bin", "python": "cifar-10-batches-py"}[form]
        tarred(data / f"cifar-10-{form}.tar.gz", {f"{around}/{name}": content for name, content in files.items()})
    raw = load("cifar10")
    assert (raw.x == as_images(pixels)).all() and raw.x.dtype == np.uint8
    assert raw.y.tolist() == labels.tolist() and raw.class_names[3] == "cat"
    assert column(raw.split) == [0] * 40 + [1] * 8


@pytest.mark.parametrize("form", ["binary", "python"])
def test_cifar100_fine_and_coarse(data: Path, form: str) -> None:
    pixels, fine, coarse = cifar_pixels(30), np.arange(30) * 3, np.arange(30) % 20
    files = {}
    for name, rows in (("train", slice(0, 20)), ("test", slice(20, 30))):
        if form == "binary":
            stacked = np.column_stack([coarse[rows], fine[rows], pixels[rows]]).astype(np.uint8)
            files[f"{name}.bin"] = stacked.tobytes()
        else:
            fields = {"fine_labels": fine[rows].tolist(), "coarse_labels": coarse[rows].tolist(), "data": pixels[rows]}
            files[name] = python2_batch({"filenames": ["a.png"] * 10, "batch_label": "one of one"} | fields)
    folder_of(data / f"cifar-100-{form}", files)
    raw = load("cifar100")
    assert (raw.classes, raw.y.tolist(), raw.class_names) == (100, fine.tolist(), FINE)
    assert (raw.x == as_images(pixels)).all()
    raw = load("cifar100", variant="coarse")
    assert (raw.classes, raw.y.tolist(), raw.class_names) == (20, coarse.tolist(), COARSE)
    with pytest.raises(MotetError, match=r"unknown data.variant of cifar100 'medium'.*accepted: coarse, fine"):
        load("cifar100", variant="medium")
    with pytest.raises(MotetError, match=r"data.variant is 'fine', but data 'cifar10' has no such choice"):
        load("cifar10", variant="fine")


def test_a_pickle_that_would_do_something_is_refused_and_not_run(
    data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            import os

            return os.mkdir, (str(tmp_path / "sprung"),)

    _, python = cifar10(cifar_pixels(12), np.arange(12) % 10)
    folder = folder_of(data / "cifar-10-batches-py", python)
    for protocol in range(6):
        put(folder / "data_batch_1", pickle.dumps({"labels": [0, 1], "data": Trap()}, protocol))
        assert "is no batch of CIFAR" in refusal("cifar10", capfd)
    put(folder / "data_batch_1", pickle.dumps({"data": np.zeros((2, 3072), np.float32), "labels": [0, 1]}, 2))
    assert "is no batch of CIFAR" in refusal("cifar10", capfd)
    assert not (tmp_path / "sprung").exists()


# ---------------------------------------------------------------- folders of images


@pytest.mark.parametrize("packed", [True, False])
def test_tiny_imagenet(data: Path, packed: bool) -> None:
    files = tiny_imagenet(lambda value: image((64, 64), value=value, kind="PNG"))
    if packed:
        zipped(data / "tiny-imagenet-200.zip", {f"tiny-imagenet-200/{name}": c for name, c in files.items()})
    else:
        folder_of(data / "tiny-imagenet-200", files)
    raw = load("tiny-imagenet")
    assert raw.x.shape == (6, 64, 64, 3)
    assert raw.class_names == ("European fire salamander", "goldfish"), "in the order of wnids.txt"
    assert raw.y.tolist() == [1, 1, 0, 0, 1, 0]
    assert raw.x[:, -1, -1, 0].tolist() == [0, 1, 100, 101, 200, 201]
    assert column(raw.split) == [0, 0, 0, 0, 1, 1]


FOUR = {
    "pacs": ("art_painting", "cartoon", "photo", "sketch"),
    "office-home": ("Art", "Clipart", "Product", "Real World"),
}


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("pacs", "PACS"),
        ("pacs", "pacs/kfold"),
        ("pacs", "pacs/pacs.zip"),
        ("office-home", "OfficeHomeDataset_10072016"),
        ("office-home", "office-home/OfficeHomeDataset_10072016.zip"),
    ],
)
def test_domains_as_folders(data: Path, name: str, place: str) -> None:
    files = {f"{domain}/{thing}/1.jpg": image((70, 90)) for domain in FOUR[name] for thing in ("Bed", "Mug")}
    files["ReadMe.txt"] = b""
    if place.endswith(".zip"):
        zipped(data / place, {f"{name}/{file}": content for file, content in files.items()})
    else:
        folder_of(data / place, files)
    raw = load(name)
    assert (raw.domain_names, raw.class_names) == (FOUR[name], ("Bed", "Mug"))
    assert raw.x.shape[1:3] == ((70, 90) if name == "pacs" else (64, 64))
    assert load(name, size=16).x.shape == (8, 16, 16, 3)


@pytest.mark.parametrize(
    ("train", "test"),
    [
        ("mini_gld_train_split.csv", "mini_gld_test.csv"),
        ("data_user_dict/gld23k_user_dict_train.csv", "data_user_dict/gld23k_user_dict_test.csv"),
    ],
)
def test_landmarks_by_who_took_them(data: Path, train: str, test: str) -> None:
    folder_of(
        data / "gld23k",
        {
            train: b"user_id,image_id,class\r\n7,aa01,0\r\n7,aa02,2\r\n12,aa03,1\r\n",
            test: b"image_id,class\r\naa04,1\r\n",
            **{f"images/aa0{n}.jpg": image((20, 30), value=n * 20) for n in range(1, 6)},
        },
    )
    raw = load("gld23k")
    assert (raw.x.shape, raw.classes, raw.y.tolist()) == ((4, 64, 64, 3), 3, [0, 2, 1, 1])
    assert [raw.client_names[who] for who in column(raw.client)] == ["7", "7", "12", "nobody"]
    assert column(raw.split) == [0, 0, 0, 1]


def test_organamnist(data: Path) -> None:
    x, y = some_images(12), np.arange(12) % 11
    parts = {"train": slice(0, 6), "val": slice(6, 8), "test": slice(8, 12)}
    fields = {f"{part}_images": x[rows] for part, rows in parts.items()}
    np.savez_compressed(
        data / "organamnist.npz", **fields, **{f"{p}_labels": y[rows, None] for p, rows in parts.items()}
    )
    raw = load("organamnist")
    assert (raw.x[..., 0] == x).all() and raw.y.tolist() == y.tolist() and raw.class_names[6] == "liver"
    assert column(raw.split) == [0] * 8 + [1] * 4


# ---------------------------------------------------------------- LEAF, HAR, texts


def femnist_user(count: int, label: int) -> tuple[list[Any], list[Any]]:
    pixels = RNG.integers(0, 256, (count, 784))
    return (pixels / 255).tolist(), [(label + n) % 62 for n in range(count)]


@pytest.mark.parametrize("folder", ["femnist", "femnist/data", "leaf/data/femnist/data"])
def test_femnist(data: Path, folder: str) -> None:
    users = {"f0001_41": femnist_user(5, 0), "f0002_13": femnist_user(3, 40)}
    put(data / folder / "train" / "all_data_0.json", leaf({"f0001_41": users["f0001_41"]}))
    put(data / folder / "train" / "all_data_1.json", leaf({"f0002_13": users["f0002_13"], "f9": ([], [])}))
    put(data / folder / "test" / "all_data_0.json", leaf({"f0001_41": femnist_user(2, 61)}))
    raw = load("femnist")
    assert [raw.client_names[who] for who in column(raw.client)] == ["f0001_41"] * 5 + ["f0002_13"] * 3 + [
        "f0001_41"
    ] * 2
    assert column(raw.split) == [0] * 8 + [1] * 2
    assert (raw.x[0].reshape(-1) == np.rint(np.array(users["f0001_41"][0][0]) * 255)).all()
    assert (raw.classes, raw.class_names[10], raw.class_names[61]) == (62, "A", "z")


SIGNALS = {part: RNG.normal(size=(n, 9, 128)).astype(np.float32) for part, n in (("train", 4), ("test", 2))}
HAR_LABELS = {"train": [1, 6, 3, 2], "test": [5, 4]}
SUBJECTS = {"train": [1, 1, 30, 30], "test": [2, 2]}


@pytest.mark.parametrize("packed", [True, False])
def test_har_from_text_in_both_layouts(data: Path, packed: bool) -> None:
    files = har(SIGNALS, HAR_LABELS, SUBJECTS)
    if packed:
        zipped(data / "UCI HAR Dataset.zip", {f"UCI HAR Dataset/{name}": content for name, content in files.items()})
    else:
        folder_of(data / "UCI HAR Dataset", files)
    x = np.concatenate([SIGNALS["train"], SIGNALS["test"]])
    raw = load("har")
    assert np.allclose(raw.x, x, atol=1e-6) and raw.x.dtype == np.float32
    assert raw.y.tolist() == [0, 5, 2, 1, 4, 3] and raw.class_names[5] == "laying"
    assert column(raw.client) == [1, 1, 30, 30, 2, 2] and raw.split is None
    mixed = load("har", layout="interleaved")
    assert mixed.x.shape == raw.x.shape
    # the ninth value of a "channel" is the first sensor again, one step later
    assert np.allclose(mixed.x[0, 0, :18], np.concatenate([x[0, :, 0], x[0, :, 1]]), atol=1e-6)


def test_har_from_npz_in_both_layouts(data: Path) -> None:
    x = SIGNALS["train"].astype(np.float16)
    np.savez(data / "har.npz", x=x, y=np.array([0, 5, 2, 1]), client=np.array([1, 1, 30, 30], np.uint8))
    raw, mixed = load("har"), load("har", layout="interleaved")
    assert (raw.x.dtype, raw.classes, raw.net) == (np.float16, 6, "har-cnn")
    assert (mixed.x.reshape(4, -1) == x.transpose(0, 2, 1).reshape(4, -1)).all()
    federation = build(DataSettings(name="har", partition="natural", pool="all", test_share=0.5, min_size=1), seed=0)
    assert [client.name for client in federation.clients] == ["1", "30"]


TEXT = "To be, or not to be: that is the question. " * 12


def test_shakespeare_from_lines(data: Path) -> None:
    rows = [{"client": "HAMLET", "text": TEXT}, {"client": "A Player", "text": "Short."}, {"client": "É", "text": TEXT}]
    put(data / "shakespeare.jsonl.gz", gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    raw = load("shakespeare", min_characters=100)
    assert (raw.kind, raw.classes, raw.vocabulary, raw.x.dtype) == ("tokens", 80, 82, np.uint8)
    assert raw.client_names == ("HAMLET", "É")
    letters = "".join(ALPHABET[token - 2] for token in raw.x[5])
    assert letters == TEXT[5:85] and ALPHABET[raw.y[5]] == TEXT[85]
    split = np.array(column(raw.split))[np.array(column(raw.client)) == 0]
    tested = len(TEXT) // 5
    assert [(split == part).sum() for part in (0, 1)] == [len(TEXT) - tested - 80, tested - 80], (
        "none crosses the border"
    )
    assert load("shakespeare", min_characters=100, stride=80).x.shape[0] < len(raw.y) / 40
    with pytest.raises(MotetError, match=r"no role says 1,000 characters.*data.min_characters"):
        load("shakespeare")


def test_shakespeare_from_leaf(data: Path) -> None:
    windows = [TEXT[n : n + 80] for n in range(30)]
    nexts = [TEXT[n + 80] for n in range(30)]
    put(data / "shakespeare/data/train/all_data_0.json", leaf({"HAMLET": (windows[:20], [*nexts[:19], "é"])}))
    put(data / "shakespeare/data/train/all_data_1.json", leaf({"OPHELIA": (windows, nexts)}))
    put(data / "shakespeare/data/test/all_data_0.json", leaf({"HAMLET": (windows[20:], nexts[20:]), "X": ([], [])}))
    raw = load("shakespeare", min_characters=100)
    assert len(raw.y) == 59, "nobody is asked for a character that is not in the alphabet"
    assert [ALPHABET[label] for label in raw.y] == nexts[:19] + nexts + nexts[20:]
    assert column(raw.split) == [0] * 49 + [1] * 10
    with pytest.raises(MotetError, match="no role says 1,000"):
        load("shakespeare")


OFFICIAL = '"3","Wall St. Bears","Short-sellers are seeing green again."\n"4","Moon, again","A ""big"" step"\n'


def test_agnews_in_its_forms(data: Path) -> None:
    put(data / "ag_news_csv" / "train.csv", OFFICIAL.encode())
    put(data / "ag_news_csv" / "test.csv", b'"1","World","unseen words green"\n')
    raw = load("agnews")
    assert (raw.kind, raw.classes, raw.y.tolist(), column(raw.split)) == ("tokens", 4, [2, 3, 0], [0, 0, 1])
    assert (raw.x[2][:5] != 0).sum() == 5 and (raw.x[2] == 1).sum() == 3, "words of test rows alone are unknown"
    put(data / "ag_news_csv" / "train.csv", b"Class Index,Title,Description\n" + OFFICIAL.encode())
    assert load("agnews").y.tolist() == [2, 3, 0]
    text = "split,label,text\ntrain,2,Wall St. Bears\ntrain,0,war\ntest,3,moon\n"
    put(data / "agnews.csv", text.encode())
    raw = load("agnews")
    assert (raw.y.tolist(), column(raw.split), raw.net) == ([2, 0, 3], [0, 0, 1], "fasttext")
