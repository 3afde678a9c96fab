"""Tuning: what is tried, on which data, and that a kill changes nothing."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from motet.cli import main
from motet.config.data_section import DataSettings
from motet.config.experiment import Experiment
from motet.config.section import checked, values_to_try
from motet.config.short_names import choose
from motet.data import Federation, build
from motet.errors import MotetError
from motet.methods.registry import METHODS
from motet.metrics.names import MetricName
from motet.metrics.wording import choices
from motet.runs.record import Record
from motet.runs.run import run
from motet.server import assembly
from motet.studies import tuning
from motet.studies.job import Job, perform
from motet.studies.schedule import work_off
from motet.studies.space import expression, first_setting, settings_in, size_of, space_of, with_setting
from motet.studies.study_methods import prepare_methods, simplicity_of
from motet.studies.tuning import Trial, rounds_of, rungs, tune, validating

TINY = {"data": "digits", "subset": 0.3, "clients": 4, "rounds": 4, "epochs": 1, "batch": 20, "net": "mlp"}


class Nobody:
    """Looks on at nothing."""

    def expect(self, rounds: int) -> None: ...
    def began(self, job: Job) -> None: ...
    def round(self, job: Job, round: int) -> None: ...
    def ended(self, job: Job, failure: str | None) -> None: ...


SCORE = MetricName("personal", "validation", statistic="mean")


def method(method: str, **more: Any) -> Experiment:
    return prepare_methods([method], choose({**TINY, **more})).methods[0].experiment


def tuned(experiment: Experiment, trials: int, folder: Path, jobs: int = 1) -> tuning.Tuned:
    return work_off({"it": tune(validating(experiment), trials, folder, "it")}, jobs, Nobody())["it"]


# ---------------------------------------------------------------- the space


def test_every_value_that_is_tried_is_accepted() -> None:
    declared = 0
    for entry in METHODS.values():
        for name, info in entry.options.model_fields.items():
            for value in values_to_try(info):
                assert getattr(checked(entry.options, {name: value}, entry.name), name) == value
                declared += 1
    assert declared > 50


def test_the_learning_rate_is_in_every_space() -> None:
    assert set(space_of(choose({**TINY, "method": "fedavg"}))) == {"local.lr"}
    assert set(space_of(choose({**TINY, "method": "ditto"}))) == {"ditto.lam", "local.lr"}
    assert set(space_of(choose({**TINY, "method": "fedprox+ft"}))) == {"fedprox.mu", "ft.lr", "local.lr"}


def test_what_stands_in_brackets_is_not_tuned() -> None:
    assert set(space_of(choose({**TINY, "method": "ditto(lam=0.5)"}))) == {"local.lr"}
    chosen = with_setting(choose({**TINY, "method": "ditto(lam=0.5)"}), {"local.lr": 0.1})
    assert (chosen.method, chosen.local.lr) == ("ditto(lam=0.5)", 0.1)


def test_settings_become_experiments() -> None:
    setting = {"fedprox.mu": 0.001, "ft.epochs": 1, "ft.lr": 0.1, "local.lr": 0.03}
    chosen = with_setting(choose({**TINY, "method": "fedprox+ft"}), setting)
    assert chosen.method == "fedprox(mu=0.001)+ft(epochs=1, lr=0.1)"
    assert chosen.local.lr == 0.03
    assert expression("superfed-mm", {"superfed-mm.nu": 2.0}) == "superfed-mm(nu=2.0)"


def test_the_first_setting_is_the_defaults() -> None:
    experiment = choose({**TINY, "method": "superfed-mm", "lr": 0.02})
    first = first_setting(space_of(choose({**TINY, "method": "superfed-mm"})), experiment)
    assert first["superfed-mm.nu"] == 1.0
    assert first["local.lr"] == 0.02
    assert first["superfed-mm.lambda_eval"] == "common_validation"  # the one value that is tried


def test_settings_of_a_space() -> None:
    space = {"a": (1, 2), "b": (3, 4, 5)}
    assert size_of(space) == len(list(settings_in(space))) == 6


# ---------------------------------------------------------------- drawing


def draws(seed: int, many: int, scores: Sequence[float] = (), method: str = "pgfed") -> list[dict[str, Any]]:
    experiment = choose({**TINY, "method": method, "seed": seed})
    space = space_of(experiment)
    trials: list[Trial] = []
    for number in range(many):
        trials.append(Trial(number, tuning._draw(space, experiment, trials, len(scores))))
        if number < len(scores):
            trials[-1].score, trials[-1].rounds = scores[number], 4
    return [trial.setting for trial in trials]


def test_draws_are_of_the_seed_and_never_twice() -> None:
    first = draws(0, 8)
    assert first == draws(0, 8)
    assert first != draws(1, 8)
    assert all(first.count(setting) == 1 for setting in first)


def test_every_method_tries_the_same_learning_rates_first() -> None:
    drawn = {method: draws(0, 6, method=method) for method in ("pgfed", "fedavg+ft", "superfed-mm")}
    for settings in drawn.values():
        assert [setting["local.lr"] for setting in settings] == [0.01, 0.03, 0.003, 0.01, 0.03, 0.1]
    assert [setting["pgfed.mu"] for setting in drawn["pgfed"][:3]] == [0.1] * 3  # its default
    assert {setting["pgfed.mu"] for setting in drawn["pgfed"][3:]} != {0.1}


def test_a_small_space_is_tried_whole() -> None:
    experiment = choose({**TINY, "method": "fedavg"})
    space = {"local.lr": (0.01, 0.1)}
    before = [Trial(0, {"local.lr": 0.01})]
    assert tuning._draw(space, experiment, before, 0) == {"local.lr": 0.1}


# ---------------------------------------------------------------- halving


@pytest.mark.parametrize(("rounds", "expected"), [(20, [5, 10, 20]), (10, [2, 4, 10]), (4, [1, 2, 4]), (1, [1])])
def test_rungs(rounds: int, expected: list[int]) -> None:
    assert rungs(rounds) == expected


def test_rounds_of_a_tuning() -> None:
    assert rounds_of(5, 20) == 5 * 5 + 3 * 5 + 2 * 10
    assert rounds_of(1, 20) == 20


def test_worse_trials_stop_and_the_best_is_chosen(tmp_path: Path) -> None:
    found = tuned(method("fedavg"), 4, tmp_path)
    assert sorted(trial.rounds for trial in found.trials) == [1, 1, 4, 4]
    best = max((trial for trial in found.trials if trial.rounds == 4), key=lambda trial: trial.score or 0)
    assert found.setting == best.setting
    for trial in found.trials:
        rows = Record(tmp_path / f"trial-{trial.number}").rounds
        assert [row["round"] for row in rows] == list(range(1, trial.rounds + 1))
        assert trial.score == SCORE.of(rows[-1])
    at_first = {t.number: SCORE.of(Record(tmp_path / f"trial-{t.number}").rounds[0]) for t in found.trials}
    stopped = [at_first[t.number] for t in found.trials if t.rounds == 1]
    went_on = [at_first[t.number] for t in found.trials if t.rounds > 1]
    assert max(stopped) <= min(went_on)  # type: ignore[type-var]


def test_a_trial_that_goes_on_is_the_run_in_one_piece(tmp_path: Path) -> None:
    experiment = validating(method("superfed-mm"))  # whose rounds depend on how many there will be
    for until in (1, 2, None):
        perform(Job("in pieces", tmp_path / "pieces", experiment, until), lambda round: None)
    perform(Job("at once", tmp_path / "whole", experiment), lambda round: None)
    pieces, whole = (Record(tmp_path / name).rounds for name in ("pieces", "whole"))
    assert [timeless(row) for row in pieces] == [timeless(row) for row in whole]


def timeless(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if not name.endswith("seconds")}


class Killed(BaseException):
    """Like a kill: nobody catches it."""


class KilledAfter(Nobody):
    """Ends everything after so many rounds."""

    def __init__(self, rounds: int):
        self.rounds = rounds

    def round(self, job: Job, round: int) -> None:
        self.rounds -= 1
        if self.rounds < 0:
            raise Killed


def test_killed_twice_and_begun_again_it_finds_the_same(tmp_path: Path) -> None:
    experiment = validating(method("ditto"))
    straight = tuned(experiment, 4, tmp_path / "straight")
    for rounds in (3, 2):
        with pytest.raises(Killed):
            work_off({"it": tune(experiment, 4, tmp_path / "killed", "it")}, 1, KilledAfter(rounds))
        with (tmp_path / "killed" / "trials.jsonl").open("a") as journal:
            journal.write('{"half a li')
    again = work_off({"it": tune(experiment, 4, tmp_path / "killed", "it")}, 1, Nobody())["it"]
    assert again == straight
    journals = [(tmp_path / name / "trials.jsonl").read_text() for name in ("straight", "killed")]
    assert journals[0] == journals[1]


# ---------------------------------------------------------------- no test data


def with_a_leak(settings: DataSettings, seed: int) -> Federation:
    """The same federation, with test labels that are others and can be read off the samples."""
    federation = build(settings, seed)
    for test in (federation.test, *(client.test for client in federation.clients)):
        assert test is not None and len(test)
        test.y[:] = (test.y + 1) % federation.classes
        flat = test.x.view(len(test), -1)
        flat[:] = 0
        flat[range(len(test)), test.y] = 16
    return federation


def test_tuning_never_sees_test_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment, leaking = method("superfed-mm"), []
    honest = tuned(experiment, 4, tmp_path / "honest")

    def leak(settings: DataSettings, seed: int) -> Federation:
        leaking.append(settings.name)
        return with_a_leak(settings, seed)

    monkeypatch.setattr(assembly, "build", leak)
    assert tuned(experiment, 4, tmp_path / "leaking") == honest
    assert leaking
    tested = [Record(run(experiment, tmp_path / "tested-leak"))]  # the leak would be seen where test data are
    monkeypatch.undo()
    tested.append(Record(run(experiment, tmp_path / "tested")))
    assert tested[0].summary.personal.weighted != tested[1].summary.personal.weighted


def test_a_trial_has_no_figure_of_test_data(tmp_path: Path) -> None:
    experiment = method("fedrod", new_clients=0.25)
    perform(Job("it", tmp_path / "it", validating(experiment)), lambda round: None)
    record = Record(tmp_path / "it")
    figures = {
        name: figure for row in (*record.rounds, *record.clients) for name in row if (figure := MetricName.read(name))
    }
    there = {
        f.data for name, f in figures.items() if any(f.of(row) is not None for row in record.rounds + record.clients)
    }
    assert there == {"validation"}
    assert not any(row["new"] for row in record.clients)
    assert record.summary.reported.figure == "personal.validation.accuracy.mean"
    assert record.summary.generic.accuracy is None


# ---------------------------------------------------------------- who takes part


def test_how_simple_methods_are() -> None:
    order = ["local", "fedavg", "fedavg+ft", "fedper"]
    assert [simplicity_of(method) for method in order] == [0, 1, 2, 3]
    assert simplicity_of("fedprox+scaffold") == 1
    assert simplicity_of("fedavg+dbe") == simplicity_of("pgfed") == simplicity_of("fedrod+ft") == 3


def test_one_model_for_all_is_the_one_that_is_served() -> None:
    assert method("fedavg").scoring.personal_model == "global_plus_personal"
    assert method("pgfed").scoring.personal_model == "last_participation"


def test_a_method_that_cannot_run_is_left_out_with_its_sentence() -> None:
    field = prepare_methods(["fedavg", "fedbn", "superfed-mm(lambda_eval=oracle)"], choose(TINY))
    assert [each.name for each in field.methods] == ["fedavg"]
    assert "BatchNorm" in field.left_out["fedbn"] or "normaliz" in field.left_out["fedbn"]
    assert "by test data" in field.left_out["superfed-mm(lambda_eval=oracle)"]


@pytest.mark.parametrize(
    ("methods", "more", "sentence"),
    [
        (["fedavgg"], {}, "did you mean 'fedavg'"),
        (["fedavg", "fedavg"], {}, "named twice"),
        (["fedavg"], {"data": "nothing.npz"}, "nothing.npz"),
    ],
)
def test_mistakes_of_the_user_end_it_all(methods: list[str], more: dict[str, Any], sentence: str) -> None:
    with pytest.raises(MotetError, match=sentence):
        prepare_methods(methods, choose({**TINY, **more}))


# ---------------------------------------------------------------- the command


def words(folder: Path, *more: str) -> list[str]:
    flags = [word for name, value in TINY.items() if name != "data" for word in (f"--{name}", str(value))]
    return [
        "tune",
        "digits",
        *flags,
        "--methods",
        "fedavg,ditto(lam=0.5)",
        "--trials",
        "2",
        "--out",
        str(folder),
        *more,
    ]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words(tmp_path / "t", "--jobs", "1", "--json")) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [found["method"] for found in result["methods"]] == ["fedavg", "ditto(lam=0.5)"]
    for found in result["methods"]:
        assert 0 < found["score"] <= 1
        assert len(found["trials"]) == 2
        assert (tmp_path / "t" / found["experiment"]).is_file()
    assert main(words(tmp_path / "t", "--jobs", "1")) == 0  # again, at once
    assert "fedavg" in capsys.readouterr().out
    assert main([*words(tmp_path / "t"), "--trials", "3"]) == 2
    assert "trials: 2 there, 3 here" in capsys.readouterr().err


@pytest.mark.slow
def test_several_processes_find_the_same(tmp_path: Path) -> None:
    experiment = validating(method("fedavg"))
    one, two = (tuned(experiment, 2, tmp_path / str(jobs), jobs) for jobs in (1, 2))
    assert one == two


def test_a_zero_that_stands_for_another_field_is_shown_as_it() -> None:
    assert choices({"ft.lr": 0.0, "local.lr": 0.03}) == "ft.lr=adapt.lr, local.lr=0.03"
    assert choices({"ft.lr": 0.1, "fedprox.mu": 0}) == "lr=0.1, mu=0"
