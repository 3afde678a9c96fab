"""bare: one process, torch's default threads, one client after the other. What a script does."""

import torch

from throughput_parts.script import PASSES, State, add, right, train
from throughput_parts.turns import Turns
from throughput_parts.work import Work
from throughput_parts.workloads import Values


def play(values: Values, turns: Turns) -> None:
    """Rounds in turns."""
    work = Work.of(values)
    net = work.net()
    weights = {name: value.clone() for name, value in net.state_dict().items()}
    round = 0
    while True:
        turns.next()
        round += 1
        weights = one_round(work, net, weights, round)
        if work.scores(round):
            score(work, net, weights)


def one_round(work: Work, net: torch.nn.Module, weights: State, round: int) -> State:
    """FedAvg: train the cohort, average by samples."""
    local, cohort = work.experiment.local, work.cohort(round)
    average = {name: torch.zeros_like(value) for name, value in weights.items()}
    samples = sum(len(work.train[i][1]) for i in cohort)
    for client in cohort:
        net.load_state_dict(weights)
        train(net, work.train[client], local, local.at_round(round), work.order(round, client), fused=False)
        add(average, net, len(work.train[client][1]) / samples)
    return average


def score(work: Work, net: torch.nn.Module, weights: State) -> dict[str, list[int]]:
    """Right answers per client, of the generic and of the personal models."""
    found: dict[str, list[int]] = {}
    for model in PASSES:
        net.load_state_dict(weights)
        found[model] = [right(net, test) for test in work.test]
    return found
