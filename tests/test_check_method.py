"""`motet.testing.check_method`: every registered method passes, and a broken one is told what is wrong."""

import sys
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from planted_mistakes import PLANTED, UNSEEN, KeepsInClass, LearnsElsewhere, TellsCounts
from torch import Tensor

from motet.messages.message import Message
from motet.methods import METHODS
from motet.methods.averaging import Averaging
from motet.methods.base import Part, Serving, Training
from motet.methods.base.part import Acts
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


IN_THE_SUITE = SUMS[::12]  # each kind meets each other among all; a few of them keep the suite short


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


@pytest.mark.parametrize(("broken", "sentence"), PLANTED, ids=[kind.__name__ for kind, _ in PLANTED])
def test_a_planted_mistake_is_named(broken: type, sentence: str) -> None:
    with pytest.raises(Fault, match=sentence) as caught:
        check_method(broken)
    assert "\n" not in str(caught.value) and broken.__name__.lower() in str(caught.value)
    assert broken.__name__.lower() not in METHODS


@pytest.mark.parametrize("broken", UNSEEN)
def test_what_is_not_seen_is_said_in_the_docs(broken: type) -> None:
    assert check_method(broken) == list(CHECKS)
    page = (Path(__file__).parents[1] / "docs" / "own-method.md").read_text()
    assert "### What it cannot see" in page


def test_a_mistake_is_found_again_when_the_class_was_used_before() -> None:
    """What was left in the class by the first run is the same after the second."""
    for _ in range(2):
        with pytest.raises(Fault, match=r"`KeepsInClass.last` changed during a run"):
            check_method(KeepsInClass)


def test_an_error_of_the_users_own_is_shown_as_it_is() -> None:
    class Raises(Part):
        """A slip of the pen."""

        def before(self, t: Training, message: Message) -> None:
            message["near.mu"]

    with pytest.raises(KeyError, match=r"near.mu") as caught:
        check_method(Raises)
    assert caught.traceback[-1].name == "before"


def test_global_randomness_is_as_it_was_after_the_checks() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    check_method("fedavg")
    assert torch.equal(torch.get_rng_state(), before)


def test_what_is_declared_may_be_told() -> None:
    class Declares(TellsCounts):
        """The same, with the words for it."""

        tells: ClassVar[frozenset[str]] = frozenset({"class counts"})

    assert check_method(Declares) == list(CHECKS)


def test_a_file_of_ones_own_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(
        "from motet.methods.base import Part\n\n"
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
    from motet.server.assembly import assemble
    from motet.testing.twin import tiny

    assembly = assemble(tiny("fedavg", net={"name": "mlp"}))
    method, federation = assembly.method, assembly.federation
    assert isinstance(method, Averaging)
    from motet.messages.task import Task

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
