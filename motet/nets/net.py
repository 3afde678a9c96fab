"""The class of all nets: named stages in a row, which any stage boundary splits into body (features z) and head
(logits).

Also BatchNorm without running statistics (`BatchStatistics`), and the entry of a net in the list of nets (`NetEntry`).
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from motet.config.data_section import SampleKind
from motet.config.section import Section, checked
from motet.data.input import Input
from motet.errors import MotetError, unknown
from motet.nets.criterion import Criterion, loss_and_slope, loss_by
from motet.nets.dense import add_row_gradient, is_plain, leading_row, run_row, takes_vectors, worth_it


class Net(nn.Sequential):
    """A net of named stages. `split` names the first stage of the head; the stages before it are the body."""

    def __init__(self, stages: "OrderedDict[str, nn.Module]", input: Input, split: str | None = None):
        super().__init__()
        self.stage_names = list(stages)
        self.input = input
        if len(stages) < 2:
            raise MotetError(f"net has stages {self.stage_names}; accepted: at least two, a body and a head")
        self.split = split or self.stage_names[-1]
        if self.split not in self.stage_names[1:]:
            raise unknown("head stage (net.head)", self.split, self.stage_names[1:])
        for name, stage in stages.items():
            if not self.is_free(name):
                raise MotetError(
                    f"net has a stage named {name!r}, a word that nets use themselves or that holds a dot; "
                    f"accepted: any other name, such as {name.replace('.', '_')}_stage"
                )
            self.add_module(name, stage)

    def is_free(self, name: str) -> bool:
        """Return whether a stage or another module may have this name: modules are attributes of their net."""
        return bool(name) and "." not in name and not hasattr(self, name) and name not in Net.__annotations__

    bf16 = False  # compute in bfloat16 in training; weights and predictions stay in float32
    criterion: Criterion = "classes"  # the loss that it is trained by; set by `build_net`
    listed_as: str = ""  # its name in the list of nets; empty for a user's own; set by `build_net`
    rows = True  # False: no fast path for linear layers, for methods that need second derivatives
    _collecting = False
    another: Callable[[], "Net"]  # builds a net of the same recipe with fresh weights; set by `build_net`
    elsewhere: Mapping[str, str] = MappingProxyType({})  # prefixes of its weights' names in files from other projects

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Inside the block a loss and its `backward()` only add to the gradients that are bound.

        Linear layers in a row are then computed as one (nets/dense.py). Use `torch.autograd.grad` outside of it.
        """
        self._collecting, before = self.rows, self._collecting
        try:
            yield
        finally:
            self._collecting = before

    def train(self, mode: bool = True) -> "Net":
        """Switch between training and evaluation; free where net and stages are in that mode already.

        Tasks switch before they know, and small nets would spend a tenth of their time on it. A module inside that has
        a `train` of its own is asked by it.
        """
        if self.training == mode and all(module.training == mode for module in self._modules.values() if module):
            return self
        switch(self, mode)
        return self

    def training_loss(self, outputs: Tensor, y: Tensor, reduction: str = "mean") -> Tensor:
        """Return the loss of a batch by which this net is trained: cross-entropy, or a loss of numbers."""
        return loss_by(self.criterion, outputs, y, reduction)

    def add_gradient(self, x: Tensor, y: Tensor, share: float = 1.0) -> Tensor:
        """Add the gradient of a batch's training loss, times a share, to the gradients that are bound; return it.

        A net that is one row of linear layers needs no autograd for it; the bits are the same.
        """
        found = self.add_row_gradient(x, y, share)
        if found is not None:
            return found
        with self.collecting():
            loss = self.training_loss(self(x), y)
            loss = loss if share == 1 else loss * share
            loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def add_row_gradient(self, x: Tensor, y: Tensor, share: float = 1.0, halves: bool = False) -> Tensor | None:
        """Do so without autograd for a plain net of linear layers alone, on a CPU; for others do nothing, return None.

        With `halves` the bits are those of body and head that are computed one after the other.
        """
        if not self.rows or self.bf16 or x.device.type != "cpu" or not is_plain(self, Net) or x.requires_grad:
            return None
        cut = self.stage_names.index(self.split) if halves else 0
        stages = self._stages()
        rows, used = zip(*(leading_row(some) for some in (stages[:cut], stages[cut:]) if some), strict=True)
        if sum(used) < len(self.stage_names) or not takes_vectors(stages[0], x.dim()):
            return None
        return add_row_gradient(x, y, rows, partial(loss_and_slope, self.criterion, share))

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits; modules that a method adds beside the stages take no part."""
        return self.between(x, None, None)

    def body(self, x: Tensor) -> Tensor:
        """Return the features z at the split."""
        return self.between(x, None, self.split)

    def head(self, z: Tensor) -> Tensor:
        """Return the logits of features at the split."""
        return self.between(z, self.split, None)

    def between(self, x: Tensor, first: str | None, end: str | None) -> Tensor:
        """Run the stages from `first` up to, not including, `end`."""
        start = self.stage_names.index(first) if first else 0
        stop = self.stage_names.index(end) if end else len(self.stage_names)
        stages = self._stages(start, stop)
        learning = torch.is_grad_enabled()
        if learning and self.bf16:
            with torch.autocast(
                x.device.type, torch.bfloat16
            ):  # left before the weights change, because autocast caches copies of them
                for stage in stages:
                    x = stage(x)
            return x.float()
        while stages:
            row, used = leading_row(stages) if learning and self._collecting else ([], 0)
            if worth_it(row) and takes_vectors(stages[0], x.dim()):
                x, stages = run_row(x, row), stages[used:]
            else:
                x = stages.pop(0)(x)
        return x

    def _stages(self, start: int = 0, stop: int | None = None) -> list[nn.Module]:
        """Return the stages between two places; torch's own attribute lookup is slow."""
        return [stage for name in self.stage_names[start:stop] if (stage := self._modules[name]) is not None]

    def head_names(self) -> tuple[str, ...]:
        """Return the name prefixes of the head's parameters, for methods that share or keep them apart."""
        return tuple(name + "." for name in self.stage_names[self.stage_names.index(self.split) :])

    def body_names(self) -> tuple[str, ...]:
        """Return the name prefixes of the body's parameters."""
        return tuple(name + "." for name in self.stage_names[: self.stage_names.index(self.split)])

    def feature_shape(self) -> tuple[int, ...]:
        """Return the shape of one sample's features at the split."""
        row, used = leading_row(body := self._stages(stop=self.stage_names.index(self.split)))
        if used == len(body) and takes_vectors(body[0], 1 + len(self.input.shape)):  # on the meta device a pass is slow
            return (row[-1][0].out_features,) if row else (math.prod(self.input.shape),)
        training = self.training
        self.eval()
        with torch.no_grad():
            shape = tuple(self.body(self.input.example().to(next(self.parameters()).device)).shape[1:])
        self.train(training)
        return shape

    @property
    def normalizes_batches(self) -> bool:
        """Return whether a sample's logits depend on its batch in training, so that batches need two samples."""
        return any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in self.modules())


