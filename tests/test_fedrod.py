"""FED-ROD: two losses that do not disturb each other, what travels, and who is served how."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from by_hand import FACTS
from inputs import input_of
from running import run_twice
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear

from motet.config.experiment import resolve
from motet.config.sections import AdaptSettings, LocalSettings
from motet.data import DataSettings, Federation, Input, Samples, build
from motet.errors import MotetError
from motet.messages.message import Message, State, byte_count, tensor
from motet.methods import build_method
from motet.methods.averaging import Averaging
from motet.methods.balanced import Resampling
from motet.methods.base import Facts, Forward, Training
from motet.methods.fedrod import FedROD, PersonalHead, personal_head
from motet.nets import build_net
from motet.runs.served_models import OnlyCounts, ToldClient
from motet.server.assembly import assemble
from motet.testing.twin import play, tiny
from motet.training.client import Client, RunContext
from motet.training.flat_weights import Layout
from motet.training.losses import bsm
from motet.training.randomness import seeded

HEADS = pytest.mark.parametrize("head", ["linear", "hyper"])
LOCAL = {"epochs": 1, "batch": 16, "lr": 0.05, "momentum": 0.9, "weight_decay": 0.0}


@cache
def digits() -> Federation:
    settings = {"name": "digits", "clients": 6, "partition": "dirichlet:0.3", "new_clients": 0.2, "min_size": 40}
    return build(DataSettings.model_validate(settings), seed=1)


def method_of(text: str, net: str = "mlp", split: str | None = None) -> Averaging:
    with seeded(3, "net"):
        method = build_method(
            text, build_net(net, digits().input, 10, split), Facts(tuple(digits().training_ids), 2, 3, 10)
        )
    assert isinstance(method, Averaging)
    return method


def client_of(i: int = 0, private: State | None = None, **local: object) -> Client:
    rule = LocalSettings.model_validate(LOCAL | local)
    state = {} if private is None else private
    return Client(digits().clients[i], 1, RunContext(10, 7, rule, AdaptSettings.model_validate({"lr": 0.05})), state)


def start(method: Averaging) -> State:
    return method.start()


def begin(method: Averaging, client: Client, adapting: bool = False) -> Training:
    """A training ready for its first batch, with a private head that is not zero."""
    parts = method.for_the_client if adapting else method.parts
    t = method.training(client, method.broadcast(start(method), client.id), parts, client.descent())
    t.bind()
    method.net.train()
    return t


def batch(client: Client, size: int = 16) -> tuple[Tensor, Tensor]:
    return client.data.train.batch(torch.arange(size))


def gradient(t: Training, client: Client) -> dict[str, Tensor]:
    """The gradient of the method's own objective on one batch, by name."""
    t.g.zero_()
    t.loss(*batch(client)).backward()
    return {name: place.view(t.g).clone() for name, place in t.layout.places.items()}


def class_shares(client: Client) -> Tensor:
    counts = torch.bincount(client.data.train.y, minlength=10)
    return counts / counts.sum()


def personal_weight(net: nn.Module, client: Client, head: str) -> Tensor:
    """W_P, written out."""
    named = dict(net.named_parameters())
    if head == "linear":
        return named["p_head.phi"]
    hidden = (named["p_head.H.0.weight"] @ class_shares(client)).relu()
    return (named["p_head.H.2.weight"] @ hidden).view(10, -1)


def newcomer() -> int:
    return digits().new_ids[0]


# ---------------------------------------------------------------- two losses, one backward pass


