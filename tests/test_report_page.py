"""The report as a file: what it says, that nothing in a record can act in it, and what it says of damaged ones."""

import json
import random
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_records import made_comparison, made_record

import motet
from motet.cli import looking, main
from motet.errors import MotetError
from motet.metrics.wording import written
from motet.report.charts import Grid
from motet.report.page import write_report
from motet.report.page.blocks import Sheet
from motet.report.page.reading import contents_of
from motet.report.page.sections import sections_of
from motet.runs.clients_file import read_clients_info
from motet.runs.record import Record
from motet.studies.comparison_file import read_comparison

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "[bold red]Mercy[/] & 'Co'",
    "bell\x07\x1b[31m",
)
METHODS = ("fedavg+ft", "pgfed", "fedavg", "local")


class Reader(HTMLParser):
    """The tags of a page, their attributes, and all text that a reader sees."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def every(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def page(folder: Path, out: Path) -> Reader:
    return Reader(write_report([folder], out).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_comparison(tmp_path_factory.mktemp("made") / "compared", METHODS, metrics=["ece"])


def test_a_comparison_has_every_section(compared: Path, tmp_path: Path) -> None:
    read = page(compared, tmp_path / "r.html")
    names = ["answer", "clients", "new-clients", "cost", "summary", "tradeoff", "rounds", "calibration", "tuning"]
    assert [s["id"] for s in read.every("section")] == [*names, "settings"]
    for said in (
        "Recommended: fedavg+ft It is best.",
        "Chosen for it: lr = 0.05.",
        "How sure: its difference from the next best may be chance.",
        "90.0 %",
        "95 % interval 89.0 to 91.0",
        "Tuned on validation data.",
        "lr = 0.5",
    ):
        assert said in read.text, said


def test_every_section_says_what_to_see_and_every_chart_too(compared: Path) -> None:
    sections = sections_of(contents_of([compared]))
    charts = [chart for section in sections for chart in section.charts]
    assert len(charts) > 10 and len({chart.name for chart in charts}) == len(charts)
    assert all(section.see.endswith(".") for section in sections)
    assert all(chart.see.endswith(".") and chart.drawing.table().rows for chart in charts)


def test_the_page_asks_for_nothing_from_anywhere(compared: Path, tmp_path: Path) -> None:
    text = write_report([compared], tmp_path / "r.html").read_text(encoding="utf-8")
    read = Reader(text)
    links = [value for _, given in read.tags for name, value in given.items() if name in ("src", "href", "xlink:href")]
    assert all((link or "").startswith(("#", "data:,")) for link in links)
    assert not {"img", "iframe", "object", "embed", "base", "form"} & {tag for tag, _ in read.tags}
    assert "default-src 'none'" in str(read.every("meta")) and "@import" not in text and "url(" not in text
    assert "http://" not in text and "https://" not in text


def test_names_are_text_everywhere(tmp_path: Path) -> None:
    """Clients, classes, methods, reasons and pictures that would act, in every chart and table."""
    folder = made_comparison(tmp_path / "c", [HOSTILE[0], *METHODS], names=HOSTILE * 2, class_names=HOSTILE * 2)
    values = json.loads((folder / "comparison.json").read_text())
    values["recommended"]["reason"] = values["notes"][0] = HOSTILE[1]
    values["methods"][0]["hurt_clients"] = list(HOSTILE)
    (folder / "comparison.json").write_text(json.dumps(values))
    hostile = picture(kind="bars", title=HOSTILE[0], see=HOSTILE[1], series=[series([1, 2], HOSTILE[1])])
    hostile |= {"x": {"label": HOSTILE[1], "ticks": HOSTILE[:2]}, "y": {"label": HOSTILE[0], "ticks": []}}
    (folder / "runs/1-seed0/figures_learned.json").write_text(json.dumps([hostile]))
    text = write_report([folder], tmp_path / "r.html").read_text(encoding="utf-8")
    read = Reader(text)
    assert len(read.every("script")) == 1 and not read.every("img") and "\x1b" not in text and "\x07" not in text
    assert not [name for _, given in read.tags for name in given if name.startswith("on")]
    for shown in (*HOSTILE[:3], "bell\\x07\\x1b[31m"):
        assert shown in read.text or shown[:12] in read.text, shown
    assert HOSTILE[2] in read.text and HOSTILE[1] in read.text


def test_of_one_run(tmp_path: Path) -> None:
    read = page(made_record(tmp_path / "one", "fedrod", base=0.8), tmp_path / "r.html")
    assert "Clients' own models reach 80.0 % on average, 5.0 points more than the one model for all." in read.text
    assert [s["id"] for s in read.every("section")] == [
        *("answer", "clients", "new-clients", "cost", "summary", "rounds", "settings")
    ]
    assert "each client's gain over the one model for all" in read.text


def test_of_a_method_without_a_generic_model(tmp_path: Path) -> None:
    read = page(made_record(tmp_path / "one", "local", generic=False, new=0), tmp_path / "r.html")
    assert "there is no model for all to compare with" in read.text
    assert "new-clients" not in [s["id"] for s in read.every("section")]


def test_seeds_are_one_contender_and_the_best_comes_first(tmp_path: Path) -> None:
    for method, base in (("fedavg", 0.7), ("ditto", 0.8)):
        for seed in range(3):
            made_record(tmp_path / "runs" / f"{method}{seed}", method, seed=seed, base=base + 0.001 * seed)
    contents = contents_of([tmp_path / "runs"])
    assert [(c.label, len(c.runs)) for c in contents.contenders] == [("ditto", 3), ("fedavg", 3)]
    assert contents.best is contents.contenders[0] is contents.focus
    assert "Best here: ditto" in page(tmp_path / "runs", tmp_path / "r.html").text


def test_what_is_sent_is_the_mean_over_runs_whose_nets_may_differ(tmp_path: Path) -> None:
    """Each split of a table is tuned by itself: on one a logistic regression may be chosen, on another a larger net."""
    for seed, sent in ((0, 1e6), (1, 3e6)):
        summary = made_record(tmp_path / "runs" / str(seed), "fedavg", seed=seed) / "summary.json"
        values = json.loads(summary.read_text())
        summary.write_text(json.dumps(values | {"bytes_per_round": {"down": sent, "up": sent}}))
    assert "sent in a round 4.00 MB" in page(tmp_path / "runs", tmp_path / "r.html").text


def test_twins_are_told_apart_by_what_differs(tmp_path: Path) -> None:
    for lr in (0.1, 0.2):
        made_record(tmp_path / "runs" / str(lr), "fedavg", local={"lr": lr})
    assert {c.label for c in contents_of([tmp_path / "runs"]).contenders} == {"fedavg, lr 0.1", "fedavg, lr 0.2"}


def test_losers_are_named_first(tmp_path: Path) -> None:
    """The client whose model is worse than alone is the first row of the chart, and in the sentence."""
    for method in ("local", "ditto"):
        folder = made_record(tmp_path / "runs" / method, method, clients=4, new=0, names=["A", "B", "C", "D"])
        rows = [json.loads(line) for line in (folder / "clients.jsonl").read_text().splitlines()]
        for row in rows:
            own = 0.5 if method == "local" else {2: 0.4}.get(row["client"], 0.6)
            row["personal.weighted.accuracy"] = own
        (folder / "clients.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    section = next(s for s in sections_of(contents_of([tmp_path / "runs"])) if s.name == "clients")
    chart = next(c for c in section.charts if "ditto" in c.title)
    assert [row[0] for row in chart.drawing.table().rows] == ["C", "A", "B", "D"]
    assert chart.drawing.table().rows[0][1] == "−10"
    assert "1 of 4 clients is worse off than with training alone: C." in str(section.blocks)


def test_a_run_that_cannot_be_read_is_named_and_hides_no_other(tmp_path: Path) -> None:
    made_record(tmp_path / "runs/good", "fedavg")
    shutil.copytree(tmp_path / "runs/good", tmp_path / "runs/bad")
    (tmp_path / "runs/bad/summary.json").write_text("{}")
    text = page(tmp_path / "runs", tmp_path / "r.html").text
    assert "Left out:" in text and "bad" in text and "fedavg" in text
    with pytest.raises(MotetError, match="bad"):
        write_report([tmp_path / "runs/bad"], tmp_path / "r2.html")
    assert not (tmp_path / "r2.html").exists()


def changed(folder: Path, change: Any) -> None:
    values = json.loads((folder / "comparison.json").read_text())
    change(values)
    (folder / "comparison.json").write_text(json.dumps(values))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda v: v.update(format=2), "format is 2; accepted: "),
        (lambda v: v.pop("methods"), "methods is missing; accepted: "),
        (lambda v: v["methods"][0].update(runs=["../../elsewhere"]), "a run lies within the folder"),
        (lambda v: v["methods"][0].update(runs=["/etc"]), "a run lies within the folder"),
        (lambda v: v["methods"][0]["personal"].update(mean="high"), "methods.0.personal.mean is 'high'; accepted: "),
        (lambda v: v["methods"][0].update(method=["a"]), "methods.0.method is ['a']; accepted: "),
        (lambda v: v.update(methods=5), "methods is 5; accepted: "),
    ],
)
def test_a_damaged_comparison_is_one_sentence(
    change: Any, said: str, compared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "c"
    shutil.copytree(compared, folder)
    changed(folder, change)
    assert main(["report", str(folder), "--out", str(tmp_path / "r.html")]) == 2
    told = capsys.readouterr().err
    assert said in told and "comparison.json is damaged" in told and "Traceback" not in told


def series(values: Any, name: str = "a") -> dict[str, Any]:
    return {"name": name, "values": values}


def axis(*ticks: Any, label: str = "") -> dict[str, Any]:
    return {"label": label, "ticks": list(ticks)}


def picture(**more: Any) -> dict[str, Any]:
    two = axis("a", "b", label="from")
    table = series([[1, 2], [3, 4]])
    return {"name": "p", "kind": "heatmap", "title": "Seen", "see": "It.", "x": two, "y": two, "series": [table]} | more


@pytest.mark.parametrize(
    "good",
    [
        picture(),
        picture(series=[series([[-1, 2], [None, 4]])]),
        picture(kind="lines", x=axis(1, 2, 3), series=[series([1, 2, 3]), series([3, None, 1], "b")]),
        picture(kind="lines", x=axis(0, 0.5, 1), series=[series([0.2, 0.2, 0.2])]),
        picture(kind="lines", x=axis("only"), series=[series([5])]),
        picture(kind="points", groups=["a", "b"], series=[series([[0, 1, 0], [1, 1, 1], [2, 3, 1]])]),
        picture(kind="bars", series=[series([0, 0])]),
    ],
)
def test_pictures_are_drawn(good: dict[str, Any], tmp_path: Path) -> None:
    folder = made_record(tmp_path / "run", "pgfed")
    (folder / "figures_learned.json").write_text(json.dumps([good]))
    read = page(folder, tmp_path / "r.html")
    assert "pgfed: Seen" in read.text and "damaged" not in read.text
    places = re.findall(r' (?:[xyrd]|[cxy][xy12]|width|height)="([^"]*)"', (tmp_path / "r.html").read_text())
    assert len(places) > 100 and not [place for place in places if "n" in place]  # neither nan nor inf


def test_diagrams_of_calibration_are_in_their_section(tmp_path: Path) -> None:
    folder = made_record(tmp_path / "run", "pgfed")
    diagram = picture(name="calibration-personal", kind="bars", series=[series([0.5, None])])
    (folder / "figures_learned.json").write_text(json.dumps([diagram]))
    sections = {section.name: section for section in sections_of(contents_of([folder]))}
    assert "learned" not in sections and len(sections["calibration"].charts) == 1


def test_a_trial_that_failed_is_told_with_its_reason(compared: Path, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    shutil.copytree(compared, folder)
    failed = {"options": {"lr": 99.0}, "score": None, "rounds": 3, "failure": "diverged in round 3"}
    changed(folder, lambda v: v["methods"][0]["trials"].append(failed))
    changed(folder, lambda v: v.update(left_out={"krum": "needs a larger cohort"}))
    text = page(folder, tmp_path / "r.html").text
    assert "lr = 99" in text and "diverged in round 3" in text and "Left out: krum: needs a larger cohort" in text


def test_names_of_places_are_on_the_axis_of_lines(tmp_path: Path) -> None:
    folder = made_record(tmp_path / "run", "fedbasis")
    lines = picture(kind="lines", x=axis("conv1", "conv2", label="block"), series=[series([1, 2])])
    (folder / "figures_learned.json").write_text(json.dumps([lines]))
    assert page(folder, tmp_path / "r.html").text.count("conv2") >= 3  # two drawings and the table


@pytest.mark.parametrize(
    "bad",
    [
        5,
        picture(kind="script"),
        picture(series=[]),
        picture(series=[series([[1, 2], [3]])]),
        picture(series=[series([])]),
        picture(series=[series([[None, None], [None, None]])]),
        picture(series=[series([["<b>", 2], [3, 4]])]),
        picture(series=[series([[1e300, -1e300], [3, 4]])]),
        picture(series=[series([[0] * 200] * 200)], x=axis(*range(200)), y=axis(*range(200))),
        picture(kind="lines", series=[series("abc")]),
        picture(kind="points", series=[series([[1]])]),
        picture(kind="points", groups=["a"], series=[series([[1, 2, 1]])]),
        picture(kind="bars", series=[series([1, 2]), series([1])]),
        picture(kind="bars", x=axis(*range(101)), series=[series([1] * 101)]),
        picture(title=["a"]),
        picture(x=3),
    ],
)
def test_a_damaged_picture_is_a_sentence_and_hides_no_other(bad: Any, tmp_path: Path) -> None:
    folder = made_record(tmp_path / "run", "pgfed")
    (folder / "figures_learned.json").write_text(json.dumps([bad, picture()]))
    text = page(folder, tmp_path / "r.html").text
    assert "pgfed: picture 1 of figures_learned.json is damaged" in text and "pgfed: Seen" in text


@pytest.mark.parametrize("whole", ["{", "{}", "[1e999]", "[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]"])
def test_a_file_of_pictures_that_is_none(whole: str, tmp_path: Path) -> None:
    folder = made_record(tmp_path / "run", "pgfed")
    (folder / "figures_learned.json").write_text(whole)
    assert "figures_learned.json" in page(folder, tmp_path / "r.html").text


def test_a_link_in_place_of_pictures_is_not_followed(tmp_path: Path) -> None:
    folder = made_record(tmp_path / "run", "pgfed")
    (tmp_path / "secret.json").write_text(json.dumps([picture(title="Secret")]))
    (folder / "figures_learned.json").symlink_to(tmp_path / "secret.json")
    text = page(folder, tmp_path / "r.html").text
    assert "Secret" not in text and "figures_learned.json cannot be read" in text


def test_many_runs_make_a_file_that_opens(tmp_path: Path) -> None:
    """20 runs of 100 clients and 100 rounds: less than 8 MB. Lines are scored in every round, clients in some."""
    for i in range(20):
        made_record(tmp_path / "runs" / str(i), f"fedprox(mu={i})", clients=90, new=10, rounds=100, scored_every=50)
        rows = [json.loads(line) for line in (tmp_path / f"runs/{i}/rounds.jsonl").read_text().splitlines()]
        scores = {name: value for name, value in rows[-1].items() if "." in name}
        rows = [row | scores for row in rows]
        (tmp_path / f"runs/{i}/rounds.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert write_report([tmp_path / "runs"], tmp_path / "r.html").stat().st_size < 8e6


def test_of_very_many_clients_some_are_drawn_and_all_are_counted(tmp_path: Path) -> None:
    for method in ("local", "ditto", "fedavg"):
        made_record(tmp_path / "runs" / method, method, clients=900, new=300, rounds=1)
    sections = {section.name: section for section in sections_of(contents_of([tmp_path / "runs"]))}
    charts = {chart.name: chart for name in ("clients", "new-clients") for chart in sections[name].charts}
    assert {"sizes", "gains", "new-clients"} <= charts.keys()
    assert max(len(chart.drawing.table().rows) for chart in charts.values()) == 240
    assert "Of 900 clients the 160 that lose most and the 80 that gain most are drawn." in charts["gains"].see
    assert " of 900 clients have a worse model" in str([chart.see for chart in charts.values()])


# ---------------------------------------------------------------- from the command line


def test_run_writes_its_report_and_the_counts_of_classes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "--data", "digits", "--clients", "4", "--rounds", "1", "--epochs", "1", "--cohort", "1.0"]
    assert main([*words, "--out", str(tmp_path / "run"), "--json"]) == 0
    told = capsys.readouterr()
    assert f"Report in {tmp_path / 'run' / 'report.html'}" in told.err
    assert json.loads(told.out.splitlines()[-1])["method"] == "fedavg"
    assert "<h1>fedavg</h1>" in (tmp_path / "run/report.html").read_text(encoding="utf-8")
    people = read_clients_info(Record(tmp_path / "run")).clients
    assert all(len(person.counts) == 10 and sum(person.counts) == person.train for person in people)
    assert "counts" not in (tmp_path / "run/serving.json").read_text()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (MotetError("disk full"), "no report: disk full"),
        (TypeError("x"), "no report (TypeError: x), which is a mistake"),
    ],
)
def test_a_page_that_fails_costs_no_table(
    wrong: Exception, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise wrong

    monkeypatch.setattr(looking, "write_report", fail)
    made_record(tmp_path / "run", "fedavg")
    assert main(["resume", str(tmp_path / "run")]) == 0  # finished already
    told = capsys.readouterr()
    assert said in told.err and "fedavg" in told.out


@pytest.mark.parametrize("damage", ["[1.5]", "[-1]", '["x"]', "5", "[true]"])
def test_damaged_counts_are_refused(damage: str, tmp_path: Path) -> None:
    folder = made_record(tmp_path / "run", "fedavg")
    values = json.loads((folder / "clients.json").read_text())
    values["clients"][0]["counts"] = json.loads(damage)
    (folder / "clients.json").write_text(json.dumps(values))
    with pytest.raises(MotetError, match=r"clients\.json is damaged"):
        write_report([folder], tmp_path / "r.html")


def test_without_counts_the_sizes_are_shown(tmp_path: Path) -> None:
    folder = made_record(tmp_path / "run", "fedavg")
    values = json.loads((folder / "clients.json").read_text())
    for client in values["clients"]:
        del client["counts"]
    (folder / "clients.json").write_text(json.dumps(values))
    text = page(folder, tmp_path / "r.html").text
    assert "How much data each client has" in text and "which classes" not in text


@pytest.mark.parametrize("number", [1e308, 2**62, -1])
@pytest.mark.parametrize("file", ["summary.json", "rounds.jsonl", "clients.jsonl", "clients.json"])
def test_whatever_numbers_a_record_has_there_is_a_page_or_a_sentence(
    number: float, file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every number of the file in turn, and all of them."""
    folder = made_record(tmp_path / "run", "fedavg", clients=2, new=1, rounds=2, scored_every=1)
    text = (folder / file).read_text()
    places = list(re.finditer(r"(?<=: )-?[\d.]+(?:e-?\d+)?", text))
    every = re.sub(r"(?<=: )-?[\d.]+(?:e-?\d+)?", str(number), text)
    step = max(1, len(places) // 3)
    for damaged in (*(f"{text[: m.start()]}{number}{text[m.end() :]}" for m in places[::step]), every):
        (folder / file).write_text(damaged)
        assert main(["report", str(folder), "--out", str(tmp_path / "r.html")]) in (0, 2), damaged
        assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("everywhere", [0.0, 0.5, 1.0])
def test_models_that_are_all_alike_have_a_page(everywhere: float, compared: Path, tmp_path: Path) -> None:
    """Also where all are perfect: an axis from 100 % to 100 % has no length."""
    shutil.copytree(compared, tmp_path / "study")
    for file in (tmp_path / "study").rglob("*.jsonl"):
        text = re.sub(r'(accuracy[^"]*": )[\d.]+', rf"\g<1>{everywhere}", file.read_text())
        file.write_text(re.sub(r'(\.std": )[\d.]+', r"\g<1>0.0", text))
    drawn = [a["id"] for a in page(tmp_path / "study", tmp_path / "r.html").every("figure") if a.get("id")]
    assert any(str(name).startswith("chart-spread-") for name in drawn), drawn


def test_attackers_are_no_losers(tmp_path: Path) -> None:
    folder = made_record(tmp_path / "run", "fedavg", data={"malicious": 0.2, "clients": 5, "new_clients": 0}, new=0)
    rows = [json.loads(line) for line in (folder / "clients.jsonl").read_text().splitlines()]
    (folder / "clients.jsonl").write_text(
        "".join(f"{json.dumps(row | {'malicious': row['client'] == 1})}\n" for row in rows)
    )
    (contender,) = contents_of([folder]).contenders
    assert contender.first.clients.keys() == {0, 2, 3, 4, 5}


def test_runs_on_other_data_name_no_best(tmp_path: Path) -> None:
    made_record(tmp_path / "runs/a", "fedavg", clients=4)
    made_record(tmp_path / "runs/b", "local", clients=7, generic=False)
    assert "No best is named: the runs have different data." in page(tmp_path / "runs", tmp_path / "r.html").text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["report", "nowhere"], "nowhere is no run"),
        (["report", "run", "--out", "run"], "is a folder; accepted: a file such as report.html"),
        (["report", "run", "--out", "run/summary.json/r.html"], "cannot write"),
        (["figures", "run", "--format", "gif"], "unknown --format 'gif'"),
    ],
)
def test_mistakes_are_one_sentence(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    made_record(tmp_path / "run", "fedavg")
    assert main(words) == 2
    told = capsys.readouterr().err
    assert said in told and "Traceback" not in told, told


def test_where_the_data_lie_is_nobodys_business(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "of-somebody"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    np.savez(folder / "patients.npz", x=rng.random((200, 8, 8, 1), np.float32), y=np.arange(200) % 2)
    ran = motet.run(data=str(folder / "patients.npz"), clients=2, partition="iid", rounds=1, epochs=1, net="mlp")
    page = write_report([ran.folder], tmp_path / "page.html").read_text()
    assert "patients.npz" in page and "of-somebody" not in page


# ---------------------------------------------------------------- seen by who will use the models


@pytest.fixture(scope="module")
def by_auroc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison of hospitals by AUROC; one of them has very few rows."""
    folder = tmp_path_factory.mktemp("auroc")
    rng, lines = random.Random(0), ["x,z,site,dead"]
    for i in range(260):
        x = rng.gauss(0, 1)
        site = "Tiny" if i % 26 == 0 else ("Bern", "Chur")[i % 2]
        lines.append(f"{x:.3f},{rng.gauss(0, 1):.3f},{site},{'yes' if x + rng.gauss(0, 1) > 0.9 else 'no'}")
    (folder / "all.csv").write_text("\n".join(lines))
    motet.compare(
        folder / "all.csv", methods="local,fedavg,fedavg+ft", label="dead", client="site", metric="auroc", rounds=3,
        trials=1, seeds=1, repeats=1, jobs=1, out=folder / "study",
    )  # fmt: skip
    return folder / "study"


def test_a_page_speaks_of_the_metric_that_methods_are_judged_by(by_auroc: Path, tmp_path: Path) -> None:
    contents = contents_of([by_auroc])
    said = {section.name: str(section) for section in sections_of(contents)}
    for name in ("answer", "clients", "cost", "tradeoff", "rounds", "tuning"):
        assert "accuracy" not in said[name].lower().replace("accuracy-by-bytes", ""), name
        assert "AUROC" in said[name], name
    comparison = read_comparison(by_auroc)
    drawn = next(c for s in sections_of(contents) for c in s.charts if c.name == "tradeoff").drawing.table().rows
    assert {row[0] for row in drawn} == {each.method for each in comparison.methods}
    assert all(0 <= float(row[2].split()[0]) <= 1 for row in drawn)


def test_the_answer_stands_beside_what_there_is_without_it(by_auroc: Path) -> None:
    comparison = read_comparison(by_auroc)
    section = sections_of(contents_of([by_auroc]))[0]
    sheet = next(block for block in section.blocks if isinstance(block, Sheet))
    rows = {row[0].text: row[1].text for row in sheet.rows}
    for each in comparison.yardsticks:
        assert rows[each.name] == written(each.personal.mean, comparison.judged_by)
    assert comparison.best is not None
    assert rows[f"own models of {comparison.best.method}, recommended"] == written(
        comparison.best.personal.mean, comparison.judged_by
    )


def test_every_client_is_in_the_table_with_its_rows(by_auroc: Path) -> None:
    comparison = read_comparison(by_auroc)
    section = sections_of(contents_of([by_auroc]))[1]
    sheet = next(block for block in section.blocks if isinstance(block, Sheet))
    for client in comparison.clients:
        row = next(row for row in sheet.rows if row[0].text == client.name)
        told = dict(zip(sheet.titles, (cell.text for cell in row), strict=True))
        assert told["test rows"] == str(client.test) and told["training rows"] == str(client.train)
        assert told["own model"] == written(client.own, comparison.judged_by)
        assert told.get("verdict", "–") == (client.verdict or "–")
    assert len(sheet.rows) == len(comparison.clients)
    grids = [c.drawing.table().rows for c in section.charts if c.name.startswith(("gains", "clients-"))]
    tests = {client.name: client.test for client in comparison.clients}
    assert grids and all(row[0] == f"{row[0].rpartition(' (')[0]} ({tests[row[0].rpartition(' (')[0]]})"
                         for rows in grids for row in rows)  # fmt: skip


def test_shades_make_nothing_of_values_that_are_alike() -> None:
    """α from 0.2495 to 0.2506 is one shade; from 0 to 1 it is not."""
    alike = Grid(["a", "b"], ["c", "d"], [[0.2495, 0.2506], [0.25, 0.2501]], digits=4)
    apart = Grid(["a", "b"], ["c", "d"], [[0.0, 1.0], [0.5, 0.2]])
    shades = [set(re.findall(r'fill-opacity="([\d.]+)"', g.svg(800, True, "", ""))) for g in (alike, apart)]
    assert len(shades[0]) == 1 and len(shades[1]) == 4
    assert "all alike" in alike.legend_keys()[0].label and "pale" in apart.legend_keys()[0].label
