"""Several readings of the personal and of the adapted model in one run, and a generic model made of personal ones."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor

import motet
from motet.config.experiment import resolve
from motet.errors import MotetError
from motet.messages.message import Message
from motet.methods import METHODS
from motet.methods.averaging import Averaging
from motet.methods.base import Facts, MethodEntry, Part
from motet.methods.local import Local
from motet.nets import Net
from motet.runs.summary import summarize
from motet.server.assembly import assemble
from motet.testing.twin import Played, play, tiny
from motet.training.client import Client

LAST, SYNC, GLOBAL = "last_participation", "final_sync", "global_plus_personal"


@cache
def scored(source: str, method: str = "fedavg+dbe") -> Played:
    return play(tiny(method, scoring={"personal_model": source, "every": 1}, rounds={"count": 2}))


@pytest.mark.parametrize("method", ["fedavg+dbe", "superfed-mm(start=0.3)"])
@pytest.mark.parametrize("readings", [(LAST, GLOBAL), (GLOBAL, LAST), (LAST, SYNC), (SYNC, GLOBAL, LAST)])
def test_each_reading_is_what_a_run_of_its_own_scores(readings: Sequence[str], method: str) -> None:
    """But a family has its members in the headline alone: other readings are of the model handed out."""
    together = scored(",".join(readings), method)
    for i, reading in enumerate(readings):
        if i and method.startswith("superfed"):
            continue
        alone, model = scored(reading, method), f"personal@{reading}" if i else "personal"
        for mine, other in zip(together.clients, alone.clients, strict=True):
            if i and reading == SYNC and mine["round"] == 1:
                assert f"{model}.split.accuracy" not in mine  # nobody is synced before the end
                continue
            for data in ("weighted", "split", "validation"):
                assert mine[f"{model}.{data}.accuracy"] == other[f"personal.{data}.accuracy"]
        assert together.rows[-1][f"{model}.split.accuracy.mean"] == alone.rows[-1]["personal.split.accuracy.mean"]


def test_the_readings_differ() -> None:
    row = scored(f"{LAST},{SYNC},{GLOBAL}").rows[-1]
    names = ("personal", f"personal@{SYNC}", f"personal@{GLOBAL}")
    assert len({row[f"{name}.weighted.accuracy.mean"] for name in names}) == 3


def test_a_client_keeps_its_last_model_if_any_reading_needs_it() -> None:
    trained = scored(LAST).rows[-1]["cohort"][0]
    assert "model" in scored(f"{GLOBAL},{LAST}").engine.private(trained)
    assert "model" not in scored(f"{SYNC},{GLOBAL}").engine.private(trained)


def test_the_summary_has_every_reading() -> None:
    played = scored(f"{LAST},{GLOBAL}")
    summary = summarize(
        played.assembly.experiment, played.assembly.method, played.rows, played.new.figures, 1.0
    ).model_dump()
    row = played.rows[-1]
    assert summary["reported"]["personal_model"] == LAST
    assert summary["personal"]["readings"] == {
        GLOBAL: {d: row[f"personal@{GLOBAL}.{d}.accuracy.mean"] for d in ("weighted", "split", "validation")}
    }


def test_a_synced_model_is_served_although_it_is_not_kept(tmp_path: Path) -> None:
    words = {"clients": 4, "rounds": 1, "epochs": 1, "subset": 0.3}
    one, other = (motet.run(**words, set={"scoring.personal_model": s}) for s in ([SYNC, LAST], SYNC))
    x = torch.zeros(3, 8, 8)
    assert torch.equal(one.personal_model(0)(x), other.personal_model(0)(x))


@pytest.mark.parametrize("wrong", ["final", [], ["final_sync", "final_sync"], "last_participation,", 3, [1]])
def test_what_is_no_list_of_readings(wrong: object) -> None:
    with pytest.raises(MotetError) as error:
        resolve({"scoring": {"personal_model": wrong}})
    assert str(error.value) == (
        f"scoring.personal_model is {wrong!r}; accepted: auto; last_participation | final_sync | global_plus_personal, "
        "or a list of them, each once"
    )


def test_one_reading_stays_a_word() -> None:
    for said in (SYNC, [SYNC]):
        assert resolve({"scoring": {"personal_model": said}}).scoring.personal_model == SYNC
    assert resolve({"scoring": {"personal_model": f"{SYNC}, {LAST}"}}).scoring.personal_sources == (SYNC, LAST)


# ---------------------------------------------------------------- FedBasis is not synced


def test_a_method_whose_clients_keep_nothing_is_not_trained_for_a_sync() -> None:
    synced, plain = (
        play(tiny("fedbasis(k=2)", scoring={"personal_model": source}, rounds={"count": 2}), strict=True)
        for source in (SYNC, GLOBAL)
    )
    assert {e.task.kind for e in synced.engine.exchanges} == {"train", "score", "adapt"}
    assert synced.clients == plain.clients


# ---------------------------------------------------------------- new clients


@pytest.mark.parametrize("method", ["fedavg", "fedbasis(k=2)"])
def test_both_choices_of_the_adapted_model_from_one_run(method: str) -> None:
    last, best = "last", "best_on_validation"
    both, *alone = (
        play(tiny(method, adapt={"select": s, "epochs": 3}, rounds={"count": 2})) for s in ([last, best], last, best)
    )
    for name, run in zip(("after", f"after@{best}"), alone, strict=True):
        for data in ("weighted", "split", "common"):
            assert both.new.figures[f"{name}.{data}.accuracy.mean"] == run.new.figures[f"after.{data}.accuracy.mean"]
    assert alone[0].new.figures != alone[1].new.figures
    summary = summarize(both.assembly.experiment, both.assembly.method, both.rows, both.new.figures, 1.0).model_dump()
    assert set(summary["new_clients"]) == {"before", "after", f"after@{best}"}


def test_new_clients_are_averaged_by_samples_too() -> None:
    played = play(tiny("fedavg", data={"new_clients": 0.6, "clients": 5}, rounds={"count": 1, "cohort": 1.0}))
    rows = played.new.clients
    assert len({row["n"] for row in rows}) > 1
    expected = sum(row["after.weighted.accuracy"] * row["n"] for row in rows) / sum(row["n"] for row in rows)
    assert played.new.figures["after.weighted.accuracy.by_samples"] == pytest.approx(expected)
    assert expected != pytest.approx(played.new.figures["after.weighted.accuracy.mean"])


# ---------------------------------------------------------------- a generic model of personal ones


class Unlike(Averaging):
    """Local training whose personal models are no plain nets."""

    def __init__(self, net: Net, options: Averaging.Options, parts: Sequence[Part], facts: Facts):
        super().__init__(net, options, [Local()], facts)

    def weights(self, client: Client, message: Message) -> Tensor | None:
        """There are none to hand over."""
        return None


@pytest.fixture
def unlike(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(METHODS, "unlike", MethodEntry("unlike", "", "", whole=Unlike))
    return "unlike"


def test_the_mean_of_personal_models_is_scored_as_generic_and_marked() -> None:
    experiment = tiny("local", scoring={"derived_generic": True}, rounds={"count": 2, "cohort": 1.0})
    played = play(experiment)
    assembly, federation = played.assembly, played.assembly.federation
    method, ids = assembly.method, federation.training_ids
    sizes = [len(federation.clients[i].train) for i in ids]
    own = [method.layout.convert(played.engine.private(i)["private"], method.plain).double() for i in ids]
    mean = (sum(w * n for w, n in zip(own, sizes, strict=True)) / sum(sizes)).float()
    net = assembly.workplace.generic_net.another()
    method.plain.bind(net, mean)
    with torch.no_grad():
        right = net(federation.test.prepare(federation.test.x)).argmax(1) == federation.test.y
    row = played.rows[-1]
    assert row["generic.common.accuracy.pooled"] == pytest.approx(float(right.double().mean()))
    assert row["generic.derived"] is True and row["generic.split.accuracy.mean"] is not None
    summary = summarize(experiment, method, played.rows, played.new.figures, 1.0).model_dump()
    assert summary["generic"]["derived"] is True and summary["generic"]["accuracy"] is not None
    strict = play(experiment, strict=True)
    assert strict.clients == played.clients and strict.timeless() == played.timeless()


@pytest.mark.parametrize(("method", "asked"), [("local", False), ("unlike", True)])
def test_nothing_is_derived_unasked_or_where_no_model_is_handed_over(method: str, asked: bool, unlike: str) -> None:
    played = play(tiny(method, scoring={"derived_generic": asked}, rounds={"count": 1}), strict=True)
    assert played.rows[-1]["generic.common.accuracy.pooled"] is None and played.rows[-1]["generic.derived"] is False
    assert ("export" in {e.task.kind for e in played.engine.exchanges}) is asked


def test_a_table_marks_a_derived_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from motet.cli import main

    monkeypatch.delenv("COLUMNS", raising=False)
    words = ["--rounds", "1", "--clients", "4", "--epochs", "1", "--set", "scoring.derived_generic=true"]
    assert main(["run", "--method", "local", *words, "--set", "engine.name=inline", "--out", str(tmp_path / "a")]) == 0
    out = capsys.readouterr().out
    assert "† no model of the method: the mean of the personal models" in " ".join(out.split())
    assert any(line.startswith("local") and "†" in line for line in out.splitlines())


# ---------------------------------------------------------------- declared, not found out


@pytest.mark.parametrize(
    ("method", "declared"),
    [("fedrod(head=hyper)", True), ("fedrod+ft", True), ("fedrod(head=linear)", False), ("scaffold", False)],
)
def test_who_makes_a_model_from_class_counts_alone(method: str, declared: bool) -> None:
    assert assemble(tiny(method)).method.from_counts is declared
