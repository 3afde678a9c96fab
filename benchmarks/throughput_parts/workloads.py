"""What is run: workloads of the papers, each an experiment that every contestant carries out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from motet.config.nesting import merge
from throughput_parts.samples import characters, colour_images

Values = dict[str, Any]

# The last round is always scored: it is never reached.
ENDLESS = 10_000
NEVER = 10 * ENDLESS


@dataclass(frozen=True)
class Workload:
    """One workload: an experiment, and what is laid over it to make a round short."""

    name: str
    what: str
    setting: Values
    quick: Values
    data: Callable[[], str] = lambda: "fmnist"

    def experiment(self, quick: bool) -> Values:
        """The choices that every contestant gets."""
        common = {"method": "fedavg", "seed": 0, "data": {"name": self.data()}, "rounds": {"count": ENDLESS}}
        return merge(common, self.setting, self.quick if quick else {})


# No shortening below changes a batch: DBE drops the last, smaller batch of an epoch anyway; FED-ROD's and SuPerFed's
# rounds are made short by fewer clients, each with all of its data.
DBE_CNN = Workload(
    "dbe-cnn",
    "4-layer CNN, 20 clients with a fifth of the data, batch 10, 1 epoch, generic and personal scores (DBE's setting)",
    {"protocol": "dbe", "net": {"name": "cnn4"}, "data": {"subset": 0.2}, "scoring": {"every": 1}},
    {"data": {"subset": 0.06}},
)
FEDROD_CONV = Workload(
    "fedrod-conv",
    "FED-ROD's ConvNet, 20 of 100 clients (quick: 8, 1 epoch), batch 40, 5 epochs, no scoring (FED-ROD's setting)",
    {"protocol": "fedrod", "net": {"name": "fedrod-conv"}, "rounds": {"cohort": 20.0}, "scoring": {"every": NEVER}},
    {"rounds": {"cohort": 8.0}, "local": {"epochs": 1}},
)
TWONN = Workload(
    "twonn",
    "TwoNN (four linear layers), 50 of 500 clients (quick: 20), batch 10, 10 epochs, no scoring (SuPerFed's setting)",
    {
        "protocol": "superfed",
        "net": {"name": "twonn"},
        "data": {"clients": 500},
        "rounds": {"cohort": 50.0},
        "scoring": {"every": NEVER},
    },
    {"rounds": {"cohort": 20.0}},
)
RESNET8 = Workload(
    "resnet8-cifar",
    "ResNet-8 with BatchNorm on 32x32 colour images, 4 of 20 clients (quick: 2), batch 32, 1 epoch, no scoring",
    {
        "net": {"name": "resnet8"},
        "data": {"clients": 20, "partition": "dirichlet:0.3"},
        "rounds": {"cohort": 4.0},
        "local": {"epochs": 1, "batch": 32, "drop_last": True},  # a batch of one would be another's in Motet
        "scoring": {"every": NEVER},
    },
    {"rounds": {"cohort": 2.0}},
    colour_images,
)
LSTM = Workload(
    "lstm-shakespeare",
    "LEAF's LSTM on windows of 80 characters, 4 of 20 clients (quick: 2), batch 10, 1 epoch, no scoring",
    {
        "net": {"name": "stacked-lstm"},
        "data": {"clients": 20, "partition": "iid"},
        "rounds": {"cohort": 4.0},
        "local": {"epochs": 1, "batch": 10, "lr": 0.8, "momentum": 0.0, "weight_decay": 0.0},
        "scoring": {"every": NEVER},
    },
    {"rounds": {"cohort": 2.0}},
    characters,
)
WORKLOADS = {workload.name: workload for workload in (DBE_CNN, FEDROD_CONV, TWONN, RESNET8, LSTM)}
