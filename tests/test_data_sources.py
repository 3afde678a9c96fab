"""Sources: what is found, what is read, and one sentence for every mistake."""

import gzip
import hashlib
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from test_partitions import DBE_FMNIST_COUNTS

from motet.data import SOURCES, DataSettings, build, counts_table, default_net, describe_sources, locations
from motet.data.readers.idx import read_idx
from motet.data.readers.raw import RawData
from motet.data.sources import load, mnist
from motet.data.sources.source import Download
from motet.errors import MotetError

SHARED_DATA = Path(os.environ.get("MOTET_DATA", Path(__file__).parents[2] / "shared" / "data"))
FMNIST = mnist.find_fashion()
needs_fmnist = pytest.mark.skipif(FMNIST is None, reason="Fashion-MNIST is not on this machine")
needs_har = pytest.mark.skipif(not (SHARED_DATA / "har.npz").is_file(), reason=f"no har.npz in {SHARED_DATA}")

IMAGES = np.arange(6 * 4 * 5, dtype=np.uint8).reshape(6, 4, 5)
LABELS = np.array([0, 1, 2, 0, 1, 2])


def npz(folder: Path, name: str = "own.npz", **fields: np.ndarray) -> str:
    np.savez(folder / name, **fields)
    return str(folder / name)


def refusal(name: str | Path) -> str:
    with pytest.raises(MotetError) as error:
        load(str(name))
    assert "\n" not in str(error.value)
    return str(error.value)


# registered data


def test_digits() -> None:
    raw = load("digits")
    assert (raw.x.shape, raw.x.dtype, raw.x.max(), raw.top, raw.classes) == ((1797, 8, 8, 1), np.uint8, 16, 16, 10)


def test_every_source_describes_itself() -> None:
    described = describe_sources()
    assert [entry["name"] for entry in described] == list(SOURCES)
    assert all(all(entry.values()) for entry in described)
    assert (default_net("digits"), default_net("fmnist")) == ("mlp", "cnn4")


def test_unknown_name_gets_the_nearest() -> None:
    assert "unknown data 'fmnst': did you mean 'fmnist'?" in refusal("fmnst")


@needs_fmnist
def test_fmnist_gives_dbe_table() -> None:
    settings = DataSettings(
        name="fmnist", partition="dirichlet-balanced:0.1", clients=20, partition_seed=1, pool="all", test_share=0.25
    )
    federation = build(settings, seed=0)
    assert [row["counts"] for row in counts_table(federation)] == DBE_FMNIST_COUNTS
    assert federation.input.shape == (1, 28, 28)
    assert federation.stored.x.dtype == torch.uint8


@needs_fmnist
def test_fmnist_training_pool_and_official_test() -> None:
    federation = build(DataSettings(name="fmnist", partition="iid", subset=0.2), seed=0)
    assert federation.stored.counts(10).tolist() == [1200] * 10
    assert federation.test.counts(10).tolist() == [1000] * 10


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without data: an empty MOTET_DATA, an empty cache, no Debian package."""
    monkeypatch.setenv("MOTET_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(locations, "ROOTS", (str(tmp_path / "prefix"),))
    return tmp_path


def write_fashion(folder: Path) -> Path:
    """Small files of the same format."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, n in (("train", 40), ("t10k", 20)):
        images = np.random.default_rng(n).integers(0, 256, n * 784, dtype=np.uint8)
        labels = (np.arange(n) % 10).astype(np.uint8)
        sizes = n.to_bytes(4, "big")
        pixels = b"\0\0\x08\x03" + sizes + (28).to_bytes(4, "big") * 2 + images.tobytes()
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(pixels))
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(b"\0\0\x08\x01" + sizes + labels.tobytes()))
    return folder


