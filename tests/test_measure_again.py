"""Metrics of a finished run that were asked for afterwards."""

import json
import warnings
from pathlib import Path

import pytest

import motet
from motet.cli import main

SMALL = {"data": "digits", "clients": 4, "rounds": 2, "subset": 0.4, "partition": "dirichlet:0.3", "seed": 3}
MDL = "mdl(samples=60, sizes=2, seeds=1, steps=5)"
NAMES = ("ece", "top5", MDL, "cross_client")


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("method", ["fedper", "superfed-mm", "fedavg+ft"])
@pytest.mark.parametrize("source", ["last_participation", "final_sync"])
def test_afterwards_is_what_it_would_have_been(method: str, source: str, tmp_path: Path) -> None:
    asked = {"data.test_share": 0.3, "scoring.personal_model": source}
    before = motet.run(method=method, **SMALL, set=asked | {"scoring.metrics": list(NAMES)}, out=tmp_path / "asked")
    plain = motet.run(method=method, **SMALL, set=asked, out=tmp_path / "plain")
    kept = files(plain.folder)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = plain.measure(*NAMES)
    assert [str(each.message)[:4] for each in said] == (["mdl:"] if method == "fedper" else [])  # no generic model
    more = {name: value for name, value in before.figures.items() if name not in plain.figures and value is not None}
    assert more and found == more
    assert files(plain.folder) == kept


def test_a_function_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def share_of_zero(logits, y):\n    return float((y == 0).float().mean())\n")
    run = motet.run(method="fedavg", **SMALL, out=tmp_path / "run")
    found = run.measure(f"{tmp_path / 'mine.py'}:share_of_zero")
    assert found and all("share_of_zero" in name for name in found)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = motet.run(method="fedavg", **SMALL, out=tmp_path / "run")
    assert main(["measure", str(run.folder), MDL, "ece"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    found = dict(run.measure(MDL, "ece"))
    for model in ("generic", "personal"):
        mean, worst = (f"{found[f'{model}.split.ece.{each}']:.4g}" for each in ("mean", "worst_tenth"))
        row = next(row for row in rows if row[:3] == ["ece", model, "split"])
        assert row[4] == mean and row[8] == worst
    mdl = next(name for name in found if name.startswith("generic.split.mdl:"))
    assert [mdl.split(".")[2], "generic", "split", f"{found[mdl]:.4g}"] in [row[:4] for row in rows]
    assert main(["measure", str(run.folder), "ece", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == dict(run.measure("ece"))


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["nothing"], "unknown metric (scoring.metrics) 'nothing'"),
        (["mdl(layer=none)"], "names no inner stage"),
        (["ece(bins=3)"], "has options"),
    ],
)
def test_mistakes(names: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = motet.run(method="fedavg", **SMALL, out=tmp_path / "run")
    assert main(["measure", str(run.folder), *names]) == 2
    assert sentence in capsys.readouterr().err


def test_what_cannot_be_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["measure", str(tmp_path), "ece"]) == 2
    run = motet.run(method="fedavg", **SMALL, out=tmp_path / "run")
    (run.folder / "summary.json").unlink()
    assert main(["measure", str(run.folder), "ece"]) == 2
    assert "is not finished; continue it with" in capsys.readouterr().err
    tuning = motet.run(
        method="fedavg", **SMALL, set={"scoring.test": "none", "data.val_share": 0.2}, out=tmp_path / "t"
    )
    assert main(["measure", str(tuning.folder), "ece"]) == 2
    assert "looks at no test data" in capsys.readouterr().err
