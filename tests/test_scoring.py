"""Scores are what the papers print: Eq. 20, means and spreads over clients, whose model."""

from collections.abc import Sequence
from functools import cache

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor, nn

from motet.data import Samples, VectorPrepare
from motet.engines import Inline, OneByOne
from motet.messages.task import Task
from motet.methods import METHODS
from motet.methods.base import MethodEntry, Part
from motet.metrics.one_pass import class_weighted, one_pass, share_right
from motet.metrics.over_clients import spread
from motet.metrics.registry import ACCURACY
from motet.nets import Net
from motet.server.assembly import Assembly
from motet.testing.twin import Played, play, tiny
from motet.training.flat_weights import Layout

CLASSES = 4
SEED = 2  # of a run in which one client is sampled in the first round alone and one never
labels = st.lists(st.tuples(st.integers(0, CLASSES - 1), st.booleans()), min_size=1, max_size=40)
client_counts = st.lists(st.integers(0, 9), min_size=CLASSES, max_size=CLASSES).filter(any)


def as_counts(answers: Sequence[tuple[int, bool]]) -> tuple[Tensor, Tensor]:
    """Right answers and test samples per class."""
    right = torch.tensor([sum(c == y and hit for y, hit in answers) for c in range(CLASSES)])
    return right, torch.tensor([sum(c == y for y, _ in answers) for c in range(CLASSES)])


# ---------------------------------------------------------------- Eq. 20


@given(labels, client_counts)
def test_eq_20_as_printed(answers: list[tuple[int, bool]], counts: list[int]) -> None:
    """Σ_i P_m(y_i)·1[ŷ_i = y_i] / Σ_i P_m(y_i), over the samples of the common test set."""
    p = [n / sum(counts) for n in counts]
    below = sum(p[y] for y, _ in answers)
    found = class_weighted(*as_counts(answers), torch.tensor(counts))
    if below == 0:
        assert found is None  # the test set has none of the client's classes
    else:
        assert found == pytest.approx(sum(p[y] * hit for y, hit in answers) / below)


@given(labels, client_counts)
def test_eq_20_corrected_for_counts(answers: list[tuple[int, bool]], counts: list[int]) -> None:
    """Σ_c P_m(c)·(correct_c / T_c), over the classes that the test set has."""
    right, total = as_counts(answers)
    there = [c for c in range(CLASSES) if total[c]]
    below = sum(counts[c] for c in there)
    assume(below)
    expected = sum(counts[c] * int(right[c]) / int(total[c]) for c in there) / below
    assert class_weighted(right, total, torch.tensor(counts), corrected=True) == pytest.approx(expected)


@given(st.lists(st.integers(0, 6), min_size=CLASSES, max_size=CLASSES), client_counts)
def test_on_a_balanced_test_set_both_forms_are_the_mean_of_class_accuracies(right: list[int], n: list[int]) -> None:
    balanced, hits, counts = torch.full((CLASSES,), 6), torch.tensor(right), torch.tensor(n)
    expected = sum(n[c] / sum(n) * right[c] / 6 for c in range(CLASSES))
    for corrected in (False, True):
        assert class_weighted(hits, balanced, counts, corrected) == pytest.approx(expected)


@given(st.lists(st.integers(0, 6), min_size=CLASSES, max_size=CLASSES), st.integers(1, 50))
def test_a_client_with_equal_classes_has_plain_accuracy_on_a_balanced_test_set(right: list[int], n: int) -> None:
    balanced, hits = torch.full((CLASSES,), 6), torch.tensor(right)
    found = class_weighted(hits, balanced, torch.full((CLASSES,), n))
    assert found == pytest.approx(share_right(hits, balanced))


def test_the_two_forms_differ_where_the_test_set_is_not_balanced() -> None:
    right, total, counts = torch.tensor([9, 0, 0, 0]), torch.tensor([9, 1, 5, 5]), torch.tensor([1, 1, 0, 0])
    assert class_weighted(right, total, counts) == pytest.approx(0.9)
    assert class_weighted(right, total, counts, corrected=True) == pytest.approx(0.5)


@pytest.mark.parametrize("corrected", [False, True])
def test_the_experiment_chooses_the_form(corrected: bool) -> None:
    choice = "count_corrected" if corrected else "literal"
    played = play(tiny("fedavg", scoring={"class_weights": choice}, rounds={"count": 1}))
    federation = played.assembly.federation
    right, total = generic_right(played), federation.test.counts(federation.classes)
    assert len(set(total.tolist())) > 1
    for row in played.clients:
        counts = federation.clients[row["client"]].train.counts(federation.classes)
        assert row["generic.weighted.accuracy"] == pytest.approx(class_weighted(right, total, counts, corrected))
        other = class_weighted(right, total, counts, not corrected)
        assert row["generic.weighted.accuracy"] != pytest.approx(other, abs=1e-9)


def test_accuracy_of_nothing_is_nothing() -> None:
    assert share_right(torch.zeros(3), torch.zeros(3)) is None


