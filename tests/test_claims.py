"""docs/claims.md: our numbers are in the files that are named, and every command and file that is named is there."""

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from motet.config.experiment import resolve
from motet.config.layers import one_layer
from motet.config.names import parse
from motet.config.nesting import merge, nest
from motet.config.section import checked
from motet.methods.registry import entry_of
from motet.metrics.registry import require_metrics
from motet.nets import NETS, net_term
from motet.server.assembly import settle

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
VERDICTS = {"reproduced", "direction only", "not reproduced", "untestable here", "not yet run"}
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "benchmarks" / "README.md"]
NOTHING = "–"


def rows() -> list[list[str]]:
    """The rows of the tables of claims: claim, paper, ours, verdict, file or command."""
    lines = (ROOT / "docs" / "claims.md").read_text("utf-8").splitlines()
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return [cells for cells in found if len(cells) == 5 and cells[0] != "claim" and set(cells[0]) != {"-"}]


def commands() -> list[str]:
    return sorted({each for row in rows() for each in re.findall(r"`(motet [^`]+)`", row[4])})


def numbers(value: Any) -> Iterator[float]:
    """The results in a JSON, as they are and in percent; not its curves, in which any number may be found."""
    if isinstance(value, dict):
        for key, each in value.items():
            if key not in ("setting", "machine", "paper", "seconds") and not key.startswith("curve."):
                yield from numbers(each)
    elif isinstance(value, list):
        for each in value:
            yield from numbers(each)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from (value, 100 * value)


def of_curves(record: Any) -> Iterator[float]:
    """The mean, the second and the last value of every curve in a JSON, as they are and in percent."""
    curves = [
        [value for value in curve or () if value is not None]
        for case in record["cases"].values()
        for name, figure in case["figures"].items()
        if name.startswith("curve.")
        for curve in figure["per_seed"]
    ]
    for curve in curves:
        for value in (sum(curve) / len(curve), *curve[1:2], curve[-1]) if curve else ():
            yield from (value, 100 * value)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_results_that_are_named_are_there(page: Path) -> None:
    named = set(re.findall(r"results/([\w.+-]+\.json)", page.read_text("utf-8"))) - {"throughput-NAME.json"}
    assert [name for name in sorted(named) if not (RESULTS / name).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_bench_files_that_are_named_are_there(page: Path) -> None:
    named = set(re.findall(r"benchmarks/([\w.+-]+\.(?:toml|py))", page.read_text("utf-8")))
    assert [name for name in sorted(named) if not (ROOT / "benchmarks" / name).exists()] == []


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:60])
def test_a_row_has_a_verdict_and_its_numbers_are_in_its_file(row: list[str]) -> None:
    _, _, ours, verdict, where = row
    assert verdict in VERDICTS
    if verdict in ("not yet run", "untestable here"):
        assert ours == NOTHING and (verdict == "untestable here" or "`motet " in where)
        return
    (name,) = re.findall(r"`([\w.+-]+\.json)`", where)
    record = json.loads((RESULTS / name).read_text("utf-8"))
    recorded = [*numbers(record), *(of_curves(record) if "(curves)" in where else ())]
    said = re.sub(r"\([^)]*\)", "", ours)
    values = re.findall(r"-?\d+(?:\.\d+)?", said)
    assert values
    for value in values:
        half = 0.5001 * 10 ** -len(value.partition(".")[2])
        assert any(abs(number - float(value)) <= half for number in recorded), f"{value} is not in {name}"


def as_toml(text: str) -> Any:
    """A number or a truth value, or the text itself."""
    return tomllib.loads(f"x = {text}")["x"] if re.fullmatch(r"[\d.]+|true|false", text) else text


@pytest.mark.parametrize("command", [c for c in commands() if c.startswith("motet run ")])
def test_a_run_that_is_named_can_be_asked_for(command: str) -> None:
    words, layers, metrics = shlex.split(command)[2:], [], []
    for option, value in zip(words[::2], words[1::2], strict=True):
        if option == "--set":
            key, _, text = value.partition("=")
            layers.append(nest({key: as_toml(text)}))
        elif option == "--metrics":
            metrics.append(value)
        else:
            layers.append({option.removeprefix("--").replace("-", "_"): as_toml(value)})
    asked = merge(*(one_layer([layer], command) for layer in layers))
    if "weights" in asked.get("net", {}):
        del asked["net"]["weights"]  # a file that another run writes
    experiment = settle(resolve(asked))
    for term in parse(experiment.method):
        checked(entry_of(term.name).options, term.options, command)
    assert net_term(experiment.net.name).name in NETS
    require_metrics(metrics)


def test_bench_files_say_control_seeds_rule_and_hours_before_they_run() -> None:
    """Those without results yet: what is recorded already stays as it was asked."""
    for path in sorted((ROOT / "benchmarks").glob("*.toml")):
        head = path.read_text("utf-8").partition("\nname = ")[0]
        if not head.startswith(("# Question", "# The first of two steps")):
            assert (RESULTS / f"{path.stem}.json").exists(), f"{path.name} neither has results nor says what it asks"
            continue
        for word in ("Control", "eed", "hours on two cores", f"motet bench benchmarks/{path.name} "):
            assert word in head, f"{path.name} does not say {word!r} before its name"
        assert any(word in head for word in ("Reproduced", "Good enough", "direction only"))
