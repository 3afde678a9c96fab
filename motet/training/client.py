"""What a method sees of a client: its data, its class counts, its private state, its randomness."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Literal, get_args

import torch
from pydantic import BeforeValidator, Field
from torch import Tensor

from motet.config.section import Section, one_or_several
from motet.data import ClientData, Samples
from motet.messages.message import State
from motet.training.local import Descent, LocalSettings, TrainLoss
from motet.training.randomness import generator

PersonalSource = Literal["last_participation", "final_sync", "global_plus_personal"]
Selection = Literal["last", "best_on_validation"]


class AdaptSettings(Section):
    """[adapt]: how a client that took no part in training is served."""

    epochs: int = Field(5, ge=1, description="passes over the new client's training data")
    lr: float = Field(0.01, gt=0, description="learning rate of the adaptation")
    select: Annotated[Selection | tuple[Selection, ...], BeforeValidator(one_or_several(*get_args(Selection)))] = Field(
        "last",
        description="keep the last epoch's model, or the best on a tenth of the client's training data (with pflbed: "
        "on its domain's validation set); of a list the first is the headline, and each is scored",
    )

    @property
    def selections(self) -> tuple[Selection, ...]:
        """Every model that is scored, the headline's first."""
        return self.select if isinstance(self.select, tuple) else (self.select,)


@dataclass
class Client:
    """One client in one round. `private` persists and never travels; it starts empty."""

    data: ClientData
    classes: int
    round: int
    seed: int
    local: LocalSettings
    adapt: AdaptSettings
    private: State = field(default_factory=dict)
    pm_source: PersonalSource = "last_participation"
    never_sampled: Literal["global", "initial"] = "global"
    shared_data: Samples | None = None  # the federation's small balanced set, for methods that declare it
    joins_lone: bool = False  # a last batch of one sample joins the one before, for nets that normalize over batches
    train_loss: TrainLoss = field(default_factory=TrainLoss)

    @property
    def id(self) -> int:
        """The client's number in the federation."""
        return self.data.id

    @property
    def samples(self) -> int:
        """n_i: how many training samples the client has."""
        return len(self.data.train)

    @cached_property
    def counts(self) -> Tensor:
        """N_m: how many of the whole training set's samples are of each class."""
        return self.data.train.counts(self.classes)

    @property
    def lr(self) -> float:
        """The learning rate of this round."""
        return self.local.at_round(self.round)

    def rng(self, purpose: str) -> torch.Generator:
        """Randomness of this client in this round for one purpose."""
        return generator(self.seed, purpose, self.round, self.id)

    def descent(self, purpose: str = "train", epochs: int | None = None, lr: float | None = None) -> Descent:
        """Local training by the experiment's rule, this round's learning rate and this client's randomness.

        The losses of the one for "train" are the client's training loss.
        """
        augment = self.rng(f"{purpose}-augment") if self.data.train.augments else None
        rate = self.lr if lr is None else lr
        told = self.train_loss if purpose == "train" else None
        return Descent(
            self.local, rate, self.rng(purpose), epochs, augment=augment, joins_lone=self.joins_lone, told=told
        )

    def selecting(self, selection: Selection) -> "Client":
        """The same client, as a method's `adapt` sees it: with one way to choose the adapted model."""
        return replace(self, adapt=self.adapt.model_copy(update={"select": selection}))

    def reading(self, source: PersonalSource) -> "Client":
        """The same client, whose personal model is read in this way; what it keeps from now on is forgotten."""
        return replace(self, pm_source=source, private=dict(self.private))

    def from_the_global_model(self) -> "Client":
        """The same client, served from what the server just sent rather than from its last training."""
        return replace(self, pm_source="global_plus_personal")
