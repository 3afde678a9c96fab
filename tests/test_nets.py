"""The networks: their sizes, their stages, and what they refuse."""

import pickle
from collections import OrderedDict

import pytest
import torch
from inputs import input_of
from torch import nn

from motet.config.data_section import SampleKind
from motet.data import Input
from motet.errors import MotetError
from motet.nets import NETS, Net, build_net, describe_nets
from motet.training.flat_weights import Layout, parameter_count
from motet.training.randomness import seeded

SMALL = {
    **dict.fromkeys(("logistic", "mlp", "twonn", "fedrod-conv-1m"), input_of(1, 8, 8)),
    **dict.fromkeys(("cnn4", "fedrod-conv", "fedrod-dropout", "fedrep-conv"), input_of(3, 20, 17)),
    **{"fedrod-conv-small": input_of(3, 19, 22), "twocnn": input_of(3, 9, 12)},
    **dict.fromkeys(("resnet8", "resnet9", "resnet18", "resnet20", "mobilenet"), input_of(3, 8, 9)),
    "efficientnet-lite0": input_of(3, 8, 9),
    **{"vgg9": input_of(3, 16, 33), "vgg11": input_of(1, 32, 65), "har-cnn": input_of(9, 30)},
    **dict.fromkeys(("stacked-lstm", "fasttext"), Input("tokens", (7,), 11)),
}
SPLITS = [(name, stage) for name in NETS for stage in build_net(name, SMALL[name], 10).stage_names[1:]]


def some(input: Input, batch: int = 4) -> torch.Tensor:
    """Samples of which no two are alike."""
    x = torch.randn(batch, *input.shape)
    if input.kind == "tokens":
        return torch.randint(input.vocabulary, (batch, *input.shape))
    return x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x


@pytest.mark.parametrize(
    ("name", "shape", "classes", "parameters"),
    [
        ("cnn4", (1, 28, 28), 10, 582_026),
        ("cnn4", (3, 32, 32), 10, 878_538),
        ("fedrod-conv", (1, 28, 28), 10, 103_346 + 500),
        ("mlp", (1, 8, 8), 10, 64 * 128 + 128 + 128 * 64 + 64 + 64 * 10 + 10),
        ("mlp(hidden=200x200)", (1, 28, 28), 10, 199_210),  # McMahan et al.'s 2NN
        ("logistic", (30,), 2, 62),
        ("fedrod-dropout", (1, 28, 28), 10, 21_840),
        ("fedrep-conv", (3, 32, 32), 10, 307_842),
        ("resnet8", (3, 32, 32), 10, 75_290),
        ("resnet20", (3, 32, 32), 10, 269_722),
        ("resnet20(norm=group)", (3, 32, 32), 10, 269_722),
        ("resnet9", (3, 28, 28), 10, 5_031_744),
        ("resnet18", (3, 32, 32), 10, 11_173_962),
        ("resnet18", (3, 64, 64), 1000, 11_689_512),  # as torchvision's
        ("resnet18(stem=small)", (3, 64, 64), 10, 11_173_962),
        ("vgg9", (3, 28, 28), 10, 1_705_392),
        ("vgg11", (3, 32, 32), 10, 9_231_114),
        ("vgg11(norm=none)", (3, 32, 32), 10, 9_231_114 - 2 * (64 + 128 + 2 * 256 + 4 * 512)),
        ("mobilenet", (3, 28, 28), 10, 315_840),
        ("efficientnet-lite0", (3, 64, 64), 1000, 4_652_008),  # as published
        ("har-cnn", (9, 128), 6, 2_253_958),
    ],
)
def test_parameter_counts(name: str, shape: tuple[int, ...], classes: int, parameters: int) -> None:
    assert parameter_count(build_net(name, input_of(*shape), classes)) == parameters


@pytest.mark.parametrize(
    ("name", "vocabulary", "classes", "parameters"),
    [
        ("stacked-lstm", 80, 80, 819_920),
        ("stacked-lstm(bias=false)", 100, 100, 800 + 4 * 256 * (8 + 3 * 256) + 25_600),  # SuPerFed's
        ("stacked-lstm(embedding=4, hidden=6, layers=1)", 9, 3, 9 * 4 + 24 * (4 + 6 + 2) + 7 * 3),
        ("fasttext", 1000, 4, 32_000 + 32 * 33 + 33 * 4),
    ],
)
def test_parameter_counts_of_nets_for_text(name: str, vocabulary: int, classes: int, parameters: int) -> None:
    assert parameter_count(build_net(name, Input("tokens", (12,), vocabulary), classes)) == parameters


