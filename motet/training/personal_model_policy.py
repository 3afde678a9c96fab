"""Which model of a client is its personal model: the one place that decides it, for every method and every command.

The papers differ. A personal model may be the client's after its last local training (`last_participation`), after one
more training of everybody at the end (`final_sync`), or the current global model plus what the client keeps
(`global_plus_personal`). An experiment names one or several (`scoring.personal_model`), or leaves it to what the method
declares. Methods only offer what they trained (`Client.offer_model`) and ask for what is served (`Client.kept_model`).
"""

from dataclasses import dataclass
from typing import Protocol

from motet.config.scoring_section import NeverSampled, PersonalSource, ScoringSettings
from motet.metrics.names import PERSONAL, variant


class Declares(Protocol):
    """What a method declares about its personal models."""

    personal_from_global: bool
    keeps_nothing: bool


def declared_source(personalizes: bool, personal_from_global: bool) -> PersonalSource:
    """Return the personal model of a method where the experiment names none.

    For a method that personalizes, it is the model that the client trained last. For others, such as FedAvg, that is
    only a step to the next average, and the personal model is the server's.
    """
    return "last_participation" if personalizes and not personal_from_global else "global_plus_personal"


@dataclass(frozen=True)
class PersonalModelPolicy:
    """Which personal models of a run are scored, and what clients keep for that."""

    asked: tuple[PersonalSource, ...] = ("last_participation",)
    never_sampled: NeverSampled = "global"
    personal_from_global: bool = False  # the method never serves a client's last trained model
    keeps_nothing: bool = False  # the method's clients keep nothing: one more training changes no personal model

    @classmethod
    def of(cls, scoring: ScoringSettings, method: Declares) -> "PersonalModelPolicy":
        """Return the policy of an experiment whose `auto` has been settled, for a method."""
        return cls(scoring.personal_sources, scoring.never_sampled, method.personal_from_global, method.keeps_nothing)

    @property
    def keeps_last_model(self) -> bool:
        """Whether a client keeps the model that each of its trainings ends in."""
        return "last_participation" in self.asked

    @property
    def headline(self) -> PersonalSource:
        """The source of the personal model that is reported first, served and exported."""
        return self.effective(self.asked[0])

    @property
    def scored(self) -> dict[str, PersonalSource]:
        """Every personal model that is scored, by the name that its metrics have; the headline's comes first."""
        first, *others = self.asked
        return {PERSONAL: self.effective(first)} | {variant(PERSONAL, s): self.effective(s) for s in others}

    @property
    def trains_at_the_end(self) -> bool:
        """Whether everybody trains once more after the last round, for a `final_sync` model."""
        return "final_sync" in self.scored.values()

    def effective(self, asked: PersonalSource) -> PersonalSource:
        """Return the source that this method actually uses for the one that is asked for."""
        if self.personal_from_global and asked == "last_participation":
            return "global_plus_personal"
        if self.keeps_nothing and asked == "final_sync":
            return "global_plus_personal"
        return asked
