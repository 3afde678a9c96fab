"""pfl: Apple's pfl-research on the same work, as its guide to fast simulations says: one process per core by torchrun.

In its favour: each process has the data resident, and the cohort is dealt longest first to the process with the least
work, which is the rule of pfl's own scheduler. Scoring is the script's, dealt to the processes.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.distributed
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDatasetBase
from pfl.hyperparam.base import HyperParam, NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from throughput_parts.script import PASSES, right
from throughput_parts.turns import Over, Turns
from throughput_parts.work import Work
from throughput_parts.workloads import ENDLESS, NEVER, Values


class Net(nn.Module):
    """The plain net with the functions that pfl asks for."""

    def __init__(self, net: nn.Module):
        super().__init__()
        self.net = net

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """What local training minimizes."""
        self.train()
        return cross_entropy(self.net(x), y)

    @torch.no_grad()
    def metrics(self, x: Tensor, y: Tensor) -> dict[str, Any]:
        """Asked for once, in the first warm-up round."""
        return {"loss": Weighted(float(self.loss(x, y)) * len(y), len(y))}


class Batches(Dataset):
    """A client's data; each pass over it has the next order of the client's batches."""

    def __init__(self, work: Work, round: int, client: int):
        super().__init__(raw_data=work.train[client], user_id=str(client))
        self.local, self.rng = work.experiment.local, work.order(round, client)

    def iter(self, batch_size: int | None) -> Iterator[list[Tensor]]:
        """One epoch."""
        (x, y), size = self.raw_data, batch_size or len(self)
        if len(y) <= size:  # pfl's evaluation in the first warm-up round too, which must not use up an order
            yield [x, y]
            return
        order = torch.randperm(len(y), generator=self.rng)
        if self.local.drop_last:
            order = order[: len(y) - len(y) % size]
        for rows in order.split(size):
            yield [x[rows], y[rows]]


class Cohorts(FederatedDatasetBase):
    """The cohort of one round after the other, and this process's share of it."""

    def __init__(self, work: Work):
        super().__init__()
        self.work, self.round = work, 0

    def __next__(self) -> tuple[Dataset, int]:
        raise NotImplementedError  # pfl asks for whole cohorts

    def get_cohort(self, cohort_size: int) -> Iterator[tuple[Dataset, int]]:
        """The clients that this process trains."""
        self.round += 1
        for client in mine(self.work, self.work.cohort(self.round)):
            yield Batches(self.work, self.round, client), client


def mine(work: Work, clients: list[int]) -> list[int]:
    """Longest first to whoever has least to do."""
    shares: list[list[int]] = [[] for _ in range(torch.distributed.get_world_size())]
    load = np.zeros(len(shares))
    for client in work.longest_first(clients):
        shares[int(load.argmin())].append(client)
        load[load.argmin()] += len(work.train[client][1])
    return shares[torch.distributed.get_rank()]


class LearningRate(HyperParam):  # type: ignore[misc]
    """The learning rate of the round."""

    def __init__(self, work: Work, cohorts: Cohorts):
        self.local, self.cohorts = work.experiment.local, cohorts

    def value(self) -> float:
        """Read before the cohort is drawn."""
        return self.local.at_round(self.cohorts.round + 1)


class InTurns(TrainingProcessCallback):  # type: ignore[misc]
    """Scores where the workload does, then waits for the next turn; the first process speaks for all."""

    def __init__(self, work: Work, turns: Turns):
        self.work, self.turns = work, turns

    def on_train_begin(self, *, model: PyTorchModel) -> Metrics:
        """Before the first round."""
        self._wait()
        return Metrics()

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: PyTorchModel, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        """After each round."""
        if self.work.scores(central_iteration + 1):
            hits = torch.zeros(len(PASSES), len(self.work.test))
            for client in mine(self.work, list(range(len(self.work.test)))):
                for row in range(len(PASSES)):
                    hits[row, client] = right(model.pytorch_model.net, self.work.test[client])
            torch.distributed.all_reduce(hits)
        self._wait()
        return False, Metrics()

    def _wait(self) -> None:
        goes_on = torch.ones(1)
        if torch.distributed.get_rank() == 0:
            try:
                self.turns.next()
            except Over:
                goes_on.zero_()
        torch.distributed.broadcast(goes_on, 0)
        if not goes_on:
            raise Over


def play(values: Values, turns: Turns) -> None:
    """A simulation that ends when the contest does."""
    work = Work.of(values)
    local = work.experiment.local
    net = Net(work.net())
    optimizer = partial(torch.optim.SGD, momentum=local.momentum, weight_decay=local.weight_decay)
    model = PyTorchModel(net, optimizer, central_optimizer=torch.optim.SGD(net.parameters(), lr=1.0))
    cohorts = Cohorts(work)
    backend = SimulatedBackend(cohorts, cohorts, [WeightByDatapoints()])
    algorithm = NNAlgorithmParams(ENDLESS, NEVER, train_cohort_size=len(work.cohort(1)), val_cohort_size=0)
    rule = NNTrainHyperParams(
        local_batch_size=local.batch, local_num_epochs=local.epochs, local_learning_rate=LearningRate(work, cohorts)
    )
    FederatedAveraging().run(algorithm, backend, model, rule, callbacks=[InTurns(work, turns)])
