"""FedFomo (Zhang et al. 2021): each client mixes in the models of others that help on its own validation data."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from motet.config.section import Section, tried
from motet.data import Samples
from motet.messages.message import Message, State, tensor
from motet.messages.replies import Rule
from motet.methods.averaging import Averaging
from motet.methods.base import Facts, Learned, LearnedFigure, MethodEntry, Training
from motet.training.client import Client

PASS_BATCH = 1000


class FedFomo(Averaging):
    """w_n ∝ max(0, (L_i(θ_i) − L_i(θ_n)) / ‖θ_n − θ_i‖), θ_i ← θ_i + Σ_n w_n(θ_n − θ_i); then local steps.

    L_i is the loss on the client's validation data. The server keeps every client's last model and sends each client
    the M others that helped it most so far (P_i, the sum of its w_n), or with probability ε others at random. There is
    no global model. (The released code takes another norm, and adds negative weights to P.)
    """

    carries: ClassVar[tuple[str, ...]] = ("mr", "prbm", "dbe", "bsm", "ir", "ldam", "cdt", "shared-data", "moon")
    tells = frozenset({"how much others' models help it"})
    needs_validation = True
    averages: ClassVar[bool] = False
    uploads: Mapping[str, Rule] = {"w": "each", "fedfomo.p": "each", "n": "sum"}

    class Options(Section):
        """Options of `fedfomo(...)`."""

        M: int = Field(
            5, ge=1, description="M, models sent to a client (the papers: 5 to 8)", json_schema_extra=tried(5, 8)
        )
        epsilon: float = Field(0.3, ge=0, le=1, description="ε, chance that they are drawn at random")

    options: Options

    def refuse(self, facts: Facts) -> str | None:
        """Return a sentence unless every client has validation data, on which it judges the others' models."""
        if facts.validating < facts.clients:
            return (
                f"fedfomo weighs models on validation data, and {facts.clients - facts.validating} of {facts.clients} "
                "clients have none; accepted: a data.val_share that leaves some to everybody"
            )
        return super().refuse(facts)

    # ------------------------------------------------------------ server

    def start(self) -> State:
        """P = 0, and no client's model yet"""
        N, d = self.facts.clients, self.layout.shared.stop
        none: State = {"fedfomo.models": torch.zeros(0, d), "fedfomo.who": torch.zeros(0, dtype=torch.int64)}
        return super().start() | none | {"fedfomo.P": torch.zeros(N, N)}

    def broadcast(self, server: State, client_id: int, scoring: bool = False) -> Message:
        """Return other clients' models; nothing for scoring, where the client uses its own model."""
        message = super().broadcast(server, client_id, scoring)
        del message["w"]
        if not scoring or client_id not in self.facts.ids:
            rows = self.chosen(server, client_id)
            message["fedfomo.models"] = tensor(server, "fedfomo.models")[rows]
            message["fedfomo.who"] = tensor(server, "fedfomo.who")[rows]
        return message

    def chosen(self, server: State, client_id: int) -> Tensor:
        """Return the M rows with most of P_i, in the order of P_i; or, with probability ε, random rows."""
        rng, who = self.serving(server).rng(f"fedfomo-{client_id}"), tensor(server, "fedfomo.who")
        drawn = torch.randperm(len(who), generator=rng)
        others = drawn[who[drawn] != client_id]  # in random order, which also breaks ties
        if client_id in self.facts.ids and float(torch.rand((), generator=rng)) >= self.options.epsilon:
            helped = tensor(server, "fedfomo.P")[self.facts.ids.index(client_id)]
            places = torch.tensor([self.facts.ids.index(int(i)) for i in who[others]], dtype=torch.int64)
            others = others[helped[places].argsort(descending=True, stable=True)]
        return others[: self.options.M]

    def aggregate(self, server: State, replies: Mapping[int, Message]) -> State:
        """Keep every client's newest model; P_i += w_n"""
        server, w = dict(server), tensor(server, "w")
        models = dict(zip(tensor(server, "fedfomo.who").tolist(), tensor(server, "fedfomo.models"), strict=True))
        models |= {i: tensor(reply, "w") for i, reply in replies.items()}
        server["fedfomo.who"] = torch.tensor(sorted(models))
        server["fedfomo.models"] = torch.stack([models[i] for i in sorted(models)])
        P = tensor(server, "fedfomo.P").clone()
        for i, reply in replies.items():
            P[self.facts.ids.index(i)] += tensor(reply, "fedfomo.p")
        server["fedfomo.P"] = P
        for part in self.parts:
            part.aggregate(self.serving(server, w), replies)
        return server

    def generic(self, server: State) -> Tensor | None:
        """Return None: there is no global model."""
        return None

    def figures_learned(self, learned: Learned) -> list[LearnedFigure]:
        """P"""
        weights = LearnedFigure.heatmap(
            "fedfomo-weights",
            "FedFomo: how much others' models helped each client (the sum of its weights)",
            "A high value is a model that lowered the client's loss on its validation data, round after round.",
            tensor(learned.server, "fedfomo.P"),
            x=learned.clients("client n, whose model"),
            y=learned.clients("client i, who mixes it in"),
        )
        return [*super().figures_learned(learned), weights]

    # ------------------------------------------------------------ client

    def round_training(self, client: Client, message: Message) -> Training:
        """Return a training that starts from the mixture of the models that help."""
        start, weights = self.mixture(client, message)
        t = self.training(client, message, self.parts, client.descent(), start)
        t["fedfomo.p"] = weights
        return t

    def end_round(self, t: Training) -> Message:
        """Keep θ_i, and return it with w_n, which says which models helped."""
        t.client.private["fedfomo.w"] = t.w
        return super().end_round(t) | {"fedfomo.p": t["fedfomo.p"]}

    def mixture(self, client: Client, message: Message) -> tuple[Tensor, Tensor]:
        """θ_i + Σ_n w_n(θ_n − θ_i), and w_n for each of the training clients."""
        own, shared = self.received(client, message), self.layout.shared
        models, who = tensor(message, "fedfomo.models"), tensor(message, "fedfomo.who").tolist()
        weights = torch.zeros(self.facts.clients).to(own)
        if who:
            away = models.to(own) - own[shared]
            base = self.risk(own, client.data.val)
            gains = [
                base - self.risk(torch.cat([m.to(own), own[self.layout.private]]), client.data.val) for m in models
            ]
            helps = (torch.tensor(gains).to(own) / away.norm(dim=1).clamp_min(1e-12)).clamp_min(0)
            helps = helps / helps.sum() if helps.sum() > 0 else helps
            weights[[self.facts.ids.index(i) for i in who]] = helps
            own = own.clone()
            own[shared] += helps @ away
        return own, weights

    def risk(self, w: Tensor, samples: Samples) -> float:
        """L_i on some samples."""
        self.layout.bind(self.net.eval(), w)
        total = 0.0
        with torch.no_grad():
            for x, y in samples.all_batches(PASS_BATCH):
                total += float(self.net.training_loss(self.net(x.to(w.device)), y.to(w.device), reduction="sum"))
        return total / max(1, len(samples))

    def received(self, client: Client, message: Message) -> Tensor:
        """Return the client's own model; without one, the mean of the models it was sent, or the first weights."""
        if "fedfomo.w" in client.private:
            return tensor(client.private, "fedfomo.w")
        w, models = self.fresh.clone(), message.get("fedfomo.models")
        if client.data.new and isinstance(models, Tensor) and len(models):
            w[self.layout.shared] = models.mean(0).to(w)
        return self.layout.keep(w, self.fresh)

    def personal_weights(self, client: Client, message: Message) -> Tensor | None:
        """θ_i"""
        return self.received(client, message)


ENTRY = MethodEntry(
    "fedfomo",
    "mix in the models of others that help",
    "Zhang et al. 2021",
    whole=FedFomo,
    stays="its own model",
    down="M",
)
