"""What may be chance: intervals, corrections, and the recommendation that follows from them."""

from typing import Any

import numpy as np
import pytest

from motet.metrics.names import PERSONAL, MetricName
from motet.metrics.statistics import CONTROL, Table, accuracy, differences, estimate, holm
from motet.studies.recommend import Candidate, Recommendation, hurt, hurt_sentence, recommend, still_learning
from motet.studies.results import climb


def table(mean: float, clients: int = 20, seeds: int = 3, spread: float = 0.02, seed: int = 0) -> Table:
    return mean + spread * np.random.default_rng(seed).normal(size=(clients, seeds))


# ---------------------------------------------------------------- intervals


@pytest.mark.parametrize(
    ("clients", "seeds", "of_clients", "of_seeds"), [(5, 3, 1.0, 0.2), (20, 3, 0.3, 1.0), (20, 1, 1, 0)]
)
def test_nineteen_of_twenty_intervals_hold_the_truth(
    clients: int, seeds: int, of_clients: float, of_seeds: float
) -> None:
    rng, held, many = np.random.default_rng(1), 0, 600
    for _ in range(many):
        values = of_clients * rng.normal(size=(clients, 1)) + of_seeds * rng.normal(size=(1, seeds))
        found = estimate(values + 0.3 * rng.normal(size=(clients, seeds)))
        assert found.low is not None and found.high is not None
        held += found.low <= 0 <= found.high
    assert 0.92 < held / many < 0.99


def test_interval_and_p_agree() -> None:
    for mean in (0.0, 0.005, 0.01, 0.02):
        found = estimate(table(mean, spread=0.03, seed=3))
        assert found.low is not None and found.high is not None and found.p is not None
        assert (found.p < 0.05) == (not found.low <= 0 <= found.high)


def test_clients_and_seeds_both_add_to_the_variance() -> None:
    of_clients, of_seeds = np.linspace(-1, 1, 8)[:, None], np.linspace(-0.8, 0.8, 5)[None, :]
    by_hand = sum(float(each.var(ddof=1)) / each.size for each in (of_clients, of_seeds))

    def width(values: Table) -> float:
        found = estimate(values)
        assert found.low is not None and found.high is not None
        return found.high - found.low

    both = width(of_clients + of_seeds) / 2 / np.sqrt(by_hand)
    assert 2.1 < both < 2.35  # Student's with about ten degrees of freedom: 2.2


def test_it_is_the_same_every_time() -> None:
    assert estimate(table(0.1)) == estimate(table(0.1))


def test_without_variation() -> None:
    assert estimate(np.zeros((5, 3))).p == 1.0
    assert estimate(np.full((5, 3), 0.1)).p == 0.0
    assert estimate(np.array([[0.7]])).interval is None  # one client, one seed: nothing is known of chance


def test_accuracies_stay_within_their_bounds() -> None:
    found = accuracy(np.array([[1.0, 1.0], [0.9, 1.0], [1.0, 0.95]]))
    assert found.high == 1.0 and found.low is not None and found.low < found.mean


def test_holm() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]


def test_differences_are_paired() -> None:
    clients = np.random.default_rng(0).uniform(0.3, 0.9, (20, 1))  # who differ far more than the methods do
    a, b = clients + table(0.02, spread=0.005), clients + table(0.0, spread=0.005, seed=1)
    found = differences({"a": a, "b": b})
    assert found.certain("a", "b") and found.certain("b", "a")
    assert found.of("b", "a").mean == -found.of("a", "b").mean
    assert found.of("b", "a").low == -found.of("a", "b").high  # type: ignore[operator]


def test_a_control_that_was_named_before_is_compared_with_fewer() -> None:
    tables = {CONTROL: table(0.0)} | {f"m{i}": table(0.0, seed=i + 1) for i in range(8)}
    tables["m0"] = tables["m0"] + 0.0115
    alone, among = differences(tables), differences(tables, "nobody")
    pair = (CONTROL, "m0")
    assert alone.adjusted[pair] < among.adjusted[pair]


# ---------------------------------------------------------------- the recommendation


def recommended(tables: dict[str, Table], simplicity: dict[str, int] | None = None) -> Recommendation:
    order = {"local": 0, "fedavg": 1, CONTROL: 2} | (simplicity or {})
    candidates = [Candidate(name, accuracy(of), order.get(name, 3), 1e6) for name, of in tables.items()]
    return recommend(candidates, differences(tables, CONTROL))


def test_a_winner() -> None:
    found = recommended(
        {"local": table(0.6), "fedavg": table(0.7, seed=1), CONTROL: table(0.8, seed=2), "x": table(0.9, seed=3)}
    )
    assert (found.method, found.certain) == ("x", True)
    assert "more than chance" in found.reason and f"Against fine-tuning ({CONTROL})" in found.reason


def test_the_simplest_of_equals() -> None:
    found = recommended(
        {"local": table(0.6), "fedavg": table(0.8, seed=1), CONTROL: table(0.8, seed=2), "x": table(0.802, seed=3)}
    )
    assert (found.method, found.certain) == ("fedavg", False)
    assert set(found.may_be_equal) == {"fedavg", CONTROL, "x"}
    assert f"No method beats fine-tuning ({CONTROL})" in found.reason


