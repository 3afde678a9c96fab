"""limit: the bare loop in as many single-thread processes as cores. The opponent to respect.

Clients go longest first through one queue; weights lie in shared memory; each worker adds up the models it trained, so
that the parent averages one sum per worker; scoring is dealt to the workers too.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.multiprocessing
from torch import Tensor

from throughput_parts.contestants import CORES
from throughput_parts.script import PASSES, State, accumulate, add, right, train
from throughput_parts.turns import Over, Turns
from throughput_parts.work import Work
from throughput_parts.workloads import Values

SPAWN = torch.multiprocessing.get_context("spawn")  # forked workers hang once torch has used its threads


@dataclass
class Board:
    """What parent and workers share."""

    tasks: Any  # (what, round, client), or None at the end
    phase: Any  # a barrier: everybody is done with training, or with scoring
    weights: State
    sums: list[State]  # n_i·w_i over the clients that a worker trained
    hits: Tensor  # right answers: PASSES x clients

    @classmethod
    def of(cls, weights: State, workers: int, clients: int) -> "Board":
        """Everything in shared memory."""
        shared = {name: value.clone().share_memory_() for name, value in weights.items()}
        sums = [{name: torch.zeros_like(v).share_memory_() for name, v in weights.items()} for _ in range(workers)]
        hits = torch.zeros(len(PASSES), clients, dtype=torch.int64).share_memory_()
        return cls(SPAWN.SimpleQueue(), SPAWN.Barrier(workers + 1), shared, sums, hits)


def play(values: Values, turns: Turns, fused: bool = False) -> None:
    """Rounds in turns."""
    work = Work.of(values)
    board = hire(work, values, CORES, fused)
    round = 0
    try:
        while True:
            turns.next()
            round += 1
            one_round(work, board, round)
            if work.scores(round):
                deal(board, "score", round, work.longest_first(list(range(len(work.test)))))
    except Over:
        dismiss(board)


def hire(work: Work, values: Values, workers: int, fused: bool) -> Board:
    """Start the workers; each loads the data for itself."""
    board = Board.of(dict(work.net().state_dict()), workers, len(work.train))
    for number in range(workers):
        SPAWN.Process(target=labour, args=(number, values, board, fused), daemon=True).start()
    return board


def dismiss(board: Board) -> None:
    """Let the workers leave."""
    for _ in board.sums:
        board.tasks.put(None)


def one_round(work: Work, board: Board, round: int) -> None:
    """FedAvg: let the workers train the cohort, average their sums."""
    cohort = work.cohort(round)
    deal(board, "train", round, work.longest_first(cohort))
    samples = sum(len(work.train[i][1]) for i in cohort)
    for name, value in board.weights.items():
        value.zero_()
        for total in board.sums:
            accumulate(value, total[name], 1 / samples)
            total[name].zero_()


def deal(board: Board, what: str, round: int, clients: list[int]) -> None:
    """One phase of a round, to its end."""
    for client in clients:
        board.tasks.put((what, round, client))
    for _ in board.sums:
        board.tasks.put(("end", round, -1))  # each worker takes one, then waits for the others
    board.phase.wait()


def labour(number: int, values: Values, board: Board, fused: bool) -> None:
    """The life of a worker."""
    torch.set_num_threads(1)
    work = Work.of(values)
    net, local = work.net(), work.experiment.local
    while task := board.tasks.get():
        what, round, client = task
        if what == "end":
            board.phase.wait()
            continue
        if what == "train":
            net.load_state_dict(board.weights)
            data = work.train[client]
            train(net, data, local, local.at_round(round), work.order(round, client), fused)
            add(board.sums[number], net, len(data[1]))
        else:
            for model in range(len(PASSES)):
                net.load_state_dict(board.weights)
                board.hits[model, client] = right(net, work.test[client])
