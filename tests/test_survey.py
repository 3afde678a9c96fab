"""What a comparison says of each client, of evidence that is too thin, and of clients with few test rows."""

from dataclasses import replace
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from scipy.stats import t as student

from motet.config.scoring_section import ScoringSettings
from motet.metrics.classification import AUROC
from motet.metrics.metric import ACCURACY, LOSS, Metric
from motet.metrics.names import MetricName
from motet.metrics.one_pass import class_weighted
from motet.metrics.registry import METRICS
from motet.metrics.statistics import (
    Resplits,
    Table,
    auroc_error,
    differences,
    estimate,
    growth_needed,
    splits_needed,
    unpaired_interval,
)
from motet.metrics.wording import counted, points, written
from motet.report.page.contents import Unit
from motet.report.page.sections.clients import _surveyed
from motet.report.tables.catalogue import partition
from motet.report.tables.compared import client_survey
from motet.runs.clients_file import ClientInfo, ClientsInfo
from motet.studies.comparison import _score, about, counted_by_rows, worst_of, would_settle
from motet.studies.comparison_file import ComparisonFile, RecommendedMethod
from motet.studies.recommend import Candidate, hurt, margin_of, recommend, still_learning
from motet.studies.results import Ran, Results, climb, margin_in_its_unit
from motet.studies.survey import said_of_clients, survey


def results(
    tables: dict[str, Any],
    rows: list[int],
    metric: Metric = ACCURACY,
    splits: int = 1,
    counts: tuple[int, int] = (0, 0),
) -> Results:
    """Results of clients with so many test rows; the one model of FedAvg is its personal models' table."""
    ran = {
        name: Ran((Path(name),), np.array(of, dtype=float), np.array(of, dtype=float), None, 1e6, 1.0, None, {})
        for name, of in tables.items()
    }
    info = tuple(
        ClientInfo(id=i, name=f"site {i}", new=False, train=4 * n, val=0, test=n, counts=counts if sum(counts) else ())
        for i, n in enumerate(rows)
    )
    classes = ("no", "yes") if sum(counts) else ()
    figure = MetricName("personal", "split", metric.name, "mean")
    return Results(
        ran, tuple(range(len(rows))), ClientsInfo(clients=info, classes=classes), figure, metric, Resplits(splits, 0.25)
    )


# ---------------------------------------------------------------- clients


def test_who_gains_who_loses_and_who_is_too_small_to_tell() -> None:
    tables = {"local": [[0.6], [0.9], [0.6]], "fedavg": [[0.7], [0.7], [0.7]], "ditto": [[0.8], [0.7], [0.8]]}
    found = survey(results(tables, [400, 400, 10]), "ditto")
    assert [client.verdict for client in found] == ["gains", "loses", "too small to tell"]
    first = found[0]
    assert (first.alone, first.one_model, first.own, first.test) == (0.6, 0.7, 0.8, 400)
    assert first.difference == pytest.approx(0.2)
    a, b = 321 / 402, 241 / 402  # a right and a wrong row are added to each
    reach = 1.959964 * sqrt((a * (1 - a) + b * (1 - b)) / 402)
    assert first.interval == pytest.approx((a - b - reach, a - b + reach))
    (said,) = said_of_clients(found, "ditto")
    assert "1 gain (site 0) and 1 lose (site 1); 1 has too few test rows to tell" in said


def test_rows_of_several_splits_count_once_each() -> None:
    tables = {"local": [[0.6] * 3], "ditto": [[0.8] * 3]}
    once, thrice, often = (survey(results(tables, [20], splits=s), "ditto")[0] for s in (1, 3, 50))
    for found, rows in ((once, 20), (thrice, 60), (often, 100)):  # a client has a hundred rows in all
        assert found.interval is not None
        assert found.interval == pytest.approx(unpaired_interval(0.8, 0.6, rows))


