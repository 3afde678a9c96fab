"""The experiment file: resolving, writing, comparing, explaining."""

import re
import tomllib
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from motet.config import identity, toml
from motet.config.experiment import Experiment, commented_template, parse_set, read, resolve, to_toml, write
from motet.config.identity import DEFAULTS, differences, fingerprint, same_experiment
from motet.config.nesting import merge
from motet.config.presets import PROTOCOLS, describe_protocols
from motet.config.section import accepted, dotted_fields
from motet.errors import MotetError

LEAVES = st.one_of(st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.lists(st.integers()))
NESTED = st.recursive(st.dictionaries(st.text(), LEAVES), lambda inner: st.dictionaries(st.text(), inner | LEAVES))
CHOICES = st.fixed_dictionaries(
    {},
    optional={
        "method": st.text(),
        "seed": st.integers(0, 2**62),
        "protocol": st.sampled_from(list(PROTOCOLS)),
        "data": st.fixed_dictionaries(
            {},
            optional={
                "name": st.text(),
                "partition_seed": st.none() | st.integers(0, 9),
                "clients": st.integers(1, 10**6),
                "download": st.booleans(),
            },
        ),
        "local": st.fixed_dictionaries(
            {},
            optional={
                "lr": st.floats(1e-15, 1e6, allow_nan=False),
                "momentum": st.floats(0, 1, exclude_max=True),
                "drop_last": st.booleans(),
            },
        ),
        "scoring": st.fixed_dictionaries({}, optional={"test": st.sampled_from(["common", "split"])}),
        "engine": st.fixed_dictionaries({}, optional={"workers": st.integers(0, 64)}),
    },
)


def refused(values: dict[str, Any]) -> str:
    with pytest.raises(MotetError) as caught:
        resolve(values)
    text = str(caught.value)
    assert "\n" not in text
    return text


# Resolving


def test_defaults_then_preset_then_choices() -> None:
    assert resolve({}) == Experiment()
    preset = resolve({"protocol": "dbe"})
    assert (preset.local.batch, preset.local.momentum, preset.data.partition_seed) == (10, 0.0, 1)
    chosen = resolve({"protocol": "dbe", "local": {"batch": 7}})
    assert (chosen.local.batch, chosen.local.momentum, chosen.local.clip) == (7, 0.0, 0.0)


def test_none_is_no_choice() -> None:
    assert resolve({"protocol": "dbe", "seed": None, "data": {"partition_seed": None}}) == resolve({"protocol": "dbe"})


def test_numpy_numbers_and_paths_are_choices() -> None:
    experiment = resolve({"seed": np.int64(3), "local": {"lr": np.float64(0.5)}, "data": {"name": Path("a/b.npz")}})
    assert (experiment.seed, experiment.local.lr, experiment.data.name) == (3, 0.5, "a/b.npz")


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"local": {"batch": -1}}, "local.batch is -1; accepted: a whole number of at least 0"),
        ({"local": {"batch": True}}, "local.batch is True; accepted: a whole number of at least 0"),
        ({"local": {"batch": 1.5}}, "local.batch is 1.5; accepted: a whole number of at least 0"),
        ({"local": {"lr": "fast"}}, "local.lr is 'fast'; accepted: a number above 0"),
        ({"local": {"lr": float("nan")}}, "local.lr is nan; accepted: a number above 0"),
        ({"local": {"momentum": 1}}, "local.momentum is 1; accepted: a number of at least 0 and below 1"),
        ({"local": {"drop_last": "yes"}}, "local.drop_last is 'yes'; accepted: true or false"),
        ({"scoring": {"test": "all"}}, "scoring.test is 'all'; accepted: auto | common | split"),
        (
            {"data": {"partition_seed": -1}},
            "data.partition_seed is -1; accepted: a whole number of at least 0 and of at most 9223372036854775807",
        ),
        ({"method": 3}, "method is 3; accepted: text"),
        ({"net": "cnn4"}, "net is 'cnn4': did you mean net.name? accepted: a section with name, head"),
        (
            {"protocol": "ditto"},
            "protocol is 'ditto'; accepted: motet | fedrod | fedrod-emnist | fedrod-cifar | pgfed | fedbasis |",
        ),
        ({"protocol": ["dbe"]}, "protocol is ['dbe']; accepted: motet |"),
        ({"local": {"ephocs": 1}}, "unknown field in [local] 'ephocs': did you mean 'epochs'?"),
        ({"sead": 1}, "unknown field 'sead': did you mean 'seed'?"),
        ({"lr": 1}, "unknown field 'lr': did you mean 'local.lr'?"),
    ],
)
def test_a_wrong_choice_is_one_sentence(values: dict[str, Any], sentence: str) -> None:
    assert refused(values).startswith(sentence)


def test_text_that_is_no_unicode_is_refused() -> None:
    refused({"method": "\ud800"})


def test_merge_goes_deep_and_changes_nothing_given() -> None:
    below = {"a": {"b": 1, "c": 2}, "d": 3}
    assert merge(below, {"a": {"c": 4}}, {"d": {"e": 5}}) == {"a": {"b": 1, "c": 4}, "d": {"e": 5}}
    assert below == {"a": {"b": 1, "c": 2}, "d": 3}


