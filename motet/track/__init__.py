"""Logs of runs for other programs to show: TensorBoard and MLflow, each an extra."""

from motet.track.watching import TRACKERS, Tracked, tracked

__all__ = ["TRACKERS", "Tracked", "tracked"]
