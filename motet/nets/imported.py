"""A user's own net by import: an entry, or a function (input, classes, split) that returns a net or a torch module."""

import inspect
from collections import OrderedDict
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from motet.data.input import Input
from motet.errors import MotetError, unknown
from motet.io.plugins import load_object
from motet.io.user_code import place_of
from motet.nets.net import Net, NetEntry

TRUNK, LAST = "trunk", "last"  # the two stages of a module that is not a Sequential


def build_imported(name: str, input: Input, classes: int, split: str | None, **options: object) -> Net:
    """Return the net that `module:build` or `file.py:build` builds, after a test on random samples."""
    found = load_object(name, "net")
    if isinstance(found, NetEntry):
        found = found.build_for
    if isinstance(found, nn.Module) or not callable(found):  # a module can be called too, but takes samples
        raise MotetError(
            f"net {name!r} is of type {type(found).__name__}; "
            f"accepted: a function (input, classes, split) that builds a net"
        )
    net = _as_net(name, _called(name, found, input, classes, split, options), input, split)
    made = tuple(_output(name, net, input.example(2)).shape)
    _refuse_what_cannot_be_trained(name, net)
    if made != (2, classes):
        raise MotetError(f"net {name!r} makes {made} of 2 samples; accepted: (2, {classes}), one logit per class")
    return net


def _refuse_what_cannot_be_trained(name: str, net: Net) -> None:
    """Raise a `MotetError` for a net that training on a flat vector would treat otherwise than torch would."""
    whole = (net._forward_hooks, net._forward_pre_hooks, net._backward_hooks, net._backward_pre_hooks)
    if any(whole) or type(net).forward is not Net.forward or "forward" in vars(net):
        raise MotetError(
            f"net {name!r} has hooks or a `forward` of its own on the whole, which methods that run its body and its "
            f"head apart would skip; accepted: hooks on its stages, and what it computes in them"
        )
    parameters = dict(net.named_parameters())
    for parameter, p in parameters.items():
        if is_lazy(p):
            raise MotetError(
                f"net {name!r} has the lazy parameter {parameter!r}, which no sample has given a shape yet; accepted: "
                f"parameters of known shapes"
            )
        if p.dtype != torch.float32:
            raise MotetError(f"net {name!r} has the parameter {parameter!r} of {p.dtype}; accepted: torch.float32")
    if not any(p.requires_grad for p in parameters.values()):
        raise MotetError(
            f"net {name!r} has {len(parameters)} parameters and all are frozen (requires_grad=False); accepted: one or "
            f"more to train"
        )
    owners = dict[int, tuple[nn.Module, str]]()
    for buffer, b in net.named_buffers(remove_duplicate=False):
        owner = net.get_submodule(buffer.rpartition(".")[0])
        first, known_as = owners.setdefault(id(b), (owner, buffer))
        if first is not owner:
            raise MotetError(
                f"net {name!r} has one buffer under two names, {known_as!r} and {buffer!r}; accepted: a buffer of its "
                f"own for each module"
            )


def _called(
    name: str, build: Callable[..., object], input: Input, classes: int, split: str | None, options: dict[str, object]
) -> object:
    """Return what the user's function builds, or raise a sentence about how it failed."""
    try:
        takes = inspect.signature(build)
    except ValueError:  # some functions written in C have no signature
        return build(input, classes, split, **options)
    arguments = (input, classes, split) if _asks_for_split(takes) else (input, classes)
    try:
        takes.bind(*arguments, **options)
    except TypeError:
        given = f", with the options {', '.join(options)}" if options else ""
        raise MotetError(
            f"net {name!r} is a function of {takes}; accepted: one of (input, classes, split){given}"
        ) from None
    return build(*arguments, **options)


def _asks_for_split(takes: inspect.Signature) -> bool:
    """Return whether the function takes `split` as its third argument.

    It may lack it, as one that builds a plain module does not need it; a third argument with a default is an option of
    the user's.
    """
    every = takes.parameters.values()
    third = [p for p in every if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][2:3]
    return any(p.kind is p.VAR_POSITIONAL for p in every) or any(
        p.name == "split" or p.default is p.empty for p in third
    )


def _as_net(name: str, built: object, input: Input, split: str | None) -> Net:
    if isinstance(built, Net):
        if split and built.split != split:
            raise MotetError(f"net {name!r} has its head at {built.split!r}; accepted: this, or auto, as net.head")
        return built
    if isinstance(built, nn.Sequential) and _is_only_its_stages(built):
        return Net(OrderedDict(built.named_children()), input, split)
    if isinstance(built, nn.Module):
        return _with_last_apart(name, built, input, split)
    raise MotetError(f"net {name!r} built {type(built).__name__}; accepted: a Net, an nn.Sequential or an nn.Module")


def _is_only_its_stages(built: nn.Sequential) -> bool:
    """Return whether a Sequential is no more than its stages: no hooks, no weights and no `forward` or `train` of
    its own."""
    kind, has = type(built), vars(built)
    hooks = (built._forward_hooks, built._forward_pre_hooks, built._backward_hooks, built._backward_pre_hooks)
    plain = (
        kind.forward is nn.Sequential.forward and kind.train is nn.Module.train and kind.__call__ is nn.Module.__call__
    )
    return plain and not (any(hooks) or built._parameters or built._buffers or "forward" in has or "train" in has)


def _with_last_apart(name: str, module: nn.Module, input: Input, split: str | None) -> Net:
    """Return a net of any module that ends in one layer or submodule: that is the head, all before it the body."""
    layers = [layer for layer, inside in module.named_modules() if layer and not list(inside.children())]
    if split is None:
        raise MotetError(
            f"net {name!r} is a {type(module).__name__}, which does not say where its head begins; "
            f"accepted: net.head (--head) = the name of its last layer, of {', '.join(layers)}"
        )
    if split not in dict(module.named_modules()) or not split:
        raise unknown(f"last layer (net.head) of {name}", split, layers)
    x = _something(input)
    whole = _output(name, module, x)
    parent, _, leaf = split.rpartition(".")
    last = module.get_submodule(split)
    setattr(module.get_submodule(parent), leaf, nn.Identity())
    net = Net(OrderedDict([(TRUNK, module), (LAST, last)]), input)
    if not torch.equal(_output(name, net, x), whole):
        raise MotetError(
            f"net {name!r} does more after its layer {split!r}; accepted: net.head = a layer whose output is the logits"
        )
    return net


def _output(name: str, net: nn.Module, x: Tensor) -> Tensor:
    """Return what the net makes of samples, without learning anything from them."""
    training = net.training
    net.eval()
    try:
        with torch.no_grad():
            y = net(x)
    except Exception as error:
        if place_of(error) and not isinstance(error, RuntimeError):  # torch's error for shapes that do not fit
            raise
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise MotetError(f"net {name!r} cannot take samples of shape {tuple(x.shape[1:])} ({reason})") from error
    net.train(training)
    if not isinstance(y, Tensor):
        raise MotetError(f"net {name!r} returns {type(y).__name__}; accepted: a tensor of logits")
    return y


def _something(input: Input) -> Tensor:
    """Return two different samples from a generator of their own, as torch's global one draws the initial weights."""
    rng, x = torch.Generator().manual_seed(0), input.example(2)
    if input.kind == "tokens":
        return torch.randint(input.vocabulary, x.shape, generator=rng)
    return torch.randn(x.shape, generator=rng)
