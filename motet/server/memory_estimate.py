"""The memory that an experiment asks for where sizes multiply, before anything of that size is built."""

from math import prod

import torch

from motet.config.experiment import Experiment
from motet.config.names import parse
from motet.config.section import checked
from motet.data import FederationFacts
from motet.errors import MotetError
from motet.io.memory_limits import free_memory, refuse_if_too_large
from motet.methods.fedbasis.method import FedBasis
from motet.methods.fedrod import FedROD
from motet.methods.pgfed import PGFed
from motet.methods.registry import entry_of
from motet.nets import NETS, Net, build_net, net_term

_FLOAT = 4  # bytes
_COPIES = 3  # of a model at work: weights, gradients or momentum, and what is received or sent


def refuse_what_needs_too_much(experiment: Experiment, facts: FederationFacts, cohort: int) -> None:
    """One sentence about the first thing that memory has no room for; nets of the user's own are not foreseen."""
    if net_term(experiment.net.name).name not in NETS:
        return
    net = _without_weights(experiment, facts)
    if net is None:
        return
    model = _FLOAT * sum(p.numel() for p in net.parameters())
    refuse_if_too_large(_COPIES * model, f"net {experiment.net.name!r} on {facts.input}", "a smaller net, or input")
    for term in parse(experiment.method):
        entry = entry_of(term.name)
        options = checked(entry.options, term.options, f"method {term.name}")
        if isinstance(options, FedROD) and options.head == "hyper":
            per_unit = _FLOAT * facts.classes * (1 + prod(net.feature_shape()))
            _refuse(f"{term}", "hidden", options.hidden, _COPIES * per_unit)
            model += options.hidden * per_unit
        elif isinstance(options, FedBasis.Options):
            _refuse(f"{term}", "k", options.k, _COPIES * model)
        elif isinstance(options, PGFed):
            clients = len(facts.training_ids)
            refuse_if_too_large(
                _COPIES * _FLOAT * clients**2, f"method {term} with {clients} clients", "fewer clients, data.clients"
            )
    refuse_if_too_large(
        cohort * model, f"a round of {cohort} clients with models of {model:,} bytes", "a smaller rounds.cohort"
    )


def _refuse(method: str, option: str, asked: int, bytes_each: int) -> None:
    most = max(1, free_memory() // max(1, bytes_each))
    refuse_if_too_large(asked * bytes_each, f"method {method}", f"{option} of at most {most:,} for this net")


def _without_weights(experiment: Experiment, facts: FederationFacts) -> Net | None:
    """The net as torch's meta device has it, which holds shapes and nothing else."""
    split = None if experiment.net.head == "auto" else experiment.net.head
    try:
        with torch.random.fork_rng(devices=[]), torch.device("meta"):
            return build_net(experiment.net.name, facts.input, facts.classes, split)
    except (MotetError, RuntimeError, TypeError, OverflowError):  # whoever builds it in earnest says what is wrong
        return None
