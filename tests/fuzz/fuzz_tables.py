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
NAMES = ["age", "sex", "", " ", "age", "outcome", "a,b", "[bold]", "ü", "x" * 700, "\x1b[31m", "\n", "__class__"]


def table_case(rng: random.Random, folder: Path) -> Case:
    """One table, tried by `data show`, `data schema` or a short run."""
    suffix = rng.choice([".csv", ".csv", ".csv", ".csv.gz", ".tsv", ".parquet"])
    path = folder / f"t{rng.randrange(10**9)}{suffix}"
    kind = rng.choice(["sound", "cells", "names", "bytes", "cut"])
    text = _text(rng, kind)
    wanted: Wanted = "accept" if kind == "sound" else "either"
    try:
        data = _as_file(text, path)
    except Exception:  # no Parquet can be made of it
        path, data = path.with_suffix(".csv"), text.encode("utf-8", "surrogatepass")
    path.write_bytes(_damaged(rng, data, kind))
    return Case(f"table {kind} {path.name}", lambda: _try(rng, path, kind), wanted)


def _try(rng: random.Random, path: Path, kind: str) -> str:
    words = ["--label", "outcome", "--client", "site"]
    if kind != "sound" and rng.random() < 0.3:
        words += [rng.choice(["--leave-out", "--domain", "--label", "--schema"]), rng.choice([*NAMES, "site"])]
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
    text = io.StringIO()
    writer = csv.writer(text, lineterminator=rng.choice(["\n", "\r\n"]))
    writer.writerow(names)
    writer.writerows(rows)
    return text.getvalue()


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
    if kind == "cut":
        return data[: rng.randrange(len(data))]
    if kind == "bytes":
        changed = bytearray(data)
        for _ in range(rng.choice([1, 3, 30])):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        return bytes(changed)
    return data