@pytest.mark.parametrize(
    ("name", "shape", "extractor", "features"),
    [
        ("fedrod-conv", (1, 28, 28), 103_346, (50,)),
        ("fedrod-conv-small", (3, 32, 32), 121_920, (64,)),
        ("fedrod-conv-1m", (3, 32, 32), 1_021_056, (64,)),
        ("har-cnn", (9, 128), 2_624 + 18_496, (64, 1, 26)),  # DBE's K = 1664
        ("resnet18", (3, 64, 64), 11_176_512, (512,)),
    ],
)
def test_extractors(name: str, shape: tuple[int, ...], extractor: int, features: tuple[int, ...]) -> None:
    net = build_net(name, input_of(*shape), 10)
    assert sum(p.numel() for n, p in net.named_parameters() if n.startswith(net.body_names())) == extractor
    assert net.feature_shape() == features


@pytest.mark.parametrize(
    ("name", "shape"),
    [("fedrod-conv", (1, 28, 28)), ("fedrod-conv-small", (3, 32, 32)), ("fedrod-conv-1m", (3, 32, 32))],
)
def test_fedrod_weights_are_normal_and_biases_zero_and_the_head_has_none(name: str, shape: tuple[int, ...]) -> None:
    with seeded(0, "init"):
        net = build_net(name, input_of(*shape), 10)
    assert net.fc2.bias is None
    weights = net.state_dict()
    for name, w in weights.items():
        if name.endswith("bias"):
            assert w.abs().max() == 0
        else:
            z = w.flatten() * (w[0].numel() / 2) ** 0.5
            assert z.std() == pytest.approx(1, abs=0.1)
            assert z.abs().max() > 2.5  # a uniform distribution of this spread ends at 1.73


@pytest.mark.parametrize(("split", "shape"), [("conv2", (32, 30, 30)), ("fc1", (64, 13, 13)), ("fc2", (512,))])
def test_cnn4_feature_maps_are_those_of_dbe_table_1(split: str, shape: tuple[int, ...]) -> None:
    assert build_net("cnn4", input_of(3, 64, 64), 200, split).feature_shape() == shape


@pytest.mark.parametrize(("name", "split"), SPLITS)
def test_head_of_body_is_the_net(name: str, split: str) -> None:
    net, x = build_net(name, SMALL[name], 7, split).eval(), some(SMALL[name])
    z = net.body(x)
    assert tuple(z.shape[1:]) == net.feature_shape()
    assert torch.equal(net.head(z), net(x))
    assert net(x).shape == (4, 7)
    stages = {name.split(".")[0] for name, _ in net.named_parameters() if name.startswith(net.head_names())}
    assert stages == set(net.stage_names[net.stage_names.index(split) :])


@pytest.mark.parametrize("name", NETS)
def test_weights_of_a_flat_vector_are_those_that_a_net_computes_and_learns_with(name: str) -> None:
    net, x = build_net(name, SMALL[name], 3).double().eval(), some(SMALL[name])
    x = x.double() if x.is_floating_point() else x  # in single precision rounding decides which pixel a pool takes
    twin = net.another().double().eval()
    twin.load_state_dict(net.state_dict())
    layout = Layout(net)
    w = layout.flatten(net).double()
    layout.bind(net, w, g := torch.zeros_like(w))
    torch.testing.assert_close(net(x), twin(x), rtol=1e-9, atol=1e-9)
    with net.collecting():
        net(x).square().sum().backward()
    twin(x).square().sum().backward()
    for each, p in twin.named_parameters():
        torch.testing.assert_close(layout.places[each].view(g), p.grad, rtol=0, atol=float(p.grad.abs().max()) * 1e-6)
    before = net(x).detach()
    w[layout.trainable] *= 1.5  # a step in the vector is one in the net, also where layers keep lists of their weights
    assert not torch.allclose(net(x), before, rtol=1e-3, atol=1e-4)


def test_switching_to_training_reaches_stages_that_somebody_else_switched() -> None:
    net = build_net("vgg11", SMALL["vgg11"], 3).train()
    first = getattr(net, net.stage_names[0])
    first.eval()
    assert all(module.training for module in net.train().modules())
    nn.Sequential(net).eval()  # as part of another module
    assert not any(module.training for module in net.modules())
    assert all(module.training for module in net.train().modules())


def test_bound_channels_last_weights_give_the_same_logits() -> None:
    net = build_net("cnn4", input_of(3, 32, 32), 10)
    x = torch.randn(4, 3, 32, 32)
    before = net(x)
    layout = Layout(net)
    layout.bind(net, layout.flatten(net))
    assert net.conv2.conv.weight.is_contiguous(memory_format=torch.channels_last)
    assert torch.allclose(net(x.contiguous(memory_format=torch.channels_last)), before, atol=1e-5)


