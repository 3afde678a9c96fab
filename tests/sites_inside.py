"""Tests of real sites that start processes: `test_sites.py` runs them in a network namespace with loopback alone."""

import csv
import json
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from machines import Machine, machines
from site_runs import (
    NAMES,
    assert_as_simulated,
    begun,
    digits_tables,
    experiment_values,
    processes,
    simulated,
)

from motet.cli import main
from motet.config.experiment import resolve
from motet.config.toml import dumps
from motet.data import build
from motet.runs.record import Record
from motet.runs.run import run
from motet.sites.certificates import make_certificates
from motet.sites.settling import settled_for_sites

EIGHT = ("fedavg", "fedrod(head=hyper)", "pgfed", "fedbasis", "superfed-mm", "fedavg+dbe", "ditto", "scaffold")


def test_a_run_at_three_sites_has_the_bytes_of_a_simulation_and_each_site_its_model(tmp_path: Path) -> None:
    """The whole walk: TLS, keys, consent, rounds, the record, and a model that the site itself writes."""
    values = begun(tmp_path, "fedrod(head=hyper)", 2)
    with processes(tmp_path, values) as running:
        running.serve()
        running.join_all()
        running.finished()
        assert_as_simulated(running, tmp_path / "inline")
        record, inline = Record(running.out), Record(tmp_path / "inline")
        timeless = [
            [{k: v for k, v in row.items() if "seconds" not in k and "common" not in k} for row in each.rounds]
            for each in (record, inline)
        ]
        assert timeless[0] == timeless[1]  # the same figures, made from sums over sites
        assert "hospital-a is connected with" in running.log("hospital-a")
        for name in NAMES:
            assert {p.name for p in (tmp_path / f"state-{name}").iterdir()} >= {"consent.json", "final.json"}
            assert (tmp_path / f"state-{name}").stat().st_mode & 0o077 == 0
        assert (running.out / "superlink" / "superexec.secret").stat().st_mode & 0o077 == 0
    assert main(["export", str(tmp_path / "state-hospital-b"), "--out", str(tmp_path / "model")]) == 0
    assert (
        main(["predict", str(tmp_path / "model"), str(tmp_path / "hospital-b.csv"), "--out", str(tmp_path / "p.csv")])
        == 0
    )
    assert main(["export", str(tmp_path / "inline"), "--out", str(tmp_path / "theirs"), "--client", "hospital-b"]) == 0
    theirs = next((tmp_path / "theirs").glob("client-*"))
    assert main(["predict", str(theirs), str(tmp_path / "hospital-b.csv"), "--out", str(tmp_path / "t.csv")]) == 0
    assert (tmp_path / "p.csv").read_bytes() == (tmp_path / "t.csv").read_bytes()
    assert main(["export", str(running.out), "--out", str(tmp_path / "generic"), "--generic"]) == 0
    counts = ",".join(["5"] * 10)
    assert main(["adapt", str(running.out), "--counts", counts, "--out", str(tmp_path / "late")]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("method", [m for m in EIGHT if m != "fedrod(head=hyper)"])
def test_every_other_method_on_digits(method: str, tmp_path: Path) -> None:
    values = begun(tmp_path, method)
    with processes(tmp_path, values) as running:
        running.serve()
        running.join_all()
        running.finished()
        assert_as_simulated(running, tmp_path / "inline")


MASKED = "clip(norm=5.0)+mask"
NO_LOSS = {"scoring": {"train_loss": False, "figures_learned": False}, "rounds": {"cohort": 1.0}}


@pytest.mark.slow
@pytest.mark.parametrize("transforms", [MASKED, "top-k(share=0.1)", "int8"])
def test_transforms_at_sites_have_the_bytes_of_a_simulation(transforms: str, tmp_path: Path) -> None:
    """Masks are made of secrets that differ from those of a simulation, and cancel all the same."""
    values = begun(tmp_path, "fedavg", transforms=transforms, **NO_LOSS)
    with processes(tmp_path, values) as running:
        running.serve()
        running.join_all()
        running.until_round(1)
        running.kill("hospital-b")
        running.join("hospital-b")
        running.kill("coordinator")
        running.serve_again()
        running.finished()
        assert all(not row["set_aside"] for row in Record(running.out).rounds)
        if transforms != MASKED:
            assert_as_simulated(running, tmp_path / "inline")
        else:  # whose checkpoints hold keys, which are others
            weights = [folder / "weights.safetensors" for folder in (running.out, tmp_path / "inline")]
            assert weights[0].read_bytes() == weights[1].read_bytes()
            lines = [
                line for name in NAMES for line in running.log(name).splitlines() if "public keys for masks" in line
            ]
            assert len(lines) == 3 and len({line.partition("telephone: ")[2] for line in lines}) == 1


@pytest.mark.slow
def test_noise_behind_masks_at_sites_is_accounted_for(tmp_path: Path) -> None:
    digits_tables(tmp_path)
    noisy = "noise(norm=0.5, multiplier=4.0, at=client)+mask"
    values = experiment_values("fedavg(weighting=uniform)", transforms=noisy, **NO_LOSS)
    with processes(tmp_path, values) as running:
        running.serve()
        running.join_all()
        running.finished()
        rows = Record(running.out).rounds
        assert [row["epsilon"] for row in rows] == sorted(row["epsilon"] for row in rows) and rows[-1]["epsilon"] > 1
        assert all(not row["set_aside"] for row in rows)


def hearts(folder: Path, source: Path) -> dict[str, Any]:
    """Write the heart data as one table, one table per hospital, and a schema fitted on all."""
    with open(source, newline="") as file:
        rows = list(csv.DictReader(file))
    names = {name: f"site-{i}" for i, name in enumerate(sorted({row["hospital"] for row in rows}))}
    rows.sort(key=lambda row: names[row["hospital"]])
    columns = [name for name in rows[0] if name != "hospital"]
    for part, chosen in [("all", rows), *((s, [r for r in rows if r["hospital"] == n]) for n, s in names.items())]:
        with open(folder / f"{part}.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*(["site"] if part == "all" else []), *columns])
            for row in chosen:
                writer.writerow([*([names[row["hospital"]]] if part == "all" else []), *(row[c] for c in columns)])
    data = {"name": str(folder / "all.csv"), "label": "disease", "client": "site"}
    prepare: Any = build(resolve({"data": data}).data, 0).prepare
    (folder / "schema.toml").write_text(prepare.schema.to_toml())
    return {"names": sorted(names.values())}


@pytest.mark.slow
@pytest.mark.parametrize("method", EIGHT)
def test_every_method_on_the_hearts_of_four_hospitals(method: str, tmp_path: Path, shared_data: Path) -> None:
    more = hearts(tmp_path, shared_data / "heart.csv")
    values = experiment_values(method, 2, data={"label": "disease"})
    run(simulated(values, tmp_path / "all.csv", tmp_path / "schema.toml"), tmp_path / "inline")
    with processes(tmp_path, values, **more) as running:
        running.serve()
        running.join_all()
        running.finished()
        assert_as_simulated(running, tmp_path / "inline")


# ---------------------------------------------------------------- who is not let in


@pytest.mark.slow
def test_strangers_are_refused_with_a_sentence_on_both_sides(tmp_path: Path) -> None:
    """An unregistered key, a wrong authority, and every other part of the SuperLink."""
    import httpx

    digits_tables(tmp_path)
    values = experiment_values("fedavg", 2)
    with processes(tmp_path, values) as running:
        running.serve()
        running.until("coordinator", "waiting for hospital-a")
        make_certificates(running.certs, ["127.0.0.1"], ["hospital-z"])  # a key that the coordinator does not know
        shutil.copy(tmp_path / "hospital-a.csv", tmp_path / "hospital-z.csv")
        running.join("hospital-z")
        make_certificates(tmp_path / "others", ["127.0.0.1"], ["hospital-a"])
        words = ["join", f"127.0.0.1:{running.port}", "--certs", "others", "--name", "hospital-a", "--data"]
        running.start("other", [*words, "hospital-a.csv", "--schema", "schema.toml", "--state", "s", "--yes"])
        assert running.until("other", "error: .*") and running.running["other"].wait(60) == 2
        assert "certificate that is not accepted" in running.log("other")
        ca = str(running.certs / "ca.crt")
        for path in ("/v1/control/start-run", "/v1/control/register-node", "/v1/runtime/acquire-task", "/docs", "/"):
            assert httpx.post(f"https://127.0.0.1:{running.port}{path}", verify=ca).status_code == 404
        register = httpx.post(f"https://127.0.0.1:{running.port}/v1/fleet/register-node", verify=ca)
        assert register.status_code == 404
        assert running.running["hospital-z"].wait(90) == 2
        assert "does not let 'hospital-z' in" in running.log("hospital-z")
        assert "refused: a call of '/v1/fleet/activate-node'" in running.log("coordinator")
        assert "refused: a call of '/v1/control/start-run'" in running.log("coordinator")


@pytest.mark.slow
def test_an_expired_certificate_is_refused_on_both_sides(tmp_path: Path) -> None:
    digits_tables(tmp_path)
    with processes(tmp_path, experiment_values("fedavg", 2)) as running:
        make_certificates(running.certs, ["127.0.0.1"], [], days=-1)
        running.serve()
        assert running.running["coordinator"].wait(120) == 2
        assert "server.crt expired on" in running.log("coordinator")


@pytest.mark.slow
def test_nobody_consents_where_nobody_can_be_asked(tmp_path: Path) -> None:
    digits_tables(tmp_path)
    with processes(tmp_path, experiment_values("fedavg", 2)) as running:
        running.serve()
        running.join("hospital-a")
        running.join("hospital-b")
        words = ["join", f"127.0.0.1:{running.port}", "--certs", "certs", "--name", "hospital-c", "--data"]
        running.start("hospital-c", [*words, "hospital-c.csv", "--schema", "schema.toml", "--state", "state-c"])
        assert running.running["coordinator"].wait(120) == 2
        assert "hospital-c does not consent" in running.log("coordinator")
        assert "nobody can be asked here" in running.log("hospital-c")
        assert not (tmp_path / "state-c" / "consent.json").exists()


# ---------------------------------------------------------------- machines with addresses of their own


@pytest.mark.slow
def test_four_machines_with_four_addresses_and_a_cable_that_is_pulled(tmp_path: Path) -> None:
    """A coordinator and three sites in four network namespaces. Each has the files that the page gives it, no more."""
    values = begun(tmp_path, "fedrod(head=hyper)", 4)
    office, *sites = ("10.77.0.1", "10.77.0.2", "10.77.0.3", "10.77.0.4")
    with machines(tmp_path, {"office": office, **dict(zip(NAMES, sites, strict=True))}) as there:
        coordinator = there["office"]
        (coordinator.folder / "experiment.toml").write_text(dumps(values))
        coordinator.motet("certs", "certs", "--server", office, "--sites", ",".join(NAMES))
        words = ["--address", f"{office}:8000", "--certs", "certs", "--sites", ",".join(NAMES), "--out", "run"]
        served = coordinator.start("serve", "experiment.toml", *words)
        joined = []
        for name in NAMES:
            folder = there[name].folder
            for file in (f"{name}.csv", "schema.toml"):
                shutil.copy(tmp_path / file, folder)
            (folder / "certs").mkdir()
            for file in ("ca.crt", f"{name}.key"):
                shutil.copy(coordinator.folder / "certs" / file, folder / "certs")
            words = ["--name", name, "--data", f"{name}.csv", "--schema", "schema.toml", "--state", "state", "--yes"]
            joined.append(there[name].start("join", f"{office}:8000", "--certs", "certs", *words))
        run_folder = coordinator.folder / "run"
        assert_in_time(lambda: len(rounds_of(run_folder)) >= 1, coordinator)
        assert {at.rpartition(":")[0] for at in coordinator.listeners()} <= {office, "127.0.0.1"}
        assert f"{office}:8000" in coordinator.listeners()
        for name in NAMES:
            assert there[name].listeners() == set()  # no port is open at a site
        there["hospital-b"].plug("down")
        time.sleep(5)
        there["hospital-b"].plug("up")
        for process in (served, *joined):
            assert process.wait(240) == 0, "\n".join(machine.log for machine in there.values())
        for name in NAMES:
            there[name].motet("export", "state", "--out", "model")
            there[name].motet("predict", "model", f"{name}.csv", "--out", "answers.csv")
            assert len((there[name].folder / "answers.csv").read_text().splitlines()) > 100
        assert len(rounds_of(run_folder)) == 4
    assert (run_folder / "weights.safetensors").read_bytes() == (tmp_path / "inline/weights.safetensors").read_bytes()


def rounds_of(folder: Path) -> list[Any]:
    """Return the rounds that are in the record of a run, which may not have begun."""
    return Record(folder).rounds if (folder / "rounds.jsonl").exists() else []


def assert_in_time(holds: Callable[[], bool], machine: Machine, seconds: float = 120.0) -> None:
    """Wait until something holds; otherwise fail with what a machine said."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, machine.log
        time.sleep(0.2)


# ---------------------------------------------------------------- the page for users


PAGE = Path(__file__).parents[1] / "docs" / "deploy-sites.md"


@pytest.mark.slow
def test_every_command_of_the_page_works_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From three tables to three models: the page's Python, its experiment, and each line that begins with motet."""
    text = PAGE.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec(compile(text.partition("```python\n")[2].partition("```")[0], "deploy-sites.md", "exec"), {})
    (tmp_path / "experiment.toml").write_text(text.partition("```toml\n")[2].partition("```")[0])
    commands = [line.strip() for line in text.splitlines() if line.startswith("    motet ")]
    assert len(commands) >= 12
    waiting = dict[str, subprocess.Popen[bytes]]()
    try:
        for command in commands:
            words = [sys.executable, "-m", *shlex.split(command)]
            if words[3] in ("serve", "join"):
                consent = ["--yes"] if words[3] == "join" else []
                waiting[command] = subprocess.Popen([*words, *consent], stdin=subprocess.DEVNULL)
                continue
            for asked, process in waiting.items():
                assert process.wait(240) == 0, asked
            done = subprocess.run(words, capture_output=True, text=True)
            assert done.returncode == 0, f"{command}: {done.stderr}"
    finally:
        for process in waiting.values():
            process.kill()
    assert {"model-a", "generic", "late", "from-counts", "answers.csv"} <= {p.name for p in tmp_path.iterdir()}


def test_the_settled_experiment_is_what_sites_are_asked_for() -> None:
    experiment = settled_for_sites(resolve(experiment_values("fedavg")))
    assert json.loads(experiment.model_dump_json())["engine"]["name"] == "flower"
