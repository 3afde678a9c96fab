"""The columns of a table of runs: the figures that all have, and those that some were asked for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from motet.report.words import NOTHING, megabytes, number, percent
from motet.scoring.figures import AFTER, BEFORE, GENERIC, PERSONAL, Figure, variant
from motet.scoring.measures import ACCURACY, LOSS, MEASURES

Summary = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """A title, and what stands under it for a run."""

    title: str
    text: Callable[[Summary], str]


def headline_of(summary: Summary) -> Figure:
    """The figure that comes first."""
    figure = Figure.read(summary["reported"]["figure"])
    assert figure is not None
    return figure


def figure_columns(summaries: Sequence[Summary]) -> list[Column]:
    """Both answers, then what one of the runs was asked for, then cost; nothing of which no run has a value."""
    columns = [
        Column("generic\naccuracy", _generic),
        Column("personal\naccuracy,\ngeneric\nmodel", lambda s: percent(_beside(s, GENERIC).of(s["figures"]))),
        Column("personal\naccuracy,\npersonal\nmodels", lambda s: percent(headline_of(s).of(s["figures"]))),
        *(_of_model(model) for model in _others(summaries, PERSONAL)),
        *(_of_measure(name) for name in _measures(summaries)),
        *(_hurt(statistic, than) for statistic, than in (("hurt", "generic"), ("hurt_vs_local", "local"))),
        Column("new clients\nbefore → after\nadaptation", _adapted),
        *(_of_model(model) for model in _others(summaries, AFTER)),
        Column("MB per\nround", lambda s: megabytes(s["bytes_per_round"]["down"], s["bytes_per_round"]["up"])),
        Column("seconds", lambda s: f"{s['seconds']:.1f}"),
    ]
    always = {columns[0].title, columns[1].title, columns[2].title, columns[-2].title}
    return [c for c in columns if c.title in always or any(c.text(s) != NOTHING for s in summaries)]


def _generic(summary: Summary) -> str:
    generic = summary["generic"]
    return percent(generic["accuracy"]) + ("*" if generic["derived"] else "")


def _beside(summary: Summary, model: str) -> Figure:
    """Another model's figure on the headline's data."""
    return replace(headline_of(summary), model=model)


def _of_model(model: str) -> Column:
    """Another reading of the personal models, or another choice of the adapted ones."""
    title = model.replace("@", ",\n").replace("_", "\n")
    return Column(title, lambda summary: percent(_beside(summary, model).of(summary["figures"])))


def _of_measure(name: str) -> Column:
    """A measure of the personal models: on the headline's data, else on clients' own, else on the common test set."""

    def text(summary: Summary) -> str:
        headline, known = headline_of(summary), MEASURES.get(name)
        for data in (headline.data, "split", "common"):
            value = replace(headline, data=data, measure=name).of(summary["figures"])
            if value is not None:
                return percent(value) if known and known.percent else number(value)
        return NOTHING

    return Column(f"{name},\npersonal\nmodels", text)


def _hurt(statistic: str, than: str) -> Column:
    def text(summary: Summary) -> str:
        share = headline_of(summary).over(statistic).of(summary["figures"])
        return NOTHING if share is None else f"{100 * share:.0f} %"

    return Column(f"clients\nhurt vs\n{than}", text)


def _adapted(summary: Summary) -> str:
    before, after = (_beside(summary, model).of(summary["figures"]) for model in (BEFORE, AFTER))
    return NOTHING if after is None else f"{percent(before):>5} → {percent(after):>5}"


def _others(summaries: Sequence[Summary], model: str) -> list[str]:
    """Variants of a model that some run has, such as `personal@global_plus_personal`."""
    return sorted({f.model for f in _every(summaries) if f.model.startswith(variant(model, ""))})


def _measures(summaries: Sequence[Summary]) -> list[str]:
    """Measures besides accuracy and loss, which are always there, in the order of the record."""
    always = (ACCURACY.name, LOSS.name)
    return list(dict.fromkeys(f.measure for f in _every(summaries) if f.measure not in always))


def _every(summaries: Sequence[Summary]) -> list[Figure]:
    return [figure for summary in summaries for name in summary["figures"] if (figure := Figure.read(name))]
