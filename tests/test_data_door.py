"""Data at the door: what a table is before anybody believes a figure about it, in notes and refusals."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import motet
from motet.cli import main
from motet.config.data_section import Columns
from motet.config.experiment import resolve
from motet.data import DataSettings, Federation, RawData, TablePrepare, build, default_partition
from motet.data.prepare_text import TextPrepare
from motet.data.readers.notation import is_number, notation_of
from motet.data.readers.registry import load_own, preview_of_own
from motet.data.schema import CategoryColumn
from motet.errors import MotetError
from motet.server.assembly import settle

RNG = np.random.default_rng(0)
NOISE = [f"{value:.3f}" for value in RNG.normal(size=2000)]


def table(
    folder: Path, rows: int = 240, encoding: str = "utf-8", delimiter: str = ",", **columns: Sequence[Any]
) -> Path:
    """A column of noise, hospitals and outcomes, and these columns beside them, again and again."""
    usual = {"noise": NOISE, "hospital": ["Bern", "Genf", "Zürich"], "outcome": ["no", "yes"]}
    named = {**usual, **columns}
    lines = [delimiter.join(named)]
    lines += [delimiter.join(str(values[i % len(values)]) for values in named.values()) for i in range(rows)]
    path = folder / "patients.csv"
    path.write_bytes(("\n".join(lines) + "\n").encode(encoding))
    return path


def read(path: Path, **more: Any) -> RawData:
    return load_own(path, "auto", Columns(**{"label": "outcome", "client": "hospital", **more}))


def refusal(path: Path, **more: Any) -> str:
    with pytest.raises(MotetError) as caught:
        read(path, **more)
    said = str(caught.value)
    assert "accepted: " in said and "\n" not in said
    return said


def column(raw: RawData, name: str) -> list[float]:
    """The stored numbers of a column."""
    assert raw.fit is not None
    prepare = raw.fit(raw.x, "none", np.arange(len(raw.x)))
    assert isinstance(prepare, TablePrepare)
    return [round(float(value), 4) for value in raw.x[:, list(prepare.schema.columns).index(name)]]


# ---------------------------------------------------------------- labels that are measurements


@pytest.mark.parametrize(
    ("labels", "rows", "said"),
    [
        (RNG.integers(0, 3000, 900).tolist(), 900, "different numbers such as "),
        ([f"{v:.2f}" for v in RNG.normal(size=300)], 900, "different numbers such as "),
        ([f"{i / 2:g}".replace(".", ",") for i in range(31)], 900, "different numbers such as "),
        ([f"{age}.0" for age in range(28, 78)], 920, "50 different numbers such as "),  # of the heart data
        (list(range(28, 78)), 920, "50 different numbers such as '77' in 920 rows, which is a measurement"),
        (list(range(18, 80)), 300, "62 different numbers such as '79' in 300 rows, which is a measurement"),
        ([f"name {i}" for i in range(500)], 900, "500 different values such as 'name 99' in 900 rows"),
    ],
)
def test_a_label_that_is_a_measurement_is_no_class(tmp_path: Path, labels: Sequence[Any], rows: int, said: str) -> None:
    """Numbers are predicted as such, and a note says so; texts that hardly any rows share are refused."""
    path = table(tmp_path, rows, delimiter=";", outcome=labels)
    if "different numbers" in said:
        raw = read(path)
        (note,) = [note for note in raw.notes if "outcome" in note]
        assert raw.target is not None and note.startswith("column 'outcome' holds ") and "as a number" in note
        assert read(path, target="class").target is None
        return
    found = refusal(path)
    assert "column 'outcome' holds " in found and said in found and "accepted: classes" in found


@pytest.mark.parametrize(
    ("labels", "rows"),
    [
        (list(range(10)), 200),  # digits
        (["0.5", "1.0", "1.5", "2.0", "2.5"], 200),  # stars
        (list(range(62)), 310),  # codes from 0 on
        (list(range(1, 101)), 600),
        ([f"c{i}" for i in range(30)], 240),
        ([2000, 2001, 2005], 60),
        ([f"{grade}{letter}" for grade in range(1, 9) for letter in "abc"], 240),  # of a school
    ],
)
def test_labels_that_are_classes_stay_so(tmp_path: Path, labels: Sequence[Any], rows: int) -> None:
    assert read(table(tmp_path, rows, outcome=labels)).classes == len(labels)


def test_classes_that_somebody_lists_are_meant(tmp_path: Path) -> None:
    y = RNG.choice(1000, 300, replace=False)
    named = np.array([f"{i}" for i in range(1000)])
    np.savez(tmp_path / "a.npz", x=np.zeros((300, 3), np.float32), y=y, class_names=named)
    assert load_own(tmp_path / "a.npz").classes == 1000
    pixels = np.zeros((150, 32, 32, 3), np.uint8)
    np.savez(tmp_path / "cifar100.npz", x=pixels, y=RNG.integers(0, 100, 150))
    assert build(DataSettings(name="cifar100", dir=str(tmp_path), partition="iid", clients=3), 0).classes == 100
    classes = ", ".join(f'"{value}.5"' for value in range(60))
    (tmp_path / "s.toml").write_text(f'label = "outcome"\nclasses = [{classes}]\n[columns.noise]\nkind = "number"\n')
    assert read(table(tmp_path, outcome=[f"{value}.5" for value in range(60)]), schema=str(tmp_path / "s.toml"))


def test_arrays_of_measured_labels_are_refused_too(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((442, 3), np.float32), y=RNG.integers(25, 347, 442))
    with pytest.raises(MotetError, match=r"field 'y' holds \d+ different numbers such as .* which is a measurement"):
        load_own(tmp_path / "a.npz")


# ---------------------------------------------------------------- numbers as people write them


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (["18,0", "19,5", "20"], [18.0, 19.5, 20.0]),
        (["1.234,5", "999,25", "12"], [1234.5, 999.25, 12.0]),
        (["1,234.50", "12.25", "7"], [1234.5, 12.25, 7.0]),
        (["1 234", "12 345", "7"], [1234.0, 12345.0, 7.0]),
        (["1'234.5", "12.0", "-7"], [1234.5, 12.0, -7.0]),
        (["72 kg", "81.5 kg", "60 kg"], [72.0, 81.5, 60.0]),
        (["72,5 kg", "81 kg", "60 kg"], [72.5, 81.0, 60.0]),
        (["5 %", "10%", "2.5 %"], [5.0, 10.0, 2.5]),
        (["€ 10", "€ 20,50", "€ 3"], [10.0, 20.5, 3.0]),
        (["$1,000.50", "$2", "$3"], [1000.5, 2.0, 3.0]),
        (["10 €", "NA", "3 €"], [10.0, float("nan"), 3.0]),
        (["5,5 l/100km", "7 l/100km", "6,25 l/100km"], [5.5, 7.0, 6.25]),
        (["40 m2", "1.000,5 m2", "60 m2"], [40.0, 1000.5, 60.0]),
        (["Fr. 5", "Fr. 7.50", "Fr. 1'000"], [5.0, 7.5, 1000.0]),
        (["-5 °C", "+7 °C", "0 °C"], [-5.0, 7.0, 0.0]),
        (["0,123", "0,500", "1,5"], [0.123, 0.5, 1.5]),
    ],
)
def test_numbers_are_read_as_people_write_them_and_a_note_says_so(
    tmp_path: Path, written: list[str], value: list[float]
) -> None:
    raw = read(table(tmp_path, delimiter=";", dose=written))
    assert column(raw, "dose")[:3] == pytest.approx(value, nan_ok=True)
    (said,) = [note for note in raw.notes if note.startswith("read as numbers: ")]
    assert "'dose' (" in said and any(text in said for text in written)


def test_a_continuous_column_with_decimal_commas_is_no_longer_left_out(tmp_path: Path) -> None:
    """More than 256 different texts, of which only some are seen before it is known."""
    values = [f"{v:.4f}".replace(".", ",") for v in np.linspace(-3, 500, 2000)]
    raw = read(table(tmp_path, 2000, delimiter=";", dose=values))
    assert column(raw, "dose") == pytest.approx(np.linspace(-3, 500, 2000), abs=1e-3)
    late = [*values[:1999], "unknown"]
    raw = read(table(tmp_path, 2000, delimiter=";", dose=late))
    (said,) = [note for note in raw.notes if note.startswith("left out")]
    assert "'dose' (more than 256 different texts, many of them numbers such as '-3,0000')" in said


def test_the_decimal_sign_can_be_said(tmp_path: Path) -> None:
    unclear = table(tmp_path, delimiter=";", dose=["1,234", "12,500", "3"])
    assert "column 'dose' holds '1,234'" in refusal(unclear) and "--decimal , or --decimal ." in refusal(unclear)
    assert column(read(unclear, decimal=","), "dose")[:3] == [1.234, 12.5, 3.0]
    assert column(read(unclear, decimal="."), "dose")[:3] == [1234.0, 12500.0, 3.0]
    points = table(tmp_path, delimiter=";", dose=["1.234", "12.500", "3"])
    assert column(read(points, decimal=","), "dose")[:3] == [1234.0, 12500.0, 3.0]
    commas = table(tmp_path, delimiter=";", dose=["18,0", "19,5", "20"])
    (said,) = [note for note in read(commas, decimal=".").notes if "dose" in note]
    assert said == "column 'dose' holds numbers written in several ways, as '18,0' and '19,5', so that its values are categories"  # fmt: skip # noqa: E501


@pytest.mark.parametrize("written", [["72 kg", "160 lb"], ["1,5", "1.5", "2,25", "2.25"], ["10", "20", "ten", "30"]])
def test_what_is_half_numbers_is_told(tmp_path: Path, written: list[str]) -> None:
    raw = read(table(tmp_path, delimiter=";", dose=written))
    assert any("'dose'" in note and "so that its values are categories" in note for note in raw.notes)


@pytest.mark.parametrize(
    "codes", [["A1", "A2"], ["2020-01-01", "x"], ["h0", "h1"], ["1.2.3", "1.2.4"], ["<5", ">5"], ["3a", "3b"]]
)
def test_codes_stay_categories_without_a_word(tmp_path: Path, codes: list[str]) -> None:
    raw = read(table(tmp_path, delimiter=";", code=[*codes, *codes[::-1], codes[0]]))
    assert not [note for note in raw.notes if "code" in note]
    assert notation_of(codes, "auto", "code", "here") is None


def test_what_is_a_number() -> None:
    assert all(map(is_number, ["1", "-1.5", "1e5", ".5", "18,0", "1.234,5", "1,234", "5 %", "€ 3", "72 kg", "5 g"]))
    assert not any(map(is_number, ["", "a", "a1", "3a", "10B", "1-2", "1.2.3", "12:30", "1,2,3", "kg"]))


def test_rows_to_predict_may_be_written_so_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = table(tmp_path, delimiter=";", dose=["18,0", "19,5", "20", "21,25"])
    result = motet.run(data=str(path), label="outcome", client="hospital", rounds=1, out="run")
    notes = json.loads(Path("run/summary.json").read_text())["data_notes"]
    assert notes == list(result.summary["data_notes"]) and "read as numbers: 'dose' ('18,0' is 18)" in notes
    main(["data", "schema", str(path), "--label", "outcome", "--client", "hospital", "--out", "s.toml"])
    raw = read(path, schema="s.toml")
    assert column(raw, "dose")[:4] == [18.0, 19.5, 20.0, 21.25]


# ---------------------------------------------------------------- encodings


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-8-sig"])
def test_other_encodings_are_read_when_they_are_named(tmp_path: Path, encoding: str) -> None:
    path = table(tmp_path, encoding=encoding)
    assert read(path, encoding=encoding).client_names == ("Bern", "Genf", "Zürich")
    if encoding != "utf-8-sig":
        said = refusal(path)
        assert "is not text in UTF-8 (line " in said or "is no text" in said
        assert "UTF-8" in said


def test_the_encoding_is_an_option_of_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = table(tmp_path, encoding="latin-1")
    words = ["data", "show", str(path), "--label", "outcome", "--client", "hospital"]
    assert main(words) == 2
    assert (
        "is not text in UTF-8 (line 4); accepted: CSV in UTF-8, or --encoding such as latin-1"
        in capsys.readouterr().err
    )
    assert main([*words, "--encoding", "latin-1"]) == 0
    assert "Zürich" in capsys.readouterr().out
    assert main([*words, "--encoding", "klingon"]) == 2
    assert "data.encoding is 'klingon'; accepted: utf-8, latin-1" in capsys.readouterr().err
    for name in ("base64", "rot13", "hex"):
        assert main([*words, "--encoding", name]) == 2
    assert main(["data", "show", "digits", "--decimal", ","]) == 2
    assert "data.decimal is ',', but data 'digits' has no columns" in capsys.readouterr().err


# ---------------------------------------------------------------- rows without a label or a client


def test_rows_with_holes_are_refused_with_their_count_or_dropped_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = table(
        tmp_path, 210, outcome=["no", "yes", "NA", "no", "yes"], hospital=["Bern", "Genf", "", "Zug", "Zug", "Bern"]
    )
    assert "column 'outcome' has no label in 42 of 210 rows, first in row 3; accepted: a label in every row, or --drop-missing" in refusal(path)  # fmt: skip # noqa: E501
    raw = read(path, drop_missing=True)
    assert len(raw.y) == len(raw.x) == 210 - 42 - 28
    assert raw.notes[0] == "70 of 210 rows were dropped: 42 without a label, 28 without a client"
    lines = path.read_text().splitlines()[1:]
    whole = [line.split(",") for line in lines if "NA" not in line and ",," not in line]
    assert column(raw, "noise") == pytest.approx([float(line[0]) for line in whole], abs=1e-4)
    only = table(tmp_path, 60, outcome=["no", "yes", "odd"], hospital=["Bern", "Genf", ""])
    assert read(only, drop_missing=True).class_names == ("no", "yes"), "a class of dropped rows alone is none"
    path = table(
        tmp_path, 210, outcome=["no", "yes", "NA", "no", "yes"], hospital=["Bern", "Genf", "", "Zug", "Zug", "Bern"]
    )
    words = ["data", "show", str(path), "--label", "outcome", "--client", "hospital", "--drop-missing", "--json"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["notes"][0].startswith("70 of 210 rows were dropped")


# ---------------------------------------------------------------- leaks


def leaks(raw: RawData) -> list[str]:
    return [note for note in raw.notes if note.startswith("possible leak: ")]


def test_columns_that_tell_the_label_are_named(tmp_path: Path) -> None:
    copy, when = ["n", "y"], ["", 3, "", 5, "", 7]
    ids = RNG.permutation(10**6)[:400]
    path = table(tmp_path, 400, copy=copy, score=[0.25, 1.75], paid=when, record=ids, age=RNG.integers(18, 90, 400))
    told, empty, id = leaks(read(path))
    assert "each of the columns 'copy', 'score' alone tells the label almost perfectly" in told
    assert "column 'paid' is empty for one class and filled for the others" in empty
    assert "column 'record' has a different whole number in every row, as an id has: leave it out with --leave-out record?" in id  # fmt: skip # noqa: E501
    assert read(path, leave_out=("copy", "score", "paid", "record")).notes == ()


def test_a_measurement_that_separates_the_classes_is_named_and_an_honest_one_is_not(tmp_path: Path) -> None:
    sure = [f"{(i % 2) * 5 + RNG.random():.4f}" for i in range(600)]
    good = [f"{(i % 2) * 2 + RNG.normal():.4f}" for i in range(600)]  # 84 %
    (said,) = leaks(read(table(tmp_path, 600, sure=sure, good=good)))
    assert "column 'sure' alone tells" in said
    rare = [f"r{i // 2}" for i in range(600)]
    assert not leaks(read(table(tmp_path, 600, rare=rare, good=good))), "values of two rows tell nothing"


def test_real_tables_have_no_leaks(tmp_path: Path) -> None:
    from sklearn.datasets import load_breast_cancer, load_iris, load_wine

    for loader in (load_breast_cancer, load_iris, load_wine):
        frame = loader(as_frame=True).frame
        frame.to_csv(tmp_path / "t.csv", index=False)
        assert not leaks(load_own(tmp_path / "t.csv", "auto", Columns(label="target"))), loader.__name__


# ---------------------------------------------------------------- clients


def federation(path: Path, **choices: Any) -> Federation:
    return build(DataSettings.model_validate({"name": str(path), "label": "outcome", **choices}), 0)


def test_who_forgets_the_column_of_clients_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = table(tmp_path, 800, site_id=[1, 2, 3, 3, 1, 2, 2])
    (note,) = federation(path, clients=4).notes
    assert note.startswith("nothing says whose row it is, so 4 clients are simulated by dirichlet:0.3; --client COLUMN")
    assert "'hospital', 'site_id' may be such a column" in note
    (note,) = federation(path, clients=4, leave_out=["hospital", "site_id"]).notes
    assert note == "nothing says whose row it is, so 4 clients are simulated by dirichlet:0.3"
    assert federation(path, clients=4, leave_out=["hospital", "site_id"], partition="iid").notes == ()
    assert federation(path, client="hospital").notes == ()
    assert main(["data", "show", str(table(tmp_path, 60)), "--label", "outcome"]) == 2
    assert "or real clients by --client, perhaps 'hospital'" in capsys.readouterr().err


def test_a_client_of_few_rows_does_not_vanish_without_a_word(tmp_path: Path) -> None:
    path = table(tmp_path, 240)
    with path.open("a") as file:
        file.write("0.5,Altdorf,yes\n0.1,Basel,no\n0.7,Basel,yes\n")
    everybody = federation(path, client="hospital")
    assert {"Altdorf", "Basel"} < {client.name for client in everybody.clients}
    assert "2 of 5 clients have too few rows for test rows of their own: 'Altdorf', 'Basel'" in everybody.notes, (
        everybody.notes
    )
    gone, small = set[str](), 0
    for seed in range(12):
        dealt = build(DataSettings(name=str(path), label="outcome", client="hospital", pool="train"), seed)
        here = {client.name for client in dealt.clients}
        missing = {"Altdorf", "Basel"} - here
        gone |= missing
        said = " ".join(dealt.notes)
        for name in missing:
            assert f"{name!r} (" in said and "take no part, because all their rows are in the common test set" in said
        small += "have too few rows for test rows of their own" in said
    assert gone and small


# ---------------------------------------------------------------- natural by default


def arrays(folder: Path, **more: Any) -> Path:
    rows = np.arange(300)
    path = folder / "a.npz"
    np.savez(path, x=RNG.normal(size=(300, 4)).astype(np.float32), y=rows % 3, **more)
    return path


def test_data_that_say_whose_each_sample_is_are_natural_by_default(tmp_path: Path) -> None:
    path = arrays(tmp_path, client=np.arange(300) % 7)
    assert len(build(DataSettings(name=str(path)), 0).clients) == 7
    assert len(build(DataSettings(name=str(path), partition="iid", clients=3), 0).clients) == 3
    settled = settle(resolve({"data": {"name": str(path)}}))
    assert (settled.data.partition, settled.scoring.test) == ("natural", "split")
    assert (
        settle(resolve({"data": {"name": str(path), "partition": "dirichlet:0.3"}})).data.partition == "dirichlet:0.3"
    )
    (note,) = build(DataSettings(name=str(path), clients=3), 0).notes
    assert note.startswith("data.clients is 3, but the data say whose each sample is, so there are 7 clients")
    without = arrays(tmp_path)
    assert settle(resolve({"data": {"name": str(without)}})).data.partition == "dirichlet:0.3"
    assert len(build(DataSettings(name=str(without), clients=5), 0).clients) == 5


def test_so_are_data_in_memory_and_folders_of_files(tmp_path: Path) -> None:
    x, y = RNG.normal(size=(300, 4)).astype(np.float32), np.arange(300) % 3
    result = motet.run(data={"x": x, "y": y, "client": np.arange(300) % 5}, rounds=1, **{"local.epochs": 1})
    assert len(result.clients) == 5 and result.summary.partition == "natural"
    for name in "abc":
        np.savez(tmp_path / f"{name}.npz", x=x[:100], y=y[:100])
    assert [client.name for client in build(DataSettings(name=str(tmp_path)), 0).clients] == ["a", "b", "c"]


def test_a_preview_says_of_all_data_what_reading_them_finds(tmp_path: Path) -> None:
    path = table(tmp_path)
    for columns in (Columns(label="outcome"), Columns(label="outcome", client="hospital")):
        assert preview_of_own(path, "auto", columns).clients == (load_own(path, "auto", columns).client is not None)
    for name in ("digits", "digits-domains"):
        settings = DataSettings(name=name)
        natural = name == "digits-domains"
        assert default_partition(settings) == ("natural" if natural else "dirichlet:0.3")
        assert len(build(settings, 0).clients) == (40 if natural else 20)


def test_one_client_is_no_federation(tmp_path: Path) -> None:
    with pytest.raises(MotetError, match=r"names only one client; accepted: at least two, or no field 'client'"):
        load_own(arrays(tmp_path, client=np.zeros(300, int)))


# ---------------------------------------------------------------- rare values


def test_a_rare_category_is_in_nobodys_model(tmp_path: Path) -> None:
    job = ["nurse", "cook"] * 119 + ["astronaut", "astronaut"]
    path = table(tmp_path, 240, job=job)
    dealt = federation(path, client="hospital")
    assert isinstance(dealt.prepare, TablePrepare)
    known = dealt.prepare.schema.columns["job"]
    assert isinstance(known, CategoryColumn) and known.categories == ("cook", "nurse")
    assert "astronaut" not in json.dumps(dealt.prepare.saved()[0]) + " ".join(dealt.notes)
    assert "categories in fewer than 5 training rows count as unknown: 1 of 'job'" in dealt.notes
    everything = federation(path, client="hospital", min_count=1, normalize_on="all")
    known = everything.prepare.schema.columns["job"]  # type: ignore[attr-defined]
    assert known.categories == ("astronaut", "cook", "nurse") or known.categories == ("cook", "nurse")
    x, _ = next(dealt.test.all_batches(48))
    assert x.shape[1] == dealt.input.shape[0] == 1 + 2


def test_a_column_of_rare_values_alone_names_none(tmp_path: Path) -> None:
    path = table(tmp_path, 60, town=[f"t{i // 3}" for i in range(60)])
    prepare = federation(path, client="hospital").prepare
    assert isinstance(prepare, TablePrepare)
    assert prepare.schema.columns["town"].categories == ("(none)",)  # type: ignore[union-attr]


def test_a_rare_word_is_in_nobodys_model(tmp_path: Path) -> None:
    texts = [f"the {'team' if i % 2 else 'bank'} won" for i in range(118)]
    texts += ["Rumpelstiltskin Rumpelstiltskin Rumpelstiltskin Rumpelstiltskin Rumpelstiltskin"] * 2
    frame = pd.DataFrame({"text": texts, "outcome": ["sport", "money"] * 60, "hospital": ["a", "b", "c"] * 40})
    frame.to_csv(tmp_path / "t.csv", index=False)
    dealt = federation(tmp_path / "t.csv", client="hospital", kind="tokens")
    assert isinstance(dealt.prepare, TextPrepare)
    assert set(dealt.prepare.tokenizer.known) == {"the", "team", "bank", "won"}
    assert dealt.notes == ("1 of 5 words are in fewer than 5 training texts and count as unknown",)
    known = federation(tmp_path / "t.csv", client="hospital", kind="tokens", min_count=1, normalize_on="all").prepare
    assert isinstance(known, TextPrepare) and len(known.tokenizer.known) >= 4


def test_a_comparison_says_what_it_was_told_of_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = table(tmp_path, 300, copy=["n", "y"])
    words = ["--label", "outcome", "--client", "hospital", "--methods", "local,fedavg", "--trials", "1", "--seeds", "1"]
    assert main(["compare", str(path), *words, "--rounds", "2", "--epochs", "1", "--jobs", "1", "--out", "c"]) == 0
    assert any(
        "possible leak: column 'copy'" in note for note in json.loads(Path("c/comparison.json").read_text())["notes"]
    )
    assert "possible leak: column 'copy'" in " ".join(capsys.readouterr().out.split())
