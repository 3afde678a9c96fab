"""Decide which code a run folder may run: an experiment can name a Python file, and a folder can come from a stranger.

Files that the user ran, by `motet run` or `motet.run`, are remembered by path and content in the user's state folder,
and may run again. Any other code that a folder names runs only with `--trust-code`.
"""

import hashlib
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from platformdirs import user_state_path

from motet.config.experiment import Experiment
from motet.config.names import parse
from motet.errors import MotetError
from motet.io.plugins import find_file, is_import
from motet.nets import net_term

MOST_REMEMBERED = 2**22  # bytes: some 60,000 files

_in_this_process: set[str] = set()


def imports_of(experiment: Experiment) -> list[str]:
    """Return every name in an experiment that is an import of Python code."""
    names = [term.name for term in parse(experiment.method)]
    net = net_term(experiment.net.name).name
    return [text for text in (*names, net, experiment.data.name, *experiment.scoring.asked_metrics) if is_import(text)]


def remember(experiment: Experiment) -> None:
    """Remember the code of an experiment that the user runs, so that it may run again."""
    new = {mark for text in imports_of(experiment) if (mark := _mark(text))} - _known()
    if not new:
        return
    _in_this_process.update(new)
    path = _file()
    with suppress(OSError):  # without a writable home, this process alone remembers it
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write("".join(f"{mark}\n" for mark in sorted(new)))


def require_trust(experiment: Experiment, folder: Path, said: bool) -> None:
    """Raise `MotetError` if a folder names code that the user has not run before, unless `said` is True."""
    require_trust_in(imports_of(experiment), f"run {_short(folder)}", said)


def require_trust_in(names: Iterable[str], what: str, said: bool) -> None:
    """Raise the same for a list of imports; `what` names the thing that would run them."""
    if said:
        return
    for text in names:
        mark = _mark(text)
        if mark is None and text.rpartition(":")[0].endswith(".py"):
            continue  # there is no such file; loading it reports that
        if mark not in _known():
            raise MotetError(
                f"{what} would run code of {_short(find_file(text) or text)}, which you did not run "
                f"yourself as it is now; if you trust it, say so: --trust-code, or trust_code=True in Python"
            )


def code_of(experiment: Experiment) -> dict[str, str]:
    """Return the SHA-256 of each of the user's own files that the experiment names, by name without its folder.

    Modules that such a file imports are not included.
    """
    files = {text: path for text in imports_of(experiment) if (path := find_file(text))}
    return {Path(text).name: hashlib.sha256(path.read_bytes()).hexdigest() for text, path in files.items()}


def refuse_other_code(recorded: Mapping[str, str], experiment: Experiment, folder: Path) -> None:
    """Raise `MotetError` if a run was made with another version of the user's code."""
    for name, digest in code_of(experiment).items():
        if recorded.get(name) != digest:
            raise MotetError(
                f"run {_short(folder)} was made with another version of {name.partition(':')[0]}; accepted: the file "
                f"as it was then, or the folder removed, so that it runs anew"
            )


def _mark(text: str) -> str | None:
    """Return a hash of a file's path and content, or None if there is no such file.

    The path is part of it because a copy elsewhere may import other code from beside it.
    """
    path = find_file(text)
    if path is None:
        return None
    try:
        content = path.read_bytes()
    except OSError:
        return None
    return hashlib.sha256(os.fsencode(path.resolve()) + b"\0" + content).hexdigest()


def _known() -> set[str]:
    try:
        with _file().open() as file:
            return _in_this_process | set(file.read(MOST_REMEMBERED).split())
    except (OSError, ValueError):
        return _in_this_process


def _file() -> Path:
    return user_state_path("motet", appauthor=False) / "code-run-before"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 150 else f"… {text[-150:]}"
