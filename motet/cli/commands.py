"""The commands. Each imports what it needs when it runs: torch takes seconds, and `--help` does not need it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from motet.cli.exporting import add_commands
from motet.cli.options import Json, Trust, with_choices
from motet.cli.sites import add_site_commands
from motet.config.nesting import nest
from motet.config.short_names import CHOICES, ENGINE_CHOICES, FIELDS, STUDY_CHOICES, choose, engine_of
from motet.io.user_paths import user_path

app = typer.Typer(
    help="Personalized federated learning: one model per client and one for everybody, in the same run.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="Look at data, find and fetch data sets.", rich_markup_mode=None)
app.add_typer(data_app, name="data")


DATA_CHOICES = [name for name, field in FIELDS.items() if field.startswith("data.") and name != "data"]

Set = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="any other field; repeatable")]
Track = Annotated[
    list[str] | None,
    typer.Option(metavar="tensorboard|mlflow[:PLACE]", help="log the rounds there too; default in the run's folder"),
]

Jobs = Annotated[int, typer.Option(help="runs computed at the same time; default one per core, or worker of ray")]


@app.callback(invoke_without_command=True)
def top(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    """What `motet` alone says."""
    if version:
        import motet

        typer.echo(f"motet {motet.__version__}")
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
    metrics: Annotated[
        list[str] | None,
        typer.Option(help="besides accuracy: a name of `motet list metrics` or FILE.py:FUNCTION; repeatable"),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="folder of the record; default in runs/")] = None,
    track: Track = None,
    settings: Set = None,
    json: Json = False,
    **short: Any,
) -> None:
    """Run one experiment. What counts: defaults, then --protocol, the file, the flags, --set."""
    from motet.cli.running import run_and_show
    from motet.config.experiment import parse_set

    asked = [nest({"scoring.metrics": metrics})] if metrics else []
    file = user_path(experiment, "experiment file") if experiment else None
    folder = user_path(out, "--out") if out else None
    run_and_show(choose(short, file, *map(parse_set, settings or []), beside=asked), folder, json, track or [])


@app.command()
@with_choices(ENGINE_CHOICES)
def resume(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="folder of a run")],
    trust_code: Trust = False,
    track: Track = None,
    json: Json = False,
    **short: Any,
) -> None:
    """Continue a run that was stopped at any moment; another engine than before gives the same numbers."""
    from motet.cli.running import resume_and_show

    resume_and_show(user_path(folder, "folder"), json, trust_code, track or [], engine_of(short))


@app.command()
def show(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="folders of runs, folders of such, or a comparison")
    ],
    local: Annotated[
        Path | None, typer.Option(metavar="DIR", help="a run of `local`: how many clients would be better alone")
    ] = None,
    clients: Annotated[bool, typer.Option("--clients", help="a row per client, by name: who gains, who loses")] = False,
    each: Annotated[bool, typer.Option("--each", help="every run, also those that differ in the seed alone")] = False,
    json: Json = False,
) -> None:
    """Finished runs side by side, those that differ in the seed alone in one line; or the answer of a comparison."""
    from motet.cli.running import show_runs

    chosen = [user_path(folder, "folder") for folder in folders]
    show_runs(chosen, json, local and user_path(local, "--local"), each, clients)


@app.command()
def measure(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="folder of a finished run")],
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="of `motet list metrics`, or FILE.py:FUNCTION")],
    trust_code: Trust = False,
    json: Json = False,
) -> None:
    """Measure the last models of a run afterwards, on its data; its record stays as it is."""
    from motet.cli.running import measure_and_show

    measure_and_show(user_path(folder, "folder"), names, trust_code, json)


@app.command("compare")
@with_choices(STUDY_CHOICES)
def compare_on(
    data: Annotated[str, typer.Argument(metavar="DATA", help=CHOICES["data"].help)],
    methods: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="methods to compare, also your own; default a shortlist")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="runs of each method with what was chosen for it, on each split")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(help="splits of each client's rows; default 3 for clients of your own data")
    ] = None,
    trials: Annotated[
        int | None, typer.Option(help="settings to try for each method; default 5, and 6 on a table")
    ] = None,
    yardsticks: Annotated[
        bool | None,
        typer.Option("--yardsticks/--no-yardsticks", help="scikit-learn on the same rows; default for your own data"),
    ] = None,
    time: Annotated[
        str | None, typer.Option(metavar="20m", help="do what fits into this time, and say what not")
    ] = None,
    jobs: Jobs = 0,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="folder of the study; default runs/compare-DATA")
    ] = None,
    settings: Set = None,
    json: Json = False,
    **short: str | float | None,
) -> None:
    """Which method to take on these data, what each client gains or loses, and how sure that is."""
    from motet.api.studies import Effort, ending_by_validation
    from motet.cli.comparing import compare_and_show
    from motet.config.experiment import parse_set
    from motet.config.nesting import flatten

    layers = [parse_set(text) for text in settings or []]
    set_ones = flatten({name: value for layer in layers for name, value in layer.items()})
    experiment = choose(ending_by_validation({"data": data, **short}, set_ones), None, *layers)
    effort = Effort(trials, seeds, repeats, time, yardsticks)
    compare_and_show(experiment, methods, effort, jobs, out and user_path(out, "--out"), json)


@app.command()
@with_choices(STUDY_CHOICES)
def tune(
    data: Annotated[str, typer.Argument(metavar="DATA", help=CHOICES["data"].help)],
    methods: Annotated[str, typer.Option(metavar="A,B,C", help="methods to tune")] = "fedavg+ft",
    trials: Annotated[int, typer.Option(help="settings to try for each method")] = 5,
    jobs: Jobs = 0,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="folder of the study; default runs/tune-DATA")] = None,
    settings: Set = None,
    json: Json = False,
    **short: str | float | None,
) -> None:
    """Find good settings of methods, on validation data alone."""
    from motet.cli.comparing import tune_and_show
    from motet.config.experiment import parse_set

    experiment = choose({"data": data, **short}, None, *map(parse_set, settings or []))
    tune_and_show(experiment, methods, trials, jobs, out and user_path(out, "--out"), json)


@app.command()
def report(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="folders of runs, folders of such, or one of a comparison")
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="the page; default report.html")] = Path("report.html"),
) -> None:
    """Write one page about finished runs: figures, clients by name, cost. It opens in a browser without a network."""
    from motet.cli.looking import write_page

    write_page([user_path(folder, "folder") for folder in folders], user_path(out, "--out"))


@app.command()
def figures(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="as for `motet report`")],
    format: Annotated[str, typer.Option(metavar="svg|pdf|png", help="pdf and png need an installed browser")] = "svg",
    out: Annotated[Path, typer.Option(metavar="DIR", help="folder of the pictures; default figures")] = Path("figures"),
) -> None:
    """Write the charts of the report as files for print."""
    from motet.cli.looking import write_figures_learned

    write_figures_learned([user_path(folder, "folder") for folder in folders], user_path(out, "--out"), format)


@app.command()
@with_choices(ENGINE_CHOICES)
def bench(
    file: Annotated[Path, typer.Argument(metavar="BENCH.toml", help="a grid of experiments, and what a paper reports")],
    jobs: Jobs = 0,
    quick: Annotated[bool, typer.Option("--quick", help="one seed and a few rounds, to see that it runs")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="folder of the bench; default runs/bench-NAME")
    ] = None,
    record: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="write results there too; what it has is not run again")
    ] = None,
    json: Json = False,
    **short: Any,
) -> None:
    """Run a grid of experiments that one wrote down; tables in Markdown, LaTeX and CSV."""
    from motet.cli.comparing import bench_and_show

    where = out and user_path(out, "--out")
    recorded = record and user_path(record, "--record")
    bench_and_show(user_path(file, "bench file"), jobs, quick, where, recorded, json, engine_of(short))


@app.command("list")
def list_names(
    what: Annotated[str, typer.Argument(metavar="methods|data|nets|partitions|transforms|protocols|metrics")],
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
    from motet.config.experiment import parse_set

    show_partition(choose({"data": name, **short}, None, *map(parse_set, settings or [])), json)


@data_app.command("check")
def check_data(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="a table: FILE.csv or FILE.parquet")],
    schema: Annotated[Path, typer.Option(metavar="FILE", help="a file of `motet data schema`, of another site")],
    settings: Set = None,
    json: Json = False,
) -> None:
    """Whether a table fits a schema that another site made, as `motet join` reads it."""
    from motet.cli.looking import check_table
    from motet.config.experiment import parse_set

    data = choose({}, None, *map(parse_set, settings or [])).data
    check_table(data, user_path(file, "file"), user_path(schema, "--schema"), json)


@data_app.command("sums")
@with_choices(["label", "seed"])
def sum_data(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="a table: FILE.csv or FILE.parquet")],
    out: Annotated[Path, typer.Option(metavar="FILE.json", help="the sums: look at them before you send them")],
    settings: Set = None,
    **short: Any,
) -> None:
    """What a site tells of its columns, for a schema of all sites: counts, means, squares, frequent categories."""
    from motet.cli.looking import write_sums
    from motet.config.experiment import parse_set

    data = choose({"data": str(file), **short}, None, *map(parse_set, settings or [])).data
    write_sums(data, user_path(file, "file"), user_path(out, "--out"))


@data_app.command("merge")
def merge_data(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE.json...", help="files of `motet data sums`, of all sites")
    ],
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="write it there instead of printing it")] = None,
) -> None:
    """The schema of several sites' sums, over all their rows."""
    from motet.cli.looking import merge_sums

    merge_sums([user_path(file, "file") for file in files], user_path(out, "--out") if out else None)


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
    from motet.config.experiment import parse_set

    file = user_path(out, "--out") if out else None
    show_schema(choose({"data": name, **short}, None, *map(parse_set, settings or [])), file)


@data_app.command("list")
@with_choices(["data_dir"])
def list_data(json: Json = False, **short: str | float | None) -> None:
    """The data sets by name, and which of them are on this machine."""
    from motet.cli.looking import show_sources

    show_sources(str(short["data_dir"] or ""), json)


@data_app.command("get")
@with_choices(["data_dir"])
def get_data(
    name: Annotated[str, typer.Argument(metavar="NAME", help="a name of `motet data list`")],
    json: Json = False,
    **short: str | float | None,
) -> None:
    """Fetch a data set from its official address, checked by SHA-256; goes on where it stopped."""
    from motet.cli.looking import fetch_data

    fetch_data(name, str(short["data_dir"] or ""), json)


@app.command()
@with_choices(["protocol"])
def config(**short: Any) -> None:
    """Print a complete experiment file with every field explained."""
    from motet.config.experiment import commented_template

    typer.echo(commented_template(choose(short)), nl=False)


add_commands(app)
add_site_commands(app)
