"""Data that somebody else made, by mistake or on purpose: no crash, no other program, no waiting, no memory for it."""

import gzip
import io
import json
import os
import random
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import torch
from PIL import Image
from test_data_hugging_face import OF_TEXTS, feature, texts, write
from torch.utils.data import Dataset

import motet
from motet.api.studies import seconds_of
from motet.cli import main
from motet.cli.options import number
from motet.config.data_section import Columns
from motet.config.experiment import resolve
from motet.data import DataSettings, build
from motet.data.partitions.registry import parse
from motet.data.prepare import VectorPrepare, restored
from motet.data.readers.archives import open_box
from motet.data.readers.image_files import read_images
from motet.data.readers.registry import load_own, preview_of_own
from motet.data.schema import read_schema
from motet.errors import MotetError
from motet.server.assembly import settle

WAIT = 240
"""Seconds that no refusal takes, whatever else the machine does."""


def python(code: str, *words: object, **more: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT, check=False, **more)


def refusal(path: Path, **columns: Any) -> str:
    with pytest.raises(MotetError) as caught:
        load_own(path, "auto", Columns(**columns))
    said = str(caught.value)
    assert "accepted: " in said and "\n" not in said
    return said


# ---------------------------------------------------------------- Arrow streams


def picture(value: int = 0, size: tuple[int, int] = (20, 20), form: str = "PNG") -> dict[str, Any]:
    file = io.BytesIO()
    Image.new("RGB", size, (value % 250, 0, 0)).save(file, form)
    return {"bytes": file.getvalue(), "path": None}


IMAGES = {"image": feature("Image"), "label": feature("ClassLabel", names=["a", "b"]), "who": feature("Value")}
CELLS = {"a": feature("Value"), "s": feature("Value"), "label": IMAGES["label"], "who": feature("Value")}


def streams() -> list[tuple[pa.Table, dict[str, Any], str]]:
    of_images = pa.Table.from_pylist([{"image": picture(i), "label": i % 2, "who": f"w{i % 3}"} for i in range(40)])
    cells = pa.Table.from_pylist(
        [{"a": i / 2, "s": f"c{i % 4}", "label": i % 2, "who": f"w{i % 3}"} for i in range(60)]
    )
    listed = cells.set_column(1, "s", cells["s"].dictionary_encode())
    return [
        (pa.Table.from_pylist(texts(90)), OF_TEXTS, "paper"),
        (of_images, IMAGES, "who"),
        (cells, CELLS, "who"),
        (listed, CELLS, "who"),
    ]


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Bytes changed, offsets far beyond or negative, a piece of noise, the end cut off."""
    changed, kind = bytearray(data), rng.randrange(4)
    if kind == 0:
        for _ in range(rng.choice([1, 3, 10, 40])):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
    elif kind == 1:
        for _ in range(rng.choice([1, 2, 5])):
            at = 4 * rng.randrange(len(changed) // 4 - 1)
            changed[at : at + 4] = rng.choice([b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\0\0\x10\0"])
    elif kind == 2:
        return data[: rng.randrange(len(data))]
    else:
        at = rng.randrange(len(changed))
        changed[at : at + 64] = rng.randbytes(64)
    return bytes(changed)


READ_ALL = """
import sys
from pathlib import Path
from motet.config.data_section import Columns
from motet.data.readers.registry import load_own, preview_of_own
from motet.errors import MotetError
from motet.server.assembly import settle
from motet.config.experiment import resolve
refused = 0
for line in sys.stdin:
    folder, client = line.split()
    for read in (preview_of_own, load_own):
        try:
            read(Path(folder), "auto", Columns(client=client))
        except MotetError:
            refused += 1
