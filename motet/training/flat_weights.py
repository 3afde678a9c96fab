"""A model is a vector: the parameters and buffers of a net in one flat tensor with named views.

    [ shared buffers, frozen | added | shared parameters | private parameters | private added | frozen, buffers ]
      `shared`: what travels, one slice                  |  `private`: what stays, one slice
                       `trainable`: what gradient steps move, one slice
                               `own`: the net's own parameters that move, one slice

Added parameters are those that a part of a method gives the net: some travel (FED-ROD's hypernetwork), some stay (its
personal head). Those that travel are averaged, and no more: what corrects drift acts on `shared_trainable`, the net's
own, which ends the shared slice.

Frozen parameters are those whose `requires_grad` the author of the net has set to False, such as a backbone under an
adapter. They travel and are saved like all weights. No gradient step, weight decay or momentum may move them, so they
lie outside of `trainable`, beside the buffers. Arithmetic over whole vectors rounds, so code that mixes models restores
them (`keep`).

Buffers of integers or booleans, such as masks and positions, are constants: they keep their type, and changes that a
net makes to them are lost. Only BatchNorm's counters change; they are stored as floats like all others.

Convolution kernels lie in channels-last order inside the vector (the fast order for torch's kernels); their
views have the usual shape.
"""

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

COUNTER = "num_batches_tracked"  # BatchNorm's


@dataclass(frozen=True)
class Place:
    """The place of one named tensor in the flat vector."""

    where: slice
    shape: tuple[int, ...]
    is_buffer: bool
    is_frozen: bool = False  # by the net's author

    @property
    def is_trained(self) -> bool:
        """Whether gradient steps may move it."""
        return not (self.is_buffer or self.is_frozen)

    def view(self, flat: Tensor) -> Tensor:
        """Return the named tensor as a view of a flat vector of this layout."""
        part = flat[self.where]
        if len(self.shape) == 4:
            o, i, h, w = self.shape
            return part.view(o, h, w, i).permute(0, 3, 1, 2)
        return part.view(self.shape)


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a parameter's name matches a pattern (`*.bias`), equals it, or lies in a module of that name."""
    return any(name == p or name.startswith(p.rstrip(".") + ".") or fnmatch.fnmatchcase(name, p) for p in patterns)


class Layout:
    """The places of all parameters and buffers of a module in the flat vector."""

    def __init__(self, module: nn.Module, private: Iterable[str] = (), added: Iterable[str] = ()):
        private, added = tuple(private), tuple(added)
        groups: list[list[tuple[str, Tensor, bool, bool]]] = [[] for _ in range(8)]
        for name, t in _named_tensors(module):
            is_buffer = not isinstance(t, nn.Parameter)
            is_frozen = not is_buffer and not t.requires_grad
            which = 0 if is_buffer else 1 if is_frozen else 2 if matches(name, added) else 3
            groups[7 - which if matches(name, private) else which].append((name, t, is_buffer, is_frozen))
        self.places: dict[str, Place] = {}
        at, ends = 0, []
        for group in groups:
            for name, t, is_buffer, is_frozen in group:
                self.places[name] = Place(slice(at, at + t.numel()), tuple(t.shape), is_buffer, is_frozen)
                at += t.numel()
            ends.append(at)
        self.constants = {
            name: t.dtype
            for group in groups
            for name, t, is_buffer, _ in group
            if is_buffer and not t.is_floating_point() and not name.endswith(COUNTER)
        }
        self.size = at
        self.shared = slice(0, ends[3])
        self.private = slice(ends[3], at)
        self.trainable = slice(ends[1], ends[5])
        self.added = slice(ends[1], ends[2])
        self.shared_trainable = slice(ends[2], ends[3])
        self.private_trainable = slice(ends[3], ends[5])
        self.own = slice(ends[2], ends[4])
        self.private_added = slice(ends[4], ends[5])
        self.frozen = slice(ends[0], ends[1])
        self.private_frozen = slice(ends[5], ends[6])
        self._listed: Listed | None = None  # of the module that was bound last

    def __getstate__(self) -> dict[str, object]:
        """Return the state without what is listed again where it arrives."""
        return vars(self) | {"_listed": None}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self.places == other.places

    __hash__ = None  # type: ignore[assignment]

    def flatten(self, module: nn.Module) -> Tensor:
        """Return a new flat vector with the module's present values."""
        flat = torch.empty(self.size)
        for name, t in _named_tensors(module):
            self.places[name].view(flat).copy_(t.detach())
        return flat

    def bind(self, module: nn.Module, w: Tensor, g: Tensor | None = None) -> None:
        """Make the module's parameters and buffers views of w, and its gradients views of g."""
        if self._listed is None or not self._listed.is_of(module):
            self._listed = Listed.of(module)
        for name, _, _, p in self._listed.parameters:
            place = self.places[name]
            p.data = place.view(w)
            p.grad = None if g is None else place.view(g)
        for name, buffers, key in self._listed.buffers:
            # .data has its own version counter: one layer's statistics change before another's backward
            buffers[key] = self._value(name, w).data

    def _value(self, name: str, flat: Tensor) -> Tensor:
        """Return a named tensor of a vector: a view, or a copy if it is an integer constant."""
        view, kind = self.places[name].view(flat), self.constants.get(name)
        return view if kind is None else view.round().to(kind)

    def outside(self, region: slice) -> set[str]:
        """Return the names of the parameters and buffers outside a region."""
        return {name for name, p in self.places.items() if not region.start <= p.where.start < region.stop}

    def keep(self, w: Tensor, as_in: Tensor) -> Tensor:
        """Copy the frozen weights of `as_in` into w and return w; each may be a full vector or its shared part."""
        for region in (self.frozen, self.private_frozen):
            if region.start < region.stop <= w.shape[-1]:
                w[..., region] = as_in[..., region]
        return w

    def named(self, flat: Tensor) -> dict[str, Tensor]:
        """Return every parameter and buffer by name, as views of a flat vector of this layout."""
        return {name: place.view(flat) for name, place in self.places.items()}

    def put(self, flat: Tensor, module: nn.Module) -> None:
        """Copy a flat vector's values into a module that keeps its own memory."""
        with torch.no_grad():
            for name, t in _named_tensors(module):
                t.copy_(self._value(name, flat))

    def convert(self, flat: Tensor, to: "Layout") -> Tensor:
        """Return the same named values in another layout, which may have fewer names."""
        out = torch.empty(to.size, dtype=flat.dtype, device=flat.device)
        for name, place in to.places.items():
            out[place.where] = flat[self.places[name].where]
        return out


