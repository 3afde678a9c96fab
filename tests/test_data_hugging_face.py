"""Folders that `datasets.save_to_disk` wrote: images, texts and tables, and the texts that their models take."""

import io
import json
import shutil
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from own_tables import rows_of
from PIL import Image
from torch import nn

import motet
from motet.data import DataSettings, Federation, Input, build
from motet.data.prepare import restored
from motet.data.prepare_text import TextPrepare
from motet.errors import MotetError
from motet.nets import Net

CLASSES = ("sport", "art", "money")
WORDS = {"sport": "goal team win", "art": "paint stage song", "money": "bank share tax"}


def write(folder: Path, table: pa.Table, features: dict[str, Any], files: int = 2) -> Path:
    """As `datasets` does: Arrow streams, a list of them, and what the columns are."""
    folder.mkdir(parents=True)
    names = [f"data-{i:05}-of-{files:05}.arrow" for i in range(files)]
    size = -(-len(table) // files)
    for i, name in enumerate(names):
        part = table.slice(i * size, size)
        with pa.OSFile(str(folder / name), "wb") as sink, pa.ipc.new_stream(sink, part.schema) as stream:
            stream.write_table(part, max_chunksize=40)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    (folder / "dataset_info.json").write_text(json.dumps({"features": features}))
    return folder


def texts(count: int, seed: int = 0) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(count):
        words = [*WORDS[CLASSES[i % 3]].split(), "the", f"rare{rng.integers(1000)}"]
        rows.append({"text": " ".join(rng.permutation(words)).upper(), "label": i % 3, "paper": f"paper {i % 4}"})
    return rows


def feature(kind: str, **more: Any) -> dict[str, Any]:
    return {"_type": kind, **more}


OF_TEXTS = {"text": feature("Value"), "label": feature("ClassLabel", names=list(CLASSES)), "paper": feature("Value")}


@pytest.fixture
def of_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for split, count in (("test", 30), ("train", 120)):
        write(Path("news") / split, pa.Table.from_pylist(texts(count, len(split))), OF_TEXTS)
    Path("news/dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    return Path("news")


def federation_of(path: Path, **settings: Any) -> Federation:
    return build(DataSettings(name=str(path), **settings), seed=0)


def test_what_the_library_itself_writes(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="Hugging Face's datasets is not installed")
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=list(CLASSES))})
    rows = [{"text": row["text"], "label": row["label"]} for row in texts(90)]
    made = datasets.Dataset.from_list(rows, features=features).shuffle(seed=1)
    made.save_to_disk(tmp_path / "one")
    datasets.DatasetDict({"train": made, "test": made.select(range(30))}).save_to_disk(tmp_path / "two")
    one, two = (federation_of(tmp_path / name, clients=3, partition="iid") for name in ("one", "two"))
    assert one.class_names == two.class_names == CLASSES
    assert one.input.kind == "tokens"
    assert (len(one.test), len(two.test), sum(len(c.train) + len(c.test) for c in two.clients)) == (18, 30, 90)


# ---------------------------------------------------------------- texts


def test_texts_with_an_official_test_set(of_texts: Path) -> None:
    federation = federation_of(of_texts, client="paper")
    assert [client.name for client in federation.clients] == [f"paper {i}" for i in range(4)]
    assert federation.class_names == CLASSES  # in their own order, not in that of the alphabet
    assert len(federation.test) == 30 and len(federation.stored) == 120
    assert federation.test.y.bincount().tolist() == [10, 10, 10]


def test_the_vocabulary_is_that_of_training_rows(of_texts: Path) -> None:
    federation = federation_of(of_texts, client="paper", new_clients=0.25)
    prepare = federation.prepare
    assert isinstance(prepare, TextPrepare) and prepare.larger is not None
    texts = Counter(t for c in federation.clients if not c.new for row in c.train.x for t in row.unique().tolist())
    known = {prepare.larger.known[t - 2] for t, rows in texts.items() if t > 1 and rows >= 5}
    assert set(prepare.tokenizer.known) == known
    assert prepare.tokenizer.known[0] == "the"  # in every text
    assert len(prepare.larger.known) > len(known)  # of tests and of the new client
    x, _ = next(federation.test.all_batches(30))
    assert x.max() < federation.input.vocabulary == len(known) + 2
    assert (x == 1).any()  # a word that training never saw


def test_a_text_is_prepared_as_a_stored_one(of_texts: Path) -> None:
    prepare = federation_of(of_texts, client="paper").prepare
    assert isinstance(prepare, TextPrepare)
    again = restored(*prepare.saved())
    expected = [prepare.tokenizer.known.index(word) + 2 for word in ("the", "goal", "team")]
    for each in (prepare, again):
        for x in ("The GOAL unheard, team", ["The GOAL unheard, team"], {"text": "The GOAL unheard, team"}):
            row = each.raw(x)[0].tolist()
            assert [token for token in row if token > 1] == expected
        with pytest.raises(MotetError, match="where a text belongs; accepted: a text, a list of texts, or rows with"):
            each.raw([{"txt": "a"}])
        with pytest.raises(MotetError, match="where a text belongs"):
            each.raw(["a", None])