print(refused)
"""


def test_damaged_streams_never_end_the_interpreter(tmp_path: Path) -> None:
    rng, made = random.Random(7), streams()
    lines = []
    for case in range(160):
        table, features, client = made[case % len(made)]
        folder = write(tmp_path / f"c{case}", table, features, files=1)
        (stream,) = folder.glob("*.arrow")
        stream.write_bytes(damaged(stream.read_bytes(), rng))
        lines.append(f"{folder} {client}\n")
    done = python(READ_ALL, input="".join(lines))
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 80


def test_a_pipe_in_the_place_of_a_stream_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    folder = write(tmp_path / "d", *streams()[2][:2], files=1)
    (stream,) = folder.glob("*.arrow")
    stream.unlink()
    os.mkfifo(stream)
    done = python(READ_ALL, input=f"{folder} who\n")
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr


@pytest.mark.parametrize(
    "splits", [[["train"]], [{"train": 1}], {"train": 1}, [None], "train", [], ["train", ["test"]]]
)
def test_splits_that_are_no_names(tmp_path: Path, splits: Any) -> None:
    folder = write(tmp_path / "d" / "train", *streams()[2][:2], files=1).parent
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": splits}))
    assert "has the splits" in refusal(folder, client="who")


# ---------------------------------------------------------------- images


def of_pictures(folder: Path, cells: list[dict[str, Any]]) -> Path:
    rows = [{"image": cell, "label": i % 2, "who": f"w{i % 3}"} for i, cell in enumerate(cells)]
    return write(folder, pa.Table.from_pylist(rows), IMAGES, files=1)


@pytest.mark.parametrize("form", ["EPS", "ICO", "PCX", "PDF"])
def test_no_picture_starts_another_program(tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An EPS is made of PostScript, which Pillow hands to Ghostscript."""
    started = tmp_path / "started"
    for name in ("gs", "gswin32c"):
        (tmp_path / name).write_text(f"#!/bin/sh\ntouch {started}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    folder = of_pictures(tmp_path / "d", [picture(i, (16, 16), form) for i in range(30)])
    assert "holds an image that cannot be read" in refusal(folder, client="who")
    assert not started.exists()


@pytest.mark.parametrize("size", [(13_000, 13_000), (9_000, 9_000), (5_000, 20)])
def test_the_size_of_a_picture_is_known_before_a_pixel_is_decoded(
    tmp_path: Path, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = io.BytesIO()
    Image.new("1", size).save(file, "PNG")
    folder = of_pictures(tmp_path / "d", [{"bytes": file.getvalue(), "path": None}] * 6)

    def never(*_: object, **__: object) -> None:
        raise AssertionError("decoded")

    monkeypatch.setattr(Image.Image, "convert", never)
    monkeypatch.setattr(Image.Image, "load", never)
    assert "of at most 4096x4096 pixels" in refusal(folder, client="who")


def test_small_pictures_get_a_net_that_takes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = of_pictures(tmp_path / "d", [picture(i, (8, 8)) for i in range(60)])
    assert preview_of_own(folder, "auto", Columns(client="who")).sides == (8, 8)
    assert settle(resolve({"data": {"name": str(folder), "client": "who"}})).net.name == "mlp"
    assert motet.run(data=str(folder), client="who", rounds=1).summary.rounds == 1


def test_what_is_cached_of_pictures_is_for_their_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("motet.data.readers.image_files.LEAST_CACHED", 1)
    (tmp_path / "pets" / "cat").mkdir(parents=True)
    (tmp_path / "pets" / "cat" / "a.png").write_bytes(picture()["bytes"])
    before = os.umask(0o022)
    try:
        with open_box(tmp_path / "pets") as box:
            read_images(box, box.files, DataSettings())
    finally:
        os.umask(before)
    (cached,) = (tmp_path / "cache" / "motet" / "images").iterdir()
    assert stat.S_IMODE(cached.stat().st_mode) == 0o600


# ---------------------------------------------------------------- tables


def late(path: Path, columns: int, rows: int) -> Path:
    """Columns of numbers that become text in the last row."""
    lines = [",".join([*(f"c{i}" for i in range(columns)), "y"])]
    lines += [",".join([*(str((7 * row + i) % 50) for i in range(columns)), "ab"[row % 2]]) for row in range(rows)]
    path.write_text("\n".join([*lines, ",".join(["x"] * columns + ["a"]), ""]))
    return path


def test_columns_that_become_text_late_are_found_in_one_walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from motet.data.readers import batches

    walks = []
    opened = batches._csv_reader
    monkeypatch.setattr(batches, "_csv_reader", lambda *asked: walks.append(1) or opened(*asked))
    raw = load_own(late(tmp_path / "t.csv", 300, 3_000), "auto", Columns(label="y"))
    assert raw.x.shape == (3_001, 300) and len(walks) <= 4
    assert len(raw.notes) < 20, "300 columns are no 300 sentences"


def test_more_columns_than_anybody_learns_from_are_refused_at_once(tmp_path: Path) -> None:
    names = ",".join(f"c{i}" for i in range(100_000))
    (tmp_path / "t.csv").write_text(f"{names},y\n" + ("1," * 100_000 + "a\n") * 3)
    assert "has 100,001 columns; accepted: at most " in refusal(tmp_path / "t.csv", label="y")


def test_an_archive_of_empty_lines_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"a,y\n1,b\n")
        for _ in range(100):
            file.write(b"\n" * 10_000_000)
    said = python(
        "import sys; from motet.cli import main; sys.exit(main(sys.argv[1:]))", "data", "show", path, "--label", "y"
    )
    assert said.returncode == 2 and "holds more than 1,000,000 empty lines" in said.stderr


def test_one_long_text_is_no_reason_to_refuse_a_table(tmp_path: Path) -> None:
    lines = [f"{i % 7},{'w' * 3_000_000 if i == 5 else 'short'},{'ab'[i % 2]}" for i in range(100)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["a,t,y", *lines, ""]))
    assert len(load_own(path, "auto", Columns(label="y")).y) == 100
    path.write_text("\n".join(["a,t,y", f"1,{'w' * 20_000_000},a", *lines, ""]))
    assert "the row that begins in line 2 has more than 16,777,216 bytes" in refusal(path, label="y")


