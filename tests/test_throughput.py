"""The throughput benchmark compares the same work, says what it found in documented words, and refuses in sentences."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from motet.config.experiment import resolve
from motet.config.nesting import merge
from motet.data.sources.mnist import find_fashion
from motet.errors import MotetError
from motet.nets import build_net
from motet.runs.record import Record
from motet.runs.run import run

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
FIELDS = {
    *("workload", "images_per_second", "repeats", "ratios", "scoring_share", "seconds", "images", "skipped", "setting"),
    *("load_before", "machine", "commit", "command"),
}
SLIVER = {
    "data": {"subset": 0.01, "clients": 4, "min_size": 0},
    "rounds": {"cohort": 0.5},
    "local": {"epochs": 2},
    "engine": {"name": "inline"},
}
pytestmark = pytest.mark.skipif(find_fashion() is None, reason="Fashion-MNIST is not on this machine")


@pytest.fixture(autouse=True)
def parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


LARGER = ("dbe-cnn", "fedrod-conv", "resnet8-cifar", "lstm-shakespeare")


def sliver(workload: str) -> dict[str, Any]:
    from throughput_parts.workloads import WORKLOADS

    share = {"resnet8-cifar": 0.03, "lstm-shakespeare": 0.03}.get(workload, SLIVER["data"]["subset"])
    return merge(WORKLOADS[workload].experiment(quick=False), SLIVER, {"data": {"subset": share}})


def after_one_round(workload: str) -> tuple[Any, dict[str, Any], list[torch.Tensor]]:
    """The work, and the weights before and after the script's first round."""
    from throughput_parts.bare import one_round
    from throughput_parts.work import Work

    work = Work.of(sliver(workload))
    net = work.net()
    first = {name: value.clone() for name, value in net.state_dict().items()}
    return work, first, list(one_round(work, net, first, round=1).values())


@pytest.mark.parametrize(
    "workload",
    ["twonn", *(pytest.param(name, marks=pytest.mark.slow) for name in LARGER)],
)
def test_script_and_motet_do_the_same_round(workload: str, tmp_path: Path) -> None:
    from throughput_parts.bare import score

    work, first, scripts = after_one_round(workload)
    run(resolve(merge(sliver(workload), {"rounds": {"count": 1}})), tmp_path / "run")
    named = load_file(tmp_path / "run" / "weights.safetensors")
    names = build_net(work.experiment.net.name, work.input, work.classes).state_dict()
    for name, mine, start in zip(names, scripts, first.values(), strict=True):
        moved = float((named[name] - start).abs().max())
        assert moved > 1e-4
        if mine.is_floating_point():  # or else a count of batches, which a mean makes a fraction of
            torch.testing.assert_close(mine, named[name], rtol=0, atol=moved / 50)

    if workload == "dbe-cnn":  # the one that scores
        hits = score(work, work.net(), dict(zip(first, scripts, strict=True)))
        samples = sum(len(y) for _, y in work.test)
        row = Record(tmp_path / "run").rounds[-1]
        assert sum(hits["generic"]) / samples == pytest.approx(row["generic.common.accuracy.pooled"], abs=0.02)
        assert sum(hits["personal"]) / samples == pytest.approx(row["personal.split.accuracy.by_samples"], abs=0.02)


