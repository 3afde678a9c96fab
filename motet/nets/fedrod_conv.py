"""The networks of FED-ROD and of its authors' related code: fedrod-conv, -1m, -small and fedrod-dropout."""

from collections import OrderedDict

from torch import nn

from motet.data.input import Input
from motet.nets.blocks import conv_stage, dense_stage, flat_size_after_two, refuse_small
from motet.nets.net import Net, NetEntry


def build_fedrod_conv(input: Input, classes: int, split: str | None = None) -> Net:
    """Build the net of FED-ROD (Chen and Chao, ICLR 2022, appendix C): 50 features, a head without bias.

    The extractor has 103,346 parameters at 28x28x1; no such network has the paper's 92,646.
    """
    flat = flat_size_after_two("fedrod-conv", input, channels_out=64)
    stages: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=conv_stage(input.shape[0], 32),
        conv2=conv_stage(32, 64),
        fc1=dense_stage(flat, 50),
        fc2=nn.Linear(50, classes, bias=False),
    )
    return _drawn_normal(Net(stages, input, split))


def _drawn_normal(net: Net) -> Net:
    """Draw all weights of a net anew, layer by layer, and return it."""
    for module in net.modules():
        init_normal(module)
    return net


def init_normal(module: nn.Module) -> None:
    """Draw weights "from normal distributions" (appendix C); the paper gives no scale: N(0, 2 / fan-in), biases 0."""
    if isinstance(module, nn.Conv2d | nn.Linear):
        nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        if module.bias is not None:
            nn.init.zeros_(module.bias)


FEDROD_CONV = NetEntry(
    name="fedrod-conv",
    summary="two 5x5 convolutions, 50 features, a head without bias, for images from 16x16",
    paper="FED-ROD, Chen and Chao, ICLR 2022",
    accepts=("image",),
    example=Input("image", (1, 28, 28)),
    build=build_fedrod_conv,
)


# -------- fedrod-conv-1m: a network of FED-ROD's size for CIFAR


SMALLEST_1M = 8  # a side that leaves one position after three poolings


def build_fedrod_conv_1m(input: Input, classes: int, split: str | None = None) -> Net:
    """Build three padded 5x5 convolutions, 64 features, a head without bias: an extractor of 1,021,056 at 32x32x3.

    The paper gives no channels and counts 1,025,610; 64, 128 and 192 come nearest among round numbers.
    """
    refuse_small("fedrod-conv-1m", input, SMALLEST_1M)
    height, width = (side // SMALLEST_1M for side in input.shape[1:])
    stages: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=_padded_stage(input.shape[0], 64),
        conv2=_padded_stage(64, 128),
        conv3=_padded_stage(128, 192),
        fc1=dense_stage(192 * height * width, 64),
        fc2=nn.Linear(64, classes, bias=False),
    )
    return _drawn_normal(Net(stages, input, split))


def _padded_stage(channels_in: int, channels_out: int) -> nn.Sequential:
    """Return a stage: conv 5x5 that keeps the size, max-pool 2x2, ReLU (pooling first: see blocks.conv_stage)."""
    conv = nn.Conv2d(channels_in, channels_out, 5, padding=2)
    return nn.Sequential(conv, nn.MaxPool2d(2), nn.ReLU(inplace=True))


FEDROD_CONV_1M = NetEntry(
    name="fedrod-conv-1m",
    summary="three padded 5x5 convolutions, 64 features, a head without bias, for images from 8x8",
    paper="FED-ROD, Chen and Chao, ICLR 2022",
    accepts=("image",),
    example=Input("image", (3, 32, 32)),
    build=build_fedrod_conv_1m,
)


# -------- fedrod-conv-small


SMALLEST_SMALL = 18  # a side that leaves the last convolution one position


def build_fedrod_conv_small(input: Input, classes: int, split: str | None = None) -> Net:
    """Build three 3x3 convolutions, 64 features, a head without bias: an extractor of 121,920 parameters at 32x32x3.

    It is in the lead author's earlier code. The centralized 85.4 % of the paper need fedrod-conv-1m.
    """
    refuse_small("fedrod-conv-small", input, SMALLEST_SMALL)
    height, width = (((side - 2) // 2 - 2) // 2 - 2 for side in input.shape[1:])
    stages: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=_narrow_stage(input.shape[0], 32, nn.MaxPool2d(2)),
        conv2=_narrow_stage(32, 64, nn.MaxPool2d(2)),
        conv3=_narrow_stage(64, 64),
        fc1=dense_stage(64 * height * width, 64),
        fc2=nn.Linear(64, classes, bias=False),
    )
    return _drawn_normal(Net(stages, input, split))


def _narrow_stage(channels_in: int, channels_out: int, *pool: nn.Module) -> nn.Sequential:
    """Return a stage: conv 3x3 without padding, pooling or none, ReLU (pooling first: see blocks.conv_stage)."""
    return nn.Sequential(nn.Conv2d(channels_in, channels_out, 3), *pool, nn.ReLU(inplace=True))


FEDROD_CONV_SMALL = NetEntry(
    name="fedrod-conv-small",
    summary="three 3x3 convolutions, 64 features, a head without bias, for images from 18x18",
    paper="after FED-ROD, Chen and Chao, ICLR 2022",
    accepts=("image",),
    example=Input("image", (3, 32, 32)),
    build=build_fedrod_conv_small,
)


# -------- fedrod-dropout


def build_fedrod_dropout(input: Input, classes: int, split: str | None = None) -> Net:
    """Build the net of FedBE's code (Chen and Chao, ICLR 2021): 21,840 parameters at 28x28x1 for 10 classes.

    It has FED-ROD's unusual 50 features; nothing says that it was used there. Dropout draws from the randomness of the
    client at work.
    """
    flat = flat_size_after_two("fedrod-dropout", input, channels_out=20)
    conv2 = OrderedDict(
        conv=nn.Conv2d(10, 20, 5), dropout=nn.Dropout2d(), pool=nn.MaxPool2d(2), relu=nn.ReLU(inplace=True)
    )
    fc1 = OrderedDict(
        flatten=nn.Flatten(), linear=nn.Linear(flat, 50), relu=nn.ReLU(inplace=True), dropout=nn.Dropout()
    )
    stages: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=conv_stage(input.shape[0], 10),
        conv2=nn.Sequential(conv2),
        fc1=nn.Sequential(fc1),
        fc2=nn.Linear(50, classes),
    )
    return Net(stages, input, split)


FEDROD_DROPOUT = NetEntry(
    name="fedrod-dropout",
    summary="two narrow 5x5 convolutions and 50 features, with dropout, for images from 16x16",
    paper="FedBE, Chen and Chao, ICLR 2021",
    accepts=("image",),
    example=Input("image", (1, 28, 28)),
    build=build_fedrod_dropout,
)

ENTRIES = (FEDROD_CONV, FEDROD_CONV_1M, FEDROD_CONV_SMALL, FEDROD_DROPOUT)