def test_two_rows_are_never_enough() -> None:
    """A model that is right in both, beside one that is wrong in both, may be so by chance."""
    few, more = (survey(results({"local": [[0.0]], "ditto": [[1.0]]}, [rows]), "ditto")[0] for rows in (2, 8))
    assert few.verdict == "too small to tell" and more.verdict == "gains"


def test_intervals_of_few_rows_hold_the_truth() -> None:
    rng, right = np.random.default_rng(3), []
    for p, q, rows in ((0.8, 0.7, 6), (0.9, 0.9, 3), (0.6, 0.3, 12), (0.95, 0.8, 25)):
        draws = rng.binomial(rows, (p, q), (2000, 2)) / rows
        bounds = [unpaired_interval(a, b, rows) for a, b in draws]
        right.append(np.mean([low <= p - q <= high for low, high in bounds]))
    assert min(right) > 0.92


def test_lower_is_better_for_clients_too() -> None:
    found = survey(results({"local": [[0.9]], "ditto": [[0.4]]}, [50], LOSS), "ditto")
    assert found[0].difference == pytest.approx(0.5) and found[0].interval is None  # no noise is known of a loss


def test_few_rows_tell_nothing_of_anybody() -> None:
    small = survey(results({"local": [[0.6], [0.7]], "ditto": [[0.7], [0.6]]}, [12, 9]), "ditto")
    (said,) = said_of_clients(small, "ditto")
    assert said == "None of 2 clients gains or loses against training alone by more than chance of its test rows."


def test_training_alone_is_compared_with_the_one_model() -> None:
    found = survey(results({"local": [[0.9]], "fedavg": [[0.4]]}, [50]), "local")
    assert found[0].difference == pytest.approx(0.5) and found[0].verdict == "gains"
    assert said_of_clients(found, "local")[0].startswith("Against FedAvg's one model")
    alone = survey(results({"local": [[0.9]]}, [50]), "local")
    assert alone[0].difference is None and alone[0].verdict is None and said_of_clients(alone, "local") == []


def test_the_share_of_the_rare_class() -> None:
    found = survey(results({"local": [[0.9]], "ditto": [[0.8]]}, [50], AUROC, counts=(180, 20)), "ditto")
    assert found[0].rare == 0.1 and found[0].interval is not None


def test_few_rows_are_easily_ranked_right() -> None:
    assert auroc_error(0.9, 0, 10) is None
    sure, surer = auroc_error(1.0, 3, 5), auroc_error(1.0, 30, 50)
    assert sure is not None and surer is not None and sure > 0.05 > surer


def test_the_error_of_an_auroc_against_draws() -> None:
    rng, positive, negative = np.random.default_rng(0), 15, 60
    draws = [
        float((rng.normal(1, 1, positive)[:, None] > rng.normal(0, 1, negative)[None]).mean()) for _ in range(2000)
    ]
    assert auroc_error(float(np.mean(draws)), positive, negative) == pytest.approx(
        np.std(draws), rel=0.2
    )  # rather too large


def comparison_of(found: Results, method: str) -> ComparisonFile:
    answer = RecommendedMethod(
        method=method,
        options={},
        expression=method,
        reason="",
        certain=False,
        enough_evidence=True,
        may_be_equal=(),
    )
    return ComparisonFile(
        format=1,
        recommended=answer,
        methods=(),
        clients=survey(found, method),
        left_out={},
        figure=str(found.figure),
        notes=(),
    )


def test_a_screen_shows_thirty_clients() -> None:
    def shown(clients: int) -> list[object]:
        of = results({"local": [[0.6]] * clients, "ditto": [[0.8]] * clients}, [20] * clients)
        return list(client_survey(comparison_of(of, "ditto")))

    assert shown(30) and not shown(31)


