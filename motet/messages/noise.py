"""The transform `noise`: clipped changes and Gaussian noise on their sum, with an account of the privacy it spends.

DP-FedAvg (McMahan et al. 2018) with a cohort of fixed size. Each client's change, over all fields that travel, is
clipped to `norm`; the sum over the cohort gets noise of deviation `multiplier` x `norm` in every number. The divisor of
a mean is the size of the cohort, whoever fails: a client that diverged counts as one that changes nothing.

at=server   the server clips and adds the noise: it is trusted, and ε is about who sees the models
at=client   each client clips and adds a share of the noise, 1/cohort of its variance; the shares add up to the same. A
            single reply is protected by its share alone, unless `mask` follows: then the server sees only the sum
"""

import math
from collections.abc import Callable
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from motet.errors import MotetError
from motet.messages.clip import clipped
from motet.messages.message import Message
from motet.messages.privacy_account import import_accounting, spent_epsilon
from motet.messages.transform import Arrival, RunPlan, Sender, Transform, TransformEntry


class GaussianNoise(Transform):
    """Clips changes to `norm` and adds noise of `multiplier` x `norm` to their sum."""

    replaces_failed = True

    norm: float = Field(1.0, gt=0, description="the largest L2 norm of what one reply changes")
    multiplier: float = Field(1.0, gt=0, description="deviation of the noise on the sum of a round, in norms")
    delta: float = Field(1e-5, gt=0, lt=1, description="δ at which ε is told; below one over the number of clients")
    at: Literal["server", "client"] = Field("server", description="who clips and adds noise; client: each a share")

    def refuse(self, plan: RunPlan) -> str | None:
        """Return why some of what travels would not be covered, or why its account would be wrong."""
        import_accounting()
        if why := uncovered(plan, "noise"):
            return why
        for field, rule in plan.uploads.items():
            if rule == "mean" and tuple(plan.weightings(field)) != ("uniform",):
                return (
                    f"reply field {field!r} is a mean weighted by numbers of samples, which no noise covers; accepted: "
                    f"a method that weighs clients alike, such as fedavg(weighting=uniform)"
                )
        if plan.statistics:
            return (
                "reply field 'w' has running statistics of batch normalization, whose variances noise makes negative; "
                "accepted: net.batch_statistics = true, a net without BatchNorm, or fedbn"
            )
        if plan.chosen_by_scores:
            return f"no noise covers scores, and {plan.chosen_by_scores}"
        others = [each for each in plan.transforms if each is not self]
        if any(isinstance(each, GaussianNoise) for each in others):
            return "noise stands there twice, and the account is of one; accepted: noise once"
        if any(each.compresses for each in plan.transforms[: plan.position(self)]):
            return "what is compressed cannot be clipped; accepted: noise before it, as in noise+int8"
        if self.at == "client" and any(each.compresses for each in others):
            return (
                "noise(at=client) is private in the sum of its shares, and a compression of each is none; accepted: "
                "noise(at=server)"
            )
        return None

    def pack(self, client: Sender, message: Message, reply: Message) -> Message:
        """Return the reply without the number of samples; at=client: clipped, with this client's share of the noise."""
        for name, value in reply.items():
            if name != "n" and not (isinstance(value, Tensor) and value.is_floating_point()):
                kind = f"a tensor of {value.dtype}" if isinstance(value, Tensor) else "a number"
                raise MotetError(
                    f"reply field {name!r} is {kind}, which noise does not cover; accepted: tensors of floats, which "
                    f"are added up over clients"
                )
        if self.at == "client":
            reply = self._clipped(message, reply)
            reply = self._noisy(reply, client.cohort, client.secret_rng)
        return reply | {"n": 1} if "n" in reply else reply

    def open(self, arrival: Arrival, message: Message, reply: Message) -> Message:
        """Return the reply, at=server clipped and with one client's share of the noise, so that shares add up."""
        if self.at == "client":
            return reply
        return self._noisy(self._clipped(message, reply), arrival.cohort, arrival.rng)

    def stand_in(self, arrival: Arrival, message: Message, reply: Message) -> Message:
        """Return no change with the share of the noise that is missing otherwise, so that ε holds as accounted."""
        return self._noisy(reply, arrival.cohort, arrival.rng)

    def spent(self, plan: RunPlan, rounds: int) -> dict[str, float]:
        """Return ε and δ after so many rounds."""
        epsilon = spent_epsilon(self.multiplier, plan.clients, plan.cohort, rounds, self.delta)
        return {"epsilon": epsilon, "delta": self.delta}

    def _clipped(self, message: Message, reply: Message) -> Message:
        return clipped(message, reply, self.norm)

    def _noisy(self, reply: Message, cohort: int, rng: Callable[[str], torch.Generator]) -> Message:
        """Return the reply with one of `cohort` shares of the noise in every number of its tensors."""
        deviation, found = self.multiplier * self.norm / math.sqrt(cohort), dict(reply)
        for name, value in reply.items():
            if isinstance(value, Tensor):
                noise = torch.randn(value.shape, generator=rng(f"noise/{name}"))
                found[name] = value + deviation * noise.to(value)
        return found


def uncovered(plan: RunPlan, name: str) -> str | None:
    """Return a sentence about the first thing that travels and that a transform of sums cannot cover, or None."""
    for field, rule in plan.uploads.items():
        if rule == "each":
            return (
                f"reply field {field!r} is used of each client by itself, and {name} covers sums and means alone; "
                f"accepted: a method all of whose uploads are sums or means (`motet list methods`)"
            )
    for what, instead in plan.travels_beside.items():
        return f"{what}, which {name} does not cover; accepted: {instead}"
    return None


ENTRY = TransformEntry(
    "noise", "clip, and Gaussian noise on the sum, with an (ε, δ) account", "McMahan et al. 2018", GaussianNoise
)
