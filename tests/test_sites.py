"""Real sites in processes on loopback, in a network namespace that has no other network."""

import pytest
from ray_namespace import pytest_inside, why_not

needs_flower = pytest.mark.skipif(why_not("flwr", "sites") is not None, reason=str(why_not("flwr", "sites")))


@needs_flower
def test_one_method_at_three_sites() -> None:
    pytest_inside("sites_inside.py")


@needs_flower
@pytest.mark.slow
def test_every_method_and_every_stranger() -> None:
    pytest_inside("sites_inside.py", "-m", "slow", timeout=5400)


@needs_flower
@pytest.mark.slow
def test_every_fault() -> None:
    pytest_inside("sites_faults_inside.py", "-m", "slow", timeout=5400)
