"""SuPerFed: its invariants, and whole steps against plain autograd."""

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from by_hand import FACTS
from every_method import assert_same_run
from inputs import input_of
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

import motet
from motet.errors import MotetError
from motet.messages.message import Message, encode, tensor
from motet.messages.task import Task
from motet.methods import build_method
from motet.methods.superfed import SuPerFedLM, SuPerFedMM, cos2_shares
from motet.nets import Net, build_net
from motet.runs.record import Record
from motet.runs.run import Silent, resume, run
from motet.server.assembly import Assembly, assemble
from motet.server.evaluation import Row
from motet.testing.twin import play, tiny
from motet.training.client import Client
from motet.training.randomness import seeded

BOTH = ["superfed-mm", "superfed-lm"]
FOUR_STEPS = {"steps": 4, "momentum": 0.9, "weight_decay": 0.01}
PLAIN = {"epochs": 1, "momentum": 0.0, "weight_decay": 0.0, "lr": 1.0}  # a step is the gradient itself


def at_client(method: str, round: int = 1, client_id: int = 0, **local: Any) -> tuple[Any, Client, Message]:
    """A method, one client of the tiny federation in a round, and what the server sends before the first."""
    assembly: Assembly = assemble(tiny(method, local=local))
    message = assembly.method.broadcast(assembly.method.start(), client_id)
    return assembly.method, assembly.workplace.client(Task("train", client_id, round, message), {}), message


def related(w_g: Tensor) -> Tensor:
    """A local model that is neither the global one nor orthogonal to it, so that cos² pulls."""
    return 0.8 * w_g + 0.1 * torch.randn(len(w_g), generator=torch.Generator().manual_seed(5))


# ------------------------------------------------------------ the step


def reference(
    method: SuPerFedMM,
    client: Client,
    w_g: Tensor,
    w_l: Tensor,
    mu: float,
    nu: float,
    weights_of_ends: Callable[[Tensor], tuple[Tensor, Tensor]] = lambda lam: (1 - lam, lam),
    divisor: Callable[[Tensor, Tensor], Tensor | float] = lambda lam, draws: 1.0,
) -> tuple[Tensor, Tensor]:
    """Algorithm 1 by autograd and torch.optim.SGD: nothing by hand but the objective, Eq. 4.

    `divisor` divides the gradient that passes through a module's mixture, of its own λ and of all that were drawn.
    """
    net, places = method.net, method.layout.places
    w_f, w_l = w_g.clone().requires_grad_(), w_l.clone().requires_grad_()
    rule = client.local
    optimizer = torch.optim.SGD([w_f, w_l], client.lr, rule.momentum, weight_decay=rule.weight_decay)
    rng, descent = client.rng("superfed-lambda"), client.descent()
    modules = list(dict.fromkeys(name.rpartition(".")[0] for name in places))
    for x, y in descent.batches(client.data.train):
        draws = torch.rand(len(modules) if isinstance(method, SuPerFedLM) else 1, generator=rng)
        mixture = {}
        for name, place in places.items():
            lam = draws[modules.index(name.rpartition(".")[0])] if len(draws) > 1 else draws[0]
            a, b = weights_of_ends(lam)
            mixed = a * place.view(w_f) + b * place.view(w_l)
            mixture[name] = mixed.detach() + (mixed - mixed.detach()) / divisor(lam, draws)
        loss = cross_entropy(functional_call(net, mixture, x), y)
        loss = loss + mu * (w_f - w_g).square().sum() + nu * torch.cosine_similarity(w_f, w_l, dim=0) ** 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return w_f.detach(), w_l.detach()