class Bag(nn.Module):
    """The mean of its words."""

    def __init__(self, input: Input):
        super().__init__()
        self.words = nn.Embedding(input.vocabulary, 8, padding_idx=0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.words(x).mean(1)


def bag_of_words(input: Input, classes: int, split: str | None) -> Net:
    return Net(OrderedDict(words=Bag(input), last=nn.Linear(8, classes)), input, split)


def test_texts_are_learned_and_predicted(of_texts: Path) -> None:
    result = motet.run(
        data="news",
        client="paper",
        net="test_data_hugging_face:bag_of_words",
        rounds=15,
        lr=0.5,
        **{"engine.name": "inline"},
    )
    shutil.rmtree("news")
    model = result.personal_model("paper 2")
    rows = texts(30, 9)
    found = model([row["text"] for row in rows]).argmax(1)
    assert (found == torch.tensor([row["label"] for row in rows])).float().mean() > 0.9


def test_a_table_with_one_column_of_texts(tmp_path: Path) -> None:
    path = tmp_path / "news.csv"
    path.write_text("\n".join(["text,topic,size", *(f"{r['text']},{CLASSES[r['label']]},3" for r in texts(90))]))
    federation = federation_of(path, label="topic", kind="tokens", clients=3, partition="iid")
    assert federation.input.kind == "tokens" and federation.notes[0] == "left out, as texts alone are read: 'size'"
    with pytest.raises(MotetError, match=r"2 columns of text .*topic"):
        federation_of(path, label="size", kind="tokens")


# ---------------------------------------------------------------- images and tables


def picture(shade: int, size: tuple[int, int] = (16, 16), mode: str = "L") -> dict[str, Any]:
    buffer = io.BytesIO()
    Image.new(mode, size, shade if mode == "L" else (shade, 0, 0)).save(buffer, "PNG")
    return {"bytes": buffer.getvalue(), "path": None}


OF_IMAGES = {"image": feature("Image"), "label": feature("ClassLabel", names=["dark", "light"])}


@pytest.mark.parametrize(("mode", "channels"), [("L", 1), ("RGB", 3)])
def test_images(tmp_path: Path, mode: str, channels: int) -> None:
    rows = [{"image": picture(50 + 150 * (i % 2), mode=mode), "label": i % 2} for i in range(60)]
    path = write(tmp_path / "images", pa.Table.from_pylist(rows), OF_IMAGES)
    federation = federation_of(path, clients=3, partition="iid")
    assert federation.input == Input("image", (channels, 16, 16))
    assert federation.stored.x.dtype == torch.uint8
    assert all(
        int(x[0, 0, 0]) == 50 + 150 * int(y) for x, y in zip(federation.stored.x, federation.stored.y, strict=True)
    )
    assert federation.class_names == ("dark", "light")


def test_a_table(tmp_path: Path) -> None:
    table = pa.Table.from_pylist([{**row, "alcohol": float(row["alcohol"] or "nan")} for row in rows_of("wine")])
    path = write(tmp_path / "wine", table, {name: feature("Value") for name in table.column_names})
    federation = federation_of(path, label="kind", client="site", leave_out=("ash",))
    assert federation.input.kind == "vector" and len(federation.clients) == 3


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda p: (p / "state.json").write_text("{}"), "state.json names no data files"),
        (lambda p: (p / "state.json").write_text("[" * 99), "cannot be read"),
        (
            lambda p: (p / "state.json").write_text('{"_data_files": [{"filename": "../x.arrow"}]}'),
            "names no data files",
        ),
        (lambda p: (p / "dataset_info.json").write_text("{}"), "describes no features"),
        (lambda p: next(p.glob("*.arrow")).unlink(), "cannot be read"),
        (lambda p: next(p.glob("*.arrow")).write_bytes(b"\0" * 99), "cannot be read|holds no rows"),
        (lambda p: _cut(next(p.glob("*.arrow"))), "cannot be read"),
    ],
)
def test_damaged_folders(tmp_path: Path, damage: Any, said: str) -> None:
    path = write(tmp_path / "news", pa.Table.from_pylist(texts(60)), OF_TEXTS)
    damage(path)
    with pytest.raises(MotetError, match=said):
        federation_of(path, clients=3, partition="iid", leave_out=("paper",))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-400])


def test_images_that_cannot_be_read(tmp_path: Path) -> None:
    for name, cell, said in (
        ("broken", {"bytes": b"no picture", "path": None}, "holds an image that cannot be read"),
        ("elsewhere", {"bytes": None, "path": "a.png"}, "lacks an image or only names its file"),
        ("other", picture(3, (8, 16)), r"holds images of \(16, 8\) and of \(16, 16\); accepted: one size"),
    ):
        rows = [{"image": picture(9), "label": 0}, {"image": cell, "label": 1}] * 20
        path = write(tmp_path / name, pa.Table.from_pylist(rows), OF_IMAGES)
        with pytest.raises(MotetError, match=said):
            federation_of(path, clients=2, partition="iid")


def test_rows_without_a_class_are_dropped_from_both_splits(tmp_path: Path) -> None:
    """-1 is no class in such folders."""
    folder = tmp_path / "d"
    for split, count in (("train", 90), ("test", 30)):
        rows = [{**row, "label": -1 if i % 10 == 0 else row["label"]} for i, row in enumerate(texts(count))]
        write(folder / split, pa.Table.from_pylist(rows), OF_TEXTS)
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    with pytest.raises(MotetError, match=r"column 'label' has no label in 12 of 120 rows, .* or --drop-missing"):
        federation_of(folder, client="paper")
    federation = federation_of(folder, client="paper", drop_missing=True)
    assert len(federation.stored) == 81 and len(federation.test) == 27
    assert federation.notes[0] == "12 of 120 rows were dropped: 12 without a label"
    with pytest.raises(MotetError, match=r"data.encoding is 'latin-1', but .* holds no CSV"):
        federation_of(folder, client="paper", encoding="latin-1")
