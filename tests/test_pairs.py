"""Two models of one client on the same samples: the counts, their interval, and what leaves the client."""

import random
from typing import Any

import pytest
import torch
from torch import Tensor

from motet.messages.task import Task
from motet.metrics.pairs import Gain, compared, gain, remember_classes, remember_hits
from motet.metrics.statistics import paired_interval
from motet.testing.twin import play, tiny


@pytest.mark.parametrize("method", ["pgfed", "fedrod", "superfed-mm"])
def test_counts_agree_with_the_accuracies(method: str) -> None:
    """(righted - wronged) / n is the gain; a family's are those of the member that is reported."""
    played = play(tiny(method, rounds={"count": 2, "cohort": 1.0}))
    rows = [row for row in played.clients if row["round"] == 2]
    assert rows
    moved = 0
    for row in (*rows, *played.new.clients):
        mine, other = ("after", "before") if row["new"] else ("personal", "generic")
        righted, wronged = row[f"{mine}.split.righted"], row[f"{mine}.split.wronged"]
        difference = row[f"{mine}.split.accuracy"] - row[f"{other}.split.accuracy"]
        assert (righted - wronged) / row["n.split"] == pytest.approx(difference)
        assert righted >= 0 and wronged >= 0 and righted + wronged <= row["n.split"]
        moved += righted + wronged
        assert not any(name.startswith("member:") and name.endswith("righted") for name in row)
    assert moved


def test_counts_by_hand() -> None:
    reply: dict[str, Any] = {}
    remember_hits(reply, "generic", torch.tensor([True, True, False, False, False]))
    remember_hits(reply, "personal", torch.tensor([True, False, True, True, False]))
    assert compared(reply) == {"personal.split.righted": 2, "personal.split.wronged": 1}


def test_the_error_of_a_weighted_gain_by_hand() -> None:
    reply: dict[str, Any] = {"n": 3}
    counts, weight = torch.tensor([9, 19, 5]), torch.tensor([3, 1, 0])
    remember_classes(reply, "before", torch.tensor([4, 9, 5]), counts, weight)
    remember_classes(reply, "after", torch.tensor([8, 14, 0]), counts, weight)
    variance = 0.75**2 * (0.45 * 0.55 + 0.85 * 0.15) / 9 + 0.25**2 * (0.475 * 0.525 + 0.725 * 0.275) / 19
    assert compared(reply) == {"n": 3, "after.weighted.gain_error": pytest.approx(variance**0.5)}


@pytest.mark.parametrize("method", ["fedavg", "superfed-mm"])
def test_only_numbers_leave_a_client(method: str) -> None:
    assembly = play(tiny(method, rounds={"count": 1})).assembly
    server, client = assembly.method.start(), assembly.client_ids[0]
    generic = assembly.method.generic(server)
    assert generic is not None
    message = assembly.method.broadcast(server, client) | {"score.common": True, "score.generic": generic}
    reply = assembly.workplace.perform(Task("score", client, 1, message), {}).reply
    assert reply and not any(isinstance(value, Tensor) for value in reply.values())


def test_the_interval_holds_what_it_promises() -> None:
    """In at least 94 of 100 draws of 30 samples the true difference lies within, also where models often agree."""
    rng = random.Random(0)
    for up, down in ((0.1, 0.1), (0.3, 0.1), (0.05, 0.01), (0.5, 0.05)):
        within = 0
        for _ in range(2000):
            draws = [rng.random() for _ in range(30)]
            righted = sum(draw < up for draw in draws)
            wronged = sum(up <= draw < up + down for draw in draws)
            low, high = paired_interval(righted, wronged, 30)
            within += low <= up - down <= high
        assert within / 2000 >= 0.94, (up, down)


def test_no_difference_at_all_is_within_noise() -> None:
    low, high = paired_interval(0, 0, 10)
    assert low < 0 < high and low == -high
    assert paired_interval(10, 0, 10)[0] > 0.5


def test_the_gain_of_a_row() -> None:
    row = {"personal.split.accuracy": 0.9, "generic.split.accuracy": 0.6, "n.split": 40}
    unpaired = gain(row, "personal", "split")  # a run from before there were counts
    assert unpaired is not None and unpaired.value == pytest.approx(0.3)
    paired = gain(row | {"personal.split.righted": 12, "personal.split.wronged": 0}, "personal", "split")
    assert paired is not None and paired.verdict == "gain"
    assert paired.low is not None and unpaired.low is not None and paired.low > unpaired.low
    assert gain({"personal.split.accuracy": 0.9}, "personal", "split") is None
    weighted = {"after.weighted.accuracy": 0.5, "before.weighted.accuracy": 0.6}
    assert gain(weighted, "after", "weighted") == Gain(pytest.approx(-0.1))
    told = gain(weighted | {"after.weighted.gain_error": 0.01}, "after", "weighted")
    assert told is not None and told.verdict == "lose"
