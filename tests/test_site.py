"""The documentation as a site: it builds without a warning, and every page can be reached."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_the_site_builds_strictly(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="needs the extra docs: pip install -e '.[docs]'")
    site = tmp_path / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    pages = {page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*.md")}
    for page in pages:
        name = page.with_name("index") if page.stem in ("README", "index") else page.with_suffix("") / "index"
        assert (site / name).with_suffix(".html").is_file(), page
    text = (site / "index.html").read_text(encoding="utf-8")
    assert "http://" not in text.replace("http://www.w3.org/", "") and "fonts.googleapis" not in text
    shutil.rmtree(site)
