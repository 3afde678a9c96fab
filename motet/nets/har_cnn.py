"""har-cnn: DBE's network for the signals of smartphones."""

from collections import OrderedDict

from torch import Tensor, nn

from motet.data.input import Input
from motet.nets.blocks import dense_stage
from motet.nets.info import NetInfo, wrong_input
from motet.nets.net import Net

WINDOW = 9
SHORTEST = 28  # steps, which leave the second convolution one position


class AsImage(nn.Module):
    """A signal as an image of one line: the fast order of memory is for images."""

    def forward(self, x: Tensor) -> Tensor:
        """(channels, time) becomes (channels, 1, time)."""
        return x.unsqueeze(2)


def build(input: Input, classes: int, split: str | None = None) -> Net:
    """DBE (Zhang et al., NeurIPS 2023, Table 9) for 9 x 128: two convolutions to 64 x 26 | the linear layers.

    In the released code the whole stack of linear layers is the head, so that DBE acts on 1664 features.
    """
    channels, time = input.shape
    if time < SHORTEST:
        raise wrong_input("har-cnn", input, f"signal (channels, time) with a time of at least {SHORTEST}")
    stages: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=_conv_stage(channels, 32, AsImage()),
        conv2=_conv_stage(32, 64),
        fc1=dense_stage(64 * _steps(_steps(time)), 1024),
        fc2=dense_stage(1024, 512),
        fc3=nn.Linear(512, classes),
    )
    return Net(stages, input, split or "fc1")


def _conv_stage(channels_in: int, channels_out: int, *first: nn.Module) -> nn.Sequential:
    """conv 1x9 without padding, max-pool 1x2, ReLU (pooling first: see blocks.conv_stage)."""
    conv = nn.Conv2d(channels_in, channels_out, (1, WINDOW))
    return nn.Sequential(*first, conv, nn.MaxPool2d((1, 2)), nn.ReLU(inplace=True))


def _steps(time: int) -> int:
    return (time - WINDOW + 1) // 2


ENTRY = NetInfo(
    name="har-cnn",
    summary="two convolutions over time and three linear layers, for signals from 28 steps",
    paper="DBE, Zhang et al., NeurIPS 2023",
    accepts=("signal",),
    example=Input("signal", (9, 128)),
    build=build,
)
