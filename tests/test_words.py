"""One word for one meaning: no class name twice, no old dialect, docstrings that say something, no tricks."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "motet"
FILES = sorted(PACKAGE.rglob("*.py"))
DIALECT = (
    *("OfARun", "OfASet", "Rhythm", "ManyNets", "pm_source", "kept_reading", "portrait", "train_together"),
    *("beside_local", "rhythm", "letter()", "perform_together"),
)


def name(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def test_no_class_name_stands_for_two_things() -> None:
    found = defaultdict(list)
    for path in FILES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(name(path))
    assert {word: places for word, places in found.items() if len(places) > 1} == {}


@pytest.mark.parametrize("path", FILES, ids=name)
def test_no_settings_are_changed_behind_their_backs(path: Path) -> None:
    assert "__dict__" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("word", DIALECT)
def test_the_old_dialect_is_gone(word: str) -> None:
    pattern = re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])")
    assert [name(path) for path in FILES if pattern.search(path.read_text(encoding="utf-8"))] == []


def test_about_as_many_files_as_there_are_reasons_to_change() -> None:
    files = [path for path in FILES if path.name != "__init__.py"]
    assert len(files) <= 370
    long = [name(path) for path in files if len(path.read_text(encoding="utf-8").splitlines()) > 420]
    assert long == []
