"""One contestant as a process: python -m throughput_parts NAME EXPERIMENT_AS_JSON."""

import importlib
import json
import sys

from throughput_parts.contestants import CONTESTANTS
from throughput_parts.turns import Over, Turns, Unable


def main() -> None:
    """Play until the referee closes the line."""
    contestant, values = CONTESTANTS[sys.argv[1]], json.loads(sys.argv[2])
    turns = Turns()
    try:
        module = importlib.import_module(f"throughput_parts.{contestant.module}")
        module.play(values, turns, **contestant.options)
    except Over:
        return
    except (Unable, ImportError) as reason:
        turns.unable(str(reason))


if __name__ == "__main__":
    main()
