"""The evaluation after the last round: metrics of the whole run, and figures of what the method learned.

Both use tasks of their own kinds, in which clients send what never leaves them in rounds. A simulation may do that; a
real site refuses these tasks, and only what the server knows is reported. A failure here becomes a note in the summary
and never loses the run.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from motet.errors import one_sentence, shown
from motet.messages.message import Message, State
from motet.messages.task import Task, TaskKind
from motet.methods.base import Learned, LearnedFigure
from motet.methods.base.learned_figure import MOST
from motet.metrics import family
from motet.metrics.classification import CountMetric, RankMetric
from motet.metrics.client_scores import FAILED
from motet.metrics.names import GENERIC, PERSONAL, MetricName, is_scored, member
from motet.metrics.over_clients import SPLIT
from motet.metrics.registry import headline_metric, run_metrics_of
from motet.metrics.run_metric import Finding, RunFacts, RunMetric
from motet.server.evaluation import Evaluator, generic_beside
from motet.server.workplace import MEMBER, WHICH

Rows = Sequence[Mapping[str, Any]]
OF_THE_SECOND_CLASS = ("average_precision", "f1", "precision", "recall")
MOST_NAMES = 8


@dataclass(frozen=True)
class FinalState:
    """The state of a run after its last round, with the rows of its record."""

    server: State
    round: int
    rows: Rows  # of all rounds
    clients: Rows = ()  # of the clients in the last one


@dataclass
class FinalEvaluation:
    """Evaluates a run after its last round."""

    evaluator: Evaluator
    seed: int

    def find(self, end: FinalState) -> Finding:
        """Return all run metrics and figures that the experiment asks for; what fails is a note among them."""
        found, method, scoring = Finding(), self.evaluator.method, self.evaluator.scoring
        if not scoring.looks_at_test:  # a run for tuning
            return found
        asked = self.evaluator.run_metrics
        for which, metric in enumerate(run_metrics_of((*scoring.metrics, *method.shows), scoring.threshold)):
            if metric in asked:
                _add(found, f"metric {metric.name}", partial(self._measured, metric, which, end))
            elif scoring.figures_learned and not any(isinstance(metric, type(one)) for one in asked):
                _add(found, "pictures", partial(self._shown, metric, which, end))
        if scoring.figures_learned:
            _add(found, "pictures", lambda: Finding(figures_learned=self.learned_by_the_method(end)))
        found.notes += self.without_figures(end.clients, end.rows[-1] if end.rows else {})
        found.notes += [*self.which_class(), *self.undefined(end.clients)]
        return found

    def which_class(self) -> list[str]:
        """Return a sentence that names the class which metrics of one of two classes are of."""
        facts = self.evaluator.facts
        of_one = [m.name for m in self.evaluator.metrics if m.name in OF_THE_SECOND_CLASS]
        if facts.classes != 2 or not of_one or not facts.class_names:
            return []
        return [f"{', '.join(of_one)}: of the class {shown(facts.class_names[1])}, the second of two"]

    def undefined(self, clients: Rows) -> list[str]:
        """Return a sentence for each metric that some clients cannot have, since their test rows hold one class."""
        names, said = {i: client.name or str(i) for i, client in self.evaluator.facts.by_id.items()}, []
        tested = [row for row in clients if row.get("set_aside") is None and row.get(SPLIT)]
        for metric in self.evaluator.metrics:
            if isinstance(metric, CountMetric | RankMetric):
                without = [row for row in tested if not _has(row, metric.name)]
                if without:
                    which = ", ".join(names[row["client"]] for row in without[:MOST_NAMES])
                    more = f" and {len(without) - MOST_NAMES} more" if len(without) > MOST_NAMES else ""
                    said.append(
                        f"{metric.name}: {len(without)} of {len(tested)} clients have none, for their test rows do not "
                        f"hold both kinds of rows it compares: {which}{more}"
                    )
        return said

    def without_figures(self, clients: Rows, last: Mapping[str, Any]) -> list[str]:
        """Return a sentence for each of the user's own metrics that raised an error in the last scoring."""
        scored = [row for row in clients if row.get("set_aside") is None]
        times = {m: sum(bool(row.get(f"{FAILED}{m.name}")) for row in scored) for m in self.evaluator.metrics}
        at_clients = [
            f"metric {metric.paper} raised an error at {count} of {len(scored)} clients, which have no figure of it; "
            f"its traceback is on standard error"
            for metric, count in times.items()
            if count
        ]
        return at_clients + [
            f"metric {metric.paper} raised an error on the common test set, where the generic model has no figure of "
            f"it; its traceback is on standard error"
            for metric in self.evaluator.metrics
            if last.get(f"{FAILED}{metric.name}")
        ]

    # ------------------------------------------------------------ metrics of the run

    @property
    def before(self) -> RunFacts:
        """The facts of the run that are known before its first round."""
        return RunFacts(self.evaluator.facts, self.evaluator.generic_net, self.evaluator.scoring, self.seed)

    def _measured(self, metric: RunMetric, which: int, end: FinalState) -> Finding:
        facts, own = self.evaluator.facts, self.before.has_own_tests
        if metric.needs_own_tests and not own and not (metric.takes_common_test and facts.test is not None):
            return Finding(notes=[f"{metric.name}: no client has test data of its own (data.test_share = 0)"])
        generic = self.evaluator.generic(end.server, end.round) if metric.needs_generic else None
        run = replace(self.before, rows=end.rows, generic=generic)
        replies: dict[int, Message] = {}
        if metric.asks_clients:
            build_message = partial(self._build_message, metric, which, end.server, run, self._members_of(end.clients))
            replies = self._ask("run_metric", metric.whom(run), end.round, build_message)
            if more := metric.follow_up(run, replies):
                again = self._ask("run_metric", [*replies], end.round, lambda i: build_message(i) | more(i))
                replies = {i: reply | again.get(i, {}) for i, reply in replies.items()}
        return metric.found(run, replies)

    def _shown(self, metric: RunMetric, which: int, end: FinalState) -> Finding:
        """Return only the figures of a metric that the method shows but the experiment did not ask for."""
        found = self._measured(metric, which, end)
        return Finding(figures_learned=found.figures_learned, notes=found.notes)

    def _build_message(
        self, metric: RunMetric, which: int, server: State, run: RunFacts, members: Mapping[int, int], client_id: int
    ) -> Message:
        """Return the message for scoring a client, with the index of the metric and what the metric adds."""
        syncs = metric.trains or self.evaluator.policy.headline == "final_sync"  # then the client trains once more
        message = dict(self.evaluator.method.broadcast(server, client_id, scoring=not syncs))
        if run.generic is not None:
            message |= generic_beside(message, run.generic)
        return message | {WHICH: which, MEMBER: members.get(client_id, 0), **metric.asked(run, client_id)}

    def _members_of(self, clients: Rows) -> dict[int, int]:
        """Return the index of the family member that each client reports; empty for methods without a family."""
        of = self.evaluator.method.family
        if of is None:
            return {}
        data, metric = self.evaluator.scoring.headline.data, headline_metric(self.evaluator.scoring)
        fixed = dict.fromkeys(self.evaluator.facts.training_ids, of.fixed)
        chosen = fixed | family.reported(clients, of.members, of.fixed, of.rule, data, metric)
        return {i: of.members.index(name) for i, name in chosen.items()}

    # ------------------------------------------------------------ what the method learned

    def learned_by_the_method(self, end: FinalState) -> list[LearnedFigure]:
        """Return the figures that the method draws of what it learned."""
        method, snapshots = self.evaluator.method, dict[int, Message]()
        if method.takes_snapshots:
            some = self.evaluator.facts.training_ids[: MOST["cells"]]  # as many as a figure shows
            snapshots = self._ask(
                "client_snapshot", some, end.round, lambda i: method.broadcast(end.server, i, scoring=True)
            )
        members = self._means_of_members(end.rows)
        by_id = self.evaluator.facts.by_id
        samples = {i: by_id[i].train for i in self.evaluator.facts.training_ids}
        learned = Learned(end.server, self.before.names, snapshots, end.rows, members, self.seed, samples)
        return [_drawable(picture) for picture in method.figures_learned(learned)]

    def _means_of_members(self, rows: Rows) -> dict[str, float]:
        """Return the mean accuracy of each member of the method's family, from the last scored round."""
        last = next((row for row in reversed(rows) if is_scored(row)), {})
        of, data = self.evaluator.method.family, self.evaluator.scoring.headline.data
        means = {name: MetricName(member(name), data).over("mean").of(last) for name in (of.members if of else ())}
        return {name: mean for name, mean in means.items() if mean is not None}

    def _ask(
        self, kind: TaskKind, clients: Sequence[int], round: int, build_message: Callable[[int], Message]
    ) -> dict[int, Message]:
        """Send a task to each client and return the replies by client; clients without a reply are left out."""
        outcomes = self.evaluator.engine.run([Task(kind, i, round, partial(build_message, i)) for i in clients])
        return {o.client_id: o.reply for o in outcomes if o.reply is not None}


def _has(row: Mapping[str, Any], metric: str) -> bool:
    return any(MetricName(model, "split", metric).of(row) is not None for model in (GENERIC, PERSONAL))


def _add(found: Finding, what: str, look: Callable[[], Finding]) -> None:
    """Add what `look` finds; if it raises, add a note that `what` could not be made."""
    try:
        more = look()
        found.figures_learned += [_drawable(picture, found.figures_learned) for picture in more.figures_learned]
        found.figures |= more.figures
        found.training |= more.training
        found.notes += more.notes
        found.thresholds = more.thresholds or found.thresholds
    except Exception as error:  # also of a user's own method: no figure or metric may lose a run
        found.notes.append(one_sentence(f"{what} could not be made ({type(error).__name__}: {error})"))


def _drawable(picture: LearnedFigure, beside: Sequence[LearnedFigure] = ()) -> LearnedFigure:
    """Return the figure, checked, with a number after its name if `beside` has the name already."""
    taken = sum(re.fullmatch(rf"{re.escape(picture.name)}(-[0-9]+)?", other.name) is not None for other in beside)
    return LearnedFigure.read(picture.plain() | ({"name": f"{picture.name}-{taken + 1}"} if taken else {}))
