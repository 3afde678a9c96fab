"""Which round is reported, and how the summary names what it says."""

from typing import Any

import pytest

from motet.errors import MotetError
from motet.evaluation import Row
from motet.runs.assembly import assemble
from motet.runs.summary import personal_source, reported, summarize
from motet.testing.twin import play, tiny

# ---------------------------------------------------------------- which round


def rounds(*figures: dict[str, float | None]) -> list[Row]:
    plain = {"generic_accuracy": 0.5, "set_aside": {}, "bytes_down": 1, "bytes_up": 2}
    return [{"round": i, **plain, **figure} for i, figure in enumerate(figures, 1)]


THREE = rounds(
    {"personal_weighted": 0.2, "personal_validation": 0.9, "personal_split": 0.8, "personal_split_by_samples": 0.1},
    {"personal_weighted": 0.7, "personal_validation": 0.3, "personal_split": 0.4, "personal_split_by_samples": 0.6},
    {"personal_weighted": 0.6, "personal_validation": 0.4, "personal_split": 0.5, "personal_split_by_samples": 0.5},
)


@pytest.mark.parametrize(
    ("rule", "test", "tail", "round"),
    [
        ("last", "weighted", "", 3),
        ("best", "weighted", "", 2),
        ("best", "split", "", 1),
        ("best", "split", "_by_samples", 2),
        ("best_on_validation", "weighted", "", 1),
        ("best_on_validation", "split", "", 1),
    ],
)
def test_the_reported_round(rule: str, test: str, tail: str, round: int) -> None:
    assert reported(THREE, rule, test, tail)["round"] == round


def test_rounds_that_were_not_scored_are_not_reported() -> None:
    unscored: list[Row] = [{"round": 9, "set_aside": {}}]
    assert reported([*THREE, *unscored], "last", "weighted", "")["round"] == 3


def test_the_earliest_of_equals_and_the_generic_model_where_there_is_no_personal_one() -> None:
    rows = rounds(
        {"personal_weighted": None, "generic_weighted": 0.1},
        {"personal_weighted": None, "generic_weighted": 0.3},
        {"personal_weighted": None, "generic_weighted": 0.3},
    )
    assert reported(rows, "best", "weighted", "")["round"] == 2


def test_best_on_validation_never_looks_at_test_data() -> None:
    experiment = tiny("fedavg", scoring={"report": "best_on_validation", "every": 1}, rounds={"count": 4})
    played = play(experiment)
    chosen = summarize(experiment, played.assembly.method, played.rows, {}, 1.0)["reported"]["round"]
    liars = [row | {"personal_weighted": 1.0 - row["personal_weighted"], "personal_split": 0.0} for row in played.rows]
    assert summarize(experiment, played.assembly.method, liars, {}, 1.0)["reported"]["round"] == chosen
    validation = [row["personal_validation"] for row in played.rows]
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
    assert [row["personal_weighted"] for row in last.rows[:-1]] == [None, None]
    assert all(row["personal_split"] is not None for row in last.rows)
    assert last.timeless()[-1] == always.timeless()[-1]


# ---------------------------------------------------------------- the summary


@pytest.mark.parametrize(
    ("choices", "headline", "tail"),
    [
        ({"test": "common", "client_weighting": "uniform"}, "personal.weighted.personal_models", ""),
        ({"test": "split", "client_weighting": "by_samples"}, "personal.split.personal_models", "_by_samples"),
    ],
)
def test_the_summary_says_what_it_reports(choices: dict[str, Any], headline: str, tail: str) -> None:
    experiment = tiny("fedavg", scoring=choices)
    played = play(experiment)
    summary, row = summarize(experiment, played.assembly.method, played.rows, played.new.figures, 2.5), played.rows[-1]
    assert summary["reported"]["headline"] == headline and summary["reported"]["round"] == 3
    assert summary["generic"]["accuracy"] == row["generic_accuracy"]
    for kind in ("weighted", "split", "validation"):
        for model, name in (("generic", "generic_model"), ("personal", "personal_models")):
            assert summary["personal"][kind][name] == row[f"{model}_{kind}{tail}"] is not None
    test = headline.split(".")[1]
    assert summary["new_clients"] == {w: played.new.figures[f"{w}_{test}{tail}"] for w in ("before", "after")}
    assert summary["personal"]["std"] == row["personal_std"]
    assert summary["bytes_per_round"] == {
        "down": sum(r["bytes_down"] for r in played.rows) / 3,
        "up": sum(r["bytes_up"] for r in played.rows) / 3,
    }
    assert (summary["rounds"], summary["seconds"], summary["set_aside"]) == (3, 2.5, 0)


def test_what_does_not_exist_is_null() -> None:
    experiment = tiny("local", data={"new_clients": 0.0, "val_share": 0.0})
    played = play(experiment)
    summary = summarize(experiment, played.assembly.method, played.rows, played.new.figures, 1.0)
    assert summary["generic"]["accuracy"] is None
    assert summary["personal"]["weighted"]["generic_model"] is None
    assert summary["personal"]["validation"] == {"generic_model": None, "personal_models": None}
    assert summary["new_clients"] == {"before": None, "after": None}
    assert summary["personal"]["weighted"]["personal_models"] is not None
    pooled = play(tiny("centralized"))
    summary = summarize(pooled.assembly.experiment, pooled.assembly.method, pooled.rows, {}, 1.0)
    assert summary["bytes_per_round"] == {"down": None, "up": None}


@pytest.mark.parametrize(
    ("method", "asked", "said"),
    [
        ("fedavg", "last_participation", "last_participation"),
        ("superfed-mm", "last_participation", "global_plus_personal"),
        ("fedbasis", "last_participation", "global_plus_personal"),
        ("fedavg+ft", "last_participation", "global_plus_personal"),
        ("superfed-mm", "final_sync", "final_sync"),
    ],
)
def test_the_summary_says_which_personal_models_were_scored(method: str, asked: str, said: str) -> None:
    experiment = tiny(method, scoring={"pm_source": asked})
    assert personal_source(experiment.scoring, assemble(experiment).method) == said
