"""What somebody wrote is obeyed or refused: in a file, by `--set`, as a keyword, in short and in long."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import motet
from motet.cli import main, running
from motet.config.experiment import Experiment, parse_set, resolve
from motet.config.short_names import CHOICES, FIELDS, choose
from motet.errors import MotetError

OTHER = {  # than the default
    "method": "scaffold",
    "data": "mine.npz",
    "label": "outcome",
    "client": "hospital",
    "domain": "country",
    "leave_out": ("id", "date"),
    "schema": "s.toml",
    "encoding": "latin-1",
    "decimal": ",",
    "dates": "mdy",
    "group": "patient",
    "time_column": "date",
    "target": "number",
    "drop_missing": True,
    "data_dir": "elsewhere",
    "partition": "iid",
    "partition_seed": 3,
    "clients": 5,
    "new_clients": 0.25,
    "subset": 0.5,
    "rounds": 2,
    "cohort": 3,
    "epochs": 4,
    "batch": 13,
    "lr": 0.5,
    "net": "twonn",
    "head": "fc1",
    "precision": "bf16",
    "metric": "loss",
    "threshold": "recall>=0.9",
    "engine": "ray",
    "workers": 3,
    "ray_address": "127.0.0.1:6379",
    "seed": 8,
    "protocol": "pgfed",
}


def chosen(text: str, folder: Path, *sets: str, **short: Any) -> Experiment:
    """The experiment of a file with this text, these settings and these flags."""
    file = folder / "e.toml"
    file.write_text(text)
    return choose(short, file, *map(parse_set, sets))


def refusal(text: str, folder: Path, *sets: str, **short: Any) -> str:
    with pytest.raises(MotetError) as caught:
        chosen(text, folder, *sets, **short)
    said = str(caught.value)
    assert "\n" not in said and len(said) < 600
    return said


def field(experiment: Experiment, name: str) -> Any:
    value: Any = experiment
    for part in FIELDS[name].split("."):
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("name", CHOICES)
def test_every_short_name_is_obeyed_in_a_file_and_by_set(name: str, tmp_path: Path) -> None:
    value = OTHER[name]
    written = list(value) if isinstance(value, tuple) else value
    line = f"{name} = {'true' if written is True else repr(written)}"
    assert field(resolve({}), name) != value
    assert field(chosen(line, tmp_path), name) == value
    assert field(chosen("", tmp_path, line), name) == value
    assert field(chosen("", tmp_path, f"{name}={'true' if written is True else written}"), name) == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("local = 0.5", "local is 0.5: did you mean local.lr? accepted: a section with epochs, "),
        ("engine = 5", "engine.name is 5; accepted: text"),
        ("checkpoint = 3", "checkpoint is 3: did you mean checkpoint.every? accepted: "),
        ("scoring = 'x'", "scoring is 'x': did you mean scoring.metric? accepted: a section with "),
        ("adapt = 'x'", "adapt is 'x'; accepted: a section with "),
        ("[[data]]\nname = 'a'", "data is a list of tables, as [[data]] makes one; accepted: [data], "),
        ("[[local]]\nlr = 1.0", "local is a list of tables, as [[local]] makes one; accepted: [local], "),
        ("data = ['a.npz', 'b.npz']", "data.name is ('a.npz', 'b.npz'); accepted: text"),
        ("data = 5", "data.name is 5; accepted: text"),
        ("rounds = true", "rounds.count is True; accepted: a whole number of at least 1"),
        ("[lr]", "local.lr is {}; accepted: a number above 0"),
        ("lrr = 0.1", "unknown field 'lrr': did you mean 'lr'? accepted: "),
        ("'local.lr' = 0.1", "unknown field 'local.lr' in quotes; accepted: local.lr, without them"),
    ],
)
def test_what_is_no_short_form_is_refused(text: str, said: str, tmp_path: Path) -> None:
    assert refusal(text, tmp_path).startswith(said)


def test_a_short_form_and_its_long_form_must_agree(tmp_path: Path) -> None:
    said = refusal("lr = 0.1\n[local]\nlr = 0.2\n", tmp_path)
    assert said.endswith("says lr = 0.1 and local.lr = 0.2, which are the same field; accepted: one of them") or (
        said.endswith("says local.lr = 0.2 and lr = 0.1, which are the same field; accepted: one of them")
    )
    assert chosen("lr = 0.1\n[local]\nlr = 0.1\n", tmp_path).local.lr == 0.1
    for text in ("rounds = 2\n[rounds]\ncount = 3\n", "rounds = 2\nrounds.count = 3\n"):  # no TOML at all
        assert "rounds = … is short for rounds.count; accepted: one of them" in refusal(text, tmp_path)
    assert refusal("", tmp_path, "rounds=2", "rounds.count=3").startswith("--set says rounds = 2 and rounds.count = 3")
    assert chosen("", tmp_path, "rounds=2", "rounds.count=2").rounds.count == 2
    assert chosen("", tmp_path, "rounds=2", "rounds=3").rounds.count == 3  # the same words again: the last


def test_a_value_under_a_section_is_not_lost(tmp_path: Path) -> None:
    for sets in (["local=0.5", "local.epochs=1"], ["local.epochs=1", "local=0.5"]):
        assert refusal("", tmp_path, *sets).startswith("local is 0.5: did you mean local.lr?")
    assert refusal("local = 0.5", tmp_path, "local.epochs=1").startswith("local is 0.5: did you mean local.lr?")


def test_what_a_later_layer_replaces_is_still_read(tmp_path: Path) -> None:
    assert chosen("lr = 0.5", tmp_path, lr=0.25).local.lr == 0.25
    assert refusal("lr = 'fast'", tmp_path, lr=0.25) == "local.lr is 'fast'; accepted: a number above 0"
    assert refusal("", tmp_path, "lr=0.25", lr="fast") == "local.lr is 'fast'; accepted: a number above 0"


def test_a_run_of_a_file_with_short_forms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """D1 of the review: 20 rounds of mlp on digits were run instead, with exit code 0."""
    seen: list[Experiment] = []
    monkeypatch.setattr(running, "run_and_show", lambda experiment, *others: seen.append(experiment))
    file = tmp_path / "e.toml"
    file.write_text("rounds = 2\ndata = 'patients.npz'\nnet = 'twonn'\nmethod = 'scaffold'\n")
    assert main(["run", str(file)]) == 0
    e = seen[0]
    assert (e.rounds.count, e.data.name, e.net.name, e.method) == (2, "patients.npz", "twonn", "scaffold")
    with pytest.raises(MotetError, match=r"^patients\.npz: no such file"):
        motet.run(experiment=file)


def test_python_keywords_and_set() -> None:
    with pytest.raises(MotetError, match=r"^the command says rounds = 2 and rounds\.count = 3, which are the same"):
        motet.run(rounds=2, **{"rounds.count": 3})
    with pytest.raises(MotetError, match=r"^local is 0\.5: did you mean local\.lr\?"):
        motet.run(set={"local": 0.5, "local.epochs": 1})
    with pytest.raises(MotetError, match=r"^local is 0\.5: did you mean local\.lr\?"):
        motet.run(local=0.5)


@pytest.mark.parametrize("data", [np.zeros((9, 4)), (np.zeros((9, 4)),), [np.zeros(9)] * 3, {1, 2}])
def test_what_is_no_data_is_named_and_not_shown(data: Any) -> None:
    """A table of patients once made a sentence of 140,354 characters."""
    with pytest.raises(MotetError, match=r"^data is a .* in memory; accepted: .* data frame") as caught:
        motet.run(data=data)
    with pytest.raises(MotetError, match=r"^data is .*; accepted: "):
        choose({"data": data})
    assert len(str(caught.value)) < 300


# ------------------------------------------------------------ one client, or all of them


@pytest.mark.parametrize(
    ("given", "clients"), [("1", 1), ("1.0", 10), ("5", 5), ("5.0", 5), ("0.5", 5), ("1e0", 10), ("0.01", 1)]
)
def test_a_cohort_of_one_and_a_share_of_one(given: str, clients: int, tmp_path: Path) -> None:
    seen: list[Experiment] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "run_and_show", lambda experiment, *others: seen.append(experiment))
        for words in (["--cohort", given], ["--set", f"cohort={given}"], ["--set", f"rounds.cohort={given}"]):
            assert main(["run", *words]) == 0
    seen.append(chosen(f"cohort = {given}", tmp_path))
    seen.append(chosen(f"[rounds]\ncohort = {given}", tmp_path))
    assert [e.rounds.cohort_size(10) for e in seen] == [clients] * 5


def test_a_cohort_by_python_type() -> None:
    sizes = [choose({"cohort": c}).rounds.cohort_size(10) for c in (1, 1.0, np.int64(1), np.float64(1), 5, 5.0)]
    assert sizes == [1, 10, 1, 10, 5, 5]