@pytest.mark.parametrize("name", BOTH)
def test_local_training_is_autograds(name: str) -> None:
    method, client, message = at_client(f"{name}(mu=0.5, nu=20, start=0, lr_compensation=false)", **FOUR_STEPS)
    w_g = tensor(message, "w")
    client.private["superfed.w_l"] = w_l = related(w_g)
    reply = method.train(client, message)
    trained = torch.cat([reply["w"], client.private["superfed.w_l"]])

    def distance(*arguments: Any) -> float:
        plain = at_client(name, **FOUR_STEPS)
        return float((torch.cat(reference(plain[0], plain[1], w_g, w_l, *arguments)) - trained).abs().max())

    assert distance(0.5, 20) < 1e-6
    wrong = [(0, 20), (-0.5, 20), (0.5, 0), (0.5, -20), (0.5, 20, lambda lam: (lam, 1 - lam))]
    assert all(distance(*arguments) > 1e-4 for arguments in wrong)  # no term of the objective could be missing
    assert len(method.stretches) == (1 if name == "superfed-mm" else 3)


def moved(lam: Tensor, draws: Tensor) -> Tensor:
    """How far a step of both ends moves W(λ), as a share of the step."""
    return (1 - lam) ** 2 + lam**2


@pytest.mark.parametrize("name", BOTH)
def test_compensation_divides_what_cross_entropy_gives_module_by_module_and_nothing_else(name: str) -> None:
    method, client, message = at_client(f"{name}(mu=0.5, nu=20, start=0, lr_compensation=true)", **FOUR_STEPS)
    w_g = tensor(message, "w")
    client.private["superfed.w_l"] = w_l = related(w_g)
    reply = method.train(client, message)
    trained = torch.cat([reply["w"], client.private["superfed.w_l"]])

    def distance(mu: float, nu: float, divisor: Callable[[Tensor, Tensor], Tensor | float]) -> float:
        plain = at_client(name, **FOUR_STEPS)
        found = reference(plain[0], plain[1], w_g, w_l, mu, nu, divisor=divisor)
        return float((torch.cat(found) - trained).abs().max())

    assert distance(0.5, 20, moved) < 1e-6
    assert distance(0.5, 20, lambda lam, draws: 1.0) > 1e-4  # as printed
    assert distance(0, 20, moved) > 1e-4 and distance(0.5, 0, moved) > 1e-4  # both terms are there, undivided
    for of_the_model in (lambda lam, draws: moved(draws[0], draws), lambda lam, draws: moved(draws, draws).mean()):
        assert (distance(0.5, 20, of_the_model) > 1e-4) == (name == "superfed-lm")


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("compensated", [True, False])
def test_with_compensation_the_mixture_moves_as_fedavgs_model_does(name: str, compensated: bool) -> None:
    """From w^l = w^g, where W(λ) is FedAvg's model whatever λ is drawn."""
    options = f"mu=0, nu=0, start=0, local_init=at_mixing, lr_compensation={str(compensated).lower()}"
    method, client, message = at_client(f"{name}({options})", steps=1, **PLAIN)
    lams = method.draw(client.rng("superfed-lambda"))
    w_f, w_g = method.train(client, message)["w"], tensor(message, "w")
    w_l = tensor(client.private, "superfed.w_l")
    fedavg, other, sent = at_client("fedavg", steps=1, **PLAIN)
    step = fedavg.train(other, sent)["w"] - w_g
    for lam, s in zip(lams, method.stretches, strict=True):
        share = 1.0 if compensated else (1 - lam) ** 2 + lam**2
        assert step[s].norm() > 0.01 and (compensated or share < 0.95)
        assert torch.allclose(torch.lerp(w_f[s], w_l[s], lam) - w_g[s], share * step[s], atol=1e-6)


def test_before_mixing_nu_moves_both_ends_and_the_loss_only_the_federated_one() -> None:
    """Eq. 4 with λ = 0, which Algorithm 1 has from the first round; the released code waits for round L."""
    changes = {"steps": 3, "momentum": 0.9, "weight_decay": 0.01}
    method, client, message = at_client("superfed-mm(mu=0.5, nu=20, start=1, local_init=fresh)", **changes)
    w_g = tensor(message, "w")
    client.private["superfed.w_l"] = w_l = related(w_g)
    reply = method.train(client, message)
    trained = torch.cat([reply["w"], client.private["superfed.w_l"]])
    plain = at_client("superfed-mm", **changes)

    def distance(nu: float) -> float:
        both = reference(plain[0], plain[1], w_g, w_l, 0.5, nu, lambda lam: (torch.ones(()), torch.zeros(())))
        return float((torch.cat(both) - trained).abs().max())

    assert distance(20) < 1e-6 < 1e-4 < min(distance(0), distance(-20))


