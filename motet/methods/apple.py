"""APPLE (Luo and Wu 2022): every client has a core model, and learns how much it takes of each client's core."""

import math
from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from motet.config.section import Section
from motet.messages.message import Message, State, number, tensor
from motet.messages.replies import Rule
from motet.methods.averaging import Averaging
from motet.methods.base import Facts, Learned, LearnedFigure, MethodEntry
from motet.training.client import Client


class APPLE(Averaging):
    """θ_i = Σ_j p_ij·c_j. Per step c_i ← c_i − η·p_ii·∇f and p_ij ← p_ij − η₂(⟨∇f, c_j⟩ + λ(r)μ(p_ij − p⁰_j)).

    λ(r) = (cos(rπ/L) + 1)/2 before round L, then 0; p⁰_j = n_j/n, where p_i begins too. A client downloads all cores
    and uploads its own. There is no global model. (The released code has no ½ in the penalty: it is twice as strong.)
    """

    assumes_sgd = "it trains a core and its weights p together by SGD"
    averages: ClassVar[bool] = False
    uploads: Mapping[str, Rule] = {"apple.core": "each", "n": "sum"}

    class Options(Section):
        """Options of `apple(...)`."""

        p_lr: float = Field(0.001, gt=0, description="η₂, step size of p; decays as the learning rate does")
        mu: float = Field(0.1, ge=0, description="μ, how strongly p stays near p⁰")
        until: float = Field(0.2, ge=0, le=1, description="L as a share of the rounds: how long p is held near p⁰")
        core_rate: Literal["plain", "scaled"] = Field(
            "plain", description="step size of the core: η, or N·η, which makes up for p_ii = 1/N at the start"
        )
        schedule: Literal["cosine", "exponential"] = Field("cosine", description="λ(r), or 0.001^(r/L)")

    options: Options

    def refuse(self, facts: Facts) -> str | None:
        """Return a sentence unless all clients take part in every round, as all cores are needed."""
        if facts.cohort < facts.clients:
            return f"apple asks all {facts.clients} clients in every round; accepted: rounds.cohort = 1.0"
        return super().refuse(facts)

    # ------------------------------------------------------------ server

    def start(self) -> State:
        """c_j = the first weights, for every client j"""
        return {"apple.cores": self.fresh.repeat(self.facts.clients, 1)}

    def broadcast(self, server: State, client_id: int, scoring: bool = False) -> Message:
        """Return all cores, and λ(r)."""
        sizes = torch.tensor(self.facts.samples or [1] * self.facts.clients, dtype=self.fresh.dtype)
        message: Message = {"apple.cores": server["apple.cores"], "apple.p0": sizes / sizes.sum()}
        return message if scoring else message | {"apple.lambda": self.held(self.serving(server).round - 1)}

    @property
    def settled_after(self) -> int:
        """Return L, the round after which nothing holds p_i near p⁰."""
        return int(self.options.until * self.facts.rounds)

    def held(self, r: int) -> float:
        """λ(r), rounds counted from 0"""
        L = self.options.until * self.facts.rounds
        if self.options.schedule == "exponential":
            return 0.001 ** (r / L) if L else 0.0
        return (math.cos(r * math.pi / L) + 1) / 2 if r < L else 0.0

    def aggregate(self, server: State, replies: Mapping[int, Message]) -> State:
        """Replace c_i of every client."""
        cores = tensor(server, "apple.cores").clone()
        for i, reply in replies.items():
            cores[self.facts.ids.index(i)] = tensor(reply, "apple.core")
        return {"apple.cores": cores}

    def generic(self, server: State) -> Tensor | None:
        """Return None: there is no global model."""
        return None

    # ------------------------------------------------------------ client

    def train(self, client: Client, message: Message) -> Message:
        """Train the core c_i and p_i together, and return c_i."""
        cores, moving = tensor(message, "apple.cores").clone(), self.layout.trainable
        i, p, p0 = self.facts.ids.index(client.id), self.p(client, message).clone(), tensor(message, "apple.p0")
        pull = self.options.mu * number(message, "apple.lambda")
        rate = self.options.p_lr * client.local.lr_decay ** max(client.round - 1, 0)
        scale = self.facts.clients if self.options.core_rate == "scaled" else 1
        theta, v, descent = self.mixed(p, cores), torch.zeros_like(p), client.descent(lr=client.lr * scale)
        G, core, g = torch.zeros_like(theta), cores[i], torch.zeros_like(theta)
        self.layout.bind(self.net.train(), theta, G)

        def gradient(x: Tensor, y: Tensor) -> None:
            nonlocal p
            theta[moving] = p @ cores[:, moving]
            G.zero_()
            with self.net.collecting():
                loss = self.net.training_loss(self.net(x), y)
                loss.backward()  # type: ignore[no-untyped-call]
            descent.note(loss, len(y))
            g[moving] += p[i] * G[moving]
            v.mul_(descent.settings.momentum).add_(cores[:, moving] @ G[moving] + pull * (p - p0))
            p = p - rate * v

        descent.run(client.data.train, core[moving], g[moving], gradient)
        theta[moving] = p @ cores[:, moving]
        core[: moving.start] = theta[: moving.start]  # statistics
        client.private["apple.p"] = p
        client.offer_model(theta)
        return {"apple.core": core.clone(), "n": client.samples}

    def p(self, client: Client, message: Message) -> Tensor:
        """p_i, or p⁰ before the first round and for a new client"""
        return tensor({"apple.p": tensor(message, "apple.p0"), **client.private}, "apple.p")

    def received(self, client: Client, message: Message) -> Tensor:
        """θ_i from the cores just received"""
        return self.mixed(self.p(client, message), tensor(message, "apple.cores"))

    def mixed(self, p: Tensor, cores: Tensor) -> Tensor:
        """Σ_j p_j·c_j; weights that are frozen in the net stay"""
        return self.layout.keep(p @ cores, cores[0])

    def client_snapshot(self, client: Client, message: Message) -> Message:
        """p_i"""
        return {"apple.p": self.p(client, message)}

    def figures_learned(self, learned: Learned) -> list[LearnedFigure]:
        """p_i of every client"""
        if not learned.snapshots:
            return []
        return [
            LearnedFigure.heatmap(
                "apple-shares",
                "APPLE: what each client takes of everybody's core model (p)",
                "The diagonal is a client's own core; high values beside it are clients that it learned to use.",
                [tensor(snapshot, "apple.p").tolist() for snapshot in learned.snapshots.values()],
                x=learned.clients("client j, whose core"),
                y=learned.clients_with_snapshot("client i, who takes it"),
            )
        ]


ENTRY = MethodEntry(
    "apple",
    "every client learns what to take of everybody's core model",
    "Luo and Wu 2022",
    whole=APPLE,
    stays="its shares p_i",
    down="N",
)
