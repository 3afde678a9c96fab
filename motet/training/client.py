"""A client as a method sees it: its data, its class counts, its private state, its randomness."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from motet.config.scoring_section import PersonalSource
from motet.config.sections import AdaptSettings, LocalSettings, Selection
from motet.data.federation import ClientData, Samples
from motet.messages.message import State, tensor
from motet.training.local import Descent, TrainLoss
from motet.training.personal_model_policy import PersonalModelPolicy
from motet.training.randomness import generator, secret_bytes, secret_generator

_KEPT = "model"  # key in the private state: the full weights after the client's last training


@dataclass(frozen=True)
class RunContext:
    """The settings that all clients of a run share."""

    classes: int
    seed: int
    local: LocalSettings
    adapt: AdaptSettings
    policy: PersonalModelPolicy = field(default_factory=PersonalModelPolicy)
    shared_data: Samples | None = None  # the federation's small balanced set, for methods that declare it
    joins_lone: bool = False  # a last batch of one sample joins the one before, for nets that normalize over batches
    cohort: int = 1  # how many clients take part in a round
    added_up: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # how each field of a reply is
    secret: bytes = b""  # a real site's own random bytes, from which its keys and its noise come; none in a simulation


@dataclass
class Client:
    """One client in one round. `private` starts empty, is kept between rounds and never leaves the client."""

    data: ClientData
    round: int
    context: RunContext
    private: State = field(default_factory=dict)
    source: PersonalSource = "last_participation"  # how its personal model is made at this moment
    train_loss: TrainLoss = field(default_factory=TrainLoss)

    # ------------------------------------------------------------ what it is

    @property
    def id(self) -> int:
        """The client's number in the federation."""
        return self.data.id

    @property
    def samples(self) -> int:
        """n_i: how many training samples the client has."""
        return len(self.data.train)

    @property
    def classes(self) -> int:
        """The number of classes in the federation."""
        return self.context.classes

    @cached_property
    def counts(self) -> Tensor:
        """N_m: how many of the whole training set's samples are of each class."""
        return self.data.train.counts(self.classes).clone()  # the method's own, whatever it does with it

    @property
    def local(self) -> LocalSettings:
        """The [local] settings of the experiment."""
        return self.context.local

    @property
    def adapt(self) -> AdaptSettings:
        """The [adapt] settings of the experiment, for clients that took no part in training."""
        return self.context.adapt

    @property
    def shared_data(self) -> Samples | None:
        """The small balanced set that every client may see, for methods that declare `needs_shared_data`."""
        return self.context.shared_data

    @property
    def seed(self) -> int:
        """The run's seed."""
        return self.context.seed

    @property
    def cohort(self) -> int:
        """How many clients take part in a round."""
        return self.context.cohort

    @property
    def added_up(self) -> Mapping[str, tuple[str, ...]]:
        """How each field of a reply is added up: the weightings of its mean, or `sum`; none for one that is not."""
        return self.context.added_up

    @property
    def lr(self) -> float:
        """The learning rate of this round."""
        return self.local.at_round(self.round)

    # ------------------------------------------------------------ what it does

    def rng(self, purpose: str) -> torch.Generator:
        """Return a generator for this client, round and purpose."""
        return generator(self.context.seed, purpose, self.round, self.id)

    def secret(self, purpose: str) -> bytes:
        """Return 32 bytes for one purpose that only this client can know, the same in every round.

        In a simulation they come from the run's seed, at a real site from its own secret.
        """
        return secret_bytes(self.context.secret, self.context.seed, purpose, client=self.id)

    def secret_rng(self, purpose: str) -> torch.Generator:
        """Return a generator for this client, round and purpose whose draws only this client can know."""
        return secret_generator(self.context.secret, self.context.seed, purpose, self.round, self.id)

    def descent(self, purpose: str = "train", epochs: int | None = None, lr: float | None = None) -> Descent:
        """Return a local training with the experiment's settings, this round's learning rate and this client's draws.

        The losses of the purpose "train" are the client's training loss.
        """
        return Descent(
            self.local,
            self.lr if lr is None else lr,
            self.rng(purpose),
            epochs,
            augment=self.rng(f"{purpose}-augment") if self.data.train.augments else None,
            joins_lone=self.context.joins_lone,
            told=self.train_loss if purpose == "train" else None,
        )

    # ------------------------------------------------------------ its personal model

    def offer_model(self, w: Tensor) -> None:
        """Offer the full weights after a training; the client keeps them if the policy needs them."""
        if self.source == "last_participation":
            self.private[_KEPT] = w

    def kept_model(self, first: Tensor) -> Tensor | None:
        """Return the full weights of the client's last training if they are its personal model.

        Return None if the personal model is made from the server's message. `first` are the weights before the first
        round, which a client that was never sampled has if the experiment says so.
        """
        if self.source != "last_participation":
            return None
        if _KEPT in self.private:
            return tensor(self.private, _KEPT)
        initial = self.context.policy.never_sampled == "initial" and not self.data.new
        return first.clone() if initial else None

    def reading(self, source: PersonalSource) -> "Client":
        """Return a copy of the client whose personal model has this source; changes of its state are discarded."""
        return replace(self, source=source, private=dict(self.private))

    def from_the_global_model(self) -> "Client":
        """Return a copy of the client whose personal model is made from the server's message, not its last training."""
        return replace(self, source="global_plus_personal")

    def selecting(self, selection: Selection) -> "Client":
        """Return a copy of the client with this one rule for choosing the adapted model, as `adapt` expects it."""
        return self.adapting(select=selection)

    def adapting(self, **changes: object) -> "Client":
        """Return a copy of the client with other [adapt] settings."""
        return replace(self, context=replace(self.context, adapt=self.adapt.model_copy(update=changes)))
