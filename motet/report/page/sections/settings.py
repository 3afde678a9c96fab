"""The section with settings and environment, and how to reproduce the numbers."""

from motet.config.experiment import Experiment, to_toml
from motet.config.identity import field_of
from motet.config.section import dotted_fields
from motet.errors import MotetError
from motet.metrics.wording import data_name
from motet.report.page.blocks import Block, Cell, Code, PageSection, Sheet
from motet.report.page.contents import Contender, PageContents
from motet.runs.record import Record


def settings(contents: PageContents) -> PageSection:
    """Return the section: what is the same for all, what differs, where it ran, and the files to run it again."""
    blocks: list[Block] = []
    if len(contents.contenders) > 1:
        blocks.append(_differences(contents))
    blocks += [_common(contents), *_environment(contents.contenders[0])]
    blocks += [Code(f"{c.label}: experiment.toml", _toml(c)) for c in contents.contenders]
    see = (
        "Save an experiment as experiment.toml, beside the data if they are a file, then `motet run experiment.toml`: "
        "the same seed, the same numbers."
    )
    return PageSection("settings", "Settings and reproduction", see, blocks, closed=True)


def _toml(contender: Contender) -> str:
    seeds = ", ".join(str(run.seed) for run in contender.runs)
    note = f"# seeds of this report: {seeds}\n" if len(contender.runs) > 1 else ""
    return note + to_toml(_named(contender.first.finished.experiment))


def _differences(contents: PageContents) -> Sheet:
    names = ["method", *(name for name in contents.differing if name != "method")]
    rows = [
        [
            Cell(c.label, c.label.lower()),
            *(Cell(_value(c, name)) for name in names),
            Cell(", ".join(str(run.seed) for run in c.runs)),
        ]
        for c in contents.contenders
    ]
    return Sheet("Where the methods differ", ["", *names, "seeds"], rows, [c.series for c in contents.contenders])


def _common(contents: PageContents) -> Sheet:
    different = {"method", "seed", *contents.differing}
    first = contents.contenders[0]
    rows = [
        [Cell(name, name), Cell(_value(first, name)), Cell(info.description or "")]
        for name, info in dotted_fields(Experiment)
        if name not in different
    ]
    return Sheet("What is the same for all", ["field", "value", "what it is"], rows, closed=True)


def _value(contender: Contender, name: str) -> str:
    value = field_of(_named(contender.first.finished.experiment), name)
    return "" if value is None else str(value)[:200]


def _named(experiment: Experiment) -> Experiment:
    """Return the experiment with the path of its data reduced to the file name."""
    data = experiment.data.model_copy(update={"name": data_name(experiment.data.name)})
    return experiment.model_copy(update={"data": data})


def _environment(contender: Contender) -> list[Block]:
    try:
        found = Record(contender.first.finished.folder).environment
    except MotetError:
        return []
    rows = [[Cell(name, name), Cell("" if v is None else str(v)[:200])] for name, v in found]
    return [Sheet("Where it was computed", ["", "value"], rows, closed=True)]
