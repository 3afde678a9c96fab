"""Every method by name, and how names become methods."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Literal

from motet.errors import MotetError, unknown
from motet.fields import checked
from motet.methods.averaging import Averaging
from motet.methods.centralized import Centralized
from motet.methods.components.balanced import BSM, CDT, IR, LDAM
from motet.methods.components.dbe import DBE, MR, PRBM
from motet.methods.components.feddyn import FedDyn
from motet.methods.components.fedprox import FedProx
from motet.methods.components.fedrod import FedROD
from motet.methods.components.local import Local
from motet.methods.components.meta_bsm import MetaBSM
from motet.methods.components.pgfed import PGFed, PGFedMo
from motet.methods.components.scaffold import Scaffold
from motet.methods.components.shared_data import SharedData
from motet.methods.expression import Term, parse
from motet.methods.fedbasis import FedBasis
from motet.methods.finetuning import FineTuned
from motet.methods.method import Method
from motet.methods.part import Part
from motet.methods.superfed import SuPerFedLM, SuPerFedMM
from motet.nets import Net
from motet.settings import Section


@dataclass(frozen=True)
class Entry:
    """One name. A part joins others in a sum; a whole method stands alone; a personalization follows any."""

    name: str
    summary: str
    paper: str
    part: type[Part] | None = None
    whole: type[Method] | None = None
    tunes: Literal["all", "head"] | None = None

    @property
    def kind(self) -> str:
        """What the name is in a sum."""
        return "part" if self.part or self.name == "fedavg" else "whole method" if self.whole else "personalization"

    @property
    def options(self) -> type[Section]:
        """The options it takes in brackets."""
        return self.part or (self.whole.Options if self.whole else FineTuned.Options)


# The order is the order in which parts act, whatever the order in which they are written.
METHODS = {
    entry.name: entry
    for entry in [
        Entry("local", "no communication, each client alone", "baseline", part=Local),
        Entry("centralized", "one model on everybody's pooled data: a yardstick", "baseline", whole=Centralized),
        Entry("fedavg", "average the clients' models", "McMahan et al. 2017", whole=Averaging),
        Entry("fedprox", "stay near the model the server sent", "Li et al. 2020", part=FedProx),
        Entry("scaffold", "control variates against client drift", "Karimireddy et al. 2020", part=Scaffold),
        Entry("feddyn", "dynamic regularizer against client drift", "Acar et al. 2021", part=FedDyn),
        Entry("shared-data", "a small balanced set joins every client's data", "Zhao et al. 2018", part=SharedData),
        Entry("bsm", "balanced softmax loss: FedAvg (BRM) of FED-ROD", "Ren et al. 2020", part=BSM),
        Entry("ir", "loss re-weighted by inverse class counts", "Hsu et al. 2020", part=IR),
        Entry("ldam", "loss with larger margins for rarer classes", "Cao et al. 2019", part=LDAM),
        Entry("cdt", "loss with class-dependent temperatures", "Ye et al. 2020", part=CDT),
        Entry("meta-bsm", "balanced softmax, meta-learned on a shared set", "Chen and Chao 2022", part=MetaBSM),
        Entry("fedrod", "balanced generic head, personal head on top of it", "Chen and Chao 2022", part=FedROD),
        Entry("prbm", "a private translation of the features", "DBE's first half, Zhang et al. 2023", part=PRBM),
        Entry("mr", "hold the features' mean to everybody's", "DBE's second half, Zhang et al. 2023", part=MR),
        Entry("dbe", "keep a client's bias of the representation at home", "Zhang et al. 2023", part=DBE),
        Entry("pgfed", "every client its own global objective", "Luo et al. 2023", part=PGFed),
        Entry("pgfedmo", "PGFed with momentum in the auxiliary gradient", "Luo et al. 2023", part=PGFedMo),
        Entry("fedbasis", "personal mixtures of a few shared basis models", "FedBasis and PFLBED 2022", whole=FedBasis),
        Entry("superfed-mm", "a line of good models from global to local", "Hahn et al. 2022", whole=SuPerFedMM),
        Entry("superfed-lm", "SuPerFed that mixes layer by layer", "Hahn et al. 2022", whole=SuPerFedLM),
        Entry("ft", "personalize any method by fine-tuning all weights", "FedAvg+FT of the five papers", tunes="all"),
        Entry("lp", "personalize any method by fine-tuning its head", "FedAvg+LP of FedBasis", tunes="head"),
    ]
}


def build_method(text: str, net: Net) -> Method:
    """The method of that name on that net, which it may extend."""
    terms = _in_order(parse(text))
    options = {t.name: checked(METHODS[t.name].options, t.options, f"method {t.name}") for t in terms}
    tuners = [t for t in terms if METHODS[t.name].tunes]
    rest = [t for t in terms if t not in tuners]
    whole = [t for t in rest if METHODS[t.name].whole and t.name != "fedavg"]
    parts = [section for name, section in options.items() if isinstance(section, Part)]
    _refuse_nonsense(text, rest, whole, tuners)
    entry = METHODS[whole[0].name] if whole else METHODS["fedavg"]
    assert entry.whole is not None
    method = entry.whole(net, options.get(entry.name, entry.options()), parts)
    for tuner in tuners:
        tunes, tuning = METHODS[tuner.name].tunes, options[tuner.name]
        assert tunes is not None and isinstance(tuning, FineTuned.Options)
        method = FineTuned(method, tuning, tunes)
    return method


def canonical(text: str) -> str:
    """The same sum in the house's order, so that a+b and b+a are one method."""
    return "+".join(str(term) for term in _in_order(parse(text)))


