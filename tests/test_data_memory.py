"""Data that a script has in memory: arrays, data frames, Arrow tables, torch data sets; kept with the run."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pytest
import torch
from own_tables import SITES, rows_of, write_csv
from sklearn.datasets import load_wine
from torch.utils.data import Dataset, TensorDataset

import motet
from motet.data.readers import in_memory
from motet.errors import MotetError
from motet.runs.record import Record

WINE = load_wine()
X, Y = WINE.data.astype(np.float32), WINE.target
CLIENT = np.array(SITES)[np.arange(len(Y)) % 3]
TINY: dict[str, Any] = {"rounds": 2, "epochs": 1, "engine.name": "inline"}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporary folders are in one of the test's own, to see what is left."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))


@pytest.fixture
def frame() -> pandas.DataFrame:
    return pandas.read_csv(write_csv(rows_of("wine"), Path("wine.csv")))


def figures(result: motet.Result) -> dict[str, float]:
    return {name: value for name, value in result.figures.items() if "seconds" not in name}


def test_arrays_are_what_their_file_would_be() -> None:
    np.savez("own.npz", x=X, y=Y, client=CLIENT)
    from_file = motet.run(data="own.npz", client="client", **TINY)
    from_memory = motet.run(data=(X, Y), client=CLIENT, **TINY)
    assert figures(from_memory) == figures(from_file)
    assert from_memory.client_names == list(SITES)  # a client for each: the natural partition
    also = motet.run(data={"x": X, "y": Y, "client": CLIENT}, partition="natural", **TINY)
    assert figures(also) == figures(from_file) and also.summary.data == from_memory.summary.data
    other = motet.run(data=(torch.from_numpy(X), list(Y)), partition="iid", clients=3, **TINY)
    assert other.client_names == ["0", "1", "2"]


def test_a_frame_is_what_its_file_would_be(frame: pandas.DataFrame) -> None:
    named = {"label": "kind", "client": "site", "leave_out": "ash"}
    from_file = motet.run(data="wine.csv", **named, **TINY)
    from_frame = motet.run(data=frame, **named, **TINY)
    from_arrow = motet.run(data=pa.Table.from_pandas(frame), **named, **TINY)
    assert figures(from_frame) == figures(from_arrow) == figures(from_file)
    assert from_frame.summary.data == from_arrow.summary.data
    assert from_frame.class_names == ["class class_0", "class class_1", "class class_2"]


class Rows(Dataset[tuple[torch.Tensor, int]]):
    """A data set that makes its samples when asked."""

    def __len__(self) -> int:
        return len(Y)

    def __getitem__(self, row: int) -> tuple[torch.Tensor, int]:
        return torch.from_numpy(X[row]), int(Y[row])


def test_torch_data_sets() -> None:
    arrays, tensors, rows = (
        motet.run(data=data, clients=3, partition="iid", **TINY)
        for data in ((X, Y), TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)), Rows())
    )
    assert figures(arrays) == figures(tensors) == figures(rows)
    images = TensorDataset(torch.rand(60, 3, 16, 16), torch.arange(60) % 3)
    assert motet.run(data=images, clients=2, partition="iid", net="mlp", **TINY).figures


def test_the_pool_has_them_too() -> None:
    pooled = motet.run(data=(X, Y), client=CLIENT, rounds=2, epochs=1, **{"engine.name": "pool", "engine.workers": 2})
    assert figures(pooled) == figures(motet.run(data=(X, Y), client=CLIENT, **TINY))


# ---------------------------------------------------------------- kept with the run


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in another process, which was handed nothing."""
    monkeypatch.setattr(in_memory, "_places", {})


