"""The list of nets by name, and how a net is built from its name or from a function of the user's."""

from functools import partial

import torch

from motet.config.names import Term, parse_one
from motet.data.input import Input
from motet.errors import MotetError, unknown
from motet.io.plugins import is_import
from motet.nets import conv, efficientnet, fedrod_conv, mlp, mobilenet, resnet, text, vgg
from motet.nets.criterion import Criterion
from motet.nets.imported import build_imported
from motet.nets.net import Net, NetEntry, by_batch_statistics

_FAMILIES = (mlp, conv, fedrod_conv, resnet, vgg, mobilenet, efficientnet, text)
NETS: dict[str, NetEntry] = {entry.name: entry for family in _FAMILIES for entry in family.ENTRIES}


def net_term(text: str) -> Term:
    """Return a net's name (or import) and options from text such as `resnet8(norm=group)`."""
    return Term(text) if is_import(text) else parse_one(text, "net", "resnet8(norm=group)")


def build_net(
    name: str,
    input: Input,
    classes: int,
    split: str | None = None,
    *,
    batch_statistics: bool = False,
    criterion: Criterion = "classes",
) -> Net:
    """Return a new net for this input, of a registered name or by import; `split` names the first stage of the head.

    A net that predicts a number has one class, and another `criterion`.
    Initial weights come from torch's global generator: wrap the call in `rng.seeded`.
    """
    if classes < 1:
        raise MotetError(f"number of classes is {classes}; accepted: 1 or more")
    term = net_term(name)
    if term.name in NETS:
        net = NETS[term.name].build_for(input, classes, split, **term.options)
    elif is_import(term.name):
        net = build_imported(term.name, input, classes, split, **term.options)
    else:
        raise unknown("net", term.name, [*NETS, "FILE.py:build"])
    if batch_statistics:
        by_batch_statistics(net)
    net.criterion = criterion
    net.listed_as = term.name if term.name in NETS else ""
    net.another = partial(
        build_net, name, input, classes, split, batch_statistics=batch_statistics, criterion=criterion
    )
    return net


def describe_nets() -> list[dict[str, object]]:
    """Return what `motet list nets` shows: each net at its own example input, for 10 classes."""
    with torch.random.fork_rng(devices=[]), torch.device("meta"):  # the meta device has shapes without memory
        return [_describe(info, info.build_for(info.example, 10, None)) for info in NETS.values()]


def _describe(info: NetEntry, net: Net) -> dict[str, object]:
    return {
        "name": info.name,
        "summary": info.summary,
        "paper": info.paper,
        "accepts": list(info.accepts),
        "example": str(info.example),
        "options": {name: field.default for name, field in info.options.model_fields.items()},
        "stages": net.stage_names,
        "head": net.split,
        "parameters": sum(p.numel() for p in net.parameters()),
    }
