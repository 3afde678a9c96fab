"""Presets that train and evaluate as each of the five papers does.

The papers do not measure the same thing; a preset sets all those choices at once. The data set and the network remain
the user's choice.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Protocol:
    """One preset: how a paper trains and evaluates."""

    name: str
    paper: str
    summary: str
    values: dict[str, Any]


_MOTET = Protocol(
    "motet",
    "Motet's defaults",
    "FED-ROD's training and scoring, a fifth of each client's data kept as its own test split, 20 clients",
    {},
)

_FEDROD = Protocol(
    "fedrod",
    "Chen and Chao, On Bridging Generic and Personalized Federated Learning for Image Classification, ICLR 2022",
    "the common test set weighted by each client's classes (Eq. 20), local models, last round; FMNIST values",
    {
        "data": {
            "partition": "dirichlet:0.3",
            "clients": 100,
            "pool": "train",
            "test_share": 0.0,
            "normalize": "standard",
            "normalize_on": "all",  # constants of the data set
            "augment_pad": 2,  # where images are augmented, as CIFAR's are
        },
        "rounds": {"count": 100, "cohort": 0.2},
        "local": {
            "epochs": 5,
            "batch": 40,
            "drop_last": False,
            "lr": 0.01,
            "lr_decay": 0.99,
            "momentum": 0.9,
            "weight_decay": 1e-5,
            "momentum_across_rounds": "reset",
        },
        "adapt": {"epochs": 5, "lr": 0.01, "select": "best_on_validation"},
        "scoring": {
            "personal_model": "last_participation",
            "never_sampled": "global",
            "test": "common",
            "class_weights": "literal",
            "client_weighting": "uniform",
            "report": "last",
        },
    },
)


def _fedrod_for(name: str, summary: str, **values: dict[str, Any]) -> Protocol:
    """Return FED-ROD's preset with the values that its paper has for another data set."""
    sections = {section: {**_FEDROD.values[section], **values.get(section, {})} for section in _FEDROD.values}
    return Protocol(name, _FEDROD.paper, summary, sections)


_FEDROD_EMNIST = _fedrod_for(
    "fedrod-emnist",
    "FED-ROD's for EMNIST: writers as clients, 5 % of them in a round, each scored on its own test data",
    data={"partition": "natural", "test_share": 0.2},
    rounds={"cohort": 0.05},
    local={"batch": 16},
    scoring={"test": "split"},
)
_FEDROD_CIFAR = _fedrod_for(
    "fedrod-cifar",
    "FED-ROD's for CIFAR-10 and CIFAR-100: 20 clients, 8 of them in a round, images mirrored and moved",
    data={"clients": 20, "augment": "flip-crop"},
    rounds={"cohort": 0.4},
)

_PGFED = Protocol(
    "pgfed",
    "Luo et al., PGFed: Personalize Each Client's Global Objective for Federated Learning, ICCV 2023",
    "each client's own quarter of train and test data together, stale local models, best round",
    {
        "data": {
            "partition": "dirichlet-balanced:0.3",
            "partition_seed": 1,
            "clients": 25,
            "pool": "all",
            "test_share": 0.25,
            "normalize": "half",
        },
        "rounds": {"count": 300, "cohort": 0.25},
        "local": {
            "epochs": 5,
            "batch": 10,
            "drop_last": True,
            "lr": 0.005,
            "lr_decay": 1.0,
            "momentum": 0.9,
            "weight_decay": 0.0,
            "momentum_across_rounds": "persist",
        },
        "adapt": {"epochs": 20, "lr": 0.005, "select": "last"},
        "scoring": {
            "personal_model": "last_participation",
            "never_sampled": "initial",
            "test": "split",
            "common_test": "last",  # each client's own split is what the paper scores
            "client_weighting": "uniform",
            "report": "best",
            "every": 1,
        },
    },
)

