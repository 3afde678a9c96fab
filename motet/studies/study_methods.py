"""The methods that take part in a study: each as an experiment on the same data, or why it cannot take part."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from motet.config.experiment import Experiment
from motet.config.names import parse
from motet.config.own_data import is_table
from motet.data import FederationFacts, build
from motet.data.built_once import built_once
from motet.errors import MotetError
from motet.methods.registry import canonical, entry_of
from motet.server.assembly import VALIDATION_SHARE, method_of, refuse_what_cannot_run, refused, settle
from motet.server.stopping import telling_samples
from motet.studies.space import TABLE_NETS, first_setting, space_of, with_setting

SGD_INSTEAD = {"optimizer": "sgd", "lr": 0.03}
"""The local steps of methods whose rule is that of SGD, where the others have Adam."""

BY_TEST_DATA = ("common_best", "oracle")  # rules of a family of personal models that choose by test data


@dataclass(frozen=True)
class StudyMethod:
    """One method of a study: its name as the user wrote it, its experiment, and how simple it is."""

    name: str
    experiment: Experiment
    simplicity: int  # 0: nothing is sent; 1: one model for all; 2: that, fine-tuned; 3: anything else
    yardstick: bool = False  # trains on pooled data: only a reference, never recommended
    nets: tuple[str, ...] = ()  # that tuning tries; empty: the experiment's
    validates: bool = False  # needs validation data in its last runs too
    settled: int = 0  # the method's `settled_after`

    @property
    def folder(self) -> str:
        """Return the method's name as the name of a folder."""
        return re.sub(r"[^A-Za-z0-9.+=_-]+", "-", self.name).strip("-.")[:80] or "method"


@dataclass(frozen=True)
class StudyMethods:
    """The methods that take part, and for the others why they cannot."""

    methods: tuple[StudyMethod, ...]
    left_out: Mapping[str, str]
    notes: tuple[str, ...] = ()
    """What a user should know about how the data were read."""
    tested: bool = True
    """Whether some training client has test data, so that methods can be compared in the end."""
    validation_rows: int = 0
    """The number of validation samples of all training clients that tell a figure (`telling_samples`)."""

    def said_of_the_data(self) -> list[str]:
        """Return the notes as sentences for below a table."""
        return [f"Of the data: {said}{'.' * (not said.endswith('?'))}" for said in self.notes]

    def by_name(self) -> dict[str, StudyMethod]:
        """Return the methods by their names."""
        return {method.name: method for method in self.methods}


@built_once()  # the data are read once for all methods
def prepare_methods(methods: Sequence[str], asked: Experiment) -> StudyMethods:
    """Return every method in the same setting; raise for a mistake in the data or in a name.

    A method that refuses this setting is left out, with its reason.
    """
    nets = TABLE_NETS if asked.net.name == "auto" and is_table(asked.data.name) else ()
    left_to_methods = {"scoring": {"personal_model": asked.scoring.personal_model}}  # auto stays: each declares it
    if nets:
        asked = asked.with_({"net.name": nets[0]})
    asked = settle(_with_validation(asked)).with_(left_to_methods)
    federation = build(asked.data, asked.seed)
    facts = FederationFacts.of(federation)
    if not any(facts.by_id[i].val for i in facts.training_ids):
        raise MotetError(
            f"data.val_share is {asked.data.val_share:g}, of which no client has a sample; accepted: a larger share, "
            f"or clients with more data"
        )
    entered: list[StudyMethod] = []
    left_out: dict[str, str] = {}
    for name in methods:
        for term in parse(name):
            entry_of(term.name)
        if canonical(name) in {canonical(other.name) for other in entered}:
            raise MotetError(f"method {name!r} is named twice; accepted: each once")
        try:
            entered.append(_prepared(name, asked, facts, nets))
        except MotetError as error:
            left_out[name] = str(error)
    if not entered:
        raise MotetError(next(iter(left_out.values()), "no method is named; accepted: such as fedavg,fedavg+ft"))
    common = asked.scoring.test == "common" and facts.test is not None and len(facts.test) > 0
    tested = common or any(facts.by_id[i].test for i in facts.training_ids)
    clients = [federation.clients[i] for i in facts.training_ids]
    rows = telling_samples(asked.scoring.metric_name, clients, facts.classes)
    return StudyMethods(_with_folders_of_their_own(entered), left_out, facts.notes, tested, rows)


def simplicity_of(method: str) -> int:
    """Return how much a method needs where it is deployed: less can go wrong with a simpler one."""
    terms = parse(method)
    if [term.name for term in terms] == ["local"]:
        return 0
    entries = [entry_of(term.name) for term in terms]
    if not any(entry.thing.personalizes for entry in entries):
        return 1
    return 2 if not any(entry.thing.personalizes for entry in entries if not entry.wraps) else 3


def _prepared(name: str, asked: Experiment, facts: FederationFacts, nets: Sequence[str]) -> StudyMethod:
    """Return the method in this setting, on the nets that it can train; raise if there is none."""
    experiment = settle(asked.with_({"method": name}))
    if experiment.local.optimizer != "sgd" and method_of(experiment, facts).assumes_sgd:
        experiment = experiment.with_({"local": SGD_INSTEAD})
    fitting, refusals = [], []
    for net in nets or (experiment.net.name,):
        tried = with_setting(experiment.with_({"net.name": net}), first_setting(space_of(experiment), experiment))
        method = method_of(tried, facts)
        if why := refused(method, tried):
            refusals.append(why)
        else:
            fitting.append((net, method))
    if not fitting:
        raise MotetError(f"method {name!r} cannot run here: {refusals[0]}")
    net, method = fitting[0]
    if method.family and method.family.rule in BY_TEST_DATA:
        raise MotetError(
            f"method {name!r} chooses among its personal models by test data ({method.family.rule}), which a fair "
            f"comparison does not allow; accepted: the rule common_validation, validation or fixed"
        )
    experiment = experiment.with_({"net.name": net})
    refuse_what_cannot_run(experiment)  # a metric that does not fit the label is said now, not by every trial
    validates = method.needs_validation or (method.family is not None and method.family.validates)
    return StudyMethod(
        name,
        experiment,
        simplicity_of(name),
        method.pooled,
        tuple(net for net, _ in fitting) if nets else (),
        validates,
        method.settled_after,
    )


def _with_validation(asked: Experiment) -> Experiment:
    """Return the experiment with validation data, scored often enough, that reports its last round."""
    if asked.rounds.count == "auto":
        return asked
    fifth = max(1, asked.rounds.last // 5)  # the last fifth shows whether a method is still learning
    return asked.with_(
        {
            "data.val_share": asked.data.val_share or VALIDATION_SHARE,
            "scoring.report": "last" if asked.scoring.report == "best" else asked.scoring.report,
            "scoring.every": min(asked.scoring.every, fifth),
        }
    )


def _with_folders_of_their_own(entered: Sequence[StudyMethod]) -> tuple[StudyMethod, ...]:
    folders = [method.folder for method in entered]
    for folder in folders:
        if folders.count(folder) > 1:
            raise MotetError(f"two methods would share the folder {folder!r}; accepted: names that differ in letters")
    return tuple(entered)
