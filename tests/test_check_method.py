"""`motet.testing.check_method`: every registered method passes, and a broken one is told what is wrong."""

import sys
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from motet.contract import Part, Serving, Training
from motet.contract.part import Acts
from motet.data import Samples
from motet.message import Message
from motet.methods import METHODS
from motet.methods.averaging import Averaging
from motet.methods.fedper import FedPer
from motet.nets import Net
from motet.testing import CHECKS, Fault, check_method
from motet.testing.twin import ALONE, NEED_MORE_CLIENTS

SUMS = [
    "ditto+mr",
    "ditto+dbe",
    "ditto(lam=0.1)+scaffold",
    "fedper+dbe",
    "fedper+mr",
    "fedper+ft",
    "fedrep(head_epochs=2)+krum(f=0)",
    "fedrep(head_epochs=1)+mr",
    "moon+dbe",
    "moon+fedprox",
    "fedrod+feddyn",
    "fedrod(head=linear)+scaffold",
    "fedrod+pgfed",
    "fedrod+dbe",
    "scaffold+dbe",
    "scaffold+krum(f=0)",
    "scaffold+fedadam",
    "scaffold+fednova",
    "fedprox+median",
    "feddyn+median",
    "dbe+trimmed-mean(share=0.4)",
    "fedrod+multi-krum(f=0)",
    "moon+geometric-median",
    "ditto(lam=0.1)+norm-clip",
    "fedper+norm-clip(norm=0.1)+fedyogi",
    "fedrep(head_epochs=1)+fednova+lp",
    "fednova+fedavgm+ft",
    "fedrod+fedadagrad",
    "shared-data+median+fedavgm",
    "fedgen(noise=8, hidden=16, steps=5)+dbe",
    "fedgen(noise=8, hidden=16, steps=5, beta=1)+scaffold+ft",
    "fedgen(noise=8, hidden=16, steps=5)+fednova+fedadam",
    "feddyn+bsm",
    "pgfed+ft",
    "pgfedmo+mr",
    "shared-data+cdt+fedprox",
    "fedprox+feddyn+lp",
    "centralized+ft",
    "superfed-mm+ft",
    "apfl+mr",
    "apfl+fedprox",
    "fedfomo+mr",
    "pfedme+dbe",
    "per-fedavg+ft",
    "per-fedavg(variant=hf)",
    "mtl+bsm",
    "mtl(penalty=lineage)",
    "lg-fedavg+scaffold",
    "fedbabu+ft",
    "fedbabu+mr",
    "pfedhn+bsm",
    "fedper+knn-per",
    "dbe+knn-per",
    "ditto+knn-per",
    "fedrod+mr",
    "moon+krum(f=0)",
    "fedbasis+lp",
]


IN_THE_SUITE = SUMS[::4]  # each kind meets each other among all; a quarter of them keeps the suite short


@pytest.mark.parametrize(
    "method",
    [
        *ALONE,
        *sorted(NEED_MORE_CLIENTS),
        *IN_THE_SUITE,
        *(pytest.param(each, marks=pytest.mark.slow) for each in SUMS if each not in IN_THE_SUITE),
    ],
)
def test_every_method_passes(method: str) -> None:
    assert check_method(method) == list(CHECKS)


# ---------------------------------------------------------------- broken on purpose


class KeepsInItself(FedPer):
    """Wrong on purpose: the number of trainings is kept in the method, not at the client."""

    seen: ClassVar[dict[int, int]] = {}

    def correct(self, t: Training) -> None:
        """Steps get shorter with what only this process knows."""
        t.net.steps = getattr(t.net, "steps", 0) + 1
        t.g_shared.add_(t.shared, alpha=0.01 * t.net.steps)


class TellsCounts(Part):
    """Wrong on purpose: class counts leave the client, undeclared."""

    uploads: ClassVar = {"tells.share": "each"}

    def after(self, t: Training, reply: Message) -> None:
        """Class counts, as a share."""
        reply["tells.share"] = t.client.counts / t.client.counts.sum()


class ZeroesTheGradient(Averaging):
    """Wrong on purpose: makes room for the gradient, and loses the momentum."""

    def gradient(self, t: Training, x: Tensor, y: Tensor) -> None:
        """As the first edition's Ditto recipe did."""
        t.g.zero_()
        t.backward(x, y)


class LearnsElsewhere(Averaging):
    """Wrong on purpose: says that its steps are FedAvg's, and does something else before them."""

    plain_steps = True

    def learn(self, t: Training, samples: Samples) -> None:
        """Begins at half the weights."""
        t.w.mul_(0.5)
        super().learn(t, samples)


class ChangesInPlace(Part):
    """Wrong on purpose: writes into the tensor that the server sent."""

    def before(self, t: Training, message: Message) -> None:
        """Inline this is the server's own tensor."""
        w = message["w"]
        assert isinstance(w, Tensor)
        w.add_(1)


class UploadsMore(Part):
    """Wrong on purpose: a field that nobody was told of."""

    def after(self, t: Training, reply: Message) -> None:
        """The number of steps."""
        reply["more.steps"] = t.descent.steps


