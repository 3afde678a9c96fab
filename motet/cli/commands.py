"""The commands. Each imports what it needs when it runs: torch takes seconds, and `--help` does not need it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from motet.cli.options import with_choices
from motet.inspect_files import user_path
from motet.runs.choices import CHOICES, FIELDS, choose, nested

app = typer.Typer(
    help="Personalized federated learning: one model per client and one for everybody, in the same run.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="Look at data.", rich_markup_mode=None)
app.add_typer(data_app, name="data")


DATA_CHOICES = [name for name, field in FIELDS.items() if field.startswith("data.") and name != "data"]

Set = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="any other field; repeatable")]
Json = Annotated[bool, typer.Option("--json", help="for programs: the last line of stdout is JSON")]


@app.callback(invoke_without_command=True)
def top(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    """What `motet` alone says."""
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"motet {installed('motet')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def demo() -> None:
    """Compare the methods on real data in about a minute, and print one table."""
    from motet.cli.demo import compare

    compare()


@app.command()
@with_choices(FIELDS)
def run(
    experiment: Annotated[Path | None, typer.Argument(metavar="EXPERIMENT.toml", help="an experiment file")] = None,
    measure: Annotated[
        list[str] | None,
        typer.Option(help="besides accuracy: a name of `motet list measures` or FILE.py:FUNCTION; repeatable"),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="folder of the record; default in runs/")] = None,
    settings: Set = None,
    json: Json = False,
    **short: Any,
) -> None:
    """Run one experiment. What counts: defaults, then --protocol, the file, the flags, --set."""
    from motet.cli.running import run_and_show
    from motet.runs.experiment import parse_set

    asked = [nested("scoring.measures", measure)] if measure else []
    file = user_path(experiment, "experiment file") if experiment else None
    folder = user_path(out, "--out") if out else None
    run_and_show(choose(short, file, *map(parse_set, settings or []), beside=asked), folder, json)


@app.command()
def resume(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="folder of a run")],
    trust_code: Annotated[
        bool, typer.Option("--trust-code", help="run the Python code that it names, also if you did not run it before")
    ] = False,
    json: Json = False,
) -> None:
    """Continue a run that was stopped at any moment."""
    from motet.cli.running import resume_and_show

    resume_and_show(user_path(folder, "folder"), json, trust_code)


@app.command()
def show(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="folders of runs, or folders of such")],
    local: Annotated[
        Path | None, typer.Option(metavar="DIR", help="a run of `local`: how many clients would be better alone")
    ] = None,
    clients: Annotated[bool, typer.Option("--clients", help="a row per client, by name: who gains, who loses")] = False,
    each: Annotated[bool, typer.Option("--each", help="every run, also those that differ in the seed alone")] = False,
    json: Json = False,
) -> None:
    """Finished runs side by side; those that differ in the seed alone are one line."""
    from motet.cli.running import show_runs

    chosen = [user_path(folder, "folder") for folder in folders]
    show_runs(chosen, json, local and user_path(local, "--local"), each, clients)


@app.command("list")
def list_names(
    what: Annotated[str, typer.Argument(metavar="methods|data|nets|partitions|posts|protocols|measures")],
    json: Json = False,
) -> None:
    """What can be named in an experiment, with one line and the paper for each."""
    from motet.cli.looking import show_catalogue

    show_catalogue(what, json)


@data_app.command("show")
@with_choices([*DATA_CHOICES, "seed", "protocol"])
def show_data(
    name: Annotated[str, typer.Argument(metavar="NAME", help=CHOICES["data"].help)],
    settings: Set = None,
    json: Json = False,
    **short: Any,
) -> None:
    """The class counts of every client."""
    from motet.cli.looking import show_partition
    from motet.runs.experiment import parse_set

    show_partition(choose({"data": name, **short}, None, *map(parse_set, settings or [])), json)


@data_app.command("schema")
@with_choices([*DATA_CHOICES, "seed", "protocol"])
def print_schema(
    name: Annotated[str, typer.Argument(metavar="FILE", help="a table: FILE.csv or FILE.parquet")],
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="write it there instead of printing it")] = None,
    settings: Set = None,
    **short: Any,
) -> None:
    """How a table becomes network input, fitted on the training rows: a file to edit, share and give to --schema."""
    from motet.cli.looking import show_schema
    from motet.runs.experiment import parse_set

    file = user_path(out, "--out") if out else None
    show_schema(choose({"data": name, **short}, None, *map(parse_set, settings or [])), file)


@app.command()
@with_choices(["protocol"])
def config(**short: Any) -> None:
    """Print a complete experiment file with every field explained."""
    from motet.runs.experiment import commented_template

    typer.echo(commented_template(choose(short)), nl=False)
