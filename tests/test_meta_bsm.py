"""Meta-BSM: its meta step against finite differences; shared data: FedAvg on more samples."""

from collections import OrderedDict
from functools import cache
from pathlib import Path

import pytest
import torch
from by_hand import FACTS
from running import run_twice
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from motet.config.sections import AdaptSettings, LocalSettings
from motet.data import ClientData, DataSettings, Federation, Samples, build
from motet.messages.message import State, tensor
from motet.methods import build_method
from motet.methods.averaging import Averaging
from motet.methods.base import Facts, Training
from motet.methods.meta_bsm import HIDDEN, MetaBSM, mwnet
from motet.nets import Net, build_net
from motet.testing.twin import tiny
from motet.training.client import Client, RunContext
from motet.training.losses import bsm
from motet.training.randomness import seeded

ETA = 0.5  # large, so that the meta step is large against rounding
LOCAL = LocalSettings.model_validate({"epochs": 1, "batch": 16, "lr": ETA, "momentum": 0.0, "weight_decay": 0.0})
VARIANTS = pytest.mark.parametrize(
    ("virtual", "meta_loss"), [("full", "ce"), ("full", "literal"), ("head", "ce"), ("head", "literal")]
)


@cache
def digits() -> Federation:
    settings = {"name": "digits", "clients": 6, "partition": "dirichlet:0.3", "min_size": 40, "shared_per_class": 4}
    return build(DataSettings.model_validate(settings), seed=1)


def net_of(split: str | None = None) -> Net:
    with seeded(3, "net"):
        return build_net("mlp", digits().input, 10, split)


def method_of(text: str, net: Net | None = None) -> Averaging:
    method = build_method(text, net or net_of(), Facts(tuple(digits().training_ids), 2, 3, 10))
    assert isinstance(method, Averaging)
    return method


def client_of(private: State | None = None, data: ClientData | None = None) -> Client:
    state = {} if private is None else private
    rule = AdaptSettings.model_validate({})
    shared = digits().shared_data()
    return Client(data or digits().clients[0], 1, RunContext(10, 7, LOCAL, rule, shared_data=shared), state)


def start(method: Averaging) -> State:
    return method.start()


def begin(method: Averaging, client: Client) -> Training:
    t = method.begin_round(client, method.broadcast(start(method), 0))
    method.layout.bind(method.net, t.w, t.g)
    method.net.train()
    return t


def batch(client: Client) -> tuple[Tensor, Tensor]:
    return client.data.train.batch(torch.arange(16))


class ByHand:
    """Steps 1 to 4 of appendix B.5 as a plain function of (γ, ζ), in double precision, without a second derivative.

    The losses that enter the Meta-Weight-Net are inputs, not paths: they are those of the first call.
    """

    def __init__(self, client: Client, virtual: str, meta_loss: str):
        self.inputs: dict[str, Tensor] = {}
        self.client, self.meta_loss = client, meta_loss
        self.net = net_of().double()
        self.moving = [n for n, _ in self.net.named_parameters() if virtual == "full" or n.startswith("fc3.")]
        self.x, self.y = (v.double() if v.is_floating_point() else v for v in batch(client))
        shared = digits().shared_data()
        x, y = shared.batch(torch.arange(len(shared)))
        held = client.counts[y] > 0 if meta_loss == "literal" else y >= 0
        self.meta = x.double()[held], y[held]

    def losses(self, logits: Tensor, y: Tensor, gamma: Tensor) -> Tensor:
        return bsm(logits, y, self.client.counts.double(), gamma, "none")

    def weights(self, of: str, loss: Tensor, zeta: Tensor) -> Tensor:
        """The Meta-Weight-Net as torch would build it."""
        layers = nn.Sequential(nn.Linear(1, 100), nn.ReLU(), nn.Linear(100, 1), nn.Sigmoid()).double()
        torch.nn.utils.vector_to_parameters(zeta, layers.parameters())
        return layers(self.inputs.setdefault(of, loss.detach())[:, None])[:, 0].detach()

    def __call__(self, gamma: Tensor, zeta: Tensor) -> float:
        named = dict(self.net.named_parameters())
        loss = self.losses(self.net(self.x), self.y, gamma)
        q = self.weights("batch", loss, zeta)
        grads = torch.autograd.grad((q * loss).sum() / q.sum(), [named[n] for n in self.moving])
        ahead = {n: named[n] - ETA * g for n, g in zip(self.moving, grads, strict=True)}
        x, y = self.meta
        logits = functional_call(self.net, ahead, x)
        if self.meta_loss == "ce":
            return cross_entropy(logits, y).item()
        loss = self.losses(logits, y, gamma)
        return (self.weights("shared", loss, zeta) * loss).mean().item()


