"""Posts: what happens to a reply on its way, whatever method made it and whatever engine carries it."""

from pathlib import Path
from typing import ClassVar

import pytest
import torch

from motet.config.experiment import Experiment
from motet.config.sections import AdaptSettings, LocalSettings
from motet.data import build
from motet.engines import Inline
from motet.errors import MotetError
from motet.messages import transform as posts_module
from motet.messages.clip import Clip
from motet.messages.message import Message, State, decode, encode, tensor
from motet.messages.transform import Arrival, Transform
from motet.messages.transforms import TRANSFORMS, build_transforms, canonical_transforms
from motet.methods import METHODS
from motet.methods.base import MethodEntry, Part, Serving, Training
from motet.runs.record import Record
from motet.runs.run import resume, run
from motet.server.assembly import assemble
from motet.server.round_loop import RoundLoop, RunState
from motet.testing.twin import Notes, Played, play, tiny
from motet.training.client import Client, RunContext

METHODS_OF_ALL_KINDS = ["fedavg", "fedbasis", "superfed-mm", "fedrod"]


@pytest.fixture
def client() -> Client:
    asked = tiny("fedavg")
    federation = build(asked.data, asked.seed)
    return Client(federation.clients[0], 1, RunContext(federation.classes, 0, LocalSettings(), AdaptSettings()))


def length(message: Message, reply: Message) -> float:
    """The L2 norm of what a reply changes, by hand."""
    total = 0.0
    for name, value in reply.items():
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            sent = message.get(name)
            same = isinstance(sent, torch.Tensor) and sent.shape == value.shape
            total += float((value.double() - (sent.double() if same else 0)).square().sum())  # type: ignore[union-attr]
        elif isinstance(value, float):
            total += (value - (sent if isinstance(sent := message.get(name), float) else 0.0)) ** 2
    return total**0.5


# ---------------------------------------------------------------- clip


def test_a_clipped_update_has_that_norm_over_all_fields_of_floats(client: Client) -> None:
    message: Message = {"w": torch.full((4,), 1e3), "c": torch.ones(3), "mu": 2.0}
    reply: Message = {
        "w": torch.full((4,), 1e3 + 3),  # relative to the message: 3 each
        "c": torch.full((2,), 4.0),  # of another shape than the message's: relative to 0
        "new": torch.tensor([0.0, 2.0]),  # unknown to the message: relative to 0
        "mu": 3.0,
        "n": 17,
        "seen": True,
        "rows": torch.tensor([5, 6]),
    }
    before = {name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in reply.items()}
    assert length(message, reply) == pytest.approx((36 + 32 + 4 + 1) ** 0.5)
    clipped = Clip(norm=2.0).pack(client, message, reply)
    assert length(message, clipped) == pytest.approx(2.0, rel=1e-4)
    scale = 2.0 / 73**0.5
    torch.testing.assert_close(clipped["new"], torch.tensor([0.0, 2.0 * scale]))
    torch.testing.assert_close(clipped["w"], torch.full((4,), 1e3 + 3 * scale))
    assert clipped["mu"] == pytest.approx(2 + scale)
    assert (clipped["n"], clipped["seen"]) == (17, True) and torch.equal(tensor(clipped, "rows"), torch.tensor([5, 6]))
    assert encode(reply) == encode(before)  # nothing was changed in place


def test_what_is_short_enough_is_left_as_it_is(client: Client) -> None:
    reply: Message = {"w": torch.rand(5), "n": 3}
    assert Clip(norm=1e20).pack(client, {}, reply) is reply


def test_even_a_huge_update_is_clipped_to_the_norm(client: Client) -> None:
    message: Message = {"w": torch.full((4,), 0.25)}
    clipped = Clip(norm=1.0).pack(client, message, {"w": torch.full((4,), 1e30)})
    torch.testing.assert_close(clipped["w"], torch.full((4,), 0.75))


# ---------------------------------------------------------------- in runs


