"""FED-ROD's three rows from one training are bit for bit those of three trainings."""

from pathlib import Path

import pytest

from motet.config.experiment import resolve
from motet.methods import METHODS
from motet.runs.record import Record
from motet.runs.run import run

SETTING = {"data": {"clients": 6}, "rounds": {"count": 3, "cohort": 0.5}, "local": {"epochs": 2}}
SETTING["scoring"] = {"personal_model": "last_participation"}  # as the paper scores FedAvg too


@pytest.mark.parametrize(
    ("member", "method"),
    [("brm", "fedavg+bsm"), ("linear", "fedrod(head=linear)"), ("hyper", "fedrod(head=hyper)")],
)
def test_one_training_gives_each_row(member: str, method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "benchmarks"))
    from fedrod_table7 import THREE_ROWS

    monkeypatch.setitem(METHODS, THREE_ROWS.name, THREE_ROWS)
    run(resolve(SETTING | {"method": "fedrod-three-rows"}), tmp_path / "together")
    run(resolve(SETTING | {"method": method}), tmp_path / "alone")
    together, alone = (Record(tmp_path / name).rounds[-1] for name in ("together", "alone"))
    assert together["generic.common.accuracy.pooled"] == alone["generic.common.accuracy.pooled"]
    assert together[f"member:{member}.weighted.accuracy.mean"] == pytest.approx(
        alone["personal.weighted.accuracy.mean"], abs=1e-12
    )
    assert together[f"member:{member}.split.accuracy.mean"] == pytest.approx(
        alone["personal.split.accuracy.mean"], abs=1e-12
    )
    assert (tmp_path / "together/weights.safetensors").read_bytes() == (
        tmp_path / "alone/weights.safetensors"
    ).read_bytes()