@VARIANTS
def test_the_meta_step_descends_the_meta_loss(virtual: str, meta_loss: str) -> None:
    """γ ← γ − η ∂meta/∂γ and ζ ← ζ − η ∂meta/∂ζ, the slopes by finite differences."""
    method = method_of(f"meta-bsm(virtual={virtual}, meta_loss={meta_loss})")
    client = client_of()
    t = begin(method, client)
    gamma, zeta = t["meta-bsm.gamma"].double(), t["meta-bsm.zeta"].double()
    t.loss(*batch(client))
    meta, step = ByHand(client, virtual, meta_loss), 1e-4
    meta(gamma, zeta)
    slope = (meta(gamma + step, zeta) - meta(gamma - step, zeta)) / (2 * step)
    moved = float(t["meta-bsm.gamma"].double() - gamma)
    assert abs(moved) > 1e-4
    assert moved == pytest.approx(-ETA * slope, rel=2e-3)
    direction = (t["meta-bsm.zeta"].double() - zeta) / (t["meta-bsm.zeta"].double() - zeta).norm()
    slope = (meta(gamma, zeta + step * direction) - meta(gamma, zeta - step * direction)) / (2 * step)
    assert float((t["meta-bsm.zeta"].double() - zeta).norm()) == pytest.approx(-ETA * slope, rel=2e-3)


def test_the_real_step_uses_what_the_meta_step_learned() -> None:
    method, client = method_of("meta-bsm"), client_of()
    t = begin(method, client)
    before = t["meta-bsm.gamma"], t["meta-bsm.zeta"]
    x, y = batch(client)
    loss = t.loss(x, y)

    def at(gamma: Tensor, zeta: Tensor) -> Tensor:
        losses = bsm(method.net(x), y, client.counts.float(), gamma, "none")
        q = mwnet(losses, zeta)
        return (q * losses).sum() / q.sum()

    torch.testing.assert_close(loss, at(t["meta-bsm.gamma"], t["meta-bsm.zeta"]))
    assert not torch.allclose(loss, at(*before), rtol=1e-4)
    t.g.zero_()
    loss.backward()
    found = t.g.clone()
    t.g.zero_()
    at(t["meta-bsm.gamma"], t["meta-bsm.zeta"]).backward()
    torch.testing.assert_close(found, t.g)  # the virtual step left nothing in the gradient


def test_equal_weights_and_gamma_one_are_balanced_softmax() -> None:
    client = client_of({"meta-bsm.gamma": torch.ones(1), "meta-bsm.zeta": torch.zeros(3 * HIDDEN + 1)})
    t = begin(method_of("meta-bsm"), client)
    x, y = batch(client)
    with torch.no_grad():
        assert float(t.loss(x, y)) == pytest.approx(float(bsm(t.net(x), y, client.counts)), rel=1e-6)


def test_no_meta_step_outside_of_training() -> None:
    """A pass that only looks (PGFed's risk, a score) learns nothing."""
    method, client = method_of("meta-bsm"), client_of()
    t = begin(method, client)
    before = t["meta-bsm.gamma"], t["meta-bsm.zeta"]
    with torch.no_grad():
        t.loss(*batch(client))
    method.net.eval()
    t.loss(*batch(client))
    assert torch.equal(t["meta-bsm.gamma"], before[0]) and torch.equal(t["meta-bsm.zeta"], before[1])


