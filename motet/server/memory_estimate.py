"""Estimate the memory that an experiment needs, and refuse what does not fit before it is allocated."""

import torch

from motet.config.experiment import Experiment
from motet.config.names import parse
from motet.config.section import checked
from motet.data import FederationFacts
from motet.errors import MotetError
from motet.io.memory_limits import free_memory, refuse_if_too_large
from motet.methods.base import Facts, Method, Part
from motet.methods.base.method import COPIES, MemoryNeed
from motet.methods.registry import entry_of, settled_options
from motet.nets import NETS, Net, build_net, net_term

_FLOAT = 4  # bytes


def refuse_what_needs_too_much(experiment: Experiment, facts: FederationFacts, method_facts: Facts) -> None:
    """Raise `MotetError` about the first thing that does not fit in memory; a user's own net is not estimated."""
    if net_term(experiment.net.name).name not in NETS:
        return
    net = _without_weights(experiment, facts)
    if net is None:
        return
    model = _FLOAT * sum(p.numel() for p in net.parameters())
    refuse_if_too_large(COPIES * model, f"net {experiment.net.name!r} on {facts.input}", "a smaller net, or input")
    each = False  # whether the server holds every client's model at once
    for term in parse(experiment.method):
        entry = entry_of(term.name)
        asked = checked(entry.options, term.options, f"method {term.name}")
        options = settled_options(entry, asked, net, method_facts)
        if isinstance(options, Part):
            need = options.memory(net, method_facts, model)
            combines = type(options).combine is not Part.combine
        else:
            need = (entry.whole or Method).memory(options, net, method_facts, model)
            combines = False
        each = each or combines or entry.thing.uploads.get("w") == "each"
        if need is not None:
            _refuse(f"method {term}", need, method_facts)
            model += need.model
    if each:
        what = (
            f"a round of {method_facts.cohort} clients with models of {model:,} bytes, all of which its method needs,"
        )
        refuse_if_too_large(method_facts.cohort * model, what, "a smaller rounds.cohort")


def _refuse(method: str, need: MemoryNeed, facts: Facts) -> None:
    """Raise if a method needs more memory than is free, and name the largest option that fits."""
    if need.option:
        most = max(1, free_memory() // max(1, need.bytes // max(1, need.value)))
        refuse_if_too_large(need.bytes, method, f"{need.option} of at most {most:,} for this net")
    else:
        refuse_if_too_large(need.bytes, f"{method} with {facts.clients} clients", need.accepted)


def _without_weights(experiment: Experiment, facts: FederationFacts) -> Net | None:
    """Return the net on torch's meta device, which holds shapes and no values; None if it cannot be built."""
    split = None if experiment.net.head == "auto" else experiment.net.head
    try:
        with torch.random.fork_rng(devices=[]), torch.device("meta"):
            return build_net(experiment.net.name, facts.input, facts.classes, split)
    except (MotetError, RuntimeError, TypeError, OverflowError):  # building the real net reports the error
        return None