def test_a_small_lead_that_is_sure_counts() -> None:
    found = recommended({"local": table(0.80, spread=0.001), "x": table(0.81, spread=0.001, seed=1)})
    assert (found.method, found.certain, found.may_be_equal) == ("x", True, ("x",))


def test_fine_tuning_may_be_the_answer() -> None:
    found = recommended(
        {"local": table(0.6), "fedavg": table(0.7, seed=1), CONTROL: table(0.85, seed=2), "x": table(0.85, seed=3)}
    )
    assert found.method == CONTROL
    assert "No method beats fine-tuning" in found.reason


def test_where_all_are_equal_there_is_no_winner() -> None:
    for seed in range(20):
        tables = {
            name: table(0.5, seed=100 * seed + i) for i, name in enumerate(("local", "fedavg", CONTROL, "x", "y", "z"))
        }
        assert not recommended(tables).certain
    assert "No winner" in recommended({"local": table(0.5), "fedavg": table(0.5, seed=1)}).reason


def test_few_clients_do_not_make_everything_equal() -> None:
    """A gap of ten points may be chance with three clients; that is no reason to take the worse one."""
    worse = np.array([[0.9, 0.9], [0.6, 0.6], [0.6, 0.6]])
    found = recommended({"local": worse, "x": worse + np.array([[0.0], [0.1], [0.2]])})
    assert (found.method, found.certain) == ("x", False)
    assert "may be chance" in found.reason


def candidates(tables: dict[str, Table], **more: dict[str, Any]) -> list[Candidate]:
    order = {"local": 0, "fedavg": 1, CONTROL: 2}
    return [Candidate(n, accuracy(of), order.get(n, 3), 1e6, **more.get(n, {})) for n, of in tables.items()]


def test_enough_evidence_is_a_narrow_interval_or_a_certain_winner() -> None:
    tight = {"fedavg": table(0.8), CONTROL: table(0.8, seed=1)}
    assert recommended(tight).enough_evidence and "Not enough evidence" not in recommended(tight).reason
    wide = {"fedavg": table(0.8, clients=4, spread=0.1), CONTROL: table(0.8, clients=4, spread=0.1, seed=1)}
    found = recommended(wide)
    assert not found.enough_evidence and not found.certain
    assert found.reason.startswith(f"Not enough evidence: fedavg may be more than 3 points better than {CONTROL}")
    assert recommended({"local": table(0.5), "x": table(0.9, seed=1)}).enough_evidence


def test_without_enough_evidence_the_loss_decides_among_simple_methods() -> None:
    names = ("local", "fedavg", CONTROL, "x")
    tables = {name: table(0.8, clients=4, spread=0.1, seed=seed) for seed, name in enumerate(names)}

    def found(rows: float, *losses: float, means: dict[str, Table] = tables, **more: Any) -> Recommendation:
        known = {name: {"loss": loss, **more.get(name, {})} for name, loss in zip(names, losses, strict=True)}
        return recommend(candidates(means, **known), differences(means), rows)

    tuned = found(200, 0.53, 0.52, 0.51, 0.40)  # x has the lowest, but is not simple
    assert (tuned.method, tuned.enough_evidence, tuned.certain) == (CONTROL, False, False)
    assert f"the lowest loss on the test rows ({CONTROL} 0.510, fedavg 0.520, local 0.530)" in tuned.reason
    assert found(200, 0.50, 0.52, 0.51, 0.40).method == "local"
    assert found(10, 0.50, 0.51, 0.52, 0.40).method == "fedavg"  # not local: clients have too few rows
    assert found(200, 0.50, 0.52, 0.51, 0.40, local={"failed": True}).method == CONTROL
    far = tables | {CONTROL: tables[CONTROL] - 0.05}  # five points behind, be it by chance
    assert found(200, 0.53, 0.52, 0.51, 0.40, means=far).method == "fedavg"
    sure = {name: table(0.8, seed=seed) for seed, name in enumerate(names)}  # nobody may be much better: the simplest
    assert found(200, 0.500, 0.499, 0.498, 0.497, means=sure).method == "local"


def test_of_numbers_without_enough_evidence_the_best_simple_mean_is_taken() -> None:
    tables = {name: table(0.8, clients=4, spread=0.1, seed=seed) for seed, name in enumerate(("local", "fedavg", "x"))}
    shifted = tables | {"fedavg": tables["local"] + 0.005}
    found = recommend(candidates(shifted), differences(shifted), 200)
    assert found.method == "fedavg" and not found.enough_evidence
    assert "the best of the simple methods" in found.reason


