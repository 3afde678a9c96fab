"""`motet export`, `motet predict` and `motet adapt`: write, use and adapt the models of a run."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from motet.cli.options import Json, Trust
from motet.errors import MotetError, shown
from motet.io.text import printable
from motet.io.user_paths import user_path

if TYPE_CHECKING:
    from motet.export.answering import Answered, GivenRows
    from motet.export.newcomer import Newcomer
    from motet.export.run import Exported

MOST_NAME = 1000  # characters of a client's name
OPTIMISTIC = ", which flatters where the models learned from these rows"

Run = Annotated[Path, typer.Argument(metavar="RUN", help="folder of a finished run")]
Formats = Annotated[
    list[str] | None,
    typer.Option("--format", metavar="FORMAT", help="torch (always written), torch.export or onnx; repeatable"),
]


def add_commands(app: typer.Typer) -> None:
    """Add export, predict and adapt to the command line."""
    for command in (export, predict, adapt):
        app.command()(command)


def export(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN|COMPARISON|STATE", help="folder of a finished run or comparison, or a site's --state"
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="a new folder for the models")],
    client: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="a client by name or number; repeatable; default: all, and the generic"),
    ] = None,
    generic: Annotated[bool, typer.Option("--generic", help="the generic model")] = False,
    format: Formats = None,
    threshold: Annotated[
        str,
        typer.Option(
            metavar="RULE",
            help="of two classes: choose thresholds on validation rows for f1, balanced_accuracy, 'recall>=0.9' or "
            "'precision>=0.8'; default those of the run",
        ),
    ] = "",
    refit: Annotated[
        bool | None,
        typer.Option(
            "--refit/--no-refit",
            help="of a comparison: train the recommended method once more on all rows, also those it was judged on "
            "(default), or take the models that were judged",
        ),
    ] = None,
    trust_code: Trust = False,
    json: Json = False,
) -> None:
    """Write the models of a run, or of the method that a comparison recommends, as files that need nothing else."""
    from motet.api.models import served_models
    from motet.cli.console import messages, note, write_json
    from motet.export.refit import export_comparison
    from motet.export.run import export_run
    from motet.report.progress import onlooker
    from motet.sites.own_model import export_own, is_site_folder
    from motet.studies.comparison_file import is_comparison

    folder, where = user_path(run, "folder"), user_path(out, "--out")
    said = (format or ["torch"], lambda sentence: note(f"left out: {sentence}"), threshold)
    if is_site_folder(folder):
        if client or generic or threshold or refit:
            raise MotetError(f"{folder} is a site's --state folder, which has one model; accepted: --out and --format")
        written = [export_own(folder, where, format or ["torch"])]
    elif is_comparison(folder):
        with onlooker(messages()) as watcher:
            written = export_comparison(
                folder, where, client or [], generic, *said, refit is not False, watcher, trust_code
            )
    elif refit:
        raise MotetError(f"--refit is for a comparison, and {folder} is a run; accepted: a folder of `motet compare`")
    else:
        served = served_models(run, trust_code)
        written = export_run(served, where, client or [], generic, *said)
    _tell(written, out)
    if json:
        write_json({"out": str(out), "models": [each.line for each in written]})


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="folder of an exported model, or of a whole export")],
    data: Annotated[
        Path,
        typer.Argument(metavar="DATA", help="samples as the run's data file has them: a file or a folder of images"),
    ],
    client: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN|NAME",
            help="of a whole export: the column of DATA that names clients, so that each row goes to its client's "
            "model (the generic one for names that no client has); or whose model all rows go to; default the generic",
        ),
    ] = None,
    id: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="a column of DATA to keep in the output; repeatable")
    ] = None,
    encoding: Annotated[str, typer.Option(help="of a CSV file, such as latin-1")] = "utf-8",
    out: Annotated[Path | None, typer.Option(metavar="FILE.csv", help="default: standard output")] = None,
    trust_code: Trust = False,
) -> None:
    """Predict classes by name, with probabilities, as CSV; each row by the model of its client if asked."""
    from motet.cli.console import note
    from motet.export.answering import GivenRows, answer, write_predictions
    from motet.export.reading import class_numbers

    given = GivenRows(user_path(data, "data"), encoding)
    answered = answer(user_path(model, "model"), given, client, id or [], trust_code)
    with _written(user_path(out, "--out") if out else None) as file:
        write_predictions(file, answered.rows())
    chosen = answered.chosen
    note(f"{len(chosen):,} predictions{_routes(answered)}" + (f" in {out}" if out else ""))
    if client is None:
        _hint(user_path(model, "model"), given)
    if answered.y is not None and answered.found.are_numbers:
        note(f"against the labels in {data.name}: {_errors(answered)}{OPTIMISTIC}")
    elif answered.y is not None:
        try:
            numbers = class_numbers(answered.y, answered.class_names, str(data)).tolist()
            right = sum(answered.class_names[number] == name for number, name in zip(numbers, chosen, strict=True))
            note(f"{100 * right / len(chosen):.1f} % of them are as the labels in {data.name} say{OPTIMISTIC}")
        except MotetError as error:
            note(f"not compared with labels: {error}")


def _errors(answered: "Answered") -> str:
    """Return how far predicted numbers are from the true ones."""
    import torch

    from motet.metrics.numbers import ALL
    from motet.metrics.wording import written

    said, y = torch.from_numpy(answered.found.shares), torch.from_numpy(answered.y)
    values = {metric: metric.value(said, y) for metric in ALL}
    return ", ".join(f"{m.said} {written(value, m)}" for m, value in values.items() if value is not None)


def _routes(answered: "Answered") -> str:
    """Return by which models the predictions were made, and how many by each."""
    from motet.export.routing import GENERIC
    from motet.io.text import listed, some

    if answered.title:
        return f" by the {answered.title}"
    routes = dict(answered.found.routes)
    generic = routes.pop(GENERIC, 0)
    own = some([f"{name} {count:,}" for name, count in routes.items()])
    said = [f"{sum(routes.values()):,} by the models of their clients ({own})"] if routes else []
    if generic:
        who = answered.found.strangers
        names = f"names that no client has: {listed(who)}" if who else "rows without a client"
        said.append(f"{generic:,} by the generic model ({names})")
    return ": " + ", ".join(said)


def _hint(folder: Path, given: "GivenRows") -> None:
    """Say that rows could go to their clients' models, where the data have the column that names clients."""
    from motet.cli.console import note
    from motet.export.index import INDEX, read_index

    if (folder / INDEX).is_file():
        column = read_index(folder).client_column
        if column is not None and column in given.columns:
            note(f"--client {column} would send each row to the model of its client")


