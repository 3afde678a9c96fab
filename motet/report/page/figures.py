"""The pictures of the page for print: SVG as drawn, PDF and PNG through a browser that is installed."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from motet.errors import MotetError, unknown
from motet.io.files import make_folder, write_atomic
from motet.report.charts.frame import NARROW, WIDE
from motet.report.page.reading import contents_of
from motet.report.page.sections import sections_of
from motet.report.page.write import drawn

FORMATS = ("svg", "pdf", "png")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
DOTS = 3  # of a PNG for every unit of the drawing
PATIENCE = 60  # seconds for one picture


def write_figures(folders: Sequence[Path], out: Path, format: str = "svg") -> list[Path]:
    """Write every chart of the page to a file of its own; returns the files."""
    if format not in FORMATS:
        raise unknown("--format", format, FORMATS)
    found = None if format == "svg" else browser()
    if format != "svg" and found is None:
        names = ", ".join(BROWSERS)
        raise MotetError(f"--format {format} needs a browser ({names}) and none is installed; accepted: svg")
    charts = [chart for section in sections_of(contents_of(folders)) for chart in section.charts]
    make_folder(out)
    written = []
    for chart in charts:
        text = drawn(chart, NARROW if chart.small else WIDE, page=False)
        path = out / f"{chart.name}.{format}"
        write_atomic(path, text.encode() if found is None else converted(found, text, format))
        written.append(path)
    return written


def browser() -> str | None:
    """The first that is installed."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def converted(browser: str, svg: str, format: str) -> bytes:
    """One page of exactly the size of the drawing."""
    width, height = (svg.partition(f' {side}="')[2].partition('"')[0] for side in ("width", "height"))
    style = f"@page{{size:{width}px {height}px;margin:0}}html,body{{margin:0}}svg{{display:block}}"
    with tempfile.TemporaryDirectory(prefix="motet-figure-") as folder:
        page, out = Path(folder) / "figure.html", Path(folder) / f"figure.{format}"
        page.write_text(f'<!DOCTYPE html><meta charset="utf-8"><style>{style}</style>{svg}', encoding="utf-8")
        asked = ["--headless", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
        asked += [f"--user-data-dir={folder}/profile", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        if format == "pdf":
            asked += [f"--print-to-pdf={out}", "--no-pdf-header-footer"]
        else:
            asked += [f"--screenshot={out}", f"--window-size={_up(width)},{_up(height)}"]
            asked += [f"--force-device-scale-factor={DOTS}", "--hide-scrollbars"]
        try:
            done = subprocess.run([browser, *asked, page.as_uri()], capture_output=True, timeout=PATIENCE)
            return out.read_bytes()
        except subprocess.TimeoutExpired:
            raise MotetError(f"{browser} took more than {PATIENCE} s for a picture; accepted: --format svg") from None
        except OSError:
            why = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["it wrote nothing"]
            raise MotetError(f"{browser} made no {format} ({why[0][:150]}); accepted: --format svg") from None


def _up(length: str) -> int:
    return int(float(length) + 0.999)
