"""A model is a vector: the parameters and buffers of a net in one flat tensor with named views.

    [ shared buffers | added parameters | shared parameters | private parameters | private buffers ]
      `shared`: what travels, one slice                     |  `private`: what stays, one slice
                       `trainable`: what gradient steps move, one slice

Added parameters are those that a part of a method gives the net and that travel (FED-ROD's hypernetwork). They are
averaged, and no more: what corrects drift acts on `shared_trainable`, the net's own, which ends the shared slice.

Convolution kernels lie in channels-last order inside the vector (the fast order for torch's kernels); their
views have the usual shape.
"""

import fnmatch
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from motet.errors import MotetError


@dataclass(frozen=True)
class Place:
    """Where one named tensor lives in the flat vector."""

    where: slice
    shape: tuple[int, ...]
    is_buffer: bool

    def view(self, flat: Tensor) -> Tensor:
        """The named tensor as a view of a flat vector of this layout."""
        part = flat[self.where]
        if len(self.shape) == 4:
            o, i, h, w = self.shape
            return part.view(o, h, w, i).permute(0, 3, 1, 2)
        return part.view(self.shape)


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a parameter's name fits one of the patterns (`head.*`), or begins with one (`head.`)."""
    return any(name.startswith(p) or fnmatch.fnmatchcase(name, p) for p in patterns)


class Layout:
    """Where each parameter and buffer of a module lives in the flat vector."""

    def __init__(self, module: nn.Module, private: Iterable[str] = (), added: Iterable[str] = ()):
        private, added = tuple(private), tuple(added)
        groups: list[list[tuple[str, Tensor, bool]]] = [[], [], [], [], []]
        for name, p in module.named_parameters():
            groups[3 if matches(name, private) else 1 if matches(name, added) else 2].append((name, p, False))
        for name, b in module.named_buffers():
            groups[4 if matches(name, private) else 0].append((name, b, True))
        self.places: dict[str, Place] = {}
        at, ends = 0, []
        for group in groups:
            for name, t, is_buffer in group:
                self.places[name] = Place(slice(at, at + t.numel()), tuple(t.shape), is_buffer)
                at += t.numel()
            ends.append(at)
        self.size = at
        self.shared = slice(0, ends[2])
        self.private = slice(ends[2], at)
        self.trainable = slice(ends[0], ends[3])
        self.added = slice(ends[0], ends[1])
        self.shared_trainable = slice(ends[1], ends[2])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self.places == other.places

    __hash__ = None  # type: ignore[assignment]

    def flatten(self, module: nn.Module) -> Tensor:
        """A new flat vector with the module's present values."""
        flat = torch.empty(self.size)
        for name, t in _named_tensors(module):
            self.places[name].view(flat).copy_(t.detach())
        return flat

    def bind(self, module: nn.Module, w: Tensor, g: Tensor | None = None) -> None:
        """Make the module's parameters and buffers views of w, and its gradients views of g."""
        for name, p in module.named_parameters():  # a parameter used twice has one name, and one place
            p.data = self.places[name].view(w)
            p.grad = None if g is None else self.places[name].view(g)
        for prefix, owner in module.named_modules():
            dot = prefix + "." if prefix else ""
            for name, b in owner._buffers.items():
                if b is not None:
                    # .data has a version counter of its own: one layer's statistics change before another's backward
                    owner._buffers[name] = self.places[dot + name].view(w).data

    def names(self, *patterns: str) -> list[str]:
        """The names that fit the patterns, in the vector's order."""
        return [name for name in self.places if matches(name, patterns)]

    def mask(self, *patterns: str) -> Tensor:
        """One for the entries whose names fit, zero elsewhere."""
        mask = torch.zeros(self.size)
        for name in self.names(*patterns):
            mask[self.places[name].where] = 1
        return mask

    def slice_of(self, *patterns: str) -> slice:
        """The single slice that the fitting names fill; an error if they do not lie side by side."""
        places = [self.places[name].where for name in self.names(*patterns)]
        if not places:
            raise MotetError(f"no parameter fits {patterns}; accepted: a pattern of {', '.join(self.places)}")
        whole = slice(min(p.start for p in places), max(p.stop for p in places))
        if whole.stop - whole.start != sum(p.stop - p.start for p in places):
            raise MotetError(f"the parameters that fit {patterns} do not lie side by side")
        return whole

    def convert(self, flat: Tensor, to: "Layout") -> Tensor:
        """The same named values in another layout (that may hold fewer names)."""
        out = torch.empty(to.size, dtype=flat.dtype, device=flat.device)
        for name, place in to.places.items():
            out[place.where] = flat[self.places[name].where]
        return out