@HEADS
def test_each_loss_moves_its_own_weights(head: str) -> None:
    """∂L_P/∂θ = ∂L_P/∂W_G = 0 and ∂L_G/∂φ = 0: the gradient is that of each loss alone."""
    method, client = method_of(f"fedrod(head={head})"), client_of()
    t = begin(method, client)
    found = gradient(t, client)
    x, y = batch(client)
    net, named = method.net, dict(method.net.named_parameters())
    own = [name for name in named if not name.startswith("p_head")]
    added = ["p_head.phi"] if head == "linear" else ["p_head.H.0.weight", "p_head.H.2.weight"]
    balanced = bsm(net(x), y, torch.bincount(client.data.train.y, minlength=10))
    z = net.body(x).detach()
    personal = cross_entropy(net.head(z).detach() + linear(z, personal_weight(net, client, head)), y)
    for names, loss in ((own, balanced), (added, personal)):
        for name, g in zip(names, torch.autograd.grad(loss, [named[n] for n in names]), strict=True):
            assert g.abs().max() > 0, name
            torch.testing.assert_close(found[name], g, msg=name)


@HEADS
def test_one_step_by_hand(head: str) -> None:
    """θ, ψ ← − η∇L_G and φ or ν ← − η∇L_P, both at the same point."""
    method, client = method_of(f"fedrod(head={head})"), client_of(steps=1)
    server = start(method)
    reply = method.train(client, method.broadcast(server, 0))
    fresh = begin(method, client_of(steps=1))
    rows = torch.randperm(client.samples, generator=client.rng("train"))[:16]
    x, y = client.data.train.batch(rows)
    net = method.net
    z = net.body(x)
    u = net.head(z)
    L_G = cross_entropy(u + client.counts.log(), y)  # log 0 = −∞ is what is meant
    L_P = cross_entropy(u.detach() + linear(z.detach(), personal_weight(net, client, head)), y)
    fresh.g.zero_()
    (L_G + L_P).backward()
    expected = fresh.w - 0.05 * fresh.g
    torch.testing.assert_close(reply["w"], expected[method.layout.shared])
    torch.testing.assert_close(client.private["private"], expected[method.layout.private])


def test_the_personal_head_does_not_disturb_the_generic_model() -> None:
    """Bit for bit: FED-ROD's θ, ψ are those of its loss alone; without a balanced loss they are FedAvg's."""
    for ours, theirs in (
        ("fedrod", "fedavg+bsm"),
        ("fedrod(head=linear)", "fedavg+bsm"),
        ("fedrod(loss=ce)", "fedavg"),
        ("fedrod(loss=cdt, gamma=0.3)", "fedavg+cdt(gamma=0.3)"),
        ("fedavg+bsm(gamma=0)", "fedavg"),
    ):
        assert torch.equal(generic_after(ours, 2), generic_after(theirs, 2)), ours
    assert not torch.equal(generic_after("fedavg+bsm", 2), generic_after("fedavg", 2))


@cache
def generic_after(text: str, rounds: int) -> Tensor:
    method = method_of(text)
    server, states = start(method), {0: State(), 1: State()}
    for _ in range(rounds):
        replies = {i: method.train(client_of(i, states[i]), method.broadcast(server, i)) for i in states}
        server = method.aggregate(server, replies)
    found = method.generic(server)
    assert found is not None
    return found


@pytest.mark.parametrize("loss", ["bsm", "ir", "ldam", "cdt"])
def test_every_balanced_loss_is_the_same_inside_and_alone(loss: str) -> None:
    assert torch.equal(generic_after(f"fedrod(loss={loss})", 1), generic_after(f"fedavg+{loss}", 1))
    assert not torch.equal(generic_after(f"fedavg+{loss}", 1), generic_after("fedavg", 1))


def test_gamma_reaches_the_loss() -> None:
    assert torch.equal(generic_after("fedrod(gamma=0.5)", 1), generic_after("fedavg+bsm(gamma=0.5)", 1))
    assert not torch.equal(generic_after("fedrod(gamma=0.5)", 1), generic_after("fedrod", 1))


def test_a_missing_class_keeps_its_row_of_the_generic_head() -> None:
    client = next(c for c in map(client_of, digits().training_ids) if (c.counts == 0).any())
    t = begin(method_of("fedrod"), client)
    rows = gradient(t, client)["fc3.weight"].abs().sum(1)
    assert rows[client.counts == 0].eq(0).all()
    assert rows[client.counts > 0].ne(0).all()