@given(st.lists(st.integers(0, CLASSES - 1), min_size=1, max_size=50), st.integers(0, CLASSES - 1))
def test_right_answers_per_class(y: list[int], said: int) -> None:
    """A model that always says the same is right for that class alone."""

    class Stubborn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bias = nn.Parameter(torch.eye(CLASSES)[said])

        def forward(self, x: Tensor) -> Tensor:
            return self.bias.expand(len(x), CLASSES)

    samples = Samples(torch.zeros(len(y), 2), torch.tensor(y), VectorPrepare((2,)))
    answers = one_pass(Stubborn(), samples, [ACCURACY], CLASSES)
    assert answers.right["accuracy"].tolist() == [y.count(c) if c == said else 0 for c in range(CLASSES)]
    assert answers.counts.tolist() == [y.count(c) for c in range(CLASSES)]


# ---------------------------------------------------------------- over clients


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(1, 1000)), min_size=1, max_size=60))
def test_the_spread_over_clients(clients: list[tuple[float, int]]) -> None:
    values, samples = [v for v, _ in clients], [n for _, n in clients]
    found = spread(values, samples)
    assert found is not None
    mean = sum(values) / len(values)
    assert found.mean == pytest.approx(mean)
    assert found.by_samples == pytest.approx(sum(v * n for v, n in clients) / sum(samples))
    assert found.std**2 == pytest.approx(sum((v - mean) ** 2 for v in values) / len(values), abs=1e-12)
    assert found.minimum == min(values)
    worst = sorted(values)[: max(1, round(len(values) / 10))]
    assert found.worst_tenth == pytest.approx(sum(worst) / len(worst))


def test_the_worst_tenth_of_twenty_are_two() -> None:
    found = spread([0.1, 0.3, *[0.9] * 18], [1] * 20)
    assert found is not None and found.worst_tenth == pytest.approx(0.2)


def test_nobody_has_no_spread() -> None:
    assert spread([], []) is None


@pytest.mark.parametrize("kind", ["split", "weighted"])
def test_figures_are_the_means_over_the_clients_rows(kind: str) -> None:
    played = two_rounds("last_participation")
    last, rows = played.rows[-1], [r for r in played.clients if r["round"] == 2]
    size = "n.split" if kind == "split" else "n"
    assert len({row[size] for row in rows}) > 1
    for model in ("generic", "personal"):
        values = [row[f"{model}.{kind}.accuracy"] for row in rows]
        assert last[f"{model}.{kind}.accuracy.mean"] == pytest.approx(sum(values) / len(values))
        by_samples = sum(v * row[size] for v, row in zip(values, rows, strict=True)) / sum(row[size] for row in rows)
        assert last[f"{model}.{kind}.accuracy.by_samples"] == pytest.approx(by_samples)
    headline = [row["personal.weighted.accuracy"] for row in rows]
    for statistic in ("minimum", "worst_tenth"):
        assert last[f"personal.weighted.accuracy.{statistic}"] == min(headline)


def test_split_accuracy_by_samples_counts_every_test_sample_once() -> None:
    """DBE's figure: Σ correct / Σ samples."""
    played = two_rounds("global_plus_personal")
    federation = played.assembly.federation
    tests = [federation.clients[i].test for i in federation.training_ids]
    right = sum(int(hits(played.server["w"], test, played.assembly).sum()) for test in tests)
    assert played.rows[-1]["personal.split.accuracy.by_samples"] == pytest.approx(right / sum(map(len, tests)))


# ---------------------------------------------------------------- whose model


def hits(w: Tensor, samples: Samples, assembly: Assembly) -> Tensor:
    """Which samples a plain net with these flat weights gets right."""
    net = assembly.workplace.generic_net.another()
    Layout(net).bind(net, w.clone())
    with torch.no_grad():
        return net(samples.prepare(samples.x)).argmax(1) == samples.y


def generic_right(played: Played) -> Tensor:
    test = played.assembly.federation.test
    return torch.bincount(test.y[hits(played.server["w"], test, played.assembly)], minlength=10)


def by_hand(w: Tensor, client_id: int, assembly: Assembly) -> tuple[float, float]:
    """A client's class-weighted and split accuracy of a model, sample by sample: each class by the client's share."""
    federation = assembly.federation
    data = federation.clients[client_id]
    share = data.train.counts(federation.classes).double() / len(data.train)
    weight = (share / federation.test.counts(federation.classes))[federation.test.y]
    weighted = float((weight * hits(w, federation.test, assembly)).sum() / weight.sum())
    return weighted, float(hits(w, data.test, assembly).double().mean())


@cache
def two_rounds(source: str, never: str = "global", method: str = "fedavg") -> Played:
    """Two rounds in which some clients take part and some never do."""
    scoring = {"personal_model": source, "never_sampled": never, "every": 1}
    local = {"epochs": 3, "lr": 0.1}
    return play(tiny(method, rounds={"count": 2, "cohort": 0.5}, scoring=scoring, local=local, seed=SEED))


