"""The studies: each a claim of a paper, at a size that two cores finish in minutes."""

from dataclasses import dataclass, field
from typing import Any

Values = dict[str, Any]


@dataclass(frozen=True)
class Study:
    """One claim: a setting, the cases that are compared in it, and the figures that are reported."""

    name: str
    claim: str
    setting: Values
    cases: dict[str, Values]
    figures: tuple[str, ...]
    seeds: tuple[int, ...] = (0, 1, 2)
    paper: Values = field(default_factory=dict)


def methods(*names: str) -> dict[str, Values]:
    """Cases that differ in the method alone, named by it."""
    return {name: {"method": name} for name in names}


GENERIC = "generic.accuracy"
WEIGHTED_GENERIC = "personal.weighted.generic_model"
WEIGHTED_PERSONAL = "personal.weighted.personal_models"
SPLIT_GENERIC = "personal.split.generic_model"
SPLIT_PERSONAL = "personal.split.personal_models"
BEFORE, AFTER = "new_clients.before", "new_clients.after"

DRIFT = Study(
    "drift",
    "SCAFFOLD's and FedDyn's generic models beat FedAvg's where clients differ most",
    {
        "protocol": "fedrod",
        "data": {"name": "fmnist", "partition": "dirichlet:0.1", "clients": 20, "subset": 0.2},
        "net": {"name": "fedrod-conv"},
        "rounds": {"count": 30, "cohort": 0.5},
        "local": {"steps": 20},  # alike for all clients, as SCAFFOLD's analysis has it
        "scoring": {"every": 10},
    },
    {
        "fedavg": {"method": "fedavg"},
        "scaffold": {"method": "scaffold"},
        "feddyn-0.1": {"method": "feddyn(lam=0.1)"},
    },
    (GENERIC, WEIGHTED_GENERIC, WEIGHTED_PERSONAL),
    paper={"FED-ROD Table 7, Dir(0.1), G-FL": {"FedAvg": 81.1, "SCAFFOLD": 83.1, "FedDyn": 83.2}},
)

FEDROD = {
    "protocol": "fedrod",
    "data": {"name": "fmnist", "clients": 60, "new_clients": 0.5, "subset": 0.2},
    "net": {"name": "fedrod-conv"},
    "rounds": {"count": 20, "cohort": 0.4},
    "local": {"epochs": 3},
    "scoring": {"every": 20},
}
FEDROD_FIGURES = (GENERIC, WEIGHTED_GENERIC, WEIGHTED_PERSONAL, BEFORE, AFTER)
FEDROD_CASES = {
    "fedavg": {"method": "fedavg"},
    "linear": {"method": "fedrod(head=linear)"},
    "hyper": {"method": "fedrod(head=hyper)"},
}

FEDROD_01 = Study(
    "fedrod-dir0.1",
    "FED-ROD's generic model beats FedAvg's, its personal models FedAvg's local ones (Dir 0.1)",
    FEDROD
    | {
        "data": FEDROD["data"] | {"partition": "dirichlet:0.1", "clients": 30, "new_clients": 0.0},  # type: ignore[operator]
        "rounds": {"count": 20, "cohort": 0.2},
    },
    FEDROD_CASES,
    FEDROD_FIGURES[:3],
    seeds=(0, 1),
    paper={
        "Table 7, G-FL | GM | PM": {
            "FedAvg": [81.1, 81.0, 91.5],
            "linear": [83.9, 83.9, 92.7],
            "hyper": [83.9, 83.9, 92.9],
        }
    },
)
FEDROD_03 = Study(
    "fedrod-dir0.3",
    "The same at Dir(0.3), and hyper serves new clients from their class distribution alone",
    FEDROD | {"data": FEDROD["data"] | {"partition": "dirichlet:0.3"}},  # type: ignore[operator]
    FEDROD_CASES,
    FEDROD_FIGURES,
    seeds=(0, 1),
    paper={
        "Table 7, G-FL | GM | PM": {
            "FedAvg": [83.4, 83.2, 90.5],
            "linear": [86.3, 86.3, 94.5],
            "hyper": [86.3, 86.3, 94.8],
        },
        "Table 4, new clients before | after": {"FedAvg": [80.3, 87.2], "linear": [83.5, 91.3], "hyper": [88.9, 91.4]},
    },
)

DBE = Study(
    "dbe-ablation",
    "FedAvg + DBE is far above FedAvg on a partition made as DBE's is; MR alone < PRBM alone < both",
    {
        "protocol": "dbe",
        "data": {"name": "fmnist", "subset": 0.2},  # draws another federation than DBE's, which deals all
        "net": {"name": "cnn4"},
        "rounds": {"count": 15},
        "scoring": {"every": 15},
    },
    methods("fedavg", "fedavg+mr", "fedavg+prbm", "fedavg+dbe"),
    (SPLIT_PERSONAL, SPLIT_GENERIC, GENERIC),
    paper={
        "Table 5, practical": {"FedAvg": 85.85, "FedAvg+DBE": 97.69},
        "Table 2, Tiny-ImageNet": {"FedAvg": 19.46, "MR": 22.21, "PRBM": 26.70, "DBE": 43.32},
    },
)

