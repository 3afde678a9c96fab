"""The transform `mask`: masks cancel exactly, single replies tell nothing, and who lies is refused."""

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from motet.errors import MotetError
from motet.messages.mask import Mask
from motet.messages.message import Message, decode, encode, tensor
from motet.messages.pairwise_masks import KeyPair, MaskedRound
from motet.methods import METHODS
from motet.methods.base import MethodEntry, Part, Training
from motet.runs.record import Record
from motet.runs.run import resume, run
from motet.server.assembly import assemble
from motet.testing.twin import Played, last_states, play, tiny
from motet.training.client import Client

pytest.importorskip("cryptography")
STEPS = 2**30 / 16


def hidden(transforms: str = "mask", method: str = "fedavg", **changes: Any) -> Any:
    scoring = {"train_loss": False} | changes.pop("scoring", {})
    rounds = {"count": 3, "cohort": 1.0} | changes.pop("rounds", {})
    return tiny(method, transforms=transforms, scoring=scoring, rounds=rounds, **changes)


def masked_replies(played: Played, round: int) -> dict[int, Message]:
    trained = [e for e in played.engine.exchanges if e.task.kind == "train" and e.task.round == round]
    return {e.task.client_id: decode(e.answered) for e in trained}


# ---------------------------------------------------------------- the masks


def test_masks_cancel_exactly_in_the_sum_of_all_and_in_no_part_of_it() -> None:
    pairs = {i: KeyPair(bytes([i]) * 32) for i in (1, 4, 9, 12)}
    agreed = MaskedRound(3, {i: pair.public() for i, pair in pairs.items()}, b"message")
    masks = {i: agreed.masks(i, pair, 10_000) for i, pair in pairs.items()}
    assert not np.any(sum(masks.values(), np.zeros(10_000, np.uint32)))
    for left_out in pairs:
        part = sum((m for i, m in masks.items() if i != left_out), np.zeros(10_000, np.uint32))
        assert np.mean(part == 0) < 0.01


def test_masks_are_bound_to_the_round_the_cohort_and_the_message() -> None:
    pairs = {i: KeyPair(bytes([i]) * 32) for i in (1, 4, 9)}
    keys = {i: pair.public() for i, pair in pairs.items()}
    other = {**keys, 9: KeyPair(b"x" * 32).public()}
    rounds = [
        MaskedRound(3, keys, b"m"),
        MaskedRound(4, keys, b"m"),
        MaskedRound(3, other, b"m"),
        MaskedRound(3, keys, b"n"),
    ]
    found = [agreed.masks(1, pairs[1], 1000) for agreed in rounds]
    for i, one in enumerate(found):
        for two in found[i + 1 :]:
            assert np.mean(one == two) < 0.01


def test_the_sum_of_masked_replies_is_that_of_their_whole_numbers_to_the_last_bit() -> None:
    played, plain = play(hidden(), strict=True), play(hidden(""), strict=True)
    masked, sent = masked_replies(played, 1), masked_replies(plain, 1)  # of round 1, which begins alike
    start, samples = tensor(assemble(hidden("")).method.start(), "w"), sum(int(r["n"]) for r in sent.values())
    total, expected = np.zeros(len(start), np.uint32), np.zeros(len(start), np.int64)
    for i in masked:
        total = total + tensor(masked[i], "mask.w.samples").numpy().view(np.uint32)
        change = (tensor(sent[i], "w") - start).double().numpy()
        expected += np.rint(change * (int(sent[i]["n"]) / samples * STEPS)).astype(np.int64)
    assert len(masked) == 4 and np.array_equal(total.view(np.int32).astype(np.int64), expected)
    counts = sum(tensor(r, "mask.n").numpy().view(np.uint32) for r in masked.values())
    assert int(counts[0]) == samples


def test_a_single_masked_reply_is_uniform_and_tells_nothing_of_the_change() -> None:
    """By the chi-square of its bytes and the correlation with what it hides; an unmasked one fails both."""
    played, plain = play(hidden(rounds={"count": 1}), strict=True), play(hidden("", rounds={"count": 1}), strict=True)
    start = tensor(assemble(hidden("")).method.start(), "w")
    for i, reply in masked_replies(played, 1).items():
        assert reply.keys() == {"mask.w.samples", "mask.n"}
        numbers = tensor(reply, "mask.w.samples").numpy()
        change = (tensor(masked_replies(plain, 1)[i], "w") - start).double().numpy()
        assert chi_square(numbers) < 5 and abs(np.corrcoef(numbers, change)[0, 1]) < 0.05
        assert chi_square(np.rint(change * STEPS).astype(np.int32)) > 100


def chi_square(numbers: np.ndarray) -> float:
    """By how many deviations the counts of bytes are further from uniform than chance has them."""
    counts = np.bincount(np.frombuffer(numbers.tobytes(), np.uint8), minlength=256)
    expected = counts.sum() / 256
    return float((((counts - expected) ** 2 / expected).sum() - 255) / math.sqrt(2 * 255))


