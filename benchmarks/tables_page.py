"""Write the recorded figures of real tables (`results/tables.json`) into README.md of this folder.

python benchmarks/tables_page.py
"""

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE, RESULTS = HERE / "README.md", HERE / "results" / "tables.json"
BEGIN, END = "<!-- written by tables_page.py -->\n", "<!-- end of tables_page.py -->\n"
COLUMNS = {
    "recommended": "motet",
    "fedavg": "fedavg",
    "local": "local",
    "pooled regression": "pooled regression",
    "alone regression": "alone regression",
    "majority": "majority",
}
"""The titles of the columns, and whose figures they have."""
WANTED = 5
"""Splits of each table that the study has when it is whole."""


def written() -> str:
    """Return the page with the table of what is recorded."""
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "\n" + block(json.loads(RESULTS.read_text("utf-8"))) + "\n" + END + after


def block(found: Any) -> str:
    """Return the table, a line for each data set, and what it shows."""
    tables = found["tables"]
    head = ["table", "judged by", "splits", *COLUMNS, "lead", "minutes"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name, each in tables.items():
        by, means = each["judged_by"], each["means"]
        values = [f"{means[whose][by]:.3f}" for whose in COLUMNS.values()]
        cells = [name, by, str(each["splits"]), *values, f"{each['lead']:+.3f}", f"{each['seconds'] / 60:.0f}"]
        lines.append("| " + " | ".join(cells) + " |")
    within, above = (sum(each[key] for each in tables.values()) for key in ("within", "above"))
    missing = sum(WANTED - each["splits"] for each in tables.values())
    lines += ["", f"Within one point of the better regression: {within} of {len(tables)} tables; above it: {above}."]
    for name, each in tables.items():
        if "published" in each:
            others = ", ".join(f"{whose} {value:.3f}" for whose, value in each["published"].items())
            ours = each["means"]["motet"][each["judged_by"]]
            lines += ["", f"Others on `{name}`, by the same rule of splitting: {others}; recommended here {ours:.3f}."]
    if missing:
        lines.append(f"Not whole: {missing} of {WANTED * len(tables)} splits are missing.")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(written(), "utf-8")
