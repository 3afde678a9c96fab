"""Ditto (Li et al. 2021): beside the global model, a personal one that stays near it."""

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field
from torch import Tensor, nn

from motet.config.section import tried
from motet.errors import Diverged
from motet.messages.message import Message, tensor
from motet.methods.averaging import Averaging
from motet.methods.base import Facts, Family, MethodEntry, Part
from motet.methods.base.local_steps import learn_batched
from motet.methods.fedprox import FedProx
from motet.nets import Net
from motet.training.client import Client
from motet.training.flat_weights import is_finite
from motet.training.local import NOT_FINITE


class Ditto(Averaging):
    """w by FedAvg; beside it each client's own v: min f_i(v) + (λ/2)‖v − w‖², with w as received (Algorithm 1).

    Parts that serve the client act in v's training too.
    """

    carries: ClassVar[tuple[str, ...]] = ("*",)
    plain_steps: ClassVar[bool] = True  # of w and of v
    family = Family(("v", "w_i"), fixed="v")  # the personal model, and the client's own FedAvg model

    class Options(Averaging.Options):
        """Options of `ditto(...)`."""

        lam: float = Field(
            1.0,
            ge=0,
            description="λ, how strongly v stays near w (the paper's grid: 0.1, 1, 2)",
            json_schema_extra=tried(0.1, 1.0, 2.0),
        )
        first: Literal["initial", "received"] = Field(
            "initial", description="v before the client's first training: the first weights, or the w it receives"
        )

    options: Options

    def __init__(self, net: Net, options: Options, parts: Sequence[Part], facts: Facts):
        super().__init__(net, options, parts, facts)
        self.near = FedProx(mu=options.lam)

    def train(self, client: Client, message: Message) -> Message:
        """FedAvg's own training of w; and v ← v − η(∇f_i(v) + λ(v − w))"""
        start = self.v(client, message)
        reply = super().train(client, message)
        t = self.personal_training(client, message, start, "ditto", self.near)
        self.learn(t, client.data.train)
        client.private["ditto.v"] = t.w
        return reply

    def train_batched(self, clients: Sequence[Client], messages: Sequence[Message]) -> list[Message | Diverged]:
        """Train the w of several clients as one computation, then their v"""
        starts = [self.v(*of) for of in zip(clients, messages, strict=True)]
        replies = super().train_batched(clients, messages)
        ts = [
            self.personal_training(client, message, start, "ditto", self.near)
            for client, message, start in zip(clients, messages, starts, strict=True)
        ]
        learn_batched(self.net, self.layout, sorted(ts, key=lambda t: -t.descent.count(t.client.samples)))
        for t in ts:
            t.client.private["ditto.v"] = t.w
        return [reply if is_finite(t.w) else Diverged(NOT_FINITE) for reply, t in zip(replies, ts, strict=True)]

    def v(self, client: Client, message: Message) -> Tensor:
        """The client's own v."""
        first = self.fresh if self.options.first == "initial" else self.received(client, message)
        return tensor({"ditto.v": first, **client.private}, "ditto.v")

    def personal_weights(self, client: Client, message: Message) -> Tensor | None:
        """v; one who never trained has the model that FedAvg would serve"""
        if "ditto.v" in client.private:
            return tensor(client.private, "ditto.v")
        return super().personal_weights(client, message)

    def member(self, client: Client, message: Message, name: str) -> nn.Module:
        """v, or w_i, the client's w after its last training."""
        w = self.personal_weights(client, message) if name == "v" else super().personal_weights(client, message)
        assert w is not None
        return self.predictor(client, w)


ENTRY = MethodEntry(
    "ditto", "a personal model near the global one", "Li et al. 2021", whole=Ditto, stays="its personal model v"
)