def replayed(assembly: Assembly) -> tuple[list[Tensor], dict[int, tuple[int, Tensor]]]:
    """The global models w_0, w_1, w_2 and each sampled client's last round and model, by plain calls."""
    method, engine = assembly.method, Inline(OneByOne(assembly.workplace.perform))
    server = method.start()
    models, last = [server["w"]], {}
    for row in two_rounds("last_participation").rows:
        tasks = [Task("train", i, row["round"], method.broadcast(server, i)) for i in row["cohort"]]
        replies = {outcome.client_id: outcome.reply for outcome in list(engine.run(tasks))}
        server = method.aggregate(server, replies)
        models.append(server["w"])
        last |= {i: (row["round"], reply["w"]) for i, reply in replies.items()}
    return models, last


def expected_models(source: str, never: str) -> dict[int, Tensor]:
    assembly = two_rounds(source, never).assembly
    models, last = replayed(assembly)
    expected = {}
    for i in assembly.federation.training_ids:
        if source == "last_participation":
            expected[i] = last[i][1] if i in last else models[0 if never == "initial" else 2]
        elif source == "global_plus_personal":
            expected[i] = models[2]  # FedAvg has no private parts
        else:
            task = Task("train", i, 2, {"w": models[2]})  # one more training from the final global model
            expected[i] = assembly.workplace.perform(task, {}).reply["w"]
    return expected


@pytest.mark.parametrize(
    ("source", "never"),
    [
        ("last_participation", "global"),
        ("last_participation", "initial"),
        ("final_sync", "global"),
        ("global_plus_personal", "global"),
    ],
)
def test_the_model_that_is_scored_as_a_clients_own(source: str, never: str) -> None:
    played = two_rounds(source, never)
    rows = {row["client"]: row for row in played.clients if row["round"] == 2}
    models = expected_models(source, never)
    assert rows.keys() == models.keys()
    for i, w in models.items():
        weighted, split = by_hand(w, i, played.assembly)
        assert rows[i]["personal.weighted.accuracy"] == pytest.approx(weighted)
        assert rows[i]["personal.split.accuracy"] == pytest.approx(split)
        weighted, split = by_hand(played.server["w"], i, played.assembly)
        assert rows[i]["generic.weighted.accuracy"] == pytest.approx(weighted)
        assert rows[i]["generic.split.accuracy"] == pytest.approx(split)


def test_the_sources_are_told_apart() -> None:
    """The run above has clients on which the four choices give four different figures."""
    assert [i[0] for i in replayed(two_rounds("last_participation").assembly)[1].values()].count(1) == 1
    assert len(replayed(two_rounds("last_participation").assembly)[1]) == 3
    choices = [("last_participation", "global"), ("last_participation", "initial"), ("final_sync", "global")]
    figures = [two_rounds(*choice).rows[-1]["personal.weighted.accuracy.mean"] for choice in choices]
    figures.append(two_rounds("global_plus_personal").rows[-1]["personal.weighted.accuracy.mean"])
    assert len(set(figures)) == 4


def test_before_the_end_final_sync_scores_the_global_model() -> None:
    first = two_rounds("final_sync").rows[0]
    assert first["personal.weighted.accuracy.mean"] == first["generic.weighted.accuracy.mean"]


def test_generic_accuracy_is_the_plain_accuracy_of_the_global_model() -> None:
    played = two_rounds("last_participation")
    expected = float(hits(played.server["w"], played.assembly.federation.test, played.assembly).double().mean())
    assert played.rows[-1]["generic.common.accuracy.pooled"] == pytest.approx(expected)


class PrivateHead(Part):
    """Keeps the head at home."""

    def private(self, net: Net) -> tuple[str, ...]:
        """All of its names."""
        return net.head_names()


def test_global_plus_personal_joins_the_global_body_with_the_clients_own_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "private-head", MethodEntry("private-head", "", "", part=PrivateHead))
    scoring = {"personal_model": "global_plus_personal"}
    played = play(tiny("private-head", rounds={"count": 2, "cohort": 1.0}, scoring=scoring))
    assert "model" not in played.engine.private(played.assembly.client_ids[0])
    for row in played.clients:
        head = played.engine.private(row["client"])["private"]
        whole = torch.cat([played.server["w"], head])  # the head lies last in the plain net too
        assert row["personal.weighted.accuracy"] == pytest.approx(by_hand(whole, row["client"], played.assembly)[0])


def test_a_new_client_before_and_after() -> None:
    played = two_rounds("last_participation")
    (row,) = played.new.clients
    assembly, i = played.assembly, row["client"]
    assert row["before.weighted.accuracy"] == pytest.approx(by_hand(played.server["w"], i, assembly)[0])
    client = assembly.workplace.client(Task("adapt", i, 2, {}), {})
    adapted = assembly.method.adapt(client, assembly.method.broadcast(played.server, i))
    expected = by_hand(Layout(adapted.net).flatten(adapted.net), i, assembly)
    assert (row["after.weighted.accuracy"], row["after.split.accuracy"]) == pytest.approx(expected)
    assert row["before.weighted.accuracy"] != row["after.weighted.accuracy"]


def test_a_new_client_of_local_has_nothing_before() -> None:
    new = play(tiny("local", rounds={"count": 1})).new
    assert new.figures["before.weighted.accuracy.mean"] is None
    assert 0 <= new.figures["after.weighted.accuracy.mean"] <= 1
