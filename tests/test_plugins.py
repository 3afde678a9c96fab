"""A user's own objects by import."""

import subprocess
import sys
from pathlib import Path

import pytest

from motet.errors import MotetError
from motet.io.plugins import is_import, load_object


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("my_module:build", True),
        ("a.b.c:Build", True),
        ("path/to/file.py:build", True),
        ("/full path/with:colon/file.py:build", True),
        ("file.py:_private", True),
        ("fedavg", False),
        ("dirichlet:0.3", False),
        ("file.py", False),
        ("file.npz", False),
        ("module:", False),
        (":name", False),
        ("a..b:name", False),
        ("folder/module:name", False),
        ("file.py:two words", False),
        ("fedprox(mu=0.1):x", False),
    ],
)
def test_what_looks_like_an_import(text: str, expected: bool) -> None:
    assert is_import(text) is expected
    if not expected:
        with pytest.raises(MotetError, match=r"net is .*; accepted: module:Name, or path/to/file.py:Name"):
            load_object(text, "net")


def test_a_file_relative_to_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path / "unrelated"))  # puts sys.path back in the end
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "helper_beside_it.py").write_text("VALUE = 41\n")
    (tmp_path / "folder" / "mine.py").write_text("import helper_beside_it\nANSWER = helper_beside_it.VALUE + 1\n")
    monkeypatch.chdir(tmp_path)
    assert load_object("folder/mine.py:ANSWER", "net") == 42
    assert load_object(f"{tmp_path}/folder/mine.py:ANSWER", "net") == 42


def test_a_file_is_imported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path / "unrelated"))
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\n@dataclass\nclass Mine:\n    x: int = 1\nclass Other: pass\n"
    )
    monkeypatch.chdir(tmp_path)
    first = load_object("mine.py:Mine", "net")
    assert load_object("./mine.py:Mine", "net") is first
    assert first.__module__ in sys.modules
    other = tmp_path / "elsewhere"
    other.mkdir()
    (other / "mine.py").write_text("class Mine: pass\n")
    assert load_object("elsewhere/mine.py:Mine", "net") is not first, "two files of one name are two modules"


def test_a_module_of_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "module_of_a_user.py").write_text("def build(): return 7\n")
    code = (
        "import sys; sys.path = [p for p in sys.path if p not in ('', sys.argv[1])]\n"
        "from motet.io.plugins import load_object\n"
        "print(load_object('module_of_a_user:build', 'net')())"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "7\n", done.stderr


@pytest.mark.parametrize(
    ("text", "content", "sentence"),
    [
        ("gone.py:build", None, r"net 'gone.py:build': there is no file /.*gone.py; accepted: a Python file"),
        ("a.py:bild", "def build(): pass\nimport os\n_x = 1", r"a.py has no 'bild'; it has: build$"),
        ("b.py:build", "import os", r"b.py has no 'build'; it defines nothing$"),
        ("c.py:build", "1 / 0", r"c.py cannot be imported \(ZeroDivisionError: division by zero, in .*c.py, line 1\)$"),
        (
            "d.py:build",
            "raise ValueError('two\\nlines')",
            r"d.py cannot be imported \(ValueError: two, in .*line 1\)$",
        ),
        ("e.py:build", "raise SystemExit", r"e.py cannot be imported \(SystemExit, in .*e.py, line 1\)$"),
        ("f.py:build", "def (", r"f.py cannot be imported \(SyntaxError: .*\)$"),
        ("no_such_module_here:build", None, r"module no_such_module_here cannot be imported \(ModuleNotFoundError: "),
    ],
)
def test_refusals(
    text: str, content: str | None, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path / "unrelated"))
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / text.split(":")[0]).write_text(content)
    before = set(sys.modules)
    for _ in range(2):  # the second time no different
        with pytest.raises(MotetError, match=sentence) as caught:
            load_object(text, "net")
        assert "\n" not in str(caught.value)
    assert not [name for name in set(sys.modules) - before if name.startswith("motet_user") and "cannot" in sentence]
