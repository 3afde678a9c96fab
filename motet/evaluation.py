"""Both answers, always: the generic model and the personal models, for training clients and for new ones."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from motet.contract import Family, Method
from motet.data import FederationFacts
from motet.engines import Engine, Kind, Outcome, Task
from motet.message import Message, State
from motet.nets import Net
from motet.scoring import ScoringSettings, accuracy, family, right_per_class, spread
from motet.weights import Layout

Row = dict[str, object]


@dataclass
class Scores:
    """One evaluation: the figures of the round and one row per client."""

    figures: Row
    clients: list[Row]


@dataclass
class Evaluator:
    """Scores a server state through the engine, so that personal models never leave their clients."""

    method: Method
    generic_net: Net
    facts: FederationFacts
    scoring: ScoringSettings
    engine: Engine

    def training_clients(self, server: State, round: int, last: bool) -> Scores:
        """Generic and personal figures over the clients that take part in training."""
        generic, common = self.method.generic(server), last or self.scoring.common_test == "always"
        by_clients = not common and self.facts.test_is_clients and not self.facts.new_ids
        right = {} if generic is None or by_clients else self._generic_right(generic)
        sync = last and self.scoring.pm_source == "final_sync"

        def letter(client_id: int) -> Message:
            domain = self.facts.by_id[client_id].domain
            message = self.method.broadcast(server, client_id, scoring=not sync)
            message["score.common"] = common
            if generic is not None:
                message |= _generic_beside(message, generic)
            if right:
                message["score.generic.right"], message["score.common.counts"] = right[domain]
            return message

        ids = self.facts.training_ids
        kind: Kind = "sync_score" if sync else "score"
        outcomes = self.engine.run([Task(kind, i, round, partial(letter, i)) for i in ids])
        figures: Row = {"generic_accuracy": None}
        if right:
            figures["generic_accuracy"] = accuracy(*right[None])
        elif generic is not None:
            figures["generic_accuracy"] = _over_all([o.reply for o in outcomes if o.reply is not None])
        if self.method.family:
            outcomes, swept = self._choose_members(outcomes, self.method.family)
            figures |= swept
        figures |= self._figures(outcomes, ("generic", "personal"))
        return Scores(figures, [self._client_row(o, round, new=False) for o in outcomes])

    def new_clients(self, server: State, round: int) -> Scores:
        """Before and after adaptation, over the clients that took no part in training."""
        ids = self.facts.new_ids
        outcomes = self.engine.run([Task("adapt", i, round, partial(self.method.broadcast, server, i)) for i in ids])
        return Scores(
            self._figures(outcomes, ("before", "after")), [self._client_row(o, round, True) for o in outcomes]
        )

    def _generic_right(self, generic: Tensor) -> dict[int | None, tuple[Tensor, Tensor]]:
        """Right answers of the generic model per class, and all answers, on the common test set and on each domain's;
        empty where there is no such set."""
        Layout(self.generic_net).bind(self.generic_net, generic)
        classes, found = self.facts.classes, {}
        for domain in (None, *self.facts.domains):
            test = self.facts.common_test(domain)
            if test is not None:
                found[domain] = right_per_class(self.generic_net, test, classes), test.counts(classes)
        return found

    def _choose_members(self, outcomes: Sequence[Outcome], of: Family) -> tuple[list[Outcome], Row]:
        """Report one member of each client's family of personal models; keep the curve and every rule's figure."""
        test, members, rule = self._headline_test, of.members, of.rule
        scored = [o for o in outcomes if o.reply is not None]
        replies = [o.reply for o in scored if o.reply is not None]
        rules = family.choose(replies, members, of.fixed, test)
        chosen = rules.get(rule, rules["fixed"])  # the rule is missing only where there is no figure to report either
        reported = {
            o.client_id: replace(o, reply=family.report(r, member))
            for o, r, member in zip(scored, replies, chosen, strict=True)
        }
        row: Row = {
            "lam_sweep": family.sweep(replies, members),
            "lam_rules": family.by_rule(replies, rules, test),
            "lam_rule": rule,
            "lam_chosen": family.tally(chosen),
        }
        return [reported.get(o.client_id, o) for o in outcomes], row

    @property
    def _headline_test(self) -> str:
        return "weighted" if self.scoring.test == "common" else "split"

    def _figures(self, outcomes: Sequence[Outcome], models: Sequence[str]) -> Row:
        """Means over clients of every model on every kind of test data, and the spread of the last model's headline."""
        replies = [o.reply for o in outcomes if o.reply is not None]
        figures: Row = {}
        for model in models:
            for test, samples in (("weighted", "n"), ("split", "n.split"), ("validation", "n.validation")):
                found = spread(*_column(replies, f"{model}.{test}", samples))
                figures[f"{model}_{test}"] = found.mean if found else None
                figures[f"{model}_{test}_by_samples"] = found.by_samples if found else None
        figures[f"{models[-1]}_diverged"] = sum(bool(r.get(f"{models[-1]}.diverged")) for r in replies)
        found = spread(*_column(replies, f"{models[-1]}.{self._headline_test}", "n"))
        for name in ("std", "minimum", "worst_tenth"):
            figures[f"{models[-1]}_{name}"] = getattr(found, name) if found else None
        return figures

    def _client_row(self, outcome: Outcome, round: int, new: bool) -> Row:
        row: Row = {"round": round, "client": outcome.client_id, "new": new, "set_aside": outcome.failure}
        for name, value in sorted((outcome.reply or {}).items()):
            row[name.replace(".", "_")] = value
        return row


def _generic_beside(message: Message, generic: Tensor) -> Message:
    """The generic model to score, or a word where the message carries it anyway: models are most of the bytes."""
    w = message.get("w")
    same = isinstance(w, Tensor) and w.shape == generic.shape and torch.equal(w, generic)
    return {"score.generic_is_w": True} if same else {"score.generic": generic}


def _over_all(replies: Sequence[Message]) -> float | None:
    """The generic model's accuracy on all clients' test data, from what each client counted on its own."""
    accuracies, samples = _column(replies, "generic.split", "n.split")
    return sum(round(a * n) for a, n in zip(accuracies, samples, strict=True)) / sum(samples) if samples else None


def _column(replies: Sequence[Message], name: str, samples: str) -> tuple[list[float], list[int]]:
    """One figure of all clients that have it, with their sample counts."""
    have = [r for r in replies if name in r]
    return [float(r[name]) for r in have], [int(r.get(samples, 0)) for r in have]