GOOD = [f'{20 + i % 50},"note, {i}",h{i % 3},{("no", "yes")[i % 4 == 0]}' for i in range(120)]


def quoted(path: Path, *changed: tuple[int, str]) -> Path:
    lines = ["age,note,hospital,outcome", *GOOD]
    for at, line in changed:
        lines[at] = line
    path.write_text("\n".join([*lines, ""]))
    return path


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ([(10, '30,"open,h1,no')], "line 11"),
        ([(10, '30,"open,h1,no'), (77, '31,x",h1,no')], "line 11"),
        ([(10, '30,"open,h1,no'), (11, '31,"next,h1,no')], "line 11"),
        ([(10, '"30,open,h1,no'), (77, '31,x,h1,"no')], "line 11"),
        ([(10, '30,x,h1,"no'), (14, '31,x,h1,"no"')], "line 11"),
    ],
)
def test_stray_quotes_swallow_no_rows(tmp_path: Path, changed: list[tuple[int, str]], said: str) -> None:
    plain = [(i, f"{20 + i % 50},n{i},h{i % 3},{('no', 'yes')[i % 4 == 0]}") for i in range(1, 121)]
    for before in ([], plain):
        path = quoted(tmp_path / "t.csv", *before, *changed)
        found = refusal(path, label="outcome", client="hospital")
        assert "quote" in found or "Expected 4 columns" in found
        if before and "Expected" not in found:
            assert said in found


