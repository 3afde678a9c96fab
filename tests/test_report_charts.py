"""The drawing: well-formed, inside its frame, told apart without colour, readable in both modes, the same in print."""

import re
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_records import made_comparison

from motet.cli import main
from motet.errors import MotetError
from motet.report.charts import ChartRow, ChartSeries, Drawing, Grid, Key, LinesChart, Mark, Plane, RowsChart, Spot
from motet.report.charts.frame import NARROW, WIDE, Scale, round_ticks, span
from motet.report.charts.pen import DARK, LIGHT, SERIES_DARK, SERIES_LIGHT, colour_class, dash_of, shape_of, style_sheet
from motet.report.page import write

SVG = "{http://www.w3.org/2000/svg}"
NUMBERS = st.floats(-1e12, 1e12)


def drawings(values: Sequence[float]) -> list[Drawing]:
    """One of each kind with these values."""
    names = [f"name {i} " * (i % 3 + 1) for i in range(len(values))]
    named = list(zip(names, values, strict=True))
    return [
        LinesChart(
            "x",
            "y",
            [ChartSeries("a", 0, list(enumerate(values)), values, values), ChartSeries("b", 1, [(0, values[0])])],
        ),
        LinesChart("x", "y", [ChartSeries("a", 0, [(v, v) for v in sorted(values)])], shared=False),
        Plane("x", "y", [Spot(n, i, v if i else None, v, (v, v), (v, v)) for i, (n, v) in enumerate(named)]),
        RowsChart("x", ["a"], [ChartRow(n, [Mark(v, "up", "bar", v, v)]) for n, v in named], from_zero=True),
        RowsChart(
            "x", ["a", "b"], [ChartRow("r", [None, Mark(v, 0)]) for v in values], [Key(0, "k")], told=True, joined=True
        ),
        Grid(names, ["r", "s"], [list(values), [None] * len(values)], "heat"),
        Grid(names, ["r"], [list(values)], "about_zero", beside=[abs(values[0])]),
        Grid(names, ["r"], [[abs(v) for v in values]], "bubbles", "x", "y"),
    ]


@given(st.lists(NUMBERS, min_size=1, max_size=6))
def test_whatever_the_values_a_drawing_is_whole_and_in_its_frame(values: list[float]) -> None:
    for drawing in drawings(values):
        assert not drawing.is_empty() and drawing.table().rows
        for width, page in ((WIDE, False), (NARROW, False), (WIDE, True)):
            found = ElementTree.fromstring(drawing.svg(width, page, "Title", "What it says"))
            high = float(found.attrib["height"])
            for each in found.iter():
                for name in {"cx", "x1", "x2", "cy", "y1", "y2"} & each.attrib.keys():
                    most = width if "x" in name else high
                    assert -1 <= float(each.attrib[name]) <= most + 1, (each.tag, each.attrib)
                assert all(isfinite(float(n)) for n in re.findall(r"-?\d[\d.e+]*", each.attrib.get("d", "")))


def test_print_has_values_and_the_page_has_classes() -> None:
    for drawing in drawings([1.0, 2.0, 3.0]):
        page, paper = drawing.svg(WIDE, True, "T", "w"), drawing.svg(WIDE, False, "T", "w")
        assert "class=" in page and "data-tip" in page and "#" not in page.replace("&#10;", "")
        assert "class=" not in paper and "data-tip" not in paper and "var(" not in paper and "#" in paper
        words = [each.text for each in ElementTree.fromstring(paper)][:2]
        assert words == ["T", "w"], "a picture alone has its title and its words"


def test_the_legend_is_in_print_and_beside_the_page() -> None:
    lines = drawings([1.0, 2.0])[0]
    assert ">b<" in lines.svg(WIDE, False, "", "") and ">b<" not in lines.svg(WIDE, True, "", "")
    assert [key.label for key in lines.legend_keys()] == ["a", "b"]
    for drawing in drawings([1.0, -2.0]):
        paper = drawing.svg(WIDE, False, "", "")
        assert all(f">{key.label}<" in paper for key in drawing.legend_keys())


@given(st.lists(NUMBERS, min_size=1), st.floats(0, 100))
def test_a_span_holds_its_values_and_ticks_are_within(values: list[float], least: float) -> None:
    low, high = span(values, least)
    assert low <= min(values) and max(values) <= high and low < high
    ticks = round_ticks(low, high)
    slack = (high - low) * 1e-6
    assert 1 <= len(ticks) <= 13 and all(low - slack <= tick <= high + slack for tick in ticks)


