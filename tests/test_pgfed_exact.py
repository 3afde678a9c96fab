"""PGFed's exact objective against plain torch, and the pictures of PGFed's α."""

import pytest
import torch
from test_run_metrics import found_in, pictures_of
from torch.nn.functional import cross_entropy

from motet.messages.message import tensor
from motet.messages.task import Task
from motet.methods.pgfed import changes
from motet.methods.pgfed_exact import A, PGFedExact, W
from motet.server.workplace import POOLED
from motet.testing.twin import Played, play, tiny


def played(options: str = "", **changes: object) -> Played:
    """One round of one step: a batch holds everything, so that SGD is gradient descent."""
    local = {"epochs": 1, "batch": 100_000, "lr": 0.5, "momentum": 0.0, "weight_decay": 0.0, "batched_clients": False}
    return play(tiny(f"pgfed-exact{options}", local=local, rounds={"count": 2}, scoring={"every": 1}, **changes))


def test_two_steps_are_gradient_descent_on_equation_4() -> None:
    ours, mu, eta2 = played("(mu=2.0, eta2=0.05)"), 2.0, 0.05
    method, federation = ours.assembly.method, ours.assembly.federation
    assert isinstance(method, PGFedExact)
    clients = [c for c in federation.clients if not c.new]
    batches = [c.train.batch(torch.arange(len(c.train))) for c in clients]
    N, net = len(clients), ours.assembly.evaluator.generic_net
    expected, alphas = [], []
    for i in range(N):
        w, alpha = method.fresh.clone(), torch.full((N,), 1 / N)
        for lr in (0.5, 0.5 * ours.assembly.experiment.local.lr_decay):
            w.requires_grad_(True)
            parts = {name: place.view(w) for name, place in method.layout.places.items()}
            f = torch.stack([cross_entropy(torch.func.functional_call(net, parts, (x,)), y) for x, y in batches])
            (g,) = torch.autograd.grad(f[i] + mu * (alpha @ f), w)
            w, alpha = (w - lr * g).detach(), (alpha - eta2 * mu * f.detach()).clamp_min(0)
        expected.append(w)
        alphas.append(alpha)
    assert torch.allclose(tensor(ours.server, W), torch.stack(expected), atol=1e-5)
    assert torch.allclose(tensor(ours.server, A), torch.stack(alphas), atol=1e-5)
    assert torch.allclose(tensor(ours.server, "w"), torch.stack(expected).mean(0), atol=1e-5)
    assert not torch.allclose(expected[0], expected[1])


def test_without_the_others_it_is_everybody_alone() -> None:
    """μ = 0: the same steps as gradient descent on each client's own risk."""
    ours = played("(mu=0)")
    method, federation = ours.assembly.method, ours.assembly.federation
    net = ours.assembly.evaluator.generic_net
    for i, client in enumerate(c for c in federation.clients if not c.new):
        x, y = client.train.batch(torch.arange(len(client.train)))
        w = method.fresh.clone()  # type: ignore[attr-defined]
        for lr in (0.5, 0.5 * ours.assembly.experiment.local.lr_decay):
            w.requires_grad_(True)
            parts = {name: place.view(w) for name, place in method.layout.places.items()}  # type: ignore[attr-defined]
            (g,) = torch.autograd.grad(cross_entropy(torch.func.functional_call(net, parts, (x,)), y), w)
            w = (w - lr * g).detach()
        assert torch.allclose(tensor(ours.server, W)[i], w, atol=1e-5)


def test_clients_are_served_their_own_model_and_new_ones_the_mean() -> None:
    ours = played()
    method, server = ours.assembly.method, ours.server
    for i in ours.assembly.federation_facts.training_ids:
        place = method.facts.ids.index(i)
        assert torch.equal(tensor(method.broadcast(server, i, scoring=True), "w"), tensor(server, W)[place])
    (new,) = ours.assembly.federation_facts.new_ids
    assert torch.equal(tensor(method.broadcast(server, new), "w"), tensor(server, "w"))
    assert ours.rows[0]["cohort"] == [POOLED] and ours.rows[0]["bytes_up"] is None
    assert list(pictures_of(found_in(ours))) == ["pgfed-exact-weights"]


def test_changes_of_alpha_leave_out_what_a_client_takes_from_itself() -> None:
    alpha = torch.tensor([[9.0, 0.5, 0.1], [0.2, 9.0, 0.4], [0.3, 0.6, 9.0]])
    given, taken = changes(alpha, 0.25)
    assert given.tolist() == pytest.approx(
        [(0.2 + 0.3) / 2 - 0.25, (0.5 + 0.6) / 2 - 0.25, (0.1 + 0.4) / 2 - 0.25], abs=1e-6
    )
    assert taken.tolist() == pytest.approx(
        [(0.5 + 0.1) / 2 - 0.25, (0.2 + 0.4) / 2 - 0.25, (0.3 + 0.6) / 2 - 0.25], abs=1e-6
    )


def test_pictures_of_alpha_over_rounds_and_against_n() -> None:
    ours = play(tiny("pgfed(eta2=0.1)", rounds={"cohort": 1.0}))
    pictures = pictures_of(found_in(ours))
    assert [*pictures] == ["pgfed-weights", "pgfed-alpha-rounds", "pgfed-alpha-samples"]
    rounds = pictures["pgfed-alpha-rounds"]
    assert rounds.x.ticks == (1, 2, 3)
    assert rounds.series[0].values == pytest.approx([row["pgfed_alpha_mean"] for row in ours.rows], rel=1e-3)
    clients = [c for c in ours.assembly.federation.clients if not c.new]
    by_size = sorted(range(4), key=lambda place: len(clients[place].train))
    drawn = pictures["pgfed-alpha-samples"]
    assert drawn.x.ticks == tuple(len(clients[place].train) for place in by_size)
    given, taken = changes(tensor(ours.server, "pgfed.A"), 1 / 4)
    assert drawn.series[0].values == pytest.approx(given[by_size].tolist(), rel=1e-3)
    assert drawn.series[1].values == pytest.approx(taken[by_size].tolist(), rel=1e-3)


def test_a_client_by_itself_goes_on_from_its_own_model() -> None:
    ours = played()
    place, method = ours.assembly.workplace, ours.assembly.method
    i = ours.assembly.federation_facts.training_ids[1]
    message = method.broadcast(ours.server, i)
    reply = place.perform(Task("train", i, 2, message), {}).reply
    fedavg = play(tiny("fedavg", local=ours.assembly.experiment.local.model_dump())).assembly.workplace
    expected = fedavg.perform(Task("train", i, 2, {"w": message["w"]}), {}).reply
    assert reply is not None and expected is not None and torch.equal(tensor(reply, "w"), tensor(expected, "w"))