@dataclass
class Weights:
    """One model: a flat tensor and its layout. Arithmetic acts on the whole model at once."""

    layout: Layout
    flat: Tensor

    @classmethod
    def of(cls, module: nn.Module, private: Iterable[str] = ()) -> "Weights":
        """The present weights of a module."""
        layout = Layout(module, private)
        return cls(layout, layout.flatten(module))

    def __getitem__(self, name: str) -> Tensor:
        return self.layout.places[name].view(self.flat)

    def named(self) -> dict[str, Tensor]:
        """Every parameter and buffer by name, as views."""
        return {name: place.view(self.flat) for name, place in self.layout.places.items()}

    def __add__(self, other: "Weights") -> "Weights":
        return Weights(self.layout, self.flat + self._same(other).flat)

    def __sub__(self, other: "Weights") -> "Weights":
        return Weights(self.layout, self.flat - self._same(other).flat)

    def __mul__(self, factor: float) -> "Weights":
        return Weights(self.layout, self.flat * factor)

    __rmul__ = __mul__

    def dot(self, other: "Weights") -> float:
        """The inner product of two models."""
        return float(self.flat @ self._same(other).flat)

    def norm(self) -> float:
        """The Euclidean length of a model."""
        return float(self.flat.norm())

    def put_into(self, module: nn.Module) -> None:
        """Copy these values into a module that keeps its own memory."""
        with torch.no_grad():
            for name, t in _named_tensors(module):
                t.copy_(self[name])

    def save(self, path: Path) -> None:
        """Write named tensors in their usual shapes, readable by any safetensors reader."""
        save_file({name: t.contiguous() for name, t in self.named().items()}, path)

    @classmethod
    def load(cls, path: Path, layout: Layout) -> "Weights":
        """Read named tensors that fit the layout."""
        try:
            named = load_file(path)
        except (OSError, SafetensorError) as error:
            raise MotetError(f"weights file {str(path)!r} cannot be read ({error}); accepted: safetensors") from error
        return cls(layout, from_named(named, layout))

    def _same(self, other: "Weights") -> "Weights":
        if self.layout != other.layout:
            raise MotetError("weights of different nets cannot be combined; accepted: weights of one layout")
        return other


def from_named(named: Mapping[str, Tensor], layout: Layout) -> Tensor:
    """The flat vector of named tensors."""
    flat = torch.empty(layout.size)
    for name, place in layout.places.items():
        found = tuple(named[name].shape) if name in named else None
        if found != place.shape:
            raise MotetError(f"weight {name!r} has shape {found}; accepted: {place.shape}")
        place.view(flat).copy_(named[name])
    return flat


def is_finite(flat: Tensor) -> bool:
    """Whether no entry is NaN or infinite. A sum tells it in one pass, unless finite numbers add up to too much."""
    return bool(torch.isfinite(flat.sum())) or bool(torch.isfinite(flat).all())


def parameter_count(module: nn.Module) -> int:
    """How many trainable numbers a module has."""
    return sum(math.prod(p.shape) for p in module.parameters())


def _named_tensors(module: nn.Module) -> Iterable[tuple[str, Tensor]]:
    yield from module.named_parameters()
    yield from module.named_buffers()
