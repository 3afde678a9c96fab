"""What all tests share."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("motet", deadline=None, max_examples=50)
settings.load_profile("motet")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data that this machine may have, outside the repository."""
    folder = Path(os.environ.get("MOTET_DATA") or Path(__file__).parents[2] / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no data folder at {folder} (set MOTET_DATA)")
    return folder
