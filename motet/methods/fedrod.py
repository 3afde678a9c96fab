"""FED-ROD (Chen and Chao 2022): two losses and two predictors, one generic and one personal.

The features θ and the generic head ψ learn a balanced risk; the personal head on top of them learns the client's own.
"""

import math
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field, ValidationInfo, field_validator
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear, relu

from motet.config.section import tried
from motet.errors import MotetError
from motet.messages.message import Message
from motet.methods.balanced import BSM, CDT, IR, LDAM, BalancedRisk, Resampling
from motet.methods.base import Forward, MethodEntry, Part, Training
from motet.methods.base.method import COPIES, Facts, MemoryNeed
from motet.methods.base.part import Acts
from motet.methods.meta_bsm import MetaBSM
from motet.nets import Net
from motet.training.client import Client
from motet.training.flat_weights import matches

LOSSES: dict[str, type[BalancedRisk]] = {
    "bsm": BSM,
    "ir": IR,
    "ldam": LDAM,
    "cdt": CDT,
    "meta-bsm": MetaBSM,
    "resampling": Resampling,
}


class FedROD(Part):
    """min_{θ,ψ} L_BR({θ, ψ}) and min_{φ_m} L_m({θ, ψ, φ_m}) (Eq. 7), in one forward and one backward pass.

    linear: φ_m is the client's own. hyper: φ_m = H(a_m; ν) (Eq. 11) from its class distribution a_m; all clients share
    ν. Only ν travels. A drift correction in the sum acts on θ and ψ; ν is plainly averaged, by samples.
    """

    acts: ClassVar[Acts] = "loss"
    needs_classes: ClassVar[bool] = True
    role: ClassVar[str | None] = "loss"
    module: ClassVar[str] = "p_head"  # its name in the net
    shows: ClassVar[tuple[str, ...]] = ("cross_client(clients=12, samples=50)",)  # Figure 11

    head: Literal["linear", "hyper"] = Field(
        "hyper",
        description="the personal head: the client's own, or generated",
        json_schema_extra=tried("linear", "hyper"),
    )
    loss: Literal["bsm", "ir", "ldam", "cdt", "ce", "meta-bsm", "resampling"] = Field(
        "bsm", description="L_BR of the generic model"
    )
    gamma: float | None = Field(None, ge=0, description="γ of that loss; left out: the loss's own")
    p_init: Literal["normal", "zero"] = Field("normal", description="first weights of the personal head")
    hidden: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        "auto",
        description="hidden units of the hypernetwork; auto: the paper's, 32 for colour images of ten classes or "
        "fewer (CIFAR-10), else 16",
        json_schema_extra=tried(16, 32),
    )
    layers: int = Field(
        1,
        ge=1,
        le=4,
        description="layers of a linear personal head, with as many hidden units as features (the appendix: 1 to 4)",
    )
    virtual: Literal["full", "head"] = Field("full", description="of loss=meta-bsm: its virtual step")
    meta_loss: Literal["ce", "literal"] = Field("ce", description="of loss=meta-bsm: its loss on the shared set")
    learn_gamma: bool = Field(True, description="of loss=meta-bsm: learn γ beside the weights, or leave it as it is")
    eta: float | None = Field(
        None, gt=0, description="of loss=meta-bsm: its step size; left out: the round's learning rate"
    )

    def settled(self, net: Net, facts: Facts) -> Part:
        """Return the part with the paper's hidden units for such data, where they are "auto"."""
        if self.hidden != "auto":
            return self
        shape = net.input.shape
        colour = net.input.kind == "image" and shape[0] == 3
        return self.model_copy(update={"hidden": 32 if colour and facts.classes <= 10 else 16})

    @property
    def units(self) -> int:
        """Return `hidden` as a number."""
        assert self.hidden != "auto", "settled when the method is built"
        return self.hidden

    def memory(self, net: Net, facts: Facts, model: int) -> MemoryNeed | None:
        """The hypernetwork's last layer: a head of C·(d + 1) weights for each hidden unit"""
        if self.head != "hyper":
            return None
        unit = 4 * facts.classes * (1 + math.prod(net.feature_shape()))
        return MemoryNeed(COPIES * self.units * unit, option="hidden", value=self.units, model=self.units * unit)

    @field_validator("gamma")
    @classmethod
    def _not_every_loss_has_gamma(cls, gamma: float | None, info: ValidationInfo) -> float | None:
        if gamma is not None and info.data.get("loss") in ("ce", "resampling"):
            raise ValueError(f"accepted: left out, for loss={info.data['loss']} has no γ")
        return gamma

    @field_validator("layers")
    @classmethod
    def _a_generated_head_is_one_layer(cls, layers: int, info: ValidationInfo) -> int:
        if layers > 1 and info.data.get("head") == "hyper":
            raise ValueError("accepted: 1, for a generated head is one layer (or head=linear)")
        return layers

    def brings(self) -> tuple[Part, ...]:
        """Return the part of L_BR; with loss=ce there is none, and the generic model keeps cross-entropy."""
        if self.loss == "ce":
            return ()
        kind = LOSSES[self.loss]
        return (kind.model_validate(self.model_dump(include=set(kind.model_fields), exclude_none=True)),)

    def extend(self, net: Net) -> None:
        """h^P beside h^G, on the same features, with first weights of the same spread s/√(fan-in) as h^G's"""
        z = torch.zeros(1, *net.feature_shape(), device=next(net.parameters()).device)
        with torch.no_grad():
            classes = net.eval().head(z).shape[1]
        own = [p.detach() for name, p in net.named_parameters() if p.dim() > 1 and matches(name, net.head_names())][-1]
        s = 0.0 if self.p_init == "zero" else float(own.std()) * math.sqrt(own[0].numel())
        head = PersonalHead(classes, z.numel(), self.units if self.head == "hyper" else None, s, self.layers)
        net.add_module(self.module, head.to(z.device))

    def makes_from_counts(self) -> bool:
        """Return whether there is a hypernetwork: zero-shot, H(a; ν̄) needs only a_m of a client."""
        return self.head == "hyper"

    def private(self, net: Net) -> tuple[str, ...]:
        """φ_m never travels."""
        return (f"{self.module}.phi", f"{self.module}.inner")

    def before(self, t: Training, message: Message) -> None:
        """a_m, and the first φ_m of a linear head. A new client starts at φ = 0, the generic model."""
        t["fedrod.a"] = self.note(t.client, t.net)
        if self.head == "linear" and "private" not in t.client.private and not t.client.data.new:
            phi, s = t.layout.places[f"{self.module}.phi"].view(t.w), personal_head(t.net, self.module).s
            draw = torch.randn(phi.shape, generator=t.client.rng("fedrod.phi"))
            phi.copy_(draw * (s / math.sqrt(phi.shape[1])))

    def objective(self, t: Training, out: Forward, y: Tensor, loss: Tensor) -> Tensor:
        """L_BR + L_m, where L_m = CE(sg(u) + W_P sg(z), y) moves the personal head alone (Eqs. 8 and 9)"""
        head = personal_head(t.net, self.module)
        own = linear(head.hidden(out.z.detach().flatten(1)), head.weight(t["fedrod.a"], adapting=t.client.data.new))
        return loss + cross_entropy(out.logits.detach() + own, y)

    def note(self, client: Client, net: Net) -> Tensor:
        """a_m[c] = N_m,c / Σ N_m,c, which is all that zero-shot needs to know of a client"""
        return client.counts / client.counts.sum()

    def personal_logits(self, net: Net, out: Forward, note: Tensor | None) -> Tensor:
        """ŷ_P = h^G(z; ψ) + h^P(z; φ_m); without a note of the client, h^G alone"""
        if note is None:
            return out.logits
        head = personal_head(net, self.module)
        return out.logits + linear(head.hidden(out.z.flatten(1)), head.weight(note))

    def constants(self, net: Net, note: Tensor | None) -> Mapping[str, Tensor]:
        """W_P, as it is for this client"""
        if self.layers > 1:
            raise MotetError(
                f"fedrod(layers={self.layers}) has a personal head that is no one matrix; accepted: layers=1, or "
                f"--format torch.export or onnx, which keep the computation itself"
            )
        return {} if note is None else {"matrix": personal_head(net, self.module).weight(note)}