def test_who_trained_longer_is_not_better_for_that() -> None:
    tables = {"fedavg": table(0.80), CONTROL: table(0.88, seed=1)}
    done = recommend(candidates(tables), differences(tables))
    assert (done.method, done.certain) == (CONTROL, True)
    learning = recommend(candidates(tables, fedavg={"climb": 0.06}), differences(tables))
    assert (learning.method, learning.certain, learning.enough_evidence) == ("fedavg", False, False)
    assert "fedavg was still learning when its rounds ended" in learning.reason
    assert "gained +6.0 points in the last fifth" in learning.reason
    both = candidates(tables, fedavg={"climb": 0.06}, **{CONTROL: {"climb": 0.04}})  # the gap stays
    assert recommend(both, differences(tables)).method == CONTROL
    far = {"fedavg": table(0.40), CONTROL: table(0.88, seed=1)}
    assert recommend(candidates(far, fedavg={"climb": 0.03}), differences(far)).method == CONTROL
    alone = {"local": table(0.80), "fedavg": table(0.88, seed=1)}  # nobody is asked to wait for it
    assert recommend(candidates(alone, local={"climb": 0.05}), differences(alone)).method == "fedavg"
    swapped = {"fedavg": table(0.88), CONTROL: table(0.80, seed=1)}  # the simpler one leads: nothing to be unfair to
    assert recommend(candidates(swapped, **{CONTROL: {"climb": 0.03}}), differences(swapped)).method == "fedavg"


def test_learning_alone_wins_ties_only_with_the_rows_for_it() -> None:
    tables = {"local": table(0.800), "fedavg": table(0.801, seed=1)}
    many, few = (recommend(candidates(tables), differences(tables), rows) for rows in (200, 10))
    assert (many.method, few.method) == ("local", "fedavg")
    ahead = {"local": table(0.9), "fedavg": table(0.7, seed=1)}
    assert recommend(candidates(ahead), differences(ahead), 10).method == "local"  # by more than chance


def test_of_methods_that_may_be_equal_those_of_a_low_loss_stand_for_choice() -> None:
    tables = {"local": table(0.800), "fedavg": table(0.801, seed=1), "x": table(0.802, seed=2)}

    def found(**losses: float) -> str:
        of = candidates(tables, **{name: {"loss": loss} for name, loss in losses.items()})
        return recommend(of, differences(tables), 200).method

    assert found(local=0.50, fedavg=0.50, x=0.50) == "local"
    assert found(local=0.60, fedavg=0.505, x=0.50) == "fedavg"  # within two percent of the lowest
    assert found(local=0.60, fedavg=0.56, x=0.50) == "x"
    assert found(local=0.60, fedavg=0.50) == "local"  # one is not known: simplicity alone
    first = {"local": table(0.802, seed=2), "fedavg": table(0.800)}  # the best one stands for choice whatever its loss
    of = candidates(first, local={"loss": 0.6}, fedavg={"loss": 0.5})
    assert recommend(of, differences(first), 200).method == "local"
    ahead = {"local": table(0.9), "fedavg": table(0.7, seed=1)}
    of = candidates(ahead, local={"loss": 0.6}, fedavg={"loss": 0.5})
    assert recommend(of, differences(ahead), 200).method == "local"  # better by the metric


def test_who_failed_is_not_recommended() -> None:
    tables = {"fedavg": table(0.94), "x": table(0.90, seed=1)}
    found = recommend(candidates(tables, fedavg={"failed": True}), differences(tables))
    assert found.method == "x" and found.reason.endswith("Not taken, for they failed: fedavg.")
    assert not found.enough_evidence and found.reason.startswith("Not enough evidence: all other methods failed")
    alone = recommend(candidates(tables, fedavg={"failed": True}, x={"failed": True}), differences(tables))
    assert alone.method == "fedavg"


def test_who_is_hurt() -> None:
    assert hurt({0: 0.5, 1: 0.9, 2: 0.7}, {0: 0.6, 1: 0.9, 2: 1.0}) == [2, 0]
    assert hurt_sentence([], 3, "alone") == "No client would be better off alone."
    names = [f"c{i}" for i in range(10)]
    assert hurt_sentence(names, 12, "alone").endswith("c7 and 2 more.")


# ---------------------------------------------------------------- who is not done


def test_what_was_gained_in_the_last_fifth_of_the_rounds() -> None:
    figure = MetricName(PERSONAL, "split", statistic="mean")
    rows = [
        {"round": r, **({str(figure): v} if v is not None else {})} for r, v in enumerate((0.2, 0.5, None, 0.6, 0.7), 1)
    ]
    assert climb(rows, figure) == pytest.approx(0.1)  # from round 4 to 5
    assert climb([*rows, *({"round": r, str(figure): 0.7} for r in range(6, 11))], figure) == 0
    assert climb([{"round": 5, str(figure): 0.5}, {"round": 10, str(figure): 0.6}], figure) == pytest.approx(0.04)
    assert climb(rows[:1], figure) is None and climb([], figure) is None


def test_who_still_learns_is_named() -> None:
    assert still_learning({"ditto": 0.004, "fedper": None}) == []
    (said,) = still_learning({"ditto": 0.03, "local": 0.0})
    assert "ditto gained more than 1 point" in said and "local" not in said
