"""What is private stays: no reply of any method carries class counts, raw data or private state.

The bytes of every reply are read as an eavesdropper would read them. A client's upload w is no secret, and neither
is what the server itself sent. In a client's first training a state that starts at zero and its change are the
same numbers (SCAFFOLD's Δc = c_i⁺ − 0), so private states are looked for from the second training on.
"""

from functools import cache
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from scipy.optimize import nnls
from torch import Tensor

from motet.config.experiment import resolve
from motet.messages.message import Message, State, decode, encode
from motet.methods import METHODS
from motet.methods.base import MethodEntry, Part, Training
from motet.runs.summary import summarize
from motet.server.assembly import settle
from motet.server.workplace import POOLED
from motet.testing.privacy import found_in, told
from motet.testing.twin import Exchange, Played, play, tiny


@cache
def overheard(method: str) -> Played:
    """Two rounds in which everybody takes part: in the second each trains with a private state that it kept."""
    changes = {"personal_model": "last_participation", "every": 2}
    return play(
        tiny(method, rounds={"count": 2, "cohort": 1.0}, local={"momentum_across_rounds": "persist"}, scoring=changes),
        strict=True,
    )


def test_what_is_kept_by_whom() -> None:
    """The private names that the test above looked for were really there."""
    kept = {method: overheard(method).engine.private(0).keys() for method in ("scaffold", "feddyn", "local")}
    assert {"model", "velocity", "scaffold.c_i"} <= kept["scaffold"]
    assert {"model", "velocity", "feddyn.h_i"} <= kept["feddyn"]
    assert {"model", "velocity", "private"} <= kept["local"]
    assert "model" in overheard("centralized").engine.private(POOLED)


# ---------------------------------------------------------------- the reader of bytes finds what it is for


class PrivateHead(Part):
    """Keeps the head: a method with a secret."""

    uploads: ClassVar = {"tells.share": "each", "tells.x": "each", "tells.head": "each", "tells.velocity": "each"}

    def private(self, net: object) -> tuple[str, ...]:
        """The last layer."""
        return ("fc3.",)


class TellsCounts(PrivateHead):
    """Wrong on purpose."""

    def after(self, t: Training, reply: Message) -> None:
        """Class counts, as a share."""
        reply["tells.share"] = t.client.counts / t.client.counts.sum()


class TellsData(PrivateHead):
    """Wrong on purpose."""

    def after(self, t: Training, reply: Message) -> None:
        """Three of its images."""
        reply["tells.x"] = t.client.data.train.batch(torch.arange(3))[0]


