"""fedrod-dropout: the network of an earlier work of FED-ROD's author for MNIST-like images."""

from collections import OrderedDict

from torch import nn

from motet.data.input import Input
from motet.nets.blocks import conv_stage, flat_size_after_two
from motet.nets.info import NetInfo
from motet.nets.net import Net


def build(input: Input, classes: int, split: str | None = None) -> Net:
    """As in the code of FedBE (Chen and Chao, ICLR 2021): 21,840 parameters at 28x28x1 for 10 classes.

    It has FED-ROD's unusual 50 features, and with it FedAvg is as low as in FED-ROD's tables; nothing says that it
    was used there. Dropout draws from the randomness of the client at work.
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


ENTRY = NetInfo(
    name="fedrod-dropout",
    summary="two narrow 5x5 convolutions and 50 features, with dropout, for images from 16x16",
    paper="FedBE, Chen and Chao, ICLR 2021",
    accepts=("image",),
    example=Input("image", (1, 28, 28)),
    build=build,
)
