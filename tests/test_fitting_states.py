"""States of a checkpoint that do not fit their method are the folder's fault; a bug of Motet's is shown as one."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from test_resume import stopped

import motet
from motet.errors import MotetError
from motet.messages.message import State, decode, encode
from motet.methods.averaging import Averaging
from motet.runs import checkpoint
from motet.runs.record import Record
from motet.runs.run import resume, run
from motet.runs.served_models import ModelWorkbench
from motet.testing.twin import tiny

DO_NOT_FIT = "the states in its checkpoint do not fit its method"


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A finished run and one that was stopped, each with private states."""
    parent, asked = tmp_path_factory.mktemp("real"), tiny("scaffold", checkpoint={"every": 1}, rounds={"cohort": 1.0})
    stopped(asked, parent / "stopped", 2)
    return {"finished": run(asked, parent / "finished"), "stopped": parent / "stopped"}


@pytest.fixture
def folder(request: pytest.FixtureRequest, real: dict[str, Path], tmp_path: Path) -> Path:
    """A copy of one of them."""
    shutil.copytree(real[request.param], tmp_path / "run")
    return tmp_path / "run"


def change(folder: Path, role: str, field: str, value: Any) -> None:
    """Put another value into every state of that role, under the right SHA-256 and checksum."""
    for path in (folder / "checkpoint").glob("*.json"):
        manifest = json.loads(path.read_text())
        del manifest["checksum"]
        for entry in (entry for name, entry in manifest["files"].items() if name.startswith(role)):
            file = folder / "checkpoint" / entry["file"]
            state: State = decode(file.read_bytes())
            assert field in state
            data = encode(state | {field: value})
            file.write_bytes(data)
            entry |= {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
        path.write_text(json.dumps(manifest | {"checksum": checkpoint._checksum(manifest)}))


def serve(folder: Path) -> None:
    result = motet.load(folder)
    result.generic_model()
    result.personal_model(0)


def planted(line: str) -> Callable[..., None]:
    """Return a function as if it stood in Motet: what is in this file would be the user's own code."""
    inside = {"__name__": "motet.planted"}
    source = f"def planted(*words, **more):\n    import torch\n    {line}\n"
    exec(compile(source, str(Path(motet.__file__).with_name("planted.py")), "exec"), inside)
    return inside["planted"]  # type: ignore[return-value]


USES: dict[str, Callable[[Path], object]] = {"finished": serve, "stopped": resume}


@pytest.mark.parametrize("folder", USES, indirect=True)
@pytest.mark.parametrize(
    ("value", "said"),
    [
        (torch.zeros(3), r"w is torch\.float32 of shape \(3,\), and begins as torch\.float32 of shape \(17226,\)"),
        (torch.zeros(3, 3), r"w is torch\.float32 of shape \(3, 3\)"),
        (1.0, r"message field 'w' is|w is a number"),
    ],
)
def test_a_server_state_that_does_not_fit_is_a_sentence(
    folder: Path, value: Any, said: str, request: pytest.FixtureRequest
) -> None:
    change(folder, "server", "w", value)
    with pytest.raises(MotetError, match=said):
        USES[request.node.callspec.params["folder"]](folder)


@pytest.mark.parametrize("folder", ["stopped"], indirect=True)
def test_private_states_that_do_not_fit_are_a_sentence(folder: Path) -> None:
    """Nothing says what shape they have but that the method works without them."""
    lines = (folder / "rounds.jsonl").read_bytes()
    change(folder, "client", "scaffold.c_i", torch.zeros(3))
    with pytest.raises(MotetError, match=f"cannot go on: {DO_NOT_FIT} .*RuntimeError: "):
        resume(folder)
    assert (folder / "rounds.jsonl").read_bytes() == lines


@pytest.mark.parametrize("folder", USES, indirect=True)
@pytest.mark.parametrize("kind", [AttributeError, AssertionError, TypeError, RuntimeError, KeyError, ValueError])
def test_a_bug_of_ours_is_shown_as_one(
    folder: Path, kind: type[Exception], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Averaging, "broadcast", planted(f"raise {kind.__name__}('a bug of ours')"))
    with pytest.raises(kind, match="a bug of ours"):
        USES[request.node.callspec.params["folder"]](folder)


@pytest.mark.parametrize("folder", ["finished"], indirect=True)
def test_clients_keep_their_states_after_a_use_that_failed(folder: Path) -> None:
    """That the method is tried without private states must not leave it without them."""
    bench = ModelWorkbench.without_data(Record(folder))
    assert bench is not None
    private = bench.side.engine.private
    before = {i: encode(private(i)) for i in (0, 2, 3, 4)}
    tried: list[int] = []
    with pytest.raises(MotetError, match=DO_NOT_FIT):
        bench.states.make(planted("torch.zeros(2) @ torch.zeros(3)"), lambda server: tried.append(len(private(0))))
    assert tried == [0]
    assert {i: encode(private(i)) for i in before} == before and len(set(before.values())) == 4
