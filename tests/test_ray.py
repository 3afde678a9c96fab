"""The engine of a Ray cluster, on loopback in a network namespace; `ray_inside.py` has the tests that run there."""

import socket
from functools import partial
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from ray_namespace import pytest_inside, why_not
from torch import Tensor

from motet.config.data_section import DataSettings
from motet.config.sections import EngineSettings
from motet.data import build
from motet.data.federation import SharedFederation
from motet.engines.engine import each_alone
from motet.engines.ray_actor import Order, TensorForm, _BuildUnpickler, bytes_of, packed_build, tensor_bytes
from motet.engines.ray_cluster import Cluster, import_ray
from motet.engines.registry import EngineRequest
from motet.engines.registry import ray as ray_engine
from motet.errors import Diverged, MotetError
from motet.messages.message import State, encode
from motet.messages.task import Task
from motet.server.assembly import _read_there, assemble, net_of
from motet.server.workplace import Workplace
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


def test_an_address_where_nobody_answers_is_said_at_once() -> None:
    pytest.importorskip("ray")
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(
            MotetError, match=rf"^engine.ray_address is '{address}', where nobody answers .* accepted: "
        ):
            Cluster(address)


@pytest.mark.parametrize("wrong", [{"states": "here"}, {"gpus": -1.0}, {"workers": -1}])
def test_wrong_settings_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(MotetError, match=f"engine.{next(iter(wrong))}"):
        tiny("fedavg", engine={"name": "ray"} | wrong)
    assert EngineSettings().states == "auto"


def test_a_device_with_gpus_asks_for_one_per_worker_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    monkeypatch.setattr("motet.engines.ray.Ray", lambda *_, gpus, **__: asked.append(gpus))
    here = assemble(tiny("fedavg")).engine
    for device, gpus in (("cpu", 0.0), ("cuda", 0.0), ("cuda", 0.25), ("cpu", 0.5)):
        settings = tiny("fedavg", engine={"name": "ray", "gpus": gpus}).engine
        ray_engine(EngineRequest(settings, device, here.work, lambda: here.work, {}, each_alone, None))
    assert asked == [0.0, 1.0, 0.25, 0.5]


class OnMeta(Workplace):
    """A workplace that only tells where the tensors are that a method would be given."""

    def client(self, task: Task, private: State) -> Any:
        self.seen = {name: value.device.type for name, value in private.items() if isinstance(value, Tensor)}
        raise Diverged("seen")


def test_private_states_come_to_the_device_of_the_experiment() -> None:
    """Without a GPU: on torch's meta device, which holds no numbers."""
    here = assemble(tiny("scaffold")).workplace
    experiment = here.experiment.model_copy(update={"device": "meta"})
    there = OnMeta(experiment, here.method, here.generic_net, here.holdings, here.facts)
    order = Order(("train", 0, 1), encode({"w": torch.ones(3)}), {}, 0)
    private = order.private_state([bytes_of({"c_i": torch.ones(4), "half": torch.ones(2).bfloat16(), "n": 3})])
    with pytest.raises(Diverged):
        there.perform(order.task([]), private)
    assert there.seen == {"c_i": "meta", "half": "meta"}


def test_weights_and_buffers_of_a_net_are_on_the_device_of_the_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU: on torch's meta device, which cannot pass the check that a device computes."""
    monkeypatch.setattr("motet.server.assembly.refuse_device", lambda device: None)
    asked = tiny("fedavg", net={"name": f"{Path(__file__).parent / 'batchnorm_net.py'}:build"})
    net = net_of(asked.model_copy(update={"device": "meta"}), assemble(asked).federation_facts)
    assert {tensor.device.type for tensor in net.parameters()} == {"meta"}
    assert [tensor.device.type for tensor in net.buffers()] == ["meta"] * len(list(net.buffers())) != []


def test_what_goes_to_a_cluster_and_back_is_the_same_to_the_bit() -> None:
    state: State = {
        "a": torch.randn(7, 3).bfloat16(),
        "b": torch.arange(5),
        "none": torch.empty(0, 4),
        "n": 3,
        "t": True,
    }
    again = Order(("train", 4, 2), encode({}), {}, 0).private_state([bytes_of(state)])
    assert encode(again) == encode(state)
    large = {name: tensor for name, tensor in state.items() if isinstance(tensor, Tensor) and len(tensor)}
    small = {name: value for name, value in state.items() if name not in large}
    objects = [tensor_bytes(tensor) for tensor in large.values()]
    forms = {name: (at, TensorForm.of(tensor)) for at, (name, tensor) in enumerate(large.items())}
    task = Order(("train", 4, 2), encode(small), forms, None).task(objects)
    assert (task.kind, task.client_id, task.round) == ("train", 4, 2)
    assert encode(task.build_message()) == encode(state)


def test_a_worker_that_reads_other_samples_than_the_driver_says_so(tmp_path: Path) -> None:
    file = tmp_path / "mine.npz"
    x, y = torch.randn(200, 4).numpy(), (torch.arange(200) % 2).numpy()
    numpy.savez(file, x=x, y=y)
    asked = DataSettings.model_validate({"name": str(file), "clients": 4, "partition": "iid"})
    right = build(asked, 0).content_hash
    assert _read_there(asked, 0, right).content_hash == right
    numpy.savez(file, x=x + 1, y=y)
    with pytest.raises(MotetError, match=r"another content on a node .* accepted: the same files .* driver"):
        _read_there(asked, 0, right)


def test_samples_travel_apart_from_the_build_and_are_mapped() -> None:
    shared = SharedFederation.of(assemble(tiny("fedavg", data={"subset": 1.0})).federation)
    packed, arrays = packed_build(partial(len, shared))  # any function with the federation in it
    assert sum(array.nbytes for array in arrays) > 50_000 > len(packed)
    there = _BuildUnpickler(packed, arrays).load().args[0]
    assert there.blocks.stored.x.data_ptr() in {array.ctypes.data for array in arrays}  # no copy
    assert torch.equal(there.blocks.stored.x, shared.blocks.stored.x)
