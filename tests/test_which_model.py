"""One rule for which model of a client is scored: what the method's class declares, for everybody's methods alike."""

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from test_tune import Nobody
from torch import Tensor

import motet
from motet.config.experiment import resolve
from motet.errors import MotetError
from motet.messages.message import Message, State
from motet.methods import METHODS
from motet.methods.averaging import Averaging
from motet.methods.base import MethodEntry
from motet.methods.registry import declared_source
from motet.metrics.wording import own_models
from motet.runs.record import Record
from motet.server.assembly import assemble, settle
from motet.studies.bench import BenchResults, run_bench
from motet.studies.bench_file import BenchFile
from motet.studies.compare import CompareRequest, compare_methods
from motet.training.personal_model_policy import PersonalModelPolicy

NEAR = '''
from pydantic import Field

from motet.methods.base import Part, Training
from motet.methods.averaging import Averaging


class Near(Part):
    """FedProx, written by a user."""

    mu: float = Field(0.01, ge=0, description="strength")

    def correct(self, t: Training) -> None:
        t.g_shared.add_(t.shared - t.anchor, alpha=self.mu)


class Plain(Averaging):
    """FedAvg under another name."""


class KeepsItsHead(Part):
    """FedPer, written by a user."""

    acts = "sharing"

    def private(self, net):
        return net.head_names()


class Declares(Averaging):
    """FedAvg whose author says that clients keep what they trained."""

    personalizes = True
'''
CHOICES: dict[str, Any] = {
    "data": {"name": "digits", "partition": "dirichlet:0.1", "clients": 4, "subset": 0.4},
    "rounds": {"count": 2, "cohort": 1.0},
    "local": {"epochs": 2, "lr": 0.05},
    "engine": {"name": "inline"},
}


def flat(choices: dict[str, Any], **more: dict[str, Any]) -> dict[str, Any]:
    """Choices by their dotted names, as `motet.run` takes them."""
    return {f"{section}.{name}": v for section, fields in {**choices, **more}.items() for name, v in fields.items()}


@pytest.fixture
def near(tmp_path: Path) -> str:
    """The file of a user's methods."""
    path = tmp_path / "near.py"
    path.write_text(NEAR)
    return str(path)


def test_a_users_copy_has_the_numbers_of_the_built_in_method_in_every_command(near: str, tmp_path: Path) -> None:
    mine, theirs = f"{near}:Near(mu=0.01)", "fedprox(mu=0.01)"
    asked = [resolve({"method": method, **CHOICES}) for method in (theirs, mine)]
    assert settle(asked[0]).scoring.personal_model == settle(asked[1]).scoring.personal_model == "global_plus_personal"
    figures = ("personal.weighted.personal_models", "personal.split.personal_models", "generic.accuracy")
    bench = BenchFile(
        name="twins",
        figures=figures,
        seeds=(0,),
        setting=CHOICES,
        cases={"theirs": {"method": theirs}, "mine": {"method": mine}},
    )
    done = run_bench(bench, tmp_path / "bench", 1, lambda total: nullcontext(Nobody()))
    cases = {name: {f: case.figures[f].mean for f in figures} for name, case in done.cases.items()}
    assert cases["mine"] == cases["theirs"]
    assert "Own models: the server's model, for the method makes none of clients' own." in done.notes
    question = CompareRequest(resolve(CHOICES), (theirs, mine, "fedavg+ft"), trials=1, seeds=1)
    found = compare_methods(question, tmp_path / "compare", 1, lambda total: nullcontext(Nobody()))
    by_name = {each.method: each for each in found.methods}
    assert by_name[mine].personal == by_name[theirs].personal
    assert by_name[mine].generic == by_name[theirs].generic
    assert any("Own models: of" in note and "the server's model" in note for note in found.notes)


@pytest.mark.parametrize(
    ("name", "reading"),
    [
        ("Near", "global_plus_personal"),
        ("Plain", "global_plus_personal"),
        ("KeepsItsHead", "last_participation"),
        ("Declares", "last_participation"),
    ],
)
def test_what_a_users_class_declares_or_does_decides(near: str, name: str, reading: str) -> None:
    assert declared_source(f"{near}:{name}") == reading
    assert declared_source(f"{near}:{name}+ft") == "global_plus_personal"


