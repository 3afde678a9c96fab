"""Small convolutional nets of the papers: cnn4, fedrep-conv, twocnn for images, har-cnn for signals."""

from collections import OrderedDict

from torch import Tensor, nn

from motet.data.input import Input
from motet.nets.blocks import conv_stage, dense_stage, flat_size_after_two, refuse_small
from motet.nets.mlp import bias_free, xavier
from motet.nets.net import Net, NetEntry, wrong_input


def build_cnn4(input: Input, classes: int, split: str | None = None) -> Net:
    """Build the net of McMahan et al. (AISTATS 2017) as in PGFed (ICCV 2023, section 5.1) and DBE (NeurIPS 2023).

    582,026 parameters at 28x28x1 and 878,538 at 32x32x3, for 10 classes.
    """
    flat = flat_size_after_two("cnn4", input, channels_out=64)
    stages: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=conv_stage(input.shape[0], 32),
        conv2=conv_stage(32, 64),
        fc1=dense_stage(flat, 512),
        fc2=nn.Linear(512, classes),
    )
    return Net(stages, input, split)


CNN4 = NetEntry(
    name="cnn4",
    summary="two 5x5 convolutions and two linear layers, for images from 16x16",
    paper="McMahan et al., AISTATS 2017; PGFed, ICCV 2023; DBE, NeurIPS 2023",
    accepts=("image",),
    example=Input("image", (1, 28, 28)),
    build=build_cnn4,
)


# -------- fedrep-conv: FedRep's network for CIFAR, which FedBasis uses too


def build_fedrep_conv(input: Input, classes: int, split: str | None = None) -> Net:
    """Build two convolutions of 64 channels, linear layers of 120 and 64: 307,842 parameters at 32x32x3 for 10
    classes."""
    flat = flat_size_after_two("fedrep-conv", input, channels_out=64)
    stages: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=conv_stage(input.shape[0], 64),
        conv2=conv_stage(64, 64),
        fc1=dense_stage(flat, 120),
        fc2=dense_stage(120, 64),
        fc3=nn.Linear(64, classes),
    )
    return Net(stages, input, split)


FEDREP_CONV = NetEntry(
    name="fedrep-conv",
    summary="two 5x5 convolutions and three linear layers, for images from 16x16",
    paper="FedRep, Collins et al., ICML 2021; FedBasis 2022",
    accepts=("image",),
    example=Input("image", (3, 32, 32)),
    build=build_fedrep_conv,
)


# -------- twocnn: SuPerFed's network for CIFAR-10, two convolutions and three linear layers without biases


SMALLEST_TWOCNN = 6  # a side that leaves the second convolution one position


def build_twocnn(input: Input, classes: int, split: str | None = None) -> Net:
    """Build two convolutions | three linear layers, as in SuPerFed's code; 722,800 parameters at 28x28x3 for 10
    classes."""
    refuse_small("twocnn", input, SMALLEST_TWOCNN)
    height, width = (_side(_side(side)) for side in input.shape[1:])
    stages: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=_twocnn_conv_stage(input.shape[0], 32),
        conv2=_twocnn_conv_stage(32, 64),
        fc1=bias_free(64 * height * width, 200),
        fc2=bias_free(200, 200),
        fc3=nn.Linear(200, classes, bias=False),
    )
    return xavier(Net(stages, input, split or "fc1"))


def _twocnn_conv_stage(channels_in: int, channels_out: int) -> nn.Sequential:
    """Return a stage: conv 5x5 with padding 1, max-pool 2x2 with padding 1, ReLU (pooling first: see
    blocks.conv_stage)."""
    conv = nn.Conv2d(channels_in, channels_out, 5, padding=1, bias=False)
    return nn.Sequential(OrderedDict(conv=conv, pool=nn.MaxPool2d(2, padding=1), relu=nn.ReLU(inplace=True)))


def _side(side: int) -> int:
    """Return an image's side after one such stage: 28 becomes 14, 14 becomes 7."""
    return (side - 2) // 2 + 1


TWOCNN = NetEntry(
    name="twocnn",
    summary="two padded 5x5 convolutions and three linear layers without biases, for images from 6x6",
    paper="SuPerFed, Hahn et al., KDD 2022",
    accepts=("image",),
    example=Input("image", (3, 32, 32)),
    build=build_twocnn,
)


# -------- har-cnn: DBE's network for the signals of smartphones


WINDOW = 9
SHORTEST = 28  # time steps that leave the second convolution one position


class AsImage(nn.Module):
    """Turns a signal into an image of one row, because torch's fast memory format is for images."""

    def forward(self, x: Tensor) -> Tensor:
        """Return signals as images of one row: (channels, time) becomes (channels, 1, time)."""
        return x.unsqueeze(2)


def build_har_cnn(input: Input, classes: int, split: str | None = None) -> Net:
    """Build the net of DBE (Zhang et al., NeurIPS 2023, Table 9) for 9 x 128: convolutions to 64 x 26 | linear layers.

    In the released code all linear layers together are the head, so that DBE acts on 1664 features.
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
    """Return a stage: conv 1x9 without padding, max-pool 1x2, ReLU (pooling first: see blocks.conv_stage)."""
    conv = nn.Conv2d(channels_in, channels_out, (1, WINDOW))
    return nn.Sequential(*first, conv, nn.MaxPool2d((1, 2)), nn.ReLU(inplace=True))


def _steps(time: int) -> int:
    return (time - WINDOW + 1) // 2


HAR_CNN = NetEntry(
    name="har-cnn",
    summary="two convolutions over time and three linear layers, for signals from 28 steps",
    paper="DBE, Zhang et al., NeurIPS 2023",
    accepts=("signal",),
    example=Input("signal", (9, 128)),
    build=build_har_cnn,
)

ENTRIES = (CNN4, FEDREP_CONV, TWOCNN, HAR_CNN)
