"""Adaptation curves of new clients: every point is what a run with that many epochs and that rate scores."""

import pytest
from test_run_metrics import asking, found_in, pictures_of

from motet.errors import MotetError
from motet.metrics.adaptation import Adaptation
from motet.server.assembly import assemble
from motet.testing.twin import play, tiny


@pytest.mark.parametrize("method", ["fedrod", "fedbasis(k=2)", "fedavg+ft", "fedavg+dbe"])
def test_each_point_is_what_a_run_with_those_epochs_scores(method: str) -> None:
    found = found_in(asking(method, "adaptation(epochs=3, every=1, rates=0.01/0.1)", data={"new_clients": 0.4}))
    (curves,) = found.figures_learned
    assert curves.x.ticks == (0, 1, 2, 3) and [s.name for s in curves.series] == [
        "learning rate 0.01",
        "learning rate 0.1",
    ]
    for series, rate, epochs in zip(curves.series, (0.01, 0.1), (1, 3), strict=True):
        figures = play(tiny(method, data={"new_clients": 0.4}, adapt={"epochs": epochs, "lr": rate})).new.figures
        assert series.values[epochs] == pytest.approx(figures["after.weighted.accuracy.mean"], abs=1e-4)
        assert series.values[0] == pytest.approx(figures["before.weighted.accuracy.mean"], abs=1e-4)
    assert found.figures["after.weighted.adaptation_0_1.mean"] == pytest.approx(curves.series[1].values[-1], abs=1e-4)


@pytest.mark.parametrize("method", ["fedbasis(k=2)", "fedavg+lp"])
def test_a_rate_can_be_chosen_on_validation_data(method: str) -> None:
    data = {"new_clients": 0.4, "val_share": 0.3}
    found = found_in(asking(method, "adaptation(epochs=3, every=3, rates=0.001/0.3)", data=data))
    for rate, name in ((0.001, "0_001"), (0.3, "0_3")):
        figures = play(tiny(method, data=data, adapt={"epochs": 3, "lr": rate})).new.figures
        for kind in ("validation", "weighted"):
            expected = pytest.approx(figures[f"after.{kind}.accuracy.mean"], abs=1e-4)
            assert found.figures[f"after.{kind}.adaptation_{name}.mean"] == expected
    without = found_in(asking(method, "adaptation(epochs=1)", data={"new_clients": 0.4, "val_share": 0.0}))
    assert not any("validation" in name for name in without.figures)


def test_on_own_test_data_where_the_headline_is_of_them() -> None:
    found = found_in(asking("fedavg", "adaptation(epochs=1)", scoring={"test": "split"}))
    again = play(tiny("fedavg", adapt={"epochs": 1}, scoring={"test": "split"})).new.figures
    assert pictures_of(found)["adaptation"].series[0].values[1] == pytest.approx(
        again["after.split.accuracy.mean"], abs=1e-4
    )


@pytest.mark.parametrize("method", ["fedavg", "superfed-mm(start=0)"])
def test_a_new_client_is_not_trained_before_its_first_epoch(method: str) -> None:
    scoring = {"personal_model": "final_sync"}
    found = found_in(asking(method, "adaptation(epochs=1)", scoring=scoring))
    again = play(tiny(method, scoring=scoring)).new.figures
    assert found.figures_learned[0].series[0].values[0] == pytest.approx(
        again["before.weighted.accuracy.mean"], abs=1e-4
    )


def test_the_numbers_of_epochs() -> None:
    assert Adaptation().points == [1, 2, 5, 10, 20] and Adaptation(epochs=7).points == [1, 2, 5, 7]
    assert Adaptation(epochs=1).points == [1] and Adaptation(epochs=5, every=2).points == [2, 4, 5]


@pytest.mark.parametrize("metric", ["adaptation(rates=0.1/x)", "adaptation(rates=0)", "adaptation(rates=-1/1)"])
def test_rates_that_are_none_are_refused(metric: str) -> None:
    with pytest.raises(MotetError, match="numbers above 0 with / between them"):
        assemble(tiny("fedavg", scoring={"metrics": (metric,)}))


def test_without_new_clients_it_is_refused() -> None:
    with pytest.raises(MotetError, match=r"there are none; accepted: data\.new_clients above 0"):
        assemble(tiny("fedavg", data={"new_clients": 0.0}, scoring={"metrics": ("adaptation",)}))
