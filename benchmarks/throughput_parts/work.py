"""The work of an experiment as a script sees it: prepared tensors, the cohort of a round, the first weights.

Data, partition, cohorts, the order of batches and the first weights are Motet's own, so that every contestant does the
same work to the last sample; tests/test_throughput.py compares the weights after a round.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from motet.config.experiment import Experiment, resolve
from motet.data import Input, Samples, build
from motet.nets import build_net
from motet.training.randomness import generator, numpy_generator, seeded
from throughput_parts.plain_nets import plain_net
from throughput_parts.script import Data
from throughput_parts.workloads import Values


@dataclass
class Work:
    """Every client's prepared data, resident, and who does what in which round."""

    experiment: Experiment
    input: Input
    classes: int
    train: list[Data]
    test: list[Data]

    @classmethod
    def of(cls, values: Values) -> "Work":
        """Load, deal and prepare."""
        experiment = resolve(values)
        federation = build(experiment.data, experiment.seed)
        train = [_prepared(client.train) for client in federation.clients]
        test = [_prepared(client.test) for client in federation.clients]
        return cls(experiment, federation.input, federation.classes, train, test)

    def cohort(self, round: int) -> list[int]:
        """The clients of a round, the same that Motet draws."""
        clients = len(self.train)
        size = self.experiment.rounds.cohort_size(clients)
        drawn = numpy_generator(self.experiment.seed, "cohort", round).choice(clients, size, replace=False)
        return sorted(int(i) for i in drawn)

    def longest_first(self, clients: list[int]) -> list[int]:
        """The order that keeps several workers busy to the end."""
        return sorted(clients, key=lambda i: -len(self.train[i][1]))

    def images(self, round: int) -> int:
        """How many images pass through training in a round."""
        local = self.experiment.local
        total = 0
        for client in self.cohort(round):
            n = len(self.train[client][1])
            total += n - n % local.batch if local.drop_last and n > local.batch else n
        return total * local.epochs

    def scores(self, round: int) -> bool:
        """Whether models are scored after this round."""
        return round % self.experiment.scoring.every == 0

    def order(self, round: int, client: int) -> torch.Generator:
        """The randomness of a client's batches."""
        return generator(self.experiment.seed, "train", round, client)

    def net(self) -> nn.Module:
        """The plain net with the first weights of Motet's."""
        with seeded(self.experiment.seed, "net"):
            first = build_net(self.experiment.net.name, self.input, self.classes)
        net = plain_net(self.experiment.net.name)
        with torch.no_grad():
            for mine, theirs in zip(net.parameters(), first.parameters(), strict=True):
                mine.copy_(theirs)
        return net


def _prepared(samples: Samples) -> tuple[Tensor, Tensor]:
    """Network input in the usual memory order (Motet's own is channels-last), and labels."""
    return samples.prepare(samples.x).clone(memory_format=torch.contiguous_format), samples.y
