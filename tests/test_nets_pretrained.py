"""First weights from a file: they are the net's, and whatever does not fit is one sentence."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from inputs import input_of
from safetensors.torch import load_file, save_file
from torch import Tensor

import motet
from motet.cli import main
from motet.errors import MotetError
from motet.nets import Net, build_net
from motet.nets.pretrained import put_weights, weights_sha256
from motet.runs.record import Record
from motet.runs.run import resume, run
from motet.testing.checks import _StopsAfter
from motet.testing.twin import last_states, play, tiny
from motet.training.randomness import seeded

State = dict[str, Tensor]


def resnet(seed: int, classes: int = 10, name: str = "resnet8") -> Net:
    with seeded(seed, "net"):
        return build_net(name, input_of(1, 8, 8), classes)


def saved(net: Net, path: Path, change: Callable[[State], None] = lambda state: None) -> str:
    state = {name: value.clone() for name, value in net.state_dict().items()}
    change(state)
    save_file(state, path)
    return str(path)


def test_every_weight_and_statistic_is_taken(tmp_path: Path) -> None:
    there, here = resnet(1), resnet(2)
    there(torch.randn(8, 1, 8, 8))  # moves statistics
    put_weights(here, saved(there, tmp_path / "w.safetensors"), head=True)
    for name, value in there.state_dict().items():
        assert torch.equal(here.state_dict()[name], value), name


def test_a_head_for_other_classes_stays_random(tmp_path: Path) -> None:
    there, here, before = resnet(1, classes=7), resnet(2), resnet(2).state_dict()
    file = saved(there, tmp_path / "w.safetensors")
    with pytest.raises(
        MotetError, match=r"has 'fc.weight' of shape \(7, 64\); accepted: \(10, 64\), or net.weights_head"
    ):
        put_weights(here, file, head=True)
    put_weights(here, file, head=False)
    for name, value in here.state_dict().items():
        assert torch.equal(value, before[name] if name.startswith("fc.") else there.state_dict()[name]), name
    put_weights(resnet(3), saved(there, tmp_path / "body.safetensors", lambda s: [s.pop("fc.weight")]), head=False)


def test_a_file_of_torchvisions_resnet18_fits(tmp_path: Path) -> None:
    """Its stem has no stage, and older files count no batches."""
    there = resnet(1, name="resnet18(stem=large)")
    names = {}

    def as_torchvision(state: State) -> None:
        for name in list(state):
            theirs = name.replace("layer1.conv1.", "conv1.", 1).replace("layer1.bn1.", "bn1.", 1)
            names[theirs] = names.get(theirs, 0) + 1
            value = state.pop(name)
            if not name.endswith("num_batches_tracked"):
                state[theirs] = value

    file = saved(there, tmp_path / "w.safetensors", as_torchvision)
    assert {"conv1.weight", "bn1.running_var", "layer1.0.conv1.weight", "layer2.0.downsample.1.bias", "fc.bias"} <= {
        *names
    }
    here = resnet(2, name="resnet18(stem=large)")
    put_weights(here, file, head=True)
    assert torch.equal(here.layer1.conv1.weight, there.layer1.conv1.weight)
    assert torch.equal(here.layer4.get_submodule("1.conv2").weight, there.layer4.get_submodule("1.conv2").weight)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda s: s.pop("layer1.bn1.bias"),
            "has no 'layer1.bn1.bias'; accepted: a file with every weight of the net$",
        ),
        (lambda s: s.pop("fc.bias"), "has no 'fc.bias'; accepted: .*, or net.weights_head = false"),
        (lambda s: s.update(extra=torch.zeros(1)), "has 'extra', which the net has not; accepted: the weights of this"),
        (lambda s: s["fc.bias"].fill_(float("nan")), "has NaN or infinity in 'fc.bias'; accepted: finite numbers"),
        (lambda s: s.update({"fc.bias": torch.zeros(3)}), r"has 'fc.bias' of shape \(3,\); accepted: \(10,\)"),
    ],
)
def test_what_does_not_fit(change: Callable[[State], None], sentence: str, tmp_path: Path) -> None:
    file = saved(resnet(1), tmp_path / "w.safetensors", change)
    with pytest.raises(MotetError, match=rf"^net.weights .*w.safetensors {sentence}"):
        put_weights(resnet(2), file, head=True)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "cannot be read"),
        (b"PK\x03\x04 a pickle in a zip", "cannot be read"),
        (b"\xff" * 64, "cannot be read"),
    ],
)
def test_files_that_are_none(content: bytes, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    path.write_bytes(content)
    with pytest.raises(MotetError, match=rf"{sentence} \(.*\); accepted: a .safetensors file"):
        put_weights(resnet(2), str(path), head=True)
    with pytest.raises(MotetError, match=r"there is no such file; accepted: a \.safetensors file"):
        put_weights(resnet(2), str(tmp_path / "none.safetensors"), head=True)
    with pytest.raises(MotetError, match="is a folder; accepted: a file"):
        put_weights(resnet(2), str(tmp_path), head=True)


def test_a_run_begins_there_and_notes_the_file(tmp_path: Path) -> None:
    file = saved(resnet(1), tmp_path / "w.safetensors")
    sets = {"net.weights": file, "local.steps": 1, "local.lr": 1e-9, "local.momentum": 0.0, "engine.name": "inline"}
    result = motet.run(net="resnet8", clients=4, rounds=1, subset=0.2, out=tmp_path / "run", set=sets)
    after, first = load_file(tmp_path / "run" / "weights.safetensors"), load_file(file)
    assert torch.allclose(after["layer1.conv1.weight"], first["layer1.conv1.weight"], atol=1e-6)
    noted = Record(result.folder).experiment.net
    assert (noted.weights, noted.weights_sha256) == (file, weights_sha256(file))
    Path(file).unlink()
    (tmp_path / "run").rename(tmp_path / "elsewhere")
    assert motet.load(tmp_path / "elsewhere").personal_model(0) is not None, "the folder has all that it needs"
    saved(resnet(2), tmp_path / "elsewhere" / "first-weights.safetensors")
    with pytest.raises(MotetError, match=r"has another SHA-256 than net.weights_sha256, .*; accepted: the file as"):
        motet.load(tmp_path / "elsewhere").generic_model()


def test_a_run_goes_on_without_the_file(tmp_path: Path) -> None:
    file = saved(resnet(1, name="mlp"), tmp_path / "w.safetensors")
    asked = tiny("fedper", net={"name": "mlp", "weights": file})
    whole = run(asked, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(asked, tmp_path / "stopped", _StopsAfter(1))
    Path(file).unlink()
    assert last_states(whole) == last_states(resume(tmp_path / "stopped"))


def test_the_model_of_a_run_is_the_first_of_another(tmp_path: Path) -> None:
    first = motet.run(net="resnet8", clients=4, rounds=1, subset=0.1, out=tmp_path / "first")
    here = resnet(5)
    put_weights(here, str(first.folder / "weights.safetensors"), head=True)
    there = first.generic_model().model.state_dict()
    assert all(torch.allclose(here.state_dict()[name].float(), value.float(), atol=1) for name, value in there.items())
    assert torch.equal(here.layer1.bn1.running_mean, there["layer1.bn1.running_mean"])


def test_models_of_their_own_stay_independent(tmp_path: Path) -> None:
    """SuPerFed's local models, if fresh, begin at random weights, whatever the global model begins at."""
    file = saved(resnet(1, name="mlp"), tmp_path / "w.safetensors")
    played = play(
        tiny("superfed-mm(start=0, local_init=fresh)", net={"name": "mlp", "weights": file}, local={"lr": 1e-9})
    )
    method = played.assembly.method
    i = played.assembly.federation.training_ids[0]
    w_l, w_g = played.engine.private(i).get("superfed.w_l"), played.server["w"]
    assert isinstance(w_l, Tensor) and isinstance(w_g, Tensor)
    where = method.layout.places["fc1.linear.weight"].where  # type: ignore[attr-defined]
    start = method.layout.trainable.start  # type: ignore[attr-defined]
    local = w_l[where.start - start : where.stop - start]
    assert not torch.allclose(local, w_g[where], atol=1e-2)


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "--net", "resnet8", "--clients", "4", "--rounds", "1", "--out", str(tmp_path / "never")]
    assert main([*words, "--set", f"net.weights={tmp_path}/none.safetensors"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "there is no such file" in said
    assert not (tmp_path / "never").exists()
