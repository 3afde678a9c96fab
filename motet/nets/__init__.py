"""The networks of the papers: each a row of named stages, split into body and head at any boundary."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from motet.errors import MotetError, unknown
from motet.nets import cnn4, fedrod_conv, mlp, twocnn, twonn
from motet.nets.net import Net

__all__ = ["NETS", "Net", "NetInfo", "build_net", "describe_nets"]


@dataclass(frozen=True)
class NetInfo:
    """One line about a network, and how to build it."""

    name: str
    summary: str
    paper: str
    build: Callable[[tuple[int, ...], int, str | None], Net]


NETS = {
    info.name: info
    for info in (
        NetInfo(
            "mlp",
            "two hidden layers of 128 and 64 units, for vectors and small images",
            "after McMahan et al., AISTATS 2017",
            mlp.build,
        ),
        NetInfo(
            "cnn4",
            "two 5x5 convolutions and two linear layers, for images from 16x16",
            "McMahan et al., AISTATS 2017; PGFed, ICCV 2023; DBE, NeurIPS 2023",
            cnn4.build,
        ),
        NetInfo(
            "fedrod-conv",
            "two 5x5 convolutions, 50 features, a head without bias, for images from 16x16",
            "FED-ROD, Chen and Chao, ICLR 2022",
            fedrod_conv.build,
        ),
        NetInfo(
            "twonn",
            "four linear layers without biases, for vectors and images",
            "SuPerFed, Hahn et al., KDD 2022",
            twonn.build,
        ),
        NetInfo(
            "twocnn",
            "two padded 5x5 convolutions and three linear layers without biases, for images from 6x6",
            "SuPerFed, Hahn et al., KDD 2022",
            twocnn.build,
        ),
    )
}


def build_net(name: str, input_shape: tuple[int, ...], classes: int, split: str | None = None) -> Net:
    """A fresh network for samples of this shape (channels first); `split` names the first stage of the head.

    Initial weights come from torch's global generator: wrap the call in `rng.seeded`.
    """
    if name not in NETS:
        raise unknown("net", name, NETS)
    if classes < 1:
        raise MotetError(f"number of classes is {classes}; accepted: 1 or more")
    net = NETS[name].build(tuple(input_shape), classes, split)
    net.another = partial(build_net, name, input_shape, classes, split)
    return net


def describe_nets() -> list[dict[str, str | list[str]]]:
    """What `motet list nets` shows."""
    return [
        {
            "name": info.name,
            "summary": info.summary,
            "paper": info.paper,
            "stages": info.build((1, 28, 28), 10, None).stage_names,
        }
        for info in NETS.values()
    ]
