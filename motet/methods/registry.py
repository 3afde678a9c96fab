"""All methods by their names, and how a name such as `fedprox+ft` becomes a method.

A method's own file declares its entry; this file lists those files in the order of the catalogue. `module:Name` and
`path/file.py:Name` stand for a user's own part, method, wrapper or entry.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from types import ModuleType

from motet.config.names import Term, parse
from motet.config.scoring_section import PersonalSource
from motet.config.section import Section, checked
from motet.data import Input
from motet.errors import MotetError, unknown
from motet.io.plugins import is_import, load_object
from motet.methods import (
    apfl,
    apple,
    averaging,
    balanced,
    centralized,
    dbe,
    ditto,
    fedavgm,
    fedbabu,
    fedbn,
    feddyn,
    fedfomo,
    fedgen,
    fednova,
    fedopt,
    fedper,
    fedprox,
    fedrep,
    fedrod,
    finetuning,
    knn_per,
    l2gd,
    lg_fedavg,
    local,
    meta_bsm,
    moon,
    mtl,
    per_fedavg,
    pfedhn,
    pfedme,
    pgfed,
    pgfed_exact,
    robust,
    scaffold,
    shared_data,
    superfed,
)
from motet.methods.base.entry import MethodEntry
from motet.methods.base.method import Facts, Method
from motet.methods.base.part import Part
from motet.methods.base.wrapped import Wrapped
from motet.methods.fedbasis import method as fedbasis
from motet.nets import Net, build_net
from motet.training import personal_model_policy as policy

AUTO = "auto"
"""The value of an option that stands for another, which the net, the federation or a measurement decides."""

MODULES: tuple[ModuleType, ...] = (
    *(local, centralized, averaging, fedprox, scaffold, feddyn, moon, mtl, lg_fedavg, fedper, fedrep, fedbabu, fedbn),
    *(per_fedavg, pfedme, ditto, apfl, fedfomo, apple, pfedhn, l2gd, shared_data, balanced, meta_bsm, fedrod, dbe),
    *(pgfed, pgfed_exact, fedbasis, superfed, fedgen, robust, fednova, fedavgm, fedopt, finetuning, knn_per),
)


def entries_of(module: ModuleType) -> tuple[MethodEntry, ...]:
    """Return the entries that a method's file declares: one ENTRY, or several ENTRIES."""
    found: tuple[MethodEntry, ...] = module.ENTRIES if hasattr(module, "ENTRIES") else (module.ENTRY,)
    return found


METHODS: dict[str, MethodEntry] = {entry.name: entry for module in MODULES for entry in entries_of(module)}


BASE = next(entry for entry in METHODS.values() if entry.base)
"""FedAvg, which parts are added to where a sum names no whole method."""


def build_method(text: str, net: Net, facts: Facts) -> Method:
    """Return the method of that name on that net, which it may extend, for a federation with these facts."""
    terms = _in_order(parse(text))
    entries = {term.name: entry_of(term.name) for term in terms}
    asked = {t.name: checked(entries[t.name].options, t.options, f"method {t.name}") for t in terms}
    options = {name: settled_options(entries[name], section, net, facts) for name, section in asked.items()}
    _refuse_nonsense(text, terms, entries)
    whole = next((entries[t.name] for t in terms if entries[t.name].whole and not entries[t.name].base), BASE)
    assert whole.whole is not None
    parts = [section for section in options.values() if isinstance(section, Part)]
    method = whole.whole(net, options.get(whole.name, whole.options.model_validate({})), parts, facts)
    for term in terms:
        if wrapper := entries[term.name].wraps:
            method = wrapper(method, options[term.name])
    method.left_to_auto = {
        f"{name}.{option}": getattr(options[name], option)
        for name, section in asked.items()
        for option, value in section
        if value == AUTO
    }
    return method


def settled_options(entry: MethodEntry, asked: Section, net: Net, facts: Facts) -> Section:
    """Return a term's options with a value in place of each "auto" that this net or federation decides."""
    if isinstance(asked, Part):
        return asked.settled(net, facts)
    found = entry.thing.settled(asked, net, facts) if issubclass(entry.thing, Method) else asked
    assert isinstance(found, Section)
    return found


def entry_of(name: str) -> MethodEntry:
    """Return the entry that a name stands for."""
    if name in METHODS:
        return METHODS[name]
    if not is_import(name):
        raise unknown("method", name, [*METHODS, "module:Name", "path/file.py:Name"])
    found = load_object(name, "method")
    if isinstance(found, MethodEntry):
        return replace(found, name=name)
    about = ((getattr(found, "__doc__", None) or "").strip().splitlines() or [""])[0]
    if isinstance(found, type) and issubclass(found, Part):
        return MethodEntry(name, about, "", part=found)
    if isinstance(found, type) and issubclass(found, Wrapped):
        return MethodEntry(name, about, "", wraps=found)
    if isinstance(found, type) and issubclass(found, Method):
        return MethodEntry(name, about, "", whole=found)
    kind = type(found).__name__
    raise MotetError(f"method {name!r} is a {kind}; accepted: a class of Part or Method, or a MethodEntry")


