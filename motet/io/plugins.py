"""A user's own objects, named by import: `my_module:Name`, or `path/to/file.py:Name`.

The name is all that an experiment records, so every process that reads the experiment finds the same object.
"""

import difflib
import hashlib
import importlib
import importlib.util
import os
import re
import sys
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

import torch

from motet.errors import MotetError, shown
from motet.io.user_code import NAMED, USERS, place_of
from motet.io.user_paths import user_path

_IDENTIFIER = r"[^\W\d]\w*"
_IMPORT = re.compile(rf"(?P<where>.+\.py|{_IDENTIFIER}(?:\.{_IDENTIFIER})*):(?P<name>{_IDENTIFIER})", re.DOTALL)
_MOST_NAMES = 12  # of a module's own, in an error


def is_import(text: str) -> bool:
    """Whether a text looks like `module:Name` or `file.py:Name`."""
    return _IMPORT.fullmatch(text) is not None


def find_file(text: str) -> Path | None:
    """The file that `load_object` would run first, without running it; None where there is none, or none is known."""
    found = _IMPORT.fullmatch(text)
    if found is None:
        return None
    if found["where"].endswith(".py"):
        try:
            path = user_path(found["where"], "file").resolve()
        except MotetError:  # `load_object` says what is wrong with it
            return None
        return path if path.is_file() else None
    importlib.invalidate_caches()
    top, *inner = found["where"].split(".")
    try:  # of what is inside it would run the outer one; Python's path stays as it is, for nobody trusts the folder yet
        spec = importlib.util.find_spec(top) or PathFinder.find_spec(top, [str(Path.cwd())])
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    if not inner:
        return Path(spec.origin) if spec.has_location and spec.origin else None
    for folder in spec.submodule_search_locations or ():
        place = Path(folder, *inner)
        for spot in (place / "__init__.py", place.with_name(f"{place.name}.py")):
            if spot.is_file():
                return spot
    return None


def load_object(text: str, what: str) -> object:
    """The object of that name in a module, or in a file of the current folder or of a full path.

    `what` says in errors what is looked for, such as "net". A file is imported once per process, and again once it
    changed.
    """
    found = _IMPORT.fullmatch(text)
    if found is None:
        raise MotetError(f"{what} is {shown(text)}; accepted: module:Name, or path/to/file.py:Name")
    where, name = found["where"], found["name"]
    label = f"{what} {shown(text)}"
    with torch.random.fork_rng(devices=[]):  # what an import draws must not depend on who imports it first
        module = _import_file(where, label) if where.endswith(".py") else _import_module(where, label)
    try:
        return getattr(module, name)
    except Exception:  # a module may answer for its names itself
        raise MotetError(f"{label}: {where} has no {name!r}; {_names(module, name)}") from None


class _AsRead(SourceFileLoader):
    """Runs the text that was read, never an older one that Python compiled and cached: records name it by its hash."""

    def __init__(self, name: str, path: str, content: bytes):
        super().__init__(name, path)
        self.content = content

    def get_code(self, fullname: str) -> CodeType:
        """The code of the text that was read, compiled now."""
        return self.source_to_code(self.content, self.path)


def _import_file(where: str, label: str) -> ModuleType:
    path = user_path(where, label).resolve()
    if not path.is_file():
        raise MotetError(f"{label}: there is no file {path}; accepted: a Python file, from the current folder on")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise MotetError(f"{label}: cannot read {path}: {error.strerror}") from error
    name = f"{USERS}{path.stem}_{hashlib.sha256(os.fsencode(path) + bytes(1) + content).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    loader = _AsRead(name, str(path), content)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None  # the name ends in .py
    module = importlib.util.module_from_spec(spec)
    _look_in(path.parent)
    sys.modules[name] = module  # before it runs, as Python does: a dataclass asks for its module
    try:
        loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise MotetError(f"{label}: {path} cannot be imported ({_reason(error)})") from error
    return module


def _import_module(where: str, label: str) -> ModuleType:
    _look_in(Path.cwd())  # which `python -m motet` has in its path, and the command `motet` has not
    importlib.invalidate_caches()  # a file written since Python last looked
    NAMED.add(where)
    try:
        return importlib.import_module(where)
    except (Exception, SystemExit) as error:
        raise MotetError(f"{label}: module {where} cannot be imported ({_reason(error)})") from error


def _look_in(folder: Path) -> None:
    """Let the user's file import what lies beside it; at the end of the path, where it hides nothing."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _reason(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    what = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    place = place_of(error)
    return f"{what}, in {place}" if place else what


def _names(module: ModuleType, wanted: str) -> str:
    """Return a phrase with the names that the module defines, the nearest one first."""
    own = [name for name, value in vars(module).items() if not name.startswith("_") and _is_own(value, module)]
    if not own:
        return "it defines nothing"
    near = difflib.get_close_matches(wanted, own, n=1)
    names = near + [name for name in own if name not in near]
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"it has: {', '.join(names[:_MOST_NAMES])}{more}"


def _is_own(value: object, module: ModuleType) -> bool:
    return not isinstance(value, ModuleType) and getattr(value, "__module__", module.__name__) == module.__name__