@pytest.mark.parametrize(("method", "than"), [("ditto", "alone"), ("local", "one model")])
def test_page_and_screen_say_what_a_clients_own_model_is_compared_with(method: str, than: str) -> None:
    """Where `local` is recommended its models are what clients have alone; the page said that all the same."""
    file = comparison_of(results({"local": [[0.7]], "fedavg": [[0.5]], "ditto": [[0.8]]}, [40]), method)
    titles, rows = _surveyed(file, Unit(ACCURACY))
    (place,) = [i for i, title in enumerate(titles) if title.startswith("own over ")]
    assert titles[place].startswith(f"own over {than}, ")
    assert rows[0][place].text.startswith("+10.0" if method == "ditto" else "+20.0")
    console = Console(width=200)
    with console.capture() as said:
        for each in client_survey(file):
            console.print(each)
    assert than in said.get().splitlines()[3]


def test_a_difference_of_errors_has_a_title_that_fits_its_sign() -> None:
    """An error of 5 where alone it is 6 is better by one: +1 stood below "own less alone"."""
    found = results({"local": [[6.0]], "ditto": [[5.0]]}, [40], METRICS["mae"])
    file = comparison_of(found, "ditto").model_copy(update={"metric": "mae", "higher_is_better": False})
    titles, rows = _surveyed(file, Unit(METRICS["mae"]))
    (place,) = [i for i, title in enumerate(titles) if title.startswith("own better than alone by")]
    assert rows[0][place].text.startswith("+1")
    console = Console(width=200)
    with console.capture() as said:
        for each in client_survey(file):
            console.print(each)
    assert "less own" in said.get() and "own less" not in said.get() and "+1" in said.get()


def test_runs_that_are_alike_do_not_vary_in_the_last_digit() -> None:
    """Sums in another order differ by 1e-15, and "± 1.09e-15" stood in the table."""
    found = results({"ditto": [[5.6, 5.6 + 2e-15, 5.6]]}, [40], METRICS["mae"])
    assert _score(found.methods["ditto"].personal, found).std == 0.0


# ---------------------------------------------------------------- evidence


def test_how_much_evidence_is_needed() -> None:
    """As much as makes the normal interval of the mean ± the margin."""
    rng = np.random.default_rng(0)
    table: Table = rng.normal(0.05, 0.2, (40, 1))
    growth = growth_needed(table, 0.03)
    assert growth == pytest.approx((1.959964 * table.std(ddof=1) / sqrt(40) / 0.03) ** 2, rel=1e-6)
    assert growth is not None
    found = estimate(np.tile(table, (round(growth), 1)))  # as many times the clients, as different as these
    assert found.high is not None and found.high - found.mean == pytest.approx(0.03, rel=0.1)
    assert growth_needed(np.array([[0.5]]), 0.03) is None


def test_splits_of_the_same_rows_are_no_independent_repeats() -> None:
    """Nadeau and Bengio's corrected variance, by hand: of one client, whose values differ by split alone."""
    by_split: Table = np.array([[0.02, 0.05, 0.03, 0.06]])
    found, naive = (estimate(by_split, each) for each in (Resplits(4, 0.25), Resplits()))
    error = sqrt((1 / 4 + 0.25) * by_split.var(ddof=1))
    assert found.p == pytest.approx(2 * student.sf(by_split.mean() / error, 3), rel=1e-9)
    assert found.high is not None and naive.high is not None
    assert found.high - found.mean == pytest.approx(sqrt(2) * (naive.high - naive.mean), rel=1e-9)


def test_seeds_of_one_split_count_as_one() -> None:
    """Many seeds on the same two splits tell no more of other splits than two do."""
    two: Table = np.array([[0.1, 0.3], [0.2, 0.25], [0.1, 0.2]])
    seeds = np.repeat(two, 5, axis=1)
    one_each = estimate(two, Resplits(2, 0.3))
    assert estimate(seeds, Resplits(2, 0.3)).interval == pytest.approx(one_each.interval)
    of_methods = differences({"a": seeds, "b": 0 * seeds}, resplits=Resplits(2, 0.3))
    assert of_methods.of("a", "b").interval == pytest.approx(one_each.interval)


