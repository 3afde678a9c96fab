"""Writes SVG: every text and attribute is escaped here, and nowhere else is a tag put together."""

from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from math import cos, pi, sin

from rich.cells import cell_len

from motet.io.text import printable, shortened
from motet.report.charts.ink import FONT, colour_class, print_colour, print_values, shape_of

_ABOUT_A_LETTER = 0.56  # of the size of the font


def width_of(text: str, size: float = 12) -> float:
    """About how wide a text is; wide scripts count double."""
    return cell_len(text) * size * _ABOUT_A_LETTER


def fitted(text: str, width: float, size: float = 12) -> str:
    """The text, or its beginning and its end in about that width."""
    return shortened(text, max(3, int(width / (size * _ABOUT_A_LETTER))))


def number(value: float) -> str:
    """A coordinate: a tenth of a pixel is enough."""
    text = f"{value:.1f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


class Pen:
    """Collects the elements of one drawing; `page` says whether style sheets will colour it."""

    def __init__(self, page: bool = True) -> None:
        self.page = page
        self._parts: list[str] = []

    # ---------------------------------------------------------------- elements

    def line(self, x1: float, y1: float, x2: float, y2: float, role: str) -> None:
        """A straight line."""
        self._add("line", role, {"x1": x1, "y1": y1, "x2": x2, "y2": y2})

    def rect(
        self, x: float, y: float, width: float, height: float, role: str, tip: str = "", opacity: float = 1
    ) -> None:
        """A box."""
        more = {"fill-opacity": f"{opacity:.2f}"} if opacity < 1 else {}
        self._add("rect", role, {"x": x, "y": y, "width": width, "height": height, **more}, tip)

    def circle(self, x: float, y: float, r: float, role: str, tip: str = "", opacity: float = 1) -> None:
        """A disc or a ring."""
        more = {"fill-opacity": f"{opacity:.2f}"} if opacity < 1 else {}
        self._add("circle", role, {"cx": x, "cy": y, "r": r, **more}, tip)

    def path(self, d: str, role: str, dash: str = "", tip: str = "") -> None:
        """Anything else."""
        self._add("path", role, {"d": d, **({"stroke-dasharray": dash} if dash else {})}, tip)

    def text(self, x: float, y: float, text: str, role: str, anchor: str = "start", turn: float = 0) -> None:
        """Words, turned about their anchor."""
        places: dict[str, float | str] = {"x": x, "y": y}
        if anchor != "start":
            places["text-anchor"] = anchor
        if turn:
            places["transform"] = f"rotate({number(turn)} {number(x)} {number(y)})"
        self._add("text", role, places, text=text)

    def mark(self, x: float, y: float, series: int, role: str = "solid", tip: str = "", size: float = 4.5) -> None:
        """The shape of a series."""
        shape = shape_of(series)
        if shape in ("circle", "ring"):
            self.circle(x, y, size, "hollow" if shape == "ring" else role, tip)
        else:
            self.path(_outline(shape, x, y, size), role, tip=tip)

    @contextmanager
    def coloured(self, colour: int | str, toggled_by: int | None = None) -> Iterator[None]:
        """A group in a colour; on the page the legend's button of this number shows and hides it."""
        if self.page:
            key = "" if toggled_by is None else f' data-k="{toggled_by}"'
            self._parts.append(f'<g class="{colour_class(colour)}"{key}>')
        else:
            self._parts.append(f'<g color="{print_colour(colour)}">')
        yield
        self._parts.append("</g>")

    # ---------------------------------------------------------------- the whole

    def svg(self, width: float, height: float, title: str, alt: str) -> str:
        """The drawing with its name and what it says in words."""
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
    """Shown, never obeyed, by a browser or by anything else that reads XML."""
    return escape(printable(text), quote=True)


def _lines(tip: str) -> str:
    """A tip may have several lines; names in it have none, they went through `printable` as everything does."""
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
