"""The pen that writes SVG, and the colours, dashes and shapes that it draws with.

Every text and attribute is escaped here, and no other module builds a tag. On the page a mark has a class, so that the
style sheet can give it the colours of dark mode; in print every mark has its values, so that any program can open the
file. Series differ in colour, dash and shape, so that nobody depends on colour alone.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html import escape
from math import cos, pi, sin

from rich.cells import cell_len

from motet.io.text import printable, shortened

LIGHT: Mapping[str, str] = {
    "paper": "#ffffff",
    "ground": "#f5f6f8",
    "ink": "#1b1f24",
    "soft": "#545d68",
    "line": "#8a939e",
    "grid": "#e3e6ea",
    "link": "#0b5cad",
    "up": "#1d5fa6",
    "down": "#c2410c",
    "heat": "#1d5fa6",
}
DARK: Mapping[str, str] = {
    "paper": "#171a1f",
    "ground": "#0e1013",
    "ink": "#e9ebee",
    "soft": "#aab2bd",
    "line": "#7b8490",
    "grid": "#2c3138",
    "link": "#7db8f5",
    "up": "#74b0f0",
    "down": "#ff9a5c",
    "heat": "#74b0f0",
}
SERIES_LIGHT = (
    *("#1d5fa6", "#c2410c", "#0b7a5b", "#8a3a92", "#8f6400", "#c03a72"),
    *("#1581a0", "#4a4f57", "#6d4a2f", "#5b3fd1", "#3f7a12", "#b3121f"),
)
SERIES_DARK = (
    *("#74b0f0", "#ff9a5c", "#45c79d", "#d49ae0", "#e3b341", "#ff8fb8"),
    *("#62cbe6", "#c6ccd4", "#d8ad86", "#a8a0ff", "#a5d86a", "#ff7b7b"),
)
DASHES = ("", "7 3", "2 2.5", "9 3 2 3", "4 2", "12 3", "2 2 6 2")
SHAPES = ("circle", "square", "triangle", "diamond", "cross", "wedge", "plus", "ring", "star")

# The SVG attributes of each role; names of colours are looked up.
ROLES: Mapping[str, Mapping[str, str]] = {
    "back": {"fill": "paper"},
    "ground": {"fill": "ground"},
    "grid": {"stroke": "grid", "stroke-width": "1"},
    "axis": {"stroke": "line", "stroke-width": "1"},
    "zero": {"stroke": "soft", "stroke-width": "1.25"},
    "tick": {"fill": "soft", "font-size": "11"},
    "name": {"fill": "ink", "font-size": "12"},
    "small": {"fill": "ink", "font-size": "10"},
    "head": {"fill": "ink", "font-size": "13", "font-weight": "600"},
    "hollow": {"fill": "paper", "stroke": "currentColor", "stroke-width": "1.75"},
    "solid": {"fill": "currentColor"},
    "stroke": {"fill": "none", "stroke": "currentColor", "stroke-width": "2", "stroke-linejoin": "round"},
    "whisker": {"fill": "none", "stroke": "currentColor", "stroke-width": "1.25", "stroke-opacity": "0.75"},
    "faint": {"fill": "currentColor", "fill-opacity": "0.14"},
    "halo": {"fill": "ink", "stroke": "paper", "stroke-width": "3", "paint-order": "stroke", "font-size": "12"},
    "hit": {"fill": "transparent"},
}
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Liberation Sans', Arial, sans-serif"


def colour_class(series: int | str) -> str:
    """Return the CSS class that gives a group its colour: a series by its number, or a colour by its name."""
    return series if isinstance(series, str) else f"s{series % len(SERIES_LIGHT)}"


def dash_of(series: int) -> str:
    """Return the dash of a series; colours and dashes repeat with different periods, so that pairs do not."""
    return DASHES[series % len(DASHES)]


def shape_of(series: int) -> str:
    """Return the shape of the marks of a series."""
    return SHAPES[series % len(SHAPES)]


def print_colour(name: int | str) -> str:
    """Return the value of a colour on white paper."""
    return LIGHT[name] if isinstance(name, str) else SERIES_LIGHT[name % len(SERIES_LIGHT)]


def print_values(role: str) -> dict[str, str]:
    """Return the SVG attributes of a role for print."""
    return {name: LIGHT.get(value, value) for name, value in ROLES[role].items()}


def style_sheet() -> str:
    """Return the CSS with the colours of both modes, and a rule for each role and each series."""
    lines = [f":root{{{_variables(LIGHT, SERIES_LIGHT)}}}"]
    lines.append(f"@media(prefers-color-scheme:dark){{:root{{{_variables(DARK, SERIES_DARK)}}}}}")
    lines.append(f"@media print{{:root{{{_variables(LIGHT, SERIES_LIGHT)}}}}}")
    for role, values in ROLES.items():
        body = ";".join(f"{name}:{_css(name, value)}" for name, value in values.items())
        lines.append(f"svg .{role}{{{body}}}")
    lines += [f".s{i}{{color:var(--s{i})}}" for i in range(len(SERIES_LIGHT))]
    lines += [f"svg .{name}{{color:var(--{name})}}" for name in ("up", "down", "heat", "soft")]
    return "\n".join(lines)


def _variables(colours: Mapping[str, str], series: tuple[str, ...]) -> str:
    named = [f"--{name}:{value}" for name, value in colours.items()]
    return ";".join([*named, *(f"--s{i}:{value}" for i, value in enumerate(series))])


def _css(name: str, value: str) -> str:
    if value in LIGHT:
        return f"var(--{value})"
    return f"{value}px" if name == "font-size" else value


_ABOUT_A_LETTER = 0.56  # mean width of a letter, as a share of the font size


def width_of(text: str, size: float = 12) -> float:
    """Return about how wide a text is; wide scripts count double."""
    return cell_len(text) * size * _ABOUT_A_LETTER


def fitted(text: str, width: float, size: float = 12) -> str:
    """Return the text, shortened in its middle to about that width."""
    return shortened(text, max(3, int(width / (size * _ABOUT_A_LETTER))))


def number(value: float) -> str:
    """Return a coordinate as text; a tenth of a pixel is enough."""
    text = f"{value:.1f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


class Pen:
    """Collects the elements of one drawing; `page` says whether style sheets will colour it."""

    def __init__(self, page: bool = True) -> None:
        self.page = page
        self._parts: list[str] = []

    # -------- Elements

    def line(self, x1: float, y1: float, x2: float, y2: float, role: str) -> None:
        """Draw a straight line."""
        self._add("line", role, {"x1": x1, "y1": y1, "x2": x2, "y2": y2})

    def rect(
        self, x: float, y: float, width: float, height: float, role: str, tip: str = "", opacity: float = 1
    ) -> None:
        """Draw a box; `tip` is shown when the pointer is over it."""
        more = {"fill-opacity": f"{opacity:.2f}"} if opacity < 1 else {}
        self._add("rect", role, {"x": x, "y": y, "width": width, "height": height, **more}, tip)

    def circle(self, x: float, y: float, r: float, role: str, tip: str = "", opacity: float = 1) -> None:
        """Draw a disc or a ring, as its role says."""
        more = {"fill-opacity": f"{opacity:.2f}"} if opacity < 1 else {}
        self._add("circle", role, {"cx": x, "cy": y, "r": r, **more}, tip)

    def path(self, d: str, role: str, dash: str = "", tip: str = "") -> None:
        """Draw an SVG path."""
        self._add("path", role, {"d": d, **({"stroke-dasharray": dash} if dash else {})}, tip)

    def text(self, x: float, y: float, text: str, role: str, anchor: str = "start", turn: float = 0) -> None:
        """Write a text, turned about its anchor."""
        places: dict[str, float | str] = {"x": x, "y": y}
        if anchor != "start":
            places["text-anchor"] = anchor
        if turn:
            places["transform"] = f"rotate({number(turn)} {number(x)} {number(y)})"
        self._add("text", role, places, text=text)

    def mark(self, x: float, y: float, series: int, role: str = "solid", tip: str = "", size: float = 4.5) -> None:
        """Draw the mark of a series in its shape."""
        shape = shape_of(series)
        if shape in ("circle", "ring"):
            self.circle(x, y, size, "hollow" if shape == "ring" else role, tip)
        else:
            self.path(_outline(shape, x, y, size), role, tip=tip)

    @contextmanager
    def coloured(self, colour: int | str, toggled_by: int | None = None) -> Iterator[None]:
        """Draw a group in a colour inside the block; on the page the legend's button of this number shows and hides
        it."""
        if self.page:
            key = "" if toggled_by is None else f' data-k="{toggled_by}"'
            self._parts.append(f'<g class="{colour_class(colour)}"{key}>')
        else:
            self._parts.append(f'<g color="{print_colour(colour)}">')
        yield
        self._parts.append("</g>")

    # -------- The document

    def svg(self, width: float, height: float, title: str, alt: str) -> str:
        """Return the drawing as SVG, with its title and description."""
        size = f'viewBox="0 0 {number(width)} {number(height)}" width="{number(width)}" height="{number(height)}"'
        words = f'role="img" aria-label="{_safe(f"{title}. {alt}")}"'
        body = "".join(self._parts)
        if self.page:
            return f"<svg {size} {words}>{body}</svg>"
        names = f"<title>{_safe(title)}</title><desc>{_safe(alt)}</desc>"
        back = f'<rect width="100%" height="100%" fill="{print_colour("paper")}"/>'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} {words} font-family="{_safe(FONT)}">'
            f"{names}{back}{body}</svg>\n"
        )

    def _add(
        self, tag: str, role: str, attributes: dict[str, float | str], tip: str = "", text: str | None = None
    ) -> None:
        words = {**({"class": role} if self.page else print_values(role))}
        words |= {name: value if isinstance(value, str) else number(value) for name, value in attributes.items()}
        if tip and self.page:
            words["data-tip"] = _lines(tip)
        inside = " ".join(f'{name}="{value if name == "data-tip" else _safe(value)}"' for name, value in words.items())
        self._parts.append(f"<{tag} {inside}/>" if text is None else f"<{tag} {inside}>{_safe(text)}</{tag}>")


def _safe(text: str) -> str:
    """Return text escaped for XML, so that it is shown and never interpreted."""
    return escape(printable(text), quote=True)


def _lines(tip: str) -> str:
    """Return a tooltip with its line breaks; names in it have none, as they went through `printable`."""
    return "&#10;".join(_safe(line) for line in tip.split("\n"))


def _outline(shape: str, x: float, y: float, r: float) -> str:
    if shape == "square":
        return _polygon([(x - r, y - r), (x + r, y - r), (x + r, y + r), (x - r, y + r)])
    if shape == "triangle":
        return _polygon([(x, y - 1.2 * r), (x + 1.1 * r, y + 0.8 * r), (x - 1.1 * r, y + 0.8 * r)])
    if shape == "wedge":
        return _polygon([(x, y + 1.2 * r), (x + 1.1 * r, y - 0.8 * r), (x - 1.1 * r, y - 0.8 * r)])
    if shape == "diamond":
        return _polygon([(x, y - 1.3 * r), (x + 1.1 * r, y), (x, y + 1.3 * r), (x - 1.1 * r, y)])
    if shape == "star":
        turns = [(r * (1.35 if i % 2 == 0 else 0.6), pi * i / 5) for i in range(10)]
        return _polygon([(x + far * sin(turn), y - far * cos(turn)) for far, turn in turns])
    a, b = 0.38 * r, 1.15 * r
    plus = [(-a, -b), (a, -b), (a, -a), (b, -a), (b, a), (a, a), (a, b), (-a, b), (-a, a), (-b, a), (-b, -a), (-a, -a)]
    if shape == "cross":
        c = 0.7071
        plus = [((dx - dy) * c, (dx + dy) * c) for dx, dy in plus]
    return _polygon([(x + dx, y + dy) for dx, dy in plus])


def _polygon(points: list[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points) + "Z"
