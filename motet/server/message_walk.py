"""The server's side of transforms: what they may know of a run, and the walk of one round's messages and replies."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from motet.config.experiment import Experiment
from motet.errors import MotetError, shown
from motet.messages.checks import Form, ReplyChecks
from motet.messages.message import Message, Scalar, State
from motet.messages.replies import ReplyCollector
from motet.messages.transform import PREFIX, Arrival, Collector, RunPlan, StandIn, Transform, blank_reply, open_reply
from motet.methods.base import Method, Wrapped
from motet.metrics.run_metric import RunMetric
from motet.server.partial_sums import upload_rules
from motet.training.flat_weights import Layout

if TYPE_CHECKING:
    from motet.server.assembly import ServerSide


# -------- Before a run


def plan_of(
    experiment: Experiment, method: Method, metrics: Sequence[RunMetric], transforms: tuple[Transform, ...]
) -> RunPlan:
    """Return what transforms may know of a run."""
    scoring, beside = experiment.scoring, {}
    if method.prepares:
        beside[f"method {experiment.method!r} sends replies before the first round"] = "a method that does not"
    if scoring.train_loss:
        beside["the training loss of each client travels beside its reply"] = "scoring.train_loss = false"
    if scoring.derived_generic:
        beside["personal models travel for scoring.derived_generic"] = "scoring.derived_generic = false"
    for name in (metric.name for metric in metrics if _looks_at_rounds(metric)):
        beside[f"scoring.metrics has {name!r}, which reads the model of each client"] = "metrics without it"
    chosen = ""
    if experiment.rounds.count == "auto":
        chosen = "rounds.count is 'auto', which chooses a round by scores; accepted: a number of rounds"
    elif scoring.report != "last":
        chosen = f"scoring.report is {scoring.report!r}, which chooses a round by scores; accepted: report = 'last'"
    return RunPlan(
        transforms,
        method.uploads,
        method.weightings,
        method.facts.clients,
        method.facts.cohort,
        beside,
        chosen,
        _sends_statistics(method),
    )


def _looks_at_rounds(metric: RunMetric) -> bool:
    return type(metric).in_round is not RunMetric.in_round


def _sends_statistics(method: Method) -> bool:
    """Return whether the weights that travel have running statistics of batch normalization among them."""
    while isinstance(method, Wrapped):
        method = method.inner
    names = [n for n, _ in method.net.named_buffers() if n.endswith(("running_mean", "running_var"))]
    layout = getattr(method, "layout", None)
    if not isinstance(layout, Layout):
        return bool(names)
    return any(layout.places[name].where.stop <= layout.shared.stop for name in names)


def kept_by_transforms(server: State) -> State:
    """Return the fields of a server state that transforms keep there from round to round."""
    return {name: value for name, value in server.items() if name.startswith(PREFIX)}


# -------- In a round


def strangers(side: "ServerSide", server: State, cohort: Sequence[int]) -> list[int]:
    """Return the clients of a cohort that must introduce themselves before they train, such as by a public key."""
    return [i for i in cohort if any(transform.stranger(server, i) for transform in side.transforms)]


def introduced(side: "ServerSide", server: State, replies: Mapping[int, Message]) -> State:
    """Return the server state with what clients told of themselves."""
    for transform in side.transforms:
        server = transform.introduced(server, replies)
    return server


def _same(a: Tensor | Scalar | None, b: Tensor | Scalar | None) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a is b or (a.dtype == b.dtype and torch.equal(a, b))
    return type(a) is type(b) and a == b


class MessageWalk:
    """Messages on their way to the clients of one round, and replies on their way back.

    Where there are transforms, each message is built once and held until its reply has arrived.
    """

    def __init__(self, side: "ServerSide", server: State, cohort: Sequence[int], round: int):
        self.side, self.server = side, server
        self.transforms = side.transforms
        self.samples = side.samples_of(cohort)
        self.arrival = Arrival(-1, round, len(cohort), side.experiment.seed, side.secret)
        self._sent: dict[int, Message] = {}
        self._first: Message | None = None

    def message_for(self, client_id: int) -> Callable[[], Message]:
        """Return a function that builds the message of a client."""
        return partial(self._build, client_id)

    def _build(self, client_id: int) -> Message:
        message = self.side.method.broadcast(self.server, client_id)
        if self.transforms:
            self._refuse_another(message)
            for transform in self.transforms:
                message = transform.address(self.server, self.samples, message)
            self._sent[client_id] = message
        return message

    def _refuse_another(self, message: Message) -> None:
        """Raise if clients are sent different messages where a transform needs the same one for all of them."""
        first = self._first = message if self._first is None else self._first
        if not any(transform.needs_one_message for transform in self.transforms):
            return
        for name in first.keys() | message.keys():
            if not _same(first.get(name), message.get(name)):
                raise MotetError(
                    f"transforms is {shown(self.side.experiment.transforms)}, which needs one message for all clients "
                    f"of a round, but {self.side.experiment.method!r} sends each a field {name!r} of its own; "
                    f"accepted: another method"
                )

    def opened(self, client_id: int, reply: Message) -> Message:
        """Return a reply with its transforms undone, as the method expects it; raise `MotetError` if that fails."""
        if not self.transforms:
            return reply
        message = self._sent.pop(client_id, None)
        if message is None:
            message = self._build(client_id)
        return open_reply(self.transforms, self._from(client_id), message, reply)

    def collector(self) -> Collector:
        """Return what collects the replies of this round's training."""
        method, side = self.side.method, self.side
        for transform in self.transforms:
            message = partial(method.broadcast, self.server, next(iter(self.samples)))
            if found := transform.collector(side.plan, self.samples, message):
                return found
        w, rules = self.server.get("w"), upload_rules(method, side.evaluator.run_metrics)
        checks = ReplyChecks({"n": "sum", **method.uploads}, {"w": w} if isinstance(w, Tensor) else None)
        added_up = side.experiment.engine.partial_sums > 0
        return ReplyCollector(checks, rules, method.weightings, self.samples, added_up)

    @property
    def stand_in(self) -> StandIn | None:
        """What makes the reply that counts for a client that failed; None where the others go on without it."""
        return self._stand_in if any(transform.replaces_failed for transform in self.transforms) else None

    def _stand_in(self, client_id: int, form: Mapping[str, Form]) -> Message:
        message = self.side.method.broadcast(self.server, client_id)
        reply = blank_reply(message, form)
        for transform in reversed(self.transforms):
            reply = transform.stand_in(self._from(client_id), message, reply)
        return reply

    def _from(self, client_id: int) -> Arrival:
        return replace(self.arrival, client_id=client_id)
