"""What `import motet` offers: the names, their signatures and examples, studies and models from Python, notebooks."""

import doctest
import html
import inspect
import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_records import made_comparison
from sklearn.datasets import load_digits
from test_report_page import HOSTILE, METHODS

import motet
from motet.api.tables import MOST_COLUMNS, MOST_ROWS, Table
from motet.cli import main
from motet.config.short_names import CHOICES, FIELDS, STUDY_CHOICES

FACE = {
    *(
        "run",
        "resume",
        "load",
        "compare",
        "tune",
        "bench",
        "report",
        "export",
        "load_model",
        "load_models",
        "predict",
        "adapt",
    ),
    *("Result", "Comparison", "MotetError", "__version__"),
}
FUNCTIONS = sorted(name for name in FACE if inspect.isfunction(getattr(motet, name)))
TINY: dict[str, Any] = {"clients": 4, "rounds": 2, "epochs": 1, "cohort": 1.0, "subset": 0.4, "net": "mlp"}
DIGITS = load_digits()


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> motet.Comparison:
    folder = tmp_path_factory.mktemp("face") / "study"
    return motet.compare("digits", methods=["local", "fedavg"], trials=1, seeds=2, jobs=1, out=folder, **TINY)


# ---------------------------------------------------------------- names


def test_the_names_are_these_and_no_others() -> None:
    assert set(dir(motet)) == FACE == set(motet.__all__)
    assert len(FUNCTIONS) == 12 and motet.__version__.count(".") == 2
    with pytest.raises(AttributeError, match="module 'motet' has no attribute 'nothing'"):
        _ = motet.nothing


def test_nothing_heavy_is_imported_before_it_is_used() -> None:
    code = "import sys, motet; dir(motet); motet.MotetError; assert not {'torch', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
    code = "import sys; from motet.cli import main; assert main(['--help']) == 0 and 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize(
    "first",
    [
        "motet.report.page",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("motet.export.run", "motet.api.studies", "motet.config.experiment")
        ),
    ],
)
def test_a_room_does_not_hide_the_function_of_its_name(first: str) -> None:
    code = f"import {first}, motet; assert callable(motet.report) and callable(motet.export) and callable(motet.bench)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_parameter_is_explained_and_has_a_type(name: str) -> None:
    function = getattr(motet, name)
    text = inspect.getdoc(function) or ""
    signature = inspect.signature(function)
    own = [p for p in signature.parameters.values() if p.name not in FIELDS and p.kind is not p.VAR_KEYWORD]
    if "those of\n`motet.compare`" in text:
        own = []
    for parameter in own:
        assert parameter.annotation is not inspect.Parameter.empty, parameter
        assert parameter.name in text.split("Parameters\n", 1)[1], f"{parameter.name} is not explained"
    assert signature.return_annotation is not inspect.Signature.empty


