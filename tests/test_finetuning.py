"""`+ft`, `+lp` and new clients: what is tuned, from where, and what stays as it is."""

from dataclasses import replace

import pytest
import torch
from by_hand import EXACT, build, client, flat, sgd, small_net, train
from torch import Tensor, nn

from motet.errors import MotetError
from motet.messages.message import State, encode
from motet.nets import Net
from motet.testing.twin import play, tiny
from motet.training.flat_weights import Layout

# ---------------------------------------------------------------- ft and lp


def weights_of(model: nn.Module | None) -> Tensor:
    assert model is not None
    return flat(model.net)


def test_ft_is_sgd_from_the_global_model() -> None:
    """Not from the client's last model, which another training left in its private state."""
    method, server = build("fedavg+ft(epochs=3, lr=0.07)")
    kept: dict[int, State] = {}
    train(method, server, [0], 1, kept)
    assert (kept[0]["model"] - server["w"]).abs().max() > 1e-3
    model = method.personal(client(0, 2, kept[0]), method.broadcast(server, 0))
    expected, _ = sgd(client(0, 2), server["w"], epochs=3, purpose="fine-tune", lr=0.07)
    torch.testing.assert_close(weights_of(model), expected, **EXACT)


def test_ft_without_a_learning_rate_takes_that_of_adapt() -> None:
    method, server = build("fedavg+ft(epochs=1)")
    model = method.personal(client(0), method.broadcast(server, 0))
    expected, _ = sgd(client(0), server["w"], epochs=1, purpose="fine-tune", lr=0.05)
    torch.testing.assert_close(weights_of(model), expected, **EXACT)


@pytest.mark.parametrize("name", ["ft", "lp"])
def test_a_learning_rate_of_nothing_is_refused_by_the_word_that_is_meant(name: str) -> None:
    assert build(f"fedavg+{name}(lr=adapt)")[0].options == build(f"fedavg+{name}")[0].options
    with pytest.raises(MotetError, match=f"^method {name}: lr is 0; accepted: a number above 0 or adapt$"):
        build(f"fedavg+{name}(lr=0)")


def test_lp_trains_the_head_and_leaves_the_body_bit_by_bit() -> None:
    method, server = build("fedavg+lp(epochs=3, lr=0.07)")
    tuned = weights_of(method.personal(client(0), method.broadcast(server, 0)))
    places = Layout(small_net()).places
    head = slice(places["fc2.weight"].where.start, places["fc2.bias"].where.stop)
    assert torch.equal(tuned[: head.start], server["w"][: head.start])
    expected, _ = sgd(
        client(0), server["w"], epochs=3, purpose="fine-tune", lr=0.07, parameters=lambda net: net.fc2.parameters()
    )
    torch.testing.assert_close(tuned[head], expected[head], **EXACT)
    assert (tuned[head] - server["w"][head]).abs().max() > 1e-3


@pytest.mark.parametrize("tuner", ["ft", "lp"])
def test_a_new_client_is_served_the_global_model_and_tuned_by_adapt(tuner: str) -> None:
    method, server = build(f"fedavg+{tuner}(epochs=3, lr=0.07)")
    who, message = client(1, new=True), method.broadcast(server, 1)
    assert torch.equal(weights_of(method.personal(who, message)), server["w"])
    moving = Net.parameters if tuner == "ft" else (lambda net: net.fc2.parameters())
    expected, _ = sgd(who, server["w"], epochs=2, purpose="fine-tune", lr=0.07, parameters=moving)  # adapt.epochs
    torch.testing.assert_close(weights_of(method.adapt(who, message)), expected, **EXACT)


def test_tuning_changes_nothing_that_the_federation_sees() -> None:
    tuned, plain = play(tiny("scaffold+ft")), play(tiny("scaffold"))
    assert encode(tuned.server) == encode(plain.server) and tuned.private() == plain.private()
    for a, b in zip(tuned.rows, plain.rows, strict=True):
        assert (a["bytes_down"], a["bytes_up"]) == (b["bytes_down"], b["bytes_up"])
    assert tuned.rows[-1]["generic.weighted.accuracy.mean"] == plain.rows[-1]["generic.weighted.accuracy.mean"]
    assert tuned.rows[-1]["personal.weighted.accuracy.mean"] != plain.rows[-1]["personal.weighted.accuracy.mean"]


# ---------------------------------------------------------------- new clients, without ft


def test_adapting_is_plain_local_training_from_the_global_model() -> None:
    """Corrections against drift serve the federation, not a client that adapts."""
    for name in ("fedavg", "fedprox(mu=5)", "scaffold", "feddyn(lam=5)"):
        method, server = build(name)
        adapted = method.adapt(client(2, new=True), method.broadcast(server, 2))
        expected, _ = sgd(client(2), server["w"], epochs=2, purpose="adapt", lr=0.05)
        torch.testing.assert_close(weights_of(adapted), expected, **EXACT)


def test_a_newcomer_of_local_learns_as_long_as_clients_of_the_run_did() -> None:
    """Nobody hands it anything: five epochs from random weights beside eighty would be no comparison."""
    method, server = build("local")
    who = client(2, new=True)
    facts = method.facts
    turns = facts.rounds * facts.cohort / facts.clients
    epochs = round(turns * who.local.epochs)
    assert epochs > who.adapt.epochs
    adapted = method.adapt(who, method.broadcast(server, 2))
    expected, _ = sgd(client(2), method.fresh, epochs=epochs, purpose="adapt", lr=who.local.lr)
    torch.testing.assert_close(weights_of(adapted), expected, **EXACT)


@pytest.mark.parametrize("name", ["fedavg", "fedavg+ft", "fedavg+lp"])
def test_adapting_with_validation_never_ends_below_its_start(name: str) -> None:
    """The start is a candidate too: with a learning rate that only does harm, it is what is served."""
    method, server = build(name)
    who = client(3, new=True)  # six of its sixty samples judge
    harmful = who.adapting(epochs=5, lr=50.0, select="best_on_validation")
    good, _ = sgd(who, server["w"], epochs=200, lr=0.1)  # knows its samples by heart
    assert torch.equal(weights_of(method.adapt(harmful, {"w": good})), good)
    gentle = who.adapting(epochs=5, lr=0.05, select="best_on_validation")
    assert not torch.equal(weights_of(method.adapt(gentle, method.broadcast(server, 3))), server["w"])


def test_the_last_and_the_best_epoch_are_of_one_training() -> None:
    """Where the domain has a validation set, all of the client's data are learned from in both."""
    method, server = build("fedavg+ft")
    who = client(3, new=True)
    shared = replace(who, data=replace(who.data, val=who.data.train, shares_val=True))
    of_select = [
        weights_of(method.adapt(shared.adapting(epochs=2, lr=0.05, select=select), {"w": server["w"]}))
        for select in ("last", "best_on_validation")
    ]
    torch.testing.assert_close(*of_select, **EXACT)
