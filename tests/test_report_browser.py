"""The report in a real browser: it opens from a file, draws, sorts, tells, fits a phone, and reads well in the dark."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_records import made_comparison

from motet.report.page import write_report
from motet.report.page.write import browser

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
EXECUTABLE = browser()
pytestmark = pytest.mark.skipif(EXECUTABLE is None, reason="no Chromium or Chrome on this machine")
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
AXE = Path(os.environ.get("MOTET_AXE") or Path.home() / ".cache" / "motet-tests" / "axe.min.js")
NAMES = (
    "<b>St. Mary</b>",
    "Hôpital Nord",
    "长期护理中心",
    'quo"te',
    "A very long name of a clinic that goes on and on",
)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with playwright.sync_playwright() as engine:
        launched = engine.chromium.launch(executable_path=EXECUTABLE, args=QUIET)
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = made_comparison(
        tmp_path_factory.mktemp("browser") / "c",
        ("fedavg+ft", "pgfed", "fedrod", "fedavg", "ditto", "local"),
        clients=12,
        names=NAMES,
        metrics=["ece"],
    )
    return write_report([folder], folder / "report.html")


class Opened:
    """A page with what it asked for and complained about."""

    def __init__(self, chromium: Any, report: Path, unfold: bool = True, **context: Any) -> None:
        self.context = chromium.new_context(**context)
        self.page = self.context.new_page()
        self.asked: list[str] = []
        self.wrong: list[str] = []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("console", lambda message: self.wrong.append(message.text))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.goto(report.as_uri())
        if unfold:
            self.page.evaluate("document.querySelectorAll('details.fold').forEach(d => d.open = true)")

    def __enter__(self) -> "Opened":
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()


DESK = {"viewport": {"width": 1200, "height": 900}}
PHONE = {"viewport": {"width": 380, "height": 800}, "has_touch": True}


@pytest.mark.parametrize("where", [DESK, PHONE], ids=["desk", "phone"])
def test_it_opens_from_a_file_and_every_chart_is_drawn(where: dict[str, Any], chromium: Any, report: Path) -> None:
    with Opened(chromium, report, **where) as opened:
        assert opened.wrong == [] and [url for url in opened.asked if not url.startswith(("file:", "data:"))] == []
        opened.page.evaluate("document.querySelectorAll('details.block').forEach(d => d.open = true)")
        found = opened.page.evaluate(
            """[...document.querySelectorAll('figure')].map(figure => {
                const all = [...figure.querySelectorAll('div > svg')]
                const shown = all.filter(svg => svg.getBoundingClientRect().width > 100)
                const marks = shown[0] ? shown[0].querySelectorAll('g path, g circle, g rect').length : 0
                const box = shown[0] ? shown[0].getBoundingClientRect() : {width: 0, height: 0}
                return [figure.id, shown.length, marks, box.width, box.height]
            })"""
        )
        assert len(found) > 15
        for name, shown, marks, width, height in found:
            assert shown == 1 and marks > 0 and width > 150 and height > 60, name


def test_it_fits_a_phone(chromium: Any, report: Path) -> None:
    with Opened(chromium, report, **PHONE) as opened:
        opened.page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert opened.page.evaluate("document.documentElement.scrollWidth") == 380
        ends = opened.page.locator("#summary tbody tr td:nth-child(2)").evaluate_all(
            "cells => cells.map(cell => cell.getBoundingClientRect().right)"
        )
        assert len(ends) == 6 and max(ends) < 366, "what methods are judged by is seen without scrolling"
        names = opened.page.locator("tbody th").evaluate_all(
            "cells => cells.filter(c => c.offsetParent).map(c => [c.textContent, c.getBoundingClientRect().width])"
        )
        assert len(names) > 20
        assert [name for name, width in names if width < 80 and len(name) > 12] == [], "names broken letter by letter"
        small = opened.page.evaluate(
            """[...document.querySelectorAll('svg text')].filter(t => t.getBoundingClientRect().width)
               .map(t => parseFloat(getComputedStyle(t).fontSize) *
                 t.ownerSVGElement.getBoundingClientRect().width / t.ownerSVGElement.viewBox.baseVal.width)"""
        )
        assert len(small) > 100 and min(small) > 8, "words of charts can be read"


@pytest.mark.parametrize("keyboard", [False, True], ids=["click", "keyboard"])
def test_the_table_sorts(keyboard: bool, chromium: Any, report: Path) -> None:
    with Opened(chromium, report, **DESK) as opened:
        page = opened.page
        button = page.locator("#summary th button", has_text="own models").first
        place = button.evaluate("b => b.closest('th').cellIndex")

        def column() -> list[float]:
            cells = page.locator(f"#summary tbody tr td:nth-child({place + 1})").all_inner_texts()
            return [float(cell.split()[0]) for cell in cells]

        def press() -> None:
            if keyboard:
                button.focus()
                page.keyboard.press("Enter")
            else:
                button.click()

        press()
        assert column() == sorted(column(), reverse=True) and len(set(column())) > 3
        assert button.evaluate("b => b.closest('th').ariaSort") == "descending"
        press()
        assert column() == sorted(column())
        page.locator("#summary th button").first.click()
        assert page.locator("#summary tbody th").all_inner_texts() == sorted(
            ["fedavg+ft", "pgfed", "fedrod", "fedavg", "ditto", "local"]
        )
        with_none = page.locator("#summary th button", has_text="generic accuracy").first
        for _ in range(2):  # a method without the figure is last both ways
            with_none.click()
            assert page.locator("#summary tbody th").last.inner_text() == "local"


def test_hover_tells_and_escape_ends_it(chromium: Any, report: Path) -> None:
    with Opened(chromium, report, **DESK) as opened:
        page, tip = opened.page, opened.page.locator("#tip")
        assert not tip.is_visible()
        page.locator("#chart-rounds-personal .desk .hit").last.hover()
        assert tip.inner_text().startswith("round 10\nfedavg+ft: 90.0\n")
        page.keyboard.press("Escape")
        assert not tip.is_visible()
        page.locator("#chart-clients-1 .desk .hit").first.hover()
        assert "over training alone: " in tip.inner_text()
        bubble = page.locator("#chart-classes .desk circle").first
        bubble.hover()
        assert "<b>St. Mary</b>" in tip.inner_text() and not tip.locator("b").count(), "a name is text"


def test_a_finger_tells_too(chromium: Any, report: Path) -> None:
    with Opened(chromium, report, **PHONE) as opened:
        opened.page.locator("#chart-rounds-personal .phone .hit").first.tap()
        assert opened.page.locator("#tip").inner_text().startswith("round 5\n")


def test_the_legend_hides_and_shows(chromium: Any, report: Path) -> None:
    with Opened(chromium, report, **DESK) as opened:
        figure = opened.page.locator("#chart-rounds-personal")
        button, line = figure.locator(".legend button", has_text="pgfed"), figure.locator(".desk g[data-k='1']")
        assert line.is_visible()
        button.click()
        assert not line.is_visible() and button.get_attribute("aria-pressed") == "false"
        assert figure.locator(".desk g[data-k='0']").is_visible()
        button.click()
        assert line.is_visible()


def test_what_is_for_students_of_methods_is_folded_away(chromium: Any, report: Path) -> None:
    """The answer, the clients and the cost are there at once; a link opens what is folded, and so does paper."""
    with Opened(chromium, report, unfold=False, **DESK) as opened:
        page = opened.page
        for name in ("answer", "clients", "cost", "summary"):
            assert page.locator(f"#{name} .see").first.is_visible(), name
        for name in ("tradeoff", "rounds", "tuning", "settings"):
            assert not page.locator(f"#{name} .see").is_visible(), name
        page.locator("nav a[href='#rounds']").click()
        page.wait_for_function("document.querySelector('#rounds details.fold').open")
        assert page.locator("#rounds .see").is_visible() and not page.locator("#tuning .see").is_visible()
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        assert page.locator("#tuning .see").is_visible()


@pytest.mark.parametrize("width", [1280, 380])
def test_names_in_the_plane_cover_nothing_and_nothing_is_cut(width: int, chromium: Any, tmp_path: Path) -> None:
    """Ten methods close together: each has its own colour, no name lies on another, no word leaves its drawing."""
    methods = (
        "fedavg+ft",
        "pgfed",
        "fedrod",
        "fedavg",
        "ditto",
        "superfed-mm",
        "fedbasis",
        "fedper",
        "fedavg+dbe",
        "local",
    )
    folder = made_comparison(tmp_path / "ten", methods, clients=8, names=NAMES, metrics=["ece"], apart=0.002)
    report = write_report([folder], folder / "report.html")
    with Opened(chromium, report, viewport={"width": width, "height": 900}) as opened:
        kind = "desk" if width > 780 else "phone"
        boxes = opened.page.evaluate(
            f"""[...document.querySelectorAll('#chart-tradeoff .{kind} text.halo')].map(t => {{
                const b = t.getBoundingClientRect(); return [t.textContent, b.left, b.top, b.right, b.bottom] }})"""
        )
        assert len(boxes) == 10
        for i, (one, *a) in enumerate(boxes):
            for other, *b in boxes[:i]:
                wide, tall = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
                assert wide <= 1 or tall <= 3, f"{one} lies on {other}"
        cut = opened.page.evaluate(
            """[...document.querySelectorAll('svg text')].filter(t => t.getClientRects().length).filter(t => {
                const a = t.getBoundingClientRect(), b = t.ownerSVGElement.getBoundingClientRect()
                return a.right > b.right + 2 || a.left < b.left - 2 }).map(t => t.textContent)"""
        )
        assert cut == []
        dots = opened.page.locator("#summary .dot").evaluate_all("all => all.map(d => getComputedStyle(d).color)")
        assert len(set(dots)) == len(dots) == 10
        if width == 1280:
            wide = opened.page.evaluate(
                "[...document.querySelectorAll('#summary .scroll, #clients .scroll, #answer .scroll')]"
                ".filter(e => e.getClientRects().length && e.scrollWidth > e.clientWidth + 1).length"
            )
            assert wide == 0, "no table needs scrolling on a desk"


def test_it_prints_as_on_a_desk_and_in_light_colours(chromium: Any, report: Path) -> None:
    paper = {"viewport": {"width": 718, "height": 1040}, "color_scheme": "dark"}  # A4 with its margins
    with Opened(chromium, report, **paper) as opened:
        opened.page.emulate_media(media="print", color_scheme="dark")
        assert opened.page.locator("#chart-tradeoff .desk").is_visible()
        assert not opened.page.locator("#chart-tradeoff .phone").is_visible()
        assert opened.page.evaluate("document.documentElement.scrollWidth") == 718
        assert opened.page.evaluate("getComputedStyle(document.querySelector('h1')).color") == "rgb(27, 31, 36)"


CONTRASTS = """() => {
  const parse = text => (text.match(/[\\d.]+/g) || []).map(Number)
  const linear = v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4
  const lum = c => { const [r, g, b] = c.slice(0, 3).map(v => linear(v / 255))
    return .2126 * r + .7152 * g + .0722 * b }
  const ratio = (a, b) => { const [x, y] = [lum(a), lum(b)].sort((p, q) => q - p); return (x + .05) / (y + .05) }
  const ground = element => { for (let e = element; e; e = e.parentElement) {
    const c = parse(getComputedStyle(e).backgroundColor)
    if (c.length === 3 || c[3] > 0) return c } return [255, 255, 255] }
  const colour = e => parse(getComputedStyle(e)[e.closest('svg') ? 'fill' : 'color'])
  return [...document.querySelectorAll('h1,h2,h3,p,dt,dd,td,th,a,summary,button,svg text,pre')]
    .filter(e => e.textContent.trim() && e.getClientRects().length)
    .map(e => [ratio(colour(e), ground(e)), e.textContent.slice(0, 40)])
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_can_be_read_in_both_modes(scheme: str, chromium: Any, report: Path) -> None:
    with Opened(chromium, report, color_scheme=scheme, **DESK) as opened:
        opened.page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        found = opened.page.evaluate(CONTRASTS)
        assert len(found) > 300 and min(found)[0] >= 4.5, min(found)
        paper = opened.page.evaluate("getComputedStyle(document.querySelector('section')).backgroundColor")
        assert (paper == "rgb(255, 255, 255)") == (scheme == "light")


@pytest.mark.skipif(not AXE.is_file(), reason=f"no axe-core at {AXE} (set MOTET_AXE)")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("where", [DESK, PHONE], ids=["desk", "phone"])
def test_axe_finds_nothing_serious(scheme: str, where: dict[str, Any], chromium: Any, report: Path) -> None:
    with Opened(chromium, report, color_scheme=scheme, **where) as opened:
        opened.page.evaluate("document.querySelectorAll('details.block').forEach(d => d.open = true)")
        opened.page.evaluate(AXE.read_text(encoding="utf-8"))
        found = opened.page.evaluate("axe.run({resultTypes: ['violations']})")
        serious = [v for v in found["violations"] if v["impact"] in ("serious", "critical")]
        assert not [(v["id"], v["nodes"][0]["html"][:200]) for v in serious]


def test_no_script_but_its_own_may_run(chromium: Any, report: Path, tmp_path: Path) -> None:
    """If escaping ever failed, the page's policy still stands in the way."""
    text = report.read_text(encoding="utf-8").replace(
        "</main>", "<script>window.bad = 1</script><img src=x onerror='bad=2'></main>"
    )
    (tmp_path / "bad.html").write_text(text, encoding="utf-8")
    with Opened(chromium, tmp_path / "bad.html", **DESK) as opened:
        assert opened.page.evaluate("window.bad") is None
        assert any("Content Security Policy" in line for line in opened.wrong)
        assert opened.page.locator("#summary th button").first.is_visible()
