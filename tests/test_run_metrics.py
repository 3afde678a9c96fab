"""Metrics that are found once, after the last round: by hand, by the vectors, in whole runs on every engine."""

import math
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from vector_problem import vectors

import motet
from motet.cli import main
from motet.data import Samples
from motet.data.prepare import VectorPrepare
from motet.errors import MotetError
from motet.messages.message import tensor
from motet.messages.task import Task
from motet.methods.base import LearnedFigure
from motet.metrics.calibration import bins_of, ece
from motet.metrics.cross_client import CrossClient
from motet.metrics.mdl import MDL, by_class, code_length, evenly_spaced, held_out, subset_sizes
from motet.metrics.registry import OF_A_RUN, describe_metrics, metrics_of, run_metrics_of
from motet.metrics.run_metric import ClientScope, Cohort, Finding, RunFacts
from motet.metrics.update_variance import UpdateVariance
from motet.runs import run as runs
from motet.runs.local_baseline import compared_with_local, gains_over_local
from motet.runs.record import Record
from motet.server.assembly import assemble
from motet.server.final_evaluation import FinalState
from motet.testing.twin import Played, play, tiny
from motet.training.flat_weights import Layout

QUICK_MDL = "mdl(samples=60, sizes=2, seeds=1, steps=5)"


def found_in(played: Played) -> Finding:
    return played.assembly.final_evaluation.find(
        FinalState(played.server, played.progress.round, played.rows, played.clients)
    )


def asking(method: str, *metrics: str, **changes: Any) -> Played:
    scoring = {"every": 1, "figures_learned": False, "metrics": metrics, **changes.pop("scoring", {})}
    return play(tiny(method, scoring=scoring, **changes))


def pictures_of(finding: Finding) -> Mapping[str, LearnedFigure]:
    return {picture.name: picture for picture in finding.figures_learned}


# ---------------------------------------------------------------- names and refusals


def test_each_is_listed_with_its_options_and_paper() -> None:
    rows = {row["name"]: row for row in describe_metrics()}
    assert rows.keys() >= OF_A_RUN.keys() | {"accuracy", ".hurt", ".worst_tenth", ".gain_vs_local"}
    assert rows["mdl"]["options"]["samples"] == 2000 and all(row["paper"] and row["summary"] for row in rows.values())


def test_options_are_read_and_logit_measures_left_alone() -> None:
    asked = ("ece", "mdl(layer=fc1, samples=50)", "mdl", "mdl", "rounds_to(target=0.9)")
    assert [m.name for m in metrics_of(asked)] == ["accuracy", "loss", "ece"]
    found = run_metrics_of(asked)
    assert [m.name for m in found] == ["mdl", "mdl", "rounds_to"]
    assert isinstance(found[0], MDL) and (found[0].layer, found[0].samples) == ("fc1", 50)


@pytest.mark.parametrize(
    ("metric", "sentence"),
    [
        ("mdll", "unknown metric (scoring.metrics) 'mdll': did you mean 'mdl'?"),
        ("mdl(layr=fc1)", "metric mdl: unknown field 'layr'"),
        ("mdl(samples=3)", "metric mdl: samples is 3; accepted: a whole number of at least 20"),
        ("rounds_to(0.7)", "is not option=value"),
        ("rounds_to(target=2)", "metric rounds_to: target is 2"),
        ("ece(bins=3)", "ece(bins=3) has options; accepted: ece, which takes none"),
        ("ece+mce", "is a sum; accepted: one name"),
        ("mdl(layer=fc9)", "mdl(layer=fc9) names no inner stage of the net; accepted: fc1, fc2, logits"),
        ("mdl(layer=head)", "names no inner stage"),
    ],
)
def test_a_mistake_is_one_sentence_before_anything_runs(metric: str, sentence: str) -> None:
    with pytest.raises(MotetError) as error:
        assemble(tiny("fedavg", scoring={"metrics": (metric,)}))
    assert sentence in str(error.value) and "\n" not in str(error.value)


def test_rounds_to_needs_the_data_that_it_reads() -> None:
    with pytest.raises(MotetError, match=r"no client has any; accepted: a data\.val_share above 0, or data=split"):
        assemble(tiny("fedavg", data={"val_share": 0.0}, scoring={"metrics": ("rounds_to",)}))
    assemble(tiny("fedavg", data={"val_share": 0.0}, scoring={"metrics": ("rounds_to(data=split)",)}))