class PersonalHead(nn.Module):
    """W_P = φ, plus H(a; ν) where there is a hypernetwork: C → hidden → C·d, no bias anywhere.

    The first W_P is N(0, s²/d), with s = 0 for a head that starts at zero: φ as its client draws it, 0 until then; and
    H(a; ν) where a is one class (smaller where it is many), with a first layer as is usual before a ReLU. With more
    than one layer, W_P acts on ReLU(W_k … ReLU(W_1 z)), which are the client's own too and begin alike everywhere.
    """

    def __init__(self, classes: int, features: int, hidden: int | None, s: float, layers: int = 1):
        super().__init__()
        self.s, self.phi = s, nn.Parameter(torch.zeros(classes, features))
        std = math.sqrt(2 / features)
        self.inner = nn.ParameterList(torch.randn(features, features) * std for _ in range(layers - 1))
        self.H: nn.Sequential | None = None
        if hidden is not None:
            first, last = nn.Linear(classes, hidden, bias=False), nn.Linear(hidden, classes * features, bias=False)
            nn.init.normal_(first.weight, std=math.sqrt(2 / classes))
            nn.init.normal_(last.weight, std=s * math.sqrt(classes / (hidden * features)))
            self.H = nn.Sequential(first, nn.ReLU(), last)

    def hidden(self, z: Tensor) -> Tensor:
        """Return what W_P acts on: z itself, or what the hidden layers make of it."""
        for W in self.inner:
            z = relu(linear(z, W))
        return z

    def weight(self, a: Tensor, adapting: bool = False) -> Tensor:
        """linear: φ. hyper: in the rounds ν learns and φ stays 0; a new client's head learns φ on top of H(a; ν̄)."""
        if self.H is None:
            return self.phi
        generated: Tensor = self.H(a.to(self.phi)).view_as(self.phi)
        return generated.detach() + self.phi if adapting else generated + self.phi.detach()


def personal_head(net: Net, module: str = FedROD.module) -> PersonalHead:
    """Return the personal head that `extend` added to the net."""
    head = net.get_submodule(module)
    assert isinstance(head, PersonalHead)
    return head


ENTRY = MethodEntry(
    "fedrod",
    "balanced generic head, personal head on top of it",
    "Chen and Chao 2022",
    part=FedROD,
    stays="its linear personal head",
    down="1 + hypernetwork",
    up="1 + hypernetwork",
)
