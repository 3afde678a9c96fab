"""Imports point one way, from the command line down to the vector: the layers of docs/architecture.md."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "motet"

# From low to high. A module may import its own layer and those below. A room stands for all its modules, but for those
# that are named here by themselves.
LAYERS = [
    {"errors"},
    {"io", "training.randomness"},
    {"config", "metrics.names"},
    {"messages", "data"},
    {"nets", "metrics.statistics"},
    {"training"},
    {"methods.base"},
    {"methods", "metrics", "engines"},  # these know nothing of each other
    {"server"},
    {"runs", "track"},
    {"studies", "export"},
    {"report"},
    {"api", "testing", "sites"},
    {"cli", "__init__", "__main__"},
]
STRANGERS = LAYERS[7]
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}


def room_of(module: tuple[str, ...]) -> str:
    """The entry of LAYERS that a module belongs to: motet.nets.mlp -> nets, motet.methods.base.part -> methods.base."""
    if len(module) == 1:
        return "__init__"
    inner = ".".join(module[1:3])
    return inner if inner in LEVEL else module[1]


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
            # `from motet import nets` names a room; `from motet import run` names the API
            targets = [(*origin, a.name) if is_module((*origin, a.name)) else origin for a in node.names]
        else:
            continue
        found |= {room_of(target) for target in targets if target[0] == "motet"}
    return found


def is_module(name: tuple[str, ...]) -> bool:
    path = PACKAGE.joinpath(*name[1:])
    return name[0] == "motet" and (path.is_dir() or path.with_suffix(".py").is_file())


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
        ("from motet import nets, data", {"nets", "data"}),
        ("from motet import run", {"__init__"}),
        ("from motet.training import randomness", {"training.randomness"}),
        ("from motet.methods.base.part import Part", {"methods.base"}),
        ("from .net import Net", {"nets"}),
        ("from ..errors import MotetError", {"errors"}),
        ("from .. import data", {"data"}),
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
        ("nets", "data", False),
        ("methods", "methods", False),
        ("metrics", "methods.base", False),
        ("data", "training.randomness", False),
        ("config", "data", True),
        ("data", "training", True),
        ("nets", "methods", True),
        ("methods", "engines", True),
        ("engines", "methods", True),
        ("methods", "metrics", True),
        ("metrics", "engines", True),
        ("server", "runs", True),
        ("report", "studies", False),
        ("studies", "report", True),
        ("runs", "__init__", True),
    ],
)
def test_the_rules(importer: str, imported: str, refused: bool) -> None:
    assert forbidden(importer, imported) is refused


def test_the_top_level_has_rooms_and_three_modules() -> None:
    assert {path.stem for path in PACKAGE.glob("*.py")} == {"__init__", "__main__", "errors"}


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("__init__.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_every_room_says_what_lives_there(path: Path) -> None:
    said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    assert len(said.split()) >= (25 if path.parent.parent == PACKAGE else 8), f"{path} says {said!r}"