def test_a_users_measure_may_not_bear_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("def mdl(logits, y):\n    return 1.0\n")
    with pytest.raises(MotetError, match="bears a name of Motet's own"):
        metrics_of(["mine.py:mdl"])


# ---------------------------------------------------------------- MDL


@pytest.mark.usefixtures("exact")
def test_the_code_length_of_the_reference() -> None:
    v = vectors("mdl")
    for pool in (900, 1800, 4321):
        assert subset_sizes(pool, 10) == v[f"sizes_{pool}_log10"].tolist()
    sizes, losses = v["sizes_900_log10"].int().tolist(), v["loss_per_seed"].mean(1).tolist()
    for end in range(1, len(sizes) + 1):
        assert code_length(sizes[:end], losses[:end]) == pytest.approx(float(v["mdl_curve"][end - 1]), rel=1e-12)
    assert held_out(1000) == int(v["val_size_of_1000"]) and held_out(11) == 2


def test_a_constant_loss_costs_that_much_for_each_sample() -> None:
    assert code_length(subset_sizes(777, 6), [0.25] * 6) == pytest.approx(777 * 0.25)


def test_features_that_tell_the_label_are_shorter_to_describe() -> None:
    rng = torch.Generator().manual_seed(0)
    y = torch.randint(0, 3, (200,), generator=rng)
    noise = torch.randn(200, 8, generator=rng)
    told = noise + 4 * torch.nn.functional.one_hot(y, 8)
    metric, sizes = MDL(steps=30, seeds=1), subset_sizes(180, 2)
    plain, better = (code_length(sizes, metric.loss_curve(z, y, sizes, 3, seed=1)) for z in (noise, told))
    assert better < 0.7 * plain
    scaled = code_length(sizes, metric.loss_curve(1000 * told + 7, y, sizes, 3, seed=1))
    assert scaled == pytest.approx(better, rel=1e-2), "whitened by one mean and one deviation"


def test_the_pool_has_every_class_in_its_share() -> None:
    y = torch.tensor([0] * 60 + [1] * 30 + [2] * 10)[torch.randperm(100, generator=torch.Generator().manual_seed(1))]
    for count in (10, 37, 100, 500):
        rows = by_class(y, torch.Generator().manual_seed(2))[torch.tensor(evenly_spaced(100, count))]
        assert len(rows.unique()) == len(rows) == min(100, count)
        shares = torch.bincount(y[rows]) / len(rows)
        assert torch.allclose(shares, torch.tensor([0.6, 0.3, 0.1]), atol=1.01 / count)


def test_mdl_of_a_run_at_two_layers_in_nats_and_bits() -> None:
    played = asking("fedavg", QUICK_MDL, QUICK_MDL.replace("(", "(layer=fc1, "), net={"name": "mlp"})
    found = found_in(played)
    nats, bits = (found.figures[f"generic.split.{name}:fc1.pooled"] for name in ("mdl", "mdl_bits"))
    assert bits == pytest.approx(nats / math.log(2)) and not found.notes
    last = assemble(played.assembly.experiment).generic_net.stage_names[-2]
    assert f"generic.split.mdl:{last}.pooled" in found.figures
    assert pictures_of(found)["mdl-fc1"].x.ticks == (10, 54)


def test_mdl_pools_exactly_so_many_samples_of_all_clients() -> None:
    played = asking("fedavg", QUICK_MDL)
    final_evaluation = played.assembly.final_evaluation
    metric, run = final_evaluation.evaluator.run_metrics[0], final_evaluation.before
    told = {i: tensor(metric.asked(run, i), "mdl.which") for i in run.facts.training_ids}
    assert sum(map(len, told.values())) == 60 and all(len(which) for which in told.values())
    assert all(int(which.max()) < run.facts.by_id[i].test for i, which in told.items())


def test_the_features_are_the_generic_models_on_own_test_data() -> None:
    played = asking("fedavg+ft", "mdl(layer=fc1, samples=40)", rounds={"count": 1})
    final_evaluation, place = played.assembly.final_evaluation, played.assembly.workplace
    metric, run = final_evaluation.evaluator.run_metrics[0], final_evaluation.before
    w = played.assembly.method.generic(played.server)
    assert w is not None
    i = metric.whom(run)[0]
    message = {"score.generic": w, "metric.which": 0, "metric.member": 0, **metric.asked(run, i)}
    reply = place.perform(Task("run_metric", i, 1, message), {}).reply
    assert reply is not None
    test = played.assembly.federation.clients[i].test
    Layout(run.net).bind(run.net, w)
    x, y = next(test.all_batches(1000))
    with torch.no_grad():
        every = run.net.eval().get_submodule("fc1")(x)
    z = tensor(reply, "mdl.z")
    nearest = torch.cdist(z, every.flatten(1)).min(1)
    assert len(z) and float(nearest.values.max()) < 1e-3 and torch.equal(y[nearest.indices], tensor(reply, "mdl.y"))


