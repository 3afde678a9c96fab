"""The stages that the networks are made of."""

from collections import OrderedDict

from torch import nn

from motet.errors import MotetError


def conv_stage(channels_in: int, channels_out: int) -> nn.Sequential:
    """conv 5x5 without padding, ReLU, max-pool 2x2.

    Max-pooling first is the same function and the same gradient (ReLU never changes which entry is largest
    unless all are cut to zero, where the gradient is zero both ways), with a quarter of the ReLU's work.
    """
    return nn.Sequential(
        OrderedDict(conv=nn.Conv2d(channels_in, channels_out, 5), pool=nn.MaxPool2d(2), relu=nn.ReLU(inplace=True))
    )


def dense_stage(inputs: int, outputs: int) -> nn.Sequential:
    """Flatten (nothing to do for vectors), linear, ReLU."""
    return nn.Sequential(
        OrderedDict(flatten=nn.Flatten(), linear=nn.Linear(inputs, outputs), relu=nn.ReLU(inplace=True))
    )


def flat_size_after_two(net: str, input_shape: tuple[int, ...], channels_out: int) -> int:
    """How many numbers two conv stages make of an image; an error for a shape they cannot take."""
    if len(input_shape) != 3 or min(input_shape[1:]) < 16:
        raise wrong_shape(net, input_shape, "(channels, height, width) with height and width of at least 16")
    height, width = (((side - 4) // 2 - 4) // 2 for side in input_shape[1:])
    return channels_out * height * width


def wrong_shape(net: str, input_shape: tuple[int, ...], accepted: str) -> MotetError:
    """The error for samples that do not fit a net."""
    return MotetError(f"net {net!r} cannot take samples of shape {input_shape}; accepted: {accepted}")