SUPERFED = Study(
    "superfed-line",
    "An interior λ beats both ends of the line (ν is inert in a net this large, so not that it takes ν > 0)",
    {
        "protocol": "superfed",
        "data": {"name": "fmnist", "clients": 50, "subset": 0.2},
        "net": {"name": "twonn"},
        "rounds": {"count": 60, "cohort": 5.0},  # in seed 0 three clients never train their w^l: 0 % at λ = 1
        "local": {"epochs": 5},
        "scoring": {"every": 60},
    },
    {
        "fedavg": {"method": "fedavg"},
        "mm": {"method": "superfed-mm(nu=1.0, mu=0.01)"},
        "lm": {"method": "superfed-lm(nu=2.0, mu=0.01)"},
        "mm-without-regularizers": {"method": "superfed-mm(nu=0.0, mu=0.0)"},
    },
    (SPLIT_PERSONAL, SPLIT_GENERIC, "last.member:", "last.rule:"),
    paper={"Table 1, MNIST K=50": {"FedAvg": 96.50, "MM": 99.37, "LM": 99.33}},
)

PGFED = Study(
    "pgfed",
    "PGFed's personal models beat FedAvg's global model and Local on the same split (α hardly moves: no test of it)",
    {
        "protocol": "pgfed",
        "data": {"name": "fmnist", "subset": 0.1},
        "net": {"name": "cnn4"},
        "rounds": {"count": 15},
        "scoring": {"every": 15},
    },
    methods("local", "fedavg", "pgfed", "pgfedmo"),  # recorded when the default of eta2 was 1e-4
    (SPLIT_PERSONAL, SPLIT_GENERIC, GENERIC),
    seeds=(0, 1),
    paper={"Table 1, CIFAR-10 N=25": {"Local": 72.40, "FedAvg": 65.07, "PGFed": 81.02, "PGFedMo": 81.20}},
)

FEDBASIS = Study(
    "fedbasis",
    "Jointly trained bases move together, those of coordinate descent apart; new clients are served alike at three "
    "learning rates, where fine-tuning of all weights is not (without +lp as a control: no test of FedBasis)",
    {
        "protocol": "fedbasis",
        "data": {"name": "fmnist", "partition": "dirichlet:0.3", "subset": 0.1},  # the preset's when it was recorded
        "net": {"name": "mlp"},
        "rounds": {"count": 20},
        "local": {"epochs": 3},
        "adapt": {"select": "last"},
        "scoring": {"every": 20, "pm_source": "global_plus_personal"},
    },
    {"joint": {"method": "fedbasis(joint=true, tau=1)"}}  # the others sharpen with tau=0.1: entropies do not compare
    | {f"fedbasis, lr {lr}": {"method": "fedbasis", "adapt": {"lr": lr}} for lr in (0.01, 0.1, 0.3)}
    | {f"fedavg+ft, lr {lr}": {"method": "fedavg+ft", "adapt": {"lr": lr}} for lr in (0.01, 0.1, 0.3)},
    (AFTER, BEFORE, GENERIC, "curve.fedbasis_cosine", "curve.fedbasis_spread", "curve.fedbasis_entropy"),
    paper={"Office-Home M, last | best": {"FedAvg+FT": [78.2, 78.5], "FedBasis": [87.5, 87.7]}},
)

PRECISION = Study(
    "precision",
    "Nets that learn in bfloat16 are as accurate after the same rounds as in float32, within 0.3 points",
    {
        "protocol": "fedrod",
        "method": "fedavg",
        "data": {"name": "fmnist", "clients": 10, "subset": 0.05},
        "rounds": {"count": 20, "cohort": 0.5},
        "local": {"epochs": 1},
        "scoring": {"every": 20},
    },
    {
        f"{net}, {precision}": {"net": {"name": net}, "local": {"batch": batch}, "precision": precision}
        for net, batch in (("fedrod-conv", 40), ("cnn4", 10))
        for precision in ("fp32", "bf16")
    },
    (GENERIC, WEIGHTED_GENERIC, WEIGHTED_PERSONAL),
)

ROBUST = Study(
    "robust",
    "With a fifth of the clients replacing the model FedAvg loses a quarter of the test set, robust means lose little "
    "(Krum takes one client's model, which costs it as much without an attack)",
    {
        "protocol": "fedrod",
        "data": {"name": "fmnist", "partition": "dirichlet:0.5", "clients": 20, "subset": 0.1, "malicious": 0.2},
        "net": {"name": "twonn"},
        "rounds": {"count": 15, "cohort": 1.0},  # everybody, so that exactly four of twenty attack in each round
        "local": {"epochs": 1},
        "scoring": {"every": 15},
    },
    {f"{method}, no attack": {"method": method, "data": {"malicious": 0.0}} for method in ("fedavg", "krum(f=4)")}
    | {
        method: {"method": method, "data": {"attack": "model-replacement"}}
        for method in (
            "fedavg",
            "median",
            "trimmed-mean(share=0.2)",
            "krum(f=4)",
            "multi-krum(f=4)",
            "geometric-median",
            "norm-clip",
        )
    }
    | {
        f"fedavg, {attack}": {"method": "fedavg", "data": {"attack": attack}}
        for attack in ("label-poison", "random-update")
    },
    (GENERIC, WEIGHTED_GENERIC, WEIGHTED_PERSONAL),
)

