"""The documentation is true: its code runs, its links lead somewhere, its pages say what the code says."""

import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Literal, get_args, get_origin

import pytest
from inputs import input_of
from test_layers import LAYERS

from motet.cli import main
from motet.config.experiment import read, resolve
from motet.config.section import Section
from motet.errors import MotetError
from motet.methods import METHODS, build_method
from motet.methods.base import Facts, Method, MethodEntry, Part, Serving, Training, Wrapped
from motet.nets import build_net
from motet.studies.bench_file import read_bench
from motet.testing import CHECKS
from motet.testing.twin import play, tiny

ROOT = Path(__file__).parents[1]
OWN_METHOD = ROOT / "docs" / "own-method.md"
INDEX = ROOT / "docs" / "methods" / "README.md"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
METHOD_PAGES = [page for page in sorted(INDEX.parent.glob("*.md")) if page != INDEX]
SECTIONS = ["When to use it", "What goes where", "Options", "Cost", "In a sum", "Deliberate differences", "Reference"]
LANGUAGES = {"python", "console", "toml"}
COUNTED_OTHERWISE = {  # not in whole models
    *("local", "centralized", "pgfed-exact", "fedrod", "apple", "fedgen", "finetuning", "knn-per"),
    *("lg-fedavg", "fedper", "fedrep", "fedbabu", "fedbn"),
}
MOST_NOT_RUN = 3
LONGEST_LINE = 120
ELSEWHERE = re.compile(r"FIDELITY|DESIGN|REVIEW|\.\./shared")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


# ---------------------------------------------------------------- code blocks


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and why it is not run (`<!-- not run: reason -->` before it)."""

    language: str
    text: str
    not_run: str = ""

    @property
    def file(self) -> str | None:
        """The file that the block shows, if its first line says so: `# mine.py`."""
        found = re.match(r"# ([\w-]+\.(?:py|toml))\n", self.text)
        return found[1] if found else None


_FENCED = re.compile(r"(?:<!-- not run: (?P<why>.*?) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S)


@cache
def blocks_of(page: Path) -> list[Block]:
    found = _FENCED.finditer(page.read_text(encoding="utf-8"))
    return [Block(block["language"], block["text"], block["why"] or "") for block in found]


def commands_of(block: Block) -> Iterator[str]:
    """The commands of a console block, each after a `$`; what they print is not among them."""
    for line in block.text.replace("\\\n", " ").splitlines():
        if line.startswith("$ "):
            yield line[2:]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks_of(page)], ids=name_of)
def test_the_code_runs_as_printed(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty folder, from top to bottom; a block that shows a file is written to it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    words = ModuleType("page_" + re.sub(r"\W", "_", name_of(page)))
    monkeypatch.setitem(sys.modules, words.__name__, words)  # where pydantic looks for a class's annotations
    for block in blocks_of(page):
        if block.not_run:
            continue
        if block.file:
            Path(block.file).write_text(block.text, encoding="utf-8")
        if block.language == "python":
            exec(compile(block.text, name_of(page), "exec"), words.__dict__)
        elif block.language == "toml":
            Path("block.toml").write_text(block.text, encoding="utf-8")
            is_bench = "figures" in read(Path("block.toml"))
            read_bench(Path("block.toml")) if is_bench else resolve(read(Path("block.toml")))
        for command in commands_of(block) if block.language == "console" else ():
            program, *arguments = shlex.split(command)
            assert program == "motet", f"{command!r}: a console block calls motet; other commands stand indented"
            assert main(arguments) == 0, command


def test_few_blocks_are_not_run_and_each_says_why() -> None:
    excused = [(name_of(page), block.not_run) for page in PAGES for block in blocks_of(page) if block.not_run]
    assert len(excused) <= MOST_NOT_RUN, excused
    assert all(len(why.split()) > 2 for _, why in excused), excused


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_all_code_is_in_blocks_of_a_known_language(page: Path) -> None:
    """So that none escapes: equations and printed tables are indented, code is fenced."""
    assert {block.language for block in blocks_of(page)} <= LANGUAGES
    rest = _FENCED.sub("", page.read_text(encoding="utf-8"))
    assert "```" not in rest
    assert not re.findall(r"^ {4,}(?:\$ |import |from \w+ import |def |class ).*", rest, re.M)


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("```python\nx = 1\n```\n", [Block("python", "x = 1\n")]),
        ("<!-- not run: it takes an hour -->\n```toml\na = 1\n```\n", [Block("toml", "a = 1\n", "it takes an hour")]),
        ("    indented\n", []),
    ],
)
def test_the_reader_of_blocks(text: str, blocks: list[Block], tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    assert blocks_of(page) == blocks


def test_the_reader_of_commands() -> None:
    block = Block("console", "$ motet run \\\n    --rounds 1\nprinted\n$ motet list nets\n")
    assert [shlex.split(command) for command in commands_of(block)] == [
        ["motet", "run", "--rounds", "1"],
        ["motet", "list", "nets"],
    ]
    assert Block("python", "# mine.py\nx = 1\n").file == "mine.py"
    assert Block("python", "# a comment\nx = 1\n").file is None


# ---------------------------------------------------------------- links, paths, lines


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_and_paths_lead_somewhere(page: Path) -> None:
    text = _FENCED.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not target.startswith("https://"):
            file, _, anchor = target.partition("#")
            there = (page.parent / file).resolve() if file else page
            assert there.exists() and there.is_relative_to(ROOT), target
            assert not anchor or anchor in anchors_of(there), target
    for path in re.findall(r"`((?:[\w-]+/)+(?:[\w.-]+\.(?:py|json|md|toml))?)`", text):
        places = [ROOT, ROOT / "motet", ROOT / "benchmarks"]
        made_up = path.startswith(("path/", "runs/", "checkpoint/"))
        assert made_up or any((place / path).exists() for place in places), path


def anchors_of(page: Path) -> set[str]:
    """How GitHub names the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", _FENCED.sub("", page.read_text(encoding="utf-8")), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "benchmarks" / "README.md"], ids=name_of)
