"""What was found, as a table."""

from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from throughput_parts.contestants import CONTESTANTS


def show(result: dict[str, Any]) -> None:
    """Print a result for people."""
    console = Console()
    console.print(_systems(result) if "ratio_to_fedavg" in result else _sides(result))
    for name, reason in result["skipped"].items():
        console.print(f"{name} did not take part: {reason}", markup=False)


def _sides(result: dict[str, Any]) -> Table:
    first, last = min(result["images"]), max(result["images"])
    size = f"{first:,} to {last:,}" if first != last else f"{first:,}"
    table = Table(title=f"{result['workload']}: {result['setting']['what']}", title_justify="left")
    table.caption = f"medians of {result['repeats']} rounds of {size} training images, in turns"
    for column in ("contestant", "images/s", "seconds", "pool / it", "scoring"):
        table.add_column(column, justify="left" if column == "contestant" else "right")
    table.add_column("what")
    for name, speed in sorted(result["images_per_second"].items(), key=lambda item: -item[1]):
        ratio, share = result["ratios"].get(f"pool/{name}"), result["scoring_share"].get(name)
        table.add_row(
            name,
            f"{speed:,.0f}",
            f"{median(result['seconds'][name]):.2f}",
            "" if ratio is None else f"{ratio:.2f}",
            f"{share:.0%}" if share else "",
            CONTESTANTS[name].what,
        )
    return table


def _systems(result: dict[str, Any]) -> Table:
    table = Table(title=f"{result['workload']}: {result['what']}", title_justify="left")
    table.caption = f"medians of {result['repeats']} rounds, in turns; FedBasis per epoch of either phase"
    table.add_column("system")
    table.add_column("x FedAvg", justify="right")
    table.add_column("on")
    for setting in result["setting"].values():
        for name in setting["methods"]:
            if name in result["ratio_to_fedavg"]:
                table.add_row(name, f"{result['ratio_to_fedavg'][name]:.2f}", setting["what"])
    return table
