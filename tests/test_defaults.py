"""Defaults of methods: with them every name learns, and those that depend on a cohort or a net fit any of it."""

from typing import Any

import pytest
import torch
from by_hand import FACTS
from inputs import input_of
from vector_problem import Rounds, same, tiny_data, tiny_net, vectors

from motet.config.short_names import choose
from motet.messages.message import tensor
from motet.methods import METHODS, build_method
from motet.methods.averaging import Averaging
from motet.methods.pfedhn import PFedHN
from motet.nets import build_net
from motet.server.assembly import settle
from motet.testing.twin import play

# -------- Every name in the registry learns

CHANCE, LEAST = 0.1, 0.45
"""Ten classes; always answering with a client's most frequent class is right in 43 %, and Krum, which serves everybody
one client's model, is right in 50 %. All others are above 65 %."""

NEEDED: dict[str, dict[str, Any]] = {
    "apple": {"rounds": {"cohort": 1.0}},
    "l2gd": {"rounds": {"cohort": 1.0}},
    "fedfomo": {"data": {"val_share": 0.2}},
    "fedbn": {"net": {"name": "resnet8"}},
}
"""What an experiment must have for some names."""


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_no_method_stays_near_chance_with_its_defaults(name: str) -> None:
    """Digits, 20 clients, Dir(0.3), 20 rounds: own models on the common test set, weighted by each client's classes."""
    method = f"fedavg+{name}" if METHODS[name].kind == "personalization" else name
    setting = {"data": "digits", "partition": "dirichlet:0.3", "clients": 20, "rounds": 20, "method": method}
    played = play(settle(choose(setting, None, {**NEEDED.get(name, {}), "scoring": {"every": 20}})))
    assert played.rows[-1]["personal.weighted.accuracy.mean"] >= LEAST


# -------- pFedHN: the server's step does not grow with the cohort


def after_a_round(method: str, cohort: int) -> tuple[PFedHN, torch.Tensor, torch.Tensor]:
    """The method, and how φ and e moved in one round of so many clients that all come back with the same change."""
    built = build_method(method, build_net("mlp(hidden=5)", input_of(4), 3), FACTS)
    assert isinstance(built, PFedHN)
    server = built.start()
    replies = {i: {"w": tensor(built.broadcast(server, i), "w") + 0.01, "n": 5} for i in range(cohort)}
    return built, tensor(server, "pfedhn.phi"), tensor(built.aggregate(server, replies), "pfedhn.phi")


def test_pfedhn_steps_by_the_mean_of_its_cohort() -> None:
    built, first, moved = after_a_round("pfedhn(weight_decay=0)", 3)
    size = built.layout.trainable.stop - built.layout.trainable.start
    gradients = [built.gradient_of(first, i, torch.full((size,), -0.01)) for i in range(3)]
    torch.testing.assert_close(moved, first - 0.03 * sum(gradients) / 3)


def test_pfedhn_with_a_cohort_of_one_is_the_released_codes() -> None:
    one, each = (after_a_round(f"pfedhn(step={step})", 1)[2] for step in ("mean", "each"))
    assert torch.equal(one, each)
    three, each = (after_a_round(f"pfedhn(step={step})", 3)[2] for step in ("mean", "each"))
    assert (each - one).norm() > 2 * (three - one).norm()  # with momentum, steps of a whole cohort add up


# -------- L2GD: a round is a local training, at the local rate


@pytest.mark.usefixtures("exact")
def test_l2gd_that_never_averages_is_local() -> None:
    w0 = vectors("problem")["w0"]
    ours, local = (Rounds(name, tiny_net(w0), tiny_data(), lr=0.1, epochs=2) for name in ("l2gd(p=0)", "local"))
    for run in (ours, local):
        run.play(range(4))
    for i in range(4):
        same("x_i", ours.kept[i]["l2gd.x"], local.kept[i]["private"], 1e-12)  # type: ignore[arg-type]


# -------- FedBABU: the last layer rests


def test_fedbabus_head_is_the_last_layer_wherever_the_net_is_split() -> None:
    for head, kept in (("last", {"fc3.weight", "fc3.bias"}), ("split", None)):
        net = build_net("har-cnn", input_of(9, 128), 6)
        built = build_method(f"fedbabu(head={head})+bsm", net, FACTS)
        assert isinstance(built, Averaging)
        private = {name for name, p in built.layout.places.items() if p.where.start >= built.layout.private.start}
        assert private == kept if kept else private > {"fc3.weight", "fc3.bias"}