@dataclass(frozen=True)
class Listed:
    """Where the parameters and buffers of a module are: to list them takes small nets longer than to bind them."""

    module: nn.Module
    children: list[tuple[dict[str, nn.Module | None], str, nn.Module | None]]  # of all modules inside
    parameters: list[tuple[str, dict[str, nn.Parameter | None], str, nn.Parameter]]  # full name, owner's, name there
    buffers: list[tuple[str, dict[str, Tensor | None], str]]

    @classmethod
    def of(cls, module: nn.Module) -> "Listed":
        """Return the list of a module as it is now, with that of every module inside."""
        owners = list(module.named_modules())
        named = {name: p for name, p in module.named_parameters()}  # one that is used twice has one name
        full = [(f"{prefix}." if prefix else "", owner) for prefix, owner in owners]
        return cls(
            module,
            [(owner._modules, name, child) for _, owner in full for name, child in owner._modules.items()],
            [
                (dot + name, owner._parameters, name, p)
                for dot, owner in full
                for name, p in owner._parameters.items()
                if p is not None and dot + name in named
            ],
            [
                (dot + name, owner._buffers, name)
                for dot, owner in full
                for name, b in owner._buffers.items()
                if b is not None
            ],
        )

    def is_of(self, module: nn.Module) -> bool:
        """Return whether this is the module, and what was listed is still in its place."""
        return (
            module is self.module
            and all(there.get(name) is child for there, name, child in self.children)
            and all(there.get(name) is p for _, there, name, p in self.parameters)
        )


class frozen:
    """Turns off gradients of these parameters inside the block, and restores them after it."""

    def __init__(self, model: nn.Module, names: set[str]):
        self.parameters = [p for name, p in model.named_parameters() if name in names and p.requires_grad]

    def __enter__(self) -> None:
        for p in self.parameters:
            p.requires_grad_(False)

    def __exit__(self, *_: object) -> None:
        for p in self.parameters:
            p.requires_grad_(True)


def let_go(module: nn.Module) -> None:
    """Take the memory of its weights and gradients from a module that is bound to others before it is used again."""
    for p in module.parameters():
        p.data, p.grad = p.data.new_zeros(1).expand(p.shape), None


def is_finite(flat: Tensor) -> bool:
    """Return whether no entry is NaN or infinite. The sum shows it in one pass, unless finite numbers overflow."""
    return bool(torch.isfinite(flat.sum())) or bool(torch.isfinite(flat).all())


def parameter_count(module: nn.Module) -> int:
    """Return how many trainable numbers a module has."""
    return sum(p.numel() for p in module.parameters())


def _named_tensors(module: nn.Module) -> Iterable[tuple[str, Tensor]]:
    yield from module.named_parameters()
    yield from module.named_buffers()
