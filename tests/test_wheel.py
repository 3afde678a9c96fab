"""What a user installs: a wheel that works outside of the repository, and `make install` without developers' tools."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DATA = ("motet/py.typed", "motet/report/page/page.html", "motet/report/page/page.css", "motet/report/page/page.js")
CHECKS = """
import sys
from pathlib import Path
import motet
assert Path(motet.__file__).is_relative_to(sys.prefix), motet.__file__
assert motet.__version__ == sys.argv[1], motet.__version__
for name in dir(motet):
    getattr(motet, name)
result = motet.load("run")
assert motet.report(result, out="again.html").stat().st_size > 10_000
assert len(motet.predict(motet.export(result, "models", generic=True)[0].parent, "x.npy")) == 3
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: a build leaves folders beside the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "motet", folder / "source" / "motet", ignore=skip)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / "source" / name)
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-q"]
    subprocess.run([*pip, "-w", str(folder), str(folder / "source")], check=True, timeout=300)
    return next(folder.glob("motet-*.whl"))


@pytest.mark.slow
def test_the_wheel_has_every_file(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    assert set(DATA) <= inside
    sources = {str(path.relative_to(ROOT)) for path in (ROOT / "motet").rglob("*.py")}
    assert sources <= inside
    assert not [name for name in inside if name.startswith(("tests/", "docs/", "benchmarks/", "examples/"))]


@pytest.mark.slow
def test_it_works_in_an_empty_environment_elsewhere(wheel: Path, tmp_path: Path) -> None:
    """The dependencies are those of this environment, by a path file; Motet itself is the wheel's."""
    home = tmp_path / "environment"
    venv.create(home, with_pip=False, symlinks=True)
    site = next(home.glob("lib*/python*/site-packages"))
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(site), str(wheel)]
    subprocess.run(pip, check=True, timeout=300)
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MOTET_DATA")}

    def python(*words: str) -> str:
        call = [str(home / "bin" / "python"), *words]
        done = subprocess.run(call, cwd=tmp_path, env=clean, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert python("-m", "motet", "--version").strip() == f"motet {version}"
    python("-m", "motet", "run", "--clients", "4", "--rounds", "2", "--epochs", "1", "--out", "run")
    python("-m", "motet", "report", "run", "--out", "page.html")
    assert "Content-Security-Policy" in (tmp_path / "page.html").read_text()
    python("-c", "import numpy as np; np.save('x.npy', np.zeros((3, 8, 8), np.uint8))")
    python("-c", CHECKS, version)


def made(target: str, folder: Path, *more: str) -> list[str]:
    """The commands that make would run for a target."""
    call = ["make", "-n", "-C", str(folder), target, f"PYTHON={sys.executable}", *more]
    return subprocess.run(call, check=True, capture_output=True, text=True).stdout.splitlines()


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_installs_what_is_needed_and_nothing_twice(tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    for target in ("demo", "install"):
        installs = [line for line in made(target, tmp_path) if "pip install" in line]
        assert len(installs) == 1 and installs[0].endswith("-c constraints.txt -e .")
    for target in ("test", "check"):
        installs = [line for line in made(target, tmp_path) if "pip install" in line]
        assert len(installs) == 2 and installs[1].endswith("-e '.[dev]'")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / ".installed").touch()
    assert not [line for line in made("demo", tmp_path) if "pip install" in line]
    assert [line for line in made("test", tmp_path) if "pip install" in line]
    (tmp_path / ".venv" / ".installed-dev").touch()
    assert not [
        line for target in ("demo", "test", "check") for line in made(target, tmp_path) if "pip install" in line
    ]
    later = (tmp_path / ".venv" / ".installed-dev").stat().st_mtime + 10
    os.utime(tmp_path / "pyproject.toml", (later, later))
    assert [line for line in made("demo", tmp_path) if "pip install" in line], "what is needed may have changed"
