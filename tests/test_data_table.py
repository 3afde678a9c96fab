"""A table goes from its file to a federation, a run and a row that is predicted, with its names and its holes."""

import csv
import gc
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow.csv as arrow_csv
import pytest
import torch
from own_tables import LOADERS, SITES, rows_of, write_csv, write_parquet

import motet
from motet.cli import main
from motet.config.data_section import Columns
from motet.config.experiment import resolve
from motet.data import DataSettings, Federation, TablePrepare, build, counts_table
from motet.data import federation as federation_module
from motet.data.federation import SharedFederation
from motet.data.readers.registry import load_own
from motet.errors import MotetError

NAMED: dict[str, Any] = {"label": "kind", "client": "site"}


@pytest.fixture
def wine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_csv(rows_of("wine"), Path("wine.csv"))


def federation_of(path: Path, **settings: Any) -> Federation:
    return build(DataSettings(name=str(path), **{**NAMED, **settings}), seed=0)


def prepare_of(federation: Federation) -> TablePrepare:
    assert isinstance(federation.prepare, TablePrepare)
    return federation.prepare


# ---------------------------------------------------------------- from the file to the federation


@pytest.mark.parametrize("name", LOADERS)
def test_a_real_table_by_one_command(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = rows_of(name, 400)
    path = write_csv(rows, tmp_path / f"{name}.csv.gz")
    assert main(["data", "show", str(path), "--label", "kind", "--client", "site", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    classes = sorted({row["kind"] for row in rows})
    assert shown["classes"] == classes
    assert [client["name"] for client in shown["clients"]] == list(SITES)
    assert all({"id", "name", "domain", "new", "train", "val", "test", "counts"} <= c.keys() for c in shown["clients"])
    assert shown["notes"] == ["left out: 'number' (numbers the rows)"]
    rows_of_site = {site: sum(row["site"] == site for row in rows) for site in SITES}
    for client in shown["clients"]:
        assert sum(client["counts"]) == client["train"] + client["val"] + client["test"]
        assert sum(client["counts"]) == rows_of_site[client["name"]]  # nothing is set aside for a common test set
        assert client["test"] == int(0.2 * rows_of_site[client["name"]])


def test_every_cell_arrives(tmp_path: Path) -> None:
    """Numbers, truths, categories and holes, each in its row."""
    rows = rows_of("wine")
    raw = load_own(write_csv(rows, tmp_path / "wine.csv"), "auto", Columns(label="kind", client="site"))
    columns = [name for name in rows[0] if name not in ("number", "site", "kind")]
    assert raw.x.shape == (178, len(columns)) and raw.x.dtype == np.float32
    for i, row in enumerate(rows):
        assert raw.class_names[raw.y[i]] == row["kind"]
        assert raw.client is not None and raw.client_names[raw.client[i]] == row["site"]
        for place, column in enumerate(columns):
            value = raw.x[i, place]
            if not row[column]:
                assert np.isnan(value)
            elif column == "group":
                assert ("high", "low")[int(value)] == row[column]
            elif column == "above":
                assert ("false", "true")[int(value)] == row[column]
            else:
                assert value == np.float32(row[column])


def test_parquet_is_the_same_table(tmp_path: Path) -> None:
    rows = rows_of("wine")
    first = federation_of(write_csv(rows, tmp_path / "a.csv"))
    second = federation_of(write_parquet(rows, tmp_path / "b.parquet"))
    assert first.content_hash == second.content_hash
    assert prepare_of(first).schema == prepare_of(second).schema


@pytest.mark.parametrize("sign", [";", "\t", "|"])
def test_other_signs_between_columns(sign: str, tmp_path: Path, wine: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text(wine.read_text().replace(",", sign))
    assert federation_of(other).content_hash == federation_of(wine).content_hash


def test_it_may_be_dealt_in_any_way(wine: Path) -> None:
    dealt = build(DataSettings(name=str(wine), label="kind", leave_out=("site",), clients=5, partition="iid"), seed=0)
    assert len(dealt.clients) == 5 and dealt.clients[0].name == "0"
    assert "site" not in prepare_of(dealt).schema.columns
    both = federation_of(wine, partition="iid", clients=4)
    assert len(both.clients) == 4


def test_a_client_column_makes_the_natural_partition() -> None:
    assert resolve({"data": {"client": "site"}}).data.partition == "natural"
    assert resolve({"data": {"client": "site", "partition": "iid"}}).data.partition == "iid"
    assert resolve({"protocol": "fedrod", "data": {"client": "site"}}).data.partition == "natural"
    assert resolve({"protocol": "pgfed"}).data.partition == "dirichlet-balanced:0.3"


def test_domains_keep_their_names(wine: Path) -> None:
    rows = [row for row in csv.DictReader(wine.open()) if row["group"]]
    federation = federation_of(write_csv(rows, Path("with.csv")), client="group", domain="group")
    assert [row["domain"] for row in counts_table(federation)] == ["high", "low"]


def test_names_travel_to_other_processes(wine: Path) -> None:
    federation = federation_of(wine)
    there = pickle.loads(pickle.dumps(SharedFederation.of(federation))).cut()
    rows = torch.arange(9)
    assert there.prepare.schema == prepare_of(federation).schema
    assert torch.equal(there.stored.batch(rows)[0], federation.stored.batch(rows)[0])


def test_times_lists_and_ids_are_left_out_with_a_note(tmp_path: Path) -> None:
    made = [
        {
            "": i,
            "when": f"{i % 24:02}:30:00",
            "all": 3,
            "key": f"k{i}",
            "patientId": 7 * i,
            "age": i % 9,
            "y": "ab"[i % 2],
        }
        for i in range(60)
    ]
    raw = load_own(write_csv(made, tmp_path / "t.csv"), "auto", Columns(label="y"))
    assert raw.x.shape == (60, 1)
    assert raw.notes == (
        "left out: '(column 1)' (no name), 'when' (times of day, or durations), 'all' (the same value in every row), "
        "'key' (60 different texts in 60 rows), 'patientId' (numbers the rows)",
    )


def test_a_text_among_numbers_is_told(tmp_path: Path) -> None:
    """Also far behind the rows that the types were guessed from."""
    lines = [f"{i % 50},{i % 7}.5,{'ab'[i % 2]}" for i in range(60_000)]
    path = tmp_path / "late.csv"
    path.write_text("\n".join(["age,size,y", *lines, "old,,a", ""]))
    raw = load_own(path, "auto", Columns(label="y"))
    assert raw.x.shape == (60_001, 2)
    assert raw.notes[0] == "column 'age' holds numbers and 'old', so that its values are categories"
    prepare = raw.fit(raw.x, "standard", np.arange(60_000)) if raw.fit else None
    assert isinstance(prepare, TablePrepare)
    assert prepare.schema.columns["age"].categories == tuple(sorted(map(str, range(50))))  # type: ignore[union-attr]


def test_a_column_that_begins_empty(tmp_path: Path) -> None:
    lines = [f",{i % 5},{'ab'[i % 2]}" for i in range(100_000)]
    path = tmp_path / "late.csv"
    path.write_text("\n".join(["late,early,y", *lines, "3.5,1,a", ""]))
    raw = load_own(path, "auto", Columns(label="y"))
    assert raw.x[-1].tolist() == [3.5, 1.0] and np.isnan(raw.x[:-1, 0]).all()


def test_whole_numbers_are_classes_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x,y,c\n" + "".join(f"{i % 3},{(2, 10, 1)[i % 3]}.0,{i % 2 + 9}\n" for i in range(30)))
    raw = load_own(path, "auto", Columns(label="y", client="c"))
    assert raw.class_names == ("1", "2", "10") and raw.client_names == ("9", "10")
    assert raw.y[:3].tolist() == [1, 2, 0]


def test_leave_out_takes_names_and_lists_of_them(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('"a,b",c,d,e,y\n' + "".join(f"{i % 3},{i % 4},{i % 5},{i % 6},{i % 2}\n" for i in range(60)))
    raw = load_own(path, "auto", Columns(label="y", leave_out=("a,b", "c, e")))
    assert raw.x[:5, 0].tolist() == [0, 1, 2, 3, 4] and raw.x.shape[1] == 1


# ---------------------------------------------------------------- to a run, and back to a row


def test_five_methods_by_one_table(wine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for method in ("local", "fedavg", "fedavg+ft", "fedper", "fedrep"):
        words = ["--label", "kind", "--client", "site", "--rounds", "12", "--method", method, "--out", f"runs/{method}"]
        assert main(["run", "--data", "wine.csv", *words, "--set", "engine.name=inline"]) == 0
    capsys.readouterr()
    assert main(["show", "runs", "--json"]) == 0
    found = {run["method"]: run["personal"]["split"]["personal_models"] for run in json.loads(capsys.readouterr().out)}
    assert len(found) == 5 and min(found.values()) > 0.8  # three classes
    record = json.loads(Path("runs/fedavg/clients.json").read_text())
    assert [client["name"] for client in record["clients"]] == list(SITES)
    assert record["classes"] == ["class class_0", "class class_1", "class class_2"]


@pytest.mark.parametrize("schema", [False, True])
def test_a_raw_row_is_predicted_by_the_folder_alone(wine: Path, schema: bool) -> None:
    rows = list(csv.DictReader(wine.open()))
    if schema:
        federation_schema = prepare_of(federation_of(wine)).schema.to_toml()
        Path("schema.toml").write_text(federation_schema, encoding="utf-8")
    result = motet.run(
        data="wine.csv", **NAMED, rounds=8, method="fedper", out="run", schema="schema.toml" if schema else None
    )
    frame, table = pandas.read_csv(wine), arrow_csv.read_csv(wine)
    wine.unlink()
    model = motet.load("run").personal_model("Zürich")
    logits = model(rows)
    named = [result.class_names[c] for c in logits.argmax(1)]
    right = np.mean([name == row["kind"] for name, row in zip(named, rows, strict=True)])
    assert right > 0.75
    assert torch.equal(model(frame), logits) and torch.equal(model(table), logits)
    assert torch.allclose(model(rows[3]), logits[3:4], atol=1e-6)
    columns = [name for name in rows[0] if name not in ("number", "site", "kind")]
    assert torch.equal(model([[row[name] for name in columns] for row in rows]), logits)
    assert result.client_names == list(SITES)


def test_new_clients_come_with_rows_and_names(wine: Path) -> None:
    rows = list(csv.DictReader(wine.open()))
    result = motet.run(data="wine.csv", **NAMED, rounds=3, method="fedavg+ft")
    model = result.adapt(rows[:60], [row["kind"] for row in rows[:60]])
    named = [result.class_names[c] for c in model(rows[:60]).argmax(1)]
    assert np.mean([name == row["kind"] for name, row in zip(named, rows[:60], strict=True)]) > 0.8
    with pytest.raises(MotetError, match="y holds label 'class 9'; accepted: 'class class_0', "):
        result.adapt(rows[:1], ["class 9"])


def test_what_no_row_has(wine: Path) -> None:
    prepare = prepare_of(federation_of(wine))
    row = next(csv.DictReader(wine.open()))
    usual = prepare.raw({**row, "group": "low"})
    place = sum(column.width for column in prepare.schema.columns.values()) - 3
    assert usual[0, place:].tolist() == [0, 1, 0]
    for group in ("unheard of", None, "", float("nan"), "NA"):
        other = prepare.raw({**row, "group": group})
        missing = group != "unheard of"
        assert other[0, place:].tolist() == [0, 0, missing]  # a category that nobody knows is none of them
        assert torch.equal(other[:, :place], usual[:, :place])
    alcohol = list(prepare.schema.columns).index("alcohol") - 1  # the category stands after all numbers
    assert prepare.raw({**row, "alcohol": None})[0, alcohol].item() == pytest.approx(0, abs=1e-6)
    with pytest.raises(MotetError, match=r"^input x: column 'alcohol' is 'much'; accepted: a number of at most 1e\+20"):
        prepare.raw({**row, "alcohol": "much"})
    with pytest.raises(MotetError, match=r"^input x: column 'above' is 'perhaps'; accepted: true, false or None"):
        prepare.raw({**row, "above": "perhaps"})
    with pytest.raises(MotetError, match=r"^input x has no column 'alcohol'; accepted: rows with 'group', "):
        prepare.raw({name: value for name, value in row.items() if name != "alcohol"})
    for wrong in ("a text", 3, [], [1, 2], np.zeros((4, 3)), [[1, 2], [3, 4]]):
        with pytest.raises(MotetError, match=r"^input x (is|has shape) .*; accepted: a dictionary by column"):
            prepare.raw(wrong)


def test_the_page_prints_what_motet_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The tables and the schema of docs/own-data.md are those of its own file."""
    page = (Path(__file__).parents[1] / "docs" / "own-data.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec(page.partition("```python\n")[2].partition("```")[0], {})
    words = ["patients.csv", "--label", "outcome", "--client", "hospital"]
    assert main(["data", "show", *words]) == 0
    assert main(["data", "schema", *words]) == 0
    printed = {line.rstrip() for line in capsys.readouterr().out.splitlines()}
    shown = [line.strip() for line in page.splitlines() if line.startswith("    ") and "motet" not in line]
    in_blocks = {line.strip() for block in page.split("```")[1::2] for line in block.splitlines()}
    assert not [line for line in shown if line not in in_blocks and line not in {p.strip() for p in printed}]


def test_a_table_of_categories_alone(tmp_path: Path) -> None:
    rows = [{"a": "xyz"[i % 3], "b": "pq"[i // 3 % 2], "y": "01"[i % 2]} for i in range(60)]
    federation = build(
        DataSettings(name=str(write_csv(rows, tmp_path / "t.csv")), label="y", clients=2, partition="iid"), seed=0
    )
    x, _ = federation.stored.batch(torch.arange(len(federation.stored)))
    assert x.shape[1] == 5 and x.sum(1).eq(2).all()
    expected = torch.nn.functional.one_hot(federation.stored.x.long()[:, 0], 3)
    assert torch.equal(x[:, :3], expected.float())


MEASURE = """
import resource, sys
import pyarrow.csv, pyarrow.compute, pyarrow.parquet, torch
from motet.data import DataSettings, build

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

before = peak()
federation = build(DataSettings(name=sys.argv[1], label="y", client="c"), seed=0)
numbers = 4 * len(federation.stored) * federation.stored.x.shape[1]
print(peak() - before, numbers)
"""


@pytest.mark.slow
def test_a_large_table_takes_at_most_three_times_its_numbers(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path, names = tmp_path / "large.csv", ",".join(f"f{i}" for i in range(30))
    block = "".join(
        ",".join(f"{value:.5f}" for value in row) + f",{'ab'[i % 2]},{i % 9}\n"
        for i, row in enumerate(rng.normal(size=(10_000, 30)))
    )
    with open(path, "w") as file:
        file.write(f"{names},y,c\n")
        for _ in range(80):
            file.write(block)
    printed = subprocess.run([sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, check=True)
    taken, numbers = map(int, printed.stdout.split())
    assert numbers == 80 * 10_000 * 30 * 4
    assert taken < 3 * numbers + 2**26  # pyarrow reads ahead, whatever the size of the file


def test_rows_are_prepared_once_within_a_limit_of_memory(wine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches and all rows are what the preparation gives; what is kept does not travel, and no net can change it."""
    budget = federation_module._Budget(10**6)
    monkeypatch.setattr(federation_module, "_KEPT", budget)
    samples = federation_of(wine).clients[0].train
    rows = torch.tensor([3, 0, 3])
    expected, calls = samples.prepare(samples.x), list[int]()
    assert torch.equal(samples.prepare(samples.x[rows]), expected[rows])  # a row is prepared alike among any others
    monkeypatch.setattr(TablePrepare, "__call__", lambda self, x: calls.append(len(x)) or expected)
    for _ in range(2):
        assert torch.equal(samples.batch(rows)[0], expected[rows])
        assert torch.equal(samples.batch(rows)[1], samples.y[rows])
        parts = list(samples.all_batches(7))
        assert torch.equal(torch.cat([x for x, _ in parts]), expected)
        assert torch.equal(torch.cat([y for _, y in parts]), samples.y)
        for x, _ in parts:
            x.zero_()
    assert calls == [len(samples)] and budget.left == 10**6 - 4 * expected.numel()
    assert "_prepared" not in vars(pickle.loads(pickle.dumps(samples)))
    budget.left = 4 * expected.numel() - 1
    assert samples.take(torch.arange(len(samples)))._prepared is None
    budget.left = 0
    del samples
    gc.collect()
    assert budget.left == 4 * expected.numel()
