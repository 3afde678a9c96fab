"""A threshold for each model of two classes: the probability of the second class from which on it is predicted.

It is chosen on validation rows for what the user asks (`scoring.threshold`). A client chooses that of its own model on
its own rows. That of the generic model is chosen from counts, which clients tell: how many of their rows of each class
are at or above each of many thresholds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn

from motet.config.threshold_rule import ThresholdRule
from motet.data import Samples
from motet.io.text import listed
from motet.messages.message import Message, number, tensor
from motet.metrics.names import GENERIC, PERSONAL
from motet.metrics.run_metric import ClientScope, Finding, RunFacts, RunMetric

STEPS, FARTHEST = 481, 12.0
GRID = torch.linspace(FARTHEST, -FARTHEST, STEPS, dtype=torch.float64).sigmoid()
"""The thresholds at which clients count, from high to low; close together near 0 and 1, where rare classes are."""
FEWEST = 5
"""Validation rows of each class that a client needs for a threshold of its own: of fewer it would be chance."""
CLOSE = 1e-12

_OWN, _REACHED, _ROWS = "threshold", "threshold.reached", "threshold.rows"
_AT_OWN = "threshold.at_own"  # counts on the client's test rows at its own threshold
VALIDATION, TEST = "validation", "split"


@dataclass(frozen=True)
class Cut:
    """A threshold, and whether it reaches what was asked on the rows that it was chosen on."""

    value: float
    reached: bool


@dataclass(frozen=True)
class ClientThreshold:
    """The threshold of a client's own model."""

    value: float
    own: bool
    """Whether it was chosen on the client's own validation rows; otherwise it is everybody's."""
    rows: int
    """Validation rows of the client."""
    reached: bool = True


@dataclass(frozen=True)
class Thresholds:
    """The thresholds of all models of a run."""

    rule: str
    common: float
    """Of the generic model, and of clients with too few validation rows of one of the classes."""
    rows: int
    """Validation rows of all clients, on which it was chosen."""
    clients: Mapping[int, ClientThreshold] = field(default_factory=dict)
    on_test: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """What they give on all clients' test rows together, by model: recall, precision, f1, balanced_accuracy."""


# -------- The choice


def scores(tp: Tensor, fp: Tensor, positives: float, negatives: float, rule: ThresholdRule) -> tuple[Tensor, bool]:
    """Return how good each threshold is, and whether one reaches what was asked.

    `tp` and `fp` are how many rows of the second and of the first class are at or above each threshold. A rule with a
    least value looks for the best precision at that recall, or the best recall at that precision; where no threshold
    reaches it, for the largest value of what was asked.
    """
    tp, fp = tp.double(), fp.double()
    precision = torch.where(tp + fp > 0, tp / (tp + fp).clamp_min(1), 0.0)
    recall = tp / positives
    if rule.metric == "f1":
        return 2 * tp / (tp + fp + positives), True
    if rule.metric == "balanced_accuracy":
        return (recall + (negatives - fp) / negatives) / 2, True
    assert rule.least is not None
    asked, other = (recall, precision) if rule.metric == "recall" else (precision, recall)
    enough = asked >= rule.least - CLOSE
    if not bool(enough.any()):
        return asked, False
    return torch.where(enough, other, -1.0), True


def choose(p: Tensor, y: Tensor, rule: ThresholdRule) -> Cut | None:
    """Return the best threshold for these probabilities of the second class; None if the rows hold one class alone.

    A row is predicted as of the second class if its probability is at or above the threshold, which lies half-way
    between two rows. Of equally good ones the highest is taken.
    """
    positive = y == 1
    positives, negatives = int(positive.sum()), int((~positive).sum())
    if not positives or not negatives:
        return None
    values, place = torch.unique(p.double(), return_inverse=True)
    above = torch.stack([torch.bincount(place[kind], minlength=len(values)) for kind in (positive, ~positive)])
    tp, fp = above.flip(1).cumsum(1)  # from the highest value down
    good, reached = scores(tp, fp, positives, negatives, rule)
    best = int((good >= good.max() - CLOSE).nonzero()[0])
    high = float(values[len(values) - 1 - best])
    low = float(values[len(values) - 2 - best]) if best + 1 < len(values) else 0.0
    middle = (high + low) / 2
    return Cut(middle if low < middle else high, reached)


