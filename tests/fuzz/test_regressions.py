"""What once ended in a traceback, a hang or a page of values (D10 and D11 of the review); D1, D8 and D12 have files of
their own: test_layers_of_choices.py, test_claim.py, test_stopping.py."""

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from fuzz_judge import Refused, command, time_limit

import motet
from motet.config.experiment import resolve
from motet.errors import MotetError
from motet.io import memory_limits

TINY = ["--rounds", "1", "--clients", "6", "--epochs", "1", "--cohort", "0.5", "--out", "never"]
DIGITS = "9" * 5000


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refusal(*words: str) -> str:
    with pytest.raises(Refused) as caught, time_limit(20):
        command("run", *TINY, *words)
    assert not Path("never").exists()
    said = str(caught.value)
    assert len(said) < 600
    return said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--lr", "1e308"], "local.lr is 1e+308; accepted: a number of at most 1e+20"),
        (["--lr", DIGITS], "local.lr is '999"),
        (["--seed", DIGITS], "seed is '999"),
        (["--set", f"seed={DIGITS}"], "seed is '999"),
        (
            ["--batch", "9" * 22],
            "local.batch is 9999999999999999999999; accepted: a whole number of at most 1000000000",
        ),
        (["--method", "fedprox(mu=1e308)"], "method fedprox: mu is 1e+308; accepted: a number of at most 1e+20"),
        (["--method", f"fedprox(mu={DIGITS})"], "method fedprox: mu is inf; accepted: "),
        (["--method", "x" * 5000], "unknown method 'xxx"),
        (["--data", "~nosuchuser/x.npz"], "data '~nosuchuser/x.npz' cannot be a path ("),
        (["--data", "a\0b.npz"], "data 'a\\x00b.npz' holds control characters; accepted: a path"),
        (["--data", "a\x1b[31m.npz"], "data 'a\\x1b[31m.npz' holds control characters"),
        (["--data", "a" * 300 + ".npz"], "data '…"),
        (["--net", "~nosuchuser/x.py:build"], "net '~nosuchuser/x.py:build'"),
        (["--set", "device=meta"], "device is 'meta' (Tensor.item() cannot be called on meta tensors); accepted: cpu"),
        (["--partition", "shards:100000000000"], "partition 'shards' has argument '100000000000'; accepted: "),
        (
            ["--partition", "shards:1000"],
            "partition 'shards:1000' cuts 1438 samples into 6000 shards; accepted: at most",
        ),
        (["--partition", f"pathological:{'9' * 400}"], "partition 'pathological' has argument '999"),
        (["--partition", "dirichlet:1e300"], "partition 'dirichlet' has argument '1e300'; accepted: "),
        (["--clients", "1000000000", "--set", "data.min_size=0"], "partition 'dirichlet:0.3' cannot give 1000000000"),
        (["--method", "fedbasis(k=1000000000)"], "method fedbasis(k=1000000000) needs "),
        (["--method", "fedrod(hidden=1000000000)"], "method fedrod(hidden=1000000000) needs "),
        (["/dev/zero"], "experiment file /dev/zero is a device; accepted: a file"),
    ],
)
def test_words(words: list[str], said: str) -> None:
    assert refusal(*words).startswith(said)


def test_memory_is_named_with_what_would_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limits, "free_memory", lambda: 10**6)
    monkeypatch.setattr("motet.server.memory_estimate.free_memory", lambda: 10**6)
    assert refusal("--method", "fedbasis(k=20)").endswith("and 1 MB are free; accepted: k of at most 4 for this net")
    assert "of memory and 1 MB are free; accepted: hidden of at most " in refusal("--method", "fedrod(hidden=500)")
    many = ("--clients", "40", "--cohort", "1.0")
    assert refusal(*many, "--method", "median").startswith("a round of 40 clients with models of ")
    monkeypatch.setattr(memory_limits, "free_memory", lambda: 10**5)
    assert refusal().startswith("net 'mlp' on image (1, 8, 8) needs ")


def test_files_of_nested_values_and_long_numbers() -> None:
    for text in ("a = " + "[" * 500 + "]" * 500, "a." * 2000 + "b = 1", f"seed = {DIGITS}", f"lr = {'9' * 4000}"):
        Path("e.toml").write_text(text)
        refusal("e.toml")
    assert "too deeply" in refusal_of("a = " + "[" * 5000 + "]" * 5000)


def refusal_of(text: str) -> str:
    Path("e.toml").write_text(text)
    return refusal("e.toml")


@pytest.mark.parametrize("what", ["pipe", "endless", "folder", "dangling"])
def test_what_is_no_file(what: str) -> None:
    for name in ("d.npz", "e.toml"):
        if what == "pipe":
            os.mkfifo(name)
        elif what == "folder":
            Path(name).mkdir()
        else:
            Path(name).symlink_to({"endless": "/dev/zero", "dangling": "nowhere"}[what])
    wanted = {"pipe": "is a pipe", "endless": "is a device", "folder": "", "dangling": ""}[what]
    assert wanted in refusal("--data", "d.npz") and wanted in refusal("e.toml")


def test_archives_that_ask_for_all_memory() -> None:
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({10**9}, 4)}}".encode()
    member = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(1000)
    with zipfile.ZipFile("claims.npz", "w") as archive:
        archive.writestr("x.npy", member)
        archive.writestr("y.npy", b"")
    assert "field 'x' holds Python objects or is damaged (" in refusal("--data", "claims.npz")


def test_a_bomb_is_weighed_before_it_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez_compressed("bomb.npz", x=np.zeros((10**6, 8), np.uint8), y=np.arange(10**6) % 2)
    assert Path("bomb.npz").stat().st_size < 100_000
    monkeypatch.setattr(memory_limits, "free_memory", lambda: 10**7)
    assert refusal("--data", "bomb.npz").startswith("bomb.npz: field 'x' needs 16 MB of memory and 10 MB are free")


@pytest.mark.parametrize(("offset", "value"), [(8, 1), (10, 97)], ids=["encrypted", "compressed in an unknown way"])
def test_members_that_nobody_can_open(offset: int, value: int) -> None:
    np.savez("d.npz", x=np.zeros((9, 2)), y=np.arange(9) % 2)
    data = bytearray(Path("d.npz").read_bytes())
    at = data.find(b"PK\x01\x02")
    data[at + offset] = value
    Path("d.npz").write_bytes(data)
    assert "field 'x' holds Python objects or is damaged (it is " in refusal("--data", "d.npz")


def test_an_empty_member() -> None:
    with zipfile.ZipFile("d.npz", "w") as archive:
        archive.writestr("x.npy", b"")
    assert refusal("--data", "d.npz").startswith("d.npz: ")


def test_every_sentence_is_short_and_keeps_what_is_accepted() -> None:
    said = str(MotetError(f"data {'v' * 10_000}\n\x1b[31m; accepted: {', '.join(map(str, range(1000)))}"))
    assert len(said) < 600 and "\n" not in said and "\x1b" not in said and "accepted: 0, 1, 2, " in said
    with pytest.raises(MotetError) as caught:
        resolve({"local": {"lr": [0.1] * 100_000}})
    assert str(caught.value).startswith("local.lr is [0.1, 0.1, ") and len(str(caught.value)) < 200
    with pytest.raises(MotetError) as caught:
        motet.run(data=[[0.1] * 100] * 1000)  # type: ignore[arg-type]
    assert len(str(caught.value)) < 600
