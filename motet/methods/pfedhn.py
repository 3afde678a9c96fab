"""pFedHN (Shamsian et al. 2021): a hypernetwork at the server makes every client's model from its embedding."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from motet.config.section import tried
from motet.messages.message import Message, State, tensor
from motet.messages.replies import Rule
from motet.methods.averaging import Averaging
from motet.methods.base import Facts, Learned, LearnedFigure, MethodEntry, Part
from motet.methods.base.learned_figure import MOST
from motet.nets import Net
from motet.training.client import Client
from motet.training.flat_weights import Layout
from motet.training.randomness import seeded


class PFedHN(Averaging):
    """θ_i = h(e_i; φ); local steps make it θ̃_i; then (∂θ_i/∂(φ, e))ᵀ(θ_i − θ̃_i) is the gradient of φ and e.

    The server takes one step per round by the mean of the cohort's gradients, each clipped; with a cohort of one, as
    the released code has it, that is a step per client. Momentum and weight decay act on all embeddings, also those of
    clients that took no part (as in the released code). Statistics of a net are averaged. A new client receives φ and
    fits its own e. There is no global model.
    """

    personalizes = True  # the server makes each client a model of its own
    uploads: Mapping[str, Rule] = {"w": "each"}  # a step for each client
    carries: ClassVar[tuple[str, ...]] = ("mr", "prbm", "dbe", "bsm", "ir", "ldam", "cdt", "shared-data")

    class Options(Averaging.Options):
        """Options of `pfedhn(...)`."""

        lr: float = Field(
            0.03,
            gt=0,
            description="step size of φ and e at the server (the authors: 0.01, one client a round)",
            json_schema_extra=tried(0.01, 0.03, 0.1),
        )
        step: Literal["mean", "each"] = Field(
            "mean", description="a round's steps: one by the mean over its clients, or one after another for each"
        )
        momentum: float = Field(0.9, ge=0, lt=1, description="momentum of these steps")
        weight_decay: float = Field(1e-3, ge=0, description="pull of φ and e towards zero")
        clip: float = Field(50.0, gt=0, description="largest norm of their gradient")
        hidden: int = Field(100, ge=1, description="units of each hidden layer")
        layers: int = Field(3, ge=0, description="hidden layers after the first")
        embedding: int = Field(0, ge=0, description="length of e; 0: ⌊1 + N/4⌋")

    options: Options

    def __init__(self, net: Net, options: Options, parts: Sequence[Part], facts: Facts):
        super().__init__(net, options, parts, facts)
        generated = [p.where for p in self.layout.places.values() if p.is_trained and self.travelling(p.where)]
        sizes = [where.stop - where.start for where in generated]
        width = options.embedding or 1 + facts.clients // 4
        with seeded(facts.seed, "pfedhn"):
            self.hyper = Hypernetwork(facts.clients, width, options.hidden, options.layers, sizes)
        self.phi = Layout(self.hyper)
        self.first = self.phi.flatten(self.hyper)

    def travelling(self, where: slice) -> bool:
        """Return whether the hypernetwork makes this tensor."""
        return bool(where.stop <= self.layout.shared.stop)

    # ------------------------------------------------------------ server

    def start(self) -> State:
        """Return initial φ and e, and the net's statistics."""
        statistics = self.fresh[: self.layout.trainable.start].clone()
        server: State = {"pfedhn.phi": self.first.clone(), "pfedhn.velocity": torch.zeros_like(self.first)}
        for part in self.parts:
            part.start(self.serving(server))
        return server | {"pfedhn.statistics": statistics}

    def broadcast(self, server: State, client_id: int, scoring: bool = False) -> Message:
        """θ_i; for a new client φ too, and the model of the mean embedding"""
        message: Message = {}
        for part in self.parts:
            if part.serves_prediction or not scoring:
                part.broadcast(self.serving(server), client_id, message)
        known = client_id in self.facts.ids
        with torch.no_grad():
            theta = self.made(tensor(server, "pfedhn.phi"), self.facts.ids.index(client_id) if known else None)
        message["w"] = torch.cat([tensor(server, "pfedhn.statistics"), theta])
        return message if known else message | {"pfedhn.phi": server["pfedhn.phi"]}

    def made(self, phi: Tensor, which: int | None) -> Tensor:
        """h(e; φ) of a client, or of the mean of all embeddings"""
        self.phi.bind(self.hyper, phi)
        e = self.hyper.embeddings.weight
        made: Tensor = self.hyper(e.mean(0) if which is None else e[which])
        return made

    def aggregate(self, server: State, replies: Mapping[int, Message]) -> State:
        """φ, e ← SGD with the mean over clients of (∂θ_i/∂(φ, e))ᵀ(θ_i − θ̃_i)"""
        server, options, at = dict(server), self.options, self.layout.trainable.start
        sent = {i: tensor(self.broadcast(server, i, scoring=True), "w")[at:] for i in replies}
        phi, v = tensor(server, "pfedhn.phi").clone(), tensor(server, "pfedhn.velocity").clone()
        ids = list(replies)
        for some in [ids] if options.step == "mean" else [[i] for i in ids]:
            g = torch.zeros_like(phi)
            for i in some:
                g += self.gradient_of(phi, i, sent[i] - tensor(replies[i], "w")[at:]) / len(some)
            v = options.momentum * v + g + options.weight_decay * phi
            phi = phi - options.lr * v
        server["pfedhn.phi"], server["pfedhn.velocity"] = phi, v
        server["pfedhn.statistics"] = self.layout.keep(self.averaged(replies), self.fresh)[:at]
        for part in self.parts:
            part.aggregate(self.serving(server), replies)
        return server

    def gradient_of(self, phi: Tensor, client_id: int, change: Tensor) -> Tensor:
        """(∂θ_i/∂(φ, e))ᵀ(θ_i − θ̃_i), no longer than `clip`"""
        g = torch.zeros_like(phi)
        theta = self.made(phi, self.facts.ids.index(client_id))
        self.phi.bind(self.hyper, phi, g)
        theta.backward(change)  # type: ignore[no-untyped-call]
        return g.mul_(min(1.0, self.options.clip / (float(g.norm()) + 1e-6)))

    def generic(self, server: State) -> Tensor | None:
        """Return None: there is no global model."""
        return None

    def figures_learned(self, learned: Learned) -> list[LearnedFigure]:
        """⟨e_i, e_j⟩ / ‖e_i‖‖e_j‖"""
        self.phi.bind(self.hyper, tensor(learned.server, "pfedhn.phi"))
        e = nn.functional.normalize(self.hyper.embeddings.weight.detach()[: MOST["cells"]], dim=1)
        alike = LearnedFigure.heatmap(
            "pfedhn-embeddings",
            "pFedHN: how alike the clients' embeddings are (cosine)",
            "High values beside the diagonal are clients that the hypernetwork gives similar models.",
            e @ e.T,
            x=learned.clients(),
            y=learned.clients(),
        )
        return [*super().figures_learned(learned), alike]

    # ------------------------------------------------------------ a new client

    def adapt(self, client: Client, message: Message) -> nn.Module:
        """Fit e with φ fixed, from the mean of all embeddings, and return the model."""
        whole, at = self.received(client, message).clone(), self.layout.trainable.start
        phi, G = tensor(message, "pfedhn.phi").clone(), torch.zeros_like(whole)
        self.phi.bind(self.hyper, phi)
        e = self.hyper.embeddings.weight.detach().mean(0)
        g, end = torch.zeros_like(e), self.layout.shared.stop
        self.layout.bind(self.net.eval(), whole, G)

        def gradient(x: Tensor, y: Tensor) -> None:
            leaf = e.clone().requires_grad_()
            theta = self.hyper(leaf)
            whole[at:end] = theta.detach()
            G.zero_()
            with self.net.collecting():
                self.net.training_loss(self.net(x), y).backward()  # type: ignore[no-untyped-call]
            (slope,) = torch.autograd.grad(theta, [leaf], G[at:end])
            g.add_(slope)

        client.descent("adapt", client.adapt.epochs, client.adapt.lr).run(client.data.train, e, g, gradient)
        with torch.no_grad():
            whole[at:end] = self.hyper(e)
        return self.predictor(client, whole)


class Hypernetwork(nn.Module):
    """An embedding per client, linear layers with ReLU between them, and one linear head per tensor of the model."""

    def __init__(self, clients: int, width: int, hidden: int, layers: int, sizes: Sequence[int]):
        super().__init__()
        self.embeddings = nn.Embedding(clients, width)
        stages: list[nn.Module] = [nn.Linear(width, hidden)]
        for _ in range(layers):
            stages += [nn.ReLU(), nn.Linear(hidden, hidden)]
        self.trunk = nn.Sequential(*stages)
        self.heads = nn.ModuleList(nn.Linear(hidden, size) for size in sizes)

    def forward(self, e: Tensor) -> Tensor:
        """Return all tensors of a model as one flat vector."""
        z = self.trunk(e)
        return torch.cat([head(z) for head in self.heads])


ENTRY = MethodEntry(
    "pfedhn", "a hypernetwork at the server makes every client's model", "Shamsian et al. 2021", whole=PFedHN
)