def describe_methods() -> list[dict[str, object]]:
    """One row per name, for `motet list methods`."""
    return [
        {
            "name": entry.name,
            "summary": entry.summary,
            "paper": entry.paper,
            "kind": entry.kind,
            "options": {name: field.default for name, field in entry.options.model_fields.items()},
        }
        for entry in METHODS.values()
    ]


def _in_order(terms: list[Term]) -> list[Term]:
    names = [t.name for t in terms]
    for name in names:
        if name not in METHODS:
            raise unknown("method", name, METHODS)
        if names.count(name) > 1:
            raise MotetError(f"method {'+'.join(names)!r} names {name!r} twice; accepted: each name once")
    return sorted(terms, key=lambda t: list(METHODS).index(t.name))


def _refuse_nonsense(text: str, rest: Sequence[Term], whole: Sequence[Term], tuners: Sequence[Term]) -> None:
    """One sentence for each kind of sum that makes no sense."""

    def refuse(why: str) -> MotetError:
        return MotetError(f"method {text!r} makes no sense: {why}")

    if not rest:
        raise refuse(f"{tuners[0].name} personalizes another method; accepted: such as fedavg+{tuners[0].name}")
    if len(tuners) > 1:
        raise refuse("ft already trains the head that lp trains; accepted: one of them")
    if whole and len(rest) > 1:
        other = next(t.name for t in rest if t not in whole[:1])
        raise refuse(
            f"{whole[0].name} is a method of its own and cannot carry {other}; accepted: {whole[0].name} alone"
        )
    if any(t.name == "local" for t in rest):
        for t in rest:
            kind = METHODS[t.name].part
            if t.name == "fedavg" or (kind and kind.needs_sharing):
                raise refuse(f"local shares no weights, so {t.name} has nothing to act on; accepted: one of the two")
        if tuners:
            raise refuse(f"local already trains on the client's own data; accepted: local, or fedavg+{tuners[0].name}")
    roles: dict[str, str] = {}
    for t in rest:
        role = part.role if (part := METHODS[t.name].part) else None
        if role and role in roles:
            raise refuse(f"{roles[role]} and {t.name} are both a {role}; accepted: one of them")
        if role:
            roles[role] = t.name
    for outer, inner in permutations([(t.name, part) for t in rest if (part := METHODS[t.name].part)], 2):
        if issubclass(outer[1], inner[1]):
            raise refuse(f"{outer[0]} already contains {inner[0]}; accepted: one of them")
