"""The transforms `top-k` and `int8`: what travels, what stays as the residual, and that it comes later."""

from pathlib import Path

import pytest
import torch

from motet.config.sections import AdaptSettings, LocalSettings
from motet.data import build
from motet.errors import MotetError
from motet.messages.compression import BLOCK, Compression, EightBits, TopK
from motet.messages.message import Message, byte_count, decode, encode, tensor
from motet.messages.transform import Arrival
from motet.runs.record import Record
from motet.runs.run import resume, run
from motet.server.assembly import assemble
from motet.testing.twin import last_states, play, tiny
from motet.training.client import Client, RunContext

ARRIVAL = Arrival(0, 1, 2, 0)
BOTH = [TopK(share=0.1), EightBits()]


@pytest.fixture
def client() -> Client:
    asked = tiny("fedavg")
    federation = build(asked.data, asked.seed)
    return Client(federation.clients[0], 1, RunContext(federation.classes, 0, LocalSettings(), AdaptSettings()))


def sent_and_opened(
    transform: Compression, client: Client, message: Message, reply: Message
) -> tuple[Message, Message]:
    sent = transform.pack(client, message, reply)
    return sent, transform.open(ARRIVAL, message, decode(encode(sent)))


def test_top_k_sends_the_largest_changes_and_keeps_the_rest(client: Client) -> None:
    message: Message = {"w": torch.full((10,), 100.0)}
    change = torch.tensor([0.0, 5.0, -7.0, 1.0, 2.0, -3.0, 0.5, 0.0, 4.0, -0.5])
    reply: Message = {"w": 100 + change, "n": 3, "rows": torch.tensor([1, 2])}
    sent, opened = sent_and_opened(TopK(share=0.3), client, message, reply)
    assert tensor(sent, "w.at").tolist() == [1, 2, 8] and tensor(sent, "w.values").tolist() == [5.0, -7.0, 4.0]
    expected = torch.zeros(10).index_put((torch.tensor([1, 2, 8]),), torch.tensor([5.0, -7.0, 4.0]))
    assert torch.equal(tensor(opened, "w"), 100 + expected)
    assert (
        opened["n"] == 3 and torch.equal(tensor(opened, "rows"), torch.tensor([1, 2])) and opened.keys() == reply.keys()
    )
    assert torch.equal(tensor(client.private, "transform.top-k.w"), change - expected)