def choose_by_counts(counts: Tensor, positives: float, negatives: float, rule: ThresholdRule) -> Cut | None:
    """Return the best threshold of GRID for counts [2, STEPS] of rows at or above each; None without both classes.

    Of neighbours that divide the rows alike, the middle one is taken.
    """
    if not positives or not negatives:
        return None
    tp, fp = counts
    good, reached = scores(tp, fp, positives, negatives, rule)
    best = int((good >= good.max() - CLOSE).nonzero()[0])
    alike = ((tp == tp[best]) & (fp == fp[best])).nonzero().flatten()
    return Cut(float(GRID[alike[len(alike) // 2]]), reached)


def counts_at(p: Tensor, y: Tensor, thresholds: Tensor) -> Tensor:
    """Return how many rows of the second class (first row) and of the first are at or above each threshold."""
    kinds = [p[y == 1].double(), p[y == 0].double()]
    return torch.stack([(kind[None, :] >= thresholds[:, None]).sum(1) for kind in kinds]).double()


# -------- The metric that asks clients


class ThresholdChoice(RunMetric):
    """Asks each client for the threshold of its own model, and for counts that choose the generic model's."""

    name: ClassVar[str] = "threshold"
    summary: ClassVar[str] = "the probability from which on the second class is predicted"
    paper: ClassVar[str] = ""
    asks_clients: ClassVar[bool] = True
    needs_generic: ClassVar[bool] = True
    setting: ClassVar[str] = "scoring.threshold"

    rule: str

    def refuse(self, run: RunFacts) -> str | None:
        """Return a sentence if the data have other than two classes, or no validation rows to choose on."""
        if run.facts.classes != 2:
            have = f"the data have {run.facts.classes}" if run.facts.classes > 2 else "the label is a number"
            return f"{self.rule!r} is for two classes, and {have}; accepted: none"
        if not any(run.facts.by_id[i].val for i in run.facts.training_ids):
            return (
                f"{self.rule!r} is chosen on validation rows, and no client has any; accepted: a data.val_share above "
                f"0, such as --set data.val_share=0.2"
            )
        return None

    def at_client(self, here: ClientScope) -> Message:
        """Return the own model's threshold, and counts of both models on validation and test rows."""
        rule, data = ThresholdRule.read(self.rule), here.client.data
        found: Message = {_ROWS: len(data.val)}
        for name, model in ((PERSONAL, here.heads().get(PERSONAL)), (GENERIC, here.generic())):
            if model is None:
                continue
            for kind, samples in ((VALIDATION, data.val), (TEST, data.test)):
                p, y = _second(here, model, samples)
                found[f"{name}.{kind}"] = counts_at(p, y, GRID)
                found[f"{name}.{kind}.classes"] = torch.tensor([float((y == 1).sum()), float((y == 0).sum())])
                few = min(int((y == 1).sum()), int((y == 0).sum())) < FEWEST
                if name == PERSONAL and kind == VALIDATION and not few and (cut := choose(p, y, rule)) is not None:
                    found |= {_OWN: cut.value, _REACHED: cut.reached}
                if name == PERSONAL and kind == TEST and _OWN in found:
                    found[_AT_OWN] = counts_at(p, y, torch.tensor([number(found, _OWN)], dtype=torch.float64))[:, 0]
        return found

    def found(self, run: RunFacts, replies: Mapping[int, Message]) -> Finding:
        """Return all thresholds, what they give on test rows, and notes about whose are not their own."""
        rule = ThresholdRule.read(self.rule)
        if not replies:  # real sites refuse to tell more than scores
            return Finding(notes=[f"no threshold was chosen for {rule}: no client told its counts"])
        benign = {i: reply for i, reply in replies.items() if i not in run.facts.malicious_ids}
        model = GENERIC if any(f"{GENERIC}.{VALIDATION}" in reply for reply in benign.values()) else PERSONAL
        counts, (positives, negatives) = _added(benign, model, VALIDATION)
        cut = choose_by_counts(counts, positives, negatives, rule)
        if cut is None:
            return Finding(notes=[f"no threshold was chosen for {rule}: all validation rows are of one class"])
        clients = {i: _of_client(reply, cut) for i, reply in replies.items()}
        tests: dict[str, Mapping[str, float]] = {}
        if model == GENERIC:
            tests[GENERIC] = _values(*_at(_added(benign, GENERIC, TEST), cut.value))
        own = [_own_test(reply, clients[i]) for i, reply in benign.items() if f"{PERSONAL}.{TEST}" in reply]
        if own:
            total = torch.stack([torch.cat(each) for each in own]).sum(0)
            tests[PERSONAL] = _values(total[:2], total[2:])
        on_test = {name: values for name, values in tests.items() if values}
        found = Thresholds(str(rule), cut.value, int(positives + negatives), clients, on_test)
        return Finding(thresholds=found, notes=_notes(run, found, cut, model == GENERIC))


def _second(here: ClientScope, model: nn.Module, samples: Samples) -> tuple[Tensor, Tensor]:
    """Return the probability of the second class for each sample, and the labels."""
    said = [(torch.softmax(logits.double(), 1)[:, 1], y) for logits, y in here.answers(model, samples)]
    if not said:
        return torch.zeros(0, dtype=torch.float64), torch.zeros(0, dtype=torch.int64)
    return torch.cat([p for p, _ in said]), torch.cat([y for _, y in said])


def _added(replies: Mapping[int, Message], model: str, data: str) -> tuple[Tensor, tuple[float, float]]:
    """Return the counts of all clients together, and how many rows of the second and the first class they have."""
    name = f"{model}.{data}"
    there = [reply for reply in replies.values() if name in reply]
    if not there:
        return torch.zeros(2, STEPS, dtype=torch.float64), (0.0, 0.0)
    counts = torch.stack([tensor(reply, name) for reply in there]).sum(0)
    positives, negatives = torch.stack([tensor(reply, f"{name}.classes") for reply in there]).sum(0).tolist()
    return counts, (positives, negatives)


def _of_client(reply: Message, common: Cut) -> ClientThreshold:
    rows = int(number(reply, _ROWS))
    if _OWN not in reply:
        return ClientThreshold(common.value, False, rows, common.reached)
    return ClientThreshold(number(reply, _OWN), True, rows, bool(reply[_REACHED]))


def _at(added: tuple[Tensor, tuple[float, float]], threshold: float) -> tuple[Tensor, Tensor]:
    """Return counts at a threshold of GRID, and of all rows."""
    counts, classes = added
    return counts[:, _place(threshold)], torch.tensor(classes, dtype=torch.float64)


def _place(threshold: float) -> int:
    """Return the place of one of GRID's thresholds."""
    return int(GRID.eq(threshold).nonzero()[0])


def _own_test(reply: Message, mine: ClientThreshold) -> tuple[Tensor, Tensor]:
    """Return the counts of a client's test rows at the threshold that it uses, and of all its test rows."""
    classes = tensor(reply, f"{PERSONAL}.{TEST}.classes").double()
    if mine.own:
        return tensor(reply, _AT_OWN), classes
    counts = tensor(reply, f"{PERSONAL}.{TEST}")
    return counts[:, _place(mine.value)], classes


def _values(above: Tensor, classes: Tensor) -> dict[str, float]:
    """Return what thresholds give, of counts above them and of all rows; nothing where these hold one class."""
    (tp, fp), (positives, negatives) = above.tolist(), classes.tolist()
    if not positives or not negatives:
        return {}
    return {
        "recall": tp / positives,
        "precision": tp / (tp + fp) if tp + fp else 0.0,
        "f1": 2 * tp / (tp + fp + positives),
        "balanced_accuracy": (tp / positives + (negatives - fp) / negatives) / 2,
    }


def _notes(run: RunFacts, found: Thresholds, common: Cut, generic: bool) -> list[str]:
    """Return sentences about the thresholds, and about clients whose rows did not suffice to choose one."""
    second = run.facts.class_names[1]
    own = [each.value for each in found.clients.values() if each.own]
    said = [f"{found.common:.3g} for the generic model"] if generic else []
    said += [f"{min(own):.3g} to {max(own):.3g} for clients' own models"] if own else []
    notes = [f"thresholds of p({second}), chosen on validation rows for {found.rule}: {', '.join(said)}"]
    whose = {GENERIC: "the generic model has", PERSONAL: "own models have"}
    notes += [
        f"with the threshold {whose[model]} recall {100 * values['recall']:.1f} % and precision "
        f"{100 * values['precision']:.1f} % of {second}, over all clients' test rows"
        for model, values in found.on_test.items()
    ]
    others = [run.names[i] for i, each in found.clients.items() if not each.own and i in run.names]
    if others:
        theirs = "the generic model's threshold" if generic else "one threshold that was chosen for all"
        notes.append(
            f"fewer than {FEWEST} validation rows of one of the classes, so that they have {theirs}: {listed(others)}"
        )
    short = [run.names[i] for i, each in found.clients.items() if each.own and not each.reached and i in run.names]
    short = (["the generic model"] if generic and not common.reached else []) + short
    if short:
        notes.append(f"no threshold reaches {found.rule} on validation rows, the nearest is taken: {listed(short)}")
    return notes