def test_lm_draws_one_lambda_per_module_and_mm_one_for_all() -> None:
    mm, lm = (at_client(name)[0] for name in BOTH)
    assert len(mm.draw(torch.Generator().manual_seed(0))) == 1 and mm.stretches == [slice(0, mm.layout.size)]
    ends = [64 * 128 + 128, 64 * 128 + 128 + 128 * 64 + 64, lm.layout.size]
    assert lm.stretches == [slice(a, b) for a, b in zip([0, *ends], ends, strict=False)]
    assert len(set(lm.draw(torch.Generator().manual_seed(0)))) == 3


@pytest.mark.parametrize("name", BOTH)
def test_cross_entropys_gradient_is_split_in_the_ratio_of_the_ends(name: str) -> None:
    method, client, message = at_client(f"{name}(mu=0, nu=0, start=0, local_init=fresh)", steps=1, **PLAIN)
    w_g, w_l = tensor(message, "w"), method.random_local(client)
    drawn = method.draw(client.rng("superfed-lambda"))
    sizes = [s.stop - s.start for s in method.stretches]
    lam = torch.cat([torch.full((size,), value) for value, size in zip(drawn, sizes, strict=True)])
    step_f = method.train(client, message)["w"] - w_g
    step_l = tensor(client.private, "superfed.w_l") - w_l
    assert step_f.abs().max() > 1e-2 and step_l.abs().max() > 1e-2
    assert torch.allclose(lam * step_f, (1 - lam) * step_l, atol=1e-6)


@pytest.mark.parametrize("scale", [1.0, -3.0])
def test_cos2_is_autograds_orthogonal_to_the_weights_and_makes_them_orthogonal(scale: float) -> None:
    w_f = torch.randn(500, generator=torch.Generator().manual_seed(1), dtype=torch.float64).requires_grad_()
    w_l = (scale * related(w_f.detach())).requires_grad_()
    cos2 = torch.cosine_similarity(w_f, w_l, dim=0) ** 2
    expected = torch.autograd.grad(7 * cos2, [w_f, w_l])
    ends = torch.stack([w_f.detach(), w_l.detach()])
    g_f, g_l = cos2_shares(*ends, nu=7).double() @ ends
    assert torch.allclose(g_f, expected[0], atol=1e-7) and torch.allclose(g_l, expected[1], atol=1e-7)
    assert g_f @ w_f.detach() == pytest.approx(0, abs=1e-5) == g_l @ w_l.detach()
    assert g_f.norm() > 0.01
    assert torch.cosine_similarity(w_f - 0.1 * g_f, w_l - 0.1 * g_l, dim=0) ** 2 < cos2


def test_cos2_of_nothing_is_nothing() -> None:
    assert torch.equal(cos2_shares(torch.zeros(3), torch.ones(3), nu=1), torch.zeros(2, 2))


@pytest.mark.parametrize("prox", ["squared", "sum_of_norms"])
def test_proximity_is_autograds(prox: str) -> None:
    method = at_client(f"superfed-mm(mu=3, prox={prox})")[0]
    away = torch.randn(method.layout.size, generator=torch.Generator().manual_seed(2)).requires_grad_()
    tensors = [place.view(away) for place in method.layout.places.values()]
    value = 3 * sum(t.square().sum() if prox == "squared" else t.norm() for t in tensors)
    g_f = torch.ones_like(away)  # what is there already stays
    w_g = torch.randn(len(away))
    four = torch.stack([w_g + away.detach(), torch.zeros_like(w_g), w_g, torch.zeros_like(w_g)])
    g_f += method.shares(0.3, torch.zeros(2, 2))[0] @ four
    if prox == "sum_of_norms":
        method.add_norms(g_f, away.detach())
    assert torch.allclose(g_f - 1, torch.autograd.grad(value, away)[0], atol=1e-5)


