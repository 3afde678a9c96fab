"""A model without its method: a net, and what the method adds to it as constants.

    z = body(x) + shift          DBE's translation of the features
    logits = head(z) + matrix·z  FED-ROD's personal head
    log(λ·p_knn + (1 − λ)·softmax(logits))  kNN-Per's memory of its client's samples

Every personal model that Motet's own methods make is one of these.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import ConfigDict, Field
from torch import Tensor, nn
from torch.nn.functional import linear, one_hot

from motet.errors import MotetError
from motet.methods.base import Part
from motet.methods.base.personal_model import PersonalModel
from motet.methods.knn_per import NeighbourMemory
from motet.nets import Net

SHIFT, MATRIX = "shift", "matrix"
"""What a part may add: see `Part.constants`."""


class NotPortable(MotetError):
    """Raised for a model that is more than a net and such constants."""


@dataclass(frozen=True)
class Voting:
    """The settings by which kNN-Per's neighbours vote, as in model.json."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    k: Annotated[int, Field(ge=1, le=2**31)]
    scale: Annotated[float, Field(gt=0)]
    lam: Annotated[float, Field(ge=0, le=1)]


class Portable(nn.Module):
    """A net with its constants: a module from prepared samples to logits."""

    shift: Tensor | None
    matrix: Tensor | None
    z: Tensor
    y: Tensor

    def __init__(
        self,
        net: Net,
        added: Mapping[str, Tensor] | None = None,
        voting: Voting | None = None,
        remembered: tuple[Tensor, Tensor] | None = None,
    ):
        super().__init__()
        self.net, self.voting = net, voting
        for name in (SHIFT, MATRIX):
            self.register_buffer(name, (added or {}).get(name))
        if remembered is not None:
            self.register_buffer("z", remembered[0])
            self.register_buffer("y", remembered[1])
        self.requires_grad_(False)
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits, computed step by step as the method's own model does."""
        z = self.net.body(x)
        if self.shift is not None:
            z = z + self.shift
        logits = self.net.head(z)
        if self.matrix is not None:
            logits = logits + linear(z.flatten(1), self.matrix)
        return logits if self.voting is None else self._with_votes(z.flatten(1), logits, self.voting)

    def _with_votes(self, z: Tensor, logits: Tensor, voting: Voting) -> Tensor:
        near = _squared_distances(z, self.z).topk(min(voting.k, len(self.z)), largest=False)
        weight = torch.softmax(-near.values / (z.shape[1] * voting.scale), 1)
        votes = (weight[..., None] * one_hot(self.y[near.indices], logits.shape[1])).sum(1)
        return (voting.lam * votes + (1 - voting.lam) * torch.softmax(logits, 1)).log()

    def constants(self) -> dict[str, Tensor]:
        """Return every tensor by name, the net's under `net.`."""
        return dict(self.state_dict())


def _squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """Return torch's own distances, or in tracing a formula that every runtime supports."""
    if not torch.compiler.is_exporting():
        return torch.cdist(a, b).square()
    return (a.square().sum(1, keepdim=True) + b.square().sum(1) - 2 * a @ b.T).clamp_min(0)


def portable(model: nn.Module, plain: Net) -> Portable:
    """Return a method's model in this form, on a net like `plain`; raise `NotPortable` if that is not possible."""
    if isinstance(model, NeighbourMemory):
        inside = portable(model.model, plain)
        added = {name: t for name in (SHIFT, MATRIX) if (t := getattr(inside, name)) is not None}
        return Portable(inside.net, added, Voting(model.k, model.scale, model.lam), (model.z, model.y))
    if isinstance(model, PersonalModel):
        return Portable(_plain_net(model.net, plain), _added(model))
    if isinstance(model, Net):
        return Portable(_plain_net(model, plain))
    raise NotPortable(
        f"this model is a {type(model).__name__}, which is no net with constants added to it; "
        f"accepted: --format torch.export or onnx, which keep the computation itself"
    )


def _plain_net(net: Net, plain: Net) -> Net:
    """Return the net's own weights in a net that no part has extended."""
    have, wanted = net.state_dict(), plain.state_dict()
    if not all(name in have and have[name].shape == value.shape for name, value in wanted.items()):
        raise NotPortable(
            "the method changed the layers of the net itself; "
            "accepted: --format torch.export or onnx, which keep the computation itself"
        )
    fresh = deepcopy(plain)
    fresh.load_state_dict({name: have[name] for name in wanted})
    return fresh


def _added(model: PersonalModel) -> dict[str, Tensor]:
    """Return the constants that all parts of a method add together."""
    total: dict[str, Tensor] = {}
    for part, note in zip(model.parts, model.notes, strict=True):
        kind = type(part)
        acts = kind.features is not Part.features or kind.personal_logits is not Part.personal_logits
        if acts and kind.constants is Part.constants:
            raise NotPortable(
                f"part {kind.__name__} changes predictions and does not say by which constants (`constants` of its "
                f"class); accepted: --format torch.export or onnx, which keep the computation itself"
            )
        with torch.no_grad():
            for name, value in part.constants(model.net, note).items():
                total[name] = total[name] + value if name in total else value.detach().clone()
    return total
