"""cnn4: the 4-layer CNN of McMahan et al., used by PGFed and DBE."""

from collections import OrderedDict

from torch import nn

from motet.nets.blocks import conv_stage, dense_stage, flat_size_after_two
from motet.nets.net import Net


def build(input_shape: tuple[int, ...], classes: int, split: str | None = None) -> Net:
    """McMahan et al. (AISTATS 2017) as in PGFed (ICCV 2023, section 5.1) and DBE (NeurIPS 2023).

    582,026 parameters at 28x28x1 and 878,538 at 32x32x3, for 10 classes.
    """
    flat = flat_size_after_two("cnn4", input_shape, channels_out=64)
    stages: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=conv_stage(input_shape[0], 32),
        conv2=conv_stage(32, 64),
        fc1=dense_stage(flat, 512),
        fc2=nn.Linear(512, classes),
    )
    return Net(stages, input_shape, split)
