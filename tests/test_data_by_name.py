"""Data sets by name: where they are looked for, what `motet data list` and `get` say, and the real files if here."""

import gzip
import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from data_files import put

from motet.cli import main
from motet.config.experiment import resolve
from motet.config.identity import fingerprint
from motet.data import SOURCES, DataSettings, build, counts_table, locate_sources, locations
from motet.data.readers import archives
from motet.data.sources import load
from motet.data.sources.source import Download
from motet.errors import MotetError

X = np.zeros((60, 28, 28), np.uint8)
Y = np.arange(60) % 10


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without data."""
    monkeypatch.setenv("MOTET_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(locations, "ROOTS", (str(tmp_path / "prefix"),))
    return tmp_path


def write(folder: Path, shift: int = 0) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "mnist.npz", x=X + np.uint8(shift), y=Y)
    return folder


def test_places_in_their_order(nowhere: Path) -> None:
    places = ["data", "data/mnist", "cache/motet", "cache/motet/mnist", "prefix/share/datasets/mnist"]
    for number, place in enumerate(places):
        write(nowhere / place, shift=number)
    for number, place in enumerate(places):
        assert load("mnist").x[0, 0, 0, 0] == number, place
        (nowhere / place / "mnist.npz").unlink()
    with pytest.raises(MotetError, match="not on this machine"):
        load("mnist")


def test_data_dir_is_first_and_changes_no_fingerprint(nowhere: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(nowhere / "data")
    mine = write(nowhere / "mine", shift=9)
    assert load("mnist", dir=str(mine)).x[0, 0, 0, 0] == 9
    assert main(["data", "show", "mnist", "--data-dir", str(mine), "--clients", "2", "--partition", "iid"]) == 0
    shown = " ".join(capfd.readouterr().out.split())
    assert "60 samples (the whole data set has 70,000) from" in shown and "licence: CC BY-SA 3.0" in shown
    here, there = (resolve({"data": {"name": "mnist", "dir": place}}) for place in ("", str(mine)))
    assert fingerprint(here) == fingerprint(there)


def test_list_says_what_is_here(nowhere: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(nowhere / "data")
    rows = {row["name"]: row for row in locate_sources()}
    assert list(rows) == list(SOURCES)
    assert rows["mnist"]["where"] == str(nowhere / "data" / "mnist.npz")
    assert [name for name, row in rows.items() if row["where"]] == ["digits", "digits-domains", "mnist"]
    assert main(["data", "list", "--json"]) == 0
    assert json.loads(capfd.readouterr().out.splitlines()[-1]) == list(rows.values())
    assert main(["data", "list"]) == 0
    shown = " ".join(capfd.readouterr().out.split())
    assert "motet data get cifar10" in shown and "says what to put" in shown
    assert {row["name"] for row in locate_sources(str(write(nowhere / "mine")))} == set(SOURCES)


def test_every_data_set_says_what_it_is_and_how_it_comes_here(nowhere: Path) -> None:
    for source in SOURCES.values():
        assert source.summary and source.paper and source.licence and source.net
        assert bool(source.load) != bool(source.forms)
        assert source.load or source.downloads or source.where, source.name
        for download in source.downloads:
            assert len(download.sha256) == 64 and set(download.sha256) <= set("0123456789abcdef")
            assert any(download.file in form.files for form in source.forms), "what is fetched can be read"
        if not source.load:
            with pytest.raises(MotetError, match=f"data '{source.name}' is not on this machine; accepted: "):
                load(source.name)


def test_get_fetches_checks_and_loads(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    file = write(nowhere / "remote") / "mnist.npz"
    sound = Download(file.as_uri(), hashlib.sha256(file.read_bytes()).hexdigest())
    monkeypatch.setitem(SOURCES, "mnist", replace(SOURCES["mnist"], downloads=(sound,)))
    assert main(["data", "get", "mnist", "--json"]) == 0
    (path,) = json.loads(capfd.readouterr().out.splitlines()[-1])["files"]
    assert Path(path) == nowhere / "cache" / "motet" / "mnist" / "mnist.npz"
    assert len(load("mnist").y) == 60
    assert main(["data", "get", "mnist", "--data-dir", str(nowhere / "mine")]) == 0
    assert (nowhere / "mine" / "mnist" / "mnist.npz").is_file()
    monkeypatch.setitem(SOURCES, "mnist", replace(SOURCES["mnist"], downloads=(replace(sound, sha256="0" * 64),)))
    assert main(["data", "get", "mnist", "--data-dir", str(nowhere / "other")]) == 2
    assert "has SHA-256" in capfd.readouterr().err
    assert not list((nowhere / "other").rglob("*.npz"))


def test_get_is_honest_about_what_it_cannot_check(nowhere: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name in [name for name, source in SOURCES.items() if not source.load and not source.downloads]:
        assert main(["data", "get", name]) == 2
        err = " ".join(capfd.readouterr().err.split())
        assert f"data '{name}' is not fetched, for no SHA-256 of its official file is known" in err
        assert "MOTET_DATA" in err
        with pytest.raises(MotetError, match="not on this machine"):
            load(name, download=True)
    assert main(["data", "get", "digits"]) == 2
    assert main(["data", "get", "cifar"]) == 2
    assert "did you mean 'cifar10'?" in capfd.readouterr().err.replace("\n", " ")


def test_names_beside_numbers(tmp_path: Path) -> None:
    fields = {"x": X, "y": Y % 2, "domain": np.repeat([0, 1], 30), "client": np.repeat([2, 0], 30)}
    path = tmp_path / "own.npz"
    names = {"class_names": ["odd", "even"], "domain_names": ["svhn", "mnist"], "client_names": ["a", "b", "c"]}
    np.savez(path, **fields, **{name: np.array(words) for name, words in names.items()})
    raw = load(str(path))
    assert raw.class_names == ("odd", "even"), "as the numbers say, not in sorted order"
    assert (raw.domain_names, raw.client_names) == (("svhn", "mnist"), ("a", "b", "c"))
    for wrong, sentence in (
        ({"domain_names": np.array(["one"])}, "field 'domain_names' has 1 names for numbers from 0 to 1"),
        ({"domain_names": np.array(["one", "one"])}, "has a name twice"),
        ({"domain_names": np.array([0, 1])}, "field 'domain_names' has dtype int64"),
        ({"y": np.array(["a", "b"] * 30), "class_names": np.array(["x", "y"])}, "names numbers that are not there"),
    ):
        np.savez(path, **(fields | wrong))
        with pytest.raises(MotetError, match=sentence):
            load(str(path))


def test_a_choice_that_nobody_obeys_is_refused(nowhere: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(nowhere / "data")
    for data, field in (
        ("mnist", "size=16"),
        ("digits", "layout=interleaved"),
        ("har", "stride=2"),
        ("mnist", "color=rgb"),
    ):
        assert main(["data", "show", data, "--set", f"data.{field}"]) == 2
        name = field.partition("=")[0]
        assert f"data.{name} is" in (err := capfd.readouterr().err) and "has no such choice" in " ".join(err.split())
    assert main(["data", "show", str(nowhere / "data" / "mnist.npz"), "--set", "data.skip_broken=true"]) == 2


# ---------------------------------------------------------------- the real files


@pytest.fixture
def real(shared_data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("MOTET_DATA", str(shared_data))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return shared_data


def need(folder: Path, file: str) -> None:
    if not (folder / file).exists():
        pytest.skip(f"no {file} in {folder}")


REAL = {
    "har": ("har.npz", 10_299, 6, (9, 128)),
    "digits4": ("digits4.npz", 12_000, 10, (32, 32, 3)),
    "mnist": ("mnist.npz", 70_000, 10, (28, 28, 1)),
    "cifar10": ("cifar10.npz", 60_000, 10, (32, 32, 3)),
    "agnews": ("agnews.csv.gz", 17_600, 4, (200,)),
}


@pytest.mark.parametrize("name", REAL)
def test_the_real_files_load_by_name(real: Path, name: str) -> None:
    file, count, classes, shape = REAL[name]
    need(real, file)
    raw = load(name)
    assert (len(raw.y), raw.classes, raw.x.shape[1:]) == (count, classes, shape)
    assert np.bincount(raw.y, minlength=classes).min() > count / classes / 3
    if raw.kind == "image":
        assert raw.x.dtype == np.uint8


def test_the_real_pacs(real: Path) -> None:
    need(real, "pacs64.zip")
    raw = load("pacs")
    assert raw.domain is not None
    assert dict(zip(raw.domain_names, np.bincount(raw.domain).tolist(), strict=True)) == {
        "art_painting": 2048,
        "cartoon": 2344,
        "photo": 1670,
        "sketch": 3929,
    }
    assert (raw.classes, raw.x.shape, raw.x.dtype) == (7, (9991, 64, 64, 3), np.uint8)
    again = load("pacs")
    assert again.x.tobytes() == raw.x.tobytes(), "from the cache"


def test_the_real_digits4_as_a_file_of_the_users(real: Path) -> None:
    need(real, "digits4.npz")
    raw = load(str(real / "digits4.npz"))
    assert raw.domain_names == ("mnist", "mnist-m", "svhn", "usps")
    assert raw.domain is not None and np.bincount(raw.domain).tolist() == [3000] * 4


def test_the_real_har_has_its_subjects(real: Path) -> None:
    need(real, "har.npz")
    federation = build(DataSettings(name="har", partition="natural", pool="all", test_share=0.25), seed=0)
    assert [row["name"] for row in counts_table(federation)] == [str(subject) for subject in range(1, 31)]
    assert federation.class_names[0] == "walking"


def test_the_real_shakespeare(real: Path) -> None:
    need(real, "shakespeare.jsonl.gz")
    raw = load("shakespeare", stride=80)
    assert len(raw.client_names) == 141
    assert raw.class_names[int(np.bincount(raw.y).argmax())] == "space"
    assert len(load("shakespeare", stride=80, min_characters=0).client_names) > 200


def test_data_by_name_that_is_no_data(nowhere: Path) -> None:
    put(nowhere / "data" / "mnist.npz", b"PK")
    with pytest.raises(MotetError, match=r"mnist.npz: cannot be read as .npz"):
        load("mnist")


def test_the_page_has_every_data_set_with_its_licence() -> None:
    page = (Path(__file__).parents[1] / "docs" / "data.md").read_text(encoding="utf-8")
    cells = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("|")]
    rows = {row[0]: row for row in cells if len(row) == 4}
    for source in SOURCES.values():
        _, _, fetched, licence = rows[source.name]
        assert licence == source.licence
        assert fetched == ("" if source.load else "yes" if source.downloads else "no")


def test_a_file_that_unpacks_to_more_than_memory_is_refused(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(nowhere / "data" / "agnews.csv.gz", gzip.compress(b"split,label,text\n" + b"train,0,a\n" * 100_000))
    monkeypatch.setattr(archives, "free_memory", lambda: 100_000)
    with pytest.raises(MotetError, match=r"agnews.csv.gz: cannot be read \(more than 50,000 bytes, unpacked\)"):
        load("agnews")