def test_texts_of_several_lines_are_texts(tmp_path: Path) -> None:
    text = '"Dear all,\nthe patient, who is 40,\nis well.\n\nYours, ""B"""'
    path = quoted(tmp_path / "t.csv", *[(i, f"{i % 60},{text},h{i % 3},{('no', 'yes')[i % 2]}") for i in range(1, 121)])
    raw = load_own(path, "auto", Columns(label="outcome", client="hospital"))
    assert len(raw.y) == 120 and len(raw.client_names) == 3
    path = quoted(tmp_path / "t.csv", (7, '30,5" pipe,h1,no'), (9, '30,6" pipe,h1,no'), (11, '30,7" pipe,h1,no'))
    assert len(load_own(path, "auto", Columns(label="outcome", client="hospital")).y) == 120


def test_a_survey_is_the_same_wherever_pieces_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = quoted(
        tmp_path / "t.csv", *[(i, f'{i},"a ""b"",\nc {i}",h{i % 3},{("no", "yes")[i % 2]}') for i in range(1, 90)]
    )
    for size in (1, 2, 3, 7, 50, 1000):
        monkeypatch.setattr("motet.data.readers.survey._CHUNK", size)
        assert len(load_own(path, "auto", Columns(label="outcome")).y) == 120


@pytest.mark.parametrize("place", ["a", "y", "who"])
def test_parquet_with_text_that_is_none(tmp_path: Path, place: str) -> None:
    sound = {"a": ["p", "q"] * 30, "y": ["no", "yes"] * 30, "who": ["u", "v", "w"] * 20}
    wrong = pa.array([b"\xff\xfe", b"ok"] * 30, pa.binary()).cast(pa.binary()).view(pa.string())
    table = pa.table({**{name: pa.array(values) for name, values in sound.items()}, place: wrong})
    parquet.write_table(table, tmp_path / "t.parquet")
    found = refusal(tmp_path / "t.parquet", label="y", client="who")
    assert f"column {place!r} holds text that is not UTF-8" in found


# ---------------------------------------------------------------- LEAF's files


def femnist(folder: Path, **users: Any) -> Path:
    sound = {f"u{k}": {"x": [[0.5] * 784] * 10, "y": [i % 5 for i in range(10)]} for k in range(4)}
    (folder / "femnist" / "all_data").mkdir(parents=True, exist_ok=True)
    text = json.dumps({"users": [], "num_samples": [], "user_data": {**sound, **users}})
    (folder / "femnist" / "all_data" / "a.json").write_text(text)
    return folder


@pytest.mark.parametrize("y", [None, [None], ["3"], [True], [3.0], [62]])
def test_femnist_with_labels_that_are_none(tmp_path: Path, y: Any) -> None:
    with pytest.raises(MotetError, match="user 'n'"):
        build(DataSettings(name="femnist", dir=str(femnist(tmp_path, n={"x": [[0.5] * 784], "y": y}))), 0)


def test_femnist_users_without_samples_are_named(tmp_path: Path) -> None:
    place = str(femnist(tmp_path, n={"x": [], "y": []}))
    assert build(DataSettings(name="femnist", dir=place), 0).notes[0] == "1 users without samples take no part: 'n'"


def test_one_role_is_no_federation(tmp_path: Path) -> None:
    said = "to be, or not to be, that is the question. " * 50
    lines = [json.dumps({"client": "HAMLET", "text": said}), json.dumps({"client": "GHOST", "text": "Mark me."})]
    (tmp_path / "shakespeare.jsonl").write_text("\n".join(lines))
    with pytest.raises(MotetError, match=r"only role 'HAMLET' says 1,000 characters .* accepted: two roles or more"):
        build(DataSettings(name="shakespeare", dir=str(tmp_path)), 0)
    lines += [json.dumps({"client": "OPHELIA", "text": said})]
    (tmp_path / "shakespeare.jsonl").write_text("\n".join(lines))
    notes = build(DataSettings(name="shakespeare", dir=str(tmp_path)), 0).notes
    assert notes[0] == "1 roles that say less than data.min_characters take no part: 'GHOST'"


# ---------------------------------------------------------------- in memory

X, Y = np.zeros((120, 3), np.float32), np.arange(120) % 2


