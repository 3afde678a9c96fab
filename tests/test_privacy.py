"""What is private stays: no reply of any method carries class counts, raw data or private state.

The bytes of every reply are read as an eavesdropper would read them. A client's upload w is no secret, and neither
is what the server itself sent. In a client's first training a state that starts at zero and its change are the
same numbers (SCAFFOLD's Δc = c_i⁺ − 0), so private states are looked for from the second training on.
"""

from functools import cache
from typing import ClassVar

import pytest
import torch

from motet.contract import Entry, Part, Training
from motet.message import Message, State, encode
from motet.methods import METHODS
from motet.testing.privacy import found_in, told
from motet.testing.twin import Exchange, Played, play, tiny
from motet.work import POOLED


@cache
def overheard(method: str) -> Played:
    """Two rounds in which everybody takes part: in the second each trains with a private state that it kept."""
    changes = {"pm_source": "last_participation", "every": 2}
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
    monkeypatch.setitem(METHODS, "tells", Entry("tells", "", "", part=part))
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
