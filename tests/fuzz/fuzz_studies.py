"""Folders of studies and bench files as a bad disk, a bad editor or an attacker leaves them."""

import contextlib
import json
import random
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from fuzz_judge import Case, command

LESS = ["--clients", "4", "--rounds", "2", "--epochs", "1", "--jobs", "1", "--out", "study"]
STUDIES: dict[str, list[str]] = {
    "compare": [
        "compare",
        "digits",
        "--methods",
        "local,fedavg",
        "--trials",
        "2",
        "--seeds",
        "2",
        "--time",
        "9h",
        *LESS,
    ],
    "tune": ["tune", "digits", "--methods", "fedavg", "--trials", "2", *LESS],
    "bench": ["bench", "bench.toml", "--jobs", "1", "--out", "study"],
}
SETTING = "[setting]\nrounds = 2\nclients = 4\nepochs = 1\n"
BENCH = f'name = "b"\nfigures = ["generic.accuracy"]\nseeds = [0, 1]\n{SETTING}'
NUMBERS = (-1, 0, 0.5, 1e308, -1e308, 5e-324, 4611686018427387904, 2**63 - 1, 10**30, 1e400)
OTHERS = (
    *(
        None,
        True,
        False,
        "",
        "x",
        "1",
        "../../x",
        "/etc/hostname",
        "x" * 100_000,
        "\x1b[31m[red]\x00",
        "fedprox",
        "last",
    ),
    *([], {}, [1, 2], ["x"], {"a": {"b": "c"}}, [[[1]]], {"": None}),
)
LINES = ("{", "null", "[]", "{}", '{"trial": 0}', '{"trial": 0, "round": 1, "score": "x", "failure": 3}', "\x00", "")


@cache
def finished(study: str) -> Path:
    """A whole study, computed once."""
    folder = Path(mkdtemp(prefix="motet-studies-"))
    (folder / "bench.toml").write_text(BENCH)
    with contextlib.chdir(folder):
        command(*STUDIES[study])
    return folder


def study_case(rng: random.Random, folder: Path) -> Case:
    """One damaged file of a study, or a bench file with something wrong in it."""
    if rng.random() < 0.3:
        return _bench_case(rng, folder)
    study = rng.choice(list(STUDIES))
    shutil.rmtree(folder / "study", ignore_errors=True)
    shutil.copytree(finished(study) / "study", folder / "study")
    (folder / "bench.toml").write_text(BENCH)
    files = sorted(path for path in (folder / "study").rglob("*.json*") if "checkpoint" not in path.parts)
    top = [path for path in files if path.parent == folder / "study" or path.name == "trials.jsonl"]
    path = rng.choice(top if rng.random() < 0.6 else files)
    said = _damage(rng, path)
    if rng.random() < 0.5 and study == "compare":
        words = rng.choice(
            [["report", "study", "--out", "page.html"], ["show", "study/runs"], ["show", "study/runs", "--json"]]
        )
    else:
        words = STUDIES[study]
        for gone in rng.sample(["comparison.json", "tuning.json", "results.json"], rng.randint(0, 3)):
            (folder / "study" / gone).unlink(missing_ok=True)
    return Case(f"{study}: {path.relative_to(folder)}: {said}, then {words[0]}", lambda: command(*words))


def _damage(rng: random.Random, path: Path) -> str:
    """Change one value at any depth, or the text."""
    text = path.read_text()
    if rng.random() < 0.15:
        cut = rng.randrange(len(text) + 1)
        path.write_text(
            rng.choice([text[:cut], text[:cut] + rng.choice(LINES) + text[cut:], rng.choice(LINES), text * 2])
        )
        return "other text"
    lines = text.splitlines() if path.suffix == ".jsonl" else [text]
    at = rng.randrange(len(lines))
    value = json.loads(lines[at])
    said = _change(rng, value)
    lines[at] = json.dumps(value)
    path.write_text("\n".join(lines) + "\n")
    return said


def _change(rng: random.Random, value: Any, where: str = "") -> str:
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    if not keys:
        return f"{where} as it was"
    key = rng.choice(keys)
    inner, name = value[key], f"{where}.{key}"
    if isinstance(inner, dict | list) and inner and rng.random() < 0.7:
        return _change(rng, inner, name)
    if rng.random() < 0.2:
        del value[key]
        return f"{name} is gone"
    value[key] = rng.choice(NUMBERS if rng.random() < 0.5 else OTHERS)
    return f"{name} = {str(value[key])[:40]}"


# ------------------------------------------------------------ bench files

BENCHES: dict[str, tuple[str, str]] = {
    "seeds twice": ("seeds = [0, 1]", "seeds = [0, 0]"),
    "many seeds": ("seeds = [0, 1]", f"seeds = {list(range(20_000))}"),
    "no seeds": ("seeds = [0, 1]", "seeds = []"),
    "a seed that is none": ("seeds = [0, 1]", 'seeds = ["x"]'),
    "a seed below zero": ("seeds = [0, 1]", "seeds = [-1]"),
    "a figure that is none": ("generic.accuracy", "generic.nothing"),
    "a curve that is none": ("generic.accuracy", "curve.nope"),
    "a last that is none": ("generic.accuracy", "last.nope:"),
    "a figure twice": ('["generic.accuracy"]', '["generic.accuracy", "generic.accuracy"]'),
    "an unknown key": ('name = "b"', 'name = "b"\nnope = 1'),
    "an unknown key of quick": (SETTING, SETTING + "[quick]\nnope = 1\n"),
    "an unknown key of setting": ("[setting]", "[setting]\nnope = 1"),
    "an unknown key of a case": (SETTING, SETTING + "[cases.a]\nnope = 1\n"),
    "an unknown key of the grid": (SETTING, SETTING + "[grid]\nnope = [1]\n"),
    "an unknown key of the paper": (SETTING, SETTING + "[[paper]]\nnope = 1\n"),
    "a metric that is none": (SETTING, SETTING + "[setting.scoring]\nmetrics = ['nope']\n"),
    "many cases": (SETTING, SETTING + f"[grid]\nlr = {[0.001 * i for i in range(1, 5000)]}\nseed = {list(range(9))}\n"),
}


def _bench_case(rng: random.Random, folder: Path) -> Case:
    name = rng.choice(list(BENCHES))
    return bench_case(name, folder, rng.choice([[], ["--quick"]]))


def bench_case(name: str, folder: Path, more: list[str]) -> Case:
    """A bench file with one of the mistakes, all of which are said before anything runs."""
    shutil.rmtree(folder / "study", ignore_errors=True)
    (folder / "bench.toml").write_text(BENCH.replace(*BENCHES[name]))
    return Case(f"bench file: {name} {more}", lambda: command(*STUDIES["bench"], *more), "refuse")