def test_the_two_proximities_train_different_models() -> None:
    at = [at_client(f"superfed-mm(mu=1, prox={prox})", steps=3) for prox in ("squared", "sum_of_norms")]
    one, two = (method.train(client, message)["w"] for method, client, message in at)
    assert not torch.allclose(one, two, atol=1e-3)


# ------------------------------------------------------------ what it reduces to


@cache
def final(method: str, momentum: str = "reset") -> Tensor:
    """The global model of a tiny run, which is scored only at its end."""
    return tensor(play(tiny(method, local={"momentum_across_rounds": momentum}, scoring={"every": 9})).server, "w")


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("momentum", ["reset", "persist"])
def test_without_mixing_and_proximity_it_is_fedavg_to_the_bit(name: str, momentum: str) -> None:
    assert torch.equal(final(f"{name}(start=1.0, mu=0, nu=9, nu_from=mixing)", momentum), final("fedavg", momentum))


@pytest.mark.parametrize("name", BOTH)
def test_before_mixing_nu_does_nothing_where_there_is_no_local_model_yet(name: str) -> None:
    assert torch.equal(final(f"{name}(start=1.0, mu=0, nu=9, local_init=at_mixing)"), final("fedavg"))
    assert not torch.equal(final(f"{name}(start=1.0, mu=0, nu=9, local_init=fresh)"), final("fedavg"))


@pytest.mark.parametrize("name", BOTH)
def test_personalization_that_never_starts_is_fedprox(name: str) -> None:
    ours = final(f"{name}(start=1.0, mu=0.5, nu_from=mixing)")
    fedprox, fedavg = final("fedprox(mu=1.0)"), final("fedavg")  # FedProx has a ½
    assert (ours - fedprox).norm() < 1e-4 * (fedavg - fedprox).norm()  # μw^f − μw^g instead of μ(w^f − w^g)


def test_mixing_changes_what_is_sent() -> None:
    assert not torch.allclose(final("superfed-mm(start=0, mu=0, nu=0)"), final("fedavg"), atol=1e-3)


# ------------------------------------------------------------ the local model


@pytest.mark.parametrize(
    ("start", "rounds", "last_at_rest"), [(0, 5, 0), (0.4, 5, 2), (0.5, 5, 2), (0.29, 100, 29), (1, 5, 5)]
)
def test_the_local_model_rests_until_round_L(start: float, rounds: int, last_at_rest: int) -> None:
    """In 1-based rounds, up to ⌊start·R⌋, as in the released code: neither momentum nor weight decay touches it."""
    method = f"superfed-mm(start={start}, nu_from=mixing, local_init=fresh)"
    experiment = tiny(method, rounds={"count": rounds}, local={"weight_decay": 0.1, "steps": 2})
    assembly = assemble(experiment)
    message = assembly.method.broadcast(assembly.method.start(), 0)
    assert message["superfed.L"] == last_at_rest
    for round in {max(1, last_at_rest), min(rounds, last_at_rest + 1)}:
        client = assembly.workplace.client(Task("train", 0, round, message), {})
        first = assembly.method.random_local(client)
        assembly.method.train(client, message)
        rests = torch.equal(tensor(client.private, "superfed.w_l"), first)
        assert rests == (round <= last_at_rest)


def test_it_starts_at_random_weights_of_the_clients_own() -> None:
    method, client, message = at_client("superfed-mm")
    one, again = method.random_local(client), method.random_local(at_client("superfed-mm", round=7)[1])
    other = method.random_local(at_client("superfed-mm", client_id=1)[1])
    assert torch.equal(one, again)
    for w in (other, tensor(message, "w")):
        assert abs(torch.cosine_similarity(one, w, dim=0)) < 0.1
        assert one.norm() == pytest.approx(float(w.norm()), rel=0.1)