@pytest.mark.parametrize("method", sorted(METHODS))
def test_the_class_and_what_is_built_of_it_declare_the_same(method: str) -> None:
    whole = method if METHODS[method].kind != "personalization" else f"fedavg+{method}"
    if method == "fedbn":
        pytest.skip("needs a net that normalizes")
    data = {**CHOICES["data"], "val_share": 0.2, "clients": 6}
    built = assemble(settle(resolve({"method": whole, **CHOICES, "data": data}))).method
    policy = PersonalModelPolicy.of(resolve({"scoring": {"personal_model": declared_source(whole)}}).scoring, built)
    assert policy.headline == declared_source(whole)
    assert built.personalizes is METHODS[method].thing.personalizes


class FromTheServer(Averaging):
    """A cluster's model, say: clients train, and are served what the server made of it."""

    personalizes = True
    personal_from_global = True

    def aggregate(self, server: State, replies: Mapping[int, Message]) -> State:
        found = super().aggregate(server, replies)
        w = found["w"]
        assert isinstance(w, Tensor)
        return found


def test_who_says_that_models_come_from_the_server_is_scored_by_these(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "from-the-server", MethodEntry("from-the-server", "", "", whole=FromTheServer))
    asked = {"scoring": {"personal_model": "last_participation"}}
    done = motet.run(method="from-the-server", **flat(CHOICES, **asked))
    theirs = motet.run(method="fedavg", **flat(CHOICES))
    assert done.summary["reported"]["personal_model"] == "global_plus_personal"
    assert done.summary["personal"]["weighted"] == theirs.summary["personal"]["weighted"]
    trained = motet.run(method="fedavg", **flat(CHOICES, **asked))
    assert trained.summary["personal"]["weighted"] != theirs.summary["personal"]["weighted"]


def test_the_words_under_a_table() -> None:
    one = {"personal_model": "global_plus_personal", "personalizes": False}
    kept = {"personal_model": "global_plus_personal", "personalizes": True}
    last = {"personal_model": "last_participation", "personalizes": True}
    assert own_models([("fedavg", one), ("fedavg", one)]) == [
        "Own models: the server's model, for the method makes none of clients' own."
    ]
    assert own_models([("fedavg", one), ("fedprox", one), ("pgfed", last), ("fedavg+ft", kept)]) == [
        "Own models: of fedavg, fedprox the server's model, for the method makes none of clients' own; of pgfed the "
        "client's after its last local training; of fedavg+ft made from the server's model and what the client keeps."
    ]
    assert own_models([("fedavg", {})]) == []


# ---------------------------------------------------------------- which version of a user's code


def test_a_study_does_not_mix_versions_of_a_users_method(near: str, tmp_path: Path) -> None:
    def bench(seeds: tuple[int, ...]) -> BenchResults:
        cases = {"mine": {"method": f"{near}:Near"}, "theirs": {"method": "fedprox"}}
        asked = BenchFile(name="mine", figures=("generic.accuracy",), seeds=seeds, setting=CHOICES, cases=cases)
        return run_bench(asked, tmp_path / "bench", 1, lambda total: nullcontext(Nobody()))

    bench((0,))
    Path(near).write_text(NEAR.replace("alpha=self.mu", "alpha=2 * self.mu"))
    with pytest.raises(MotetError, match=r"mine-seed0 was made with another version of near\.py; accepted: "):
        bench((0, 1))
    Path(near).write_text(NEAR)
    assert bench((0, 1)).seeds == (0, 1)


def test_a_run_is_not_continued_with_another_version(near: str, tmp_path: Path) -> None:
    done = motet.run(method=f"{near}:Near", out=tmp_path / "run", **flat(CHOICES))
    assert Record(tmp_path / "run").environment.code.keys() == {"near.py:Near"}
    (tmp_path / "run" / "summary.json").unlink()
    Path(near).write_text(NEAR + "\n# another\n")
    with pytest.raises(MotetError, match=r"was made with another version of near\.py"):
        motet.resume(tmp_path / "run", trust_code=True)
    Path(near).write_text(NEAR)
    assert motet.resume(tmp_path / "run").generic.accuracy == done.generic.accuracy


def test_an_edited_file_is_imported_anew(near: str) -> None:
    """In a notebook what runs is what the record names by its hash, also if an edit took no second and no byte more."""
    first = motet.run(method=f"{near}:Near(mu=1)", **flat(CHOICES))
    Path(near).write_text(NEAR.replace("alpha=self.mu", "alpha=0.0*1.0"))
    second = motet.run(method=f"{near}:Near(mu=1)", **flat(CHOICES))
    plain = motet.run(method="fedavg", **flat(CHOICES))
    assert second.generic.accuracy == pytest.approx(plain.generic.accuracy)
    codes = [Record(run.folder).environment.code["near.py:Near"] for run in (first, second)]
    assert codes[0] != codes[1]
