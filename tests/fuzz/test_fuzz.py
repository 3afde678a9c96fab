"""Generated malformed inputs: each is refused in one sentence, accepted rightly, or a failure of Motet's.

The short version is part of every test run; the long one is `pytest -m slow tests/fuzz`.
"""

import random
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from fuzz_commands import cases_at_limits, command_case
from fuzz_config import config_case
from fuzz_data import data_case
from fuzz_judge import Case, Tally, fingerprint_of, judge
from fuzz_python import python_case
from fuzz_studies import study_case
from fuzz_tables import table_case
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from motet.config.experiment import parse_set
from motet.config.names import parse
from motet.config.short_names import choose
from motet.errors import MOST, MotetError, one_sentence

AREAS: dict[str, Callable[[random.Random, Path], Case]] = {
    "config": config_case,
    "commands": command_case,
    "data": data_case,
    "python": python_case,
    "studies": study_case,
    "tables": table_case,
}


def tried(area: str, seed: int, count: int, folder: Path, monkeypatch: pytest.MonkeyPatch, tally: Tally) -> None:
    """So many inputs of an area; nothing outside of their own folder is touched."""
    inside, outside = folder / "inside", folder / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "precious.npz").write_bytes(b"precious")
    monkeypatch.chdir(inside)
    before, known = fingerprint_of(outside), len(tally.failures)
    rng = random.Random(f"{area} {seed}")
    for _ in range(count):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            judge(AREAS[area](rng, inside), tally)
    assert fingerprint_of(outside) == before
    assert not tally.failures[known:], "\n\n".join(tally.failures[known:][:20])


@pytest.mark.parametrize(
    ("area", "count"), [("config", 60), ("commands", 25), ("data", 50), ("python", 30), ("tables", 50), ("studies", 40)]
)
def test_a_few_inputs(area: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tally: Tally) -> None:
    tried(area, 0, count, tmp_path, monkeypatch, tally)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
@pytest.mark.parametrize(
    ("area", "count"),
    [("config", 150), ("commands", 75), ("data", 100), ("python", 75), ("tables", 200), ("studies", 200)],
)
def test_many_inputs(
    area: str, count: int, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tally: Tally
) -> None:
    tried(area, seed, count, tmp_path, monkeypatch, tally)


@pytest.mark.slow
def test_every_option_of_every_method_at_its_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tally: Tally
) -> None:
    monkeypatch.chdir(tmp_path)
    known = len(tally.failures)
    for case in cases_at_limits(tmp_path):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            judge(case, tally)
    assert not tally.failures[known:], "\n\n".join(tally.failures[known:][:20])


# ------------------------------------------------------------ text of any kind

ANY = settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])


@ANY
@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")))
def test_any_bytes_as_a_file(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "e.toml"
    file.write_bytes(data)
    _refused_or_fine(lambda: choose({}, file))


@ANY
@given(st.text(max_size=100))
def test_any_text_as_a_setting_and_a_method(text: str) -> None:
    _refused_or_fine(lambda: choose({}, None, parse_set(text)))
    _refused_or_fine(lambda: parse(text))


@ANY
@given(st.text(max_size=3000))
def test_any_text_becomes_one_short_sentence(text: str) -> None:
    said = one_sentence(f"{text}; accepted: this")
    assert len(said) <= MOST and "\n" not in said and "\x1b" not in said
    assert said.endswith("accepted: this")


def _refused_or_fine(attempt: Callable[[], object]) -> None:
    try:
        attempt()
    except MotetError as error:
        assert 0 < len(str(error)) < 600 and "\n" not in str(error)