def test_pooling_first_equals_relu_first() -> None:
    stage = build_net("cnn4", input_of(1, 28, 28), 10).conv1
    relu_first = nn.Sequential(stage.conv, nn.ReLU(), stage.pool)
    x = torch.randn(8, 1, 28, 28)
    results = []
    for f in (stage, relu_first):
        stage.zero_grad()
        y = f(x)
        y.square().sum().backward()
        results.append((y.detach(), stage.conv.weight.grad.clone()))
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])


def test_parameter_names_read_well() -> None:
    names = list(dict(build_net("cnn4", input_of(1, 28, 28), 10).named_parameters()))
    assert [n for n in names if n.endswith("weight")] == [
        "conv1.conv.weight",
        "conv2.conv.weight",
        "fc1.linear.weight",
        "fc2.weight",
    ]


def test_modules_beside_the_stages_take_no_part() -> None:
    net = build_net("mlp", input_of(64), 10)
    x = torch.randn(3, 64)
    before = net(x)
    net.add_module("personal_head", nn.Linear(64, 3))
    assert torch.equal(net(x), before)


def test_feature_shape_keeps_the_mode() -> None:
    net = build_net("mlp", input_of(64), 10).train()
    net.feature_shape()
    assert net.training and net.fc1.training


@pytest.mark.parametrize(
    ("name", "shape", "split", "words"),
    [
        ("cnn5", (1, 28, 28), None, ["unknown net 'cnn5'", "did you mean 'cnn4'", "fedrod-conv", "mlp"]),
        ("cnn4", (1, 28, 28), "conv1", ["net.head", "'conv1'", "conv2, fc1, fc2"]),
        ("cnn4", (1, 28, 28), "fc9", ["net.head", "'fc9'", "conv2, fc1, fc2"]),
        ("cnn4", (1, 8, 8), None, ["net 'cnn4' cannot take image (1, 8, 8)", "accepted: image", "at least 16"]),
        ("cnn4", (64,), None, ["net 'cnn4' cannot take vector (64,); accepted: image"]),
        ("twocnn", (9, 128), None, ["net 'twocnn' cannot take signal (9, 128); accepted: image"]),
        ("fedrod-conv", (1, 28, 15), None, ["'fedrod-conv'", "(1, 28, 15)", "at least 16"]),
        ("fedrod-conv-small", (3, 17, 32), None, ["'fedrod-conv-small'", "at least 18"]),
        ("vgg11", (1, 28, 28), None, ["'vgg11'", "at least 32"]),
        ("har-cnn", (9, 27), None, ["net 'har-cnn' cannot take signal (9, 27)", "time of at least 28"]),
        ("resnet8(norm=layer)", (3, 8, 8), None, ["net resnet8: norm is 'layer'; accepted: batch | group | none"]),
        ("resnet8(nrm=group)", (3, 8, 8), None, ["net resnet8: unknown field 'nrm': did you mean 'norm'?"]),
        ("cnn4(norm=group)", (3, 32, 32), None, ["net cnn4: unknown field 'norm': accepted: none"]),
        ("mlp(hidden=64x)", (8,), None, ["net mlp: hidden is '64x'; accepted: units of 1 to 20 hidden layers"]),
        ("mlp(hidden=0)", (8,), None, ["net mlp: hidden is 0; accepted: units"]),
        ("mlp+cnn4", (8,), None, ["net 'mlp+cnn4' cannot be read (it is a sum); accepted: a name with options"]),
        ("mlp(", (8,), None, ["net 'mlp(' cannot be read", "as resnet8(norm=group)"]),
    ],
)
def test_refusals(name: str, shape: tuple[int, ...], split: str | None, words: list[str]) -> None:
    with pytest.raises(MotetError) as caught:
        build_net(name, input_of(*shape), 10, split)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_classes_are_refused() -> None:
    with pytest.raises(MotetError, match="number of classes is 0; accepted: 1 or more"):
        build_net("mlp", input_of(64), 0)


@pytest.mark.parametrize("name", NETS)
def test_every_net_refuses_each_kind_that_it_does_not_declare(name: str) -> None:
    examples = {
        "image": Input("image", (3, 32, 32)),
        "signal": Input("signal", (9, 128)),
        "vector": Input("vector", (64,)),
    }
    examples["tokens"] = Input("tokens", (20,), 100)
    for kind, example in examples.items():
        if kind in NETS[name].accepts:
            assert build_net(name, example, 4).eval()(example.example(2)).shape == (2, 4)
        else:
            with pytest.raises(MotetError) as caught:
                build_net(name, example, 4)
            assert str(caught.value) == f"net {name!r} cannot take {example}; accepted: {', '.join(NETS[name].accepts)}"