def test_mdl_without_own_test_data_is_of_the_common_set_and_nothing_leaves() -> None:
    played = asking("fedavg", QUICK_MDL, data={"test_share": 0.0})
    assert next(name for name in found_in(played).figures if "mdl:" in name).startswith("generic.common.mdl:")


def test_mdl_needs_a_generic_model() -> None:
    assert "no generic model" in found_in(asking("fedper", QUICK_MDL)).notes[0]
    assert found_in(asking("fedper", QUICK_MDL, scoring={"derived_generic": True})).figures


# ---------------------------------------------------------------- the others


def test_rounds_to_reads_the_curve_and_names_its_data() -> None:
    played = asking("fedavg", "rounds_to(target=0.125)", "rounds_to(target=0.999, data=weighted, model=generic)")
    curve = [row["personal.validation.accuracy.mean"] for row in played.rows]
    first = next(row["round"] for row, value in zip(played.rows, curve, strict=True) if value >= 0.125)
    found = found_in(played)
    assert found.figures["personal.validation.rounds_to_12_5.mean"] == first
    sent = sum(row["bytes_down"] + row["bytes_up"] for row in played.rows[:first])
    assert found.figures["personal.validation.bytes_to_12_5.mean"] == sent > 0
    (note,) = found.notes
    assert "generic.weighted.accuracy.mean never reaches 0.999" in note and len(found.figures) == 2


def test_update_variance_by_hand() -> None:
    sent, models = torch.tensor([1.0, 1.0]), [torch.tensor([2.0, 1.0]), torch.tensor([0.0, 3.0])]
    found = UpdateVariance().in_round(Cohort(sent, models, [1, 3]))  # updates (1, 0) and (−1, 2), mean (0, 1)
    assert found == {"update_variance": 2.0, "update_variance_per_weight": 1.0}


def test_update_variance_of_a_run_is_of_the_nets_own_trained_weights() -> None:
    played = asking("fedrod", "update_variance", rounds={"cohort": 1.0, "count": 2})
    rows = played.rows
    assert all(row["update_variance"] > 0 for row in rows)
    own = played.assembly.method.own_weights
    d = rows[0]["update_variance"] / rows[0]["update_variance_per_weight"]
    assert round(d) == own.stop - own.start < len(tensor(played.server, "w"))
    found = found_in(played)
    assert found.training["update_variance"] == pytest.approx(sum(r["update_variance"] for r in rows) / 2)
    assert pictures_of(found)["update-variance"].x.ticks == (1, 2)
    assert "update_variance" not in asking("fedavg", rounds={"count": 1}).rows[0]
    assert "no round" in found_in(asking("local", "update_variance")).notes[0]


def test_the_diagram_adds_up_what_clients_count() -> None:
    rng = torch.Generator().manual_seed(0)
    p, hit = torch.rand(200, generator=rng), torch.rand(200, generator=rng) < 0.5
    table = bins_of(p, hit)
    assert torch.allclose(table, bins_of(p[:50], hit[:50]) + bins_of(p[50:], hit[50:]))
    assert int(table[:, 0].sum()) == 200
    gap = (table[:, 1] - table[:, 2]).abs().sum() / 200
    assert ece(p, hit) == pytest.approx(float(gap))
    played = asking("fedavg", "calibration", "ece")
    found = found_in(played)
    diagram = pictures_of(found)["calibration-personal"]
    assert [s.name for s in diagram.series] == ["accuracy", "confidence", "share of samples"]
    assert len(diagram.x.ticks) == 15 and sum(diagram.series[2].values) == pytest.approx(1, abs=1e-2)
    shares = [(s or 0) * ((c or 0) - (a or 0)) for a, c, s in zip(*(s.values for s in diagram.series), strict=True)]
    assert found.figures["personal.split.calibration.pooled"] == pytest.approx(sum(map(abs, shares)), abs=1e-2)
    assert "generic.split.calibration.pooled" in found.figures


