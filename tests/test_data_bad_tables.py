"""Files that are no table, or not a whole one: each is refused in one sentence, or read with a note."""

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from motet.cli import main

HEADER = "id,age,sex,hospital,outcome"
ROWS = [f"{i * 7},{20 + i % 50},{'fm'[i % 2]},h{i % 3},{('no', 'yes')[i % 4 == 0]}" for i in range(120)]
GOOD = "\n".join([HEADER, *ROWS, ""])
NAMED = ("--label", "outcome", "--client", "hospital")


def column(name: str, *values: str) -> str:
    """The good table with one more column, of these values again and again."""
    lines = [f"{row},{values[i % len(values)]}" for i, row in enumerate(ROWS)]
    return "\n".join([f"{HEADER},{name}", *lines, ""])


REFUSED: dict[str, tuple[str | bytes, str]] = {
    "cut in a row": (GOOD[:-8], "cannot be read as CSV (CSV parse error: Row #121: Expected 5 columns, got 3)"),
    "a long row": (GOOD + "1,2,f,h0,no,6\n", "Expected 5 columns, got 6)"),
    "an open quote": (GOOD + '1,2,f,h0,"no\n', "a quote is opened and never closed"),
    "another encoding": (
        GOOD.replace("h1", "Zürich").encode("latin1"),
        "is not text in UTF-8 (line 3); accepted: CSV in UTF-8, or --encoding",
    ),
    "another encoding, late": (
        (GOOD + "1,2,f,h0,no\n" * 60_000).encode() + b"1,2,\xe9,h0,no\n",
        "is not text in UTF-8 (line 60122)",
    ),
    "a header in another encoding": (GOOD.replace("age", "Größe", 1).encode("latin1"), "is not text in UTF-8 (line 1)"),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 9, "is not text in UTF-8"),
    "zeros": (bytes(5000), "is no text; accepted: CSV in UTF-8"),
    "nothing": ("", "is empty; accepted: a table with a header line"),
    "blank lines": ("\n\n\n", "cannot be read as CSV"),
    "a header alone": (HEADER + "\n", "holds no rows; accepted: a table with a header line and rows"),
    "a name twice": (GOOD.replace("age", "sex", 1), "column 'sex' is there more than once; accepted: each name once"),
    "no label": (GOOD.replace("outcome", "outcme", 1), "unknown column (data.label) 'outcome': did you mean 'outcme'?"),
    "no client": (GOOD.replace("hospital", "clinic", 1), "unknown column (data.client) 'hospital'"),
    "one class": (GOOD.replace("yes", "no"), "column 'outcome' holds only label 'no'; accepted: at least two classes"),
    "one client": (
        GOOD.replace("h1", "h0").replace("h2", "h0"),
        "column 'hospital' names only client 'h0'; accepted: at least two, or no data.client",
    ),
    "labels that are missing": (
        GOOD.replace(",yes\n", ",\n", 3),
        "column 'outcome' has no label in 3 of 120 rows, first in row 1",
    ),
    "clients that are missing": (GOOD.replace(",h1,", ",NA,", 2), "has no client in 2 of 120 rows, first in row 2"),
    "whole numbers without end": (
        column("dose", str(10**30)),
        "column 'dose' holds 1e+30; accepted: numbers of at most",
    ),
    "infinite": (column("dose", "1", "-inf"), "column 'dose' holds -inf; accepted: numbers of at most 1e+20"),
    "nothing to learn from": (
        "\n".join(["key,hospital,outcome", *(f"k{i},h{i % 3},{i % 2}" for i in range(60))]),
        "no column is left to learn from ('key' (60 different texts in 60 rows))",
    ),
}


def sentence(capsys: pytest.CaptureFixture[str], path: Path, *words: str) -> str:
    """What is said of a file, in one line, by `data show` and by `run`."""
    said = []
    for command in (["data", "show", str(path)], ["run", "--data", str(path), "--out", str(path.parent / "run")]):
        assert main([*command, *(words or NAMED)]) == 2
        out, err = capsys.readouterr()
        assert not out and err.count("\n") == 1 and err.startswith("error: ") and len(err) < 620
        said.append(err)
    assert said[0] == said[1]
    assert not (path.parent / "run").exists()
    return said[0]


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_file_is_refused_in_one_sentence(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content, said = REFUSED[name]
    path = tmp_path / "bad.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert said in sentence(capsys, path)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "data.label is not set; accepted: the column that holds the classes, one of 'id', 'age', 'sex'"),
        (("--label", "hospital", "--client", "hospital"), "column 'hospital' is named as label and otherwise"),
        (("--label", "outcome", "--leave-out", "age,sx"), "unknown column (data.leave_out) 'sx': did you mean 'sex'?"),
        (
            ("--label", "outcome", "--leave-out", "outcome"),
            "data.leave_out has 'outcome', which is named for something",
        ),
        (("--label", "outcome", "--set", "data.kind=image"), "data.kind is 'image', but"),
        (("--label", "outcome", "--schema", "nowhere.toml"), "schema nowhere.toml does not exist"),
        (
            ("--label", "outcome", "--client", "id"),
            "column 'id' (data.client) has 120 different values in 120 rows, so that no client has rows to learn from",
        ),
    ],
)
def test_wrong_words_for_a_good_file(
    words: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "good.csv"
    path.write_text(GOOD)
    assert said in sentence(capsys, path, *words or ("--client", "hospital"))


def test_files_that_are_not_what_their_names_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = gzip.compress(GOOD.encode())
    for name, content in {
        "cut.csv.gz": whole[:-30],
        "plain.csv.gz": GOOD.encode(),
        "plain.parquet": GOOD.encode(),
        "cut.parquet": b"PAR1" + bytes(100) + b"PAR1",
    }.items():
        (tmp_path / name).write_bytes(content)
        assert "cannot be read as " in sentence(capsys, tmp_path / name)
    assert "no such file; accepted: a table in .csv" in sentence(capsys, tmp_path / "nowhere.csv")
    (tmp_path / "folder.csv").mkdir()
    assert "is a folder; accepted: a file" in sentence(capsys, tmp_path / "folder.csv")


def test_columns_of_other_types_in_parquet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.parquet"
    table = pa.table(
        {
            "list": [[1.0, 2.0]] * 60,
            "raw": [b"\xff"] * 60,
            "sex": pa.array(["f", "m"] * 30).dictionary_encode(),
            "dose": pa.array([1, None, 3] * 20, pa.decimal128(5, 2)),
            "y": [True, False, True] * 20,
        }
    )
    parquet.write_table(table, path)
    assert main(["data", "show", str(path), "--label", "y", "--clients", "2", "--partition", "iid"]) == 0
    out, err = capsys.readouterr()
    said = " ".join((out + err).split())
    assert "left out: 'list' (neither numbers nor text but list" in said and "'raw' (neither" in said
    assert "false" in out and "true" in out
    assert "has dtype" not in sentence(capsys, path, "--label", "raw")
    assert "column 'list' holds list" in sentence(capsys, path, "--label", "list")


def test_names_that_would_write_to_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "evil.csv"
    path.write_text(GOOD.replace("h1", "[red]\x1b[31m").replace("yes", "<b>&").replace("age", "\x1b]0;age", 1))
    assert main(["data", "show", str(path), *NAMED]) == 0
    out, err = capsys.readouterr()
    assert "\x1b" not in out + err
    assert "[red]\\x1b[31m" in out and "<b>&" in out
