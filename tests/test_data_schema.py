"""The schema of a table: fitted on training rows alone, printed, edited, shared, and obeyed."""

import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from own_tables import rows_of, write_csv

from motet.cli import main
from motet.data import DataSettings, Federation, TablePrepare, build
from motet.data.prepare import restored
from motet.data.schema import BooleanColumn, CategoryColumn, NumberColumn, Schema, of_plain, read_schema
from motet.errors import MotetError

WORDS = ["--label", "kind", "--client", "site"]


@pytest.fixture
def wine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    monkeypatch.chdir(tmp_path)
    rows = rows_of("wine")
    write_csv(rows, Path("wine.csv"))
    return rows


def federation_of(**settings: Any) -> Federation:
    return build(DataSettings(name="wine.csv", **{"label": "kind", "client": "site", **settings}), seed=0)


def schema_of(federation: Federation) -> Schema:
    assert isinstance(federation.prepare, TablePrepare)
    return federation.prepare.schema


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["data", "schema", "wine.csv", *WORDS, *words]) == 0
    return capsys.readouterr().out


def edited(capsys: pytest.CaptureFixture[str], *changes: tuple[str, str]) -> Federation:
    """What a schema makes of the table after somebody changed some words in it."""
    text = printed(capsys)
    for pattern, word in changes:
        text, count = re.subn(pattern, word, text, count=1, flags=re.S)
        assert count == 1, pattern
    Path("schema.toml").write_text(text, encoding="utf-8")
    return federation_of(table_schema="schema.toml")


# ---------------------------------------------------------------- fitted


def test_constants_come_from_training_rows_alone(wine: list[dict[str, Any]]) -> None:
    """Whatever stands in rows of tests, of validation and of new clients changes nothing."""
    settings = {"val_share": 0.2, "new_clients": 0.34}
    federation = federation_of(**settings)
    trained = [client.train.x for client in federation.clients if not client.new]
    seen = torch.cat(trained).double()
    schema = schema_of(federation)
    for i, (name, column) in enumerate(schema.columns.items()):
        values = seen[:, i][~seen[:, i].isnan()]
        if isinstance(column, NumberColumn):
            assert column.mean == pytest.approx(float(values.mean())), name
            assert column.deviation == pytest.approx(float(values.std(correction=0))), name
            assert column.fill == column.mean
        elif isinstance(column, BooleanColumn):
            assert column.fill == bool((values == 1).sum() > (values == 0).sum())
    everything = schema_of(federation_of(**settings, normalize_on="all"))
    assert everything.columns["alcohol"] != schema.columns["alcohol"]


def test_a_category_that_only_test_rows_have_is_none(wine: list[dict[str, Any]]) -> None:
    federation = federation_of()
    column = list(schema_of(federation).columns).index("group")
    client = federation.clients[0]
    tested = {tuple(row) for row in client.test.x.nan_to_num(-9).tolist()}
    for row in wine:  # the rows that are nobody's training rows get a group of their own
        values = [-9.0 if row[n] == "" else _value(n, row[n]) for n in schema_of(federation).columns]
        if tuple(np.array(values, np.float32).tolist()) in tested:
            row["group"] = "rare"
    write_csv(wine, Path("wine.csv"))
    changed = federation_of()
    assert schema_of(changed).columns["group"] == CategoryColumn(categories=("high", "low"), indicator=True)
    rare = changed.clients[0].test.x[:, column] == 2  # in the list of all, after high and low
    assert int(rare.sum()) == len(tested)
    x, _ = next(changed.clients[0].test.all_batches(1000))
    assert not x[rare][:, -3:].any()


def _value(name: str, text: str) -> float:
    """As it is stored, of all categories in their order."""
    stored = {"group": ["high", "low"], "above": ["false", "true"]}
    return float(stored[name].index(text)) if name in stored else float(text)


@pytest.mark.parametrize(("normalize", "mean", "deviation"), [("none", 0, 1), ("unit", 0, 1)])
def test_other_ways_to_normalize(wine: list[dict[str, Any]], normalize: str, mean: float, deviation: float) -> None:
    column = schema_of(federation_of(normalize=normalize)).columns["alcohol"]
    assert isinstance(column, NumberColumn)
    assert (column.mean, column.deviation) == (mean, deviation)
    assert column.fill == pytest.approx(13, abs=1)  # a hole is still an average sample