@pytest.mark.parametrize(
    ("kind", "shape", "vocabulary", "words"),
    [
        ("image", (28, 28), 0, r"image input has shape \(28, 28\); accepted: \(channels, height, width\)"),
        ("vector", (), 0, r"vector input has shape \(\); accepted: \(features\)"),
        ("signal", (9, 0), 0, r"signal input has shape \(9, 0\); accepted: .* each at least 1"),
        ("tokens", (20,), 0, "tokens input has a vocabulary of 0; accepted: 1 or more for tokens"),
        ("vector", (20,), 5, "vector input has a vocabulary of 5; accepted: .* 0 otherwise"),
    ],
)
def test_an_input_that_is_none(kind: SampleKind, shape: tuple[int, ...], vocabulary: int, words: str) -> None:
    with pytest.raises(MotetError, match=words):
        Input(kind, shape, vocabulary)


@pytest.mark.parametrize(
    "name",
    ["head", "body", "forward", "split", "input", "another", "rows", "stage_names", "training", "a.b", "", "_modules"],
)
def test_a_stage_with_a_name_that_nets_use_is_refused(name: str) -> None:
    stages = OrderedDict([("fc1", nn.Linear(4, 4)), (name, nn.Linear(4, 4)), ("fc2", nn.Linear(4, 2))])
    with pytest.raises(MotetError, match=f"net has a stage named {name!r}, .*; accepted: any other name"):
        Net(stages, input_of(4))


def test_a_net_of_one_stage_has_no_head() -> None:
    with pytest.raises(MotetError, match=r"net has stages \['fc1'\]; accepted: at least two"):
        Net(OrderedDict(fc1=nn.Linear(4, 2)), input_of(4))


@pytest.mark.parametrize(
    ("layer", "expected"),
    [(nn.BatchNorm1d(4), True), (nn.SyncBatchNorm(4), True), (nn.LayerNorm(4), False), (nn.Dropout(), False)],
)
def test_whether_a_net_normalizes_batches(layer: nn.Module, expected: bool) -> None:
    deep = nn.Sequential(OrderedDict(linear=nn.Linear(4, 4), inner=nn.Sequential(layer)))
    net = Net(OrderedDict(fc1=deep, fc2=nn.Linear(4, 2)), input_of(4))
    assert net.normalizes_batches is expected
    assert not build_net("cnn4", input_of(1, 28, 28), 10).normalizes_batches


def test_features_of_tokens() -> None:
    class Mean(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.mean(1)

    stages = OrderedDict(words=nn.Embedding(50, 6), mean=Mean(), fc=nn.Linear(6, 3))
    assert Net(stages, Input("tokens", (20,), 50)).feature_shape() == (6,)
    assert Net(stages, Input("tokens", (20,), 50), "mean").feature_shape() == (20, 6)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        *((name, (1, 16, 16)) for name in ("cnn4", "fedrod-conv", "fedrod-dropout", "fedrep-conv", "vgg9")),
        *(("fedrod-conv-small", (1, 18, 18)), ("fedrod-conv-1m", (1, 8, 8)), ("vgg11", (1, 32, 32))),
        *((name, (1, 1, 1)) for name in ("resnet8", "resnet9", "resnet18", "resnet20", "mobilenet")),
        *(("efficientnet-lite0", (1, 1, 1)), ("har-cnn", (1, 28))),
    ],
)
def test_the_smallest_sample_works(name: str, shape: tuple[int, ...]) -> None:
    assert build_net(name, input_of(*shape), 10)(torch.zeros(2, *shape)).shape == (2, 10)


def test_stages_of_residual_nets_are_fedbasis_blocks() -> None:
    """The stem belongs to the first stage, the mean over positions to the last."""
    for name, stages in {"resnet18": 4, "resnet9": 4, "resnet20": 3}.items():
        net = build_net(name, input_of(3, 32, 32), 10)
        assert net.stage_names[:stages] == [f"layer{i + 1}" for i in range(stages)]
        first = [each for each, _ in net.named_parameters()][:2]
        assert first == ["layer1.conv1.weight", "layer1.bn1.weight"]
        assert len(net.body(torch.zeros(2, 3, 32, 32)).shape) == 2