def test_gamma_and_zeta_stay_and_go_on() -> None:
    method, client = method_of("fedrod(loss=meta-bsm)"), client_of()
    message = method.broadcast(start(method), 0)
    reply = method.train(client, message)
    assert message.keys() == {"w"} and reply.keys() == {"w", "n"}
    gamma, zeta = tensor(client.private, "meta-bsm.gamma"), tensor(client.private, "meta-bsm.zeta")
    assert gamma.shape == (1,) and zeta.shape == (301,) and float(gamma) != 1
    t = begin(method, client)
    assert torch.equal(t["meta-bsm.gamma"], gamma) and torch.equal(t["meta-bsm.zeta"], zeta)
    other = begin(method, client_of(data=digits().clients[1]))
    assert not torch.equal(other["meta-bsm.zeta"], begin(method, client_of())["meta-bsm.zeta"])


def test_the_personal_head_is_unaffected() -> None:
    """L_P's gradient is the same whatever loss the generic head has."""
    found = []
    for text in ("fedrod(loss=meta-bsm, p_init=zero)", "fedrod(p_init=zero)"):
        with seeded(3, "method"):
            method = method_of(text)
        client = client_of()
        t = begin(method, client)
        t.g.zero_()
        t.loss(*batch(client)).backward()
        found.append(t.g[method.layout.added].clone())
    assert torch.equal(*found) and found[0].abs().max() > 0


def test_the_options_reach_the_loss_inside_fedrod() -> None:
    method = method_of("fedrod(loss=meta-bsm, gamma=0.5, virtual=head, meta_loss=literal)")
    assert MetaBSM(gamma=0.5, virtual="head", meta_loss="literal") in method.parts


def test_statistics_of_the_shared_set_stay_out_of_the_net() -> None:
    stages = OrderedDict(flat=nn.Flatten(), norm=nn.BatchNorm1d(64), fc=nn.Linear(64, 10))
    method, client = method_of("meta-bsm", Net(stages, digits().input)), client_of()
    t = begin(method, client)
    x, y = batch(client)
    t.loss(x, y)
    expected = 0.1 * x.flatten(1).mean(0)  # one batch, momentum 0.1
    torch.testing.assert_close(t.layout.places["norm.running_mean"].view(t.w), expected)


# ---------------------------------------------------------------- the shared set


@pytest.mark.parametrize(
    ("text", "declared"),
    [("meta-bsm", True), ("fedrod(loss=meta-bsm)+ft", True), ("shared-data", True), ("fedrod", False)],
)
def test_methods_declare_that_they_see_shared_data(text: str, declared: bool) -> None:
    assert build_method(text, net_of(), FACTS).needs_shared_data is declared


def test_shared_data_is_fedavg_on_the_union() -> None:
    own, shared = digits().clients[0], digits().shared_data()
    both = ClientData(0, Samples.union([own.train, shared]), own.val, own.test)
    method, plain = method_of("fedavg+shared-data"), method_of("fedavg")
    reply = method.train(client_of(), method.broadcast(start(method), 0))
    expected = plain.train(client_of(data=both), plain.broadcast(start(plain), 0))
    assert torch.equal(tensor(reply, "w"), tensor(expected, "w")) and reply["n"] == expected["n"]
    assert reply["n"] == len(own.train) + 40


def test_a_balanced_loss_counts_the_shared_samples() -> None:
    """Else a class that is here by them alone would have an infinite loss."""
    data = next(c for c in digits().clients if (c.counts(10) == 0).any())
    method, client = method_of("shared-data+bsm"), client_of(data=data)
    t = begin(method, client)
    assert torch.equal(t.counts, (client.counts + 4).float())
    shared = digits().shared_data()
    assert t.loss(*shared.batch(torch.arange(len(shared)))).isfinite()
    assert (client.counts == 0).any()  # the client's own counts, which scores use, are untouched


@pytest.mark.parametrize(
    "text", ["fedavg+meta-bsm", "fedrod(loss=meta-bsm, virtual=head)", "fedavg+shared-data", "fedrod+shared-data"]
)
def test_a_run_twice(text: str, tmp_path: Path) -> None:
    run_twice(tiny(text), tmp_path)
