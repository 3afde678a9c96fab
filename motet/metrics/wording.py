"""The text form of figures, sizes and times in tables and sentences, and of which model was scored."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from motet.io.text import printable
from motet.metrics.names import FROM_SUMS

if TYPE_CHECKING:
    from motet.metrics.metric import Metric

NOTHING = "–"


def percent(share: object) -> str:
    """Return a share as percent with one decimal; a dash where there is none."""
    return f"{100 * share:.1f}" if isinstance(share, int | float) else NOTHING


def signed(share: float) -> str:
    """Return a difference of shares in percentage points with its sign; 0 has none."""
    text = f"{100 * share:+.1f}"
    return "0.0" if float(text) == 0 else text.replace("-", "−")


def number(value: object) -> str:
    """Return a plain number with three digits; a dash where there is none."""
    return f"{value:.3g}" if isinstance(value, int | float) else NOTHING


def written(value: object, metric: "Metric") -> str:
    """Return a value of a metric for a table: "81.2" for a share in percent, ".812" otherwise; a dash for none."""
    if metric.percent or not isinstance(value, int | float):
        return percent(value)
    if not metric.is_share and (0 < abs(value) < 0.0005 or abs(value) >= 10):
        return f"{value:.0f}" if abs(value) >= 1000 else number(value)  # of a scale of its own
    text = f"{value:.3f}"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


def with_unit(value: object, metric: "Metric") -> str:
    """Return a value of a metric for a sentence: "81.2 %", or ".812"."""
    return written(value, metric) + (" %" if metric.percent else "")


def signed_written(value: float, metric: "Metric") -> str:
    """Return a difference for a table with its sign, in the metric's unit: "+3.1" points, or "+.031"; 0 has none."""
    if metric.percent:
        return signed(value)
    size = written(abs(value), metric)
    return size if float(size) == 0 else f"{'+' if value > 0 else '−'}{size}"


def points(value: float, metric: "Metric") -> str:
    """Return a difference for a sentence: "+3.1 points", or "+.031"."""
    return signed_written(value, metric) + (" points" if metric.percent else "")


def title_of_metric(metric: "Metric") -> str:
    """Return what stands at a column or an axis: "accuracy in %", "AUROC"."""
    return f"{metric.said} in %" if metric.percent else metric.said


def counted(counts: Sequence[float]) -> str:
    """Return how many clients there are in each of several runs: one number, or "3 to 5" where they differ."""
    low, high = (round(of(counts)) for of in (min, max))
    return str(low) if low == high else f"{low} to {high}"


def level_words(metric: "Metric") -> str:
    """Return what is answered without any model: a client's most frequent class, or the mean of its numbers."""
    return "the mean of a client's training rows" if metric.name in FROM_SUMS else "a client's most frequent class"


def megabytes(*counts: object, runs: int = 1) -> str:
    """Return the sum of byte counts in millions, or its mean over several runs; a dash if one is missing.

    A few bytes are not "0.00": a number below a hundredth has one digit that is not 0.
    """
    known = [count for count in counts if isinstance(count, int | float)]
    if not known or len(known) < len(counts):
        return NOTHING
    millions = sum(known) / runs / 1e6
    digits = -math.floor(math.log10(float(f"{millions:.1g}"))) if 1e-6 <= millions < 0.005 else 2
    return f"{millions:.{digits}f}"


def duration(seconds: float) -> str:
    """Return a time such as "40 s", "12 min" or "3 h 5 min"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def data_name(name: str) -> str:
    """Return the name of data without the folder of their file, which is private."""
    return PurePath(name).name or name


def choices(setting: Mapping[str, Any]) -> str:
    """Return chosen options such as `lam=0.1, lr=0.03`; by full names where two short ones would be the same."""
    short = [name.removesuffix(".name").rpartition(".")[2] for name in setting]
    return ", ".join(
        f"{printable(name if short.count(last) > 1 else last)}={chosen_value(name, value)}"
        for (name, value), last in zip(setting.items(), short, strict=True)
    )


ZERO_MEANS = {"ft.lr": "adapt.lr", "lp.lr": "adapt.lr"}  # options of which 0 stands for another field


def chosen_value(name: str, value: object) -> str:
    """Return the value of an option as tables write it: what a 0 stands for, where it does."""
    return ZERO_MEANS[name] if value == 0 and name in ZERO_MEANS else _value(value)


def left_out(name: str, why: str) -> str:
    """Return the sentence about a method that cannot take part in a study."""
    return f"{printable(name)} is left out: {printable(why)}."


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return str(value).lower() if isinstance(value, bool) else printable(value)


_OWN_MODELS = {
    "last_participation": "the client's after its last local training",
    "final_sync": "the client's after one more training of everybody at the end",
    "global_plus_personal": "made from the server's model and what the client keeps",
}
_ONE_MODEL = "the server's model, for the method makes none of clients' own"


def own_models(runs: Iterable[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """Return which model of a client was scored, in words, from methods and `reported` of their summaries."""
    said: dict[str, list[str]] = {}
    for method, reported in runs:
        source = reported.get("personal_model")
        if not isinstance(source, str) or source not in _OWN_MODELS:
            continue
        one = source == "global_plus_personal" and reported.get("personalizes") is False
        words = _ONE_MODEL if one else _OWN_MODELS[source]
        if method not in said.setdefault(words, []):
            said[words].append(method)
    if len(said) < 2:
        return [f"Own models: {words}." for words in said]
    each = (f"of {', '.join(methods)} {words}" for words, methods in said.items())
    return [f"Own models: {'; '.join(each)}."]