def declared_source(method: str) -> PersonalSource:
    """Return which model of a client is scored by default, as the classes of the sum declare it."""
    things = [entry_of(term.name).thing for term in parse(method)]
    made_anew = any(issubclass(thing, Method) and thing.personal_from_global for thing in things)
    return policy.declared_source(any(thing.personalizes for thing in things), made_anew)


def canonical(text: str) -> str:
    """Return the same sum in the order of the catalogue, so that a+b and b+a are one method."""
    return "+".join(str(term) for term in _in_order(parse(text)))


def describe_methods() -> list[dict[str, object]]:
    """Return one row per name, for `motet list methods`."""
    return [_described(entry) for entry in METHODS.values()]


def _described(entry: MethodEntry) -> dict[str, object]:
    """Return a row with what an entry says, and what the method declares when it is built on a tiny net."""
    facts = Facts(tuple(range(8)), 8, 10, 3, validating=8)
    alone = entry.name if entry.kind != "personalization" else f"fedavg+{entry.name}"
    try:
        built = build_method(alone, build_net("mlp", Input("vector", (4,)), 3), facts)
    except MotetError:  # such as one that needs a net with normalization
        built = build_method(alone, build_net("resnet8", Input("image", (1, 8, 8)), 3), facts)
    return {
        "name": entry.name,
        "summary": entry.summary,
        "paper": entry.paper,
        "kind": entry.kind,
        "options": {name: field.default for name, field in entry.options.model_fields.items()},
        "uploads": sorted(built.uploads),
        "tells": sorted(built.tells),
        "carries": list(entry.whole.carries) if entry.whole else [],
        "stays": entry.stays,
        "models_down": entry.down,
        "models_up": entry.up,
    }


def _in_order(terms: list[Term]) -> list[Term]:
    """Return the terms in the order of the catalogue, with a user's own after them."""
    names = [entry_of(t.name).name for t in terms]
    for name in names:
        if names.count(name) > 1:
            raise MotetError(f"method {'+'.join(names)!r} names {name!r} twice; accepted: each name once")
    known = list(METHODS)
    last = next(place for place, entry in enumerate(METHODS.values()) if entry.wraps)  # wrappers come last
    return sorted(terms, key=lambda t: known.index(t.name) if t.name in METHODS else last - 0.5)


def _refuse_nonsense(text: str, terms: Sequence[Term], entries: Mapping[str, MethodEntry]) -> None:
    """Raise a MotetError for a sum that makes no sense."""

    def refuse(why: str) -> MotetError:
        return MotetError(f"method {text!r} makes no sense: {why}")

    wrappers = [t.name for t in terms if entries[t.name].wraps]
    rest = [t.name for t in terms if not entries[t.name].wraps]
    whole = [name for name in rest if entries[name].whole and not entries[name].base]
    parts = [(name, part) for name in rest if (part := entries[name].part)]
    if not rest:
        raise refuse(f"{wrappers[0]} personalizes another method; accepted: such as {BASE.name}+{wrappers[0]}")
    if len(wrappers) > 1:
        both = f"{wrappers[0]} and {wrappers[1]} both personalize what the method serves"
        raise refuse(f"{both}; accepted: one of {', '.join(wrappers)}")
    if whole:
        kind = entries[whole[0]].whole
        carried = kind.carries if kind else ()
        for name in rest:
            part = entries[name].part
            fits = name in carried or ("*" in carried and part is not None and part.shares)
            if name != whole[0] and not fits:
                words = "parts that share weights" if "*" in carried else ", ".join(carried)
                takes = f"{whole[0]} with {words}" if carried else f"{whole[0]} alone"
                raise refuse(f"{whole[0]} is a method of its own and cannot carry {name}; accepted: {takes}")
    alone = next((name for name, part in parts if not part.shares), None)
    if alone:
        for name in rest:
            part = entries[name].part
            if entries[name].base or (part and part.needs_sharing):
                raise refuse(f"{alone} shares no weights, so {name} has nothing to act on; accepted: one of the two")
        if wrappers:
            raise refuse(
                f"{alone} already trains on the client's own data; accepted: {alone}, or {BASE.name}+{wrappers[0]}"
            )
    roles: dict[str, str] = {}
    for name, part in parts:
        for role in filter(None, (part.role, "way to train in phases" if part.in_phases else None)):
            if role in roles:
                article = "an" if role[0] in "aeiou" else "a"
                raise refuse(f"{roles[role]} and {name} are both {article} {role}; accepted: one of them")
            roles[role] = name
    for outer, inner in permutations(parts, 2):
        if why := outer[1].without.get(inner[0]):
            raise refuse(f"{why}; accepted: one of {outer[0]} and {inner[0]}")
        if issubclass(outer[1], inner[1]):
            raise refuse(f"{outer[0]} already contains {inner[0]}; accepted: one of them")
