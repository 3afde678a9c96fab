"""A run whose engine lost private states goes back to its newest checkpoint by itself, says so, and ends the same."""

from pathlib import Path
from typing import Any

import pytest
from every_method import assert_same_run

from motet.errors import MotetError
from motet.runs.run import MOST_LOSSES, Silent, resume, run
from motet.testing.twin import tiny

LOSSY = '''
from pathlib import Path

from motet.engines import Inline
from motet.engines.engine import LostStates


class Lossy(Inline):
    """Loses private states in a round: so many times as the file beside it has digits."""

    def __init__(self, request):
        super().__init__(request.work, request.folder, request.groups)

    def run(self, tasks):
        left = Path(__file__).with_name("left")
        if tasks[0].kind == "train" and tasks[0].round == 4 and left.read_text():
            left.write_text(left.read_text()[:-1])
            raise LostStates("the private state of client 1 was lost")
        return super().run(tasks)
'''


class Said(Silent):
    """Remembers how a run was started, and how often."""

    def __init__(self) -> None:
        self.said: list[tuple[int, str | None]] = []

    def started(self, experiment: Any, folder: Path, round: int, warning: str | None) -> None:
        self.said.append((round, warning))


def lossy(folder: Path, times: int, every: int) -> Any:
    (folder / "lossy.py").write_text(LOSSY)
    (folder / "left").write_text("x" * times)
    engine = {"name": f"{folder / 'lossy.py'}:Lossy"}
    return tiny("scaffold", rounds={"count": 5}, checkpoint={"every": every}, engine=engine)


@pytest.mark.parametrize(("every", "back", "where"), [(2, 2, "round 2"), (9, 0, "its beginning")])
def test_a_run_goes_back_to_its_newest_checkpoint_and_says_so(
    every: int, back: int, where: str, tmp_path: Path
) -> None:
    inline = run(tiny("scaffold", rounds={"count": 5}, checkpoint={"every": every}), tmp_path / "inline")
    watcher = Said()
    run(lossy(tmp_path, 2, every), tmp_path / "lossy", watcher)
    assert_same_run(tmp_path / "lossy", inline)
    said = f"the private state of client 1 was lost; the run went back to {where}"
    assert [(round, warning and said in warning) for round, warning in watcher.said] == [(0, None), *[(back, True)] * 2]


def test_states_that_are_lost_again_and_again_end_the_run_which_can_be_resumed_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(MotetError, match=rf"lost; that was {MOST_LOSSES + 1} times in a row .* `motet resume "):
        run(lossy(tmp_path, 99, 2), tmp_path / "lossy")
    inline = run(tiny("scaffold", rounds={"count": 5}, checkpoint={"every": 2}), tmp_path / "inline")
    resume(tmp_path / "lossy", engine={"name": "inline"})
    assert_same_run(tmp_path / "lossy", inline)