class TellsHead(PrivateHead):
    """Wrong on purpose."""

    def after(self, t: Training, reply: Message) -> None:
        """Half of its private head."""
        private = t.w[t.layout.private]
        reply["tells.head"] = private[: len(private) // 2].clone()


class TellsVelocity(PrivateHead):
    """Wrong on purpose."""

    def after(self, t: Training, reply: Message) -> None:
        """Its momentum."""
        assert t.descent.velocity is not None
        reply["tells.velocity"] = t.descent.velocity.clone()


@pytest.mark.parametrize(
    ("part", "secrets"),
    [
        (PrivateHead, set()),
        (TellsCounts, {"class counts as shares of torch.float32"}),
        (TellsData, {"a prepared sample"}),
        (TellsHead, {"private", "model"}),
        (TellsVelocity, {"velocity"}),
    ],
)
def test_a_method_that_tells_is_found_out(part: type[Part], secrets: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "tells", MethodEntry("tells", "", "", part=part))
    run = play(
        tiny("tells", rounds={"count": 2, "cohort": 1.0}, local={"momentum_across_rounds": "persist"}), strict=True
    )
    found: set[str] = set()
    for e in run.engine.exchanges:
        if e.task.kind == "train":
            found |= found_in(e.answered, e, run.assembly.workplace.client(e.task, e.before))
    assert found == secrets


def test_uploading_the_private_part_with_w_is_found_out() -> None:
    """The mistake of a method that sends its whole weights instead of the slice that travels."""
    state: State = {"model": torch.arange(40.0), "private": torch.arange(20.0, 40.0)}
    task = overheard("fedavg").engine.exchanges[0].task
    reply = encode({"w": torch.arange(40.0), "n": 3})
    assert told(reply, Exchange(task, encode({"w": torch.zeros(20)}), reply, state, state)) == {"private"}


# ---------------------------------------------------------------- what scores tell


def solved(played: Played, client_id: int) -> Tensor | None:
    """Class shares of a client, as a curious server solves for them from the scores that it was told; None without.

    Each scoring gives an equation: Σ_c p_c·(right_c / T_c) = the class-weighted accuracy of the generic model. The
    weights Σ p_c = 1 make one more. Non-negative least squares does the rest.
    """
    equations, told = [], []
    for exchange in played.engine.exchanges:
        if exchange.task.kind != "score" or exchange.task.client_id != client_id or exchange.answered is None:
            continue
        sent, reply = exchange.task.build_message(), decode(exchange.answered)
        for metric in ("accuracy", "loss"):
            right, counts = sent.get(f"score.generic.{metric}"), sent.get("score.common.counts")
            value = reply.get(f"generic.weighted.{metric}")
            if isinstance(right, Tensor) and isinstance(counts, Tensor) and isinstance(value, float):
                equations.append((right.double() / counts.double().clamp_min(1)).numpy())
                told.append(value)
    if not equations:
        return None
    rows = np.array([*equations, 1e3 * np.ones(len(equations[0]))])
    return torch.from_numpy(nnls(rows, np.array([*told, 1e3]))[0])


def curious(method: str, **scoring: Any) -> Played:
    return play(
        tiny(method, rounds={"count": 14, "cohort": 1.0}, scoring={"every": 1, **scoring}, local={"lr": 0.1}),
        strict=True,
    )


@pytest.mark.parametrize("method", ["fedavg", "bsm"])
def test_class_weighted_scores_tell_class_counts_and_it_is_declared(method: str) -> None:
    played = curious(method, by_class=True)
    right = 0
    for client in (played.assembly.federation.clients[i] for i in played.assembly.client_ids):
        counts = client.train.counts(10).double()
        found = solved(played, client.id)
        assert found is not None
        right += int(((found * counts.sum()).round() == counts).sum())
    assert right > 0.8 * 10 * len(played.assembly.client_ids)  # the attack works
    summary = summarize(played.assembly.experiment, played.assembly.method, played.rows, {}, 1.0).model_dump()
    assert "class-weighted scores, from which class counts can be solved" in summary["tells"]


@pytest.mark.parametrize("method", sorted(set(METHODS) - {"fedbn"}))
def test_nothing_is_there_to_solve_where_clients_tell_no_class_weighted_scores(method: str) -> None:
    whole = method if METHODS[method].kind != "personalization" else f"fedavg+{method}"
    whole = "fedgen(noise=8, hidden=16, steps=5)" if method == "fedgen" else whole  # a thousand steps tell no more
    scoring = {"by_class": False, "test": "split", "every": 1}
    played = play(tiny(whole, scoring=scoring, rounds={"count": 2, "cohort": 1.0}, data={"clients": 8}), strict=True)
    assert solved(played, played.assembly.client_ids[0]) is None
    for exchange in played.engine.exchanges:
        if exchange.task.kind in ("score", "sync_score", "adapt") and exchange.answered is not None:
            assert not any(".weighted." in name for name in decode(exchange.answered))
            assert not any(
                name.startswith(("score.generic.", "score.common.counts")) for name in exchange.task.build_message()
            )
    summary = summarize(played.assembly.experiment, played.assembly.method, played.rows, {}, 1.0).model_dump()
    assert not any("class-weighted" in word for word in summary["tells"])


@pytest.mark.parametrize(
    ("choices", "told"),
    [
        ({}, True),
        ({"data": {"partition": "natural", "client": "hospital", "name": "x.csv", "label": "y"}}, False),
        ({"data": {"partition": "natural", "name": "x.npz"}, "scoring": {"test": "common"}}, True),
        ({"scoring": {"by_class": False, "test": "split"}}, False),
    ],
)
def test_real_clients_tell_no_class_weighted_scores_unless_asked(choices: dict[str, Any], told: bool) -> None:
    fixed = {"net": {"name": "mlp"}, "local": {"batch": 10}}  # no need to look at the data
    assert settle(resolve({**fixed, **choices})).scoring.by_class is told