# Writing and reading


@given(NESTED)
@example({"a b": {"": '\x7f\x00\t"\\ \U0001f3b5'}, "x": 1e-5, "y": -0.0, "z": 5.0})
def test_toml_round_trip(values: dict[str, Any]) -> None:
    back = tomllib.loads(toml.dumps(values))
    assert repr(sort(back)) == repr(sort(values))  # repr: 1 is not 1.0, 0.0 is not -0.0


def sort(value: Any) -> Any:
    return {key: sort(value[key]) for key in sorted(value)} if isinstance(value, dict) else value


@given(CHOICES)
def test_experiment_round_trip(choices: dict[str, Any]) -> None:
    experiment = resolve(choices)
    again = resolve(tomllib.loads(to_toml(experiment)))
    assert again == experiment
    assert fingerprint(again) == fingerprint(experiment)
    assert resolve(tomllib.loads(commented_template(experiment))) == experiment


_WORDS = ("min_size", "label", "client", "domain", "group", "time_column", "table_schema", "size", "new_test_share")
NOT_SAID = {f"data.{word}" for word in _WORDS}
"""What has no value where nobody chose one."""


def test_the_file_is_fully_resolved(tmp_path: Path) -> None:
    experiment = resolve({"protocol": "pgfed"})
    write(experiment, tmp_path / "experiment.toml")
    found = read(tmp_path / "experiment.toml")
    for dotted, _ in dotted_fields(Experiment):
        section, _, name = dotted.rpartition(".")
        assert name in (found[section] if section else found) or dotted in NOT_SAID


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "does not exist"),
        (b"seed = 1\nlocal = = 2\n", r"is not valid TOML: .*line 2"),
        (b"seed = 1\nseed = 2\n", r"is not valid TOML: .*line 2"),
        (b"method = '\xff'\n", "is not text in UTF-8"),
        ("folder", "is a folder; accepted: a file"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, content: bytes | str | None, sentence: str) -> None:
    path = tmp_path / "experiment.toml"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content:
        path.mkdir()
    with pytest.raises(MotetError, match=sentence) as caught:
        read(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.1", 0.1),
        ("40", 40),
        ("true", True),
        ("cnn4", "cnn4"),
        ("'cnn4'", "cnn4"),
        ("dirichlet:0.3", "dirichlet:0.3"),
        ("fedprox(mu=0.01)+ft", "fedprox(mu=0.01)+ft"),
        ("[1, 2]", [1, 2]),
        ("2024-01-01", "2024-01-01"),
        ("1\nseed = 2", "1\nseed = 2"),
        ("", ""),
    ],
)
def test_set(text: str, value: Any) -> None:
    assert parse_set(f"local.lr={text}") == {"local": {"lr": value}}
    assert parse_set(f"method = {text}") == {"method": value}


@pytest.mark.parametrize("text", ["local.lr", "=1", "local..lr=1", ".=1", "", 'data.name="half', "x=[1"])
def test_set_refuses(text: str) -> None:
    with pytest.raises(MotetError, match=r"--set .*accepted: "):
        parse_set(text)


# Comparing


@given(CHOICES, CHOICES)
def test_fingerprints_are_equal_when_nothing_differs(a: dict[str, Any], b: dict[str, Any]) -> None:
    there, here = resolve(a), resolve(b)
    assert (fingerprint(there) == fingerprint(here)) == (differences(there, here) == [])


def test_differences_are_named() -> None:
    there, here = resolve({"local": {"lr": 0.01}}), resolve({"local": {"lr": 0.1}, "method": "local"})
    assert differences(there, here) == ["method: fedavg there, local here", "local.lr: 0.01 there, 0.1 here"]


def test_what_cannot_change_a_number_is_not_in_the_fingerprint() -> None:
    elsewhere = {"engine": {"workers": 3, "name": "inline"}, "checkpoint": {"every": 9}, "data": {"download": True}}
    assert fingerprint(resolve(elsewhere)) == fingerprint(resolve({}))
    assert fingerprint(resolve({"data": {"subset": 0.5}})) != fingerprint(resolve({}))


def test_a_new_field_at_its_default_changes_no_fingerprint() -> None:
    class Later(Experiment):
        """An Experiment of a later version."""

        came_later: int = 5

    values = resolve({"local": {"lr": 0.2}}).model_dump()
    now, later = fingerprint(resolve(values)), fingerprint_of(Later.model_validate(values))
    assert now == later
    assert now != fingerprint_of(Later.model_validate(values | {"came_later": 6}))