def test_it_moves_on_from_where_it_was_and_is_replaced_not_changed_in_place() -> None:
    method, client, message = at_client("superfed-mm(start=0)", round=2, steps=1)
    client.private["superfed.w_l"] = kept = related(tensor(message, "w"))
    method.train(client, message)
    assert torch.equal(kept, related(tensor(message, "w")))
    moved = tensor(client.private, "superfed.w_l")
    assert 0 < (moved - kept).norm() < 0.5 < 5 < (moved - method.random_local(client)).norm()


def test_copy_global_starts_it_at_the_first_model_received() -> None:
    method, client, message = at_client("superfed-mm(local_init=copy_global, start=1, nu_from=mixing)")
    first = tensor(message, "w").clone()
    method.train(client, message)
    method.train(client, {**message, "w": first + 1})
    assert torch.equal(tensor(client.private, "superfed.w_l"), first)


def test_at_mixing_starts_it_at_the_model_received_in_the_first_round_of_mixing() -> None:
    """A step of no length shows where it began: not at the first model received, nor at a later one."""
    assembly = assemble(tiny("superfed-mm(start=0.4)", rounds={"count": 5}, local={"lr": 1e-12}))
    method, private, received = assembly.method, {}, {}
    first = method.broadcast(method.start(), 0)
    assert first["superfed.L"] == 2
    for round in (1, 2, 4, 5):  # the client takes no part in round 3, the first that mixes
        message = {**first, "w": tensor(first, "w") + round}
        received[round] = tensor(message, "w").clone()
        client = assembly.workplace.client(Task("train", 0, round, message), private)
        method.train(client, message)
        private = client.private
        assert ("superfed.w_l" in private) == (round > 2)
    assert torch.allclose(tensor(private, "superfed.w_l"), received[4], atol=1e-6)


def test_before_it_mixes_a_client_keeps_nothing_and_its_line_is_the_global_model() -> None:
    method, client, message = at_client("superfed-mm(start=1, local_init=at_mixing)", round=3)
    method.train(client, message)
    assert not client.private
    later = {**message, "w": tensor(message, "w") + 1}
    for name in method.family.members:
        assert torch.equal(method.layout.flatten(method.member(client, later, name).net), later["w"])
    assert torch.equal(method.local_weights(client, later), later["w"])
    assert torch.equal(method.layout.flatten(method.personal(client, later).net), later["w"])
    assert not client.private, "what is scored is not kept either"


def test_clients_that_never_mixed_are_scored_with_the_global_model() -> None:
    """In a whole run: their line is flat and they keep nothing, while others have a model of their own."""
    played = play(tiny("superfed-mm(start=0.7)", scoring={"test": "split"}), strict=True)
    ids = played.assembly.federation_facts.training_ids
    mixed = {i for i in ids if "superfed.w_l" in played.engine.private(i)}
    last = {row["client"]: row for row in played.clients if row["round"] == 3}
    assert len(mixed) == 2 < len(ids), "the cohort of the one round after L"
    for i in set(ids) - mixed:
        assert not played.engine.private(i)
        line = {last[i][f"member:{name}.split.accuracy"] for name in played.assembly.method.family.members}
        assert line == {last[i]["generic.split.accuracy"]}


