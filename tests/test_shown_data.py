"""What a method is shown of a client: never its test data, and its validation data only where it declares the need."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from motet.messages.task import Task
from motet.runs.run import run
from motet.server.assembly import assemble
from motet.testing.twin import Strict, play, tiny

LOOKS = """
from motet.methods.averaging import Averaging
from motet.methods.base import Part, Wrapped
from motet.config.section import Section


def look(client, validation):
    assert not len(client.data.test), f"test rows in {client.id}"
    assert bool(len(client.data.val)) == validation, f"validation rows in {client.id}"


class Looks(Averaging):
    '''FedAvg that looks at what it is shown, wherever it is handed a client.'''

    prepares = True

    def __init__(self, *given):
        super().__init__(*given)
        self.prepares = True

    def prepare(self, client, message):
        look(client, self.needs_validation)
        return {"n": client.samples}

    def train(self, client, message):
        look(client, self.needs_validation)
        return super().train(client, message)

    def personal(self, client, message):
        look(client, self.needs_validation)
        return super().personal(client, message)

    def heads(self, client, message):
        look(client, self.needs_validation)
        return super().heads(client, message)

    def weights(self, client, message):
        look(client, self.needs_validation)
        return super().weights(client, message)

    def adapt(self, client, message):
        look(client, self.needs_validation)
        return super().adapt(client, message)

    def snapshot(self, client, message):
        look(client, self.needs_validation)
        return {"looks.seen": 1}


class Declares(Looks):
    '''The same, which needs validation data.'''

    needs_validation = True


class NeedsThem(Part):
    '''A part that needs them.'''

    needs_validation = True


class Follows(Wrapped):
    '''What follows a method, and looks too.'''

    class Options(Section):
        '''None.'''

    def personal(self, client, message):
        look(client, self.needs_validation)
        return self.inner.personal(client, message)

    def adapt(self, client, message):
        look(client, self.needs_validation)
        return self.inner.adapt(client, message)
"""
ROWS: dict[str, Any] = {"data": {"test_share": 0.2}, "scoring": {"test": "split", "personal_model": ["final_sync"]}}


@pytest.fixture
def looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "looks.py").write_text(LOOKS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("name", "engine"), [("Looks", "inline"), ("Declares", "inline"), ("Looks", "pool")])
def test_no_engine_hands_a_method_what_it_is_judged_on(looks: Path, name: str, engine: str) -> None:
    scoring = {
        "test": "split",
        "personal_model": ["last_participation", "final_sync"],
        "metrics": ["accuracy", "calibration"],
    }
    changes = ROWS | {"scoring": scoring, "engine": {"name": engine, "workers": 2}}
    folder = run(tiny(f"./looks.py:{name}", **changes), looks / "run")
    assert json.loads((folder / "summary.json").read_text())["notes"] is not None


def test_the_strict_twin_hands_over_no_more(looks: Path) -> None:
    played = play(tiny("./looks.py:Looks", **ROWS), strict=True)
    assert isinstance(played.engine, Strict) and {e.task.kind for e in played.engine.exchanges} >= {"prepare", "train"}
    assert played.rows[-1]


@pytest.mark.parametrize(
    ("method", "shown"),
    [
        ("fedavg", False),
        ("fedfomo", True),
        ("fedavg+knn-per", True),
        ("fedfomo+ft", True),
        ("./looks.py:NeedsThem", True),
        ("./looks.py:NeedsThem+ft", True),
        ("fedavg+./looks.py:Follows", False),
        ("fedfomo+./looks.py:Follows", True),
    ],
)
def test_who_declares_it_is_shown_validation_data(looks: Path, method: str, shown: bool) -> None:
    assembly = assemble(tiny(method, data={"test_share": 0.2}))
    kinds = ("prepare", "train", "export", "client_snapshot")
    for client in (assembly.workplace.client(Task(kind, 0, 1, {}), {}) for kind in kinds):  # type: ignore[arg-type]
        assert not len(client.data.test) and bool(len(client.data.val)) is shown and client.samples
    full = assembly.workplace.client(Task("score", 0, 1, {}), {})
    assert len(full.data.test) and len(full.data.val)  # the scorer's
    seen = assembly.workplace.shown(full).data
    assert not len(seen.test) and bool(len(seen.val)) is shown


def test_a_newcomer_that_chooses_its_epoch_on_what_its_domain_shares_is_shown_that() -> None:
    """As `adapt.select` has it, which is the experiment's choice and not the method's."""
    assembly = assemble(tiny("fedavg", adapt={"select": "best_on_validation"}))
    workplace, new = assembly.workplace, assembly.federation.new_ids[0]
    client = workplace.client(Task("adapt", new, 1, {}), {})
    assert client.data.new and len(client.data.val) and not len(workplace.shown(client).data.val)
    shares = replace(client, data=replace(client.data, shares_val=True))
    assert len(workplace.shown(shares).data.val) and not len(workplace.shown(shares).data.test)
    assert not len(workplace.shown(shares.selecting("last")).data.val)