def test_the_record_says_so_and_has_a_copy(frame: pandas.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    motet.run(data=frame, label="kind", client="site", method="fedavg+ft", out="run", **TINY)
    experiment = Record(Path("run")).experiment
    assert experiment.data.name.startswith("in-memory-") and Path("run/in-memory.parquet").is_file()
    forget(monkeypatch)
    shutil.move("run", "elsewhere")
    model = motet.load("elsewhere").personal_model("Bern")  # which is made of the client's own rows
    assert model(frame[:2]).shape == (2, 3)
    Path("elsewhere/in-memory.parquet").unlink()
    with pytest.raises(MotetError, match=r"were in the memory of the process that ran, and no copy is here"):
        forget(monkeypatch)
        motet.load("elsewhere").personal_model("Bern")


def test_a_stopped_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = motet.run(data=(X, Y), client=CLIENT, out="whole", **{**TINY, "rounds": 4, "checkpoint.every": 1})

    class Enough(Exception):
        """Somebody pulls the plug."""

    rounds = Record.append_round

    def stop(record: Record, row: Any) -> None:
        if row["round"] == 3:
            raise Enough
        rounds(record, row)

    with monkeypatch.context() as patch, pytest.raises(Enough):
        patch.setattr(Record, "append_round", stop)
        motet.run(data=(X, Y), client=CLIENT, out="stopped", **{**TINY, "rounds": 4, "checkpoint.every": 1})
    forget(monkeypatch)
    assert figures(motet.resume("stopped")) == figures(whole)


def test_a_copy_that_is_a_link_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    motet.run(data=(X, Y), client=CLIENT, method="fedavg+ft", out="run", **TINY)
    shutil.move("run/in-memory.npz", "outside.npz")
    Path("run/in-memory.npz").symlink_to("../outside.npz")
    forget(monkeypatch)
    with pytest.raises(MotetError, match="no copy is here"):
        motet.load("run").personal_model(0)


def test_nothing_is_left_behind() -> None:
    result = motet.run(data=(X, Y), client=CLIENT, **TINY)
    assert [path.name for path in Path("tmp").iterdir() if path.is_dir()] == [result.folder.name]
    del result
    with pytest.raises(MotetError):
        motet.run(data=(X, Y), client=CLIENT[:3], **TINY)
    with pytest.raises(MotetError):
        motet.run(data=(X, Y), client=CLIENT, method="nobody", **TINY)
    assert not os.listdir("tmp")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"data": X}, r"^data is a ndarray of shape \(178, 13\) in memory; accepted: a name"),
        ({"data": object()}, "^data is a object in memory; accepted: a name"),
        ({"data": (X, Y, Y)}, "^data is a tuple in memory; accepted: "),
        ({"data": (X, Y[:5])}, r"^data in memory: field 'y' has shape \(5,\); accepted: \(178,\)"),
        ({"data": (X, Y), "client": "site"}, "^client is 'site', but data has no columns; accepted: one value per"),
        ({"data": (X, Y), "client": CLIENT[:3]}, r"^data in memory: field 'client' has shape \(3,\)"),
        ({"data": (X, Y / 2)}, "^data in memory: field 'y' has dtype float64; accepted: integers, or names"),
        ({"data": ([[1], [1, 2]], [0, 1])}, "^data: x is a list of mixed values; accepted: an array of one type"),
        ({"data": (X, [None] * 178)}, "^data: y is a list of mixed values"),
        ({"data": TensorDataset(torch.from_numpy(X))}, "^data is a TensorDataset of 178 samples; accepted: samples"),
    ],
)
def test_what_cannot_be_is_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(MotetError, match=said) as caught:
        motet.run(**asked, **TINY)
    assert len(str(caught.value)) < 300


def test_frames_that_cannot_be(frame: pandas.DataFrame) -> None:
    with pytest.raises(MotetError, match=r"^data in memory: data\.label is not set; accepted: the column"):
        motet.run(data=frame, client="site", **TINY)
    with pytest.raises(MotetError, match=r"^client is a ndarray of shape \(178,\), but data is a table"):
        motet.run(data=frame, label="kind", client=CLIENT, **TINY)
    frame["mixed"] = [1, "a"] * 89
    with pytest.raises(MotetError, match=r"^data is a table with a column that cannot be stored"):
        motet.run(data=frame, label="kind", **TINY)
