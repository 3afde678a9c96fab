"""The Python face: the figures of the command line, models that take raw samples, adaptation, histories."""

import gc
import io
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import motet
from motet.config.experiment import Experiment
from motet.config.short_names import FIELDS
from motet.data import DataSettings, build
from motet.messages.message import State
from motet.methods.averaging import Averaging
from motet.runs.record import Record

SMALL: dict[str, Any] = {"clients": 8, "new_clients": 0.25, "rounds": 3, "epochs": 2, "cohort": 0.5, "lr": 0.05}
DIGITS = load_digits()


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Iterator[motet.Result]:
    yield motet.run(method="scaffold", **SMALL, out=tmp_path_factory.mktemp("runs") / "scaffold")


def share_right(model: torch.nn.Module, x: Any, y: Any) -> float:
    return float((model(x).argmax(1) == torch.as_tensor(y)).double().mean())


# ------------------------------------------------------------ figures and histories


def test_figures_are_those_of_the_record(result: motet.Result) -> None:
    summary = Record(result.folder).summary.model_dump()
    assert result.summary == summary
    assert result.method == "scaffold" and result.seconds == summary["seconds"]
    assert result.generic.accuracy == summary["generic"]["accuracy"]
    assert result.personal.split.personal_models == summary["personal"]["split"]["personal_models"]
    assert result.new_clients.after == summary["new_clients"]["after"]
    assert result.bytes_per_round.up == summary["bytes_per_round"]["up"]
    with pytest.raises(AttributeError, match=r"no figure 'accuracy' here; there are: .*common"):
        _ = result.personal.accuracy
    assert repr(result).startswith("<motet.Result of scaffold on digits: generic ")


def test_histories_are_flat_rows(result: motet.Result) -> None:
    assert [row["round"] for row in result.rounds] == [1, 2, 3]
    assert all("bytes_up" in row and row["set_aside"] == [] for row in result.rounds)
    assert result.rounds[-1]["generic.common.accuracy.pooled"] == result.generic.accuracy
    assert sorted(row["client"] for row in result.clients) == list(range(8))
    for row in [*result.rounds, *result.clients]:
        assert not any(isinstance(value, dict) for value in row.values())


def test_nested_columns_become_dotted_ones(tmp_path: Path) -> None:
    mixed = motet.run(method="superfed-mm", **{**SMALL, "rounds": 1}, out=tmp_path / "run")
    assert 0 <= mixed.rounds[-1]["member:0.5.weighted.accuracy.mean"] <= 1
    assert sum(mixed.rounds[-1][name] for name in mixed.rounds[-1] if name.startswith("family_chosen.")) == 6


def test_twice_the_same(result: motet.Result) -> None:
    again = motet.run(method="scaffold", **SMALL)
    assert (again.folder / "weights.safetensors").read_bytes() == (result.folder / "weights.safetensors").read_bytes()
    assert again.clients == result.clients


def test_settings_by_dotted_name() -> None:
    short = {**SMALL, "rounds": 1, "epochs": 1}
    for result in (
        motet.run(**short, set={"local.momentum": 0.5}),
        motet.run(**short, **{"local.momentum": 0.5}),
        motet.run(**short, local={"momentum": 0.5}),
    ):
        assert Record(result.folder).experiment.local.momentum == 0.5


# ------------------------------------------------------------ models


LAST, SYNC, GLOBAL = "last_participation", "final_sync", "global_plus_personal"


@pytest.mark.parametrize(
    ("method", "source"),
    [
        ("local", LAST),
        ("fedavg", LAST),
        ("fedavg", SYNC),
        ("fedavg", GLOBAL),
        ("fedprox+ft", LAST),
        ("centralized", LAST),
        ("fedrod", LAST),
        ("fedavg+dbe", GLOBAL),
        ("superfed-mm", GLOBAL),
        ("superfed-mm", SYNC),
    ],
)
def test_models_score_as_the_record_says(method: str, source: str) -> None:
    """Every client's model, from the outside, has the accuracy that the run measured inside."""
    result = motet.run(method=method, **{**SMALL, "rounds": 2, "epochs": 1}, set={"scoring.personal_model": source})
    federation = build(DataSettings(clients=8, new_clients=0.25), 0)
    rows = {row["client"]: row for row in result.clients}
    for client in federation.clients:
        found = share_right(result.personal_model(client.id), client.test.x, client.test.y)
        assert found == rows[client.id]["after.split.accuracy" if client.new else "personal.split.accuracy"]
    if method != "local":
        generic = share_right(result.generic_model(), federation.test.x, federation.test.y)
        assert generic == result.generic.accuracy


