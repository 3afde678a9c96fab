"""FedFomo, APPLE, pFedHN, kNN-Per and L2GD by released codes' figures, and by the papers' equations."""

from typing import Any

import pytest
import torch
from torch import Tensor
from vector_problem import Rounds, differs, same, samples, tiny_net, vectors

from motet.data import ClientData, Samples
from motet.methods.apple import APPLE
from motet.methods.base import Facts
from motet.methods.fedfomo import FedFomo
from motet.methods.knn_per import NeighbourMemory
from motet.methods.l2gd import L2GD
from motet.methods.pfedhn import PFedHN

pytestmark = pytest.mark.usefixtures("exact")


def second_problem() -> tuple[Tensor, list[Samples]]:
    v = vectors("second_problem")
    return v["w0"], [samples(v[f"x{i}"], v[f"y{i}"]) for i in range(4)]


def test_fedfomo_on_paper() -> None:
    """w_n ∝ max(0, loss falls / distance), over all four uploaded models, the client's own among them."""
    v, (w0, data) = vectors("fedfomo"), second_problem()
    run = Rounds("fedfomo(M=4, epsilon=0)", tiny_net(w0), data)
    method = run.method
    assert isinstance(method, FedFomo)
    message: dict[str, Any] = {"fedfomo.models": v["models"], "fedfomo.who": torch.arange(4)}
    for i in range(4):
        run.kept[i]["fedfomo.w"] = v["first"][i]
        who = run.client(i)
        who.data = ClientData(i, data[i], data[i], data[i].part(0, 0))
        same("baseline", torch.tensor(method.risk(v["first"][i], data[i])), v["baseline_loss"][i])
        new, weights = method.mixture(who, message)
        same("weights", weights, v["ours_paper_weights"][i])
        same("new model", new, v["ours_paper_new"][i])
    helped = [i for i in range(4) if v["ours_paper_weights"][i].any()]
    assert helped and len(helped) < 4  # somebody is helped, and somebody by nobody
    differs("new model", v["ours_paper_new"][helped[0]], v["first"][helped[0]])


def test_fedfomo_keeps_models_and_sums_up_who_helped() -> None:
    _, data = second_problem()
    run = Rounds("fedfomo(M=2, epsilon=0)", tiny_net(vectors("second_problem")["w0"]), data)
    method, server = run.method, run.server
    assert isinstance(method, FedFomo)
    replies: dict[int, Any] = {
        i: {"w": torch.full((74,), float(i)), "n": 1, "fedfomo.p": torch.eye(4)[(i + 1) % 4] * (i + 1)}
        for i in (0, 2, 3)
    }
    server = method.aggregate(server, replies)
    server = method.aggregate(server, {0: {**replies[0], "w": torch.full((74,), 9.0)}})
    assert server["fedfomo.who"].tolist() == [0, 2, 3]  # type: ignore[union-attr]
    assert server["fedfomo.models"][:, 0].tolist() == [9.0, 2.0, 3.0]  # type: ignore[index]
    assert server["fedfomo.P"][0].tolist() == [0, 2, 0, 0]  # type: ignore[index]
    sent = method.broadcast({**server, "round": 3}, 2)
    assert sent["fedfomo.who"].tolist()[0] == 3  # type: ignore[union-attr]  # who helped it comes first, itself never
    assert 2 not in sent["fedfomo.who"].tolist() and len(sent["fedfomo.models"]) == 2  # type: ignore[union-attr, arg-type]


@pytest.mark.parametrize(
    ("schedule", "prefix", "momentum", "mu_factor"),
    [("cosine", "cosine", 0.9, 2.0), ("exponential", "exponential", 0.9, 2.0), ("cosine", "ours_paper", 0.0, 1.0)],
)
def test_apple(schedule: str, prefix: str, momentum: float, mu_factor: float) -> None:
    """The released code has no ½ before its penalty: twice μ is the same."""
    v, (w0, data) = vectors("apple"), second_problem()
    options = f"mu={mu_factor * v['mu']}, p_lr={v['lr_coef']}, until={v['reg_fraction']}, schedule={schedule}"
    local = {"lr": v["lr_net"], "lr_decay": v["decay"], "epochs": int(v["epochs"]), "momentum": momentum}
    facts = Facts(tuple(range(4)), 4, int(v["num_rounds"]), 3, samples=tuple(v["n_samples"].long().tolist()))
    run = Rounds(f"apple({options})", tiny_net(w0), data, facts=facts, **local)
    method = run.method
    assert isinstance(method, APPLE)
    run.server["apple.cores"] = v["cores0"].clone()
    for t in range(1, 3 if prefix == "ours_paper" else 4):
        run.play(range(4))
        same("cores", run.server["apple.cores"], v[f"{prefix}_round{t}_cores"])  # type: ignore[arg-type]
        for i in range(4):
            same("p", run.kept[i]["apple.p"], v[f"{prefix}_round{t}_p"][i])  # type: ignore[arg-type]
            same("personal", run.kept[i]["model"], v[f"{prefix}_round{t}_personal"][i])  # type: ignore[arg-type]
        if prefix != "ours_paper":
            assert mu_factor * v["mu"] * method.held(t - 1) == pytest.approx(2 * v[f"{prefix}_round{t}_coef"])
    differs("p", run.kept[0]["apple.p"], v["p0"], 1e-4)  # type: ignore[arg-type]