def test_every_model_on_everybodys_data() -> None:
    played = asking("fedrod", "cross_client(samples=1000)", rounds={"cohort": 1.0})
    found = found_in(played)
    personal, generic = (pictures_of(found)[f"cross-client-{head}"] for head in ("personal", "generic"))
    table = torch.tensor(personal.series[0].values)
    assert table.shape == (4, 4) and personal.x.ticks == ("0", "2", "3", "4")
    own = [row["personal.split.accuracy"] for row in played.clients if row["round"] == 3]
    assert torch.allclose(table.diagonal(), torch.tensor(own), atol=1e-3)
    others = (table.sum() - table.diagonal().sum()) / 12
    assert found.figures["personal.split.cross_client.mean"] == pytest.approx(float(others), abs=1e-3)
    assert generic.series[0].values != personal.series[0].values
    assert list(pictures_of(found_in(asking("fedavg", "cross_client(clients=2)")))) == ["cross-client-personal"]


def test_a_family_is_measured_by_the_member_that_it_reports() -> None:
    played = asking("superfed-mm(start=0, lambda_eval=oracle)", "cross_client(samples=1000)")
    table = torch.tensor(found_in(played).figures_learned[0].series[0].values)
    own = [row["personal.split.accuracy"] for row in played.clients if row["round"] == 3]
    first = [row["member:0.0.split.accuracy"] for row in played.clients if row["round"] == 3]
    assert own != first and torch.allclose(table.diagonal(), torch.tensor(own), atol=1e-3)


def test_at_a_site_of_its_own_a_client_has_only_its_own_data() -> None:
    """What the strict twin does: other clients' cells are empty."""
    experiment = tiny("fedavg", scoring={"metrics": ("cross_client",), "figures_learned": False})
    table = found_in(play(experiment, strict=True)).figures_learned[0].series[0].values
    assert [[cell is not None for cell in row] for row in table] == [[i == j for j in range(4)] for i in range(4)]


def test_fedrod_shows_both_heads_unasked_and_no_figure_of_it() -> None:
    found = found_in(play(tiny("fedrod+ft")))
    assert list(pictures_of(found)) == ["cross-client-personal"] and not found.figures  # fine-tuning leaves one head
    found = found_in(play(tiny("fedrod")))
    assert list(pictures_of(found)) == ["cross-client-personal", "cross-client-generic"] and not found.figures


def test_a_measure_that_fails_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> Finding:
        raise ZeroDivisionError("nothing")

    monkeypatch.setattr(MDL, "found", fails)
    found = found_in(asking("fedavg", QUICK_MDL, "update_variance"))
    assert found.notes == ["metric mdl could not be made (ZeroDivisionError: nothing)"] and found.training


def test_the_record_has_them_on_every_engine(tmp_path: Path) -> None:
    metrics = (QUICK_MDL, "calibration", "cross_client", "update_variance", "rounds_to(target=0.05)")
    records = []
    for name in ("inline", "pool"):
        asked = tiny("fedavg", scoring={"metrics": metrics}, engine={"name": name, "workers": 1})
        records.append(Record(runs.run(asked, tmp_path / name)))
    first, second = (record.summary.model_dump() for record in records)
    assert first["figures"] == second["figures"] and first["training"] == second["training"]
    assert first["training"]["update_variance"] > 0 and first["notes"] == []
    assert [p.name for p in records[0].figures_learned] == [
        "mdl-fc2",
        "calibration-personal",
        "calibration-generic",
        "cross-client-personal",
        "update-variance",
    ]
    assert (tmp_path / "inline" / "figures_learned.json").read_bytes() == (
        tmp_path / "pool" / "figures_learned.json"
    ).read_bytes()


def test_the_command_line_shows_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--clients", "4", "--rounds", "2", "--set", "data.val_share=0.2", "--set", "engine.name=inline"]
    asked = [QUICK_MDL, "rounds_to(target=0.05)", "rounds_to(target=0.999)"]
    assert main(["run", *words, "--out", "r", *(word for m in asked for word in ("--metrics", m))]) == 0
    said = capsys.readouterr()
    assert "rounds_to_5," in said.out.replace("\n", " ") and "mdl:" in said.out
    assert "note: rounds_to: personal.validation.accuracy.mean never reaches 0.999" in said.err
    assert main(["list", "metrics"]) == 0
    assert "update_variance" in capsys.readouterr().out
    assert motet.load("r").summary["notes"]


# ---------------------------------------------------------------- gain over Local


