"""Imports point one way, from the command line down to the vector: the layers of docs/architecture.md."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "motet"

# From low to high. A module may import its own layer and those below.
LAYERS = [
    {
        *("errors", "settings", "fields", "rng", "message", "memory", "files", "entries"),
        *("plain_json", "plugins", "printable", "room", "inspect_files", "user_modules", "expression"),
        *("toml_writing", "statistics"),
    },
    {"weights", "losses", "nets", "data"},
    {"local", "client", "batched_clients", "adapting", "train_loss"},
    {"contract"},
    {"methods", "scoring", "engines", "post"},  # these know nothing of each other
    {"work", "evaluation", "derived", "ending", "rounds"},
    {"runs", "report", "export", "track"},
    {"studies"},
    {"__init__", "__main__", "result", "cli", "testing"},
]
STRANGERS = LAYERS[4]
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}


def room_of(module: tuple[str, ...]) -> str:
    """The part of the house that a module belongs to: motet.nets.mlp -> nets, motet -> __init__."""
    return module[1] if len(module) > 1 else "__init__"


def module_of(path: Path) -> tuple[str, ...]:
    """motet/nets/mlp.py -> (motet, nets, mlp)."""
    parts = ("motet", *path.relative_to(PACKAGE).with_suffix("").parts)
    return parts[:-1] if parts[-1] == "__init__" else parts


def imports(source: str, module: tuple[str, ...], is_package: bool) -> set[str]:
    """The rooms that a module's import statements name, wherever they stand in the file."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            targets = [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = module[: len(module) - node.level + is_package] if node.level else ()
            origin = (*base, *(node.module.split(".") if node.module else ()))
            # `from motet import weights` names a room; `from motet import run` names the API
            targets = [(*origin, a.name) if origin == ("motet",) and is_room(a.name) else origin for a in node.names]
        else:
            continue
        found |= {room_of(target) for target in targets if target[0] == "motet"}
    return found


def is_room(name: str) -> bool:
    return (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file()


def forbidden(importer: str, imported: str) -> bool:
    """Whether an import climbs, or joins two rooms that must not know each other."""
    strangers = importer != imported and {importer, imported} <= STRANGERS
    return LEVEL[imported] > LEVEL[importer] or strangers


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    module = module_of(path)
    room = room_of(module)
    found = imports(path.read_text(encoding="utf-8"), module, path.name == "__init__.py")
    unlisted = ({room} | found) - LEVEL.keys()
    assert not unlisted, f"{path} names {unlisted}: give it a place in LAYERS"
    wrong = {other for other in found if forbidden(room, other)}
    assert not wrong, f"{path} (in {room}) imports {wrong}"


@pytest.mark.parametrize(
    ("source", "rooms"),
    [
        ("import torch\nfrom pathlib import Path", set()),
        ("import motet.engines.pool as p", {"engines"}),
        ("def f():\n    from motet.methods import fedavg", {"methods"}),
        ("from motet import weights, rng", {"weights", "rng"}),
        ("from motet import run", {"__init__"}),
        ("from .net import Net", {"nets"}),
        ("from ..errors import MotetError", {"errors"}),
        ("from .. import weights", {"weights"}),
    ],
)
def test_the_reader_of_imports(source: str, rooms: set[str]) -> None:
    assert imports(source, ("motet", "nets", "mlp"), is_package=False) == rooms


def test_relative_imports_of_a_package() -> None:
    assert imports("from . import mlp\nfrom ..errors import x", ("motet", "nets"), is_package=True) == {
        "nets",
        "errors",
    }


@pytest.mark.parametrize(
    ("importer", "imported", "refused"),
    [
        ("cli", "runs", False),
        ("nets", "weights", False),
        ("methods", "methods", False),
        ("weights", "nets", False),
        ("nets", "methods", True),
        ("methods", "engines", True),
        ("engines", "methods", True),
        ("methods", "scoring", True),
        ("scoring", "engines", True),
        ("rounds", "runs", True),
        ("runs", "__init__", True),
    ],
)
def test_the_rules(importer: str, imported: str, refused: bool) -> None:
    assert forbidden(importer, imported) is refused
