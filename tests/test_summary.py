"""Which round is reported, and how the summary names what it says."""

from typing import Any

import pytest

from motet.config.scoring_section import ScoringSettings
from motet.errors import MotetError
from motet.runs.summary import reported, summarize
from motet.server.assembly import assemble
from motet.server.evaluation import Row
from motet.testing.twin import play, tiny

# ---------------------------------------------------------------- which round


G, W, V, S = (
    "generic.common.accuracy.pooled",
    "personal.weighted.accuracy.mean",
    "personal.validation.accuracy.mean",
    "personal.split.accuracy.mean",
)
BY_SAMPLES = "personal.split.accuracy.by_samples"


def rounds(*figures: dict[str, float | None]) -> list[Row]:
    plain = {G: 0.5, "set_aside": {}, "bytes_down": 1, "bytes_up": 2}
    return [{"round": i, **plain, **figure} for i, figure in enumerate(figures, 1)]


THREE = rounds(
    {W: 0.2, V: 0.9, S: 0.8, BY_SAMPLES: 0.1, G: 0.4, "generic.validation.accuracy.mean": 0.1},
    {W: 0.7, V: 0.3, S: 0.4, BY_SAMPLES: 0.6, G: 0.5, "generic.validation.accuracy.mean": 0.3},
    {W: 0.6, V: 0.4, S: 0.5, BY_SAMPLES: 0.5, G: 0.6, "generic.validation.accuracy.mean": 0.2},
)


def asked(report: str, test: str = "common", weighting: str = "uniform") -> ScoringSettings:
    return ScoringSettings.model_validate({"report": report, "test": test, "client_weighting": weighting})


@pytest.mark.parametrize(
    ("rule", "test", "weighting", "round", "generic"),
    [
        ("last", "common", "uniform", 3, 3),
        ("best", "common", "uniform", 2, 3),
        ("best", "split", "uniform", 1, 3),
        ("best", "split", "by_samples", 2, 3),
        ("best_on_validation", "common", "uniform", 1, 2),
        ("best_on_validation", "split", "uniform", 1, 2),
    ],
)
def test_each_model_has_its_own_reported_round(rule: str, test: str, weighting: str, round: int, generic: int) -> None:
    scoring = asked(rule, test, weighting)
    assert reported(THREE, scoring, "personal")["round"] == round
    assert reported(THREE, scoring, "generic")["round"] == generic


def test_rounds_that_were_not_scored_are_not_reported() -> None:
    unscored: list[Row] = [{"round": 9, "set_aside": {}, "fedbasis_cosine": 0.5}]
    assert reported([*THREE, *unscored], asked("last"), "personal")["round"] == 3


def test_the_earliest_of_equals_and_a_model_without_figures_goes_with_the_other() -> None:
    rows = rounds({W: None, G: 0.1}, {W: None, G: 0.3}, {W: None, G: 0.3})
    assert reported(rows, asked("best"), "personal")["round"] == 2
    rows = rounds({W: 0.2, G: None}, {W: 0.7, G: None}, {W: 0.6, G: None})
    assert reported(rows, asked("best"), "generic")["round"] == 2


def test_a_best_figure_names_its_own_round() -> None:
    """Where the best generic and the best personal models are of different rounds, each has its own and says so."""
    experiment = tiny("fedavg", scoring={"report": "best", "every": 1})
    rows = [row | {"lr": 0.1} for row in THREE]
    summary = summarize(experiment, assemble(experiment).method, rows, {}, 1.0).model_dump()
    assert summary["reported"]["rounds"] == {"generic": 3, "personal": 2} and summary["reported"]["round"] == 2
    assert (summary["generic"]["accuracy"], summary["personal"]["weighted"]["personal_models"]) == (0.6, 0.7)
    assert (summary["figures"][G], summary["figures"][S]) == (0.6, 0.4)


@pytest.mark.parametrize("source", ["final_sync", "last_participation,final_sync"])
@pytest.mark.parametrize("report", ["best", "best_on_validation"])
def test_a_best_round_that_was_never_synced_is_refused(report: str, source: str) -> None:
    with pytest.raises(MotetError) as error:
        assemble(tiny("fedavg", scoring={"report": report, "personal_model": source}))
    assert str(error.value) == (
        f"scoring.report is {report!r} but scoring.personal_model has 'final_sync', which trains everybody once more "
        "after the last round alone; accepted: report = 'last', or another personal_model"
    )


def test_best_on_validation_never_looks_at_test_data() -> None:
    experiment = tiny("fedavg", scoring={"report": "best_on_validation", "every": 1}, rounds={"count": 4})
    played = play(experiment)
    chosen = summarize(experiment, played.assembly.method, played.rows, {}, 1.0).reported.round
    liars = [row | {W: 1.0 - row[W], S: 0.0, G: 1.0 - row[G]} for row in played.rows]
    assert summarize(experiment, played.assembly.method, liars, {}, 1.0).reported.round == chosen
    validation = [row[V] for row in played.rows]
    assert chosen == validation.index(max(validation)) + 1