def test_a_client_of_one_class_sends_the_generic_model_back_as_it_came() -> None:
    method, client = method_of("fedrod"), client_of()
    one = client.data.train.classes_only(torch.arange(10) == client.data.train.y[0])
    client.data = client.data.__class__(0, one, one, one)
    server = start(method)
    reply = method.train(client, method.broadcast(server, 0))
    own = method.layout.shared_trainable
    assert torch.equal(tensor(reply, "w")[own], tensor(server, "w")[own])
    assert not torch.equal(tensor(reply, "w"), tensor(server, "w"))  # ν learns all the same


def test_counts_are_of_the_whole_training_set() -> None:
    """A class may be in no batch of this round: drop_last leaves samples out, the counts do not."""
    client = client_of(drop_last=True, batch=client_of().samples - 1)
    t = begin(method_of("fedrod"), client)
    assert torch.equal(t.counts.long(), torch.bincount(client.data.train.y, minlength=10))


@HEADS
def test_permuting_class_ids_permutes_everything(head: str) -> None:
    """The same training under other names of the classes ends in the same weights under those names."""
    order = torch.randperm(10, generator=torch.Generator().manual_seed(5))
    rename = order.argsort()

    def permuted(flat: Tensor, layout: Layout) -> Tensor:
        flat = flat.clone()
        for name, place in layout.places.items():
            view = place.view(flat)
            if name in ("fc3.weight", "fc3.bias", "p_head.phi"):
                view.copy_(view.clone()[order])
            elif name == "p_head.H.0.weight":
                view.copy_(view.clone()[:, order])
            elif name == "p_head.H.2.weight":
                view.copy_(view.clone().view(10, 64, -1)[order].view(view.shape))
        return flat

    method = method_of(f"fedrod(head={head}, p_init={'normal' if head == 'hyper' else 'zero'})")
    message = method.broadcast(start(method), 0)
    plain, renamed = client_of(), client_of()
    train = renamed.data.train
    train = Samples(train.x, rename[train.y], train.prepare)
    renamed.data = renamed.data.__class__(0, train, train, train)
    reply = method.train(plain, message)
    whole = permuted(torch.cat([tensor(message, "w"), method.fresh[method.layout.private]]), method.layout)
    other = method.train(renamed, {"w": whole[method.layout.shared]})
    ours = torch.cat([tensor(reply, "w"), tensor(plain.private, "private")])
    theirs = torch.cat([tensor(other, "w"), tensor(renamed.private, "private")])
    torch.testing.assert_close(theirs, permuted(ours, method.layout), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(theirs, ours, atol=1e-3)


# ---------------------------------------------------------------- the heads


@pytest.mark.parametrize(
    ("input", "classes", "hidden"),
    [
        (input_of(1, 28, 28), 10, 16),
        (input_of(3, 32, 32), 10, 32),
        (input_of(3, 32, 32), 100, 16),
        (input_of(8), 2, 16),
    ],
)
def test_hidden_units_are_the_papers_for_such_data(input: Input, classes: int, hidden: int) -> None:
    """16 for EMNIST, FMNIST and CIFAR-100, 32 for CIFAR-10; a number is kept."""
    for asked, units in (("fedrod", hidden), ("fedrod(hidden=7)", 7)):
        net = build_net("mlp", input, classes)
        method = build_method(asked, net, replace(FACTS, classes=classes))
        assert net.get_parameter("p_head.H.0.weight").shape == (units, classes)
        assert method.automatic(method.start()) == ({"fedrod.hidden": hidden} if asked == "fedrod" else {})


@pytest.mark.parametrize(
    ("classes", "features", "hidden", "size"), [(10, 50, 16, 8_160), (10, 64, 32, 20_800), (100, 64, 16, 104_000)]
)
def test_sizes_of_the_hypernetwork(classes: int, features: int, hidden: int, size: int) -> None:
    head = PersonalHead(classes, features, hidden, 1.0)
    assert head.H is not None
    assert sum(p.numel() for p in head.H.parameters()) == size
    assert head.weight(torch.full((classes,), 1 / classes)).shape == (classes, features)


def test_the_papers_net_sends_8160_numbers_more() -> None:
    net = build_net("fedrod-conv", input_of(1, 28, 28), 10)
    method = build_method("fedrod", net, FACTS)
    assert isinstance(method, Averaging)
    assert method.layout.added.stop - method.layout.added.start == 8_160
    assert method.layout.shared.stop == method.plain.size + 8_160


@HEADS
def test_personal_prediction_adds_both_heads(head: str) -> None:
    method, client = method_of(f"fedrod(head={head})"), client_of()
    message = method.broadcast(start(method), 0)
    method.train(client, message)
    model = method.personal(client, message)
    assert model is not None
    x, _ = batch(client)
    z = method.net.body(x)
    expected = method.net.head(z) + linear(z, personal_weight(method.net, client, head))
    torch.testing.assert_close(model(x), expected)
    assert not torch.allclose(model(x), method.net.head(z), atol=1e-2)


def test_a_head_at_a_feature_map_takes_it_flat() -> None:
    net = build_net("fedrod-conv", input_of(1, 28, 28), 10, split="fc1")
    method = build_method("fedrod(head=linear)", net, FACTS)
    assert personal_head(net).phi.shape == (10, 64 * 4 * 4)
    assert isinstance(method, Averaging)
    assert len(method.fresh[method.layout.private]) == 10 * 64 * 4 * 4


@HEADS
def test_zero_is_a_first_personal_head_that_says_nothing_and_learns(head: str) -> None:
    method, client = method_of(f"fedrod(head={head}, p_init=zero)"), client_of()
    begin(method, client)
    assert personal_weight(method.net, client, head).eq(0).all()
    method.train(client, method.broadcast(start(method), 0))
    assert personal_weight(method.net, client, head).abs().max() > 1e-3


def test_a_generated_head_starts_with_the_spread_of_the_nets_own() -> None:
    """std·√fan-in: 1/√3 for torch's own layers (mlp), √2 for the paper's normal ones (fedrod-conv)."""
    for net, spread in (
        (build_net("mlp", input_of(64), 10), 3**-0.5),
        (build_net("fedrod-conv", input_of(1, 28, 28), 10), 2**0.5),
    ):
        build_method("fedrod(hidden=400)", net, FACTS)
        W_P = torch.stack([personal_head(net).weight(a) for a in torch.eye(10)]).detach()
        assert float(W_P.std()) * W_P.shape[2] ** 0.5 == pytest.approx(spread, rel=0.1)


def test_clients_draw_their_own_linear_heads_once() -> None:
    method = method_of("fedrod(head=linear)")
    first, other = (begin(method, client_of(i)).w[method.layout.private] for i in (0, 1))
    assert first.std() == pytest.approx(personal_head(method.net).s / 8, rel=0.1)  # 64 features
    assert not torch.equal(first, other)
    kept = torch.full_like(first, 0.25)
    assert torch.equal(begin(method, client_of(0, {"private": kept})).w[method.layout.private], kept)


# ---------------------------------------------------------------- what travels


@HEADS
def test_neither_phi_nor_class_counts_leave_a_client(head: str) -> None:
    method, client = method_of(f"fedrod(head={head})"), client_of()
    message = method.broadcast(start(method), 0)
    reply = method.train(client, message)
    plain = byte_count({"w": torch.zeros(method.plain.size)})
    hyper = 4 * (10 * 16 + 16 * 10 * 64) if head == "hyper" else 0
    assert message.keys() == {"w"} and byte_count(message) == plain + hyper
    assert reply.keys() == {"w", "n"} and tensor(reply, "w").shape == tensor(message, "w").shape
    assert tensor(client.private, "private").numel() == 640


def test_a_generated_head_needs_no_phi_in_the_rounds() -> None:
    method = method_of("fedrod")
    server, private = start(method), State()
    for _ in range(2):
        client = client_of(0, private, weight_decay=0.01)
        server = method.aggregate(server, {0: method.train(client, method.broadcast(server, 0))})
    assert tensor(private, "private").eq(0).all()


# ---------------------------------------------------------------- those who never trained


def test_one_who_never_trained_with_a_linear_head_has_the_generic_model() -> None:
    method = method_of("fedrod(head=linear)")
    server = method.aggregate(start(method), {0: method.train(client_of(), method.broadcast(start(method), 0))})
    generic = build_net("mlp", digits().input, 10)
    flat = method.generic(server)
    assert flat is not None
    Layout(generic).bind(generic, flat)
    for i in (1, newcomer()):
        model = method.personal(client_of(i), method.broadcast(server, i))
        x, _ = batch(client_of(i))
        assert model is not None and torch.equal(model(x), generic(x))


def test_a_newcomer_is_served_from_its_class_counts_alone() -> None:
    """Zero-shot: ŷ = G + H(a_new; ν̄), without one sample."""
    method = method_of("fedrod")
    server = method.aggregate(start(method), {0: method.train(client_of(), method.broadcast(start(method), 0))})
    known, nothing = client_of(newcomer()), digits().stored.part(0, 0)
    told = ToldClient(**vars(known) | {"data": OnlyCounts(99, nothing, nothing, nothing, new=True)}, told=known.counts)
    x, _ = batch(known)
    message = method.broadcast(server, newcomer())
    model = method.personal(told, message)
    assert model is not None
    said = model(x).detach()
    z = method.net.body(x)
    generic = method.net.head(z)
    torch.testing.assert_close(said, generic + linear(z, personal_weight(method.net, known, "hyper")))
    assert not torch.allclose(said, generic, atol=1e-2)
    seen = method.personal(known, message)
    assert seen is not None and torch.equal(seen(x), said)


@HEADS
def test_a_newcomer_adapts_by_the_local_rule(head: str) -> None:
    """θ, ψ by L_G, and φ by L_P from 0 or from H(a; ν̄) on; ν is not the newcomer's to change."""
    method, client = method_of(f"fedrod(head={head})"), client_of(newcomer())
    t = begin(method, client, adapting=True)
    assert t.w[method.layout.private].eq(0).all()
    found = gradient(t, client)
    x, y = batch(client)
    z = method.net.body(x).detach()
    phi = torch.zeros(10, 64, requires_grad=True)
    W_P = phi if head == "linear" else personal_weight(method.net, client, head).detach() + phi
    cross_entropy(method.net.head(z).detach() + linear(z, W_P), y).backward()
    assert phi.grad is not None
    torch.testing.assert_close(found["p_head.phi"], phi.grad)
    assert phi.grad.abs().max() > 0 and found["fc1.linear.weight"].abs().max() > 0
    for name in found:
        assert not name.startswith("p_head.H") or found[name].eq(0).all()
    message = method.broadcast(start(method), client.id)
    before = method.personal(client, message)
    assert before is not None
    right = [(before(x).argmax(1) == y).float().mean()]
    right.append((method.adapt(client, message)(x).argmax(1) == y).float().mean())
    assert right[1] > right[0]
    assert not client.private  # a newcomer leaves nothing behind


# ---------------------------------------------------------------- with a drift correction


@pytest.mark.parametrize("correction", ["fedprox(mu=0.5)", "scaffold", "feddyn(lam=0.5)"])
def test_a_drift_correction_leaves_the_personal_head_alone(correction: str) -> None:
    method, client = method_of(f"fedrod+{correction}"), client_of()
    server = start(method)
    if "scaffold.c" in server:
        server["scaffold.c"] = torch.ones_like(tensor(server, "scaffold.c"))
    t = method.begin_round(client, method.broadcast(server, 0))
    t.w += 1
    t.g.zero_()
    for part in method.parts:
        part.correct(t)
    own, added = method.layout.shared_trainable, method.layout.added
    assert added.stop - added.start == 10 * 16 + 16 * 640 and own.stop - own.start == method.plain.size
    assert t.g[own].ne(0).all()
    assert t.g[added].eq(0).all() and t.g[method.layout.private].eq(0).all()


def replies_around(w: Tensor) -> dict[int, Message]:
    """Two clients of 10 and 30 samples that moved by 4 and by 8: the means are 6 (uniform) and 7 (by samples)."""
    return {0: {"w": w + 4, "n": 10}, 1: {"w": w + 8, "n": 30}}


@pytest.mark.parametrize(
    ("text", "own", "added"),
    [
        ("fedrod", 7, 7),
        ("fedrod+scaffold", 6, 7),
        ("fedrod+scaffold(eta_g=0.5)", 3, 7),
        ("fedrod+feddyn", 6 + 12 / 5, 7),  # −h/λ = Σ(x_i − w)/N with N = 5
        ("fedavg(weighting=uniform)+fedrod", 6, 6),
    ],
)
def test_nu_is_averaged_by_samples_whatever_the_correction_does(text: str, own: float, added: float) -> None:
    method = method_of(text)
    server = start(method)
    w = tensor(server, "w")
    replies = replies_around(w)
    if "scaffold" in text:
        for reply in replies.values():
            reply["scaffold.dc"] = torch.zeros_like(tensor(server, "scaffold.c"))
    moved = tensor(method.aggregate(server, replies), "w") - w
    torch.testing.assert_close(
        moved[method.layout.shared_trainable], torch.full((method.plain.size,), float(own)), atol=1e-4, rtol=0
    )
    assert (moved[method.layout.added] - added).abs().max() < 1e-4
    assert torch.equal(w, tensor(server, "w"))


def test_a_correction_knows_only_the_nets_own_weights() -> None:
    method = method_of("fedrod+scaffold")
    server = start(method)
    reply = method.train(client_of(), method.broadcast(server, 0))
    assert tensor(server, "scaffold.c").numel() == tensor(reply, "scaffold.dc").numel() == method.plain.size


def test_what_parts_add_lies_before_the_nets_own_weights() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 4))
    layout = Layout(net, private=["2.bias"], added=["0."])
    order = ["1.running_mean", "1.running_var", "1.num_batches_tracked", "0.weight", "0.bias"]
    assert list(layout.places) == [*order, "1.weight", "1.bias", "2.weight", "2.bias"]
    assert (layout.added, layout.shared_trainable) == (slice(7, 16), slice(16, 34))
    assert (layout.shared, layout.trainable, layout.private) == (slice(0, 34), slice(7, 38), slice(34, 38))
    assert Layout(net).added == slice(7, 7)