# ---------------------------------------------------------------- in runs


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "fedrod", "superfed-mm", "fedavg(weighting=uniform)+fedprox"])
def test_a_method_ends_where_it_does_without_masks_up_to_fixed_point(method: str) -> None:
    plain, masked, strict = (
        play(hidden("", method)),
        play(hidden(method=method)),
        play(hidden(method=method), strict=True),
    )
    assert encode(masked.server) == encode(strict.server) and masked.timeless() == strict.timeless()
    kept = {name: value for name, value in masked.server.items() if not name.startswith("transform.")}
    assert kept.keys() == plain.server.keys()
    for name, value in plain.server.items():
        torch.testing.assert_close(kept[name], value, rtol=1e-4, atol=2e-6)
    for row in strict.rows:
        assert row["set_aside"] == {} and (row["bytes_down"], row["bytes_up"]) == strict.engine.wire_bytes(row["round"])
    assert strict.rows[1]["bytes_up"] < 1.01 * plain.rows[1]["bytes_up"]
    asked = [(e.task.round, e.task.client_id) for e in strict.engine.exchanges if e.task.kind == "introduce"]
    assert len(asked) == len(set(client for _, client in asked)) == 4  # a key once from everybody


def test_the_private_key_is_in_no_message_and_no_state() -> None:
    played = play(hidden(), strict=True)
    for i in played.assembly.client_ids:
        workplace = played.assembly.workplace
        secret = workplace.client_of(workplace.holdings.clients[i], 1, {}).secret("mask key")
        for exchange in played.engine.exchanges:
            assert secret not in exchange.sent and secret not in (exchange.answered or b"")
            assert secret not in encode(exchange.after)
        assert secret not in encode(played.server)


@pytest.mark.parametrize("transforms", ["mask", "noise(multiplier=0.01, at=client)+mask"])
def test_the_same_bytes_in_the_pool_and_after_a_stop(transforms: str, tmp_path: Path) -> None:
    method = "fedavg(weighting=uniform)"
    whole = run(hidden(transforms, method), tmp_path / "inline")
    with pytest.raises(KeyboardInterrupt):
        run(hidden(transforms, method), tmp_path / "stopped", StopsAfterOne())
    resume(tmp_path / "stopped", engine={"name": "pool", "workers": 2})
    assert last_states(tmp_path / "stopped") == last_states(whole)
    assert Record(whole).clients == Record(tmp_path / "stopped").clients


class StopsAfterOne:
    """Ends the work after one round."""

    def started(self, *_: object) -> None:
        """Nothing to do."""

    def round(self, row: dict[str, object]) -> None:
        """Stop."""
        if row["round"] == 1:
            raise KeyboardInterrupt


def test_shares_of_noise_add_up_behind_masks() -> None:
    norm, multiplier, method = 1e-4, 50.0, "fedavg(weighting=uniform)"
    asked = hidden(f"noise(norm={norm}, multiplier={multiplier}, at=client)+mask", method, rounds={"count": 1})
    moved = tensor(play(asked).server, "w") - tensor(assemble(asked).method.start(), "w")
    assert float(moved.double().std()) == pytest.approx(multiplier * norm / 4, rel=0.02)


class FailsOnce(Part):
    """Client 2 diverges in round 2."""

    def after(self, t: Training, reply: Message) -> None:
        """Send no number."""
        if (t.client.id, t.client.round) == (2, 2):
            reply["w"] = tensor(reply, "w") * math.nan


def test_a_round_without_one_of_its_clients_is_void_and_the_next_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "fails", MethodEntry("fails", "", "", part=FailsOnce))
    before = play(hidden(method="fails", rounds={"count": 1}))
    two, three = play(hidden(method="fails", rounds={"count": 2})), play(hidden(method="fails"))
    assert torch.equal(tensor(two.server, "w"), tensor(before.server, "w"))
    assert not torch.equal(tensor(three.server, "w"), tensor(before.server, "w"))
    aside = two.rows[1]["set_aside"]
    assert set(aside) == {str(i) for i in two.assembly.client_ids} and "NaN" in aside["2"]
    others = {why for i, why in aside.items() if i != "2"}
    assert others == {"its masks do not cancel without client 2, so that the round is void"}
    assert three.rows[2]["set_aside"] == {}


def test_a_change_beyond_the_range_is_said_and_not_wrapped_around() -> None:
    rows = play(hidden("mask(range=0.001)", rounds={"count": 1})).rows
    assert all("accepted: up to the 0.001 of mask(range)" in why for why in rows[0]["set_aside"].values())


# ---------------------------------------------------------------- a server that lies


@pytest.fixture
def cohort() -> tuple[list[Client], Message]:
    """Four clients, and the message of a round that an honest server sends them."""
    assembly = assemble(hidden())
    workplace, ids = assembly.workplace, assembly.client_ids
    clients = [workplace.client_of(workplace.holdings.clients[i], 1, {}) for i in ids]
    server = Mask().introduced({}, {c.id: Mask().introduce(c) for c in clients})
    return clients, Mask().address(server, {i: 10.0 for i in ids}, {"w": torch.zeros(5)})