def test_half_of_no_range_is_standard(wine: list[dict[str, Any]]) -> None:
    """A protocol for pictures does not leave a column of ages a hundred times as large as the others."""
    assert schema_of(federation_of(normalize="half")).columns == schema_of(federation_of()).columns


def test_network_input_has_no_hole_and_moments_of_0_and_1(wine: list[dict[str, Any]]) -> None:
    federation = federation_of(indicators=False)
    batches = [client.train.batch(torch.arange(len(client.train)))[0] for client in federation.clients]
    x = torch.cat(batches)
    assert x.dtype == torch.float32 and x.isfinite().all()
    assert x.shape[1] == federation.input.shape[0] == 13 + 1 + 2
    numbers = x[:, 1:14]
    assert numbers.mean(0).abs().max() < 1e-5
    assert numbers.std(0).max() < 1.01  # holes are means, which make it smaller
    assert set(x[:, 14:].unique().tolist()) == {0.0, 1.0}


# ---------------------------------------------------------------- printed and given


def test_a_printed_schema_given_back_changes_no_number(
    wine: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = federation_of(), edited(capsys)
    assert schema_of(before) == schema_of(after)
    rows = torch.arange(len(before.stored))
    assert torch.equal(before.stored.batch(rows)[0], after.stored.batch(rows)[0])
    assert before.content_hash != after.content_hash  # what was given is part of the data


def test_nothing_is_fitted_where_a_schema_is_given(
    wine: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    schema = schema_of(edited(capsys))
    write_csv(wine[:90], Path("wine.csv"))  # another site, another table
    assert schema_of(federation_of(table_schema="schema.toml")) == schema
    assert schema_of(federation_of()) != schema


def test_an_edited_schema_is_obeyed(wine: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    federation = edited(
        capsys,
        (
            r"(\[columns\.alcohol\]\n.*?)mean = [\d.]+\ndeviation = [\d.]+\nfill = [\d.]+",
            r"\1mean = 10\ndeviation = 2\nfill = 12",
        ),
        (
            r'categories = \[\s*"high",\s*"low",\s*\]\nindicator = true',
            'categories = ["low", "high", "none of it"]\nfill = "none of it"',
        ),
        (r"\[columns\.ash\].*?\n\n", ""),
    )
    names = list(schema_of(federation).columns)
    assert "ash" not in names
    stored = federation.stored
    x, _ = stored.batch(torch.arange(len(stored)))
    alcohol = stored.x[:, names.index("alcohol")]
    assert torch.allclose(x[:, 1], torch.where(alcohol.isnan(), 1.0, (alcohol - 10) / 2), atol=1e-5)
    group = stored.x[:, names.index("group")]
    places = torch.where(group.isnan(), 2, group).long()
    assert torch.equal(x[:, -3:], torch.nn.functional.one_hot(places, 3).float())


def test_a_number_may_be_made_a_category(wine: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    for row in wine:
        row["ash"] = str(len(row["ash"]))
    write_csv(wine, Path("wine.csv"))
    federation = edited(
        capsys, (r"\[columns\.ash\].*?\n\n", '[columns.ash]\nkind = "category"\ncategories = ["0", "3", "4"]\n\n')
    )
    at = list(schema_of(federation).columns).index("ash")
    assert set(federation.stored.x[:, at].tolist()) <= {-1.0, 0.0, 1.0, 2.0}


def test_the_label_is_known_from_the_schema(wine: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    edited(capsys)
    federation = build(DataSettings(name="wine.csv", client="site", table_schema="schema.toml"), seed=0)
    assert federation.class_names == ("class class_0", "class class_1", "class class_2")


def test_it_comes_back_from_a_record(wine: list[dict[str, Any]]) -> None:
    prepare = federation_of().prepare
    words, constants = prepare.saved()
    again = restored(words, constants)
    assert isinstance(again, TablePrepare) and isinstance(prepare, TablePrepare)
    assert again.schema == prepare.schema == of_plain(prepare.schema.plain())
    assert torch.equal(again.raw(wine), prepare.raw(wine))


def test_a_printed_schema_is_toml_with_every_name(tmp_path: Path) -> None:
    column = 'a "b" \\ [c]\t#ü.\u007f'
    columns = {column: CategoryColumn(categories=('x"', "[bold]"), fill='x"'), "b": NumberColumn(mean=1e-7)}
    schema = Schema("y", ("a\n", "b"), columns)
    (tmp_path / "s.toml").write_text(schema.to_toml(), encoding="utf-8")
    assert read_schema(str(tmp_path / "s.toml")) == schema
    assert list(tomllib.loads(schema.to_toml())["columns"]) == [column, "b"]


# ---------------------------------------------------------------- refused

GOOD = 'label = "kind"\nclasses = ["a", "b"]\n[columns.alcohol]\nkind = "number"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "label is None; accepted: the name of a column"),
        ("x", "is not valid TOML"),
        (GOOD + "[more]\n", "has the field 'more'; accepted: label, classes, columns"),
        (GOOD.replace('"a", "b"', '"a"'), "classes is .*; accepted: two or more names, each once"),
        (GOOD.replace('"a", "b"', '"a", "a"'), "classes is .*; accepted: two or more names, each once"),
        (GOOD.replace('"a", "b"', "1, 2"), "classes is .*; accepted: two or more names, each once"),
        (GOOD.replace('"number"', '"time"'), r"column 'alcohol': kind is 'time'; accepted: number \| date \| boolean"),
        (GOOD + "deviation = 0\n", "column 'alcohol': deviation is 0; accepted: a number above 0"),
        (GOOD + "mean = nan\n", "column 'alcohol': mean is nan; accepted: a number"),
        (GOOD + "mean = 'low'\n", "column 'alcohol': mean is 'low'; accepted: a number"),
        (GOOD + "median = 3\n", "unknown field 'median'"),
        (GOOD + "knots = [1.0, 2.0]\n", "knots has 2 numbers and levels 0; accepted: as many of both, 2 to 64"),
        (GOOD + "knots = [1.0, 1.0]\nlevels = [0.0, 1.0]\n", "knots is .*; accepted: numbers that rise"),
        (GOOD + "knots = [1.0, 2.0]\nlevels = [1.0, 0.0]\n", "levels is .*; accepted: numbers that rise"),
        (GOOD + "[columns.d]\nkind = 'date'\norder = 'ydm'\n", "column 'd': order is 'ydm'; accepted: ymd"),
        (
            GOOD + "[columns.g]\nkind = 'category'\ncategories = ['a']\nfill = 'a'\nindicator = true\n",
            "column 'g': indicator is true beside fill 'a'; accepted: one of them",
        ),
        (GOOD + "[columns.g]\nkind = 'category'\n", "column 'g': categories"),
        (GOOD + "[columns.g]\nkind = 'category'\ncategories = []\n", "column 'g': categories"),
        (GOOD + "[columns.g]\nkind = 'category'\ncategories = ['a', 'a']\n", "categories is .*; accepted: names, each"),
        (
            GOOD + "[columns.g]\nkind = 'category'\ncategories = ['a']\nfill = 'b'\n",
            "fill is 'b'; accepted: one of its",
        ),
        (GOOD.replace("columns.alcohol", "columns.kind"), "column 'kind' is the label; accepted: other columns"),
        ('label = "kind"\nclasses = ["a", "b"]\ncolumns = 3\n', "columns is 3; accepted: a table"),
        (
            GOOD.replace("alcohol", "alcohl"),
            "column 'alcohl' of the schema is missing; accepted: a table with all columns",
        ),
        (GOOD, r"column 'kind' holds 'class class_\d'; accepted: the classes that are listed, 'a', 'b'"),
        (GOOD.replace("alcohol", "site"), "column 'site' is in the schema, and named for something else"),
        (
            GOOD.replace('"a", "b"', '"class class_0", "class class_1", "class class_2"').replace("alcohol", "group"),
            "column 'group' holds 'low', but the schema says that it holds numbers; accepted: numbers",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(wine: list[dict[str, Any]], text: str, said: str) -> None:
    Path("schema.toml").write_text(text)
    with pytest.raises(MotetError, match=said) as caught:
        federation_of(table_schema="schema.toml")
    assert "\n" not in str(caught.value)


def test_no_schema_and_no_table(wine: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "schema", "digits"]) == 2
    assert "data 'digits' is no table; accepted: FILE.csv or FILE.parquet" in capsys.readouterr().err
    assert main(["data", "show", "wine.csv", *WORDS, "--schema", "nowhere.toml"]) == 2
    assert "schema nowhere.toml does not exist" in capsys.readouterr().err