# ---------------------------------------------------------------- by name


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("fedrod+bsm", "bsm and fedrod are both a loss; accepted: one of them"),
        ("bsm+cdt", "bsm and cdt are both a loss; accepted: one of them"),
        ("fedrod(loss=resampling, gamma=2)", r"gamma is 2; accepted: left out, for loss=resampling has no γ"),
        ("fedrod(layers=2)", r"layers is 2; accepted: 1, for a generated head is one layer \(or head=linear\)"),
        ("fedrod(loss=focal)", r"loss is 'focal'; accepted: bsm \| ir \| ldam \| cdt \| ce \| meta-bsm \| resampling"),
        ("fedrod(hidden=0)", "hidden is 0; accepted: a whole number of at least 1"),
        ("local+fedrod", "local shares no weights, so fedrod has nothing to act on"),
    ],
)
def test_what_makes_no_sense(text: str, sentence: str) -> None:
    with pytest.raises(MotetError, match=sentence):
        build_method(text, build_net("mlp", input_of(64), 10), FACTS)


def test_the_same_experiment_draws_the_same_hypernetwork() -> None:
    experiment = resolve({"method": "fedrod", "net": {"name": "mlp"}, "data": {"partition_seed": 0}})
    drawn = []
    for noise in (1, 2):
        torch.manual_seed(noise)
        method = assemble(experiment).method
        assert isinstance(method, Averaging)
        drawn.append(method.fresh)
    assert torch.equal(*drawn)