def test_ticks_are_round() -> None:
    assert round_ticks(0, 1) == [0, 0.2, 0.4, 0.6, 0.8, 1]
    assert round_ticks(57, 94, 4) == [60, 70, 80, 90]
    low, high = span([1.192092896e-07])
    assert all(low <= tick <= high for tick in round_ticks(low, high))
    assert Scale(0, 10, 100, 200)(5) == 150 and Scale(0, 10, 100, 200)(99) == 200


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize(("mode", "series"), [(LIGHT, SERIES_LIGHT), (DARK, SERIES_DARK)], ids=["light", "dark"])
def test_words_and_lines_stand_out(mode: dict[str, str], series: tuple[str, ...]) -> None:
    """WCAG 2: 4.5 for text, 3 for what is drawn."""
    for name in ("ink", "soft", "link"):
        assert contrast(mode[name], mode["paper"]) >= 4.5 and contrast(mode[name], mode["ground"]) >= 4.5, name
    for colour in (*series, mode["up"], mode["down"], mode["line"]):
        assert contrast(colour, mode["paper"]) >= 3, colour


# How the three common kinds of colour blindness see linear red, green and blue (Machado, Oliveira and Fernandes, 2009).
BLINDNESS = {
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def seen(colour: str, kind: str) -> list[float]:
    rgb = [(int(colour[i : i + 2], 16) / 255) ** 2.2 for i in (1, 3, 5)]
    return [max(0.0, sum(m * v for m, v in zip(row, rgb, strict=True))) ** (1 / 2.2) for row in BLINDNESS[kind]]


@pytest.mark.parametrize("kind", BLINDNESS)
@pytest.mark.parametrize("mode", [LIGHT, DARK], ids=["light", "dark"])
def test_gain_and_loss_differ_for_colour_blind_readers(mode: dict[str, str], kind: str) -> None:
    up, down = seen(mode["up"], kind), seen(mode["down"], kind)
    assert sum((a - b) ** 2 for a, b in zip(up, down, strict=True)) ** 0.5 > 0.35


def test_no_two_of_many_series_look_alike() -> None:
    looks = [(colour_class(i), dash_of(i), shape_of(i)) for i in range(72)]
    assert len(set(looks)) == 72
    assert len({look[1:] for look in looks[:40]}) == 40, "without colour too"


def test_the_style_sheet_has_both_modes() -> None:
    text = style_sheet()
    assert "prefers-color-scheme:dark" in text and LIGHT["ink"] in text and DARK["ink"] in text


# ---------------------------------------------------------------- motet figures


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    names = ["<b>St. Mary</b>", "A & B", "\x1b[31mred"]
    return made_comparison(tmp_path_factory.mktemp("made") / "c", ("fedavg+ft", "local"), names=names, metrics=["ece"])


def test_every_chart_becomes_a_file(compared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["figures", str(compared), "--out", str(tmp_path / "figures")]) == 0
    files = sorted((tmp_path / "figures").iterdir())
    assert {"tradeoff.svg", "rounds-personal.svg", "classes.svg", "tuning.svg", "ece.svg"} <= {f.name for f in files}
    assert f"{len(files)} pictures in" in capsys.readouterr().out
    words = []
    for file in files:
        found = ElementTree.fromstring(file.read_text(encoding="utf-8"))
        words += [each.text or "" for each in found.iter(f"{SVG}text")]
        assert not list(found.iter(f"{SVG}b")) and not list(found.iter(f"{SVG}script"))
    assert "<b>St. Mary</b>" in words and "A & B" in words and "\\x1b[31mred" in words


def test_without_a_browser_only_svg(compared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MotetError, match=r"--format pdf needs a browser .*; accepted: svg$"):
        write.write_figures([compared], tmp_path / "f", "pdf")
    assert not (tmp_path / "f").exists()


@pytest.mark.skipif(not write.browser(), reason="no Chromium or Chrome on this machine")
@pytest.mark.parametrize(("format", "begins"), [("pdf", b"%PDF-"), ("png", b"\x89PNG")])
def test_a_browser_makes_the_others(format: str, begins: bytes) -> None:
    drawing = drawings([1.0, 2.0])[3].svg(NARROW, False, "T", "w")
    browser = write.browser()
    assert browser and write.converted(browser, drawing, format).startswith(begins)
