"""The round loop: draw a cohort, send messages, collect replies, aggregate, score, record."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from torch import Tensor

from motet.errors import MotetError
from motet.messages.checks import Reasons, ReplyChecks, unusable
from motet.messages.message import Message, State
from motet.messages.partial_sums import bytes_left_behind
from motet.messages.replies import Replies, ReplyCollector
from motet.messages.task import Outcome, Task, TaskKind, in_task_order
from motet.messages.transform import Collector
from motet.metrics.run_metric import Cohort
from motet.server.assembly import ServerSide
from motet.server.evaluation import Row
from motet.server.message_walk import MessageWalk, introduced, kept_by_transforms, strangers
from motet.server.stopping import Stopping
from motet.training.randomness import numpy_generator


@dataclass
class RunState:
    """The state of a run: the number of rounds done, and the server state after them."""

    round: int
    server: State


class RoundLog(Protocol):
    """Is called after each round, for example by the record of a run."""

    def round_done(self, row: Row, clients: list[Row], state: RunState) -> None:
        """Record a round that ended: its row, the rows of its clients, and the state of the run."""


@dataclass
class _Exchange:
    """What came back from the clients of a cohort."""

    replies: Replies
    set_aside: Reasons
    losses: dict[int, float] = field(default_factory=dict)  # training losses by client
    bytes_down: int = 0
    bytes_up: int = 0

    def after(self, other: "_Exchange") -> "_Exchange":
        """Return this exchange with the bytes of another one before it."""
        self.bytes_down += other.bytes_down
        self.bytes_up += other.bytes_up
        return self


@dataclass
class RoundLoop:
    """Runs the rounds of an experiment, from any state to its last round."""

    side: ServerSide
    log: RoundLog
    already_prepared: bool = False
    stopping: Stopping | None = None  # where the rounds end by themselves

    def run(self, state: RunState) -> RunState:
        """Do the remaining rounds and return the final state."""
        if self.side.method.prepares and not self.already_prepared:
            state = self._prepare(state)
        while not self._is_over(state.round):
            state = self._round(state)
        return state

    def _is_over(self, round: int) -> bool:
        return self.stopping.is_over(round) if self.stopping else round >= self.side.experiment.rounds.last

    def _prepare(self, state: RunState) -> RunState:
        """Run the preparation of methods that ask every training client once before the first round."""
        began = time.perf_counter()
        method, cohort = self.side.method, self.side.client_ids
        came = self._exchange("prepare", cohort, 0, state.server)
        state = RunState(0, method.prepared(state.server, came.replies) if came.replies else state.server)
        row = self._row(0, cohort, came) | {"seconds": time.perf_counter() - began}
        self.log.round_done(row, [], state)
        return state

    def _round(self, state: RunState) -> RunState:
        """Do one round, report it to the log, and return the new state."""
        began = time.perf_counter()
        method, experiment = self.side.method, self.side.experiment
        round = state.round + 1
        server = {**state.server, "round": round}

        cohort = self.sample(round)
        server, met = self._introduce(cohort, round, server)
        came = met if met.set_aside else self._exchange("train", cohort, round, server).after(met)
        row = self._row(round, cohort, came) | self._trained(cohort, came) | self._measured(server, came.replies)
        if came.replies:
            server = {**kept_by_transforms(server), **method.aggregate(server, came.replies), "round": round}
        del came  # frees the replies before models are made for scoring
        row |= {"lr": experiment.local.at_round(round), "train_seconds": time.perf_counter() - began}
        row |= method.diagnostics(server) | self._spent(round)

        clients: list[Row] = []
        last = round == experiment.rounds.last
        if last or round % experiment.scoring.every == 0:
            # where rounds end by themselves, each that is scored may be the one whose models are kept
            scores = self.side.evaluator.training_clients(server, round, last or self.stopping is not None)
            row |= scores.figures
            clients = scores.clients
        row["seconds"] = time.perf_counter() - began
        if self.stopping:
            self.stopping.see(row)
        state = RunState(round, server)
        self.log.round_done(row, clients, state)
        return state

    def sample(self, round: int) -> list[int]:
        """Return the ids of the clients of a round, sorted; raise if too few are available."""
        ids = self.side.client_ids
        if self.side.method.pooled:
            return list(ids)
        size, there = self.side.experiment.rounds.cohort_size(len(ids)), self.side.engine.available(ids)
        if len(there) < self.side.engine.fewest(size):
            raise MotetError(
                f"round {round} takes {size} clients but {len(there)} of {len(ids)} can be asked now; "
                f"accepted: a smaller rounds.cohort, or resume when more of them are there"
            )
        size = min(size, len(there))
        drawn = numpy_generator(self.side.experiment.seed, "cohort", round).choice(len(there), size, replace=False)
        return sorted(there[i] for i in drawn)

    # ------------------------------------------------------------ what goes to clients and comes back

    def _introduce(self, cohort: Sequence[int], round: int, server: State) -> tuple[State, _Exchange]:
        """Ask clients that the transforms do not know yet to introduce themselves; return the server state with that.

        If one does not, the round has nothing to send: all are set aside.
        """
        found, told = _Exchange(Replies({}), {}), dict[int, Message]()
        new = strangers(self.side, server, cohort)
        for outcome in self.side.engine.run([Task("introduce", i, round, {}) for i in new]) if new else ():
            found.bytes_down += outcome.sent
            found.bytes_up += outcome.received
            if why := unusable(outcome, "introduce", round, set(new) - told.keys(), new):
                found.set_aside[outcome.client_id] = why
            elif outcome.reply is not None:
                told[outcome.client_id] = outcome.reply
        server = introduced(self.side, server, told) if told else server
        for client_id in strangers(self.side, server, cohort):
            found.set_aside.setdefault(client_id, "it did not introduce itself as the transforms need it")
        if found.set_aside:
            why = f"the round is void without client {min(found.set_aside)}"
            found.set_aside = dict.fromkeys(cohort, why) | found.set_aside
        return server, found

    def _exchange(self, kind: TaskKind, cohort: Sequence[int], round: int, server: State) -> _Exchange:
        """Send a task to every client of the cohort and collect the replies.

        A client that diverged or sent an unusable reply is set aside for this round, with the reason. Fields of replies
        are added up as they arrive where their rule allows it, so that they need not be held.
        """
        walk = MessageWalk(self.side, server, cohort, round) if kind == "train" else None
        collector = walk.collector() if walk else self._collector(cohort)
        added_up = kind == "train" and self.side.experiment.engine.partial_sums > 0
        found = _Exchange(Replies({}), {})
        waiting = set(cohort)
        tasks = [Task(kind, i, round, walk.message_for(i) if walk else self._message(server, i)) for i in cohort]
        for outcome in in_task_order(tasks, self.side.engine.run(tasks)):
            why = unusable(outcome, kind, round, waiting, cohort)
            waiting.discard(outcome.client_id)
            found.bytes_down += outcome.sent
            found.bytes_up += outcome.received + (bytes_left_behind(outcome.reply) if added_up else 0)
            if why:
                found.set_aside[outcome.client_id] = why
                continue
            if type(outcome.train_loss) is float and math.isfinite(outcome.train_loss):
                found.losses[outcome.client_id] = outcome.train_loss
            self._take_in(outcome, collector, walk, found)
        found.set_aside |= dict.fromkeys(waiting, "no answer")
        broken = bool(found.set_aside)
        found.replies, wrong = collector.finish(walk.stand_in if walk else None)
        # otherwise the method sends what it does not declare
        if wrong and not found.replies and not (broken or collector.void):
            raise MotetError(f"no reply to {kind} of round {round} can be used: {next(iter(wrong.values()))}")
        found.set_aside |= wrong
        return found

    def _message(self, server: State, client_id: int) -> Callable[[], Message]:
        return partial(self.side.method.broadcast, server, client_id)

    def _collector(self, cohort: Sequence[int]) -> Collector:
        """Return what collects replies that are not of a training: none of their fields is added up."""
        method = self.side.method
        checks = ReplyChecks({"n": "sum", **method.uploads})
        return ReplyCollector(checks, {}, method.weightings, self.side.samples_of(cohort))

    @staticmethod
    def _take_in(outcome: Outcome, collector: Collector, walk: MessageWalk | None, found: _Exchange) -> None:
        assert outcome.reply is not None
        try:
            reply = walk.opened(outcome.client_id, outcome.reply) if walk else outcome.reply
        except MotetError as error:
            found.set_aside[outcome.client_id] = str(error)
            return
        collector.add(outcome.client_id, reply)

    # ------------------------------------------------------------ the row of a round

    def _row(self, round: int, cohort: Sequence[int], came: _Exchange) -> Row:
        pooled = self.side.method.pooled
        return {
            "round": round,
            "cohort": list(cohort),
            "set_aside": {str(client_id): reason for client_id, reason in sorted(came.set_aside.items())},
            "bytes_down": None if pooled else came.bytes_down,
            "bytes_up": None if pooled else came.bytes_up,
        }

    def _trained(self, cohort: Sequence[int], came: _Exchange) -> Row:
        """Return the training losses for the row, if the experiment records them."""
        if not self.side.experiment.scoring.train_loss:
            return {}
        losses = came.losses
        mean = sum(losses.values()) / len(losses) if losses else None
        return {"train_loss": mean, "train_losses": [losses.get(client_id) for client_id in cohort]}

    def _spent(self, rounds: int) -> Row:
        """Return what transforms account for after so many rounds, such as ε."""
        found = (transform.spent(self.side.plan, rounds) for transform in self.side.transforms)
        return {name: value for figures in found for name, value in figures.items()}

    def _measured(self, server: State, replies: Mapping[int, Message]) -> Row:
        """Return what run metrics compute of a round, from the weights that were sent and that came back."""
        sent, came = server.get("w"), {i: w for i, reply in replies.items() if isinstance(w := reply.get("w"), Tensor)}
        if not isinstance(sent, Tensor) or not came or any(w.shape != sent.shape for w in came.values()):
            return {}
        own, samples = self.side.method.own_weights, self.side.samples_of([*came])
        cohort = Cohort(sent[own], [w[own] for w in came.values()], [samples[i] for i in came])
        found = (m.in_round(cohort) for m in self.side.evaluator.run_metrics)
        return {name: value for numbers in found for name, value in numbers.items()}
