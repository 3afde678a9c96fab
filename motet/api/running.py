"""`motet.run`, `motet.resume` and `motet.load`."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from motet.api.choices import AnyPath, chosen, with_choices
from motet.api.comparison import Comparison
from motet.api.result import Result
from motet.config.short_names import FIELDS, engine_of
from motet.data.readers.in_memory import new_scratch_folder, remove_scratch_folder
from motet.errors import MotetError
from motet.io.user_paths import user_path
from motet.report.progress import onlooker
from motet.runs import run as runs
from motet.studies.comparison_file import is_comparison
from motet.track import tracked


@with_choices(FIELDS)
def run(
    *,
    experiment: AnyPath | None = None,
    out: AnyPath | None = None,
    set: Mapping[str, Any] | None = None,  # named as on the command line; the builtin is not used here
    progress: bool = False,
    track: Sequence[str] = (),
    **choices: Any,
) -> Result:
    """Run an experiment to its end, as `motet run` does, and return its result.

    Parameters
    ----------
    method, data, partition, clients, rounds, lr, ...
        The short names of fields, which `motet run --help` explains. `data` is a name, a path, or data in memory:
        (x, y) or a torch Dataset of such, with one value of `client` and `domain` per sample; a data frame or an Arrow
        table, with columns named by `label`, `client` and `domain`.
    experiment
        An experiment file, over which the keywords count.
    out
        The folder of the record, which `motet.load` reads. Without it the record lives as long as the result.
    set
        Every other field by its dotted name, such as {"local.momentum": 0.5}. **{"local.momentum": 0.5} works too.
    progress
        Whether to show the rounds on standard error.
    track
        Logs for other programs, such as ["tensorboard"].

    Raises MotetError, one sentence, where something cannot be run as asked.

    >>> import motet
    >>> result = motet.run(method="fedavg+ft", data="digits", clients=4, rounds=2)
    >>> 0 <= result.personal.weighted.personal_models <= 1
    True
    """
    with (
        chosen(choices, experiment, set) as asked,
        onlooker(Console(stderr=True, quiet=not progress)) as watcher,
        tracked(watcher, track, warnings.warn) as logged,
    ):
        folder = user_path(out, "out") if out is not None else new_scratch_folder()
        try:
            logged.finished(runs.run(asked, folder, logged))
        except BaseException:
            if out is None:
                remove_scratch_folder(folder)
            raise
    result = Result(folder, temporary=out is None)
    for sentence in result.warnings:
        warnings.warn(sentence, stacklevel=2)
    return result


def resume(
    folder: AnyPath,
    *,
    progress: bool = False,
    trust_code: bool = False,
    track: Sequence[str] = (),
    engine: str | None = None,
    workers: int | None = None,
    ray_address: str | None = None,
) -> Result:
    """Continue a run that was stopped at any moment, and return its result.

    Parameters
    ----------
    folder
        The folder of the run.
    progress, track
        As for `motet.run`.
    trust_code
        A folder may name Python code: a method, net, source or metric by import. Code that you ran before, from the
        same file as it is now, runs again; other code only with `trust_code`.
    engine, workers, ray_address
        Where it goes on, if not where it began; the numbers are the same.

    >>> import motet, tempfile
    >>> folder = tempfile.mkdtemp() + "/run"
    >>> _ = motet.run(data="digits", clients=4, rounds=1, out=folder)
    >>> motet.resume(folder).method
    'fedavg'
    """
    console = Console(stderr=True, quiet=not progress)
    elsewhere = engine_of({"engine": engine, "workers": workers, "ray_address": ray_address})
    with onlooker(console) as watcher, tracked(watcher, track, warnings.warn) as logged:
        logged.finished(runs.resume(user_path(folder, "folder"), logged, trust_code, elsewhere))
    return Result(folder, trust_code=trust_code)


def load(folder: AnyPath, *, local: AnyPath | None = None, trust_code: bool = False) -> Result | Comparison:
    """Return the result of a finished run, or the comparison that a folder of `motet compare` holds.

    Parameters
    ----------
    folder
        The folder of a finished run, or of a comparison.
    local
        The folder of a run of `local` on the same data: the result then also says who would be better off alone.
    trust_code
        Reading figures runs no code of the folder's; its models may need some, which runs as `motet.resume` says.

    >>> import motet, tempfile
    >>> folder = tempfile.mkdtemp() + "/run"
    >>> _ = motet.run(data="digits", clients=4, rounds=1, out=folder)
    >>> motet.load(folder).method
    'fedavg'
    """
    path = user_path(folder, "folder")
    if not is_comparison(path):
        return Result(path, local=local, trust_code=trust_code)
    if local is not None:
        raise MotetError(f"local is for a run, and {path} is a comparison; accepted: its folder alone")
    return Comparison(path, trust_code=trust_code)
