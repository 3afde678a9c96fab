"""The methods of a study on one federation: each as an experiment, or the sentence why it cannot take part."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from motet.config.experiment import Experiment, resolve
from motet.config.names import parse
from motet.config.nesting import merge
from motet.data import FederationFacts, build
from motet.errors import MotetError
from motet.methods.registry import canonical, entry_of
from motet.server.assembly import method_of, settle
from motet.studies.space import first_setting, space_of, with_setting

VALIDATION_SHARE = 0.2
"""Of each client's data, where the user names no share: tuning needs some."""

BY_TEST_DATA = ("common_best", "oracle")  # rules of a family of personal models that choose by test data


@dataclass(frozen=True)
class Contestant:
    """A method as the user names it, its experiment, and how simple it is."""

    name: str
    experiment: Experiment
    simplicity: int  # 0: nobody sends anything; 1: one model for all; 2: that, fine-tuned; 3: anything else
    yardstick: bool = False  # trains in one place: no choice for a federation

    @property
    def folder(self) -> str:
        """Its name as one of a folder."""
        return re.sub(r"[^A-Za-z0-9.+=_-]+", "-", self.name).strip("-.")[:80] or "method"


@dataclass(frozen=True)
class Contest:
    """Who takes part, and who cannot."""

    contestants: tuple[Contestant, ...]
    left_out: Mapping[str, str]
    notes: tuple[str, ...] = ()
    """What a user should know of how the data were read."""
    tested: bool = True
    """Whether some training client can be judged in the end."""

    def said_of_the_data(self) -> list[str]:
        """The notes as sentences below a table."""
        return [f"Of the data: {said}." for said in self.notes]

    def by_name(self) -> dict[str, Contestant]:
        """Each under its name."""
        return {contestant.name: contestant for contestant in self.contestants}


def enter(methods: Sequence[str], asked: Experiment) -> Contest:
    """Every method in the same setting; a mistake in the data or in a name ends it all, a method's refusal only it."""
    left_to_methods = {"scoring": {"personal_model": asked.scoring.personal_model}}  # auto stays
    asked = resolve(merge(settle(_with_validation(asked)).model_dump(), left_to_methods))
    facts = FederationFacts.of(build(asked.data, asked.seed))
    if not any(facts.by_id[i].val for i in facts.training_ids):
        raise MotetError(
            f"data.val_share is {asked.data.val_share:g}, of which no client has a sample; accepted: a larger share, "
            f"or clients with more data"
        )
    entered: list[Contestant] = []
    left_out: dict[str, str] = {}
    for name in methods:
        for term in parse(name):
            entry_of(term.name)
        if canonical(name) in {canonical(other.name) for other in entered}:
            raise MotetError(f"method {name!r} is named twice; accepted: each once")
        try:
            entered.append(_enter(name, asked, facts))
        except MotetError as error:
            left_out[name] = str(error)
    if not entered:
        raise MotetError(next(iter(left_out.values()), "no method is named; accepted: such as fedavg,fedavg+ft"))
    common = asked.scoring.test == "common" and facts.test is not None and len(facts.test) > 0
    tested = common or any(facts.by_id[i].test for i in facts.training_ids)
    return Contest(_with_folders_of_their_own(entered), left_out, facts.notes, tested)


def simplicity_of(method: str) -> int:
    """How much a method asks for: the fewer parts a simpler one has, the less can go wrong where it is deployed."""
    terms = parse(method)
    if [term.name for term in terms] == ["local"]:
        return 0
    entries = [entry_of(term.name) for term in terms]
    if not any(entry.thing.personalizes for entry in entries):
        return 1
    return 2 if not any(entry.thing.personalizes for entry in entries if not entry.wraps) else 3


def _enter(name: str, asked: Experiment, facts: FederationFacts) -> Contestant:
    experiment = settle(resolve(merge(asked.model_dump(), {"method": name})))
    tried = with_setting(experiment, first_setting(space_of(experiment.method), experiment))
    method = method_of(tried, facts)
    if why := method.refuse(method.facts):
        raise MotetError(f"method {name!r} cannot run here: {why}")
    if method.family and method.family.rule in BY_TEST_DATA:
        raise MotetError(
            f"method {name!r} chooses among its personal models by test data ({method.family.rule}), which a fair "
            f"comparison does not allow; accepted: the rule validation, or fixed"
        )
    return Contestant(name, experiment, simplicity_of(name), method.pooled)


def _with_validation(asked: Experiment) -> Experiment:
    values = asked.model_dump()
    if not asked.data.val_share:
        values = merge(values, {"data": {"val_share": VALIDATION_SHARE}})
    if asked.scoring.report == "best":
        values = merge(values, {"scoring": {"report": "last"}})
    fifth = max(1, asked.rounds.count // 5)  # whether a method is still learning is told by the last one
    values = merge(values, {"scoring": {"every": min(asked.scoring.every, fifth)}})
    return resolve(values)


def _with_folders_of_their_own(entered: Sequence[Contestant]) -> tuple[Contestant, ...]:
    folders = [contestant.folder for contestant in entered]
    for folder in folders:
        if folders.count(folder) > 1:
            raise MotetError(f"two methods would share the folder {folder!r}; accepted: names that differ in letters")
    return tuple(entered)