class ForgetsOnResume(Part):
    """Wrong on purpose: what `start` knew is kept in the object."""

    acts: ClassVar[Acts] = "server"
    started: ClassVar[list[int]] = []

    def start(self, s: Serving) -> None:
        """Not called when a run is resumed."""
        self.started[:] = [id(s.net)]

    def aggregate(self, s: Serving, replies: dict[int, Message]) -> None:
        """Moves the model only in the process that started it."""
        if self.started == [id(s.net)]:
            s.state["w"] = s.state["w"] + 0.001  # type: ignore[operator]


class ScoresAnotherModel(Averaging):
    """Wrong on purpose: who is scored receives other weights than who trains."""

    personal_from_global = True

    def broadcast(self, server: dict, client_id: int, scoring: bool = False) -> Message:  # type: ignore[type-arg]
        """The server's first weights are never trained."""
        message = super().broadcast(server, client_id, scoring)
        return {**message, "w": self.fresh[self.layout.shared]} if scoring else message

    def personal(self, client: object, message: Message) -> torch.nn.Module:
        """From what was just sent."""
        return self.predictor(client, self.received(client, message))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        (KeepsInItself, "is another one when each task is done by a fresh method.*keeps nothing in itself"),
        (ChangesInPlace, "is another one when each task is done by a fresh method.*changes no tensor"),
        (TellsCounts, "gives away its class counts as shares.*`tells` declares nothing"),
        (ZeroesTheGradient, "local.clip = 1e[+]20, which clips nothing.*t.g holds the momentum"),
        (LearnsElsewhere, "trained as one computation with other clients.*`plain_steps = True` promises"),
        (UploadsMore, "a reply has the field 'more.steps'; `uploads` declares 'n', 'w'"),
        (ForgetsOnResume, "is another one after a stop and a resume.*`start` is not called"),
        (ScoresAnotherModel, "makes another personal model of what it is sent to be scored"),
    ],
)
def test_a_broken_method_is_told_what_is_wrong(broken: type, sentence: str) -> None:
    with pytest.raises(Fault, match=sentence) as caught:
        check_method(broken)
    assert "\n" not in str(caught.value) and broken.__name__.lower() in str(caught.value)
    assert broken.__name__.lower() not in METHODS


def test_what_is_declared_may_be_told() -> None:
    class Declares(TellsCounts):
        """The same, with the words for it."""

        tells: ClassVar[frozenset[str]] = frozenset({"class counts"})

    assert check_method(Declares) == list(CHECKS)


def test_a_file_of_ones_own_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(
        "from motet.contract import Part\n\n"
        "class Mine(Part):\n"
        "    '''Pull every step towards what the server sent.'''\n\n"
        "    mu: float = 0.1\n\n"
        "    def correct(self, t):\n"
        "        t.g_shared.add_(t.shared - t.anchor, alpha=self.mu)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert check_method("./mine.py:Mine(mu=0.2)+ft") == list(CHECKS)


def test_what_a_part_does_must_fit_what_it_says() -> None:
    with pytest.raises(
        TypeError, match="has `objective` but acts = 'correction'; accepted: acts = 'loss' or 'features'"
    ):

        class Wrong(Part):
            def objective(self, t: Training, out: object, y: Tensor, loss: Tensor) -> Tensor:
                return loss * 2

    with pytest.raises(TypeError, match="has `phases`; accepted: in_phases = True"):

        class AlsoWrong(Part):
            def phases(self, t: Training) -> list:  # type: ignore[type-arg]
                return []

    with pytest.raises(TypeError, match="has `combine` but role = None; accepted: role = 'aggregation'"):

        class WrongToo(Part):
            acts: ClassVar[Acts] = "server"

            def combine(self, s: Serving, replies: dict[int, Message]) -> Tensor:
                return s.state["w"]  # type: ignore[return-value]


def test_a_subclass_is_not_grouped_unless_it_says_so() -> None:
    class Changed(Averaging):
        """Overrides something of a step."""

    assert Averaging.plain_steps and not Changed.plain_steps and LearnsElsewhere.plain_steps


def test_a_net_can_be_bound_elsewhere_and_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """`gradient_at` leaves the training's own weights, gradient and mode as they were."""
    from motet.runs.assembly import assemble
    from motet.testing.twin import tiny

    assembly = assemble(tiny("fedavg", net={"name": "mlp"}))
    method, federation = assembly.method, assembly.federation
    assert isinstance(method, Averaging)
    from motet.engines import Task

    client = assembly.workplace.client(Task("train", 0, 1, {}), {})
    t = method.begin_round(client, method.broadcast(method.start(), 0))
    t.bind()
    net: Net = t.net.train()
    x, y = federation.clients[0].train.batch(torch.arange(8))
    t.g.fill_(0.5)
    before = t.w.clone()
    found = t.gradient_at(t.w * 2, x, y)
    assert t.g.eq(0.5).all() and torch.equal(t.w, before) and net.training
    method.layout.bind(net, t.w * 2, g := torch.zeros_like(t.w))
    t.loss(x, y).backward()
    torch.testing.assert_close(found, g)