@pytest.mark.parametrize(("name", "head"), [("resnet9", "fc1"), ("vgg9", "fc1"), ("mobilenet", "fc1"), ("vgg11", "fc")])
def test_heads_are_where_the_papers_have_them(name: str, head: str) -> None:
    assert build_net(name, SMALL[name], 10).split == head


def test_a_way_around_without_weights() -> None:
    block = build_net("resnet8", input_of(3, 8, 8), 10).layer2.get_submodule("0")
    x = torch.randn(2, 16, 8, 8)
    around = block.downsample(x)
    assert around.shape == (2, 32, 4, 4)
    assert torch.equal(around[:, 8:24], x[:, :, ::2, ::2]) and not around[:, :8].any() and not around[:, 24:].any()


def test_the_mean_of_words_leaves_padding_out() -> None:
    texts = Input("tokens", (4,), 9)
    net = build_net("fasttext", texts, 3)
    short, padded = torch.tensor([[5, 7, 5, 7]]), torch.tensor([[5, 7, 0, 0]])
    assert torch.allclose(net(short), net(padded), atol=1e-6)
    assert torch.equal(net.words(torch.zeros(1, 4, dtype=torch.int64)), torch.zeros(1, 32))
    all_count = build_net("fasttext(padding=-1)", texts, 3)
    assert not torch.allclose(all_count(short), all_count(padded), atol=1e-4)


def test_an_lstm_with_other_weights_in_its_place() -> None:
    net, x = build_net("stacked-lstm(hidden=4)", Input("tokens", (5,), 7), 3), torch.randint(7, (2, 5))
    others = {name: p.detach() * 2 for name, p in net.named_parameters()}
    twin = net.another()
    twin.load_state_dict(others)
    assert torch.equal(torch.func.functional_call(net, others, x), twin(x))


@pytest.mark.parametrize("kind", ["batch", "group"])
def test_groups_do_not_look_at_the_batch(kind: str) -> None:
    net, x = build_net(f"resnet8(norm={kind})", input_of(3, 8, 8), 3), some(input_of(3, 8, 8))
    alone = torch.cat([net(x[i : i + 2]) for i in (0, 2)])
    assert torch.allclose(net(x), alone, atol=1e-5) is (kind == "group")
    assert net.normalizes_batches is (kind == "batch")


def test_describe_nets() -> None:
    described = {net["name"]: net for net in describe_nets()}
    assert set(described) == set(NETS)
    assert described["cnn4"]["stages"] == ["conv1", "conv2", "fc1", "fc2"]
    assert (described["cnn4"]["accepts"], described["cnn4"]["example"]) == (["image"], "image (1, 28, 28)")
    assert described["cnn4"]["parameters"] == 582_026
    assert described["resnet18"]["options"] == {"norm": "batch", "stem": "auto"}
    assert (described["twonn"]["head"], described["cnn4"]["head"]) == ("fc3", "fc2")
    assert all(net["summary"] and net["paper"] for net in described.values())


# ------------------------------------------------------------ lists that are made once


def test_a_module_that_replaced_another_is_bound_too() -> None:
    net = build_net("mlp", input_of(1, 8, 8), 3)
    layout = Layout(net)
    w = layout.flatten(net)
    layout.bind(net, w)
    last = net.stage_names[-1]
    old = net.get_submodule(last)
    assert isinstance(old, nn.Linear)
    net.add_module(last, nn.Linear(old.in_features, old.out_features))
    layout.bind(net, w)
    assert all(torch.equal(layout.flatten(net), w) for _ in range(2))
    other = build_net("mlp", input_of(1, 8, 8), 3)
    layout.bind(other, w)
    assert torch.equal(layout.flatten(other), w)


def test_a_layout_goes_to_another_process_without_its_module() -> None:
    net = build_net("mlp", input_of(1, 8, 8), 3)
    layout = Layout(net)
    layout.bind(net, layout.flatten(net))
    assert b"Linear" not in pickle.dumps(layout) and pickle.loads(pickle.dumps(layout)) == layout


def test_a_module_with_a_way_of_its_own_to_switch_is_asked() -> None:
    class Still(nn.Linear):
        def train(self, mode: bool = True) -> "Still":
            return super().train(False)

    net = build_net("mlp", input_of(1, 8, 8), 3)
    net.add_module(net.stage_names[-1], Still(64, 3))
    plain, still = net.get_submodule(net.stage_names[0]), net.get_submodule(net.stage_names[-1])
    for mode in (False, True, False):
        net.train(mode)
        assert net.training is mode and not still.training
        assert all(module.training is mode for module in plain.modules())