def test_individual_gain_over_local(tmp_path: Path) -> None:
    records = [Record(runs.run(tiny(method), tmp_path / method)) for method in ("fedavg", "local")]
    gains = gains_over_local(*records)
    values = []
    for record in records:
        rows = {
            row["client"]: row["personal.weighted.accuracy"]
            for row in record.clients
            if row["round"] == 3 and not row["new"]
        }
        values.append(rows)
    assert gains == {i: values[0][i] - values[1][i] for i in values[0]} and any(gains.values())
    told = compared_with_local(*records).model_dump()["personal"]
    by_hand = torch.tensor(list(gains.values()), dtype=torch.float64)
    assert told["gain_vs_local"] == pytest.approx(float(by_hand.mean()))
    assert told["gain_vs_local_std"] == pytest.approx(float(by_hand.std(correction=0)))


def test_pictures_of_heads_do_not_depend_on_how_a_reply_came(tmp_path: Path) -> None:
    """F9 of the review: heads stood in the order in which a message of another process had its fields."""
    written = {}
    for engine in ("inline", "pool"):
        asked = tiny("fedrod", engine={"name": engine, "workers": 2}, scoring={"metrics": ["cross_client"]})
        written[engine] = (runs.run(asked, tmp_path / engine) / "figures_learned.json").read_bytes()
    assert written["inline"] == written["pool"]
    row = torch.tensor([0.5, 0.25])
    facts = SimpleNamespace(
        training_ids=[0, 1], by_id={0: SimpleNamespace(name="a", test=1), 1: SimpleNamespace(name="b", test=1)}
    )
    run = RunFacts(facts, None, None, 0)  # type: ignore[arg-type]
    for order in (("personal", "generic", "b"), ("b", "generic", "personal")):
        found = CrossClient().found(run, {i: {head: row for head in order} for i in (0, 1)})
        assert [p.name for p in found.figures_learned] == [
            "cross-client-personal",
            "cross-client-b",
            "cross-client-generic",
        ]


# ---------------------------------------------------------------- without test data of clients' own


@pytest.mark.parametrize("weights", ["literal", "count_corrected"])
def test_without_own_tests_both_are_of_the_common_set_weighted_by_class(weights: str) -> None:
    played = asking(
        "fedrod",
        "cross_client(samples=1000)",
        "calibration",
        data={"test_share": 0.0},
        scoring={"class_weights": weights},
    )
    found, federation = found_in(played), played.assembly.federation
    table = torch.tensor(pictures_of(found)["cross-client-personal"].series[0].values)
    own = [row["personal.weighted.accuracy"] for row in played.clients if row["round"] == 3]
    assert torch.allclose(table.diagonal(), torch.tensor(own), atol=1e-3)  # Eq. 20, computed by the scorer
    others = (table.sum() - table.diagonal().sum()) / 12
    assert found.figures["personal.weighted.cross_client.mean"] == pytest.approx(float(others), abs=1e-3)
    assert not found.notes and "personal.split.cross_client.mean" not in found.figures

    net = played.assembly.evaluator.generic_net  # the generic model's diagram, by hand: every sample by its weight
    generic = played.assembly.method.generic(played.server)
    assert generic is not None
    Layout(net).bind(net.eval(), generic)
    sums = torch.zeros(15, 3, dtype=torch.float64)
    for client in (c for c in federation.clients if not c.new):
        test, P = federation.test, client.train.counts(10).double()
        T = test.counts(10).double()
        with torch.no_grad():
            confidence, said = net(test.batch(torch.arange(len(test)))[0]).softmax(1).max(1)
        weight = torch.stack([P[c] / (T[c] if weights == "count_corrected" else 1) for c in test.y.tolist()])
        for p, right, w in zip(confidence.double(), said == test.y, weight / weight.sum(), strict=True):
            b = min(14, math.ceil(float(p) * 15) - 1)
            sums[b] += w * torch.tensor([1.0, float(p), float(right)])
    by_hand = float((sums[:, 1] - sums[:, 2]).abs().sum() / sums[:, 0].sum())
    assert found.figures["generic.weighted.calibration.pooled"] == pytest.approx(by_hand, abs=1e-6)


def test_a_common_set_sorted_by_class_is_not_cut_to_its_first_classes() -> None:
    y = torch.arange(10).repeat_interleave(20)
    some = ClientScope.spread_over_classes(Samples(torch.zeros(200, 2), y, VectorPrepare((2,))), 50)
    assert some.counts(10).tolist() == [5] * 10
