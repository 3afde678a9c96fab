"""Tables: cells of every kind in every place, bytes changed at random, words on the command line that do not fit."""

import csv
import gzip
import io
import random
from pathlib import Path

import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
from fuzz_judge import Case, Refused, Wanted, command

CELLS = [
    *("", "NA", "?", "nan", "inf", "-inf", "1e400", "1e-400", "-0", "0x10", "1_000", "1,5", "true", "FALSE", "yes"),
    *("2020-01-01", "12:30", "2020-01-01T00:00:00Z", "9" * 25, "-" + "9" * 400, "é", "\x00", "\u202e", "a" * 3000),
    *('"', "'", "[red]", "<script>", "=1+1", "\t", " 7 ", "line\nbreak", "\ufeff", "\\N", "None"),
]
_KINDS: dict[str, Wanted] = {
    "written": "accept",
    "measured": "refuse",
    "holes": "refuse",
    "latin": "refuse",
    "quotes": "refuse",
}
"""Mistakes that a table makes as a whole, and what is wanted of each."""
NAMES = ["age", "sex", "", " ", "age", "outcome", "a,b", "[bold]", "ü", "x" * 700, "\x1b[31m", "\n", "__class__"]


def table_case(rng: random.Random, folder: Path) -> Case:
    """One table, tried by `data show`, `data schema` or a short run."""
    suffix = rng.choice([".csv", ".csv", ".csv", ".csv.gz", ".tsv", ".parquet"])
    path = folder / f"t{rng.randrange(10**9)}{suffix}"
    kind = rng.choice(["sound", "cells", "names", "bytes", "cut", *_KINDS])
    text = _text(rng, kind)
    wanted: Wanted = _KINDS.get(kind, "accept" if kind == "sound" else "either")
    if kind in _KINDS:
        path = path.with_name(path.name.split(".")[0] + ".csv")  # of which each kind is a mistake
    try:
        data = _as_file(text, path)
    except Exception:  # no Parquet can be made of it
        path, data = path.with_suffix(".csv"), text.encode("utf-8", "surrogatepass")
    path.write_bytes(_damaged(rng, data, kind))
    holds = _has_numbers if kind == "written" else lambda found: None
    return Case(f"table {kind} {path.name}", lambda: _try(rng, path, kind), wanted, holds)


def _has_numbers(found: str) -> str | None:
    """Numbers as people write them are numbers, or a note says what became of them; never categories in silence."""
    return None if "read as numbers" in found or "categories" in found or "left out" in found else "nothing was said"


def _try(rng: random.Random, path: Path, kind: str) -> str:
    words = ["--label", "outcome", "--client", "site"]
    if kind == "written":
        return command("data", "show", str(path), *words, "--json")
    if kind == "latin" and rng.random() < 0.5:
        command("data", "show", str(path), *words, "--encoding", rng.choice(["latin-1", "cp1252"]), "--json")
    if kind == "holes" and rng.random() < 0.5:
        command("data", "show", str(path), *words, "--drop-missing", "--json")
    if kind != "sound" and rng.random() < 0.3:
        option = rng.choice(["--leave-out", "--domain", "--label", "--schema"])
        if kind != "measured" or option != "--label":  # another label makes sense of it
            words += [option, rng.choice([*NAMES, "site"])]
    if rng.random() < 0.5:
        return command("data", "show", str(path), *words, "--json")
    if rng.random() < 0.5:
        schema = path.with_name(path.name + ".toml")
        schema.write_text(command("data", "schema", str(path), *words), encoding="utf-8")
        try:
            return command("data", "show", str(path), *words, "--schema", str(schema), "--json")
        except Refused as refusal:  # what was printed has to fit
            raise AssertionError(f"its own schema does not fit: {refusal}") from refusal
    short = ["--rounds", "1", "--epochs", "1", "--set", "engine.name=inline", "--json"]
    return command("run", "--data", str(path), *words, *short, "--out", str(path) + "-run")


def _text(rng: random.Random, kind: str) -> str:
    names = ["age", "sex", "smoker", "site", "outcome"]
    rows = [
        [f"{20 + i % 50}.5", "fm"[i % 2], ("true", "false")[i % 3 > 0], f"s{i % 3}", "ab"[i % 2]] for i in range(60)
    ]
    if kind == "cells":
        for _ in range(rng.choice([1, 1, 3, 30])):
            rows[rng.randrange(60)][rng.randrange(5)] = rng.choice(CELLS)
        if rng.random() < 0.3:
            column, cell = rng.randrange(5), rng.choice(CELLS)
            for row in rows:
                row[column] = cell
        if rng.random() < 0.1:
            rows = rows[: rng.randrange(4)]
    elif kind == "names":
        names[rng.randrange(5)] = rng.choice(NAMES)
    elif kind == "written":
        form = rng.choice(["{},{}", "{} kg", "{}%", "€ {}", "{}.{}00,5", "{} 000,{}", "$ {}.{}", "{},{} mm"])
        for i, row in enumerate(rows):
            row[0] = form.format(1 + i % 50, i % 10)
    elif kind == "measured":
        for row in rows:
            row[4] = rng.choice(
                [str(rng.randrange(10**6)), f"{rng.random():.3f}", f"{rng.random():.2f}".replace(".", ",")]
            )
    elif kind == "holes":
        for _ in range(rng.choice([1, 5, 20])):
            rows[rng.randrange(60)][rng.choice([3, 4])] = rng.choice(["", "NA", "?"])
    elif kind == "latin":
        rows[rng.randrange(60)][1] = "ü"
    text = io.StringIO()
    writer = csv.writer(text, lineterminator=rng.choice(["\n", "\r\n"]))
    writer.writerow(names)
    writer.writerows(rows)
    return _with_stray_quotes(rng, text.getvalue()) if kind == "quotes" else text.getvalue()


def _with_stray_quotes(rng: random.Random, text: str) -> str:
    """One quote, or two of different rows at the beginning of the same cell."""
    lines, column = text.splitlines(), rng.randrange(5)
    for at in sorted(rng.sample(range(1, 55), rng.choice([1, 2]))):
        cells = lines[at].split(",")
        cells[column] = '"' + cells[column]
        lines[at] = ",".join(cells)
    return "\n".join([*lines, ""])


def _as_file(text: str, path: Path) -> bytes:
    if path.name.endswith(".gz"):
        return gzip.compress(text.encode())
    if path.name.endswith(".tsv"):
        return text.replace(",", "\t").encode()
    if path.name.endswith(".parquet"):
        sink = io.BytesIO()
        parquet.write_table(arrow_csv.read_csv(io.BytesIO(text.encode())), sink)
        return sink.getvalue()
    return text.encode()


def _damaged(rng: random.Random, data: bytes, kind: str) -> bytes:
    if kind == "latin":
        return data.decode().encode("latin-1")
    if kind == "cut":
        return data[: rng.randrange(len(data))]
    if kind == "bytes":
        changed = bytearray(data)
        for _ in range(rng.choice([1, 3, 30])):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        return bytes(changed)
    return data