def adapt(
    run: Run,
    data: Annotated[Path | None, typer.Option(help="the new client's samples and labels")] = None,
    counts: Annotated[
        str | None, typer.Option(metavar="N,N,…", help="its class counts alone; then --data only scores the model")
    ] = None,
    test_share: Annotated[float, typer.Option(help="share of its samples that score the model")] = 0.25,
    seed: Annotated[int, typer.Option(min=0, help="which samples those are")] = 0,
    name: Annotated[str, typer.Option(help="the new client's, in the exported model")] = "new",
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="a new folder for its model")] = None,
    format: Formats = None,
    trust_code: Trust = False,
    json: Json = False,
) -> None:
    """Make the model of a client that took no part in a run, and say what it gains."""
    from motet.api.models import newcomer_of, served_models
    from motet.cli.console import write_json
    from motet.export.run import Exporter, refuse_taken

    if data is None and counts is None:
        raise MotetError("adapt needs a new client; accepted: --data FILE with samples and labels, or --counts N,N,…")
    if format and not out:
        raise MotetError("--format is for a model that is written; accepted: --out DIR beside it")
    if len(name) > MOST_NAME or any(
        "\ud800" <= c <= "\udfff" for c in name
    ):  # lone surrogates cannot be written as UTF-8
        raise MotetError(f"--name is {shown(name)}; accepted: text of up to {MOST_NAME} characters")
    served = served_models(run, trust_code)
    folder = user_path(out, "--out") if out else None
    exporter = Exporter(served, format or ["torch"]) if folder else None
    if folder:
        refuse_taken(folder)
    made = newcomer_of(served, data, None if counts is None else _numbers(counts), test_share, seed)
    if exporter and folder:
        written = exporter.write(folder, made.model, "adapted", (served.next_id, name), made.figures)
        _tell([written], folder)
    _tell_newcomer(made)
    if json:
        line = {
            "train": made.train,
            "test": made.test,
            "figures": made.figures,
            "kept": made.kept,
            "validation": made.validation,
            "folder": folder and str(folder),
        }
        write_json({"method": served.record.experiment.method, **line})


