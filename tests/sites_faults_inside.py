"""Faults of runs at real sites, each scripted; `test_sites.py` runs them in a network namespace with loopback alone."""

import os
import signal
import time
from pathlib import Path

import pytest
from site_runs import Processes, assert_as_simulated, begun, digits_tables, experiment_values, processes, states_at

from motet.runs.record import Record

pytestmark = pytest.mark.slow

FAULTS = ("site", "superlink", "coordinator", "everything")


def strike(running: Processes, fault: str) -> None:
    """Kill -9, and start again whoever does not come back by himself."""
    if fault in ("site", "everything"):
        running.kill("hospital-b")
    if fault == "superlink":
        os.kill(running.superlink(), signal.SIGKILL)
    if fault in ("coordinator", "everything"):
        running.kill("coordinator")
    if fault == "everything":
        running.kill("hospital-a")
        running.kill("hospital-c")
    time.sleep(0.5)
    if fault in ("coordinator", "everything"):
        running.serve_again()
    if fault == "site":
        running.join("hospital-b")
    if fault == "everything":
        running.join_all()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_kill_in_mid_round_changes_no_byte(fault: str, tmp_path: Path) -> None:
    values = begun(tmp_path, "scaffold", 4, rounds={"cohort": 1.0})
    with processes(tmp_path, values) as running:
        running.serve()
        running.join_all()
        running.until_round(1)
        running.until("hospital-b", "train of round 2")
        strike(running, fault)
        running.finished()
        assert_as_simulated(running, tmp_path / "inline")
        assert [row["round"] for row in Record(running.out).rounds] == [1, 2, 3, 4]
        assert all(not row["set_aside"] for row in Record(running.out).rounds)
        for hashes in states_at(running).values():
            assert len(hashes) <= 3  # of two checkpoints, and the newest


def test_rounds_go_on_without_a_site_that_is_away_and_it_comes_back_with_its_state(tmp_path: Path) -> None:
    digits_tables(tmp_path)
    with processes(tmp_path, experiment_values("ditto", 40, rounds={"cohort": 1.0})) as running:
        running.serve("--least", "2", "--deadline", "5s")
        running.join_all()
        running.until_round(1)
        running.kill("hospital-c")
        running.until_round(3)
        before = states_at(running)["hospital-c"]
        running.join("hospital-c")
        running.finished()
        rows = Record(running.out).rounds
        assert [row["round"] for row in rows] == list(range(1, 41))  # a busy machine starts a site in ten of them
        without = [row["round"] for row in rows if 2 not in row["cohort"] or "2" in row["set_aside"]]
        assert without and 40 not in without
        assert "not on the site's disk" not in running.log("coordinator")
        assert before and (tmp_path / "state-hospital-c" / "final.json").exists()


def test_a_full_disk_at_a_site_sets_it_aside_and_loses_nothing(tmp_path: Path) -> None:
    """A file size limit stands for the full disk: writing its state fails with EFBIG, as ENOSPC would."""
    digits_tables(tmp_path)
    with processes(tmp_path, experiment_values("scaffold", 4, rounds={"cohort": 1.0})) as running:
        running.serve()
        running.join("hospital-a")
        running.join("hospital-b")
        words = ["join", f"127.0.0.1:{running.port}", "--certs", "certs", "--name", "hospital-c"]
        words += ["--data", "hospital-c.csv", "--schema", "schema.toml", "--state", "state-hospital-c", "--yes"]
        running.start("hospital-c", words, before=["prlimit", "--fsize=9500"])
        assert running.end("coordinator") == 0
        rows = Record(running.out).rounds
        assert len(rows) == 4
        assert all("cannot write" in row["set_aside"]["2"] for row in rows)
        assert (running.out / "summary.json").exists()
        assert "hospital-c has not got its model yet" in running.log("coordinator")
        running.kill("hospital-c")  # it waits for its model; now there is room
        running.join("hospital-c")
        running.serve_again()
        running.finished()
        assert (tmp_path / "state-hospital-c" / "final.json").exists()


def test_a_clock_that_is_an_hour_off_changes_nothing(tmp_path: Path) -> None:
    values = begun(tmp_path, "fedavg", 2)
    late = tmp_path / "late.py"
    late.write_text(
        "import datetime, sys\nfrom flwr.supercore import date\nreal = date.now\n"
        "date.now = lambda: real() - datetime.timedelta(hours=1)\n"
        "import flwr.app.message.message as m\nm.now = date.now\n"
        "from motet.cli import main\nsys.exit(main(sys.argv[1:]))\n"
    )
    with processes(tmp_path, values) as running:
        running.serve()
        running.join("hospital-a")
        running.join("hospital-b")
        words = ["join", f"127.0.0.1:{running.port}", "--certs", "certs", "--name", "hospital-c", "--data"]
        words += ["hospital-c.csv", "--schema", "schema.toml", "--state", "state-hospital-c", "--yes"]
        running.start_script("hospital-c", late, words)
        running.finished()
        assert_as_simulated(running, tmp_path / "inline")


BREAKING = """
import os, signal, sys
import psutil
from flwr.supernode.fleet_http_client import FleetHttpClient
real, count = FleetHttpClient.PushObject, [0]

def push(self, request):
    count[0] += 1
    if count[0] == {number}:
        for process in psutil.process_iter():
            if {secret!r} in " ".join(process.cmdline()) and "motet.sites.superlink" in process.cmdline():
                os.kill(process.pid, signal.SIGKILL)
                process.wait(20)
    return real(self, request)

FleetHttpClient.PushObject = push
from motet.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("number", [7, 8, 9])
def test_a_superlink_killed_between_the_parts_of_a_reply_gets_the_rest_of_it(number: int, tmp_path: Path) -> None:
    """Flower takes one reply to a message, and keeps its head: a second one was thrown away, and all waited."""
    values = begun(tmp_path, "scaffold", 3, rounds={"cohort": 1.0})
    with processes(tmp_path, values) as running:
        running.serve()
        running.join("hospital-a")
        running.join("hospital-b")
        running.until("coordinator", "waiting for")
        script = tmp_path / "breaking.py"
        script.write_text(BREAKING.format(number=number, secret=str(running.certs)))
        words = ["join", f"127.0.0.1:{running.port}", "--certs", "certs", "--name", "hospital-c", "--data"]
        words += ["hospital-c.csv", "--schema", "schema.toml", "--state", "state-hospital-c", "--yes"]
        running.start_script("hospital-c", script, words)
        running.finished()
        assert "the SuperLink ended (code -9)" in running.log("coordinator")
        assert "duplicate reply" not in (running.out / "superlink" / "superlink.log").read_text()
        assert "asking hospital-c again" not in running.log("coordinator")
        assert_as_simulated(running, tmp_path / "inline")