def frame(**columns: Any) -> pd.DataFrame:
    usual = {"v": np.arange(120) / 7, "y": ["a", "b"] * 60, "s": ["u", "v", "w"] * 40}
    made = pd.DataFrame(index=range(120))
    for name, values in {**usual, **columns}.items():
        made[name] = pd.Series(values, dtype=object if isinstance(values, list) else None)
    return made


class Claims(Dataset[Any]):
    """As many samples as it says, which nobody has."""

    def __init__(self, count: int):
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, at: int) -> tuple[torch.Tensor, int]:
        return torch.zeros(3), at % 2


@pytest.mark.parametrize(
    ("data", "more"),
    [
        (frame(v=[2**70] * 120), {"label": "y", "client": "s"}),
        (frame(y=[2**70, 2**71] * 60), {"label": "y", "client": "s"}),
        (frame(y=["a\ud800", "b"] * 60), {"label": "y", "client": "s"}),
        (frame(), {"label": "y\ud800", "client": "s"}),
        ((X, [2**70, 1] * 60), {}),
        ((X, np.array(["a\ud800", "b"] * 60)), {}),
        ((X, Y), {"client": [2**70, 1, 2] * 40}),
        ((X, Y), {"client": np.array([2**64 - 1, 1, 2] * 40, np.uint64)}),
        ((torch.zeros(120, 3, device="meta"), torch.zeros(120, dtype=torch.int64)), {}),
        ((torch.zeros(120, 3), torch.zeros(120, device="meta")), {}),
        (Claims(10**12), {}),
    ],
)
def test_what_no_file_can_hold_is_refused_in_one_sentence(data: Any, more: dict[str, Any]) -> None:
    with pytest.raises(MotetError) as caught:
        motet.run(data=data, rounds=1, **more)
    assert "\n" not in str(caught.value)


def test_an_error_of_a_users_own_dataset_is_his() -> None:
    class Mine(Claims):
        def __getitem__(self, at: int) -> tuple[torch.Tensor, int]:
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        motet.run(data=Mine(100), rounds=1)


LONG_RUN = """
import numpy as np, motet
motet.run(data=(np.zeros((300, 40), np.float32), np.arange(300) % 2), client=np.arange(300) % 3, rounds=1000000)
"""


@pytest.mark.slow
def test_a_killed_run_leaves_no_data_behind_for_long(tmp_path: Path) -> None:
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen([sys.executable, "-c", LONG_RUN], env=env, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + WAIT
        while not list(tmp_path.glob("motet-scratch-*/in-memory.npz")) and time.monotonic() < until:
            time.sleep(0.1)
        (kept, *_) = tmp_path.glob("motet-scratch-*/in-memory.npz")
        assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
        others = python("from motet.data.readers.in_memory import new_scratch_folder as made; made()", env=env)
        assert others.returncode == 0 and kept.exists(), "its owner is alive"
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(WAIT)
    python("from motet.data.readers.in_memory import new_scratch_folder as made; made()", env=env)
    assert not list(tmp_path.glob("motet-scratch-*/*"))


# ---------------------------------------------------------------- bounds


def schema(folder: Path, text: str) -> str:
    (folder / "s.toml").write_text(text)
    with pytest.raises(MotetError) as caught:
        read_schema(str(folder / "s.toml"))
    return str(caught.value)


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ('mean = "1.5"', "mean is '1.5'; accepted: a number"),
        ("mean = true", "mean is True; accepted: a number"),
        ('deviation = "2"', "deviation is '2'; accepted: a number"),
        ("deviation = true", "deviation is True"),
        ('fill = "3"', "fill is '3'"),
        ("mean = 1e20", "mean is 1e+20 and deviation 1; accepted: a mean of at most 1e+12 deviations"),
        ("mean = 5.0\ndeviation = 1e-12", "mean is 5 and deviation 1e-12"),
    ],
)
def test_a_schema_of_wrong_numbers(tmp_path: Path, column: str, said: str) -> None:
    found = schema(tmp_path, f'label = "y"\nclasses = ["a", "b"]\n[columns.age]\nkind = "number"\n{column}\n')
    assert "column 'age'" in found and said in found