_FEDBASIS = Protocol(
    "fedbasis",
    "FedBasis and PFLBED: Learning Shareable Bases for Personalized Federated Image Classification, 2022",
    "PFLBED: of each domain 20 clients train and 10 are new, which adapt for 20 epochs, last and best on validation; "
    "their domain's test set weighted by class and corrected for its counts",
    {
        "data": {
            "partition": "pflbed:0.3",
            "clients": 30,  # of each domain: 20 that train and 10 new ones
            "new_clients": 1 / 3,
            "pool": "train",
            "test_share": 0.0,
            "normalize": "standard",
            "normalize_on": "all",  # constants of the data set
        },
        "rounds": {"count": 100, "cohort": 1.0},
        "local": {
            "epochs": 5,
            "batch": 16,
            "drop_last": False,
            "lr": 0.01,
            "lr_decay": 1.0,
            "momentum": 0.9,
            "weight_decay": 1e-4,
            "momentum_across_rounds": "reset",
        },
        "adapt": {"epochs": 20, "lr": 0.01, "select": ("last", "best_on_validation")},
        "scoring": {
            "clients": "new",
            "personal_model": "final_sync",  # a freshly adapted model, for participants too
            "never_sampled": "global",
            "test": "common",
            "class_weights": "count_corrected",
            "client_weighting": "uniform",
            "report": "last",
        },
    },
)

_SUPERFED = Protocol(
    "superfed",
    "Hahn, Jeong and Lee, Connecting Low-Loss Subspace for Personalized Federated Learning, KDD 2022",
    "each client's own fifth of the training data, the final global model with the client's parts, last round",
    {
        "data": {
            "partition": "shards:2",
            "clients": 100,
            "pool": "train",
            "test_share": 0.2,
            "normalize": "unit",
        },
        "rounds": {"count": 500, "cohort": 5.0},
        "local": {
            "epochs": 10,
            "batch": 10,
            "drop_last": False,
            "lr": 0.01,
            "lr_decay": 0.99,
            "momentum": 0.9,
            "weight_decay": 1e-4,
            "momentum_across_rounds": "reset",
        },
        "scoring": {
            "personal_model": "global_plus_personal",
            "never_sampled": "global",
            "test": "split",
            "common_test": "last",  # each client's own split is what the paper scores
            "client_weighting": "uniform",
            "report": "last",
        },
    },
)

_DBE = Protocol(
    "dbe",
    "Zhang et al., Eliminating Domain Bias for Federated Learning in Representation Space, NeurIPS 2023",
    "each client's own quarter of train and test data together, the global model with the client's parts, "
    "weighted by samples, best round",
    {
        "data": {
            "partition": "dirichlet-balanced:0.1",
            "partition_seed": 1,
            "clients": 20,
            "pool": "all",
            "test_share": 0.25,
            "normalize": "half",
        },
        "rounds": {"count": 200, "cohort": 1.0},
        "local": {
            "epochs": 1,
            "batch": 10,
            "drop_last": True,
            "lr": 0.005,
            "lr_decay": 1.0,
            "momentum": 0.0,
            "weight_decay": 0.0,
            "momentum_across_rounds": "reset",
        },
        "adapt": {"epochs": 10, "lr": 0.005, "select": "last"},
        "scoring": {
            "personal_model": "global_plus_personal",
            "never_sampled": "global",
            "test": "split",
            "common_test": "last",  # each client's own split is what the paper scores
            "client_weighting": "by_samples",
            "report": "best",
            "every": 1,
        },
    },
)

PROTOCOLS: dict[str, Protocol] = {
    p.name: p for p in (_MOTET, _FEDROD, _FEDROD_EMNIST, _FEDROD_CIFAR, _PGFED, _FEDBASIS, _SUPERFED, _DBE)
}


def describe_protocols() -> list[dict[str, Any]]:
    """Return name, summary, paper and values of every protocol, for a list or for JSON."""
    return [{"name": p.name, "summary": p.summary, "paper": p.paper, "values": p.values} for p in PROTOCOLS.values()]
