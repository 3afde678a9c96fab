"""What is found once, after the last round: pictures of what the method learned.

It goes through the engine, in tasks of their own kind: here clients hand over what in rounds never leaves them. All
data are in one place in a simulation; a real site refuses these tasks, and the server has what it knows by itself.
Nothing here can lose a run: what fails becomes a note.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from motet.contract import Learned, Method, Picture
from motet.contract.picture import MOST
from motet.data import FederationFacts
from motet.engines import Engine, Task
from motet.errors import one_sentence
from motet.message import Message, State
from motet.scoring import Figure, ScoringSettings
from motet.scoring.figures import is_scored, member

Rows = Sequence[Mapping[str, Any]]
LONGEST_NAME = 100


@dataclass
class Found:
    """What was found, and one sentence about each thing that could not be."""

    pictures: list[Picture] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass
class Ending:
    """Looks at a run after its last round."""

    method: Method
    facts: FederationFacts
    scoring: ScoringSettings
    engine: Engine
    seed: int

    def find(self, server: State, round: int, rows: Rows) -> Found:
        """Everything that the experiment asks for."""
        found = Found()
        if self.scoring.pictures:
            self._try(found, "pictures", lambda: self.learned_by_the_method(server, round, rows))
        return found

    def learned_by_the_method(self, server: State, round: int, rows: Rows) -> list[Picture]:
        """The method's own pictures, each of which can be drawn."""
        learned = Learned(server, self._names(), self._portraits(server, round), rows, self._members(rows), self.seed)
        return [Picture.read(picture.plain()) for picture in self.method.pictures(learned)]

    def _portraits(self, server: State, round: int) -> dict[int, Message]:
        """What clients hand over; of very many, as many as a picture shows."""
        if not self.method.portrays:
            return {}
        asked = self.facts.training_ids[: MOST["cells"]]
        letters = {i: partial(self.method.broadcast, server, i, scoring=True) for i in asked}
        outcomes = self.engine.run([Task("portrait", i, round, letter) for i, letter in letters.items()])
        return {o.client_id: o.reply for o in outcomes if o.reply is not None}

    def _names(self) -> dict[int, str]:
        return {i: (self.facts.by_id[i].name or str(i))[:LONGEST_NAME] for i in self.facts.training_ids}

    def _members(self, rows: Rows) -> dict[str, float]:
        """Mean accuracy of each of the method's family of personal models, where it was last scored."""
        last = next((row for row in reversed(rows) if is_scored(row)), {})
        names, data = self.method.family.members if self.method.family else (), self.scoring.headline.data
        means = {name: Figure(member(name), data).over("mean").of(last) for name in names}
        return {name: mean for name, mean in means.items() if mean is not None}

    @staticmethod
    def _try(found: Found, what: str, make: Callable[[], list[Picture]]) -> None:
        try:
            found.pictures += make()
        except Exception as error:  # of a user's own method too: no picture is worth a run
            found.notes.append(one_sentence(f"{what} could not be made ({type(error).__name__}: {error})"))
