"""Per-FedAvg (Fallah, Mokhtari and Ozdaglar 2020): a global model that is one step away from each client's own."""

from typing import ClassVar, Literal

from pydantic import Field
from torch import Tensor, nn

from motet.config.section import tried
from motet.messages.message import Message
from motet.methods.averaging import Averaging
from motet.methods.base import MethodEntry, Training
from motet.training.client import Client
from motet.training.local import Descent


class PerFedAvg(Averaging):
    """min_w Σ_i f_i(w − α∇f_i(w)): each batch is cut into D, D′ (and D″).

    first order: w̃ = w − α∇f(w; D), then w ← w − β∇f(w̃; D′). Hessian-free: g = ∇f(w̃; D′) loses
    α·(∇f(w + δg; D″) − ∇f(w − δg; D″))/(2δ), the second derivative in g's direction. β is the local learning rate.
    The personal model is the global one after `steps` plain steps of rate α on the client's data.
    """

    carries: ClassVar[tuple[str, ...]] = ("*",)
    personal_from_global = True

    class Options(Averaging.Options):
        """Options of `per-fedavg(...)`."""

        alpha: float = Field(
            0.01, ge=0, description="α, step size of the inner step", json_schema_extra=tried(1e-2, 1e-3, 1e-4)
        )
        variant: Literal["fo", "hf"] = Field("fo", description="first order, or Hessian-free")
        delta: float = Field(1e-3, gt=0, description="δ, of the difference in the Hessian-free variant")
        steps: int = Field(1, ge=0, description="steps of rate α from the global to a personal model")

    options: Options

    def gradient(self, t: Training, x: Tensor, y: Tensor) -> None:
        """∇f(w̃; D′), without (fo) or with (hf) the second-order term; a client that adapts takes plain steps."""
        pieces = 2 if self.options.variant == "fo" else 3
        least = 2 if t.net.normalizes_batches else 1  # how many samples a piece needs for a gradient
        if t.client.data.new or len(y) // pieces < least:
            t.backward(x, y)
            return
        D, *others = zip(x.tensor_split(pieces), y.tensor_split(pieces), strict=True)
        alpha, delta = self.options.alpha, self.options.delta
        g = t.gradient_at(self.moved(t, t.gradient_at(t.w, *D), -alpha), *others[0])
        if self.options.variant == "hf":
            ahead, back = (t.gradient_at(self.moved(t, g, step), *others[1]) for step in (delta, -delta))
            g = g - alpha * (ahead - back) / (2 * delta)
        t.add(g)

    def moved(self, t: Training, direction: Tensor, step: float) -> Tensor:
        """Return the trainable weights after a step along a direction."""
        w, moving = t.w.clone(), t.layout.trainable
        w[moving] += step * direction[moving]
        return w

    def personal(self, client: Client, message: Message) -> nn.Module | None:
        """w − α∇f_i(w), `steps` times; a new client's is made by `adapt`"""
        if client.data.new or not self.options.steps:
            return super().personal(client.from_the_global_model(), message)
        plain = {"momentum": 0.0, "weight_decay": 0.0, "steps": self.options.steps, "clip": 0.0}
        rule = client.local.model_copy(update=plain)
        descent = Descent(rule, self.options.alpha, client.rng("per-fedavg"), joins_lone=client.context.joins_lone)
        t = self.training(client, message, (), descent)
        t.bind()
        descent.run(client.data.train, t.w[self.layout.trainable], t.g[self.layout.trainable], t.backward)
        return self.predictor(client, t.w)


ENTRY = MethodEntry(
    "per-fedavg", "a global model one step from each client's own", "Fallah et al. 2020", whole=PerFedAvg
)