def test_intervals_over_splits_cover_the_truth() -> None:
    """A mean is estimated from random test rows of the same 60 rows; other rows would have another mean of theirs.

    Without the correction the interval of ten such splits holds the truth much too seldom.
    """
    rng, covered = np.random.default_rng(1), {Resplits(10, 15 / 45): 0, Resplits(): 0}
    for _ in range(400):
        rows = rng.normal(0, 1, 60)
        by_split: Table = np.array([[rows[rng.permutation(60)[:15]].mean() for _ in range(10)]])
        for resplits in covered:
            found = estimate(by_split, resplits)
            assert found.low is not None and found.high is not None
            covered[resplits] += found.low <= 0 <= found.high
    corrected, naive = covered.values()
    assert corrected >= 0.9 * 400 and naive <= 0.8 * 400, covered


def test_evidence_in_words() -> None:
    tables = {"a": [[0.9], [0.6], [0.8], [0.6]], "b": [[0.6], [0.9], [0.75], [0.6]]}
    of = results(tables, [46] * 4)
    said = would_settle(of, "a", "b")
    growth = growth_needed(of.personal["a"] - of.personal["b"], 0.03)
    assert growth is not None
    assert said.startswith("with 4 clients and 184 test rows a difference of 3 points needs about ")
    assert f"{about(184 * growth)} test rows" in said and "--repeats" not in said  # more splits than are worth it
    alike = {"a": [[0.9, 0.8, 0.84], [0.9, 0.8, 0.85]], "b": [[0.8, 0.81, 0.83], [0.8, 0.81, 0.83]]}
    steady = results(alike, [46] * 2, splits=3)  # clients are alike, splits are not
    repeats = splits_needed(steady.personal["a"] - steady.personal["b"], 0.03, steady.resplits)
    assert repeats is None  # what these rows have in common is too much
    fewer_tested = replace(steady, resplits=Resplits(3, 0.01))
    repeats = splits_needed(steady.personal["a"] - steady.personal["b"], 0.03, fewer_tested.resplits)
    assert f", or {repeats} splits of the same rows (--repeats {repeats})" in would_settle(fewer_tested, "a", "b")
    same = results({"a": [[0.9], [0.8]], "b": [[0.8], [0.7]]}, [46] * 2)
    assert would_settle(same, "a", "b") == "more clients, test rows or seeds would tell"
    assert "a difference of .03 needs" in would_settle(results(tables, [46] * 4, AUROC), "a", "b")


def test_numbers_with_two_digits() -> None:
    assert [about(n) for n in (7.2, 84, 854, 12345.6)] == ["8", "84", "860", "13 000"]


def test_clients_with_few_rows_are_said_to_count_alike() -> None:
    """A client of one row counts as much as one of fourteen; counted by rows another method is ahead."""
    of = results({"local": [[1.0], [0.5]], "fedavg": [[0.0], [0.7]]}, [1, 14])
    (said,) = counted_by_rows(of, "local", ["local", "fedavg"])
    assert said == (
        "Clients count alike, though they have from 1 to 14 test rows; counted by rows fedavg is the best, "
        "+12.0 points better than local."
    )
    (same,) = counted_by_rows(of, "fedavg", ["local", "fedavg"])
    assert same.endswith("counted by rows fedavg is the best too.")
    assert counted_by_rows(results({"local": [[1.0], [0.5]]}, [10, 14]), "local", ["local"]) == []


# ---------------------------------------------------------------- judged by another metric


def judged(tables: dict[str, Any], metric: Metric) -> Any:
    every = {name: np.array(of, dtype=float) for name, of in tables.items()}
    order = {"local": 0, "fedavg": 1, "fedavg+ft": 2}
    found = differences({name: metric.direction * of for name, of in every.items()})
    return recommend(
        [Candidate(name, estimate(of), order.get(name, 3), 1e6) for name, of in every.items()], found, 500, metric
    )


