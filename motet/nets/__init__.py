"""The networks: each a row of named stages, split into body and head at any boundary, in a file with its entry."""

from functools import partial

from motet.data.input import Input
from motet.errors import MotetError, unknown
from motet.nets import cnn4, fedrod_conv, mlp, twocnn, twonn
from motet.nets.imported import build_imported
from motet.nets.info import NetInfo
from motet.nets.net import Net
from motet.plugins import is_import

__all__ = ["NETS", "Net", "NetInfo", "build_net", "describe_nets"]

_MODULES = (mlp, cnn4, fedrod_conv, twonn, twocnn)
NETS: dict[str, NetInfo] = {module.ENTRY.name: module.ENTRY for module in _MODULES}


def build_net(name: str, input: Input, classes: int, split: str | None = None) -> Net:
    """A fresh network for this input, of a registered name or by import; `split` names the first stage of the head.

    Initial weights come from torch's global generator: wrap the call in `rng.seeded`.
    """
    if classes < 1:
        raise MotetError(f"number of classes is {classes}; accepted: 1 or more")
    if name in NETS:
        net = NETS[name].build_for(input, classes, split)
    elif is_import(name):
        net = build_imported(name, input, classes, split)
    else:
        raise unknown("net", name, [*NETS, "FILE.py:build"])
    net.another = partial(build_net, name, input, classes, split)
    return net


def describe_nets() -> list[dict[str, str | int | list[str]]]:
    """What `motet list nets` shows: each net as it is at its own example input, for 10 classes."""
    return [_describe(info, info.build(info.example, 10, None)) for info in NETS.values()]


def _describe(info: NetInfo, net: Net) -> dict[str, str | int | list[str]]:
    return {
        "name": info.name,
        "summary": info.summary,
        "paper": info.paper,
        "accepts": list(info.accepts),
        "example": str(info.example),
        "stages": net.stage_names,
        "parameters": sum(p.numel() for p in net.parameters()),
    }
