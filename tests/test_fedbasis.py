"""FedBasis: its invariants, every step against plain autograd, and the exact shortcut of step 4."""

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from inputs import input_of
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cosine_similarity, cross_entropy

from motet.config.sections import AdaptSettings, LocalSettings
from motet.data import ClientData, Samples, VectorPrepare
from motet.errors import MotetError
from motet.messages.message import Message, byte_count, number, tensor
from motet.methods import build_method
from motet.methods.base import Facts
from motet.methods.fedbasis import FedBasis
from motet.methods.fedbasis.base_training import rebuild
from motet.methods.fedbasis.coefficients import Coefficients
from motet.methods.fedbasis.mixing import entropy, softened
from motet.methods.fedbasis.warm_start import independent
from motet.nets import Net
from motet.training.client import Client, RunContext
from motet.training.randomness import seeded

CLASSES, FEATURES = 4, 6
FACTS = Facts((0, 1), 2, 10, CLASSES)


@pytest.fixture(autouse=True)
def same_draws() -> None:
    """What a test draws without a generator is the same each time."""
    torch.manual_seed(0)


def small_net(norm: bool = False) -> Net:
    """Two hidden stages, the first perhaps with BatchNorm, and a classifier."""

    def build() -> Net:
        def stage(inputs: int, norm: bool = False) -> nn.Module:
            return nn.Sequential(nn.Linear(inputs, 5), *([nn.BatchNorm1d(5)] if norm else []), nn.Tanh())

        net = Net(OrderedDict(low=stage(FEATURES, norm), high=stage(5), top=nn.Linear(5, CLASSES)), input_of(FEATURES))
        net.another = build
        return net

    with seeded(0, "net"):
        return build()


def method(options: str = "", norm: bool = False, facts: Facts = FACTS, as_printed: bool = True) -> FedBasis:
    step = "lr_compensation=false" if as_printed else ""
    built = build_method(f"fedbasis({', '.join(filter(None, (options, step)))})", small_net(norm), facts)
    assert isinstance(built, FedBasis)
    return built


def samples(n: int, seed: int = 0) -> Samples:
    """A problem that can be learned: the class is the largest of four random directions."""
    rng = torch.Generator().manual_seed(seed)
    x, directions = torch.randn(n, FEATURES, generator=rng), torch.randn(FEATURES, CLASSES, generator=rng)
    return Samples(x, (x @ directions).argmax(1), VectorPrepare((FEATURES,)))


def client(n: int = 40, id: int = 0, new: bool = False, adapt: dict[str, Any] | None = None, **local: Any) -> Client:
    rule = {"epochs": 6, "batch": 8, "lr": 0.1, "momentum": 0.9, "weight_decay": 0.02} | local
    data = ClientData(id, samples(n, id), samples(0), samples(0), new=new)
    settings = LocalSettings(**rule), AdaptSettings(**({"epochs": 6, "lr": 0.1} | (adapt or {})))
    return Client(data, 1, RunContext(CLASSES, 7, *settings))


def bases(m: FedBasis) -> Tensor:
    """K (+1) independent models."""
    return independent(m.net, m.layout, m.layout.flatten(small_net()), m.options.k + m.options.major, seed=0)


# ---------------------------------------------------------------- the reference: autograd through K models


def mixed(m: FedBasis, alpha: Tensor, V: Tensor) -> dict[str, Tensor]:
    """Eq. 4 with the major basis of section 4.4, parameter by parameter, as differentiable named tensors."""
    named = {}
    for name, place in m.layout.places.items():
        block = m.mixing.names.index(name.split(".")[0]) if len(m.mixing.names) > 1 else 0
        v = [place.view(row) for row in V]
        own = sum(alpha[block, k] * v[k + m.mixing.first] for k in range(m.options.k))
        named[name] = v[0] / 2 + own / 2 if m.options.major else own
    return named


