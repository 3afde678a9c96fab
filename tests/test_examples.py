"""The examples run as they stand, and show what they say they show."""

import re
import runpy
from pathlib import Path

import pytest

from motet.cli import main
from motet.config.experiment import read, resolve

EXAMPLES = Path(__file__).parents[1] / "examples"


def printed(name: str, capsys: pytest.CaptureFixture[str]) -> list[float]:
    """The figures that an example prints."""
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return [float(figure) for figure in re.findall(r"\d\.\d{3}", capsys.readouterr().out)]


def test_compare_methods(capsys: pytest.CaptureFixture[str]) -> None:
    local, _, fedavg, _, tuned = printed("compare_methods.py", capsys)
    assert tuned > local and fedavg > local


def test_new_client(capsys: pytest.CaptureFixture[str]) -> None:
    generic, from_counts, from_samples = printed("new_client.py", capsys)
    assert from_counts > generic and from_samples > generic


def test_own_data(capsys: pytest.CaptureFixture[str]) -> None:
    one_for_all, one_each = printed("own_data.py", capsys)
    assert one_each > one_for_all


def test_own_method(capsys: pytest.CaptureFixture[str]) -> None:
    plain, _, with_momentum, _, tuned_generic, tuned = printed("own_method.py", capsys)
    assert with_momentum == tuned_generic > plain and tuned > with_momentum


def test_own_measure(capsys: pytest.CaptureFixture[str]) -> None:
    figures = printed("own_metric.py", capsys)
    accuracies, recalls = figures[::2], figures[1::2]
    assert all(0 < recall != accuracy for accuracy, recall in zip(accuracies, recalls, strict=True))


def test_exported_model(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    runpy.run_path(str(EXAMPLES / "exported_model.py"), run_name="__main__")
    generic, mine, _, in_onnx = (line.split()[-8:] for line in capsys.readouterr().out.splitlines())
    assert mine == in_onnx and len(generic) == 8


def test_every_example_is_tested() -> None:
    tested = Path(__file__).read_text(encoding="utf-8")
    assert all(f'"{example.name}"' in tested for example in EXAMPLES.iterdir() if example.is_file())


def test_experiment_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = EXAMPLES / "experiment.toml"
    assert resolve(read(file)).method == "scaffold+ft"
    assert main(["run", str(file), "--rounds", "1", "--json"]) == 0


def test_own_table(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "own_table.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert min(float(figure) for figure in re.findall(r"\d\.\d{3}", out)) > 0.9
    assert "Bergen's model says malignant; in fact malignant" in out
