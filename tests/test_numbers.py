"""Numbers as targets: read, dealt, learned by every method that can, scored and predicted in their own unit."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error
from torch.nn.functional import huber_loss, l1_loss, mse_loss

import motet
from motet.cli import main
from motet.config.experiment import resolve
from motet.data import DataSettings, Federation, TablePrepare, build
from motet.data.input import Input
from motet.data.readers.roles import are_measurements
from motet.data.schema import read_schema
from motet.errors import MotetError
from motet.methods.registry import METHODS
from motet.metrics.numbers import MAE, R2, RMSE, added, sums_of
from motet.nets import build_net
from motet.server.assembly import settle
from motet.training.batched_clients import StackedNets
from motet.training.flat_weights import Layout

LOSSES = {"squared": mse_loss, "absolute": l1_loss, "huber": huber_loss}
TINY: dict[str, Any] = {
    "rounds": 2,
    "epochs": 1,
    "engine.name": "inline",
    "local.optimizer": "sgd",
    "net": "mlp(hidden=8)",
}


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Homes in four cities: prices of about a million by size and age, in each city on another level."""
    rng = np.random.default_rng(5)
    n = 320
    frame = pd.DataFrame({"size": rng.normal(100, 30, n).round(1), "age": rng.integers(0, 80, n)})
    frame["city"] = [f"c{i % 4}" for i in range(n)]
    level = np.array([0.0, 40_000, 80_000, 120_000])[np.arange(n) % 4]
    frame["price"] = (1e6 + level + 3000 * frame["size"] - 900 * frame["age"] + rng.normal(0, 9000, n)).round(2)
    frame["rooms"] = rng.integers(1, 6, n)
    path = tmp_path_factory.mktemp("homes") / "homes.csv"
    frame.to_csv(path, index=False)
    return path


def dealt(path: Path, **choices: Any) -> Federation:
    return build(DataSettings.model_validate({"name": str(path), "label": "price", "client": "city", **choices}), 0)


# ---------------------------------------------------------------- from the file