@pytest.mark.parametrize("tag", ["plain", "clipped"])
def test_pfedhn(tag: str) -> None:
    v, (w0, data) = vectors("pfedhn"), second_problem()
    options = f"lr={v['lr']}, momentum={v['momentum']}, weight_decay={v['wd']}, clip={v['clip']}, hidden=7, layers=3"
    inner = {"lr": v["inner_lr"], "weight_decay": v["inner_wd"], "momentum": v["momentum"], "clip": v["clip"]}
    steps = int(v["inner_steps"])
    run = Rounds(f"pfedhn({options})", tiny_net(w0), data, cohort=1, steps=steps, **inner)
    method = run.method
    assert isinstance(method, PFedHN)
    names = {  # ours: theirs
        "embeddings.weight": "embeddings.weight",
        **{f"trunk.{k}.{w}": f"mlp.{k}.{w}" for k in (0, 2, 4, 6) for w in ("weight", "bias")},
        **{
            f"heads.{j}.{w}": f"head_{layer}_{which}.{w}"
            for j, (layer, which) in enumerate((a, b) for a in ("fc1", "fc2", "fc3") for b in ("weight", "bias"))
            for w in ("weight", "bias")
        },
    }
    phi = torch.zeros_like(method.first)
    for ours, view in method.phi.named(phi).items():
        view.copy_(v[f"{tag}_init_{names[ours]}"])
    run.server["pfedhn.phi"] = phi
    same("first models", torch.stack([method.made(phi, i).detach() for i in range(4)]), v[f"{tag}_theta0"])
    done = [0] * 4
    for step, i in enumerate(v["clients"].long().tolist(), 1):
        at = done[i] * 6 % len(data[i])
        run.data = [samples(torch.cat([d.x[at:], d.x]), torch.cat([d.y[at:], d.y])) for d in data]
        run.play([i])
        done[i] += steps
        now = method.phi.named(run.server["pfedhn.phi"])  # type: ignore[arg-type]
        for ours, theirs in names.items():
            same(f"step {step} {theirs}", now[ours], v[f"{tag}_step{step}_{theirs}"], 1e-9)
        models = torch.stack([method.made(run.server["pfedhn.phi"], j).detach() for j in range(4)])  # type: ignore[arg-type]
        same(f"step {step} models", models, v[f"{tag}_step{step}_theta"], 1e-8)  # of hundreds


def test_knn_per() -> None:
    v, problem, (_, data) = vectors("knn_per"), vectors("second_problem"), second_problem()
    run = Rounds("fedavg", tiny_net(v["model"]), data)
    for i in range(4):
        x, y = problem[f"xtest{i}"], problem[f"ytest{i}"]
        for k in (1, 5, 10):
            for scale in (1.0, 0.1):
                memory, key = (
                    NeighbourMemory(tiny_net(v["model"]), run.client(i), k, scale),
                    f"client{i}_k{k}_scale{scale}",
                )
                z, soft = memory.look(x)
                same("features", memory.z, v[f"client{i}_features"])
                same("softmax", soft, v[f"client{i}_model_probabilities"])
                same(key, memory.neighbours(z), v[f"{key}_knn"])
                memory.lam = 0.5
                same(f"{key} mixed", memory(x).exp(), v[f"{key}_mix0.5"])
                for lam, right in zip(v["weights_of_acc"].tolist(), v[f"{key}_acc"].tolist(), strict=True):
                    memory.lam = lam
                    assert float((memory(x).argmax(1) == y).double().mean()) == pytest.approx(right)


def test_l2gd() -> None:
    v, (w0, data) = vectors("l2gd"), second_problem()
    method = f"l2gd(lam={v['lam']}, p={v['p']}, steps=1, rate=literal)"
    run = Rounds(method, tiny_net(w0), data, lr=v["alpha"], batch=1000)
    assert isinstance(run.method, L2GD)
    for i in range(4):
        run.kept[i]["l2gd.x"] = v["x0"][i].clone()
    run.server["w"] = v["x0"].mean(0)
    coins = v["flips"].long().tolist()
    assert set(coins) == {0, 1}
    for t, coin in enumerate(coins):
        told = run.method.broadcast

        def tossed(server: Any, i: int, scoring: bool = False, coin: int = coin, told: Any = told) -> Any:
            return told(server, i, scoring) | {"l2gd.average": bool(coin)}

        run.method.broadcast = tossed  # type: ignore[method-assign]
        run.play(range(4))
        for i in range(4):
            same(f"iteration {t + 1}", run.kept[i]["l2gd.x"], v["ours_trajectory"][t, i])  # type: ignore[arg-type]
        run.method.broadcast = told  # type: ignore[method-assign]


def test_l2gds_coin_falls_as_often_as_it_should() -> None:
    _, data = second_problem()
    run = Rounds("l2gd(p=0.3)", tiny_net(vectors("second_problem")["w0"]), data)
    coins = [bool(run.method.broadcast({**run.server, "round": r}, 0)["l2gd.average"]) for r in range(1, 401)]
    assert 0.2 < sum(coins) / 400 < 0.4
    assert all(
        run.method.broadcast({**run.server, "round": 5}, i)["l2gd.average"] == coins[4] for i in range(4)
    )  # one coin for all