@pytest.mark.parametrize(
    "text",
    [
        "fedrod",
        "fedrod(head=linear)+scaffold+fedprox",
        "fedrod+feddyn+ft",
        "fedavg+bsm",
        "fedavg+ir",
        "fedavg+ldam",
        "fedavg+cdt",
    ],
)
def test_a_run_twice(text: str, tmp_path: Path) -> None:
    run_twice(tiny(text), tmp_path)


# ---------------------------------------------------------------- of the appendix


@pytest.mark.parametrize("layers", [1, 2, 4])
def test_a_personal_head_of_several_layers_by_hand(layers: int) -> None:
    """Its logits, who moves it, and that all of it stays at the client."""
    method, client = method_of(f"fedrod(head=linear, layers={layers})"), client_of()
    names = [name for name in method.layout.places if name.startswith("p_head.")]
    assert len(names) == layers  # φ and the hidden layers
    assert all(method.layout.places[name].where.start >= method.layout.private.start for name in names)
    t = method.begin_round(client, method.broadcast(start(method), 0))
    t.bind()
    x, y = next(client.data.train.all_batches(16))
    t.g.zero_()
    t.backward(x, y)
    moved = {name: bool(method.layout.places[name].view(t.g).ne(0).any()) for name in names}
    assert all(moved.values()), moved
    t.rest()
    net = method.net
    model = method.predictor(client, t.w)
    with torch.no_grad():
        z = net.body(x).flatten(1)
        h = z
        for k in range(layers - 1):
            h = (h @ net.get_parameter(f"p_head.inner.{k}").T).clamp_min(0)
        expected = net.head(net.body(x)) + h @ net.get_parameter("p_head.phi").T
        assert torch.allclose(model(x), expected, atol=1e-5)