REPLY: Message = {"w": torch.ones(5), "n": 10}


def without(message: Message, count: int) -> Message:
    return message | {name: tensor(message, name)[:-count] for name in ("mask.ids", "mask.keys")}


def test_an_honest_round_of_masked_replies(cohort: tuple[list[Client], Message]) -> None:
    clients, message = cohort
    sent = [tensor(Mask().pack(c, message, REPLY), "mask.w.samples").numpy().view(np.uint32) for c in clients]
    assert (sum(sent).astype(np.uint32).view(np.int32) / STEPS).tolist() == [1.0] * 5


def test_a_client_masks_for_no_smaller_cohort(cohort: tuple[list[Client], Message]) -> None:
    clients, message = cohort
    for count, sentence in ((1, "mask for 3 clients; accepted: 4"), (2, "accepted: 3 or more with a public key each")):
        with pytest.raises(MotetError, match=sentence):
            Mask().pack(clients[0], without(message, count), REPLY)
    with pytest.raises(MotetError, match="this one among them"):
        Mask().pack(clients[-1], without(message, 1), REPLY)
    with pytest.raises(MotetError, match="this one among them"):
        Mask().pack(clients[0], {"w": torch.zeros(5), "mask.total": 40.0}, REPLY)


def test_a_key_never_changes_and_no_round_is_masked_twice(cohort: tuple[list[Client], Message]) -> None:
    clients, message = cohort
    Mask().pack(clients[0], message, REPLY)
    with pytest.raises(MotetError, match=r"^the server asks again for a masked reply of round 1; accepted: one"):
        Mask().pack(clients[0], message, REPLY)
    clients[0].round = 2
    keys = tensor(message, "mask.keys").clone()
    keys[1] = torch.tensor(list(KeyPair(b"s" * 32).public()), dtype=torch.uint8)  # of the server
    with pytest.raises(MotetError, match="the server tells another public key of client"):
        Mask().pack(clients[0], message | {"mask.keys": keys}, REPLY)
    Mask().pack(clients[0], message, REPLY)


def test_who_was_sent_another_model_has_other_masks(cohort: tuple[list[Client], Message]) -> None:
    """So a server that sends one client another model, to tell its reply from the others', reads nothing at all."""
    clients, message = cohort
    told = [message, *(message | {"w": torch.full((5,), 1e-3)} for _ in clients[1:])]
    sent = [tensor(Mask().pack(c, m, REPLY), "mask.w.samples").numpy() for c, m in zip(clients, told, strict=True)]
    total = sum(s.view(np.uint32) for s in sent).astype(np.uint32).view(np.int32) / STEPS
    assert np.abs(total - 1).min() > 1e-3


def test_a_reply_that_is_not_masked_voids_the_round() -> None:
    assembly = assemble(hidden())
    samples = assembly.samples_of(assembly.client_ids)
    collector = Mask().collector(assembly.plan, samples, lambda: assembly.method.start())
    for i in samples:
        collector.add(i, {"w": torch.zeros(5), "n": 3})
    replies, reasons = collector.finish()
    assert collector.void and not replies and set(reasons) == set(samples)
    assert all("is not known; accepted: mask.n, mask.w.samples" in why for why in reasons.values())


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"method": "pgfed"}, "reply field 'pgfed.G' is used of each client by itself, and mask covers sums and means"),
        ({"method": "fedavg+median"}, "reply field 'w' is used of each client by itself"),
        ({"scoring": {"train_loss": True}}, "the training loss of each client travels beside its reply"),
        ({"scoring": {"metrics": ["drift"]}}, "scoring.metrics has 'drift', which reads the model of each client"),
        ({"scoring": {"derived_generic": True}}, "personal models travel for scoring.derived_generic"),
        ({"rounds": {"cohort": 2}}, "rounds.cohort is 2 clients; accepted: 3 or more"),
        ({"transforms": "mask+clip"}, "mask is followed by another transform"),
        ({"transforms": "int8+mask"}, "reads single replies at the server, which mask hides"),
        ({"transforms": "noise+mask", "method": "fedavg(weighting=uniform)"}, "reads single replies at the server"),
        ({"transforms": "mask(range=0)"}, "transform mask: range is 0; accepted: a number above 0"),
    ],
)
def test_what_cannot_be_masked_is_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(MotetError) as error:
        assemble(hidden(**changes))
    assert sentence in str(error.value) and "accepted: " in str(error.value)


class OwnMessage(Part):
    """Sends each client a number of its own."""

    def broadcast(self, s: Any, client_id: int, message: Message) -> None:
        """Its id."""
        message["own"] = client_id


def test_a_method_that_sends_each_client_something_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "own", MethodEntry("own", "", "", part=OwnMessage))
    with pytest.raises(MotetError, match="needs one message for all clients of a round, but 'own' sends each a field"):
        play(hidden(method="own"))


def test_without_the_extra_a_sentence_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(MotetError, match=r"^transforms has 'mask', but cryptography cannot .*motet\[sites\]"):
        assemble(hidden())
