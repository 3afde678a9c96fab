"""The table of a bench for Markdown, LaTeX, CSV and the terminal, with a paper's values beside ours."""

import csv
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.text import Text

from motet.io.files import write_atomic
from motet.io.text import printable
from motet.metrics.names import MetricName
from motet.metrics.registry import METRICS
from motet.metrics.wording import NOTHING, written
from motet.report.tables.layout import Packed, Prose
from motet.studies.bench import BEST, SECOND, BenchResults, FigureOverSeeds

_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "−": "$-$",
    "λ": r"$\lambda$",
}


def bench_table(result: BenchResults) -> Group:
    """Return the table for a terminal, where * marks the best and ' the second best."""
    titles = [title.replace(".", ".\n") for title in _titles(result)]
    marks = {BEST: "*", SECOND: "'", None: ""}
    cells = [[_shown(text) + marks[rank] for text, rank in row] for row in _rows(result)]
    table = Packed(["case"], [[printable(name)] for name in result.cases], titles, cells)
    notes = ["* the best, ' the second best.", *_below(result)]
    return Group(
        Prose(printable(_title(result)), "bold"), Text(), table, Text(), *(Prose(printable(n), "dim") for n in notes)
    )


def to_markdown(result: BenchResults) -> str:
    """Return the table in Markdown, with the best in **bold** and the second best in _italic_."""
    marks = {BEST: "**", SECOND: "_", None: ""}
    lines = [f"## {_plain(_title(result))}", "", "| case | " + " | ".join(map(_plain, _titles(result))) + " |"]
    lines.append("|---" * (len(_titles(result)) + 1) + "|")
    for name, row in zip(result.cases, _rows(result), strict=True):
        cells = [f"{marks[rank]}{_shown(text)}{marks[rank]}" for text, rank in row]
        lines.append(f"| {_plain(name)} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", *(f"- {_plain(note)}" for note in _below(result)), ""])


def to_latex(result: BenchResults) -> str:
    """Return a LaTeX tabular with booktabs, with the best in bold and the second best underlined."""
    marks = {BEST: r"\textbf{%s}", SECOND: r"\underline{%s}", None: "%s"}
    titles = _titles(result)
    lines = [f"% {printable(_title(result))}", r"\begin{tabular}{l" + "r" * len(titles) + "}", r"\toprule"]
    lines += [" & ".join(["case", *map(_tex, titles)]) + r" \\", r"\midrule"]
    for name, row in zip(result.cases, _rows(result), strict=True):
        cells = [marks[rank] % _tex(_shown(text)) for text, rank in row]
        lines.append(" & ".join([_tex(printable(name)), *cells]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}", *(f"% {printable(note)}" for note in _below(result))]
    return "\n".join(lines) + "\n"


def to_csv(result: BenchResults) -> str:
    """Return CSV with a line per case and figure, in full precision, as shares and not percent."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for row in figure_rows(result):
        writer.writerow(
            [_harmless(printable(v)) if isinstance(v, str) else "" if v is None else v for v in row.values()]
        )
    return text.getvalue()


_COLUMNS = ("case", "method", "data", "figure", "mean", "std", "seeds", "rank", "paper")


def figure_rows(result: BenchResults) -> list[dict[str, Any]]:
    """Return a row per case and figure that is a number; shares, not percent."""
    rows = []
    for name, case in result.cases.items():
        for figure in result.figures:
            found = case.figures[figure]
            if found.mean is not None:
                values = (found.mean, found.std, len(found.per_seed), found.rank, case.paper.get(figure))
                rows.append(dict(zip(_COLUMNS, (name, case.method, case.data, figure, *values), strict=True)))
    return rows


def draw_tables(result: BenchResults, folder: Path) -> None:
    """Write table.md, table.tex and table.csv into the folder of a bench."""
    for name, write in (("table.md", to_markdown), ("table.tex", to_latex), ("table.csv", to_csv)):
        write_atomic(folder / name, write(result).encode())


# ------------------------------------------------------------ rows and cells for all formats


def _titles(result: BenchResults) -> list[str]:
    return [
        title
        for figure in _figures(result)
        for title in (figure, *([f"{figure}, paper"] if _has_paper(result, figure) else []))
    ]


def _rows(result: BenchResults) -> list[list[tuple[str | None, int | None]]]:
    """Return the text of each column and its rank, for each case."""
    rows = []
    for case in result.cases.values():
        row: list[tuple[str | None, int | None]] = []
        for figure in _figures(result):
            found = case.figures[figure]
            row.append((_cell(found, figure), found.rank))
            if _has_paper(result, figure):
                paper = case.paper.get(figure)
                row.append((None if paper is None else _number(paper, figure), None))
        rows.append(row)
    return rows


def _figures(result: BenchResults) -> list[str]:
    """Return the figures that are numbers."""
    return [f for f in result.figures if any(case.figures[f].mean is not None for case in result.cases.values())]


def _has_paper(result: BenchResults, figure: str) -> bool:
    return any(figure in case.paper for case in result.cases.values())


def _cell(found: FigureOverSeeds, figure: str) -> str | None:
    if found.mean is None:
        return None
    return _number(found.mean, figure) + ("" if found.std is None else f" ± {_number(found.std, figure)}")


def _number(value: float, figure: str) -> str:
    """Return shares in percent, and other numbers as they are."""
    counted = figure.startswith(("bytes", "seconds", "set_aside")) or figure.endswith(("_clients", ".loss"))
    name = MetricName.read(figure.removeprefix("curve.").removeprefix("last."))
    metric = None if name is None else METRICS.get(name.metric)
    if metric is not None and not metric.percent and not counted:
        return written(value, metric)
    return f"{value:.4g}" if counted else f"{100 * value:.1f}"


def _shown(text: str | None) -> str:
    return NOTHING if text is None else text


def _title(result: BenchResults) -> str:
    quick = " (a quick look: these numbers show that it runs, nothing more)" if result.quick else ""
    return f"{result.bench}{quick}"


def _below(result: BenchResults) -> list[str]:
    """Return the sentences below the table: the claim, how it was measured, and what else the paper reports."""
    said = [f"Claim: {result.claim}."] if result.claim else []
    said += [f"Accuracies in percent; seeds {', '.join(map(str, result.seeds))}.", *result.notes]
    for paper in result.paper:
        where = paper.table or "The paper"
        if paper.figures:
            said.append(f"{where}: {', '.join(paper.figures)} beside ours.")
        else:
            said.append(f"{where}: {', '.join(f'{name} {_values(value)}' for name, value in paper.values.items())}.")
    return said


def _values(value: float | Sequence[float]) -> str:
    return " | ".join(f"{v:g}" for v in value) if isinstance(value, tuple) else f"{value:g}"


def _plain(text: str) -> str:
    """Return text escaped for Markdown."""
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>|#" else c for c in printable(text))


def _tex(text: str) -> str:
    return "".join(_LATEX.get(c, c) for c in text)


def _harmless(text: str) -> str:
    """Return text that a spreadsheet does not take for a formula."""
    return f"'{text}" if text[:1] in "=+-@" else text