def switch(module: nn.Module, mode: bool) -> None:
    """Switch a module and all inside between training and evaluation as torch does, without its slow attributes."""
    vars(module)["training"] = mode
    for child in module._modules.values():
        if child is None:
            continue
        kind = type(child)
        if kind.train is nn.Module.train and kind.__setattr__ is nn.Module.__setattr__ and "train" not in vars(child):
            switch(child, mode)
        else:  # it has a way of its own, or keeps its mode elsewhere, as scripted modules do
            child.train(mode)


# -------- BatchNorm without running statistics


class BatchStatistics(_BatchNorm):
    """A BatchNorm layer's scale and shift, without statistics that could be averaged or kept.

    A single sample of a single position has no variance and becomes the shift; torch would refuse it.
    """

    def __init__(self, layer: _BatchNorm):
        super().__init__(layer.num_features, layer.eps, layer.momentum, affine=False, track_running_stats=False)
        self.weight, self.bias = layer.weight, layer.bias

    def forward(self, x: Tensor) -> Tensor:
        """Return x normalized over its own batch, in training and in prediction."""
        return torch.batch_norm(x, self.weight, self.bias, None, None, True, 0.0, self.eps, False)


def by_batch_statistics(net: nn.Module) -> None:
    """Replace every BatchNorm layer of a net by `BatchStatistics` with the same scale and shift."""
    for module in list(net.modules()):
        for name, layer in module.named_children():
            if isinstance(layer, _BatchNorm):
                setattr(module, name, BatchStatistics(layer))


# -------- Entries in the list of nets


Build = Callable[..., Net]
"""From the input, the number of classes and the first stage of the head (None: the net's own); and its options, by
their names."""


@dataclass(frozen=True)
class NetEntry:
    """The entry of one network. `build` draws initial weights from torch's global generator."""

    name: str
    summary: str
    paper: str
    accepts: tuple[SampleKind, ...]
    example: Input
    """An input that the net is known to take, to look at it without data."""
    build: Build
    options: type[Section] = Section
    """What may stand in brackets behind its name."""
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    """Prefixes of weights' names in files from other projects, and the prefixes here."""

    def build_for(self, input: Input, classes: int, split: str | None, **options: object) -> Net:
        """Return the net; raise a `MotetError` for a wrong option or an input of another kind."""
        if input.kind not in self.accepts:
            raise wrong_input(self.name, input, ", ".join(self.accepts))
        chosen = checked(self.options, options, f"net {self.name}")
        net = self.build(input, classes, split, **{name: getattr(chosen, name) for name in type(chosen).model_fields})
        net.elsewhere = self.elsewhere
        return net


def wrong_input(net: str, input: Input, accepted: str) -> MotetError:
    """Return the error for an input that does not fit a net."""
    return MotetError(f"net {net!r} cannot take {input}; accepted: {accepted}")