def test_a_schema_that_is_not_of_these_numbers(tmp_path: Path) -> None:
    lines = [f"{20 + i % 50},{'ab'[i % 2]}" for i in range(100)]
    (tmp_path / "t.csv").write_text("\n".join(["age,y", *lines, ""]))
    text = 'label = "y"\nclasses = ["a", "b"]\n[columns.age]\nkind = "number"\ndeviation = 1e-12\n'
    (tmp_path / "s.toml").write_text(text)
    found = refusal(tmp_path / "t.csv", schema=str(tmp_path / "s.toml"))
    assert "column 'age' holds 20, but the schema says mean 0 and deviation 1e-12" in found


def test_schemas_without_end(tmp_path: Path) -> None:
    many = ",".join(f'"{i}"' for i in range(200_000))
    plain = '[columns.a]\nkind = "number"\n'
    assert "classes has 200,000 names; accepted: at most" in schema(tmp_path, f'label="y"\nclasses=[{many}]\n{plain}')
    category = f'[columns.a]\nkind = "category"\ncategories = [{many}]\n'
    assert "categories has 200,000 names" in schema(tmp_path, f'label="y"\nclasses=["a","b"]\n{category}')


def test_more_than_a_net_can_take_is_refused_by_the_header(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "wide.npz", x=np.zeros((3, 1_000_000), np.float32), y=np.arange(3) % 2)
    with pytest.raises(MotetError, match="has 1,000,000 features; accepted: at most 500,000"):
        preview_of_own(tmp_path / "wide.npz")
    np.savez(tmp_path / "v.npz", x=np.arange(40).reshape(10, 4), y=np.arange(10) % 2, kind="tokens", vocabulary=10**7)
    assert "field 'vocabulary' is 10000000; accepted: one whole number from 40 to 1000000" in refusal(
        tmp_path / "v.npz"
    )
    for words in (
        {"kind": "tokens", "shape": [4], "vocabulary": 10**7, "constants": False},
        {"kind": "vector", "shape": [10**6], "vocabulary": 0, "constants": False},
        {"kind": "text", "unit": "word", "known": ["w"] * 30_000, "length": 4, "column": "t"},
    ):
        with pytest.raises(ValueError):
            restored(words, {})


@pytest.mark.parametrize("x", [np.ones((2, 3), complex), np.full((2, 3), 2**62), np.full((2, 3), 2**63, np.uint64)])
def test_samples_that_no_model_takes(x: Any) -> None:
    with pytest.raises(MotetError, match="input x h"):
        VectorPrepare((3,)).stored(x)


def test_rows_of_complex_numbers(tmp_path: Path) -> None:
    lines = [f"{20 + i % 50},{'ab'[i % 2]}" for i in range(100)]
    (tmp_path / "t.csv").write_text("\n".join(["age,y", *lines, ""]))
    prepare = build(DataSettings(name=str(tmp_path / "t.csv"), label="y", partition="iid", clients=2), 0).prepare
    with pytest.raises(MotetError, match="input x has dtype complex128; accepted: real numbers"):
        prepare.stored(np.ones((2, 1), complex))


def test_numbers_in_other_digits_are_no_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(MotetError, match="--time is '٣m'"):
        seconds_of("٣m")
    assert number("٣") == "٣" and number("٣.٥") == "٣.٥" and number("3") == 3
    for spec in ("shards:٣", "dirichlet:٠.٣"):
        with pytest.raises(MotetError, match="has argument"):
            parse(spec)
    assert main(["data", "show", "digits", "--clients", "٣"]) == 2
    assert "data.clients is '٣'" in capsys.readouterr().err