def fingerprint_of(later: Experiment) -> str:
    """The fingerprint as a version with that class of experiments makes it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(identity, "Experiment", type(later))
        return fingerprint(later)


@pytest.mark.parametrize("saved", ["99:abc", "3:abc", "abc"])
def test_a_fingerprint_under_other_defaults_is_refused(saved: str) -> None:
    with pytest.raises(MotetError, match=rf"^a checkpoint has defaults of version \w+; accepted: {DEFAULTS}, so use"):
        same_experiment(saved, resolve({}))


def test_an_experiment_is_the_same_as_itself_written_down_and_no_other() -> None:
    here = resolve({"method": "scaffold", "local": {"lr": 0.3}, "protocol": "pgfed"})
    assert same_experiment(fingerprint(here), resolve(here.model_dump()))
    assert same_experiment(fingerprint(here), here.with_({"engine.name": "inline", "checkpoint.every": 3}))
    for other in ({"seed": 4}, {"transforms": "clip"}, {"local.lr": 0.30000001}, {"rounds": {"count": 7}}):
        assert not same_experiment(fingerprint(here), here.with_(other))


def test_with_changes_what_it_names_and_checks_it() -> None:
    here = resolve({"protocol": "pgfed", "local": {"lr": 0.3}})
    there = here.with_({"local": {"epochs": 2}}, {"local.lr": 0.1, "seed": 5})
    assert (there.local.epochs, there.local.lr, there.seed) == (2, 0.1, 5)
    assert there.with_({"local.epochs": here.local.epochs, "local.lr": 0.3, "seed": 0}) == here
    with pytest.raises(MotetError, match=r"^local.lr is -1; accepted: a number above 0"):
        here.with_({"local.lr": -1})


# Explaining


def test_template_is_the_defaults() -> None:
    assert resolve(tomllib.loads(commented_template())) == Experiment()


def test_template_explains_every_field() -> None:
    template = commented_template()
    comments = " ".join(re.sub(r"^# ?", "", line) for line in template.splitlines())
    for dotted, info in dotted_fields(Experiment):
        assert re.search(rf"^(# )?{dotted.rpartition('.')[2]} =", template, re.MULTILINE), dotted
        assert " ".join((info.description or "").split()) in comments
        assert f"accepted: {accepted(info)}" in comments
    assert all(f"[{name}]" in template for name in ("data", "local", "checkpoint"))


def test_every_protocol_resolves() -> None:
    assert tuple(PROTOCOLS) == get_args(Experiment.model_fields["protocol"].annotation)
    assert [entry["name"] for entry in describe_protocols()] == list(PROTOCOLS)
    assert all(entry["summary"] and entry["paper"] for entry in describe_protocols())
    for name, protocol in PROTOCOLS.items():
        resolved = resolve({"protocol": name}).model_dump()
        for section, values in protocol.values.items():
            assert values.items() <= resolved[section].items()


@pytest.mark.parametrize(
    ("name", "row"),
    [
        # personal_model, test, client weighting, report, drop_last, momentum kept, pool, test share
        ("fedrod", ("last_participation", "common", "uniform", "last", False, "reset", "train", 0.0)),
        ("fedrod-emnist", ("last_participation", "split", "uniform", "last", False, "reset", "train", 0.2)),
        ("fedrod-cifar", ("last_participation", "common", "uniform", "last", False, "reset", "train", 0.0)),
        ("pgfed", ("last_participation", "split", "uniform", "best", True, "persist", "all", 0.25)),
        ("fedbasis", ("final_sync", "common", "uniform", "last", False, "reset", "train", 0.0)),
        ("superfed", ("global_plus_personal", "split", "uniform", "last", False, "reset", "train", 0.2)),
        ("dbe", ("global_plus_personal", "split", "by_samples", "best", True, "reset", "all", 0.25)),
    ],
)
def test_protocols_differ_as_the_papers_do(name: str, row: tuple[Any, ...]) -> None:
    e = resolve({"protocol": name})
    s = e.scoring
    training = (e.local.drop_last, e.local.momentum_across_rounds, e.data.pool, e.data.test_share)
    assert (s.personal_model, s.test, s.client_weighting, s.report, *training) == row


@pytest.mark.parametrize(
    ("name", "row"),
    [
        # lr, decay, momentum, weight decay, epochs, batch, rounds, cohort
        ("fedrod", (0.01, 0.99, 0.9, 1e-5, 5, 40, 100, 0.2)),
        ("fedrod-emnist", (0.01, 0.99, 0.9, 1e-5, 5, 16, 100, 0.05)),
        ("fedrod-cifar", (0.01, 0.99, 0.9, 1e-5, 5, 40, 100, 0.4)),
        ("pgfed", (0.005, 1.0, 0.9, 0.0, 5, 10, 300, 0.25)),
        ("fedbasis", (0.01, 1.0, 0.9, 1e-4, 5, 16, 100, 1.0)),
        ("superfed", (0.01, 0.99, 0.9, 1e-4, 10, 10, 500, 5.0)),
        ("dbe", (0.005, 1.0, 0.0, 0.0, 1, 10, 200, 1.0)),
    ],
)
def test_protocols_train_as_the_papers_do(name: str, row: tuple[float, ...]) -> None:
    e = resolve({"protocol": name})
    local = e.local
    optimizer = (local.lr, local.lr_decay, local.momentum, local.weight_decay)
    assert (*optimizer, local.epochs, local.batch, e.rounds.count, e.rounds.cohort) == row