def fetched_from(folder: Path, digests: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let fmnist come from a folder instead of its address."""
    downloads = tuple(Download(f"{folder.as_uri()}/{name}", sha256) for name, sha256 in digests.items())
    monkeypatch.setitem(SOURCES, "fmnist", replace(mnist.FASHION, downloads=downloads))


def test_fmnist_nowhere_explains_the_options(nowhere: Path) -> None:
    sentence = refusal("fmnist")
    assert "not on this machine" in sentence
    assert all(option in sentence for option in ("dataset-fashion-mnist", "MOTET_DATA", "download = true"))


@pytest.mark.parametrize(
    "place", ["data", "data/fashion-mnist", "prefix/share/datasets/fashion-mnist", "cache/motet/fashion-mnist"]
)
def test_fmnist_is_found_wherever_it_may_lie(nowhere: Path, place: str) -> None:
    write_fashion(nowhere / place)
    raw = load("fmnist")
    assert raw.x.shape == (60, 28, 28, 1)
    assert raw.split is not None
    assert raw.split.tolist() == [0] * 40 + [1] * 20
    assert raw.x[40:].tobytes() == gzip.decompress((nowhere / place / "t10k-images-idx3-ubyte.gz").read_bytes())[16:]


def test_an_incomplete_folder_is_passed_over(nowhere: Path) -> None:
    (write_fashion(nowhere / "data") / "t10k-labels-idx1-ubyte.gz").unlink()
    assert "not on this machine" in refusal("fmnist")


def test_damaged_fmnist_files(nowhere: Path) -> None:
    folder = write_fashion(nowhere / "data")
    images, labels = folder / "train-images-idx3-ubyte.gz", folder / "train-labels-idx1-ubyte.gz"
    whole = images.read_bytes()
    images.write_bytes(whole[: len(whole) // 2])
    assert f"{images}: cannot be read" in refusal("fmnist")
    images.write_bytes(b"not gzip at all")
    assert f"{images}: cannot be read" in refusal("fmnist")
    images.write_bytes(whole[:500] + bytes(64) + whole[564:])
    assert f"{images}: cannot be read" in refusal("fmnist")
    images.write_bytes(labels.read_bytes())
    assert "not an IDX file of 3 dimensions (magic 0x801); accepted: 0x803" in refusal("fmnist")
    images.write_bytes(gzip.compress(b""))
    assert "not an IDX file" in refusal("fmnist")
    images.write_bytes(gzip.compress(gzip.decompress(whole)[:-1]))
    assert "accepted: 31376 bytes" in refusal("fmnist")
    images.write_bytes(whole)
    shutil.copy(folder / "t10k-labels-idx1-ubyte.gz", labels)
    assert "40 images but 20 labels in train" in refusal("fmnist")
    labels.write_bytes(gzip.compress(b"\0\0\x08\x01\0\0\0\x28" + b"\x0b" * 40))
    assert "label 11 in train; accepted: labels from 0 to 9" in refusal("fmnist")


def test_download_checks_every_file_and_fills_the_cache(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remote = write_fashion(nowhere / "remote")
    digests = {name: hashlib.sha256((remote / name).read_bytes()).hexdigest() for name in mnist.FASHION_SHA256}
    fetched_from(remote, digests, monkeypatch)
    assert load("fmnist", download=True).x.shape == (60, 28, 28, 1)
    assert sorted(p.name for p in (nowhere / "cache/motet/fmnist").iterdir()) == sorted(digests)
    shutil.rmtree(remote)
    assert load("fmnist").x.shape == (60, 28, 28, 1), "now it is in the cache"


def test_download_of_other_content_is_refused(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched_from(write_fashion(nowhere / "remote"), mnist.FASHION_SHA256, monkeypatch)
    with pytest.raises(MotetError, match=r"has SHA-256 [0-9a-f]{64}; accepted: 3aede38d"):
        load("fmnist", download=True)
    assert not [path for path in nowhere.rglob("cache/**/*") if path.is_file()]


def test_download_without_a_network(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched_from(nowhere / "gone", mnist.FASHION_SHA256, monkeypatch)
    with pytest.raises(MotetError, match="could not be fetched"):
        load("fmnist", download=True)


@needs_fmnist
def test_the_real_files_are_read_in_their_order() -> None:
    assert FMNIST is not None
    assert read_idx(FMNIST / "t10k-labels-idx1-ubyte.gz", 1)[:8].tolist() == [9, 2, 1, 1, 6, 1, 4, 6]


def test_mnist_from_the_users_file(nowhere: Path) -> None:
    assert "data 'mnist' is not on this machine; accepted: mnist.npz or train-images" in refusal("mnist")
    (nowhere / "data").mkdir()
    npz(nowhere / "data", "mnist.npz", x=IMAGES, y=LABELS, split=np.array([0, 0, 0, 0, 1, 1]))
    assert load("mnist").x.shape == (6, 4, 5, 1)


# bring your own


@pytest.mark.parametrize(
    ("x", "kind", "stored", "net"),
    [
        (np.zeros((6, 4, 5), np.uint8), "image", (6, 4, 5, 1), "mlp"),
        (np.zeros((6, 4, 5, 3), np.uint8), "image", (6, 4, 5, 3), "mlp"),
        (np.zeros((6, 3, 4, 5), np.uint8), "image", (6, 4, 5, 3), "mlp"),
        (np.zeros((6, 1, 4, 5), np.float64), "image", (6, 4, 5, 1), "mlp"),
        (np.zeros((6, 3, 5, 3), np.uint8), "image", (6, 3, 5, 3), "mlp"),
        (np.zeros((6, 9, 20), np.float16), "signal", (6, 9, 20), "mlp"),
        (np.zeros((6, 7), np.float64), "vector", (6, 7), "mlp"),
        (np.zeros((6, 7), np.uint8), "vector", (6, 7), "mlp"),
    ],
)
def test_accepted_shapes(tmp_path: Path, x: np.ndarray, kind: str, stored: tuple[int, ...], net: str) -> None:
    path = npz(tmp_path, x=x, y=LABELS)
    raw = load(path)
    assert (raw.kind, raw.x.shape, raw.classes) == (kind, stored, 3)
    assert raw.x.dtype == (np.float32 if x.dtype == np.float64 else x.dtype)
    assert default_net(path) == net


def test_channels_first_images_are_transposed_not_reshaped(tmp_path: Path) -> None:
    x = np.arange(2 * 3 * 4 * 5, dtype=np.uint8).reshape(2, 3, 4, 5)
    raw = load(npz(tmp_path, x=x, y=np.array([0, 1])))
    assert raw.x[1, 2, 3].tolist() == x[1, :, 2, 3].tolist()


def test_a_folder_is_one_client_per_file_in_name_order(tmp_path: Path) -> None:
    for name, value, n in (("b.npz", 2, 12), ("a.npz", 1, 15), ("c.npz", 3, 10)):
        y = np.arange(n) % 2
        npz(tmp_path, name, x=np.full((n, 4, 4), value, np.uint8), y=y, split=np.arange(n) % 5 // 4, client=y)
    federation = build(DataSettings(name=str(tmp_path), partition="natural", normalize="none"), seed=0)
    assert [client.train.x.unique().tolist() for client in federation.clients] == [[1], [2], [3]]
    assert len(federation.test) == 3 + 2 + 2
    dealt = build(DataSettings(name=str(tmp_path), partition="iid", clients=2), seed=0)
    assert len(dealt.clients) == 2


@needs_har
def test_har_has_thirty_natural_clients() -> None:
    federation = build(
        DataSettings(name=str(SHARED_DATA / "har.npz"), partition="natural", pool="all", test_share=0.25), seed=0
    )
    assert len(federation.clients) == 30
    assert (federation.classes, federation.input.shape, federation.default_net) == (6, (9, 128), "mlp")
    with np.load(SHARED_DATA / "har.npz") as file:
        per_subject = [np.bincount(file["y"][file["client"] == s], minlength=6).tolist() for s in range(1, 31)]
    assert [row["counts"] for row in counts_table(federation)] == per_subject
    batch, _ = federation.clients[0].train.batch(torch.arange(8))
    assert (batch.dtype, batch.shape) == (torch.float32, (8, 9, 128))


def _fields(**changes: np.ndarray | None) -> dict[str, np.ndarray]:
    fields = {"x": IMAGES, "y": LABELS} | changes
    return {name: value for name, value in fields.items() if value is not None}


FLOATS = np.zeros((6, 7), np.float32)
BROKEN = [
    (_fields(x=None), "field 'x' is missing; accepted: x, y and optionally split, client, domain"),
    (_fields(y=None), "field 'y' is missing"),
    (_fields(x=np.array([[{}]] * 6, dtype=object)), "field 'x' holds Python objects"),
    (_fields(y=np.array([None] * 6)), "field 'y' holds Python objects"),
    (_fields(x=np.array([["a", "b"]] * 6)), "field 'x' has dtype <U1; accepted: uint8, float16, float32, float64"),
    (_fields(x=np.zeros((6, 4), np.int64)), "field 'x' has dtype int64"),
    (_fields(x=np.zeros(6, np.float32)), "field 'x' has shape (6,); accepted: images"),
    (_fields(x=np.zeros((6, 2, 2, 2, 2), np.uint8)), "field 'x' has shape (6, 2, 2, 2, 2)"),
    (_fields(x=np.zeros((6, 5, 5, 7), np.uint8)), "field 'x' has shape (6, 5, 5, 7)"),
    (_fields(x=np.zeros((6, 0), np.float32)), "field 'x' has shape (6, 0)"),
    (_fields(x=np.where(np.eye(6, 7), np.nan, FLOATS)), "field 'x' holds NaN or infinite values"),
    (_fields(x=np.full((6, 7), 1e300)), "field 'x' holds NaN or infinite values"),
    (_fields(x=IMAGES[:0], y=LABELS[:0]), "field 'x' holds no samples; accepted: at least one"),
    (_fields(y=LABELS[:5]), "field 'y' has shape (5,); accepted: (6,)"),
    (_fields(y=LABELS[:, None]), "field 'y' has shape (6, 1); accepted: (6,)"),
    (_fields(y=LABELS / 2), "field 'y' has dtype float64; accepted: integers"),
    (_fields(y=LABELS.astype("S")), "field 'y' has dtype |S21; accepted: integers, or names as NumPy's str type"),
    (_fields(y=LABELS - 1), "field 'y' holds -1; accepted: integers from 0 to 65535"),
    (_fields(y=LABELS * 70_000), "field 'y' holds 70000; accepted: integers from 0 to 65535"),
    (_fields(y=LABELS * 0), "field 'y' holds only label 0; accepted: at least two classes"),
    (_fields(split=LABELS), "field 'split' holds 2; accepted: integers from 0 to 1"),
    (_fields(split=LABELS * 0 + 1), "field 'split' holds no 0; accepted: 0 for training rows, 1 for test rows"),
    (_fields(client=LABELS[:2]), "field 'client' has shape (2,); accepted: (6,)"),
    (_fields(domain=LABELS / 3), "field 'domain' has dtype float64; accepted: integers"),
]


@pytest.mark.parametrize(("fields", "sentence"), BROKEN, ids=[sentence[:40] for _, sentence in BROKEN])
def test_each_mistake_in_a_file_gets_its_sentence(tmp_path: Path, fields: dict[str, np.ndarray], sentence: str) -> None:
    path = npz(tmp_path, **fields)
    found = refusal(path)
    assert found.startswith(f"{path}: ")
    assert sentence in found
    assert "accepted" in found


def test_missing_damaged_and_foreign_files(tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    assert refusal(path) == f"{path}: no such file; accepted: an .npz file or a folder of .npz files"
    assert "no such file" in refusal(tmp_path / "nosuchfolder")
    path.write_bytes(b"hello")
    assert f"{path}: cannot be read as .npz" in refusal(path)
    np.save(tmp_path / "array.npy", LABELS)
    assert "cannot be read as .npz" in refusal(tmp_path / "array.npy")
    npz(tmp_path, x=np.random.default_rng(0).random((6, 100)), y=LABELS)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert f"{path}: cannot be read as .npz" in refusal(path)
    path.write_bytes(whole[:1000] + bytes(100) + whole[1100:])
    assert f"{path}: field 'x' holds Python objects or is damaged" in refusal(path)


def test_mistakes_in_a_folder(tmp_path: Path) -> None:
    assert "holds no .npz file; accepted: one .npz file per client" in refusal(tmp_path)
    npz(tmp_path, "a.npz", x=IMAGES, y=LABELS)
    second = npz(tmp_path, "b.npz", x=IMAGES[:, :2], y=LABELS)
    assert refusal(tmp_path) == (
        f"{second}: field 'x' has uint8 samples of stored shape (2, 5, 1); accepted: uint8 (4, 5, 1) as in a.npz"
    )
    npz(tmp_path, "b.npz", x=IMAGES, y=LABELS, domain=LABELS)
    assert f"{second}: field 'domain' is in some files of the folder" in refusal(tmp_path)
    npz(tmp_path, "b.npz", x=IMAGES, y=LABELS - 1)
    assert f"{second}: field 'y' holds -1" in refusal(tmp_path)
    npz(tmp_path, "a.npz", x=IMAGES, y=LABELS * 0)
    npz(tmp_path, "b.npz", x=IMAGES, y=LABELS * 0 + 1)
    assert load(str(tmp_path)).classes == 2, "one class per client is fine, one class in all is not"


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "sprung"),)

    refusal(npz(tmp_path, x=np.array([Trap()] * 6, dtype=object), y=LABELS))
    assert not (tmp_path / "sprung").exists()


def test_columns_reach_the_raw_data(tmp_path: Path) -> None:
    raw = load(
        npz(tmp_path, x=IMAGES, y=LABELS, client=LABELS + 5, domain=LABELS, split=LABELS // 2, note=np.array("hi"))
    )
    assert isinstance(raw, RawData)
    columns = [column.tolist() for column in (raw.client, raw.domain, raw.split) if column is not None]
    assert columns == [(LABELS + 5).tolist(), LABELS.tolist(), (LABELS // 2).tolist()]