def test_no_reader_is_sent_out_of_the_repository(page: Path) -> None:
    assert not ELSEWHERE.findall(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_lines_are_short(page: Path) -> None:
    lines = page.read_text(encoding="utf-8").splitlines()
    assert not [line for line in lines if len(line) > LONGEST_LINE and not line.startswith("|")]


# ---------------------------------------------------------------- methods: the pages and the registry


def built(entry: MethodEntry) -> Method:
    """The method of a name alone; what personalizes others follows FedAvg."""
    return built_of(f"fedavg+{entry.name}" if entry.wraps else entry.name)


def built_of(text: str) -> Method:
    net = "batchnorm_net:build" if "fedbn" in text else "mlp"
    facts = Facts(tuple(range(10)), cohort=10, rounds=10, classes=10, validating=10, samples=(50,) * 10)
    return build_method(text, build_net(net, input_of(1, 8, 8), 10), facts)


def rows_of(text: str) -> list[list[str]]:
    """The cells of every row of a table; a bar inside a cell is written \\|."""
    rows = [line.strip("|\n") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)] for row in rows]


def words_in(cell: str) -> set[str]:
    """What stands in backticks."""
    return set(re.findall(r"`([^`]+)`", cell))


def index() -> dict[str, tuple[str, list[str]]]:
    """Of every name in the index: its page, and the cells after it."""
    links = ((re.fullmatch(r"\[([\w-]+)\]\(([\w-]+\.md)\)", row[0]), row) for row in rows_of(INDEX.read_text("utf-8")))
    return {link[1]: (link[2], row[1:]) for link, row in links if link}


def page_of(name: str) -> str:
    return (INDEX.parent / index()[name][0]).read_text(encoding="utf-8")


