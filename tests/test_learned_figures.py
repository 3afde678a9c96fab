"""What a method learned is recorded as pictures: well-formed, the same everywhere, and never worth a run."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

import motet
from motet.config.experiment import Experiment
from motet.engines import Inline, OneByOne
from motet.errors import MotetError
from motet.messages.message import Message, State, tensor
from motet.messages.task import Outcome, Task
from motet.methods import METHODS
from motet.methods.apfl import APFL
from motet.methods.base import Axis, Learned, LearnedFigure, Part
from motet.methods.base.learned_figure import MOST
from motet.nets import Net
from motet.runs import run as runs
from motet.runs.record import Record
from motet.server.final_evaluation import FinalState
from motet.testing import Fault
from motet.testing.checks import MethodTrial, hands_over_pictures_that_can_be_drawn
from motet.testing.twin import Played, play, tiny

WITH = {  # methods that have pictures, and the names of these
    "fedfomo": ["fedfomo-weights"],
    "pfedhn": ["pfedhn-embeddings"],
    "superfed-mm": ["superfed-line"],
    "fedbasis(k=2)": ["fedbasis-coefficients", "fedbasis-cosines"],
    "fedavg+knn-per": ["knn-per-lambda"],
    "fedrod+pgfed+ft": ["pgfed-weights", "pgfed-alpha-rounds", "pgfed-alpha-samples"],
    "pgfed-exact": ["pgfed-exact-weights"],
    "apfl+prbm+knn-per": ["dbe-features-without-p", "dbe-features-with-p", "apfl-alpha", "knn-per-lambda"],
    "fedavg": [],
}


TRAINING = (0, 2, 3, 4)  # of the tiny federation; client 1 is new


def drawn(played: Played) -> dict[str, LearnedFigure]:
    found = played.assembly.final_evaluation.learned_by_the_method(
        FinalState(played.server, played.progress.round, played.rows)
    )
    return {picture.name: picture for picture in found}


# ---------------------------------------------------------------- the format


def heatmap(**changes: Any) -> dict[str, Any]:
    axis = Axis("client", ("a", "b"))
    return LearnedFigure.heatmap("some", "A title", "See this.", [[1, 2], [3, 4]], x=axis, y=axis).plain() | changes


def lines(**changes: Any) -> dict[str, Any]:
    series = {"one": [1.0, None, 3.0], "two": [1, 2, 3]}
    return (
        LearnedFigure.lines("some", "A title", "See this.", series, x=Axis("round", (1, 2, 3)), y="y").plain() | changes
    )


def points(**changes: Any) -> dict[str, Any]:
    return LearnedFigure.points("some", "T", "See.", torch.eye(2), [0, 1], ["a", "b"]).plain() | changes


@pytest.mark.parametrize("made", [heatmap(), lines(), points()], ids=lambda made: made["kind"])
def test_what_is_written_is_read(made: dict[str, Any]) -> None:
    values = json.loads(json.dumps(made))
    assert json.loads(json.dumps(LearnedFigure.read(values).plain())) == values
    assert ("groups" in values) == (values["kind"] == "points")


@pytest.mark.parametrize(
    "values",
    [
        heatmap(name="../x"),
        heatmap(name=5),
        heatmap(kind="pie"),
        heatmap(kind=[]),
        heatmap(title=""),
        heatmap(see=None),
        heatmap(title="x" * 501),
        heatmap(more=1),
        heatmap(x=None),
        heatmap(x={"label": "a"}),
        heatmap(x={"label": "a", "ticks": ["a"]}),
        heatmap(y={"label": "a", "ticks": "ab"}),
        heatmap(x={"label": "a", "ticks": ["a", None]}),
        heatmap(x={"label": "a", "ticks": ["a", True]}),
        heatmap(series=[]),
        heatmap(series=[{"name": "a"}]),
        heatmap(series=[{"name": "a", "values": 5}]),
        heatmap(series=[{"name": "a", "values": [1, 2]}]),
        heatmap(series=[{"name": "a", "values": [[1, 2], [3, "4"]]}]),
        heatmap(series=[{"name": "a", "values": [[1, 2], [3, True]]}]),
        heatmap(series={"a": 1}),
        lines(series=[{"name": "a", "values": [1, 2]}]),
        lines(series=[{"name": "a", "values": [[1], [2], [3]]}]),
        points(groups=["a"]),
        points(groups=[5, 6]),
        points(series=[{"name": "a", "values": [[1, 2]]}]),
        points(series=[{"name": "a", "values": [[1, 2, 0.5]]}]),
        points(series=[{"name": "a", "values": [[1, 2, -1]]}]),
        [],
        None,
        {},
    ],
)
def test_what_cannot_be_drawn_is_refused_in_a_sentence(values: object) -> None:
    with pytest.raises(MotetError) as error:
        LearnedFigure.read(values)
    assert "\n" not in str(error.value) and len(str(error.value)) < 500


def test_a_picture_is_small_and_finite() -> None:
    many = tuple(map(str, range(150)))
    table = torch.full((150, 150), 0.123456789)
    table[0, 0], table[0, 1] = torch.nan, torch.inf
    large = LearnedFigure.read(
        LearnedFigure.heatmap("x", "t", "See.", table, x=Axis("", many), y=Axis("", many)).plain()
    )
    rows = large.series[0].values
    assert len(rows) == len(rows[0]) == len(large.x.ticks) == MOST["cells"] and "first 100" in large.see
    assert rows[0][:3] == (None, None, 0.1235)
    rounds = tuple(range(1, 3001))
    curve = LearnedFigure.read(
        LearnedFigure.lines("x", "t", "See.", {"a": [0.5] * 3000}, x=Axis("round", rounds), y="").plain()
    )
    assert curve.x.ticks == tuple(range(1, 3001, 3)) and len(curve.series[0].values) == 1000


# ---------------------------------------------------------------- the methods


@pytest.mark.parametrize("method", WITH)
def test_what_each_method_hands_over(method: str) -> None:
    hands_over_pictures_that_can_be_drawn(trial := MethodTrial(method, {}))
    assert sorted(drawn(trial.play())) == sorted(WITH[method])


def test_pgfeds_weights_are_the_servers() -> None:
    played = play(tiny("pgfed(eta2=0.1)"))
    picture, A = drawn(played)["pgfed-weights"], tensor(played.server, "pgfed.A")
    assert torch.allclose(torch.tensor(picture.series[0].values), A, rtol=1e-3) and float(A.std()) > 0
    assert picture.x.ticks == picture.y.ticks == ("0", "2", "3", "4")  # client 1 is new


def test_what_stays_at_clients_comes_through_portraits() -> None:
    played = play(tiny("apfl", rounds={"cohort": 1.0}))
    alphas = [played.engine.private(i)["apfl.alpha"] for i in TRAINING]
    assert drawn(played)["apfl-alpha"].series[0].values == pytest.approx(alphas, rel=1e-3)
    played = play(tiny("apple", rounds={"cohort": 1.0}))
    p = [tensor(played.engine.private(i), "apple.p").tolist() for i in TRAINING]
    assert torch.allclose(torch.tensor(drawn(played)["apple-shares"].series[0].values), torch.tensor(p), rtol=1e-3)


def test_fedbasis_coefficients_are_shares_of_each_block() -> None:
    found = drawn(play(tiny("fedbasis(k=3)")))
    table = torch.tensor(found["fedbasis-coefficients"].series[0].values).view(4, -1, 3)
    assert torch.allclose(table.sum(2), torch.ones(4, table.shape[1]), atol=1e-3)
    blocks = ("fc1", "fc2")  # the classifier is each client's own
    assert found["fedbasis-coefficients"].x.ticks == tuple(f"{block} v{k}" for block in blocks for k in (1, 2, 3))


def test_superfeds_line_is_what_was_scored() -> None:
    played = play(tiny("superfed-mm(start=0)"))
    curve, last = drawn(played)["superfed-line"], played.rows[-1]
    assert curve.x.ticks == tuple(tenths / 10 for tenths in range(11))
    scored = [last[f"member:{lam}.weighted.accuracy.mean"] for lam in curve.x.ticks]
    assert curve.series[0].values == pytest.approx(scored, rel=1e-3)


def test_p_moves_only_the_second_picture_of_dbe() -> None:
    played = play(tiny("prbm", rounds={"cohort": 1.0}, local={"lr": 0.5}))
    found = drawn(played)
    before, after = found["dbe-features-without-p"], found["dbe-features-with-p"]
    assert before.groups == after.groups == ("0", "2", "3", "4")
    assert [p[2] for p in before.series[0].values] == [p[2] for p in after.series[0].values]
    assert before.series[0].values != after.series[0].values
    at_rest = drawn(play(tiny("prbm", rounds={"count": 1}, local={"lr": 1e-15})))
    assert len({p.series[0].values for p in at_rest.values()}) == 1, "p = 0 moves nothing"


class Refuses(Inline):
    """As real sites do: they train and score, and hand over nothing else."""

    def run(self, tasks: Sequence[Task]) -> list[Outcome]:
        done = list(super().run([task for task in tasks if task.kind not in ("client_snapshot", "run_metric")]))
        return done or [task.failed("refused") for task in tasks]


@pytest.mark.parametrize(
    ("method", "names"),
    [
        ("pgfed+prbm+knn-per", ["pgfed-weights", "pgfed-alpha-rounds", "pgfed-alpha-samples"]),
        ("apfl", []),
        ("apple", []),
        ("fedbasis(k=2)", ["fedbasis-cosines"]),
        ("fedrod", []),
    ],
)
def test_sites_that_refuse_leave_what_the_server_knows(method: str, names: list[str]) -> None:
    cohort = {"cohort": 1.0} if method == "apple" else {}
    scoring = {"metrics": ("calibration", "cross_client", "mdl(samples=30, sizes=2, seeds=1, steps=2)")}
    played = play(tiny(method, rounds=cohort, scoring=scoring))
    played.assembly.engine = Refuses(OneByOne(played.assembly.workplace.perform))
    found = played.assembly.final_evaluation.find(
        FinalState(played.server, played.progress.round, played.rows, played.clients)
    )
    assert [p.name for p in found.figures_learned if not p.name.startswith("mdl")] == names
    assert all(name.startswith("generic.common.mdl") for name in found.figures), "of nobody's own data"
    assert not [note for note in found.notes if "could not be made" in note]


# ---------------------------------------------------------------- in the record


def test_the_record_keeps_them(tmp_path: Path) -> None:
    asked = tiny("pgfed", data={"name": "digits", "clients": 5})
    result = motet.load(runs.run(asked, tmp_path / "run"))
    picture = result.figures_learned[0]
    assert picture["name"] == "pgfed-weights" and picture["kind"] == "heatmap" and "groups" not in picture
    assert result.summary["notes"] == []
    assert Record(runs.run(tiny("fedavg"), tmp_path / "none")).figures_learned == []
    off = tiny("pgfed", scoring={"figures_learned": False})
    assert Record(runs.run(off, tmp_path / "off")).figures_learned == []


class StopsAfterOne:
    def started(self, experiment: Experiment, folder: Path, round: int, warning: str | None) -> None:
        """Nothing to do."""

    def round(self, row: dict[str, object]) -> None:
        raise KeyboardInterrupt


@pytest.mark.parametrize("method", ["apfl+prbm+knn-per", "fedbasis(k=2, warm_start=0)"])
def test_a_stop_and_a_resume_change_nothing(method: str, tmp_path: Path) -> None:
    whole = runs.run(tiny(method), tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        runs.run(tiny(method), tmp_path / "stopped", StopsAfterOne())
    runs.resume(tmp_path / "stopped")
    written = [(folder / "figures_learned.json").read_bytes() for folder in (whole, tmp_path / "stopped")]
    assert written[0] == written[1] and len(json.loads(written[0]))


def test_worker_processes_make_the_same(tmp_path: Path) -> None:
    folders = [
        runs.run(tiny("apfl+prbm", engine={"name": name, "workers": workers}), tmp_path / name)
        for name, workers in (("inline", 0), ("pool", 1))
    ]
    written = [(folder / "figures_learned.json").read_bytes() for folder in folders]
    assert written[0] == written[1]


class Sad(Part):
    """A part whose pictures fail in some way."""

    how: ClassVar[Callable[[Learned], list[LearnedFigure]]]

    def figures_learned(self, learned: Learned) -> list[LearnedFigure]:
        return type(self).how(learned)


class SadPortrait(Part):
    """A part whose clients fail to hand anything over."""

    def client_snapshot(self, client: object, net: Net) -> Message:
        raise RuntimeError("no\nportrait")


def fails(learned: Learned) -> list[LearnedFigure]:
    raise ZeroDivisionError("nothing here")


def is_none(learned: Learned) -> list[LearnedFigure]:
    return [LearnedFigure("x", "bars", "", "")]


@pytest.mark.parametrize(
    ("how", "said"),
    [(fails, "ZeroDivisionError: nothing here"), (is_none, "title is"), (None, "no")],
)
def test_a_picture_that_fails_is_a_note(
    how: Callable[[Learned], list[LearnedFigure]] | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind: type[Part] = SadPortrait if how is None else type("Sad", (Sad,), {"how": staticmethod(how)})
    monkeypatch.setitem(METHODS, "sad", motet.methods.base.MethodEntry("sad", "", "", part=kind))
    result = motet.load(runs.run(tiny("fedavg+sad"), tmp_path / "run"))
    (note,) = result.summary["notes"]
    assert note.startswith("pictures could not be made (") and said in note and "\n" not in note
    assert result.figures_learned == [] and result.personal.weighted.personal_models > 0
    with pytest.raises(Fault, match="`figures_learned` fails"):
        hands_over_pictures_that_can_be_drawn(MethodTrial("fedavg+sad", {}))


class Remembers(APFL):
    """Shows what it keeps in itself."""

    def __init__(self, *words: Any):
        super().__init__(*words)
        self.seen: State = {}

    def client_snapshot(self, client: Any, message: Message) -> Message:
        self.seen[str(client.id)] = len(self.seen)
        return {"apfl.alpha": float(len(self.seen))}


def test_a_portrait_that_depends_on_others_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "remembers", motet.methods.base.MethodEntry("remembers", "", "", whole=Remembers))
    with pytest.raises(Fault, match="pictures are others"):
        hands_over_pictures_that_can_be_drawn(MethodTrial("remembers", {}))