def loss(m: FedBasis, named: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
    return cross_entropy(functional_call(m.net, named, (x,)), y)


def descend(
    c: Client, purpose: str, variables: list[dict[str, Any]], objective: Callable[[Tensor, Tensor], Tensor], **how: Any
) -> None:
    """torch's own SGD over the batches that the house's loop would draw."""
    rule = c.local
    optimizer = torch.optim.SGD(variables, lr=c.lr, momentum=rule.momentum, weight_decay=rule.weight_decay)
    for x, y in c.descent(purpose, **how).batches(c.data.train):
        optimizer.zero_grad()
        objective(x, y).backward()  # type: ignore[no-untyped-call]
        if rule.clip:
            torch.nn.utils.clip_grad_norm_([p for group in variables for p in group["params"]], rule.clip)
        optimizer.step()


def leaf(value: Tensor) -> Tensor:
    return value.clone().requires_grad_()


def reference_psi(m: FedBasis, c: Client, V: Tensor) -> Tensor:
    """Step 2 by autograd."""
    psi = leaf(torch.zeros(len(m.mixing.names), m.options.k))
    group = {"params": [psi], "lr": m.options.psi_lr}
    descend(c, "psi", [group], lambda x, y: loss(m, mixed(m, torch.softmax(psi, 1), V), x, y))
    return psi.detach()


def reference_bases(m: FedBasis, c: Client, V: Tensor, alpha: Tensor) -> Tensor:
    """Step 4 by autograd."""
    v = leaf(V)
    descend(c, "train", [{"params": [v]}], lambda x, y: loss(m, mixed(m, alpha, v), x, y))
    return v.detach()


def client_bases(m: FedBasis, V: Tensor, reply: Message) -> Tensor:
    """What the server makes of one client's reply."""
    return tensor(m.aggregate({"fedbasis.V": V}, {0: reply}), "fedbasis.V")


def assert_close(ours: Tensor, reference: Tensor, start: Tensor, tolerance: float = 2e-5) -> None:
    """Equal up to rounding, where the way from the start is far longer than that."""
    assert (reference - start).abs().max() > 1000 * tolerance
    torch.testing.assert_close(ours, reference, rtol=tolerance, atol=tolerance)


# ---------------------------------------------------------------- mixing


@pytest.mark.parametrize("options", ["k=3", "k=3, major=false", "k=2, blocks=single", "k=1, major=false"])
def test_theta_is_the_papers_mixture(options: str) -> None:
    m = method(options)
    V = bases(m)
    alpha = softened(torch.randn(len(m.mixing.names), m.options.k), 1.0)
    theta, named = m.mixing.theta(alpha, V), mixed(m, alpha, V)
    for name, place in m.layout.places.items():
        torch.testing.assert_close(place.view(theta), named[name])


def test_blocks_are_the_nets_stages_or_one() -> None:
    assert method().mixing.names == ["low", "high", "top"]
    assert method("blocks=single").mixing.names == [""]
    assert method(norm=True).mixing.names == ["low", "high", "top"]


@pytest.mark.parametrize("tau", [0.05, 0.1, 0.5, 1.0])
def test_temperature_on_psi_is_a_power_of_alpha(tau: float) -> None:
    psi = torch.randn(5, 4, dtype=torch.float64)
    powered = softened(psi, 1.0) ** (1 / tau)
    torch.testing.assert_close(softened(psi, tau), powered / powered.sum(1, keepdim=True))
    torch.testing.assert_close(softened(psi, tau).sum(1), torch.ones(5, dtype=torch.float64))


def test_entropy_is_that_of_the_coefficients() -> None:
    assert entropy(torch.full((3, 4), 0.25)) == pytest.approx(math.log(4))
    assert entropy(torch.eye(4)) == 0
    assert entropy(torch.tensor([[0.5, 0.5, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]])) == pytest.approx(math.log(2) / 2)


@pytest.mark.parametrize("options", ["k=4", "k=4, major=false", "k=3, blocks=single"])
@pytest.mark.parametrize("tau", [1.0, 0.1])
def test_gradient_of_psi_is_autograds(options: str, tau: float) -> None:
    m = method(options)
    V, (x, y) = bases(m), samples(20).batch(torch.arange(20))
    psi = leaf(torch.randn(len(m.mixing.names), m.options.k) * tau)
    (expected,) = torch.autograd.grad(loss(m, mixed(m, softened(psi, tau), V), x, y), psi)
    theta = leaf(m.mixing.theta(softened(psi.detach(), tau), V))
    (G,) = torch.autograd.grad(loss(m, {n: p.view(theta) for n, p in m.layout.places.items()}, x, y), theta)
    assert expected.abs().max() > 1e-3
    torch.testing.assert_close(m.mixing.psi_gradient(softened(psi.detach(), tau), V, G, tau), expected)


# ---------------------------------------------------------------- the local round


@pytest.mark.parametrize(
    "options", ["k=4, psi_lr=0.2", "k=3, major=false, tau=0.5, psi_lr=0.2", "blocks=single, psi_lr=0.2"]
)
def test_a_local_round_learns_psi_then_sharpens_then_trains_the_bases(options: str) -> None:
    m, c = method(options), client()
    V = bases(m)
    psi = reference_psi(m, c, V)
    alpha = torch.softmax(psi / m.options.tau, 1)
    reply = m.train(c, {"fedbasis.V": V})
    assert (alpha - 1 / m.options.k).abs().max() > 0.01  # a client that chooses
    torch.testing.assert_close(tensor(reply, "fedbasis.alpha"), alpha, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(tensor(reply, "fedbasis.alpha").sum(1), torch.ones(len(alpha)))
    assert number(reply, "fedbasis.entropy") == pytest.approx(entropy(alpha), abs=1e-4)
    assert number(reply, "fedbasis.entropy_learned") == pytest.approx(entropy(torch.softmax(psi, 1)), abs=1e-4)
    assert_close(client_bases(m, V, reply), reference_bases(m, c, V, alpha), V, 1e-4)


RULES: list[dict[str, Any]] = [
    {},
    {"momentum": 0.0},
    {"weight_decay": 0.0},
    {"clip": 0.05},
    {"steps": 23, "drop_last": True},
]


CASES = [("k=4", rule) for rule in RULES] + [("k=4, major=false", {}), ("k=3, plain=true", {"clip": 0.05})]


@pytest.mark.parametrize(("options", "rule"), CASES, ids=str)
def test_one_vector_moves_all_bases_as_autograd_does(options: str, rule: dict[str, Any]) -> None:
    m, c = method(f"{options}, psi_lr=0.3"), client(**rule)
    V = bases(m)
    coefficients = Coefficients(m.net, m.mixing, V)
    coefficients.learn(c.descent("psi", lr=0.3), c.data.train)
    alpha = softened(coefficients.psi, m.options.tau)
    assert alpha.max() > 1.2 / m.options.k
    reply = m.train(c, {"fedbasis.V": V})
    assert_close(client_bases(m, V, reply), reference_bases(m, c, V, alpha), V)


def test_what_is_left_of_the_sent_bases_matters() -> None:
    """With c = 1 the server would forget the decay of every basis, also of those that α leaves out."""
    m, c = method("k=2"), client()
    V = bases(m)
    reply = m.train(c, {"fedbasis.V": V})
    assert 0.3 < number(reply, "fedbasis.c") < 0.9
    honest, forgetful = client_bases(m, V, reply), client_bases(m, V, reply | {"fedbasis.c": 1.0})
    assert (honest - forgetful).abs().max() > 0.05


@pytest.mark.parametrize("kind", ["", "plain=true, "])
def test_decay_of_theta_alone_leaves_unused_bases_where_they_are(kind: str) -> None:
    m, c = method(f"{kind}k=2, decay=theta"), client(n=24)
    V = bases(m)
    alpha = softened(reference_psi(m, c, V), m.options.tau)
    v = leaf(V)
    without = client(n=24, weight_decay=0.0)

    def objective(x: Tensor, y: Tensor) -> Tensor:
        named = mixed(m, alpha, v)
        return loss(m, named, x, y) + c.local.weight_decay / 2 * sum(t.square().sum() for t in named.values())

    descend(without, "train", [{"params": [v]}], objective)
    assert_close(client_bases(m, V, m.train(c, {"fedbasis.V": V})), v.detach(), V, 1e-4)


@pytest.mark.parametrize("kind", ["", "plain=true, "])
def test_compensated_theta_walks_as_in_fedavg(kind: str) -> None:
    m, c = method(f"{kind}k=3, psi_lr=0.3", as_printed=False), client()
    V = bases(m)
    alpha = softened(reference_psi(m, c, V), m.options.tau)
    theta = m.mixing.theta(alpha, V)
    expected = tensor(build_method("fedavg", small_net(), FACTS).train(c, {"w": theta}), "w")
    ours = m.mixing.theta(alpha, client_bases(m, V, m.train(c, {"fedbasis.V": V})))
    assert_close(ours, expected, theta, 1e-4)


@pytest.mark.parametrize(("tau", "psi_lr"), [(1.0, 0.3), (0.2, 0.03)])
def test_joint_training_moves_psi_and_bases_together(tau: float, psi_lr: float) -> None:
    m, c = method(f"k=3, joint=true, tau={tau}, psi_lr={psi_lr}"), client()
    V = bases(m)
    psi, v = leaf(torch.zeros(3, 3)), leaf(V)
    groups = [{"params": [v]}, {"params": [psi], "lr": psi_lr}]
    descend(c, "train", groups, lambda x, y: loss(m, mixed(m, torch.softmax(psi / tau, 1), v), x, y))
    reply = m.train(c, {"fedbasis.V": V})
    assert_close(tensor(reply, "fedbasis.V"), v.detach(), V, 1e-4)
    assert number(reply, "fedbasis.entropy") == pytest.approx(entropy(torch.softmax(psi.detach() / tau, 1)), abs=1e-4)
    assert number(reply, "fedbasis.entropy") < math.log(3) - 1e-3


@pytest.mark.parametrize("kind", ["", "plain=true, ", "joint=true, "])
def test_equal_bases_cannot_be_told_apart(kind: str) -> None:
    m, c = method(f"{kind}k=4"), client()
    V = bases(m)
    V[1:] = V[1]
    reply = m.train(c, {"fedbasis.V": V})
    assert number(reply, "fedbasis.entropy") == pytest.approx(math.log(4), abs=1e-6)
    after = client_bases(m, V, reply)
    torch.testing.assert_close(after[1:], after[1].expand(4, -1))
    still = client(weight_decay=0.0)
    after = client_bases(m, V, m.train(still, {"fedbasis.V": V}))
    torch.testing.assert_close(after[1] - V[1], (after[0] - V[0]) / 4, rtol=1e-3, atol=1e-6)  # ½·¼ against ½


def test_one_basis_leaves_nothing_to_choose() -> None:
    """The α phase of K = 1 is a no-op, so that training may leave it out."""
    m, c = method("k=1, major=false"), client()
    coefficients = Coefficients(m.net, m.mixing, bases(m))
    coefficients.learn(c.descent("psi"), c.data.train)
    assert not coefficients.psi.any()


# ---------------------------------------------------------------- the server


def test_the_server_averages_clients_unweighted() -> None:
    """Clients of different size take different numbers of steps, so that their c differ too."""
    m, c = method("k=3, psi_lr=0.3"), [client(n=16, id=0), client(n=60, id=1), client(n=33, id=2)]
    V = bases(m)
    replies = {i: m.train(one, {"fedbasis.V": V}) for i, one in enumerate(c)}
    assert len({number(r, "fedbasis.c") for r in replies.values()}) == 3
    each = torch.stack([client_bases(m, V, r) for r in replies.values()])
    server = m.aggregate({"fedbasis.V": V}, replies)
    torch.testing.assert_close(tensor(server, "fedbasis.V"), each.mean(0))
    by_samples = (each * torch.tensor([16.0, 60, 33]).view(3, 1, 1) / 109).sum(0)
    assert (tensor(server, "fedbasis.V") - by_samples).abs().max() > 1e-3
    assert number(server, "fedbasis.entropy") == pytest.approx(
        sum(number(r, "fedbasis.entropy") for r in replies.values()) / 3
    )


def test_generic_model_is_the_uniform_mixture_or_the_major_basis() -> None:
    m = method("k=3")
    V = bases(m)
    expected = V[0] / 2 + V[1:].mean(0) / 2
    torch.testing.assert_close(m.generic({"fedbasis.V": V}), expected)
    assert torch.equal(method("k=3, generic=major").generic({"fedbasis.V": V}), V[0])  # type: ignore[arg-type]
    alone = method("k=3, major=false")
    torch.testing.assert_close(alone.generic({"fedbasis.V": V[1:]}), V[1:].mean(0))


def test_diagnostics_measure_the_bases_without_the_major_one() -> None:
    m = method("k=2")
    V = torch.zeros(3, m.layout.size)
    V[0], V[1, 0], V[2, 1] = 7.0, 2.0, 2.0
    found = m.diagnostics({"fedbasis.V": V, "fedbasis.entropy": 0.5, "fedbasis.entropy_learned": 0.6})
    assert found == pytest.approx(
        {"fedbasis_cosine": 0.0, "fedbasis_spread": 1.0, "fedbasis_entropy": 0.5, "fedbasis_entropy_learned": 0.6}
    )
    V[2] = V[1]
    assert m.diagnostics({"fedbasis.V": V}) == pytest.approx({"fedbasis_cosine": 1.0, "fedbasis_spread": 0.0})


def test_one_model_goes_up_instead_of_k_plus_one() -> None:
    model = method().layout.size * 4
    c = client()
    for k, major in ((4, True), (8, True), (4, False)):
        options = f"k={k}, major={str(major).lower()}, warm_start=0"
        m, plain = method(options), method(f"{options}, plain=true")
        server = m.start()
        message = m.broadcast(server, 0)
        overhead = 500 + 4 * 3 * k  # names, lengths, scalars; the coefficients of three blocks
        assert (k + major) * model <= byte_count(message) < (k + major) * model + overhead
        assert model <= byte_count(m.train(c, message)) < model + overhead
        assert (k + major) * model <= byte_count(plain.train(c, message))


def test_rebuilding_keeps_the_servers_own_bases() -> None:
    m = method("k=2")
    V = bases(m)
    before = V.clone()
    rebuild(V, [m.train(client(), {"fedbasis.V": V})], m.mixing)
    assert torch.equal(V, before)


# ---------------------------------------------------------------- BatchNorm statistics


@pytest.mark.parametrize("major", ["true", "false"])
def test_statistics_are_mixed_and_learned_by_share(major: str) -> None:
    one, each = (method(f"k=3, major={major}, psi_lr=0.3{kind}", norm=True) for kind in ("", ", plain=true"))
    statistics = slice(0, one.layout.trainable.start)
    assert statistics.stop == 5 + 5 + 1
    V = torch.stack([one.layout.flatten(small_net(norm=True)) for _ in range(3 + one.mixing.first)])
    V += torch.rand(V.shape, generator=torch.Generator().manual_seed(1)) / 2
    before, c = V.clone(), client()
    reply = one.train(c, {"fedbasis.V": V})
    alpha, seen = tensor(reply, "fedbasis.alpha"), tensor(reply, "fedbasis.U")[statistics]
    ours = client_bases(one, V, reply)
    assert torch.equal(V, before)  # what the server sent is nobody's to change
    torch.testing.assert_close(ours, client_bases(each, V, each.train(c, {"fedbasis.V": V})), rtol=1e-4, atol=1e-4)
    assert (seen - one.mixing.theta(alpha, V)[statistics]).abs().max() > 0.1
    for name, place in one.layout.places.items():
        if place.is_buffer:
            share = alpha[one.mixing.names.index(name.split(".")[0])]
            for k in range(3):
                v, s = V[k + one.mixing.first, place.where], seen[place.where]
                torch.testing.assert_close(ours[k + one.mixing.first, place.where], (1 - share[k]) * v + share[k] * s)
            if one.options.major:
                torch.testing.assert_close(ours[0, place.where], seen[place.where])


def test_frozen_bases_normalize_by_their_own_statistics() -> None:
    """Otherwise a client of one sample, which has no variance, could not learn its coefficients at all."""
    m, c = method("k=2", norm=True), client(n=1, new=True)
    V = torch.stack([m.layout.flatten(small_net(norm=True))] * 3)
    V[:, : m.layout.trainable.start] += torch.rand(3, 1)
    adapted = m.layout.flatten(m.adapt(c, {"fedbasis.V": V}))
    buffers = [place.where for place in m.layout.places.values() if place.is_buffer]
    for where in buffers:
        low, high = V[:, where].min(0).values - 1e-5, V[:, where].max(0).values + 1e-5
        assert ((low <= adapted[where]) & (adapted[where] <= high)).all()  # mixed, not learned


# ---------------------------------------------------------------- a new client


def reference_adaptation(m: FedBasis, c: Client, V: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    """Algorithm 2 with a free classifier, by autograd."""
    psi = leaf(torch.zeros(len(m.mixing.names), m.options.k))
    start = mixed(m, torch.softmax(psi.detach(), 1), V)
    top = {name: leaf(value) for name, value in start.items() if name.startswith("top.")}
    free = top if m.options.classifier_free_for_new else {}
    groups = [{"params": [psi, *free.values()], "lr": c.adapt.lr}]
    how = {"epochs": c.adapt.epochs, "lr": c.adapt.lr}
    descend(c, "adapt", groups, lambda x, y: loss(m, mixed(m, torch.softmax(psi, 1), V) | free, x, y), **how)
    tau = m.options.tau if m.options.sharpen_new else 1.0
    named = mixed(m, torch.softmax(psi.detach() / tau, 1), V) | free
    return {name: value.detach() for name, value in named.items()}, psi.detach()


@pytest.mark.parametrize(
    "options", ["k=3", "k=3, classifier_free_for_new=false", "k=3, blocks=single, sharpen_new=true", "k=3, major=false"]
)
def test_a_new_client_learns_coefficients_and_a_classifier(options: str) -> None:
    m, c = method(options), client(new=True)
    V = bases(m)
    expected, psi = reference_adaptation(m, c, V)
    assert psi.abs().max() > 0.02
    before = m.layout.flatten(m.personal(c, {"fedbasis.V": V}))
    torch.testing.assert_close(before, m.generic({"fedbasis.V": V}))
    after = dict(m.adapt(c, {"fedbasis.V": V}).named_parameters())
    for name, value in expected.items():
        torch.testing.assert_close(after[name].detach(), value, rtol=1e-4, atol=1e-5)
    if m.options.classifier_free_for_new:
        assert (expected["top.weight"] - m.layout.places["top.weight"].view(before)).abs().max() > 0.1


def test_best_on_validation_keeps_the_best_epoch() -> None:
    """Longer adaptation repeats the epochs of a shorter one, so what is kept can only grow better."""
    m = method("k=3")
    message: Message = {"fedbasis.V": bases(m)}

    def right(epochs: int) -> int:
        c = client(n=80, new=True, adapt={"lr": 2.0, "epochs": max(1, epochs), "select": "best_on_validation"})
        held = c.data.train.take(torch.randperm(80, generator=c.rng("adapt-validation"))[:8])
        model = m.adapt(c, message) if epochs else m.personal(c, message)
        with torch.no_grad():
            return int((model(held.x).argmax(1) == held.y).sum())

    found = [right(epochs) for epochs in range(1, 9)]
    assert found == sorted(found) and found[0] >= right(0) and found[-1] > right(0)


def test_a_training_client_is_served_like_a_new_one_and_keeps_nothing() -> None:
    m, c = method("k=3"), client()
    message: Message = {"fedbasis.V": bases(m)}
    personal = m.layout.flatten(m.personal(c, message))
    m.train(c, message)
    assert c.private == {}
    new = client(new=True)
    assert torch.equal(personal, m.layout.flatten(m.adapt(new, message)))


# ---------------------------------------------------------------- before the first bases


def test_a_short_warm_start_is_one_round_and_none_means_independent_models() -> None:
    m = method("k=2", facts=Facts((0, 1), 2, 100, CLASSES))
    assert m.start()["fedbasis.warm_rounds_left"] == 30
    assert method("k=2", facts=Facts((0, 1), 2, 1, CLASSES)).start()["fedbasis.warm_rounds_left"] == 1
    V = tensor(method("k=2, warm_start=0").start(), "fedbasis.V")
    assert torch.equal(V[0], m.layout.flatten(small_net()))
    assert max(abs(float(cosine_similarity(V[i], V[j], dim=0))) for i, j in ((0, 1), (0, 2), (1, 2))) < 0.5
    assert torch.equal(V, tensor(method("k=2, warm_start=0").start(), "fedbasis.V"))


def test_personal_models_during_the_warm_start_have_the_global_body() -> None:
    m, c = method("k=2"), client()
    message = m.broadcast(m.start(), 0)
    before, after = tensor(message, "w"), m.layout.flatten(m.personal(c, message))
    assert torch.equal(after[: m.classifier.start], before[: m.classifier.start])
    assert not torch.allclose(after[m.classifier], before[m.classifier], atol=1e-2)


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("fedbasis(generic=major, major=false)", ["generic", "major", "uniform"]),
        ("fedbasis(k=0)", ["k is 0", "at least 1"]),
        ("fedbasis(tau=0)", ["tau is 0", "above 0"]),
        ("fedbasis(warm_start=1)", ["warm_start is 1", "below 1"]),
        ("fedbasis(blocks=layer)", ["blocks is 'layer'", "per_group", "single"]),
        ("fedbasis+fedprox", ["fedbasis", "cannot carry fedprox"]),
    ],
)
def test_refusals_say_what_is_accepted(name: str, words: list[str]) -> None:
    with pytest.raises(MotetError) as refused:
        build_method(name, small_net(), FACTS)
    assert all(word in str(refused.value) for word in words), refused.value