def test_scores_that_are_taken_as_classes_are_named(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=900), "score": np.arange(900) % 25, "few": np.arange(900) % 10})
    frame["city"] = np.array(["a", "b", "c"])[np.arange(900) // 300]
    frame["letter"] = [f"letter {i}" for i in frame["score"]]
    frame.to_csv(tmp_path / "scores.csv", index=False)
    said = "column 'score' holds 25 different whole numbers and is predicted as classes; --target number"
    scores = dealt(tmp_path / "scores.csv", label="score")
    assert scores.classes == 25 and said in " ".join(scores.notes)
    for choices in ({"target": "class"}, {"target": "number"}, {"label": "few"}, {"label": "letter"}):
        notes = dealt(tmp_path / "scores.csv", **{"label": "score", **choices}).notes
        assert not [note for note in notes if "whole numbers" in note]


def test_a_label_of_many_numbers_is_a_number_unless_told_otherwise(homes: Path) -> None:
    federation = dealt(homes)
    assert federation.target == "price" and federation.classes == 1 and federation.class_names == ("price",)
    assert "column 'price' holds 320 different numbers and is predicted as a number; --target class" in " ".join(
        federation.notes
    )
    prices = pd.read_csv(homes)["price"]
    assert np.sort(federation.stored.y.numpy()) == pytest.approx(np.sort(prices))
    assert dealt(homes, label="rooms").classes == 5 and not dealt(homes, label="rooms").target
    rooms = dealt(homes, label="rooms", target="number")
    assert rooms.target == "rooms" and not [note for note in rooms.notes if "predicted" in note]
    assert dealt(homes, target="class", min_size=0).classes == 320


def test_what_is_a_measurement() -> None:
    assert are_measurements([f"{v:.2f}" for v in np.random.default_rng(0).normal(size=300)], 900)
    assert not are_measurements(["0", "1", "2", "3"], 900) and not are_measurements(["0.5", "1.5"], 900)


def test_the_target_is_scaled_on_training_rows_alone(homes: Path) -> None:
    federation = dealt(homes, new_clients=0.25, val_share=0.2)
    trained = torch.cat([client.train.y for client in federation.clients if not client.new])
    target = federation.prepare.target
    assert target is not None
    assert target.mean == pytest.approx(float(trained.mean())) and target.deviation == pytest.approx(
        float(trained.std(correction=0))
    )
    samples = federation.clients[0].train
    _, y = samples.batch(torch.arange(len(samples)))
    assert y.dtype == torch.float32
    assert torch.allclose(target.unscaled(y), samples.y, rtol=1e-6)
    assert torch.equal(torch.cat([y for _, y in samples.all_batches(7)]), y)


@pytest.mark.parametrize("partition", ["iid", "dirichlet:0.3", "shards:2"])
def test_numbers_are_dealt_by_tenths(homes: Path, partition: str) -> None:
    federation = dealt(homes, client=None, leave_out=["city"], partition=partition, clients=4)
    assert sum(len(client.train) + len(client.test) for client in federation.clients) + len(federation.test) == 320
    means = [float(client.train.y.mean()) for client in federation.clients]
    assert (np.ptp(means) > 30_000) == (partition != "iid"), "clients of one level of prices"


def test_a_schema_keeps_the_scale(homes: Path, tmp_path: Path) -> None:
    federation = dealt(homes)
    assert isinstance(federation.prepare, TablePrepare)
    (tmp_path / "s.toml").write_text(federation.prepare.schema.to_toml())
    assert "[target]\nmean = " in federation.prepare.schema.to_toml()
    schema = read_schema(str(tmp_path / "s.toml"))
    assert schema == federation.prepare.schema and schema.classes == ()
    given = build(DataSettings(name=str(homes), client="city", table_schema=str(tmp_path / "s.toml")), 0)
    assert given.target == "price" and torch.equal(given.stored.y, federation.stored.y)
    body = '[columns.size]\nkind = "number"\n'
    for label, said in (
        ("target = 3", "target is 3; accepted: a table with mean and deviation"),
        ("classes = ['a', 'b']\ntarget = {mean = 1}", "has classes and target; accepted: target for a number"),
        ("target = {deviation = 0}", "target: deviation is 0; accepted: a number above 0"),
    ):
        (tmp_path / "w.toml").write_text(f'label = "price"\n{label}\n{body}')
        with pytest.raises(MotetError, match=said):
            read_schema(str(tmp_path / "w.toml"))


@pytest.mark.parametrize(
    ("values", "choices", "said"),
    [
        (["1.5", "2.5", "many"], {"target": "number"}, "column 'price' holds 'many', but data.target is number"),
        (["7.5"], {"target": "number"}, "column 'price' holds only the number '7.5'; accepted: at least two"),
        ([1.5, 2.5], {"target": "number", "label_noise": "pair:0.1"}, "data.label_noise is 'pair:0.1', which needs"),
        ([1.5, 2.5], {"target": "number", "malicious": 0.5}, "data.malicious is 0.5, which needs classes"),
        ([1.5, 2.5], {"target": "number", "long_tail": 10.0}, "data.long_tail is 10.0, which needs classes"),
        ([1.5, 2.5], {"target": "number", "kind": "tokens"}, "data.target is number, but its samples are no rows"),
    ],
)
def test_what_is_refused(tmp_path: Path, values: list[Any], choices: dict[str, Any], said: str) -> None:
    rows = [
        {"a": i % 7, "text": f"word {i % 3}", "city": f"c{i % 3}", "price": values[i % len(values)]} for i in range(90)
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(MotetError, match=said) as caught:
        dealt(tmp_path / "t.csv", **choices)
    assert "\n" not in str(caught.value)


def test_decimal_commas_and_text_among_numbers(tmp_path: Path) -> None:
    values = [f"{v:.1f}".replace(".", ",") for v in np.linspace(1, 60, 120)]
    pd.DataFrame({"a": np.arange(120) % 7, "city": ["b", "z"] * 60, "price": values}).to_csv(
        tmp_path / "t.csv", index=False, sep=";"
    )
    assert dealt(tmp_path / "t.csv").stored.y.max() == 60
    values[7] = "unknown"
    pd.DataFrame({"a": np.arange(120) % 7, "city": ["b", "z"] * 60, "price": values}).to_csv(
        tmp_path / "t.csv", index=False, sep=";"
    )
    with pytest.raises(MotetError, match="which is a measurement; accepted: classes that many rows share, or a column"):
        dealt(tmp_path / "t.csv")


# ---------------------------------------------------------------- losses and gradients


@pytest.mark.parametrize("criterion", LOSSES)
def test_the_loss_is_that_of_torch(criterion: Any) -> None:
    net = build_net("logistic", Input("vector", (3,)), 1, criterion=criterion)
    outputs, y = torch.randn(9, 1), 2 * torch.randn(9)
    for reduction in ("mean", "sum", "none"):
        right = LOSSES[criterion](outputs[:, 0], y, reduction=reduction)
        assert torch.equal(net.training_loss(outputs, y, reduction), right)
    assert net.another().criterion == criterion


@pytest.mark.parametrize("criterion", LOSSES)
@pytest.mark.parametrize("name", ["logistic", "mlp(hidden=5x4)"])
def test_gradients_of_stacked_nets_are_those_of_autograd(criterion: Any, name: str) -> None:
    torch.manual_seed(0)
    nets = [build_net(name, Input("vector", (3,)), 1, criterion=criterion) for _ in range(3)]
    layout = Layout(nets[0])
    w = torch.stack([layout.flatten(net) for net in nets])
    g, x, y = torch.zeros_like(w), torch.randn(3, 6, 3), 2 * torch.randn(3, 6)
    share = torch.full((3, 6), 1 / 6)
    share[2] = torch.tensor([1 / 4] * 4 + [0.0] * 2)  # a smaller batch
    losses = StackedNets(nets[0], layout, w, g).add_gradient(x, y, share, losses=True)
    assert losses is not None
    for i, net in enumerate(nets):
        n = 4 if i == 2 else 6
        loss = net.training_loss(net(x[i, :n]), y[i, :n])
        loss.backward()  # type: ignore[no-untyped-call]
        right = torch.cat([p.grad.flatten() for p in net.parameters() if p.grad is not None])
        assert torch.allclose(
            torch.cat([g[i, layout.places[n_].where] for n_, _ in net.named_parameters()]), right, atol=1e-6
        )
        assert losses[i].item() == pytest.approx(loss.item(), rel=1e-5)


def test_local_steps_reach_the_ridge_solution(homes: Path) -> None:
    """Full batches of one client: min mean (ŷ − y)² + (d/2)‖w‖² is ridge regression with α = n·d/2."""
    decay = 0.02
    result = motet.run(
        data=str(homes), label="price", client="city", method="local", rounds=6, epochs=100, batch=1000, lr=0.2,
        net="logistic", **{"local.optimizer": "sgd", "local.momentum": 0.0, "local.weight_decay": decay,
        "local.lr_decay": 1.0, "engine.name": "inline", "data.leave_out": ["rooms"]},
    )  # fmt: skip
    federation = dealt(homes, leave_out=["rooms"], partition_seed=0)
    target = federation.prepare.target
    assert target is not None
    for client in federation.clients:
        x, y = client.train.batch(torch.arange(len(client.train)))
        both = torch.cat([x, torch.ones(len(x), 1)], 1).double().numpy()  # the bias is pulled to 0 too
        ridge = Ridge(alpha=len(x) * decay / 2, fit_intercept=False).fit(both, y.double().numpy())
        rows = pd.read_csv(homes)[:20]
        made = federation.prepare.raw(rows).double()
        right = target.unscaled(torch.from_numpy(ridge.predict(torch.cat([made, torch.ones(20, 1)], 1).numpy())))
        assert result.personal_model(client.name).predict(rows) == pytest.approx(right.numpy(), rel=1e-4)


@pytest.mark.parametrize("loss", ["absolute", "huber"])
def test_other_losses_of_numbers(homes: Path, loss: str) -> None:
    result = motet.run(
        data=str(homes), label="price", client="city", lr=0.05, **{**TINY, "rounds": 15, "local.loss": loss}
    )
    assert result.figures["personal.split.r2.mean"] > 0.2
    with pytest.raises(MotetError, match=f"local.loss is '{loss}', which is for numbers, and the label holds classes"):
        motet.run(data=str(homes), label="rooms", client="city", **{**TINY, "local.loss": loss})


def test_several_clients_as_one_computation_learn_the_same(homes: Path) -> None:
    figures = []
    for batched in (True, False):
        more = {**TINY, "local.batched_clients": batched}
        figures.append(motet.run(data=str(homes), label="price", client="city", **more).figures)
    for name, value in figures[0].items():
        assert figures[1][name] == pytest.approx(value, rel=1e-3, abs=1e-4), name


# ---------------------------------------------------------------- methods

NEED_CLASSES = {"shared-data", "bsm", "ir", "resampling", "ldam", "cdt", "meta-bsm", "fedrod", "fedgen", "knn-per"}


@pytest.mark.parametrize("name", METHODS)
def test_every_method_learns_numbers_or_refuses_in_one_sentence(homes: Path, name: str) -> None:
    alone = METHODS[name].base or METHODS[name].whole or name == "local"
    method = name if alone else f"fedavg+{name}"
    options = {"fedfomo": {"data.val_share": 0.2}, "krum": {"cohort": 1.0}, "fedbn": {}}.get(name, {})
    try:
        result = motet.run(
            data=str(homes),
            label="price",
            client="city",
            method=method,
            **{**TINY, "lr": 0.05, "scoring.figures_learned": False, **options},
        )
    except MotetError as error:
        said = str(error)
        assert "\n" not in said
        if name in NEED_CLASSES:
            assert said.endswith("cannot run here: it needs classes, and the target 'price' is a number")
        else:
            assert name in ("fedbn", "krum", "multi-krum"), said  # a net without normalization; too few clients
        return
    assert name not in NEED_CLASSES
    assert np.isfinite(result.figures["personal.split.r2.mean"])
    assert result.summary.reported.figure == "personal.split.r2.mean"


def test_a_personal_model_is_better_where_cities_differ(homes: Path) -> None:
    found = {}
    for method in ("fedavg", "fedavg+ft"):
        more = {**TINY, "rounds": 15, "epochs": 3, "lr": 0.05, "net": "logistic"}
        found[method] = motet.run(data=str(homes), label="price", client="city", method=method, **more).figures
    own = "personal.split.r2.mean"
    assert found["fedavg+ft"][own] > found["fedavg"][own] > 0.5


# ---------------------------------------------------------------- metrics


def test_metrics_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    parts = [(rng.normal(1e5, 10, n), rng.normal(1e5, 12, n)) for n in (2, 7, 40)]
    references = {R2: r2_score, RMSE: root_mean_squared_error, MAE: mean_absolute_error}
    for metric, reference in references.items():
        for y, said in parts:
            value = metric.value(torch.from_numpy(said)[:, None], torch.from_numpy(y))
            assert value == pytest.approx(reference(y, said), rel=1e-9)
        every = [np.concatenate(each) for each in zip(*parts, strict=True)]
        sums = [sums_of(torch.from_numpy(said)[:, None], torch.from_numpy(y)) for y, said in parts]
        assert metric.of_sums(added(sums)) == pytest.approx(reference(*every), rel=1e-9)
    one = torch.ones(1, dtype=torch.float64)
    assert R2.value(one[:, None], one) is None and R2.value(torch.ones(3, 1), torch.ones(3)) is None
    assert RMSE.value(torch.zeros(0, 1), torch.zeros(0)) is None
    assert (R2.direction, RMSE.direction, MAE.direction) == (1, -1, -1)


def test_figures_are_in_the_unit_of_the_target(homes: Path) -> None:
    result = motet.run(data=str(homes), label="price", client="city", **{**TINY, "rounds": 8, "lr": 0.05})
    federation, model = dealt(homes, partition_seed=0), result.generic_model()
    values: dict[str, list[float]] = {"r2": [], "rmse": [], "mae": []}
    every = []
    for client in federation.clients:
        said = model.predict(federation.prepare.as_given(client.test.x).numpy())
        y = client.test.y.numpy()
        values["r2"].append(r2_score(y, said))
        values["rmse"].append(root_mean_squared_error(y, said))
        values["mae"].append(mean_absolute_error(y, said))
        every.append((y, said))
    for name, found in values.items():
        assert result.figures[f"generic.split.{name}.mean"] == pytest.approx(np.mean(found), rel=1e-5)
    pooled = r2_score(*(np.concatenate(each) for each in zip(*every, strict=True)))
    assert result.figures["generic.split.r2.pooled"] == pytest.approx(pooled, rel=1e-5)
    level = [
        root_mean_squared_error(c.test.y.numpy(), np.full(len(c.test), float(c.train.y.mean())))
        for c in federation.clients
    ]
    assert result.figures["majority.split.rmse.mean"] == pytest.approx(np.mean(level), rel=1e-9)
    assert "number, mean and variance of the target in test and validation rows" in result.summary.tells
    assert not [name for name in result.figures if "accuracy" in name or ".loss" in name]


def test_the_headline_of_numbers(homes: Path, tmp_path: Path) -> None:
    data = {"name": str(homes), "label": "price", "client": "city"}
    settled = settle(resolve({"data": data}))
    assert (settled.scoring.metric, settled.data.target, settled.scoring.by_class) == ("r2", "number", False)
    assert settle(resolve({"data": data, "scoring": {"metric": "mae"}})).scoring.headline.metric == "mae"
    small = pd.read_csv(homes)
    small.loc[:3, "city"] = "hamlet"
    small.to_csv(tmp_path / "h.csv", index=False)
    assert (
        settle(resolve({"data": {**data, "name": str(tmp_path / "h.csv"), "test_share": 0.3}})).scoring.metric == "rmse"
    )
    assert settle(resolve({"data": {**data, "label": "rooms"}})).data.target == "auto"


@pytest.mark.parametrize(
    ("label", "scoring", "said"),
    [
        (
            "price",
            {"metric": "auroc"},
            "scoring.metric 'auroc' needs classes, and the target 'price' is a number; accepted: mae, r2, rmse",
        ),
        ("price", {"metrics": ["ece"]}, "scoring.metric 'ece' needs classes, and the target 'price' is a number"),
        (
            "price",
            {"metrics": ["fisher"]},
            "scoring.metrics 'fisher' needs classes, .* accepted: mae, r2, rmse, drift, update_variance, within_round",
        ),
        ("price", {"by_class": True}, "scoring.by_class is true, but the target 'price' is a number; accepted: false"),
        ("rooms", {"metric": "r2"}, "scoring.metric 'r2' is for numbers as targets, and the label holds classes"),
    ],
)
def test_metrics_that_do_not_fit_are_refused(homes: Path, label: str, scoring: dict[str, Any], said: str) -> None:
    chosen = {f"scoring.{name}": value for name, value in scoring.items()}
    with pytest.raises(MotetError, match=said) as caught:
        motet.run(data=str(homes), label=label, client="city", **{**TINY, **chosen})
    assert "\n" not in str(caught.value)


def test_training_data_and_drift_are_measured_of_numbers_too(homes: Path) -> None:
    chosen = {**TINY, "scoring.training_data": True, "scoring.metrics": ["drift"]}
    result = motet.run(data=str(homes), label="price", client="city", **chosen)
    assert result.figures["personal.training.r2.mean"] is not None and result.summary["training"]["drift"] > 0
    assert not result.summary["notes"]


# ---------------------------------------------------------------- in use


def test_from_the_command_line_to_a_model_in_use(
    homes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["data", "show", str(homes), "--label", "price", "--client", "city"]) == 0
    assert "mean of" in capsys.readouterr().out
    words = ["--label", "price", "--client", "city", "--method", "fedavg+ft", "--rounds", "6", "--out", "run"]
    assert main(["run", "--data", str(homes), *words, "--lr", "0.05", "--set", "engine.name=inline"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "R²" in out and "mean of" in out and "most frequent" not in out
    assert main(["export", "run", "--out", "models"]) == 0
    assert main(["predict", "models", str(homes), "--client", "city", "--id", "size", "--out", "p.csv"]) == 0
    told = capsys.readouterr().err
    assert "against the labels in homes.csv: R² ." in told and "flatters where the models learned from" in told
    rows, found = pd.read_csv(homes), pd.read_csv("p.csv")
    assert list(found.columns) == ["city", "size", "model", "prediction"]
    assert r2_score(rows["price"], found["prediction"]) > 0.6
    models = motet.load_models("models")
    assert models.predict(rows) == pytest.approx(found["prediction"].to_numpy(), rel=1e-5)
    loaded, served = motet.load_model("models", "c2"), motet.load("run").personal_model("c2")
    assert np.array_equal(loaded.predict(rows), served.predict(rows))
    assert loaded(rows[:4]).shape == (4, 1) and loaded(rows[:4])[:, 0].tolist() == pytest.approx(
        loaded.predict(rows[:4])
    )
    for call in (lambda: loaded.predict_proba(rows), lambda: loaded.classes_, lambda: models.predict_proba(rows)):
        with pytest.raises(MotetError, match="is for classes, and th"):
            call()
    described = json.loads(Path("models/generic/model.json").read_text())
    assert described["class_names"] == ["price"] and described["prepare"]["schema"]["target"]["deviation"] > 1000
    rows[:40].to_csv("new.csv", index=False)
    assert main(["adapt", "run", "--data", "new.csv", "--out", "new"]) == 0
    assert "RMSE" in capsys.readouterr().out
    adapted = motet.load("run").adapt(rows[:40], rows["price"][:40].tolist())
    assert adapted.predict(rows[:3]).shape == (3,)


def test_numbers_have_the_same_bits_on_every_engine(homes: Path, tmp_path: Path) -> None:
    for engine in ("inline", "pool"):
        words = {**TINY, "engine.name": engine, "engine.workers": 1, "net": "logistic"}
        motet.run(data=str(homes), label="price", client="city", method="ditto", out=tmp_path / engine, **words)
    one, other = ((tmp_path / name / "weights.safetensors").read_bytes() for name in ("inline", "pool"))
    assert one == other
    rows = [(tmp_path / name / "clients.jsonl").read_text() for name in ("inline", "pool")]
    assert rows[0] == rows[1]


def test_a_comparison_of_numbers(homes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--label", "price", "--client", "city", "--methods", "local,fedavg", "--trials", "1", "--seeds", "1"]
    words += [
        "--repeats",
        "1",
        "--rounds",
        "4",
        "--epochs",
        "1",
        "--jobs",
        "1",
        "--out",
        str(tmp_path / "c"),
        "--net",
        "logistic",
    ]
    assert main(["compare", str(homes), *words, "--set", "engine.name=inline"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "R²" in out and "Always answering with the mean of a client's training rows reaches" in out
    found = json.loads((tmp_path / "c" / "comparison.json").read_text())
    assert found["metric"] == "r2" and found["rare_class"] is None
    ridge = next(each for each in found["yardsticks"] if each["name"] == "pooled ridge regression")
    assert 0.3 < ridge["personal"]["mean"] < 1 and found["majority"] < 0.1
    page = (tmp_path / "c" / "report.html").read_text()
    assert "always the mean of a client" in page and "Which client has which classes" not in page


def test_a_trial_that_diverged_is_a_failure_and_not_a_damaged_record(homes: Path, tmp_path: Path) -> None:
    """Squared errors grow beyond what any file may hold long before a weight is no number."""
    choices: dict[str, Any] = {"label": "price", "client": "city", "lr": 10.0, "net": "logistic", "rounds": 4}
    found = motet.compare(
        str(homes), methods=["fedavg"], trials=2, repeats=1, seeds=1, jobs=1, out=tmp_path / "study", **choices
    )
    first, second = found.file.methods[0].trials
    assert first.score is None and first.failure is not None and first.failure.startswith("training diverged: r2 -")
    assert second.score is not None and found.recommended.options["local.lr"] != 10.0