FULL, SHORT, DEAR = 25, 10, 5  # rounds of the paper's own rows, of the others, and of those that cost several trainings


def _catalogue() -> dict[str, Values]:
    rounds = dict.fromkeys(("fedavg", "fedavg+dbe", "fedper", "fedrep", "fedrod", "fedbabu", "fedfomo"), FULL)
    rounds |= dict.fromkeys(("ditto", "apfl", "per-fedavg", "local", "fedavg+ft"), FULL)
    rounds |= dict.fromkeys(("fedprox", "scaffold", "feddyn", "lg-fedavg", "mtl", "fedavgm", "fedadam"), SHORT)
    rounds |= dict.fromkeys(("fedyogi", "fedadagrad", "fednova", "fedavg+bsm", "fedavg+knn-per", "fedgen"), SHORT)
    rounds |= dict.fromkeys(("pfedme", "apple", "pgfed", "pgfedmo", "superfed-mm", "superfed-lm", "moon"), DEAR)
    rounds |= dict.fromkeys(("fedbasis", "l2gd", "pfedhn"), DEAR)
    return {name: {"method": name, "rounds": {"count": count}} for name, count in rounds.items()}


CATALOGUE = Study(
    "fmnist-catalogue",
    "Every method on DBE's own FMNIST federation at full data: where each stands after the same rounds",
    {
        "protocol": "dbe",
        "data": {"name": "fmnist", "partition": "dirichlet-balanced:0.1", "clients": 20, "partition_seed": 1},
        "net": {"name": "cnn4"},
        "scoring": {"every": 5},
    },
    _catalogue(),
    (
        SPLIT_PERSONAL,
        SPLIT_GENERIC,
        GENERIC,
        "curve.personal.split.accuracy.by_samples",
        "curve.generic.split.accuracy.by_samples",
        "curve.personal.split.accuracy.hurt_clients",
    ),
    seeds=(0,),
    paper={
        "Table 5, practical, converged": {
            "Per-FedAvg": 95.10,
            "pFedMe": 97.25,
            "Ditto": 97.47,
            "FedPer": 97.44,
            "FedRep": 97.56,
            "FedRoD": 97.52,
            "FedBABU": 97.46,
            "APFL": 97.25,
            "FedFomo": 97.21,
            "APPLE": 97.06,
            "FedAvg": 85.85,
            "FedAvg+DBE": 97.69,
        }
    },
)

PFLBED = Study(
    "pflbed-digits4",
    "On new clients of four domains FedBasis is above FedAvg+LP (the control: a tuned classifier on a fixed body), "
    "FedAvg+FT, Per-FedAvg+FT and FedPer; judged by ψ alone, bases of coordinate descent are above those trained "
    "jointly; and α has less entropy at the same τ = 1 (entropy_learned)",
    {
        "protocol": "fedbasis",
        # Four domains of digits (MNIST, MNIST-M, SVHN, USPS): run it where the file is.
        "data": {"name": "digits4.npz", "subset": 0.5, "resize": 16},
        "net": {"name": "fedrod-conv"},
        "rounds": {"count": 10},
        "local": {"epochs": 3},
        "scoring": {"every": 10, "pm_source": "global_plus_personal"},
    },
    methods("fedavg+ft", "fedavg+lp", "per-fedavg+ft", "fedper")
    | {
        # A client takes about ten steps a round, so ψ has a rate at which it moves.
        "fedbasis": {"method": "fedbasis(psi_lr=0.1)"},
        "psi-alone": {"method": "fedbasis(psi_lr=0.1, classifier_free_for_new=false)", "adapt": {"lr": 0.1}},
        "psi-alone-joint": {
            "method": "fedbasis(psi_lr=0.1, classifier_free_for_new=false, joint=true, tau=1)",
            "adapt": {"lr": 0.1},
        },
    },
    (
        AFTER,
        "new_clients.after@best_on_validation",
        BEFORE,
        GENERIC,
        WEIGHTED_PERSONAL,
        "curve.fedbasis_cosine",
        "curve.fedbasis_spread",
        "curve.fedbasis_entropy",
        "curve.fedbasis_entropy_learned",
    ),
    paper={
        "Office-Home M, last | best": {
            "FedAvg+FT": [78.2, 78.5],
            "Per-FedAvg+FT": [86.1, 86.2],
            "FedBasis": [87.5, 87.7],
        }
    },
)

STUDIES = {
    study.name: study
    for study in (DRIFT, FEDROD_01, FEDROD_03, DBE, SUPERFED, PGFED, FEDBASIS, PRECISION, ROBUST, CATALOGUE, PFLBED)
}