def test_best_on_a_test_set_that_is_not_scored_every_time_is_refused() -> None:
    with pytest.raises(MotetError) as error:
        assemble(tiny("fedavg", scoring={"report": "best", "common_test": "last"}))
    assert str(error.value) == (
        "scoring.report is 'best' on the common test set but scoring.common_test is 'last'; "
        "accepted: common_test = 'always', or report = 'last' or 'best_on_validation'"
    )


def test_the_common_test_set_in_the_last_round_alone() -> None:
    always, last = (play(tiny("fedavg", scoring={"common_test": choice, "every": 1})) for choice in ("always", "last"))
    assert [row[W] for row in last.rows[:-1]] == [None, None]
    assert all(row[S] is not None for row in last.rows)
    assert last.timeless()[-1] == always.timeless()[-1]


# ---------------------------------------------------------------- the summary


@pytest.mark.parametrize(
    ("choices", "data", "over"),
    [
        ({"test": "common", "client_weighting": "uniform"}, "weighted", "mean"),
        ({"test": "split", "client_weighting": "by_samples"}, "split", "by_samples"),
    ],
)
def test_the_summary_says_what_it_reports(choices: dict[str, Any], data: str, over: str) -> None:
    experiment = tiny("fedavg", scoring=choices)
    played = play(experiment)
    summary, row = (
        summarize(experiment, played.assembly.method, played.rows, played.new.figures, 2.5).model_dump(),
        played.rows[-1],
    )
    assert summary["reported"]["headline"] == f"personal.{data}.personal_models"
    assert summary["reported"]["figure"] == f"personal.{data}.accuracy.{over}" and summary["reported"]["round"] == 3
    assert summary["generic"] == {"accuracy": row[G], "derived": False}
    for kind in ("weighted", "split", "validation"):
        for model, name in (("generic", "generic_model"), ("personal", "personal_models")):
            assert summary["personal"][kind][name] == row[f"{model}.{kind}.accuracy.{over}"] is not None
    new = {model: played.new.figures[f"{model}.{data}.accuracy.{over}"] for model in ("before", "after")}
    assert summary["new_clients"] == new
    for statistic in ("std", "minimum", "worst_tenth", "hurt", "hurt_clients"):
        assert summary["personal"][statistic] == row[f"personal.{data}.accuracy.{statistic}"] is not None
    there = {
        n: v for n, v in (row | played.new.figures).items() if v is not None and (".accuracy." in n or ".loss." in n)
    }
    assert summary["figures"] == there and "personal.common.accuracy.mean" in there
    assert summary["bytes_per_round"] == {
        "down": sum(r["bytes_down"] for r in played.rows) / 3,
        "up": sum(r["bytes_up"] for r in played.rows) / 3,
    }
    assert (summary["rounds"], summary["seconds"], summary["set_aside"]) == (3, 2.5, 0)


def test_what_does_not_exist_is_null() -> None:
    experiment = tiny("local", data={"new_clients": 0.0, "val_share": 0.0})
    played = play(experiment)
    summary = summarize(experiment, played.assembly.method, played.rows, played.new.figures, 1.0).model_dump()
    assert summary["generic"]["accuracy"] is None
    assert summary["personal"]["weighted"]["generic_model"] is None
    assert summary["personal"]["validation"] == {"generic_model": None, "personal_models": None}
    assert summary["new_clients"] == {"before": None, "after": None}
    assert summary["personal"]["weighted"]["personal_models"] is not None
    pooled = play(tiny("centralized"))
    summary = summarize(pooled.assembly.experiment, pooled.assembly.method, pooled.rows, {}, 1.0).model_dump()
    assert summary["bytes_per_round"] == {"down": None, "up": None}


@pytest.mark.parametrize(
    ("method", "asked", "said"),
    [
        ("fedavg", "last_participation", "last_participation"),
        ("superfed-mm", "last_participation", "global_plus_personal"),
        ("fedbasis", "last_participation", "global_plus_personal"),
        ("fedavg+ft", "last_participation", "global_plus_personal"),
        ("superfed-mm", "final_sync", "final_sync"),
        ("fedbasis", "final_sync", "global_plus_personal"),
        ("fedavg", "global_plus_personal,last_participation", "global_plus_personal"),
    ],
)
def test_the_summary_says_which_personal_models_were_scored(method: str, asked: str, said: str) -> None:
    experiment = tiny(method, scoring={"personal_model": asked})
    assembly = assemble(experiment)
    assert assembly.method.reading(assembly.experiment.scoring.readings[0]) == said