def test_int8_is_within_half_a_step_of_every_block_and_keeps_what_it_rounded_off(client: Client) -> None:
    rng = torch.Generator().manual_seed(0)
    message: Message = {"w": torch.randn(1000, generator=rng)}
    change = torch.randn(1000, generator=rng) * torch.logspace(-6, 2, 1000)  # blocks of very different size
    sent, opened = sent_and_opened(EightBits(), client, message, {"w": tensor(message, "w") + change})
    assert tensor(sent, "w.bits").dtype == torch.int8 and len(tensor(sent, "w.scales")) == -(-1000 // BLOCK)
    error = (tensor(opened, "w") - tensor(message, "w") - change).abs()
    for at in range(0, 1000, BLOCK):
        step = change[at : at + BLOCK].abs().max() / 127
        assert float(error[at : at + BLOCK].max()) <= 0.51 * step + 1e-5
    assert float(error.max()) > 0
    kept = tensor(client.private, "transform.int8.w")
    torch.testing.assert_close(kept, change - (tensor(opened, "w") - tensor(message, "w")), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("transform", BOTH, ids=lambda t: t.name)
def test_with_feedback_everything_arrives_in_the_end(transform: Compression, client: Client) -> None:
    """The sum of what arrived and of the residual is the sum of the changes; without feedback it is lost."""
    rng, message = torch.Generator().manual_seed(1), {"w": torch.zeros(400)}
    changes = [torch.randn(400, generator=rng) for _ in range(40)]
    arrived = sum(tensor(sent_and_opened(transform, client, message, {"w": c})[1], "w") for c in changes)
    kept = tensor(client.private, f"transform.{transform.name}.w")
    torch.testing.assert_close(arrived + kept, sum(changes), rtol=1e-4, atol=1e-4)
    client.private.clear()
    lossy = transform.model_copy(update={"feedback": False})
    lost = sum(tensor(sent_and_opened(lossy, client, message, {"w": c})[1], "w") for c in changes)
    assert not client.private
    assert float((lost - sum(changes)).norm()) > 1.5 * float((arrived - sum(changes)).norm())


def test_a_field_without_a_change_and_fields_of_any_shape(client: Client) -> None:
    message: Message = {"w": torch.ones(3, 5), "z": torch.zeros(0)}
    for transform in BOTH:
        _, opened = sent_and_opened(transform, client, message, {"w": torch.ones(3, 5), "z": torch.zeros(0)})
        assert torch.equal(tensor(opened, "w"), torch.ones(3, 5)) and tensor(opened, "z").shape == (0,)


@pytest.mark.parametrize(
    ("transform", "change", "sentence"),
    [
        (TopK(share=0.2), {"w.at": torch.tensor([9, 3], dtype=torch.int32)}, "has wrong places"),
        (TopK(share=0.2), {"w.at": torch.tensor([3, 10], dtype=torch.int32)}, "has wrong places"),
        (TopK(share=0.2), {"w.at": torch.tensor([-1, 3], dtype=torch.int32)}, "has wrong places"),
        (TopK(share=0.2), {"w.shape": torch.tensor([2**40])}, "places; accepted"),
        (TopK(share=0.2), {"w.values": torch.tensor([1, 2])}, "places; accepted"),
        (EightBits(), {"w.shape": torch.tensor([2**40])}, "numbers of 8 bits"),
        (EightBits(), {"w.shape": torch.tensor([-10])}, "whole numbers of at least 0"),
        (EightBits(), {"w.bits": torch.zeros(10)}, "numbers of 8 bits"),
    ],
)
def test_what_was_packed_wrongly_is_one_sentence(
    transform: Compression, change: Message, sentence: str, client: Client
) -> None:
    sent = transform.pack(client, {"w": torch.zeros(10)}, {"w": torch.arange(10.0)})
    with pytest.raises(MotetError, match=f"^reply field 'w' .*{sentence}"):
        transform.open(ARRIVAL, {"w": torch.zeros(10)}, sent | change)


@pytest.mark.parametrize(("words", "ratio"), [("top-k(share=0.05)", 0.11), ("int8", 0.27)])
@pytest.mark.parametrize("method", ["fedavg", "fedrod", "scaffold"])
def test_replies_are_smaller_and_methods_learn_as_without(words: str, ratio: float, method: str) -> None:
    plain = play(tiny(method))
    small, strict = play(tiny(method, transforms=words)), play(tiny(method, transforms=words), strict=True)
    assert encode(small.server) == encode(strict.server) != encode(plain.server)
    for before, after in zip(plain.rows, strict.rows, strict=True):
        assert after["bytes_up"] < ratio * before["bytes_up"] and after["bytes_down"] == before["bytes_down"]
        assert (after["bytes_down"], after["bytes_up"]) == strict.engine.wire_bytes(after["round"])
        assert after["set_aside"] == {}
    start = tensor(assemble(tiny(method)).method.start(), "w")
    one, other = tensor(plain.server, "w") - start, tensor(small.server, "w") - start
    assert float(torch.cosine_similarity(one, other, dim=0)) > 0.6
    exchange = next(e for e in strict.engine.exchanges if e.task.kind == "train")
    fields = decode(exchange.answered)
    assert "w" not in fields and byte_count(fields) == len(exchange.answered)
    assert not fields.keys() & exchange.after.keys()  # the residual stays


@pytest.mark.parametrize("words", ["top-k", "int8"])
def test_residuals_survive_a_stop_and_are_the_same_in_the_pool(words: str, tmp_path: Path) -> None:
    def asked(engine: str) -> object:
        return tiny("fedavg", transforms=words, rounds={"cohort": 1.0}, engine={"name": engine})

    whole = run(asked("inline"), tmp_path / "inline")  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        run(asked("inline"), tmp_path / "stopped", StopsAfterOne())  # type: ignore[arg-type]
    resume(tmp_path / "stopped", engine={"name": "pool", "workers": 2})
    states = last_states(whole)
    assert last_states(tmp_path / "stopped") == states
    private = [decode(data) for role, data in states.items() if role.startswith("client")]
    assert len(private) == 4 and all(f"transform.{words}.w" in state for state in private)
    assert Record(whole).clients == Record(tmp_path / "stopped").clients


class StopsAfterOne:
    """Ends the work after one round."""

    def started(self, *_: object) -> None:
        """Nothing to do."""

    def round(self, row: dict[str, object]) -> None:
        """Stop."""
        if row["round"] == 1:
            raise KeyboardInterrupt


def test_one_compression_is_enough() -> None:
    with pytest.raises(MotetError, match=r"^transforms is 'top-k\+int8': int8 follows a transform that compresses"):
        assemble(tiny("fedavg", transforms="top-k+int8"))
