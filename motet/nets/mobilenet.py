"""mobilenet: SuPerFed's short MobileNet, four depthwise separable convolutions and two linear layers."""

from collections import OrderedDict

from torch import nn

from motet.data.input import Input
from motet.nets.blocks import BatchByDefault, Norm, normalization, pooled
from motet.nets.mlp import bias_free, xavier
from motet.nets.net import Net, NetEntry
from motet.nets.resnet import conv3, stem

SEPARABLE = ((32, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 1))
"""Channels in, channels out and stride of each."""


def build(input: Input, classes: int, split: str | None, norm: Norm) -> Net:
    """Build a stem of 32 channels, separable convolutions up to 512 | two linear layers, no biases.

    Borders are padded, as in MobileNet (Howard et al. 2017); the released code has no padding and cannot take 28x28
    images.
    """
    stages: OrderedDict[str, nn.Module] = OrderedDict()
    for i, sizes in enumerate(SEPARABLE, 1):
        first = stem(conv3(input.shape[0], 32, stride=2), norm, pool=False) if i == 1 else []
        last = pooled() if i == len(SEPARABLE) else ()
        stages[f"layer{i}"] = nn.Sequential(OrderedDict([*first, *_separable(*sizes, norm), *last]))
    stages["fc1"] = bias_free(512, 256)
    stages["fc2"] = nn.Linear(256, classes, bias=False)
    return xavier(Net(stages, input, split or "fc1"))


def _separable(channels_in: int, channels_out: int, stride: int, norm: Norm) -> list[tuple[str, nn.Module]]:
    """Return the layers of a separable convolution: 3x3 within each channel, then 1x1 across them."""
    return [
        ("depthwise", nn.Conv2d(channels_in, channels_in, 3, stride, 1, groups=channels_in, bias=False)),
        ("depthwise_bn", normalization(norm, channels_in)),
        ("depthwise_relu", nn.ReLU(inplace=True)),
        ("pointwise", nn.Conv2d(channels_in, channels_out, 1, bias=False)),
        ("pointwise_bn", normalization(norm, channels_out)),
        ("pointwise_relu", nn.ReLU(inplace=True)),
    ]


MOBILENET = NetEntry(
    name="mobilenet",
    summary="four depthwise separable convolutions and two linear layers without biases",
    paper="SuPerFed, Hahn et al., KDD 2022; after Howard et al. 2017",
    accepts=("image",),
    example=Input("image", (3, 32, 32)),
    build=build,
    options=BatchByDefault,
)

ENTRIES = (MOBILENET,)