def test_the_personal_loss_of_a_deep_head_leaves_the_features_alone() -> None:
    """Against the same step with one layer: θ and ψ have the gradient of L_BR alone."""
    gradients = []
    for layers in (1, 3):
        method, client = method_of(f"fedrod(head=linear, layers={layers})"), client_of()
        t = method.begin_round(client, {"w": method_of("fedrod(head=linear)").fresh[method.layout.shared].clone()})
        t.bind()
        t.g.zero_()
        t.backward(*next(client.data.train.all_batches(16)))
        gradients.append(t.g[method.layout.shared_trainable].clone())
    assert torch.equal(*gradients) and gradients[0].ne(0).any()


def test_a_deep_head_is_no_constant() -> None:
    method = method_of("fedrod(head=linear, layers=2)")
    (part,) = [part for part in method.parts if isinstance(part, FedROD)]
    with pytest.raises(MotetError, match=r"no one matrix; accepted: layers=1, or --format torch\.export"):
        part.constants(method.net, torch.ones(10) / 10)


def test_resampling_draws_anew_in_every_step_and_the_same_again() -> None:
    runs = [play(tiny("fedrod(loss=resampling)", rounds={"count": 1})) for _ in range(2)]
    assert torch.equal(*(tensor(run.server, "w") for run in runs))
    other = play(tiny("fedrod(loss=ce)", rounds={"count": 1}))
    assert not torch.allclose(tensor(other.server, "w"), tensor(runs[0].server, "w"))
    (part,) = [part for part in runs[0].assembly.method.parts if isinstance(part, Resampling)]  # type: ignore[attr-defined]
    method, client = method_of("fedavg+resampling"), client_of()
    t = method.begin_round(client, method.broadcast(start(method), 0))
    x, y = next(client.data.train.all_batches(16))
    out = Forward(x, x, x, torch.randn(16, 10, generator=torch.Generator().manual_seed(1)))
    first = part.criterion(t, out, y)
    assert torch.equal(first, part.criterion(t, out, y))
    t.descent.steps += 1
    assert not torch.equal(first, part.criterion(t, out, y))