def test_models_take_samples_in_any_shape_of_the_data_file(result: motet.Result) -> None:
    model = result.generic_model()
    logits = model(DIGITS.images)  # float64, 0 to 16, [n, 8, 8]
    assert logits.shape == (1797, 10)
    for same in (
        DIGITS.images.astype(np.uint8)[..., None],
        torch.from_numpy(DIGITS.images)[:, None],
        DIGITS.images.tolist(),
    ):
        assert torch.equal(model(same), logits)
    with pytest.raises(motet.MotetError, match=r"input x has shape \(n, 64\); accepted: \[n, 8, 8, 1\]"):
        model(DIGITS.data)


def test_models_are_plain_modules_with_memory_of_their_own(result: motet.Result) -> None:
    first = result.personal_model(0)
    before = first(DIGITS.images)
    result.personal_model(1)
    result.adapt(DIGITS.images[:50], DIGITS.target[:50])
    with torch.no_grad():
        for parameter in result.generic_model().parameters():
            parameter.zero_()
    assert torch.equal(first(DIGITS.images), before)
    assert torch.equal(result.personal_model(0)(DIGITS.images), before)
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    other = result.personal_model(1)
    assert not torch.equal(other(DIGITS.images), before)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(other(DIGITS.images), before)


def test_a_client_that_is_not_there(result: motet.Result) -> None:
    for wrong in (-1, 8):
        with pytest.raises(motet.MotetError, match=f"client {wrong} is not there; accepted: 0 to 7"):
            result.personal_model(wrong)


def test_a_method_without_a_generic_model_says_so() -> None:
    local = motet.run(method="local", **{**SMALL, "rounds": 1})
    with pytest.raises(motet.MotetError, match=r"'local' has no generic model; accepted: personal_model"):
        local.generic_model()


# ------------------------------------------------------------ new clients


def test_adapting_learns_the_new_client(result: motet.Result) -> None:
    few = DIGITS.target < 3
    x, y = DIGITS.images[few], DIGITS.target[few]
    adapted = result.adapt(x[:200], y[:200])
    assert share_right(adapted, x[200:], y[200:]) > share_right(result.generic_model(), x[200:], y[200:])
    again = result.adapt(x[:200].astype(np.uint8), torch.from_numpy(y[:200]))
    assert torch.equal(again(x), adapted(x))


def test_adapting_is_what_the_run_does_with_a_new_client(result: motet.Result) -> None:
    """The client held out as new, brought from outside under its own number, ends with the same weights."""
    federation = build(DataSettings(clients=8, new_clients=0.25), 0)
    new = federation.clients[federation.new_ids[0]]
    inside = result.personal_model(new.id)
    served = result._served
    next_id = type(served).next_id
    try:
        type(served).next_id = property(lambda self: new.id)  # randomness goes by the number
        outside = result.adapt(new.train.x, new.train.y)
    finally:
        type(served).next_id = next_id
    assert torch.equal(outside(new.test.x), inside(new.test.x))


@pytest.mark.parametrize(
    ("x", "y", "said"),
    [
        (DIGITS.images[:3], [0, 1, 10], "y holds label 10; accepted: 0 to 9"),
        (DIGITS.images[:3], [0, 1, -1], "y holds label -1; accepted: 0 to 9"),
        (DIGITS.images[:3], [0, 1], r"y has shape \(2,\) and type int64; accepted: one whole number for each of the 3"),
        (DIGITS.images[:3], [0.0, 1.0, 2.0], "and type float64; accepted: one whole number"),
        (DIGITS.images[:0], np.zeros(0, int), "accepted: one whole number for each of the 0 samples, at least one"),
        (DIGITS.images[:3] * np.nan, [0, 1, 2], "x holds NaN or infinite values; accepted: finite numbers"),
        (DIGITS.images[:3, :4], [0, 1, 2], r"input x has shape \(n, 4, 8\); accepted: \[n, 8, 8, 1\]"),
        (DIGITS.images[:3], None, "adapt takes a new client's samples x and labels y, or its class counts alone"),
    ],
)
def test_adapting_to_nonsense_is_refused(result: motet.Result, x: Any, y: Any, said: str) -> None:
    with pytest.raises(motet.MotetError, match=said):
        result.adapt(x, y)


def test_adapting_to_class_counts_alone() -> None:
    """FED-ROD's hypernetwork makes a personal head from the class distribution; what it makes follows the counts."""
    result = motet.run(method="fedrod(head=hyper)", **SMALL)
    model = result.adapt(counts=[1, 1, 0, 0, 0, 0, 0, 0, 0, 0])
    doubled = result.adapt(counts=[2, 2, 0, 0, 0, 0, 0, 0, 0, 0])
    other = result.adapt(counts=[0, 0, 0, 0, 0, 0, 0, 0, 1, 1])
    logits = model(DIGITS.images)
    assert torch.equal(doubled(DIGITS.images), logits)  # only the distribution counts
    assert not torch.equal(other(DIGITS.images), logits)
    assert not torch.equal(result.generic_model()(DIGITS.images), logits)


