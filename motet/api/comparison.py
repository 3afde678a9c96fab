"""`motet.Comparison`: what a comparison of methods found, as a Python object."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from motet.api.choices import AnyPath
from motet.api.result import Result
from motet.api.tables import Table, html_note, html_table, html_text
from motet.errors import MotetError
from motet.io.user_paths import user_path
from motet.metrics.metric import Metric
from motet.metrics.wording import NOTHING, choices, written
from motet.report.page import write_report
from motet.report.progress import onlooker
from motet.report.tables.compared import title
from motet.studies.compare import RECOMMENDED
from motet.studies.comparison_file import ClientResult, ComparisonFile, MethodResult, read_comparison

if TYPE_CHECKING:
    import pandas

PAGE = "report.html"


@dataclass(frozen=True)
class Recommended:
    """The method that a comparison recommends."""

    method: str
    """Its name, as it was compared."""
    options: dict[str, Any]
    """The setting that was chosen for it on validation data."""
    reason: str
    """Why, in sentences."""
    certain: bool
    """Whether it is better than every other method by more than chance."""
    enough_evidence: bool
    """Whether the runs suffice for an answer; if not, the method is a provisional choice."""
    may_be_equal: tuple[str, ...]
    """The methods that may be as good as the best one."""
    experiment: Path
    """The experiment file of its first run: `motet.run(experiment=...)` runs it again."""


class Comparison:
    """Which method to take on some data, what each client gains or loses, and how sure that is.

    `motet.compare` returns it, and `motet.load` reads it from its folder.

    >>> import motet, tempfile
    >>> found = motet.compare("digits", methods="local,fedavg", trials=1, seeds=1, clients=4, rounds=2,
    ...                       jobs=1, out=tempfile.mkdtemp() + "/study")
    >>> found.recommended.method in ("local", "fedavg")
    True
    >>> len(found.methods), len(found.clients), found.report.name
    (2, 4, 'report.html')
    """

    def __init__(self, folder: AnyPath, *, trust_code: bool = False):
        """Read the comparison of a folder; its models run code that the folder names only as `motet.resume` says."""
        self.folder, self._trust_code = user_path(folder, "folder"), trust_code
        self.file: ComparisonFile = read_comparison(self.folder)

    @property
    def recommended(self) -> Recommended:
        """Return the recommendation: `method`, `reason`, `certain`, `experiment` and more."""
        answer = self.file.recommended
        return Recommended(
            answer.method,
            dict(answer.options),
            answer.reason,
            answer.certain,
            answer.enough_evidence,
            answer.may_be_equal,
            self.folder / RECOMMENDED,
        )

    @cached_property
    def methods(self) -> Table:
        """Return one row per method, the best first; values are of `comparison.metric`, accuracies as shares.

        `majority` is what always answering with a client's most frequent class has, beside an accuracy.
        """
        return Table({**_row(each), "majority": self.file.majority} for each in self.file.methods)

    @property
    def metric(self) -> str:
        """Return the metric by which methods were judged, such as `accuracy` or `auroc`."""
        return self.file.metric

    @cached_property
    def clients(self) -> Table:
        """Return one row per client: id, name, rows, share of the rare class, and then values.

        `alone`, `one_model` and `own` are what it has alone, with FedAvg's one model, and with its own model of the
        recommended method; `difference` is how much better that is than alone (where `local` is recommended, than the
        one model), from `low` to `high`, with a verdict.
        The other columns are its values with each method, mean over runs.
        """
        return Table(map(_client, self.file.clients))

    @property
    def notes(self) -> list[str]:
        """Return sentences about how the comparison was made, and what was left out."""
        return list(self.file.notes)

    @property
    def left_out(self) -> dict[str, str]:
        """Return the methods that could not take part, each with the reason."""
        return dict(self.file.left_out)

    @property
    def report(self) -> Path:
        """Return the path of the page about the comparison, and write the page if it is not there."""
        page = self.folder / PAGE
        return page if page.exists() else write_report([self.folder], page)

    @cached_property
    def best_run(self) -> Result:
        """Return the first run of the recommended method, with its models."""
        best = self.file.best
        if best is None or not best.runs:
            raise MotetError(f"{self.folder} names no run of {self.file.recommended.method!r}; accepted: compare again")
        return Result(self.folder / best.runs[0], trust_code=self._trust_code)

    def export(
        self,
        out: AnyPath,
        clients: Sequence[int | str] = (),
        *,
        generic: bool = False,
        formats: Sequence[str] = ("torch",),
        threshold: str = "",
        refit: bool = True,
        progress: bool = False,
    ) -> list[Path]:
        """Write the recommended method's models, trained once more on all rows, and return their folders.

        Without `refit` they are those of its first run, which never saw the test rows. The rest is as for
        `motet.export`; `progress` shows the rounds on standard error.
        """
        from motet.export.refit import export_comparison

        with onlooker(Console(stderr=True, quiet=not progress)) as watcher:
            written = export_comparison(
                self.folder,
                user_path(out, "out"),
                clients,
                generic,
                formats,
                threshold=threshold,
                refit=refit,
                watcher=watcher,
                trust_code=self._trust_code,
            )
        return [each.folder for each in written]

    def to_pandas(self) -> "pandas.DataFrame":
        """Return `methods` as a pandas.DataFrame; `comparison.clients.to_pandas()` has the clients."""
        return self.methods.to_pandas()

    def _repr_html_(self) -> str:
        metric = self.file.judged_by
        unit = "%" if metric.percent else metric.said
        titles = (
            "method",
            f"own models, {unit}",
            "95 % interval",
            f"generic model, {unit}",
            "worse off than alone",
            "chosen",
        )
        answer = self.file.recommended
        table = html_table(titles, (_cells(each, metric) for each in self.file.methods))
        why = "".join(f"<p>{html_text_of(paragraph)}</p>" for paragraph in answer.paragraphs)
        page = html_note(f"The page: {self.folder / PAGE}")
        return f"<p><strong>{html_text(title(answer))}</strong></p>{why}{table}{page}"

    def __repr__(self) -> str:
        return (
            f"<motet.Comparison of {len(self.file.methods)} methods: {title(self.file.recommended)}, in {self.folder}>"
        )


def html_text_of(sentences: str) -> str:
    """Return sentences as HTML text, without shortening them."""
    return " ".join(html_text(word) for word in sentences.split(" "))


def _row(found: MethodResult) -> dict[str, Any]:
    low, high = found.personal.interval or (None, None)
    new, difference = found.new_clients, found.difference
    return {
        "method": found.method,
        "personal": found.personal.mean,
        "std": found.personal.std,
        "low": low,
        "high": high,
        "difference": None if difference is None else difference.mean,
        "certain": None if difference is None else difference.certain,
        "generic": None if found.generic is None else found.generic.mean,
        "worst_client": found.worst_client,
        "pooled": found.pooled,
        "hurt": found.hurt,
        "hurt_vs_fedavg": found.hurt_vs_fedavg,
        "new_before": None if new is None else new.before,
        "new_after": None if new is None else new.after,
        "bytes_per_round": found.bytes_per_round,
        "seconds": found.seconds,
        "expression": found.expression,
        "yardstick": found.yardstick,
    }


def _client(found: ClientResult) -> dict[str, Any]:
    low, high = found.interval or (None, None)
    return {
        "id": found.id,
        "name": found.name,
        "train": found.train,
        "test": found.test,
        "rare": found.rare,
        "alone": found.alone,
        "one_model": found.one_model,
        "own": found.own,
        "difference": found.difference,
        "low": low,
        "high": high,
        "verdict": found.verdict,
        **found.personal,
    }


def _cells(found: MethodResult, metric: Metric) -> list[object]:
    interval = found.personal.interval
    return [
        found.method,
        written(found.personal.mean, metric),
        NOTHING if interval is None else f"{written(interval[0], metric)} to {written(interval[1], metric)}",
        written(None if found.generic is None else found.generic.mean, metric),
        NOTHING if found.hurt is None else str(found.hurt),
        choices(found.options),
    ]
