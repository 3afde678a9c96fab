"""Track: the rounds of a run as logs that other programs show, TensorBoard and MLflow, each an optional extra.

`watching.py` says what a log is and writes the record's rounds to each; `tensorboard.py` and `mlflow.py` are one log
each. May import runs, metrics, config and io. A log that fails warns and never stops a run. Start in `watching.py`.
"""

from motet.track.watching import TRACKERS, Tracked, tracked

__all__ = ["TRACKERS", "Tracked", "tracked"]
