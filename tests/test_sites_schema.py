"""One schema for all sites: made at one and checked at the others, or fitted from sums that each of them tells."""

import json
from pathlib import Path

import numpy as np
import pytest

from motet.cli import main
from motet.data.schema import CategoryColumn, NumberColumn, read_schema

HEAD = "age,smoker,town,outcome\n"


@pytest.fixture
def towns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two sites, whose towns differ; one town is in a single row."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name, mean, places in (("a", 40, ["north", "south"]), ("b", 60, ["south", "west"])):
        rows = [
            f"{rng.normal(mean, 5):.2f},{['true', 'false'][i % 2]},{places[i % 2]},{['yes', 'no'][i % 3 == 0]}"
            for i in range(60)
        ]
        rows[0] = rows[0].replace(places[0], f"secret-{name}")
        rows[1] = "," + rows[1].partition(",")[2]  # an age is missing
        (tmp_path / f"{name}.csv").write_text(HEAD + "\n".join(rows) + "\n")
    return tmp_path


def sums(name: str) -> None:
    assert main(["data", "sums", f"{name}.csv", "--label", "outcome", "--out", f"{name}.json"]) == 0


def test_sums_of_sites_give_the_schema_of_all_rows_and_name_nobody(towns: Path) -> None:
    for name in ("a", "b"):
        sums(name)
        told = json.loads(Path(f"{name}.json").read_text())
        assert "secret" not in json.dumps(told) and told["columns"]["town"]["rare"] == 1
        assert told["rows"] == 60 and told["columns"]["age"]["count"] == 59
    assert main(["data", "merge", "a.json", "b.json", "--out", "s.toml"]) == 0
    schema = read_schema("s.toml")
    ages = [
        float(line.split(",")[0])
        for n in "ab"
        for line in Path(f"{n}.csv").read_text().splitlines()[1:]
        if line[0] != ","
    ]
    age, town = schema.columns["age"], schema.columns["town"]
    assert isinstance(age, NumberColumn) and isinstance(town, CategoryColumn)
    assert age.mean == pytest.approx(np.mean(ages), rel=1e-6) and age.deviation == pytest.approx(np.std(ages), rel=1e-6)
    assert town.categories == ("north", "south", "west") and schema.classes == ("no", "yes")
    for name in ("a", "b"):
        assert main(["data", "check", f"{name}.csv", "--schema", "s.toml"]) == 0


def test_a_schema_of_one_site_is_checked_at_the_other(towns: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "schema", "a.csv", "--label", "outcome", "--out", "s.toml"]) == 0
    capsys.readouterr()
    assert main(["data", "check", "b.csv", "--schema", "s.toml", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] == 60 and found["unknown"]["town"] > 20 and found["missing"]["age"] == 1
    Path("b.csv").write_text(Path("b.csv").read_text().replace("town", "city", 1))
    assert main(["data", "check", "b.csv", "--schema", "s.toml"]) == 2
    assert "column 'town' of the schema is missing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda told: told | {"label": "other"}, "accepted: one label"),
        (lambda told: told | {"columns": told["columns"] | {"age": told["columns"]["town"]}}, "accepted: one kind"),
        (lambda told: told | {"rows": -1}, "is damaged: rows is -1"),
        (lambda told: told | {"columns": {}}, "no column is told of by all sites"),
    ],
)
def test_sums_that_do_not_fit_together_are_refused(
    change: object, words: str, towns: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sums("a")
    sums("b")
    Path("b.json").write_text(json.dumps(change(json.loads(Path("b.json").read_text()))))  # type: ignore[operator]
    assert main(["data", "merge", "a.json", "b.json"]) == 2
    assert words in capsys.readouterr().err
