"""One workload, side by side: images per second of every contestant, and what pool makes of the others."""

from statistics import median
from typing import Any

from throughput_parts.contest import WARM_UP, Result, contest
from throughput_parts.contestants import CONTESTANTS
from throughput_parts.work import Work
from throughput_parts.workloads import Workload


def measure(workload: Workload, contestants: list[str], quick: bool, repeats: int) -> dict[str, Any]:
    """Let the contestants do the same rounds in turns."""
    experiment = workload.experiment(quick)
    images = counted_images(Work.of(experiment), repeats)
    result = contest({name: (name, experiment) for name in contestants}, repeats)
    return {
        "images_per_second": (speed := images_per_second(result, images)),
        "repeats": repeats,
        "ratios": ratios(speed),
        "scoring_share": scoring_share(result),
        "seconds": {name: result.seconds(name) for name in result.answers},
        "images": images,
        "skipped": result.skipped,
        "setting": {
            "what": workload.what,
            "quick": quick,
            "experiment": experiment,
            "warm_up_rounds": WARM_UP,
            "contestants": {name: CONTESTANTS[name].what for name in contestants},
        },
    }


def counted_images(work: Work, repeats: int) -> list[int]:
    """Training images of each counted round; a cohort's size in images changes from round to round."""
    return [work.images(round) for round in range(WARM_UP + 1, WARM_UP + repeats + 1)]


def images_per_second(result: Result, images: list[int]) -> dict[str, float]:
    """The median over the counted rounds."""
    return {
        name: round(median(n / s for n, s in zip(images, result.seconds(name), strict=True)), 1)
        for name in result.answers
    }


def ratios(speed: dict[str, float]) -> dict[str, float]:
    """Motet's pool, in either precision, over everybody else."""
    found = {}
    for ours in ("pool", "pool_bf16"):
        for other in speed:
            if ours in speed and other != ours and other != "pool_bf16":
                found[f"{ours}/{other}"] = round(speed[ours] / speed[other], 3)
    return found


def scoring_share(result: Result) -> dict[str, float]:
    """The share of Motet's rounds that is scoring, by its own record."""
    found = {}
    for name, answers in result.answers.items():
        if all("training" in answer for answer in answers):
            found[name] = round(median(1 - answer["training"] / answer["computing"] for answer in answers), 3)
    return found