@pytest.mark.slow
def test_limit_does_the_same_round() -> None:
    from throughput_parts.limit import deal, dismiss, hire, one_round
    from throughput_parts.script import right

    work, first, scripts = after_one_round("dbe-cnn")
    board = hire(work, sliver("dbe-cnn"), workers=2, fused=True)
    one_round(work, board, round=1)
    deal(board, "score", 1, [0, 1, 2, 3])
    dismiss(board)
    for mine, theirs, start in zip(scripts, board.weights.values(), first.values(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=float((theirs - start).abs().max()) / 100)
    net = work.net()
    net.load_state_dict(board.weights)
    assert board.hits[0].tolist() == board.hits[1].tolist() == [right(net, test) for test in work.test]


def test_fedjax_does_the_same_round(tmp_path: Path) -> None:
    from throughput_parts.fedjax_bridge import environment, write_down

    python = environment() / "bin" / "python"
    if not python.exists():
        pytest.skip("FedJAX's environment is not here (python benchmarks/throughput.py --prepare fedjax)")
    work, first, scripts = after_one_round("twonn")
    write_down(work, tmp_path, rounds=1)
    program = (
        "import sys, numpy as np; from pathlib import Path; from throughput_parts.fedjax_rounds import *\n"
        "written = Written.of(Path(sys.argv[1])); rule = written.settings\n"
        "train = training(rule['momentum'], rule['weight_decay'])\n"
        "np.savez(sys.argv[1] + '/after.npz', *one_round(train, written.weights, *next(written.rounds())))"
    )
    here = os.environ | {"PYTHONPATH": str(BENCHMARKS)}
    subprocess.run([python, "-c", program, tmp_path], check=True, env=here, capture_output=True)
    after = np.load(tmp_path / "after.npz")
    for mine, name, start in zip(scripts, after.files, first.values(), strict=True):
        theirs = torch.from_numpy(after[name])
        torch.testing.assert_close(mine, theirs, rtol=0, atol=float((theirs - start).abs().max()) / 100)


def test_who_plays_other_workloads_alone_is_named() -> None:
    from throughput import elsewhere

    assert elsewhere("dbe-cnn") == {"fedjax": "plays twonn alone"} and not elsewhere("twonn")


def test_images_are_those_of_the_steps() -> None:
    from throughput_parts.work import Work

    for workload in ("dbe-cnn", "twonn"):  # the first leaves out the last, smaller batch
        work = Work.of(merge(sliver(workload), {"local": {"batch": 7}}))
        sizes = [len(work.train[i][1]) for i in work.cohort(3)]
        assert any(n % 7 for n in sizes)
        assert work.images(3) == 2 * sum(n - n % 7 if workload == "dbe-cnn" else n for n in sizes)


@pytest.mark.slow
def test_json_line_has_the_documented_fields(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    import throughput
    from throughput_parts.contestants import CONTESTANTS, Contestant
    from throughput_parts.workloads import WORKLOADS, Workload

    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # two threads that wait for each other crawl on a busy machine
    monkeypatch.setitem(WORKLOADS, "dbe-cnn", Workload("dbe-cnn", "a sliver", sliver("dbe-cnn"), {}))
    monkeypatch.setitem(CONTESTANTS, "missing", Contestant("missing", "nobody", "nothing"))
    words = ["--workload", "dbe-cnn", "--repeats", "2", "--json", "--contestants", "inline", "bare", "missing"]
    throughput.main(words)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    found = json.loads(lines[0])
    assert set(found) == FIELDS
    assert found["workload"] == "dbe-cnn" and found["repeats"] == len(found["images"]) == 2
    assert set(found["images_per_second"]) == set(found["seconds"]) == {"inline", "bare"}
    times, speed = found["seconds"]["bare"], found["images_per_second"]["bare"]
    each = [n / s for n, s in zip(found["images"], times, strict=True)]
    assert min(each) - 0.1 <= speed <= max(each) + 0.1
    assert set(found["scoring_share"]) == {"inline"} and 0 < found["scoring_share"]["inline"] < 1
    assert "missing" in found["skipped"]["missing"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--contestants", "bar"], "unknown contestant 'bar': did you mean 'bare'?"),
        (["--repeats", "0"], "--repeats is 0; accepted: 1 or more"),
        (["--repeats", "many"], "invalid int value: 'many'"),
        (["--workload", "systems", "--contestants", "bare"], "accepted: another workload"),
    ],
)
def test_bad_input_is_refused(words: list[str], sentence: str) -> None:
    from throughput import read

    with pytest.raises(MotetError) as caught:
        read(words)
    assert sentence in str(caught.value)


def test_unknown_workload_is_one_sentence_and_exit_2() -> None:
    command = [sys.executable, str(BENCHMARKS / "throughput.py"), "--workload", "twon"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("unknown workload 'twon': did you mean 'twonn'? accepted: ")
    assert done.stderr.count("\n") == 1 and not done.stdout


@pytest.mark.slow
def test_local_training_is_profiled_beside_the_bare_loop() -> None:
    from local_training import measure
    from throughput_parts.workloads import FEDROD_CONV, Workload

    small = Workload("small", "", merge(FEDROD_CONV.setting, SLIVER), {})
    found = measure(small, ["bare", "fedavg", "fedrod(head=linear)"], repeats=2)
    assert found["x bare"]["bare"] == 1 and set(found["milliseconds"]) == {"bare", "fedavg", "fedrod(head=linear)"}
    assert all(ms > 0 for ms in found["milliseconds"].values()) and found["samples"] > 0
    for shares in found["profile"].values():
        assert "aten::convolution_backward" in shares and 0 < sum(shares.values()) <= 1.001


def test_a_contestant_whose_tools_are_missing_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    from throughput_parts import contest

    missing = dataclasses.replace(contest.CONTESTANTS["pool"], command=("no-such-tool",))
    monkeypatch.setitem(contest.CONTESTANTS, "pool", missing)
    result = contest.contest({"pool": ("pool", {})}, repeats=1)
    assert result.answers == {} and result.skipped == {"pool": "no-such-tool is not on this machine"}


def test_who_is_not_timed_rests_with_all_it_started() -> None:
    from throughput_parts.contest import descendants

    shell = subprocess.Popen(["sh", "-c", "sleep 60 & echo started; wait"], stdout=subprocess.PIPE)
    try:
        assert shell.stdout and shell.stdout.readline() == b"started\n"
        found = descendants(shell.pid)
        assert found[0] == shell.pid and len(found) == 2
        comm = Path(f"/proc/{found[1]}/comm")
        while comm.read_text() == "sh\n":  # the shell's fork has not become `sleep` yet
            time.sleep(0.01)
        assert comm.read_text() == "sleep\n"
    finally:
        for pid in descendants(shell.pid)[::-1]:
            os.kill(pid, signal.SIGKILL)
        shell.communicate()
