"""Score the generic model and the personal models of a server state, through the engine."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import compress

import torch
from torch import Tensor

from motet.config.scoring_section import ScoringSettings
from motet.data import FederationFacts
from motet.engines import Engine
from motet.messages.message import Message, State, number, tensor
from motet.messages.task import Outcome, Task, TaskKind
from motet.methods.base import Family, Method
from motet.metrics import family
from motet.metrics.client_scores import COUNTS, FAILED, right_of
from motet.metrics.metric import Metric, SampleMetric
from motet.metrics.names import AFTER, BEFORE, DERIVED, GENERIC, PERSONAL, MetricName, one_class, variant
from motet.metrics.one_pass import Answers, one_pass
from motet.metrics.over_clients import figures_over, majority_figures, of_benign, pooled_from_splits
from motet.metrics.pooling import pooled_figures, without_pooled
from motet.metrics.registry import headline_metric, metrics_of, run_metrics_of
from motet.metrics.run_metric import RunMetric
from motet.nets import Net
from motet.training.flat_weights import Layout
from motet.training.personal_model_policy import PersonalModelPolicy

AT_ONCE = 16  # models in memory at a time, besides their sum


def mean_of_personal_models(
    method: Method, server: State, engine: Engine, client_ids: Sequence[int], round: int
) -> Tensor | None:
    """Return Σ n_i w_i / Σ n_i over clients, a generic model for methods that have none.

    Return None where personal models are not weights of the plain net. A client whose model is not finite is left out.
    The personal models leave their clients for this.
    """
    total, samples = None, 0.0
    for start in range(0, len(client_ids), AT_ONCE):
        tasks = [
            Task("export", i, round, partial(method.broadcast, server, i, scoring=True))
            for i in client_ids[start : start + AT_ONCE]
        ]
        for outcome in engine.run(tasks):
            if outcome.reply:
                w, n = tensor(outcome.reply, "w").double(), number(outcome.reply, "n")
                total = w * n if total is None else total.add_(w, alpha=n)
                samples += n
    return None if total is None else (total / samples).to(torch.get_default_dtype())


Row = dict[str, object]


@dataclass
class Scores:
    """The result of one evaluation: the figures of the round and one row per client."""

    figures: Row
    clients: list[Row]


@dataclass
class Evaluator:
    """Scores a server state through the engine, so that personal models never leave their clients."""

    method: Method
    generic_net: Net
    facts: FederationFacts
    scoring: ScoringSettings
    policy: PersonalModelPolicy
    engine: Engine
    metrics: tuple[Metric, ...] = field(init=False)
    run_metrics: tuple[RunMetric, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.metrics = metrics_of(self.scoring.asked_metrics)
        self.run_metrics = run_metrics_of(self.scoring.metrics, self.scoring.threshold)

    def training_clients(self, server: State, round: int, last: bool) -> Scores:
        """Score the generic and the personal models on the clients that take part in training."""
        generic, derived = self._generic(server, round)
        tested = self.scoring.looks_at_test
        common = tested and self.facts.test is not None and (last or self.scoring.common_test != "last")
        whole = common and (last or self.scoring.common_test == "whole")
        by_clients = not common and self.facts.test_is_clients and not self.facts.new_ids
        answers = {} if generic is None or by_clients or not tested else self._on_common_test(generic)
        sync = last and self.policy.trains_at_the_end

        def build_message(client_id: int) -> Message:
            message = dict(self.method.broadcast(server, client_id, scoring=not sync))  # may be the server's state
            message |= {"score.common": common, "score.whole": whole}
            if generic is not None:
                message |= generic_beside(message, generic)
            if answers and self.scoring.by_class:
                message |= self._answers_by_class(answers[self.facts.by_id[client_id].domain])
            return message

        kind: TaskKind = "sync_score" if sync else "score"
        outcomes = list(
            self.engine.run([Task(kind, i, round, partial(build_message, i)) for i in self.facts.training_ids])
        )
        replies = {o.client_id: o.reply for o in outcomes if o.reply is not None}
        figures: Row = {str(MetricName(GENERIC, "common", statistic="pooled")): None, DERIVED: derived}
        if answers:
            figures |= self._pooled(answers[None])
        elif generic is not None:
            figures |= pooled_from_splits(list(replies.values()), GENERIC, self.metrics)
        if self.method.family:
            replies, chosen = self._choose_members(replies, self.method.family)
            figures |= chosen
        models = [GENERIC, *self.policy.scored, *_heads_in(replies, self.policy.scored)]
        figures |= self._over(replies, models)
        if answers and answers[None].one_class:
            figures[one_class(GENERIC)] = len(self.facts.training_ids)
        return Scores(figures, self._rows(outcomes, replies, round, new=False))

    def generic(self, server: State, round: int) -> Tensor | None:
        """Return the generic model: the method's own, or the mean of personal models, or None."""
        return self._generic(server, round)[0]

    def new_clients(self, server: State, round: int) -> Scores:
        """Score clients that took no part in training, before and after adaptation."""
        if not self.scoring.looks_at_test:
            return Scores({}, [])

        def build_message(client_id: int) -> Message:
            there = self.facts.test is not None
            return self.method.broadcast(server, client_id) | {"score.common": there, "score.whole": there}

        outcomes = list(
            self.engine.run([Task("adapt", i, round, partial(build_message, i)) for i in self.facts.new_ids])
        )
        replies = {o.client_id: o.reply for o in outcomes if o.reply is not None}
        figures = self._over(replies, self._models_of_new_clients(replies))
        return Scores(figures, self._rows(outcomes, replies, round, new=True))

    def _over(self, replies: dict[int, Message], models: Sequence[str]) -> Row:
        """Return figures over all clients and, where some are malicious, over the benign ones too."""
        figures = self._figures(list(replies.values()), models)
        if self.facts.malicious_ids:
            figures |= of_benign(self._figures(list(self._benign(replies).values()), models))
        return figures

    def _figures(self, replies: Sequence[Message], models: Sequence[str]) -> Row:
        return {
            **figures_over(replies, models, self.metrics),
            **pooled_figures(replies, models, self.metrics),
            **majority_figures(replies),
        }

    def _benign(self, replies: dict[int, Message]) -> dict[int, Message]:
        return {i: reply for i, reply in replies.items() if i not in self.facts.malicious_ids}

    @staticmethod
    def _models_of_new_clients(replies: dict[int, Message]) -> list[str]:
        """Return the names of the models in the replies: before, after, and other choices of the adapted model."""
        scored = {figure.model for reply in replies.values() for name in reply if (figure := MetricName.read(name))}
        return [BEFORE, AFTER, *sorted(scored - {BEFORE, AFTER})]

    def _generic(self, server: State, round: int) -> tuple[Tensor | None, bool]:
        """Return the generic model, and whether it is the mean of the personal ones."""
        generic = self.method.generic(server)
        if generic is not None or not self.scoring.derived_generic:
            return generic, False
        mean = mean_of_personal_models(self.method, server, self.engine, self.facts.training_ids, round)
        return mean, mean is not None

    def _on_common_test(self, generic: Tensor) -> dict[int | None, Answers]:
        """Return the generic model's answers on the whole common test set (None) and on each domain's, by class."""
        Layout(self.generic_net).bind(self.generic_net, generic)
        by_class = [metric for metric in self.metrics if isinstance(metric, SampleMetric)]
        found: dict[int | None, Answers] = {}
        for domain in (None, *self.facts.domains):
            test, metrics = self.facts.common_test(domain), self.metrics if domain is None else by_class
            if test is not None:
                found[domain] = one_pass(self.generic_net, test, metrics, self.facts.classes)
        return found

    def _answers_by_class(self, answers: Answers) -> Message:
        """Return counts per class, with which a client weights the generic model's answers by its own class shares."""
        by_class = [metric for metric in self.metrics if metric.name in answers.right]
        return {COUNTS: answers.counts, **{right_of(metric): answers.right[metric.name] for metric in by_class}}

    def _pooled(self, answers: Answers) -> Row:
        values = {m: answers.value(m) for m in self.metrics}
        figures: Row = {
            str(MetricName(GENERIC, "common", m.name, "pooled")): v for m, v in values.items() if v is not None
        }
        return figures | {f"{FAILED}{name}": True for name in answers.failed}

    def _choose_members(self, replies: dict[int, Message], of: Family) -> tuple[dict[int, Message], Row]:
        """Return the replies with one member of each family as the personal model, and the figures of all members."""
        every, data = list(replies.values()), self.scoring.headline.data
        metric = headline_metric(self.scoring)
        rules = family.choose(every, of.members, of.fixed, data, metric)
        chosen = family.chosen_by(of.rule, rules)
        row: Row = {"family_rule": of.rule, "family_chosen": family.tally(chosen)}
        row |= family.sweep(every, of.members, metric) | family.by_rule(every, rules, data, metric)
        if self.facts.malicious_ids:
            benign, kept = list(self._benign(replies).values()), [i not in self.facts.malicious_ids for i in replies]
            theirs = {name: list(compress(members, kept)) for name, members in rules.items()}
            row |= of_benign(family.sweep(benign, of.members, metric) | family.by_rule(benign, theirs, data, metric))
        return {i: family.report(r, one) for (i, r), one in zip(replies.items(), chosen, strict=True)}, row

    def _rows(self, outcomes: Sequence[Outcome], replies: dict[int, Message], round: int, new: bool) -> list[Row]:
        """Return one row of clients.jsonl per client; its columns are the names of figures."""
        attackers = self.facts.malicious_ids
        return [
            {"round": round, "client": o.client_id, "new": new, "set_aside": o.failure}
            | ({"malicious": o.client_id in attackers} if attackers else {})
            | dict(sorted(without_pooled(replies.get(o.client_id, {})).items()))
            for o in outcomes
        ]


def _heads_in(replies: Mapping[int, Message], scored: Collection[str]) -> list[str]:
    """Return the names of other heads of personal models that clients scored (`scoring.heads`)."""
    models = {figure.model for reply in replies.values() for name in reply if (figure := MetricName.read(name))}
    return sorted(model for model in models if model.startswith(variant(PERSONAL, "")) and model not in scored)


def generic_beside(message: Message, generic: Tensor) -> Message:
    """Return the field with the generic model, or a flag where `w` of the message is the same, to send it once."""
    w = message.get("w")
    same = isinstance(w, Tensor) and w.shape == generic.shape and torch.equal(w, generic)
    return {"score.generic_is_w": True} if same else {"score.generic": generic}