@pytest.mark.parametrize("name", [*FUNCTIONS, "Result", "Comparison"])
def test_the_example_runs(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    found = doctest.DocTestFinder(recurse=False).find(getattr(motet, name), name, globs={})
    assert found[0].examples
    runner = doctest.DocTestRunner()
    runner.run(found[0])
    assert runner.failures == 0


def test_signatures_are_made_from_the_table_of_short_names() -> None:
    run = inspect.signature(motet.run).parameters
    assert list(FIELDS) == [name for name in run if name in FIELDS]
    for name in ("compare", "tune"):
        shown = inspect.signature(getattr(motet, name)).parameters
        assert [choice for choice in shown if choice in FIELDS and choice != "data"] == STUDY_CHOICES
        assert next(iter(shown)) == "data"
    assert run["rounds"].annotation == CHOICES["rounds"].kind | None and run["rounds"].default is None
    assert "partition_seed" in str(inspect.signature(motet.run))


# ---------------------------------------------------------------- a comparison


def test_a_comparison_has_the_answer(compared: motet.Comparison) -> None:
    answer, written = compared.recommended, json.loads((compared.folder / "comparison.json").read_text())
    assert (answer.method, answer.reason) == (written["recommended"]["method"], written["recommended"]["reason"])
    assert answer.certain is written["recommended"]["certain"]
    assert motet.run(experiment=answer.experiment).figures == compared.best_run.figures
    assert compared.best_run.folder.parent == compared.folder / "runs"
    assert compared.report == compared.folder / "report.html"
    assert "Recommended" in compared.report.read_text()
    assert repr(compared).startswith("<motet.Comparison of 2 methods: ")
    assert compared.notes and compared.left_out == {}


def test_the_reason_is_read_in_paragraphs(compared: motet.Comparison, capsys: pytest.CaptureFixture[str]) -> None:
    why, *more = compared.file.recommended.paragraphs
    assert more and all(each.endswith(".") and "\n" not in each for each in (why, *more))
    page = html.unescape(compared.report.read_text())
    assert f'<p class="see">{why}</p>' in page and all(f'<p class="note">{each}</p>' in page for each in more)
    assert main(["show", str(compared.folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    begins = [" ".join(each.split()[:3]) for each in (why, *more)]
    assert all(any(line.startswith(words) for line in lines) for words in begins)


def test_its_tables(compared: motet.Comparison) -> None:
    by_name = {row["method"]: row for row in compared.methods}
    assert by_name.keys() == {"local", "fedavg"}
    frame = compared.to_pandas()
    assert list(frame["method"]) == [row["method"] for row in compared.methods]
    clients = compared.clients.to_pandas()
    for name in by_name:
        assert clients[name].mean() == pytest.approx(by_name[name]["personal"])
    assert [row["name"] for row in compared.clients] == ["0", "1", "2", "3"]


def test_it_is_loaded_from_its_folder(compared: motet.Comparison, tmp_path: Path) -> None:
    again = motet.load(compared.folder)
    assert isinstance(again, motet.Comparison) and again.file == compared.file
    run = motet.load(compared.folder / "runs" / "fedavg-seed0")
    assert isinstance(run, motet.Result) and run.method == "fedavg"
    with pytest.raises(motet.MotetError, match="local is for a run"):
        motet.load(compared.folder, local=compared.folder / "runs" / "local-seed0")


def test_the_same_call_goes_on_and_another_is_refused(compared: motet.Comparison) -> None:
    asked: dict[str, Any] = {"methods": "local,fedavg", "seeds": 2, "jobs": 1, "out": compared.folder, **TINY}
    before = (compared.folder / "runs" / "fedavg-seed0" / "summary.json").stat().st_mtime_ns
    assert motet.compare("digits", trials=1, **asked).file.recommended == compared.file.recommended
    assert (compared.folder / "runs" / "fedavg-seed0" / "summary.json").stat().st_mtime_ns == before
    with pytest.raises(motet.MotetError, match="trials: 1 there, 2 here"):
        motet.compare("digits", trials=2, **asked)


def test_the_command_line_and_python_say_the_same(
    compared: motet.Comparison, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [word for name, value in TINY.items() for word in (f"--{name}", str(value))]
    words = ["compare", "digits", "--methods", "local,fedavg", "--trials", "1", "--seeds", "2", "--jobs", "1", *flags]
    assert main([*words, "--out", str(tmp_path / "it"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert said["recommended"] == json.loads(compared.file.to_json())["recommended"]


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_data_in_memory_lie_in_the_study_once(jobs: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(160) % 2
    data, client = (rng.normal(size=(160, 3)) + y[:, None], y), np.arange(160) // 2 % 4
    small: dict[str, Any] = {"methods": "local,fedavg", "trials": 1, "seeds": 1, "rounds": 2, "jobs": jobs}
    found = motet.compare(data, client=client, out=tmp_path / "it", **small)
    assert len(found.clients) == 4
    assert len(list((tmp_path / "it").rglob("*.npz"))) == 1
    assert motet.compare(data, client=client, out=tmp_path / "it", **small).file == found.file
    with pytest.raises(motet.MotetError, match="holds a study of other settings"):
        motet.compare((data[0] + 1, y), client=client, out=tmp_path / "it", **small)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"trials": 0}, "^trials is 0; accepted: a whole number"),
        ({"seeds": 1.5}, r"^seeds is 1\.5; accepted: "),
        ({"jobs": -1}, "^jobs is -1; accepted: "),
        ({"time": "soon"}, "^time is 'soon'; accepted: "),
        ({"methods": "fedavg,,local"}, "^methods is 'fedavg,,local'; accepted: "),
        ({"methods": []}, r"^methods is \[\]; accepted: "),
        ({"methods": ["fedavg", 3]}, "^methods is "),
        ({"method": "fedavg"}, "^compare takes several methods"),
        ({"lable": "y"}, "unknown field 'lable': did you mean 'label'"),
        ({"set": {1, 2}}, "^set is "),
    ],
)
def test_mistakes_are_one_sentence(asked: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(motet.MotetError, match=sentence):
        motet.compare("digits", **{"out": tmp_path / "it", **asked})
    assert not (tmp_path / "it").exists()


# ---------------------------------------------------------------- models


def test_predict_and_adapt_from_a_run_or_its_folder(tmp_path: Path) -> None:
    result = motet.run(data="digits", **TINY, out=tmp_path / "run")
    folders = motet.export(tmp_path / "run", tmp_path / "models", clients=[0], generic=True)
    assert {folder.name for folder in folders} == {"generic", "client-0"}
    x = DIGITS.images[:5]
    rows = motet.predict(tmp_path / "models", x, client=0)
    logits = result.personal_model(0)(x)
    assert [row["prediction"] for row in rows] == [str(number) for number in logits.argmax(1).tolist()]
    shares = torch.softmax(logits, 1)
    assert rows[2]["p(7)"] == pytest.approx(float(shares[2, 7]), abs=1e-6)
    np.savez(tmp_path / "x.npz", x=x.astype(np.uint8))
    assert motet.predict(motet.load_model(tmp_path / "models", 0), tmp_path / "x.npz") == rows
    new = motet.adapt(tmp_path / "run", (DIGITS.images[:40], DIGITS.target[:40]), test_share=0.5)
    same = motet.adapt(result, (torch.from_numpy(DIGITS.images[:40]), DIGITS.target[:40]), test_share=0.5)
    assert (new.train, new.test) == (20, 20) and new.figures == same.figures and new.figures
    for wrong in ((DIGITS.images[:3], [1, 2]), ([[1, "a"], None], [0, 1]), 3):
        with pytest.raises(motet.MotetError, match="accepted: "):
            motet.adapt(result, wrong)  # type: ignore[arg-type]


def test_tune_and_bench_are_rows(tmp_path: Path) -> None:
    found = motet.tune("digits", methods="fedavg", trials=2, jobs=1, out=tmp_path / "tune", **TINY)
    assert found[0]["trials"] == 2 and motet.run(experiment=found[0]["experiment"]).method == found[0]["expression"]
    (tmp_path / "grid.toml").write_text(
        'name = "g"\nfigures = ["generic.accuracy"]\n[setting]\nclients = 4\n[grid]\nmethod = ["fedavg", "local"]\n'
    )
    rows = motet.bench(tmp_path / "grid.toml", quick=True, jobs=1, out=tmp_path / "b", record=tmp_path / "kept.json")
    assert [(row["case"], row["seeds"]) for row in rows] == [("fedavg", 1)], "local has no generic model"
    kept = json.loads((tmp_path / "kept.json").read_text())
    assert kept["cases"]["fedavg"]["figures"]["generic.accuracy"]["mean"] == rows[0]["mean"]


# ---------------------------------------------------------------- notebooks


class Tags(HTMLParser):
    def __init__(self, text: str):
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        assert not attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def test_names_in_a_notebook_are_text(tmp_path: Path) -> None:
    folder = made_comparison(tmp_path / "c", [HOSTILE[0], *METHODS])
    values = json.loads((folder / "comparison.json").read_text())
    values["recommended"]["reason"] = HOSTILE[1]
    (folder / "comparison.json").write_text(json.dumps(values))
    found = Tags(motet.Comparison(folder)._repr_html_())
    assert set(found.tags) <= {"p", "strong", "small", "table", "thead", "tbody", "tr", "th", "td"}
    assert HOSTILE[0] in found.text and HOSTILE[1] in found.text and found.tags.count("tr") == len(METHODS) + 2
    rows = Tags(Table([{name: name for name in HOSTILE}])._repr_html_())
    assert set(rows.tags) <= {"table", "thead", "tbody", "tr", "th", "td"} and "\x1b" not in rows.text


def test_a_result_in_a_notebook(compared: motet.Comparison) -> None:
    result = compared.best_run
    found = Tags(result._repr_html_())
    assert result.method in found.text and "clients' own models" in found.text
    assert list(result.to_pandas()["round"]) == [1, 2] and result.rounds.columns[0] == "round"
    assert len(result.clients.to_pandas()) == len(result.clients)


def test_long_tables_are_cut() -> None:
    found = Tags(Table([{f"c{i}": 1 / 3 for i in range(40)}] * 200)._repr_html_())
    assert found.tags.count("tr") == MOST_ROWS + 1 and found.tags.count("th") == MOST_COLUMNS
    assert "180 more rows, 31 more columns" in found.text and "0.3333" in found.text


def test_without_pandas_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(motet.MotetError, match="to_pandas needs pandas, which is not installed"):
        Table([{"a": 1}]).to_pandas()