def same(one: Played, other: Played) -> bool:
    return (one.timeless(), one.clients, encode(one.server), one.private()) == (
        other.timeless(),
        other.clients,
        encode(other.server),
        other.private(),
    )


@pytest.mark.parametrize("method", METHODS_OF_ALL_KINDS)
def test_a_clip_that_never_acts_changes_no_bit_and_one_that_does_is_alike_in_the_twin(method: str) -> None:
    plain, never = play(tiny(method)), play(tiny(method, transforms="clip(norm=1e20)"))
    assert same(plain, never)
    asked = tiny(method, transforms="clip(norm=0.01)")
    inline, strict = play(asked), play(asked, strict=True)
    assert same(inline, strict) and encode(inline.server) != encode(plain.server)
    for row in strict.rows:
        assert (row["bytes_down"], row["bytes_up"]) == strict.engine.wire_bytes(row["round"])
    trained = [e for e in strict.engine.exchanges if e.task.kind == "train"]
    assert len(trained) == 6
    for e in trained:
        reply = {0: decode(e.answered)}
        assert length(e.task.build_message(), reply[0]) <= 0.01 * (1 + 1e-3)


def test_the_average_of_clipped_updates_is_no_longer_than_the_norm() -> None:
    asked = tiny("fedavg", transforms="clip(norm=0.05)", rounds={"count": 1})
    start = assemble(asked).method.start()
    moved = tensor(play(asked).server, "w") - tensor(start, "w")
    free = tensor(play(tiny("fedavg", rounds={"count": 1})).server, "w") - tensor(start, "w")
    assert 0.01 < float(moved.norm()) <= 0.05001 < float(free.norm())


@pytest.mark.parametrize("method", METHODS_OF_ALL_KINDS)
def test_trained_together_or_alone_replies_are_clipped(method: str) -> None:
    both = [
        play_together(
            tiny(method, transforms="clip(norm=0.01)", rounds={"cohort": 1.0}, local={"batched_clients": together})
        )
        for together in (False, True)
    ]
    for name, value in both[0].items():
        torch.testing.assert_close(value, both[1][name], rtol=1e-4, atol=1e-5)


def play_together(experiment: Experiment) -> State:
    assembly = assemble(experiment)
    assembly.engine = Inline(assembly.workplace)
    return RoundLoop(assembly, Notes()).run(RunState(0, assembly.method.start())).server


class Stop(BaseException):
    """A kill at an exact place."""


class StopsAfterTwo:
    """Ends the work after two rounds."""

    def started(self, *_: object) -> None:
        """Nothing to do."""

    def round(self, row: dict[str, object]) -> None:
        """Stop."""
        if row["round"] == 2:
            raise Stop


