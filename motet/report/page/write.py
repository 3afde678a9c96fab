"""Write the page as one HTML file with style and script in it, and its charts as files for print."""

import os
import shutil
import subprocess
import tempfile
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment
from markupsafe import Markup

from motet.errors import MotetError, unknown
from motet.io.files import make_folder, write_atomic
from motet.io.text import printable
from motet.report.charts import Chart
from motet.report.charts.frame import NARROW, WIDE, swatch
from motet.report.charts.pen import colour_class, style_sheet
from motet.report.page.reading import contents_of
from motet.report.page.sections import sections_of

# -------- Charts for print


FORMATS = ("svg", "pdf", "png")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
DOTS = 3  # pixels of a PNG per unit of the drawing
PATIENCE = 60  # seconds that a browser has for one chart


def write_figures(folders: Sequence[Path], out: Path, format: str = "svg") -> list[Path]:
    """Write every chart of the page to a file of its own, and return the files."""
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
    """Return the path of the first browser that is installed, or None."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def converted(browser: str, svg: str, format: str) -> bytes:
    """Return the bytes of a chart as PDF or PNG, exactly as large as the drawing."""
    width, height = (svg.partition(f' {side}="')[2].partition('"')[0] for side in ("width", "height"))
    style = f"@page{{size:{width}px {height}px;margin:0}}html,body{{margin:0}}svg{{display:block}}"
    with tempfile.TemporaryDirectory(prefix="motet-figure-") as folder:
        page, out = Path(folder) / "figure.html", Path(folder) / f"figure.{format}"
        page.write_text(f'<!DOCTYPE html><meta charset="utf-8"><style>{style}</style>{svg}', encoding="utf-8")
        asked = ["--headless", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
        asked += [
            f"--user-data-dir={folder}/profile",
            *(["--no-sandbox"] if getattr(os, "geteuid", lambda: 1)() == 0 else []),
        ]
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


# -------- The page


MOST_CELLS_OF_A_TABLE = 6000


def write_report(folders: Sequence[Path], out: Path) -> Path:
    """Write the page about runs, folders of runs or one comparison, and return where it is."""
    text = page_of(folders)
    make_folder(out.parent)
    write_atomic(out, text.encode())
    return out


def page_of(folders: Sequence[Path]) -> str:
    """Return the page as HTML."""
    try:
        return _page_of(folders)
    except ArithmeticError as error:
        names = ", ".join(map(str, folders))
        raise MotetError(f"{names}: the record has numbers that no page can show ({error}); run it anew") from error


def _page_of(folders: Sequence[Path]) -> str:
    contents = contents_of(folders)
    here = files(__package__)
    style = f"{style_sheet()}\n{(here / 'page.css').read_text('utf-8')}"
    script = (here / "page.js").read_text("utf-8")
    engine = Environment(autoescape=True, finalize=_shown, trim_blocks=True, lstrip_blocks=True)
    engine.globals |= {
        "drawn": lambda chart, width: Markup(drawn(chart, width)),
        "swatch": lambda key: Markup(swatch(key)),
        "widths": lambda chart: (NARROW,) if chart.small else (WIDE, NARROW),
        "numbers": numbers_of,
        "colour": colour_class,
        "wide": WIDE,
    }
    template = engine.from_string((here / "page.html").read_text("utf-8"))
    text = template.render(
        contents=contents,
        sections=sections_of(contents),
        style=Markup(style),
        script=Markup(script),
        policy=_policy(style, script),
    )
    return text.lstrip()


def _shown(value: object) -> object:
    """Return a value of a record with control characters made visible; the template escapes HTML."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def drawn(chart: Chart, width: int, page: bool = True) -> str:
    """Return a chart as SVG, with its sentence as description."""
    return chart.drawing.svg(width, page, chart.title, chart.see)


def numbers_of(chart: Chart) -> tuple[Sequence[str], Sequence[Sequence[str]], int]:
    """Return the table of a chart: its titles, as many rows as a page should hold, and how many are left out."""
    table = chart.drawing.table()
    most = max(1, MOST_CELLS_OF_A_TABLE // max(1, len(table.titles)))
    return table.titles, table.rows[:most], max(0, len(table.rows) - most)


def _policy(style: str, script: str) -> str:
    """Return the content security policy: this style and this script, and nothing from a network."""
    hashes = (b64encode(sha256(text.encode()).digest()).decode() for text in (style, script))
    style_hash, script_hash = hashes
    return (
        f"default-src 'none'; style-src 'sha256-{style_hash}'; script-src 'sha256-{script_hash}'; img-src data:; "
        f"base-uri 'none'; form-action 'none'"
    )