@pytest.mark.parametrize("counts", [[1] * 9, [0] * 10, [-1] + [1] * 9, [0.5] * 10])
def test_class_counts_that_are_none(result: motet.Result, counts: list[Any]) -> None:
    with pytest.raises(motet.MotetError, match="accepted: 10 whole numbers, not negative, not all 0"):
        result.adapt(counts=counts)


def test_a_method_that_cannot_use_class_counts_says_so(result: motet.Result) -> None:
    for counts in ([1] * 10, [5] + [0] * 9):
        with pytest.raises(
            motet.MotetError, match="'scaffold' makes no model from class counts alone; accepted: adapt"
        ):
            result.adapt(counts=counts)


# ------------------------------------------------------------ folders


def test_a_run_without_out_lives_as_long_as_its_result() -> None:
    result = motet.run(**{**SMALL, "rounds": 1})
    folder = result.folder
    assert Record(folder).finished
    del result
    gc.collect()
    assert not folder.exists()


def test_a_failed_run_without_out_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(motet.MotetError, match="unknown partition"):
        motet.run(partition="nonsense")
    assert not list(tmp_path.iterdir())


def test_load_and_resume(result: motet.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = motet.load(str(result.folder))
    assert loaded.summary == result.summary
    assert torch.equal(loaded.generic_model()(DIGITS.images), result.generic_model()(DIGITS.images))

    aggregate, calls = Averaging.aggregate, []

    def stop_in_the_second_round(self: Averaging, server: State, replies: Any) -> State:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return aggregate(self, server, replies)

    monkeypatch.setattr(Averaging, "aggregate", stop_in_the_second_round)
    with pytest.raises(KeyboardInterrupt):
        motet.run(method="scaffold", **SMALL, out=tmp_path / "run")
    monkeypatch.undo()
    with pytest.raises(motet.MotetError, match="is not finished; continue it with `motet resume"):
        motet.load(tmp_path / "run")
    resumed = motet.resume(tmp_path / "run")
    assert resumed.clients == result.clients
    assert torch.equal(resumed.personal_model(0)(DIGITS.images), result.personal_model(0)(DIGITS.images))


def test_progress_goes_to_stderr_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    motet.run(**{**SMALL, "rounds": 1})
    assert capsys.readouterr() == ("", "")
    motet.run(**{**SMALL, "rounds": 1}, progress=True)
    out, err = capsys.readouterr()
    assert out == "" and "fedavg: round 1 of 1" in err


# ------------------------------------------------------------ keywords


def test_every_short_name_reaches_its_field(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Experiment] = []

    class Enough(Exception):
        """No need to run."""

    def watch(experiment: Experiment, *_: object) -> None:
        seen.append(experiment)
        raise Enough

    monkeypatch.setattr("motet.runs.run.run", watch)
    values = {
        "method": "fedprox",
        "data": "fmnist",
        "label": "outcome",
        "client": "hospital",
        "domain": "country",
        "leave_out": ("id",),
        "schema": "s.toml",
        "encoding": "latin-1",
        "decimal": ",",
        "drop_missing": True,
        "data_dir": "elsewhere",
        "partition": "iid",
        "partition_seed": 3,
        "clients": 7,
        "new_clients": 0.25,
        "subset": 0.5,
        "rounds": 9,
        "cohort": 3.0,
        "epochs": 4,
        "batch": 13,
        "lr": 0.5,
        "net": "cnn4",
        "head": "fc1",
        "precision": "bf16",
        "metric": "balanced_accuracy",
        "threshold": "f1",
        "target": "class",
        "dates": "dmy",
        "group": "patient",
        "time_column": "date",
        "seed": 8,
        "engine": "inline",
        "workers": 3,
        "ray_address": "127.0.0.1:6379",
        "protocol": "pgfed",
    }
    assert values.keys() == FIELDS.keys()
    with pytest.raises(Enough):
        motet.run(**values, set={"local.momentum": 0.25}, **{"local.clip": 2.0})  # type: ignore[arg-type]
    for name, dotted in {**FIELDS, "momentum": "local.momentum", "clip": "local.clip"}.items():
        expected = {"momentum": 0.25, "clip": 2.0, **values}[name]
        assert reduce(getattr, dotted.split("."), seen[0]) == expected, name


@pytest.mark.parametrize("wrong", [{"local.lr"}, ["local.lr"], "local.lr=1", {1: 2}])
def test_set_is_a_dictionary(wrong: Any) -> None:
    with pytest.raises(motet.MotetError, match=r"^set is .*; accepted: a dictionary by dotted names, such as"):
        motet.run(set=wrong)