def section(page: str, title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", page, re.M | re.S)
    assert found, f"no section {title!r}"
    return found[1]


def options_on(page: str) -> dict[str, dict[str, tuple[str, str]]]:
    """Of every name on a page its options, each with its default and what is said of it."""
    found = {}
    for names, none, table in re.findall(
        r"^Options of ((?:`[\w-]+`(?:, )?)+):( none\..*)?$\n*((?:^\|.*\n)*)", section(page, "Options"), re.M
    ):
        rows = {row[0].strip("`"): (row[1].strip("`"), row[2]) for row in rows_of(table)[2:]}
        assert bool(rows) != bool(none), names
        found |= dict.fromkeys(re.findall(r"`([\w-]+)`", names), rows)
    return found


def shown(value: object) -> str:
    """A default as a page writes it."""
    return "left out" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def test_the_index_has_every_name_and_no_other() -> None:
    assert list(index()) == list(METHODS)
    assert {page for page, _ in index().values()} == {page.name for page in METHOD_PAGES}


@pytest.mark.parametrize("name", METHODS)
def test_the_index_says_what_the_registry_says(name: str) -> None:
    entry, method = METHODS[name], built(METHODS[name])
    summary, paper, kind, uploads, tells = index()[name][1]
    assert (summary, paper, kind) == (entry.summary, entry.paper, entry.kind)
    assert words_in(uploads) == set(method.uploads) and bool(method.uploads) == (uploads != "nothing")
    assert tells == (", ".join(sorted(method.tells)) or "nothing")


@pytest.mark.parametrize("name", METHODS)
def test_a_page_has_the_options_of_the_code(name: str) -> None:
    options, fields = options_on(page_of(name))[name], METHODS[name].options.model_fields
    assert {option: default for option, (default, _) in options.items()} == {
        option: shown(field.default) for option, field in fields.items()
    }
    for option, field in fields.items():
        if get_origin(field.annotation) is Literal:
            default, said = options[option]
            missing = set(get_args(field.annotation)) - words_in(said) - {default}
            assert not missing, f"{name}: {option} also takes {missing}"


@pytest.mark.parametrize("page", METHOD_PAGES, ids=lambda page: page.stem)
def test_a_page_of_methods_is_whole(page: Path) -> None:
    """Its title has its names, its sections are all there, and it says what leaves a client."""
    text = page.read_text(encoding="utf-8")
    names = [name for name, (file, _) in index().items() if file == page.name]
    assert text.startswith(f"# {', '.join(names)}\n")
    assert [title for title in re.findall(r"^## (.*)$", text, re.M) if title != "Numbers"] == SECTIONS
    assert re.search(r"^    \S", text.partition("\n## ")[0], re.M), "no equation"
    methods = [built(METHODS[name]) for name in names]
    said = {row[0]: row[1] for row in rows_of(section(text, "What goes where"))}
    assert words_in(said["up (`uploads`)"]) == {field for method in methods for field in method.uploads}
    told = {word for method in methods for word in method.tells}
    assert all(word in said["told besides (`tells`)"] for word in told)
    assert said["told besides (`tells`)"].startswith("nothing") != bool(told)


def sums_in(title: str) -> list[str]:
    """The sums in the first column of the table that begins so, in the index of methods."""
    table = INDEX.read_text("utf-8").partition(f"\n| {title} | ")[2].partition("\n\n")[0]
    return [word for row in rows_of(table) for word in sorted(words_in(row[0])) if "+" in word[1:]]


@pytest.mark.parametrize("text", sums_in("sum"))
def test_a_sum_of_the_index_is_accepted(text: str) -> None:
    assert built_of(text).uploads is not None


@pytest.mark.parametrize("text", sums_in("refused"))
def test_a_sum_that_the_index_refuses_is_refused(text: str) -> None:
    with pytest.raises(MotetError, match="makes no sense"):
        built_of(text)


def test_the_reader_of_sums() -> None:
    assert "fedrod+feddyn" in sums_in("sum") and "scaffold+feddyn" in sums_in("refused")


@cache
def bytes_of_a_round(method: str) -> tuple[int, int]:
    """Down and up in the last round of the tiny experiment."""
    row = play(tiny(method, rounds={"cohort": 1.0}, data={"clients": 8})).rows[-1]
    return row["bytes_down"], row["bytes_up"]


@pytest.mark.parametrize("page", METHOD_PAGES, ids=lambda page: page.stem)
def test_the_cost_is_what_is_measured(page: Path) -> None:
    """Where a page counts whole models."""
    said = re.match(r"\n(\d) models? down[^.]*?\b(\d) up", section(page.read_text("utf-8"), "Cost"))
    names = [name for name, (file, _) in index().items() if file == page.name]
    if said is None:
        assert page.stem in COUNTED_OTHERWISE
        return
    for name in names:
        models = [ours / model for ours, model in zip(bytes_of_a_round(name), bytes_of_a_round("fedavg"), strict=True)]
        assert models == pytest.approx([int(said[1]), int(said[2])], abs=0.05), name


def test_ditto_is_explained_as_it_is() -> None:
    """The recipe in own-method.md is the code of its file."""
    shown_here = next(block.text for block in blocks_of(OWN_METHOD) if block.text.startswith("class Ditto"))
    assert shown_here in (ROOT / "motet" / "methods" / "ditto.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", [Part, Method, Wrapped, Training, Serving])
def test_the_contract_is_explained_whole(kind: type) -> None:
    """Every point, verb and declaration is on the page."""
    text = _FENCED.sub("", OWN_METHOD.read_text(encoding="utf-8"))
    told = {re.sub(r"^(with )?[ts]\.|[(\[].*$", "", word) for cell in words_in(text) for word in cell.split(", ")}
    public = {name for name in vars(kind) if not name.startswith(("_", "model_"))} - set(vars(Section))
    assert not public - told


def test_every_check_is_explained() -> None:
    assert [row[0] for row in rows_of(section(OWN_METHOD.read_text("utf-8"), "Rules, and the checks"))[2:]] == [*CHECKS]


# ---------------------------------------------------------------- architecture


def test_the_layers_are_those_of_the_house() -> None:
    """From high to low, as tests/test_layers.py has them from low to high."""
    text = section((ROOT / "docs" / "architecture.md").read_text("utf-8"), "Layers").replace(",\n    ", ", ")
    lines = [re.split(r" {2,}", line.strip())[0] for line in text.splitlines() if line.startswith("    ")]
    assert [set(line.split(", ")) for line in lines] == LAYERS[::-1]


def test_every_noun_is_where_the_table_says() -> None:
    text = section((ROOT / "docs" / "architecture.md").read_text("utf-8"), "Nouns")
    for nouns, where, *_ in rows_of(text)[2:]:
        files = [f for place in words_in(where) for f in [ROOT / place, *(ROOT / place).rglob("*.py")] if f.is_file()]
        code = "".join(file.read_text(encoding="utf-8") for file in files)
        assert all(re.search(rf"^(class {noun}\b|{noun} = )", code, re.M) for noun in words_in(nouns)), nouns
