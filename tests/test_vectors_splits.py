"""FedPer, FedRep, LG-FedAvg and FedBABU by the figures of three repositories: who keeps what, and what moves when."""

from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor
from vector_problem import Rounds, cohorts, differs, plain_sgd, same, tiny_data, tiny_net, vectors

from motet.methods import METHODS
from motet.methods.base import MethodEntry, Part, Training

pytestmark = pytest.mark.usefixtures("exact")
HEAD = slice(59, 74)


class BiasesDoNotDecay(Part):
    """FedRep's repository decays weights, not biases."""

    decay: ClassVar[float] = 1e-4

    def correct(self, t: Training) -> None:
        """Take back what the local rule added; what rests is zeroed before its own stretch."""
        for name, place in t.layout.places.items():
            if name.endswith("bias"):
                place.view(t.g).sub_(place.view(t.w), alpha=self.decay)


@pytest.fixture
def biases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "biases", MethodEntry("biases", "", "", part=BiasesDoNotDecay))


def whole(run: Rounds, i: int, start: Tensor) -> Tensor:
    """A client's model as it keeps it; its first one before its first round."""
    kept = run.kept[i].get("model")
    return start if kept is None else ordered(run, kept)  # type: ignore[arg-type]


def ordered(run: Rounds, w: Tensor) -> Tensor:
    """Whole weights in the order of the plain net."""
    return run.method.layout.convert(w, run.method.plain)  # type: ignore[attr-defined]


@pytest.mark.usefixtures("biases")
@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("fedper", "fedavg(weighting=uniform)+fedper"),
        ("fedrep", "fedrep(head_epochs=2, body_epochs=1)"),
        ("lgfedavg_collins", "fedavg(weighting=uniform)+lg-fedavg"),
    ],
)
def test_the_repository_of_fedrep(name: str, method: str) -> None:
    """Two rounds of two clients. In the released code who is sampled first in round two has the average of the others'
    private parts; on paper, and here, its first one."""
    v, ours, w0 = vectors(name), vectors(f"{name}_paper"), vectors("problem")["w0"]
    local: dict[str, Any] = {"lr": v["lr"], "momentum": v["momentum"], "weight_decay": BiasesDoNotDecay.decay}
    run = Rounds(f"{method}+biases", tiny_net(w0), tiny_data(), rounds=3, cohort=2, epochs=int(v["epochs"]), **local)
    plain = {"lr": v["lr"], "momentum": v["momentum"], "epochs": int(v["epochs"])}
    for t, cohort in list(cohorts(v))[:2]:
        known = [i for i in cohort if run.kept[i]]
        run.play(cohort)
        for i in cohort:
            same("theta, on paper", whole(run, i, w0), ours["theta"][t, i])
            if t == 0 or i in known:
                same("theta", whole(run, i, w0), v["theta"][t, i])
        shared = run.figure("w")
        at = slice(0, 59) if len(shared) == 59 else HEAD
        same("w, on paper", shared, ours["w"][t][at])
        if t == 0:
            same("w", shared, v["w"][t][at])
            for i in cohort:
                same("plain SGD", plain_sgd(w0, i, tiny_net(w0), tiny_data(), **plain), v["plain_sgd"][t, i])
    if name == "fedrep":
        differs("theta", v["theta"][1, 2], v["plain_sgd"][1, 2])
    assert torch.equal(whole(run, 3, w0), w0)


def test_lg_fedavg_by_its_authors() -> None:
    v, w0 = vectors("lgfedavg"), vectors("problem")["w0"]
    local = {"lr": v["lr"], "momentum": v["momentum"], "epochs": int(v["epochs"])}
    run = Rounds("fedavg(weighting=uniform)+lg-fedavg", tiny_net(w0), tiny_data(), rounds=2, cohort=2, **local)
    for t, cohort in cohorts(v):
        run.play(cohort)
        for i in range(4):
            body = whole(run, i, w0)[:59]
            same("local", torch.cat([body, run.figure("w")]), v["local"][t, i])


@pytest.mark.parametrize(
    ("name", "figures", "method"),
    [
        ("fedbabu", "fedbabu", "fedbabu"),
        ("fedper_oh", "fedper_oh_paper", "fedavg(weighting=uniform)+fedper"),
        ("fedavg_oh", "fedavg_oh", "fedavg(weighting=uniform)"),
    ],
)
def test_the_repository_of_fedbabu(name: str, figures: str, method: str) -> None:
    """The trained head of FedPer is written back, as its paper has it; the released code forgets it."""
    v, theirs, w0 = vectors(name), vectors(figures), vectors("problem")["w0"]
    local = {key: v[key] for key in ("lr", "momentum", "weight_decay")} | {"epochs": int(v["epochs"])}
    run = Rounds(method, tiny_net(w0), tiny_data(), rounds=2, cohort=2, **local)
    for t, cohort in cohorts(v):
        run.play(cohort)
        for i in cohort:
            same("theta", whole(run, i, w0), theirs["theta"][t, i])
        for i in range(4):
            w = run.figure("w")
            local_head = whole(run, i, w0)[HEAD]
            same("local", torch.cat([w, local_head]) if len(w) == 59 else w, theirs["local"][t, i])
    if name == "fedbabu":
        same("head", whole(run, 0, w0)[HEAD], w0[HEAD])
        differs("theta", theirs["theta"][0, 0], v["plain_sgd"][0])
        generic = run.method.generic(run.server)
        assert generic is not None
        same("generic", generic, torch.cat([run.figure("w"), w0[HEAD]]))
