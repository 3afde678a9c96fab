"""The engine of a Ray cluster, on loopback in a network namespace; `ray_inside.py` has the tests that run there."""

import pytest
from ray_namespace import pytest_inside, why_not

from motet.config.sections import EngineSettings
from motet.engines.ray_cluster import Cluster, import_ray
from motet.errors import MotetError
from motet.server.assembly import assemble
from motet.testing.twin import tiny

needs_ray = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


@needs_ray
def test_six_methods_have_the_bytes_of_inline_in_a_cluster() -> None:
    pytest_inside("ray_inside.py")


@needs_ray
@pytest.mark.slow
def test_every_method_and_every_death_in_a_cluster() -> None:
    pytest_inside("ray_inside.py", "-m", "slow", timeout=3600)


@needs_ray
@pytest.mark.slow
def test_a_node_may_die() -> None:
    pytest_inside("ray_nodes.py", timeout=900)


def test_without_ray_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)  # what Python does for a module that is not there
    with pytest.raises(MotetError, match=r"^engine.name is 'ray', but Ray cannot be imported .* 'motet\[ray\]'"):
        import_ray()
    with pytest.raises(MotetError, match=r"^engine.name is 'ray', but Ray cannot be imported"):
        assemble(tiny("fedavg", engine={"name": "ray"}))


def test_a_client_of_rays_own_protocol_is_refused() -> None:
    with pytest.raises(MotetError, match=r"^engine.ray_address is 'ray://here:1'.* accepted: HOST:PORT of the head"):
        Cluster("ray://here:1")


@pytest.mark.parametrize("wrong", [{"states": "here"}, {"gpus": -1.0}, {"workers": -1}])
def test_wrong_settings_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(MotetError, match=f"engine.{next(iter(wrong))}"):
        tiny("fedavg", engine={"name": "ray"} | wrong)
    assert EngineSettings().states == "auto"