def test_the_pool_and_a_resumed_run_end_in_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with a transform that keeps something at the client and is undone at the server."""
    monkeypatch.setitem(TRANSFORMS, "halves", posts_module.TransformEntry("halves", "", "", Halves))
    asked = tiny("fedrod", transforms="halves+clip(norm=0.05)", engine={"name": "inline"})
    whole = run(asked, tmp_path / "whole")
    with pytest.raises(Stop):
        run(asked, tmp_path / "stopped", StopsAfterTwo())
    resume(tmp_path / "stopped")
    pool = run(
        tiny("fedrod", transforms="halves+clip(norm=0.05)", engine={"name": "pool", "workers": 2}), tmp_path / "pool"
    )
    plain = run(tiny("fedrod", transforms="clip(norm=0.05)"), tmp_path / "plain")
    for other in (tmp_path / "stopped", pool):
        assert (other / "weights.safetensors").read_bytes() == (whole / "weights.safetensors").read_bytes()
        assert Record(other).clients == Record(whole).clients
    assert (plain / "weights.safetensors").read_bytes() != (whole / "weights.safetensors").read_bytes()


class Halves(Transform):
    """Sends half of w, and adds what it kept of the last time; the server doubles it."""

    def pack(self, client: Client, message: Message, reply: Message) -> Message:
        """The residual is what the client sent the last time."""
        kept = client.private.get("transform.halves", torch.zeros_like(tensor(reply, "w")))
        client.private["transform.halves"] = 0.001 * tensor(reply, "w")
        return reply | {"w": (tensor(reply, "w") + kept) / 2}

    def open(self, arrival: Arrival, message: Message, reply: Message) -> Message:
        """Its counterpart."""
        return reply | {"w": 2 * tensor(reply, "w")}


class Names(Transform):
    """Adds its letter to a field, and at the server takes the last one away."""

    letter: int = 1

    def pack(self, client: Client, message: Message, reply: Message) -> Message:
        """One more digit."""
        return reply | {"digits": int(reply.get("digits", 0)) * 10 + self.letter}

    def open(self, arrival: Arrival, message: Message, reply: Message) -> Message:
        """One less."""
        digits = int(reply["digits"])
        if digits % 10 != self.letter or arrival.client_id == 2:
            raise MotetError(f"the last of {digits} is not {self.letter}")
        left = {name: value for name, value in reply.items() if name != "digits"}
        return left | ({"digits": digits // 10} if digits >= 10 else {})


def test_what_was_packed_last_is_opened_first_and_who_cannot_be_read_is_set_aside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(TRANSFORMS, "names", posts_module.TransformEntry("names", "", "", Names))
    asked = tiny("fedavg", transforms="names(letter=1)+names(letter=2)", rounds={"count": 1, "cohort": 1.0})
    played = play(asked, strict=True)
    assert 2 in played.assembly.client_ids
    assert played.rows[0]["set_aside"] == {"2": "the last of 12 is not 2"}
    assert "digits" not in played.server


class SendsMore(Part):
    """A method whose reply has a field that no message has."""

    uploads: ClassVar = {"more": "each"}

    def after(self, t: Training, reply: Message) -> None:
        """Long enough to be clipped."""
        reply["more"] = torch.full((3,), 100.0)

    def aggregate(self, s: Serving, replies: dict[int, Message]) -> None:
        """Let it show."""
        s.state["more"] = sum(tensor(r, "more").norm() for r in replies.values()).view(1)  # type: ignore[union-attr]


def test_a_field_that_the_message_does_not_know_is_clipped_with_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "more", MethodEntry("more", "", "", part=SendsMore))
    played = play(tiny("more", transforms="clip(norm=1.0)", rounds={"count": 1}))
    assert 1.9 < float(tensor(played.server, "more")) <= 2.0001  # two clients, nearly all of whose change it is


# ---------------------------------------------------------------- their names


def test_posts_are_read_as_methods_are_but_keep_their_order() -> None:
    assert build_transforms("") == () and canonical_transforms(" ") == ""
    assert build_transforms("clip(norm=2)+CLIP") == (Clip(norm=2.0), Clip(norm=1.0))
    assert canonical_transforms("clip( norm = 2.5 ) + clip") == "clip(norm=2.5)+clip"


@pytest.mark.parametrize(
    ("transforms", "sentence"),
    [
        ("clap", "unknown transform 'clap': did you mean 'clip'? accepted: clip, int8, mask, noise, top-k"),
        ("clip(norm=0)", "transform clip: norm is 0; accepted: a number above 0"),
        ("clip(length=1)", "transform clip: unknown field 'length': accepted: norm"),
        (
            "clip(norm",
            "transform 'clip(norm' cannot be read (unexpected '(norm'); accepted: names joined by +, such as "
            "clip(norm=1.0)",
        ),
    ],
)
def test_a_wrong_transform_is_one_sentence(transforms: str, sentence: str) -> None:
    with pytest.raises(MotetError) as error:
        tiny("fedavg", transforms=transforms) and assemble(tiny("fedavg", transforms=transforms))
    assert str(error.value) == sentence


def test_a_method_that_sends_nothing_has_no_post() -> None:
    with pytest.raises(
        MotetError, match=r"^transforms is 'clip' but 'centralized' trains in one place and sends nothing"
    ):
        assemble(tiny("centralized", transforms="clip"))
