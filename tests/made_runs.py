"""Finished runs made up for tables: every number is known, so that it can be looked for in what is printed."""

from pathlib import Path
from typing import Any

from made_records import made_summary

from motet.config.experiment import resolve
from motet.metrics.names import MetricName
from motet.report.finished import Finished
from motet.runs.clients_file import ClientInfo, ClientsInfo
from motet.server.assembly import settle

COMMON_TEST = 359


def made(
    method: str,
    *,
    seed: int = 0,
    base: float = 0.8,
    natural: bool = False,
    new: float = 0.2,
    folder: str = "",
    names: tuple[str, ...] = (),
    generic: bool = True,
    sent: bool = True,
    beside_local: bool = False,
    figures: dict[str, float] | None = None,
    **choices: Any,
) -> Finished:
    """A run whose figures are `base` and so many hundredths more, each another one."""
    data = {"name": "digits", "new_clients": new, "clients": 20}
    if natural:
        data |= {"name": "hospitals/patients.npz", "partition": "natural"}
    experiment = resolve({"method": "fedavg", "seed": seed, "net": {"name": "mlp"}, "data": data, **choices})
    experiment = settle(experiment).model_copy(update={"method": method})
    over = experiment.scoring.mean_over_clients
    found: dict[str, float] = {}
    for i, data_kind in enumerate(("weighted", "split")):
        at = base + 0.04 * i
        found[str(MetricName("personal", data_kind, statistic=over))] = at + 0.0211
        found[str(MetricName("personal", data_kind, statistic="minimum"))] = at - 0.3122
        if generic:
            found[str(MetricName("generic", data_kind, statistic=over))] = at + 0.0033
            found[str(MetricName("personal", data_kind, statistic="hurt"))] = 2 / 16
            found[str(MetricName("personal", data_kind, statistic="better_clients"))] = 13
            found[str(MetricName("personal", data_kind, statistic="compared_clients"))] = 16
        if beside_local:
            found[str(MetricName("personal", data_kind, statistic="better_vs_local_clients"))] = 12
            found[str(MetricName("personal", data_kind, statistic="compared_vs_local_clients"))] = 16
        if new:
            found[str(MetricName("before", data_kind, statistic=over))] = at - 0.1344
            found[str(MetricName("after", data_kind, statistic=over))] = at + 0.0155
    if generic:
        found["generic.common.accuracy.pooled"] = base + 0.0066
    summary = made_summary(
        experiment, found | (figures or {}), sent=830_000 if sent else None, seconds=12.34 + seed, data="digits"
    )
    clients = names or tuple(str(i) for i in range(20))
    people = ClientsInfo(
        clients=tuple(
            ClientInfo(id=i, name=name, new=i >= len(clients) * (1 - new), train=57 + i, val=0, test=14)
            for i, name in enumerate(clients)
        ),
        common_test=COMMON_TEST,
    )
    return Finished(Path(folder or f"runs/{method}-seed{seed}"), experiment, summary, people)


def numbers_of(run: Finished) -> list[str]:
    """What a line of the table has to say of a made run, in the order in which nobody has to read it."""
    figures, over = run.summary.figures, run.experiment.scoring.mean_over_clients
    headline = run.headline.data
    told = [figures.get("generic.common.accuracy.pooled"), figures.get(f"personal.{headline}.accuracy.minimum")]
    told += [
        figures.get(f"{model}.{kind}.accuracy.{over}")
        for kind in ("weighted", "split")
        for model in ("generic", "personal")
    ]
    told += [figures.get(f"{model}.{headline}.accuracy.{over}") for model in ("before", "after")]
    shares = [f"{100 * value:.1f}" for value in told if value is not None]
    counts = [
        figures.get(f"personal.{headline}.accuracy.{word}{than}_clients")
        for than in ("", "_vs_local")
        for word in ("better", "compared")
    ]
    sent = run.summary.bytes_per_round.down
    cost = [f"{run.summary.seconds:.1f}", *([] if sent is None else [f"{2 * sent / 1e6:.2f}"])]
    return shares + [str(count) for count in counts if count is not None] + cost
