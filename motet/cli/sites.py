"""`motet certs`, `motet serve` and `motet join`: real sites, whose data stay where they are."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from motet.errors import MotetError
from motet.io.user_paths import user_path

if TYPE_CHECKING:
    from motet.sites.serve import ServeRequest

Certs = Annotated[Path, typer.Option("--certs", metavar="DIR", help="folder of keys, made by `motet certs`")]


def add_site_commands(app: typer.Typer) -> None:
    """Add certs, serve and join to the command line."""
    for command in (certs, serve, join):
        app.command()(command)


def certs(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="folder for the keys; one that is there gets more")],
    server: Annotated[str, typer.Option(metavar="HOST[,HOST]", help="names or addresses of the coordinator")],
    sites: Annotated[str, typer.Option(metavar="A,B,C", help="names of the sites, such as hospital-a,hospital-b")] = "",
    days: Annotated[int, typer.Option(min=1, max=3650, help="how long the server's certificate is valid")] = 825,
) -> None:
    """Make an authority, the coordinator's certificate and a key for each site."""
    from motet.cli.console import note
    from motet.sites.certificates import make_certificates, site_names

    names = site_names(sites) if sites else []
    hosts = [host.strip() for host in server.split(",")]
    where = user_path(folder, "folder")
    for path in make_certificates(where, hosts, names, days):
        note(f"wrote {path}")
    note(f"give each site ca.crt and its own .key, over a safe way; keep ca.key and server.key in {folder}")


def serve(
    experiment: Annotated[Path | None, typer.Argument(metavar="EXPERIMENT.toml", help="an experiment file")] = None,
    address: Annotated[str, typer.Option(metavar="HOST:PORT", help="where sites reach the coordinator")] = "",
    certs: Annotated[Path | None, typer.Option(metavar="DIR", help="folder of keys, made by `motet certs`")] = None,
    sites: Annotated[str, typer.Option(metavar="A,B,C", help="names of the sites that take part")] = "",
    least: Annotated[
        int | None, typer.Option(help="sites with which a round goes on after the deadline; default all: it waits")
    ] = None,
    deadline: Annotated[str, typer.Option(metavar="10m", help="how long a round waits for a site")] = "10m",
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="folder of the record; default in runs/")] = None,
    resume: Annotated[Path | None, typer.Option(metavar="DIR", help="go on with a run that was stopped")] = None,
    status_port: Annotated[
        int, typer.Option(metavar="PORT", help="of the status page on this machine; 0 any, -1 no page")
    ] = 0,
) -> None:
    """Coordinate a run at real sites: wait for them, run the rounds, write the record."""
    from motet.cli.console import messages, note
    from motet.cli.process import told_how_to_go_on
    from motet.cli.running import show_runs
    from motet.report.progress import onlooker
    from motet.sites.serve import serve as serve_new
    from motet.sites.serve import serve_again

    page = None if status_port < 0 else status_port
    keys = user_path(certs, "--certs") if certs else None
    with onlooker(messages()) as watcher:
        if resume is not None:
            where = user_path(resume, "--resume")
            _refuse_beside_resume(experiment, address, sites, out)
            with told_how_to_go_on(lambda: f"stopped; continue with `motet serve --resume {where}`"):
                folder = serve_again(where, keys, page, watcher, note)
        else:
            request = _request(experiment, address, keys, sites, least, deadline, out, page)
            with told_how_to_go_on(lambda: f"stopped; continue with `motet serve --resume {request.folder}`"):
                folder = serve_new(request, watcher, note)
    show_runs([folder], json=False)
    note(f"Recorded in {folder}")


def _refuse_beside_resume(experiment: Path | None, address: str, sites: str, out: Path | None) -> None:
    named = {"EXPERIMENT.toml": experiment, "--address": address, "--sites": sites, "--out": out}
    for option, value in named.items():
        if value:
            raise MotetError(f"{option} is given beside --resume, whose folder has it; accepted: --resume DIR alone")


def _request(
    experiment: Path | None,
    address: str,
    certs: Path | None,
    sites: str,
    least: int | None,
    deadline: str,
    out: Path | None,
    status: int | None,
) -> "ServeRequest":
    from motet.config.experiment import read, resolve
    from motet.runs.record import default_folder
    from motet.sites.certificates import site_names
    from motet.sites.options import address_of, seconds_of
    from motet.sites.serve import ServeRequest

    given = {"EXPERIMENT.toml": experiment, "--address": address, "--certs": certs, "--sites": sites}
    for option, value in given.items():
        if not value:
            raise MotetError(f"serve needs {option}; accepted: all of {', '.join(given)}, or --resume DIR")
    assert experiment is not None and certs is not None
    chosen = resolve(read(user_path(experiment, "experiment file")))
    names, (host, port) = site_names(sites), address_of(address, "--address")
    folder = user_path(out, "--out") if out else default_folder(chosen.with_({"data": {"name": "sites"}}))
    return ServeRequest(
        chosen,
        host,
        port,
        certs,
        names,
        len(names) if least is None else least,
        seconds_of(deadline),
        folder,
        status,
    )


def join(
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="where the coordinator is")],
    certs: Certs,
    name: Annotated[str, typer.Option(help="this site's name, whose key is NAME.key")],
    data: Annotated[Path, typer.Option(metavar="FILE", help="this site's table, which stays here")],
    schema: Annotated[Path, typer.Option(metavar="FILE", help="of `motet data schema`: the same at all sites")],
    state: Annotated[Path, typer.Option(metavar="DIR", help="folder for this site's private states of this run")],
    yes: Annotated[bool, typer.Option("--yes", help="consent without being asked")] = False,
) -> None:
    """Take part in a run with the data of this site, after saying what will leave it."""
    from motet.cli.console import note
    from motet.cli.process import told_how_to_go_on
    from motet.sites.at_site import SiteFiles
    from motet.sites.certificates import site_names
    from motet.sites.join import JoinRequest
    from motet.sites.join import join as join_run
    from motet.sites.options import address_of

    address_of(address, "the address")
    (site, *more) = site_names(name)
    if more:
        raise MotetError(f"--name is {name!r}; accepted: one name")
    files = SiteFiles(user_path(data, "--data"), user_path(schema, "--schema"))
    for option, path in {"--data": files.data, "--schema": files.schema}.items():
        if not path.is_file():
            raise MotetError(f"{option} is {path}, where no file is; accepted: a file")
    request = JoinRequest(address, user_path(certs, "--certs"), site, files, user_path(state, "--state"))
    with told_how_to_go_on(lambda: "stopped; the same command takes part again, from the states in --state"):
        folder = join_run(request, _asking(yes), note)
    if (folder / "final.json").exists():
        note(f"the run ended; this site's model: `motet export {folder} --out DIR`")


def _asking(yes: bool) -> Callable[[list[str]], bool]:
    """Return who decides about consent: the option, or a person at the terminal."""
    from motet.cli.console import note

    def ask(lines: list[str]) -> bool:
        for line in lines:
            note(line)
        if yes:
            note("consented by --yes")
            return True
        if not sys.stdin.isatty():
            note("nobody can be asked here; --yes consents")
            return False
        return typer.confirm("Does this site consent?", default=False, err=True)

    return ask