def _numbers(text: str) -> list[int]:
    words = text.split(",")
    if not all(word.strip().isdecimal() and len(word) < 16 for word in words):
        raise MotetError(f"--counts is {text[:100]!r}; accepted: one whole number per class, such as 10,0,3")
    return [int(word) for word in words]


def _tell(written: "Sequence[Exported]", out: Path) -> None:
    """Print what was written, and how far each format is from the run's own model."""
    from motet.cli.console import output

    largest = {
        format: max(each.differences[format] for each in written if format in each.differences)
        for each in written
        for format in each.differences
    }
    count = f"{len(written)} model{'s' if len(written) > 1 else ''}"
    apart = ", ".join(f"{format} {value:.1e}" for format, value in largest.items())
    again = ", trained once more on all rows; figures are of the judged models" if written[0].known.refitted else ""
    lines = [f"{count} written to {out}{again}; load with motet.load_model"]
    lines += [f"  {each.folder.name}: {each.known.title}{_threshold(each)}" for each in written[:20]]
    lines += [f"  and {len(written) - 20} more, in export.json"] if len(written) > 20 else []
    lines += [f"Largest difference from the run's own logits: {apart} (on {written[0].checked_on})"]
    for line in lines:
        output().print(printable(line), markup=False, soft_wrap=True)


def _threshold(written: "Exported") -> str:
    """Return the threshold of a model in words, or nothing if it has none."""
    found = written.known.threshold
    if found is None:
        return ""
    whose = "" if found.own else ", as for all"
    short = "" if found.reached else ", which was not reached"
    return f", predicts {found.of_class} from {found.value:.3g} on ({found.rule}{short}{whose})"


def _tell_newcomer(made: "Newcomer") -> None:
    """Print what a new client learned from, what each model would give it, and which one was kept and why."""
    from motet.cli.console import output
    from motet.metrics.metric import ACCURACY
    from motet.metrics.names import AFTER, BEFORE, GENERIC, MetricName
    from motet.metrics.numbers import ALL
    from motet.metrics.wording import with_unit

    learned = f"learned from {made.train} samples" if made.train else "made from class counts"
    scored = f"scored on {made.test} that it has not seen" if made.test else "not scored: no samples are held out"
    lines = [f"New client: {learned}, {scored}"]
    for model, words in ((GENERIC, "generic model"), (BEFORE, "before adapting"), (AFTER, "after adapting")):
        for metric in (ACCURACY, *ALL):
            value = MetricName(model, "split", metric.name).of(made.figures)
            if value is not None:
                unit = "" if metric is ACCURACY else f"  {metric.said}"
                lines.append(f"  {words:16} {with_unit(value, metric):>7}{unit}")
    words = {BEFORE: "before adapting", AFTER: "after adapting"}[made.kept]
    if made.validation:
        shown = {name: f"RMSE {-v:.3g}" if v < 0 else f"{100 * v:.1f} %" for name, v in made.validation.items()}
        told = ", ".join(f"{shown[name]} {name}" for name in (BEFORE, AFTER))
        lines.append(f"Kept: the model {words}, chosen on validation rows among those it learned from ({told})")
    elif made.train:
        lines.append(f"Kept: the model {words}; there was no other, or too few rows to choose by")
    for line in lines:
        output().print(line, markup=False, soft_wrap=True)


@contextmanager
def _written(path: Path | None) -> Iterator[TextIO]:
    """Yield a file that appears only when it is complete, or standard output."""
    from motet.io.files import refuse_special, write_atomic

    if path is None:
        text = StringIO()
        yield text
        shown = text.getvalue()
        sys.stdout.write("\n".join(map(printable, shown.split("\n"))) if sys.stdout.isatty() else shown)
        return
    if path.is_dir():
        raise MotetError(f"--out {path} is a folder; accepted: a file such as predictions.csv")
    refuse_special(path)
    text = StringIO()
    yield text
    write_atomic(path, text.getvalue().encode())
