"""fedrod-conv: the network of FED-ROD for MNIST-like images."""

from collections import OrderedDict

from torch import nn

from motet.data.input import Input
from motet.nets.blocks import conv_stage, dense_stage, flat_size_after_two
from motet.nets.info import NetInfo
from motet.nets.net import Net


def build(input: Input, classes: int, split: str | None = None) -> Net:
    """FED-ROD (Chen and Chao, ICLR 2022, appendix C): a 50-dimensional feature, a head without bias.

    The extractor has 103,346 parameters at 28x28x1; the paper's 92,646 fits no such network.
    """
    flat = flat_size_after_two("fedrod-conv", input, channels_out=64)
    stages: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=conv_stage(input.shape[0], 32),
        conv2=conv_stage(32, 64),
        fc1=dense_stage(flat, 50),
        fc2=nn.Linear(50, classes, bias=False),
    )
    net = Net(stages, input, split)
    for module in net.modules():
        init_normal(module)
    return net


def init_normal(module: nn.Module) -> None:
    """Weights "from normal distributions" (appendix C); the paper gives no scale: N(0, 2 / fan-in), biases 0."""
    if isinstance(module, nn.Conv2d | nn.Linear):
        nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        if module.bias is not None:
            nn.init.zeros_(module.bias)


ENTRY = NetInfo(
    name="fedrod-conv",
    summary="two 5x5 convolutions, 50 features, a head without bias, for images from 16x16",
    paper="FED-ROD, Chen and Chao, ICLR 2022",
    accepts=("image",),
    example=Input("image", (1, 28, 28)),
    build=build,
)
