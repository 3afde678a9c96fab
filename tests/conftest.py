"""What all tests share."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import settings
from made_exports import tiny
from vector_problem import exactly

import motet
from motet.data import locations

torch.set_num_threads(1)
settings.register_profile("motet", deadline=None, max_examples=50)
settings.load_profile("motet")

LONGEST = ("test_sites.py", "test_ray.py", "test_check_method.py", "test_docs.py", "test_surroundings.py")
"""Files that begin first: a worker that begins one of them last leaves the other with nothing to do."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first; the others stay in their order."""
    items.sort(key=lambda item: item.path.name not in LONGEST)


@pytest.fixture(scope="session", autouse=True)
def no_memory_of_the_users(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What tests run as the user's code is not remembered as such."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(autouse=True)
def same_random_numbers() -> None:
    """A test that draws from torch's or numpy's common generator draws the same numbers every time."""
    torch.manual_seed(0)
    np.random.seed(0)


@pytest.fixture(autouse=True)
def path_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a user's file is imported from stays in Python's path: not beyond the test that did it."""
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.fixture(autouse=True)
def no_width_of_the_testers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are as wide as they are without a terminal, also in the processes of pytest-xdist, which set a width."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data that this machine may have, outside the repository."""
    folder = Path(os.environ.get("MOTET_DATA") or Path(__file__).parents[2] / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no data folder at {folder} (set MOTET_DATA)")
    return folder


@pytest.fixture
def exact() -> Iterator[None]:
    """Float64, and batches in stored order: how the figures of tests/vectors were made."""
    with exactly():
        yield


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of MOTET_DATA, on a machine that has no data elsewhere."""
    monkeypatch.setenv("MOTET_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(locations, "ROOTS", ())
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.fixture(scope="module")
def fedrod() -> motet.Result:
    """A run with a personal head, whose data the tests may lose."""
    return tiny("fedrod")


@pytest.fixture
def exported(fedrod: motet.Result, tmp_path: Path) -> Path:
    """The generic model and that of client 0."""
    fedrod.export(tmp_path / "ex", [0], generic=True)
    return tmp_path / "ex"