def test_the_lowest_loss_is_recommended() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(0.6, 0.01, (12, 2))
    answer = judged({"fedavg": base + 0.3, "ditto": base}, LOSS)
    assert answer.method == "ditto" and answer.certain
    assert "best personal log loss" in answer.reason and "points" not in answer.reason and "+.300" in answer.reason


def test_no_sentence_says_accuracy_of_another_metric() -> None:
    rng = np.random.default_rng(1)
    base = rng.normal(0.8, 0.02, (12, 2))
    for tables in (
        {"fedavg": base, "ditto": base + 0.2},
        {"fedavg": base, "fedavg+ft": base + rng.normal(0, 0.1, (12, 2))},
        {"ditto": base},
    ):
        reason = judged(tables, AUROC).reason
        assert (
            "AUROC" in reason
            and "accuracy" not in reason
            and "points" not in reason
            and " %" not in reason.replace("95 %", "")
        )


def test_who_is_hurt_and_who_still_learns_by_a_loss() -> None:
    assert hurt({0: 0.5, 1: 0.2}, {0: 0.4, 1: 0.3}, direction=-1) == [0]
    rows = [{"round": r, "personal.split.loss.mean": 1.0 - 0.05 * r} for r in range(1, 11)]
    gained = climb(rows, MetricName("personal", "split", "loss", "mean"), -1)
    assert gained == pytest.approx(0.1)
    assert (
        still_learning({"fedavg": gained}, LOSS)[0].startswith("Still learning")
        and "point" not in still_learning({"fedavg": gained}, LOSS)[0]
    )


# ---------------------------------------------------------------- one definition of a word


def test_the_worst_client_is_that_of_a_run() -> None:
    """As in tables of runs, `minimum` of each: their mean over seeds is the number of a comparison."""
    table = np.array([[0.5, 0.9], [0.8, 0.4], [0.7, 0.7]])
    assert worst_of(table, ACCURACY) == pytest.approx((0.5 + 0.4) / 2)
    assert worst_of(table, LOSS) == pytest.approx((0.8 + 0.9) / 2)


def test_clients_are_counted_in_whole_numbers() -> None:
    assert (counted([1.0, 0.0, 1.0]), counted([39.0, 39.0])) == ("0 to 1", "39")


def test_classes_that_are_numbers_are_called_so(capsys: pytest.CaptureFixture[str]) -> None:
    client = {"id": 0, "name": "0", "domain": None, "train": 3, "val": 0, "test": 2, "new": False, "counts": [4, 1]}
    Console(width=80).print(partition([client], 2, ("0", "1")))
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["class", "class"] and lines[1] == ["client", "0", "1", "train", "test", "total"]


def test_a_constant_answer_is_no_better_by_class() -> None:
    """On a common test set with a rare class, a model that never says it has the share of the others, not more."""
    counts, client = torch.tensor([808, 192]), torch.tensor([404, 96])
    right = torch.tensor([808, 0])
    assert ScoringSettings().class_weights == "count_corrected"
    assert class_weighted(right, counts, client, corrected=True) == pytest.approx(0.808)
    printed = class_weighted(right, counts, client)  # Eq. 20 as printed weighs rows that are rare already
    assert printed is not None and printed > 0.94


def test_a_metric_in_a_unit_of_its_own_has_a_margin_of_its_size() -> None:
    """Three parts in a hundred of the best mean: of an error of 2000 euros that is 60."""
    table = np.array([[2000.0, 2010.0], [1990.0, 2000.0]])
    ran = [Ran((Path(name),), of, None, None, None, 1.0, None, {}) for name, of in (("a", table), ("b", 2 * table))]
    assert margin_in_its_unit(ran, METRICS["rmse"]) == pytest.approx(60)
    assert margin_of(replace(METRICS["rmse"], margin=60.0)) == "60"
    assert (written(2013.4, METRICS["rmse"]), points(-61.25, METRICS["rmse"])) == ("2013", "−61.2")
