"""pFedMe (Dinh, Tran and Nguyen 2020): personal models by Moreau envelopes around the global one."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field
from torch import Tensor

from motet.config.section import tried
from motet.messages.message import Message, State, tensor
from motet.methods.averaging import Averaging
from motet.methods.base import MethodEntry, Training
from motet.training.client import Client


class PFedMe(Averaging):
    """min_w Σ_i F_i(w), F_i(w) = min_θ f_i(θ) + (λ/2)‖θ − w‖² (Algorithm 1).

    For each batch K steps θ ← θ − η_p(∇f(θ) + λ(θ − x)), then x ← x − ηλ(x − θ); η is the local learning rate. θ goes
    on from batch to batch and begins at the w received. The server has w ← (1 − β)w + β·mean x_i. The personal model is
    θ_i. (The released code scores x_i, and decays θ a little.)
    """

    carries: ClassVar[tuple[str, ...]] = ("*",)

    class Options(Averaging.Options):
        """Options of `pfedme(...)`."""

        lam: float = Field(
            15.0,
            ge=0,
            description="λ, how strongly θ stays near x (grid: 15, 20, 30)",
            json_schema_extra=tried(15.0, 20.0, 30.0),
        )
        K: int = Field(5, ge=1, description="K, steps of θ per batch")
        personal_lr: float = Field(0.01, gt=0, description="η_p, step size of θ")
        beta: float = Field(1.0, gt=0, description="β, the server's step (the paper: 1 or 2)")

    options: Options

    def gradient(self, t: Training, x: Tensor, y: Tensor) -> None:
        """λ(x − θ) after K steps of θ"""
        options, moving = self.options, t.layout.trainable
        theta = t.values.get("pfedme.theta", t.w).clone()
        for _ in range(options.K):
            g = t.gradient_at(theta, x, y)[moving]
            theta[moving] -= options.personal_lr * (g + options.lam * (theta[moving] - t.w[moving]))
        t["pfedme.theta"] = theta
        t.w[: moving.start], t.w[moving.stop :] = theta[: moving.start], theta[moving.stop :]  # statistics
        pull = t.w.new_zeros(len(t.w))
        pull[moving] = options.lam * (t.w[moving] - theta[moving])
        t.add(pull)

    def end_round(self, t: Training) -> Message:
        """Keep θ_i."""
        t.client.private["pfedme.theta"] = t["pfedme.theta"]
        return super().end_round(t)

    def aggregate(self, server: State, replies: Mapping[int, Message]) -> State:
        """w ← (1 − β)w + β·mean x_i"""
        after = super().aggregate(server, replies)
        if self.options.beta != 1:
            s = self.serving(after, tensor(server, "w"))
            before, mean = s.moved
            s.put((1 - self.options.beta) * before + self.options.beta * mean)
        return after

    def personal_weights(self, client: Client, message: Message) -> Tensor | None:
        """θ_i, or w at a client that never trained"""
        if "pfedme.theta" in client.private:
            return tensor(client.private, "pfedme.theta")
        return super().personal_weights(client, message)

    def adapted_weights(self, t: Training) -> Tensor:
        """θ of a new client"""
        return t["pfedme.theta"]


ENTRY = MethodEntry(
    "pfedme", "personal models by Moreau envelopes around the global one", "Dinh et al. 2020", whole=PFedMe, stays="θ_i"
)
