"""efficientnet-lite0: the smallest EfficientNet without squeeze and excitation; its ImageNet weights are public."""

import math
from collections import OrderedDict

from pydantic import Field
from torch import Tensor, nn

from motet.config.section import Section
from motet.data.input import Input
from motet.nets.blocks import pooled
from motet.nets.net import Net, NetEntry

STAGES = ((1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112), (4, 5, 2, 6, 192))
"""Of each stage: its blocks, side of their kernels, stride of the first, factor of expansion, and channels out."""
LAST = (1, 3, 1, 6, 320)
STEM, FEATURES = 32, 1280

Named = tuple[str, nn.Module]


class EfficientNetOptions(Section):
    """Options of `efficientnet-lite0(...)`."""

    dropout: float = Field(0.2, ge=0, lt=1, description="share of the features that are dropped in training")


class InvertedBlock(nn.Module):
    """An inverted residual block: 1x1 to more channels, a convolution within each channel, 1x1 to few channels.

    The input is added where it has the shape of the output.
    """

    def __init__(self, sides: tuple[int, int], channels_in: int, kernel: int, stride: int, expand: int, out: int):
        super().__init__()
        wide = channels_in * expand
        if expand > 1:
            self.expand_conv = nn.Conv2d(channels_in, wide, 1, bias=False)
            self.expand_bn = _norm(wide)
        self.expands = expand > 1
        self.pad, self.depthwise_conv = _same(sides, wide, wide, kernel, stride, groups=wide)
        self.depthwise_bn = _norm(wide)
        self.project_conv = nn.Conv2d(wide, out, 1, bias=False)
        self.project_bn = _norm(out)
        self.relu = nn.ReLU6(inplace=True)
        self.adds = stride == 1 and channels_in == out

    def forward(self, x: Tensor) -> Tensor:
        """Return what the three convolutions make of x, and x itself added where shapes agree."""
        y: Tensor = self.relu(self.expand_bn(self.expand_conv(x))) if self.expands else x
        y = self.relu(self.depthwise_bn(self.depthwise_conv(self.pad(y))))
        y = self.project_bn(self.project_conv(y))
        return x + y if self.adds else y


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


def _same(
    sides: tuple[int, int], channels_in: int, out: int, kernel: int, stride: int, groups: int = 1
) -> tuple[nn.Module, nn.Conv2d]:
    """Return zeros around the image and a convolution, so that an output has side / stride positions, rounded up.

    TensorFlow, where the weights come from, puts the larger half of the zeros below and to the right.
    """
    (top, bottom), (left, right) = (_zeros(side, kernel, stride) for side in sides)
    if (top, left) == (bottom, right):
        return nn.Identity(), nn.Conv2d(channels_in, out, kernel, stride, (top, left), groups=groups, bias=False)
    conv = nn.Conv2d(channels_in, out, kernel, stride, groups=groups, bias=False)
    return nn.ZeroPad2d((left, right, top, bottom)), conv


def _zeros(side: int, kernel: int, stride: int) -> tuple[int, int]:
    zeros = max((math.ceil(side / stride) - 1) * stride + kernel - side, 0)
    return zeros // 2, zeros - zeros // 2


def _smaller(sides: tuple[int, int], stride: int) -> tuple[int, int]:
    return math.ceil(sides[0] / stride), math.ceil(sides[1] / stride)


def build(input: Input, classes: int, split: str | None, dropout: float) -> Net:
    """Build the net: 4,652,008 parameters for 1000 classes, as published.

    The stem belongs to the first stage, and the last 1x1 convolution and the mean over positions to the last one.
    Stochastic depth, by which the published weights were trained, is left out.
    """
    sides, channels = _smaller((input.shape[1], input.shape[2]), 2), STEM
    pad, conv = _same((input.shape[1], input.shape[2]), input.shape[0], STEM, 3, 2)
    first: list[Named] = [("pad", pad), ("conv", conv), ("bn", _norm(STEM)), ("relu", nn.ReLU6(inplace=True))]
    stages: OrderedDict[str, nn.Module] = OrderedDict()
    for i, (blocks, kernel, stride, expand, out) in enumerate((*STAGES, LAST), 1):
        parts = first if i == 1 else []
        for b in range(blocks):
            step = 1 if b else stride
            parts.append((str(b), InvertedBlock(sides, channels, kernel, step, expand, out)))
            sides, channels = _smaller(sides, step), out
        if i == len(STAGES) + 1:
            parts += [("conv", nn.Conv2d(channels, FEATURES, 1, bias=False)), ("bn", _norm(FEATURES))]
            parts += [("relu", nn.ReLU6(inplace=True)), *pooled(), ("dropout", nn.Dropout(dropout))]
        stages[f"layer{i}"] = nn.Sequential(OrderedDict(parts))
    stages["fc"] = nn.Linear(FEATURES, classes)
    net = Net(stages, input, split)
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return net


def _elsewhere() -> dict[str, str]:
    """Return the prefixes of the weights in the files of efficientnet_lite_pytorch, and the prefixes here."""
    last = f"layer{len(STAGES) + 1}"
    found = {"_conv_stem.": "layer1.conv.", "_bn0.": "layer1.bn.", "_conv_head.": f"{last}.conv.", "_fc.": "fc."}
    found["_bn1."] = f"{last}.bn."
    count = 0
    for i, (blocks, _, _, expand, _) in enumerate((*STAGES, LAST), 1):
        for b in range(blocks):
            names = ("expand", "depthwise", "project")[0 if expand > 1 else 1 :]
            for name in names:
                norm = ("expand", "depthwise", "project").index(name)
                found[f"_blocks.{count}._{name}_conv."] = f"layer{i}.{b}.{name}_conv."
                found[f"_blocks.{count}._bn{norm}."] = f"layer{i}.{b}.{name}_bn."
            count += 1
    return found


EFFICIENTNET_LITE0 = NetEntry(
    name="efficientnet-lite0",
    summary="seven stages of inverted residual blocks, 1280 features; its ImageNet weights are public",
    paper="EfficientNet, Tan and Le, ICML 2019; its Lite variant, 2020",
    accepts=("image",),
    example=Input("image", (3, 64, 64)),
    build=build,
    options=EfficientNetOptions,
    elsewhere=_elsewhere(),
)

ENTRIES = (EFFICIENTNET_LITE0,)
