"""The one round loop."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Protocol

from pydantic import Field, ValidatorFunctionWrapHandler, WrapValidator
from torch import Tensor

from motet.config.section import Section
from motet.engines import Engine, Task, TaskKind
from motet.errors import MotetError
from motet.messages.checks import Reasons, Replies, answers, well_formed, without_losses
from motet.messages.message import Message, State
from motet.messages.transform import Arrival, Transform, open_reply
from motet.methods.base import Method
from motet.server.evaluation import Evaluator, Row
from motet.training.local import LocalSettings
from motet.training.randomness import numpy_generator


def _one_stays_whole(value: Any, checked: ValidatorFunctionWrapHandler) -> float:
    """1 without a point is one client, 1.0 is all of them; other numbers mean the same in both spellings."""
    number: float = checked(value)
    return 1 if type(value) is int and number == 1 else number


class RoundSettings(Section):
    """[rounds]: how long, and how many clients take part each time."""

    count: int = Field(20, ge=1, description="rounds of training")
    cohort: Annotated[float, WrapValidator(_one_stays_whole)] = Field(
        0.4,
        gt=0,
        description="clients per round: a number such as 1 or 5, or a share such as 0.4; 1 is one, 1.0 is all",
    )

    def cohort_size(self, clients: int) -> int:
        """How many of the training clients take part in a round."""
        if isinstance(self.cohort, float) and self.cohort <= 1:
            return max(1, int(self.cohort * clients + 1e-9))
        if self.cohort != int(self.cohort) or self.cohort > clients:
            raise MotetError(
                f"rounds.cohort is {self.cohort:g}; accepted: a share up to 1, or a whole number up to the "
                f"{clients} clients that take part in training"
            )
        return int(self.cohort)


@dataclass
class RunState:
    """Where a run stands: rounds done, and the server state after them."""

    round: int
    server: State


class RoundLog(Protocol):
    """Who is told about each round: the record on disk, a progress bar, a test."""

    def round_done(self, row: Row, clients: list[Row], progress: RunState) -> None:
        """A round ended."""


@dataclass
class RoundLoop:
    """Everything a run needs but its state."""

    method: Method
    engine: Engine
    evaluator: Evaluator
    settings: RoundSettings
    local: LocalSettings
    seed: int
    client_ids: Sequence[int]
    log: RoundLog
    already_prepared: bool = False
    transforms: Sequence[Transform] = ()

    def run(self, progress: RunState) -> RunState:
        """From where the run stands to its last round."""
        if self.method.prepares and not self.already_prepared:
            progress = self._prepare(progress)
        while progress.round < self.settings.count:
            progress = self._round(progress)
        return progress

    def _prepare(self, progress: RunState) -> RunState:
        """What some methods do once with every training client before the first round."""
        began = time.perf_counter()
        replies, row = self._exchange("prepare", self.client_ids, 0, progress.server)
        progress = RunState(0, self.method.prepared(progress.server, replies) if replies else progress.server)
        row |= {"seconds": time.perf_counter() - began}
        self.log.round_done(row, [], progress)
        return progress

    def _round(self, progress: RunState) -> RunState:
        began = time.perf_counter()
        round = progress.round + 1
        server = {**progress.server, "round": round}
        replies, row = self._exchange("train", self.sample(round), round, server)
        row |= self._measured(server, replies)
        if replies:
            server = {**self.method.aggregate(server, replies), "round": round}
        del replies  # models of a whole cohort, while others are made for scoring
        row |= {"lr": self.local.at_round(round), "train_seconds": time.perf_counter() - began}
        row |= self.method.diagnostics(server)
        clients: list[Row] = []
        last = round == self.settings.count
        if last or round % self.evaluator.scoring.every == 0:
            scores = self.evaluator.training_clients(server, round, last)
            row |= scores.figures
            clients = scores.clients
        row["seconds"] = time.perf_counter() - began
        progress = RunState(round, server)
        self.log.round_done(row, clients, progress)
        return progress

    def _measured(self, server: State, replies: Mapping[int, Message]) -> Row:
        """What measures of a run note of each round."""
        sent, came = server.get("w"), [w for reply in replies.values() if isinstance(w := reply.get("w"), Tensor)]
        if not isinstance(sent, Tensor) or not came or any(w.shape != sent.shape for w in came):
            return {}
        own = self.method.own_weights
        found = (m.in_round(sent[own], [w[own] for w in came]) for m in self.evaluator.run_metrics)
        return {name: value for numbers in found for name, value in numbers.items()}

    def sample(self, round: int) -> list[int]:
        """The clients of a round, in the order of their ids."""
        if self.method.pooled:
            return list(self.client_ids)
        size, there = self.settings.cohort_size(len(self.client_ids)), self.engine.available(self.client_ids)
        if len(there) < size:
            raise MotetError(
                f"round {round} takes {size} clients but {len(there)} of {len(self.client_ids)} can be asked now; "
                f"accepted: a smaller rounds.cohort, or resume when more of them are there"
            )
        drawn = numpy_generator(self.seed, "cohort", round).choice(len(there), size, replace=False)
        return sorted(there[i] for i in drawn)

    def _exchange(
        self, kind: TaskKind, cohort: Sequence[int], round: int, server: State
    ) -> tuple[dict[int, Message], Row]:
        """Send, let work, collect; who diverged or answers nonsense is set aside for this round and named."""
        tasks = [Task(kind, i, round, partial(self.method.broadcast, server, i)) for i in cohort]
        outcomes = self.engine.run(tasks)
        replies, reasons = answers(outcomes, kind, round, cohort)
        losses: dict[int, float] = {}
        if self.evaluator.scoring.train_loss:
            replies, losses = without_losses(replies)
        if kind == "train" and self.transforms:
            replies, unreadable = self._opened(replies, server, Arrival(-1, round, len(cohort), self.seed))
            reasons |= unreadable
        declared = {"n": "sum", **self.method.uploads}
        w = server.get("w") if kind == "train" else None
        replies, wrong = well_formed(replies, declared, {"w": w} if isinstance(w, Tensor) else None)
        if wrong and not replies and not reasons:  # not a broken client but a method that does what it does not declare
            raise MotetError(f"no reply to {kind} of round {round} can be used: {next(iter(wrong.values()))}")
        row: Row = {
            "round": round,
            "cohort": list(cohort),
            "set_aside": {str(client_id): reason for client_id, reason in sorted((reasons | wrong).items())},
            "bytes_down": None if self.method.pooled else sum(o.sent for o in outcomes),
            "bytes_up": None if self.method.pooled else sum(o.received for o in outcomes),
        }
        if kind == "train" and self.evaluator.scoring.train_loss:
            row["train_loss"] = sum(losses.values()) / len(losses) if losses else None
            row["train_losses"] = [losses.get(client_id) for client_id in cohort]
        return replies, row

    def _opened(self, replies: Replies, server: State, arrival: Arrival) -> tuple[Replies, Reasons]:
        """The replies without what the transforms did to them on their way."""
        readable: Replies = {}
        reasons: Reasons = {}
        for client_id, reply in replies.items():
            message = self.method.broadcast(server, client_id)
            try:
                readable[client_id] = open_reply(self.transforms, replace(arrival, client_id=client_id), message, reply)
            except MotetError as error:
                reasons[client_id] = str(error)
        return readable, reasons
