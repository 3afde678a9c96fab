"""The commands. Each imports what it needs when it runs: torch takes seconds, and `--help` does not need it."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Personalized federated learning: one model per client and one for everybody, in the same run.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="Look at data.", rich_markup_mode=None)
app.add_typer(data_app, name="data")


def number(text: str) -> int | float | str:
    """A number, or else the text itself, which the experiment refuses with the field's own sentence."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


Partition = Annotated[str | None, typer.Option(help="how samples are dealt, such as dirichlet:0.3")]
PartitionSeed = Annotated[
    int | None, typer.Option(parser=number, metavar="NUMBER", help="seed of the dealing; default the run's seed")
]
Clients = Annotated[int | None, typer.Option(parser=number, metavar="NUMBER", help="number of clients")]
NewClients = Annotated[
    float | None, typer.Option(parser=number, metavar="NUMBER", help="share of clients held out as new")
]
Subset = Annotated[
    float | None, typer.Option(parser=number, metavar="NUMBER", help="stratified share of the data to deal")
]
Seed = Annotated[int | None, typer.Option(parser=number, metavar="NUMBER", help="the one source of all randomness")]
Protocol = Annotated[str | None, typer.Option(help="a paper's way of training and measuring (motet list protocols)")]
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
def run(
    experiment: Annotated[Path | None, typer.Argument(metavar="EXPERIMENT.toml", help="an experiment file")] = None,
    method: Annotated[str | None, typer.Option(help="such as fedavg, scaffold or fedprox(mu=0.01)+ft")] = None,
    data: Annotated[str | None, typer.Option(help="a name of `motet list data`, FILE.npz or FOLDER/")] = None,
    partition: Partition = None,
    partition_seed: PartitionSeed = None,
    clients: Clients = None,
    new_clients: NewClients = None,
    subset: Subset = None,
    rounds: Annotated[int | None, typer.Option(parser=number, metavar="NUMBER", help="rounds of training")] = None,
    cohort: Annotated[
        float | None,
        typer.Option(parser=number, metavar="NUMBER", help="clients per round: a share up to 1, or a number"),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(parser=number, metavar="NUMBER", help="passes over a client's data per round")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(parser=number, metavar="NUMBER", help="samples per gradient step")
    ] = None,
    lr: Annotated[
        float | None, typer.Option(parser=number, metavar="NUMBER", help="learning rate of the first round")
    ] = None,
    net: Annotated[str | None, typer.Option(help="a name of `motet list nets`")] = None,
    precision: Annotated[str | None, typer.Option(help="of the nets in training: fp32 or bf16")] = None,
    seed: Seed = None,
    protocol: Protocol = None,
    measure: Annotated[
        list[str] | None,
        typer.Option(help="besides accuracy: a name of `motet list measures` or FILE.py:FUNCTION; repeatable"),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="folder of the record; default in runs/")] = None,
    settings: Set = None,
    json: Json = False,
) -> None:
    """Run one experiment. What counts: defaults, then --protocol, the file, the flags, --set."""
    from motet.cli.running import run_and_show
    from motet.runs.choices import choose, nested
    from motet.runs.experiment import parse_set

    short = {
        "method": method,
        "data": data,
        "partition": partition,
        "partition_seed": partition_seed,
        "clients": clients,
        "new_clients": new_clients,
        "subset": subset,
        "rounds": rounds,
        "cohort": cohort,
        "epochs": epochs,
        "batch": batch,
        "lr": lr,
        "net": net,
        "precision": precision,
        "seed": seed,
        "protocol": protocol,
    }
    asked = nested("scoring.measures", measure or None)
    run_and_show(choose(short, experiment, asked, *map(parse_set, settings or [])), out, json)


@app.command()
def resume(folder: Annotated[Path, typer.Argument(metavar="DIR", help="folder of a run")], json: Json = False) -> None:
    """Continue a run that was stopped at any moment."""
    from motet.cli.running import resume_and_show

    resume_and_show(folder, json)


@app.command()
def show(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="folders of runs, or folders of such")],
    local: Annotated[
        Path | None, typer.Option(metavar="DIR", help="a run of `local`: how many clients would be better alone")
    ] = None,
    json: Json = False,
) -> None:
    """Finished runs side by side."""
    from motet.cli.running import show_runs

    show_runs(folders, json, local)


@app.command("list")
def list_names(
    what: Annotated[str, typer.Argument(metavar="methods|data|nets|partitions|protocols|measures")], json: Json = False
) -> None:
    """What can be named in an experiment, with one line and the paper for each."""
    from motet.cli.looking import show_catalogue

    show_catalogue(what, json)


@data_app.command("show")
def show_data(
    name: Annotated[str, typer.Argument(metavar="NAME", help="a name of `motet list data`, FILE.npz or FOLDER/")],
    partition: Partition = None,
    partition_seed: PartitionSeed = None,
    clients: Clients = None,
    new_clients: NewClients = None,
    subset: Subset = None,
    seed: Seed = None,
    protocol: Protocol = None,
    settings: Set = None,
    json: Json = False,
) -> None:
    """The class counts of every client."""
    from motet.cli.looking import show_partition
    from motet.runs.choices import choose
    from motet.runs.experiment import parse_set

    short = {
        "data": name,
        "partition": partition,
        "partition_seed": partition_seed,
        "clients": clients,
        "new_clients": new_clients,
        "subset": subset,
        "seed": seed,
        "protocol": protocol,
    }
    show_partition(choose(short, None, *map(parse_set, settings or [])), json)


@app.command()
def config(protocol: Protocol = None) -> None:
    """Print a complete experiment file with every field explained."""
    from motet.runs.choices import choose
    from motet.runs.experiment import commented_template

    typer.echo(commented_template(choose({"protocol": protocol})), nl=False)
