"""Uploads added up by the worker that computed them, before they travel (`engine.partial_sums`).

Trainings go to workers in parcels of so many clients, in the order of their ids, and a parcel comes back with one sum
for each field whose rule is `mean` or `sum`. Which clients are in a parcel depends on the cohort alone: the bits are
other ones than without, but the same on every engine, with any number of workers, and after any death. A reply that
does not pass the checks travels whole, and the server says why it is set aside.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from motet.engines.dealing import batches_of_clients
from motet.engines.engine import Groups, Work
from motet.messages.checks import ReplyChecks
from motet.messages.message import State, byte_count
from motet.messages.partial_sums import BYTES
from motet.messages.replies import ReplyCollector, Rule
from motet.messages.task import Outcome, Task, in_task_order
from motet.methods.base import Method
from motet.metrics.registry import run_metrics_of
from motet.metrics.run_metric import RunMetric
from motet.server.workplace import Workplace
from motet.training.flat_weights import parameter_count


def upload_rules(method: Method, run_metrics: Iterable[RunMetric]) -> dict[str, Rule]:
    """Return how the server uses each field of the replies to a training; some metrics need every client's model."""
    rules: dict[str, Rule] = {"n": "sum", **method.uploads}
    if any(type(metric).in_round is not RunMetric.in_round for metric in run_metrics):
        rules["w"] = "each"
    return rules


def parcels(size: int) -> Groups:
    """Return the rule that puts `size` trainings after the other into a parcel; other tasks are done one by one."""

    def groups(tasks: Sequence[Task]) -> list[list[int]]:
        most = size if tasks and tasks[0].kind == "train" else 1
        return [list(range(at, min(at + most, len(tasks)))) for at in range(0, len(tasks), most)]

    return groups


def batches_of(workplace: Workplace) -> Groups:
    """Return the rule that says which clients of a workplace are trained as one batched computation."""
    return batches_of_clients(workplace.most_batched, workplace.samples_of, parameter_count(workplace.generic_net))


def adding_up(workplace: Workplace) -> Work:
    """Return the work of a workplace, which adds replies up where the experiment asks for it."""
    return AddingUp(workplace) if workplace.experiment.engine.partial_sums else workplace


@dataclass(frozen=True)
class AddingUp:
    """Work that comes back from a parcel of trainings with one sum in place of many fields."""

    workplace: Workplace

    def perform_group(self, tasks: Sequence[Task], privates: Sequence[State]) -> list[Outcome]:
        """Do the trainings of a parcel in the batches of the workplace, and add up the replies; one task as it is."""
        perform = self.workplace.perform_group
        if len(tasks) == 1:
            return perform(tasks, privates)
        groups = batches_of(self.workplace)(tasks)
        computed = (perform([tasks[i] for i in group], [privates[i] for i in group]) for group in groups)
        collector, outcomes, sizes = self._collector(tasks), [], {}
        for outcome in in_task_order(tasks, chain.from_iterable(computed)):
            if outcome.reply is not None:
                collector.add(outcome.client_id, outcome.reply)
                if outcome.client_id not in collector.reasons:
                    sizes[outcome.client_id] = byte_count(outcome.reply)
                    outcome = replace(outcome, reply=None)  # frees what was added up
            outcomes.append(outcome)
        packed = {i: reply | {BYTES: sizes[i]} for i, reply in collector.packed().items()}
        return [replace(o, reply=packed[o.client_id]) if o.client_id in packed else o for o in outcomes]

    def _collector(self, tasks: Sequence[Task]) -> ReplyCollector:
        method, scoring = self.workplace.method, self.workplace.experiment.scoring
        rules = upload_rules(method, run_metrics_of(scoring.metrics, scoring.threshold))
        expected = {task.client_id: float(self.workplace.samples_of(task.client_id)) for task in tasks}
        return ReplyCollector(ReplyChecks(rules), rules, method.weightings, expected)
