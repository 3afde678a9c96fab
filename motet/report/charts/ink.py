"""What charts look like: one table of colours and roles, which becomes the page's style sheet and the print's values.

On the page a mark has a class, so that dark mode is a matter of the style sheet. In print every mark has its values, so
that any program can open the file. Series differ in colour, in dash and in shape: colour alone tells nothing.
"""

from collections.abc import Mapping

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
SERIES_LIGHT = ("#1d5fa6", "#c2410c", "#0b7a5b", "#8a3a92", "#8f6400", "#c03a72", "#1581a0", "#4a4f57")
SERIES_DARK = ("#74b0f0", "#ff9a5c", "#45c79d", "#d49ae0", "#e3b341", "#ff8fb8", "#62cbe6", "#c6ccd4")
DASHES = ("", "7 3", "2 2.5", "9 3 2 3", "4 2", "12 3", "2 2 6 2")
SHAPES = ("circle", "square", "triangle", "diamond", "cross", "wedge", "plus", "ring", "star")

# What each role is drawn with; a value that is a name of a colour is looked up.
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
    """The class that gives a group its colour: a series by its number, or a colour by its name."""
    return series if isinstance(series, str) else f"s{series % len(SERIES_LIGHT)}"


def dash_of(series: int) -> str:
    """Another dash for each; colours and dashes repeat with different periods, so that pairs do not."""
    return DASHES[series % len(DASHES)]


def shape_of(series: int) -> str:
    """Another shape for each, as for dashes."""
    return SHAPES[series % len(SHAPES)]


def print_colour(name: int | str) -> str:
    """The value on white paper."""
    return LIGHT[name] if isinstance(name, str) else SERIES_LIGHT[name % len(SERIES_LIGHT)]


def print_values(role: str) -> dict[str, str]:
    """A role's attributes for print."""
    return {name: LIGHT.get(value, value) for name, value in ROLES[role].items()}


def style_sheet() -> str:
    """The colours of both modes, and a rule for each role and each series."""
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
