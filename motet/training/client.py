"""What a method sees of a client: its data, its class counts, its private state, its randomness."""

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
from motet.training.randomness import generator

_KEPT = "model"  # of the private state: the whole weights that the client's last training ended in


@dataclass(frozen=True)
class RunContext:
    """What is the same for every client of a run."""

    classes: int
    seed: int
    local: LocalSettings
    adapt: AdaptSettings
    policy: PersonalModelPolicy = field(default_factory=PersonalModelPolicy)
    shared_data: Samples | None = None  # the federation's small balanced set, for methods that declare it
    joins_lone: bool = False  # a last batch of one sample joins the one before, for nets that normalize over batches


@dataclass
class Client:
    """One client in one round. `private` persists and never travels; it starts empty."""

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
        """How many classes there are in the federation."""
        return self.context.classes

    @cached_property
    def counts(self) -> Tensor:
        """N_m: how many of the whole training set's samples are of each class."""
        return self.data.train.counts(self.classes)

    @property
    def local(self) -> LocalSettings:
        """The experiment's rule of local training."""
        return self.context.local

    @property
    def adapt(self) -> AdaptSettings:
        """The experiment's rule for clients that took no part in training."""
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
    def lr(self) -> float:
        """The learning rate of this round."""
        return self.local.at_round(self.round)

    # ------------------------------------------------------------ what it does

    def rng(self, purpose: str) -> torch.Generator:
        """Return the randomness of this client in this round for one purpose."""
        return generator(self.context.seed, purpose, self.round, self.id)

    def descent(self, purpose: str = "train", epochs: int | None = None, lr: float | None = None) -> Descent:
        """Return local training by the experiment's rule, this round's learning rate and this client's randomness.

        The losses of the one for "train" are the client's training loss.
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
        """Hand over the whole weights that a training ended in; the client keeps them where the policy needs them."""
        if self.source == "last_participation":
            self.private[_KEPT] = w

    def kept_model(self, first: Tensor) -> Tensor | None:
        """Return the whole weights of the client's last training, where its personal model is that one.

        None: make the model of what the server sent. `first` are the weights before the first round, which a client
        that was never sampled has where the experiment says so.
        """
        if self.source != "last_participation":
            return None
        if _KEPT in self.private:
            return tensor(self.private, _KEPT)
        initial = self.context.policy.never_sampled == "initial" and not self.data.new
        return first.clone() if initial else None

    def reading(self, source: PersonalSource) -> "Client":
        """Return the same client with its personal model made in this way; what it keeps from now on is forgotten."""
        return replace(self, source=source, private=dict(self.private))

    def from_the_global_model(self) -> "Client":
        """Return the same client, served from what the server just sent rather than from its last training."""
        return replace(self, source="global_plus_personal")

    def selecting(self, selection: Selection) -> "Client":
        """Return the same client, as a method's `adapt` sees it: with one way to choose the adapted model."""
        return self.adapting(select=selection)

    def adapting(self, **changes: object) -> "Client":
        """Return the same client with other [adapt] settings."""
        return replace(self, context=replace(self.context, adapt=self.adapt.model_copy(update=changes)))