def test_a_run_that_was_stopped_before_the_mixing_and_one_in_the_pool_end_in_the_same_bytes(tmp_path: Path) -> None:
    class Stops(Silent):
        def round(self, row: Row) -> None:
            if row["round"] == 2:
                raise KeyboardInterrupt

    asked = tiny("superfed-lm", rounds={"count": 5})  # L = 2
    run(asked, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(asked, tmp_path / "stopped", Stops())
    resume(tmp_path / "stopped")
    run(asked.with_({"engine": {"name": "pool", "workers": 1}}), tmp_path / "pool")
    for other in ("stopped", "pool"):
        assert_same_run(tmp_path / other, tmp_path / "whole")
    automatic = Record(tmp_path / "stopped").summary.automatic
    assert automatic["superfed-lm.local_init"] == "at_mixing" and automatic["superfed-lm.lr_compensation"] is True


def test_momentum_that_persists_survives_round_L() -> None:
    method, client, message = at_client("superfed-mm(start=0)", momentum_across_rounds="persist")
    size = method.layout.size
    client.private["velocity"] = velocity = torch.ones(1, size)  # of w^f alone, from before round L
    method.train(client, message)
    assert tensor(client.private, "velocity").shape == (2, size) and torch.equal(velocity, torch.ones(1, size))
    method.train(client, message)


# ------------------------------------------------------------ what travels


@pytest.mark.parametrize("name", BOTH)
def test_only_the_federated_model_and_n_are_uploaded(name: str) -> None:
    ours, fedavg = play(tiny(f"{name}(start=0)"), strict=True), play(tiny("fedavg"), strict=True)
    for mine, theirs in zip(ours.rows, fedavg.rows, strict=True):
        assert mine["bytes_up"] == theirs["bytes_up"]
        assert 0 < mine["bytes_down"] - theirs["bytes_down"] < 200  # the round L, told to two clients
    trained = [e for e in ours.engine.exchanges if e.task.kind == "train"]
    for e in trained:
        w_l = tensor(e.after, "superfed.w_l")
        some = w_l[w_l != 0][-16:].numpy().tobytes()
        assert some in encode(e.after)
        assert all(some not in (other.answered or b"") + other.sent for other in ours.engine.exchanges)


def test_the_reply_holds_the_end_that_was_trained_not_the_mixture() -> None:
    method, client, message = at_client("superfed-mm(mu=0, nu=0, start=0, local_init=fresh)", steps=1, **PLAIN)
    w_g = tensor(message, "w")
    reply = method.train(client, message)
    assert set(reply) == {"w", "n"} and reply["n"] == client.samples
    away, to_mixture = (reply["w"] - w_g).norm(), (method.random_local(client) - w_g).norm()
    assert 0 < away < 0.5 * to_mixture


# ------------------------------------------------------------ predictions


@pytest.mark.parametrize("name", BOTH)
def test_members_lie_on_the_line_between_the_model_received_and_the_clients_own(name: str) -> None:
    method, client, message = at_client(f"{name}(start=0)")
    method.train(client, message)
    w_l = tensor(client.private, "superfed.w_l")
    w_g = tensor(message, "w") * 1.1  # the server has moved on since this client trained
    for member in method.family.members:
        model = method.member(client, {"w": w_g, "superfed.L": 0}, member)
        lam = float(member)
        found = method.layout.flatten(model.net)
        assert torch.allclose(found, (1 - lam) * w_g + lam * w_l, atol=1e-6)
        if lam in (0, 1):
            assert torch.equal(found, w_l if lam else w_g)


def test_the_family_is_the_grid_and_the_fixed_lambda() -> None:
    grid = ("0.0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "1.0")
    assert at_client("superfed-mm")[0].family.members == grid
    method = at_client("superfed-mm(lam=0.25)")[0]
    assert method.family.members == (*grid[:3], "0.25", *grid[3:]) and method.family.fixed == "0.25"


def test_a_client_without_a_local_model_yet_has_its_first_one() -> None:
    method, client, message = at_client("superfed-mm(local_init=fresh)")
    model = method.member(client, message, "1.0")
    assert torch.equal(method.layout.flatten(model.net), method.random_local(client))


def test_the_model_handed_out_is_that_of_the_fixed_lambda_and_a_new_client_has_the_global_one() -> None:
    assembly = assemble(tiny("superfed-mm(lam=0.3)"))
    method, federation = assembly.method, assembly.federation
    for client_id, member in ((federation.training_ids[0], "0.3"), (federation.new_ids[0], "0.0")):
        message = method.broadcast(method.start(), client_id)
        client = assembly.workplace.client(Task("score", client_id, 3, message), {})
        found = method.layout.flatten(method.personal(client, message).net)
        assert torch.equal(found, method.layout.flatten(method.member(client, message, member).net))
    assert torch.equal(found, tensor(message, "w"))
    adapted = method.layout.flatten(method.adapt(client, message).net)
    assert not torch.equal(adapted, found)


@pytest.mark.parametrize(
    ("validating", "protocol", "rule"),
    [
        (3, "motet", "common_validation"),
        (0, "motet", "fixed"),
        (0, "superfed", "common_best"),
        (3, "superfed", "common_best"),
    ],
)
@pytest.mark.parametrize("name", BOTH)
def test_lambda_looks_at_test_data_in_the_papers_own_protocol_alone(
    name: str, validating: int, protocol: str, rule: str
) -> None:
    facts = replace(FACTS, validating=validating, protocol=protocol)
    method = build_method(name, build_net("mlp", input_of(1, 8, 8), 10), facts)
    assert method.family is not None and method.family.rule == rule
    assert method.automatic(method.start())[f"{name}.lambda_eval"] == rule


@pytest.mark.parametrize(
    ("protocol", "begins", "compensated"), [("motet", "at_mixing", True), ("superfed", "fresh", False)]
)
@pytest.mark.parametrize("name", BOTH)
def test_the_line_is_trained_as_in_the_paper_in_its_own_protocol_alone(
    name: str, protocol: str, begins: str, compensated: bool
) -> None:
    def built(options: str) -> Any:
        facts = replace(FACTS, protocol=protocol)
        return build_method(f"{name}({options})", build_net("mlp", input_of(1, 8, 8), 10), facts)

    method = built("lambda_eval=fixed")
    assert (method.options.local_init, method.options.lr_compensation) == (begins, compensated)
    assert method.automatic(method.start()) == {f"{name}.local_init": begins, f"{name}.lr_compensation": compensated}
    asked = built("lambda_eval=fixed, local_init=copy_global, lr_compensation=false")
    assert (asked.options.local_init, asked.options.lr_compensation) == ("copy_global", False)
    assert not asked.automatic(asked.start())


def test_the_protocol_reaches_the_method() -> None:
    asked = tiny("superfed-mm").model_copy(update={"protocol": "superfed"})
    family = assemble(asked).method.family
    assert family is not None and family.rule == "common_best"


RULES = ["common_best", "common_validation", "validation", "oracle", "fixed"]


@pytest.mark.parametrize("rule", RULES)
def test_the_rule_decides_what_is_reported_and_the_record_keeps_them_all(rule: str) -> None:
    played = play(tiny(f"superfed-mm(start=0.3, lambda_eval={rule}, lam=0.2)", scoring={"test": "split"}))
    row = played.rows[-1]
    rules = {name: row[f"rule:{name}.split.accuracy.mean"] for name in RULES}
    sweep = {name: row[f"member:{name}.split.accuracy.mean"] for name in played.assembly.method.family.members}
    assert row["family_rule"] == rule
    assert row["personal.split.accuracy.mean"] == pytest.approx(rules[rule])
    assert sum(row["family_chosen"].values()) == len(played.assembly.client_ids)
    assert rules["fixed"] == sweep["0.2"] and rules["common_best"] == max(sweep.values())
    assert rules["oracle"] >= rules["common_best"] and rules["oracle"] >= rules["validation"]
    assert sweep["0.0"] == pytest.approx(row["generic.split.accuracy.mean"])  # λ = 0 is the generic model
    assert all(f"member:0.3.{data}.accuracy.mean" in row for data in ("weighted", "split", "validation"))
    assert all("member:0.1.split.accuracy" in client for client in played.clients)


def test_the_four_rules_differ() -> None:
    row = play(tiny("superfed-mm(start=0.3, lam=1.0)", scoring={"test": "split"})).rows[-1]
    rules = {name: row[f"rule:{name}.split.accuracy.mean"] for name in RULES}
    assert len(set(rules.values())) > 1 and rules["fixed"] < rules["oracle"]


def test_a_client_whose_data_leave_no_test_split_does_not_stop_the_run() -> None:
    assembly = assemble(tiny("superfed-mm", scoring={"test": "split"}))
    first = assembly.federation.clients[0]
    object.__setattr__(first, "test", first.test.part(0, 0))
    row = play(assembly.experiment, assembly=assembly).rows[-1]
    assert 0 <= row["personal.split.accuracy.mean"] <= 1 and "rule:oracle.split.accuracy.mean" in row


@pytest.mark.parametrize("name", BOTH)
def test_a_run_from_python_twice_is_identical_and_its_scores_finite(name: str) -> None:
    words: dict[str, Any] = {"clients": 4, "rounds": 3, "cohort": 2, "epochs": 1, "seed": 3, "subset": 0.3}
    one, two = (motet.run(method=name, data="digits", net="twonn", protocol="superfed", **words) for _ in range(2))
    rows = [[{k: v for k, v in r.items() if "seconds" not in k} for r in result.rounds] for result in (one, two)]
    assert rows[0] == rows[1] and "member:0.5.split.accuracy.mean" in rows[0][-1]
    assert all(math.isfinite(v) for v in rows[0][-1].values() if isinstance(v, float))
    x = torch.zeros(2, 8, 8)
    assert torch.equal(one.personal_model(0)(x), two.personal_model(0)(x))


# ------------------------------------------------------------ nets with statistics, sums, refusals


def with_statistics() -> Net:
    """A small net with BatchNorm."""

    def build() -> Net:
        stages: OrderedDict[str, nn.Module] = OrderedDict(
            fc1=nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.ReLU()), fc2=nn.Linear(8, 10)
        )
        net = Net(stages, input_of(1, 8, 8))
        net.another = build
        return net

    with seeded(0, "net"):
        return build()


def test_statistics_are_not_mixed_and_travel() -> None:
    method = build_method("superfed-lm(start=0)", with_statistics(), FACTS)
    assert isinstance(method, SuPerFedLM)
    client, message = at_client("superfed-lm")[1], {"w": method.fresh, "superfed.L": 0}
    statistics = slice(0, method.mixed.start)
    assert method.mixed.start == 17 and len(method.stretches) == 3  # mean, variance and count; linear, norm, linear
    reply = method.train(client, message)
    assert (tensor(reply, "w")[statistics] != method.fresh[statistics]).all()
    assert len(tensor(client.private, "superfed.w_l")) == method.layout.size - 17
    member = method.layout.flatten(method.member(client, reply | {"superfed.L": 0}, "0.7").net)  # type: ignore[arg-type]
    assert torch.equal(member[statistics], tensor(reply, "w")[statistics])


def test_fine_tuning_starts_from_the_fixed_lambda() -> None:
    played = play(tiny("superfed-mm+ft"))
    assert "family_rule" not in played.rows[-1] and 0 <= played.rows[-1]["personal.weighted.accuracy.mean"] <= 1


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("superfed-mm(mu=-1)", ["mu", "-1", "at least 0"]),
        ("superfed-lm(start=1.5)", ["start", "1.5", "at most 1"]),
        ("superfed-mm(lambda_eval=best)", ["lambda_eval", "best", "common_best | common_validation | validation"]),
        ("superfed-mm(local_init=copy)", ["local_init", "copy", "auto | fresh | copy_global | at_mixing"]),
        ("superfed-lm(lr_compensation=2.5)", ["lr_compensation", "2.5", "true or false or auto"]),
        ("superfed-mm(prox=norm)", ["prox", "squared | sum_of_norms"]),
        ("superfed-mm+superfed-lm", ["superfed-mm is a method of its own"]),
        ("superfed-mm+scaffold", ["superfed-mm is a method of its own", "scaffold"]),
    ],
)
def test_refusals(method: str, words: list[str]) -> None:
    with pytest.raises(MotetError) as caught:
        build_method(method, build_net("mlp", input_of(1, 8, 8), 10), FACTS)
    assert all(word in str(caught.value) for word in words), caught.value


def test_choosing_by_validation_needs_validation_data() -> None:
    with pytest.raises(MotetError, match=r"'validation' but no client has validation data.*val_share"):
        play(tiny("superfed-mm(lambda_eval=validation)", data={"val_share": 0.0}))
