"""A log for MLflow: one MLflow run in the MLflow experiment `motet`."""

import hashlib
import logging
import os
import re
import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from motet.config.experiment import Experiment
from motet.config.nesting import flatten
from motet.io.files import is_own_folder, make_folder, refuse_links

EXPERIMENT, TAG = "motet", "motet.run"
DATABASE = "mlflow.db"
MOST_METRICS, MOST_PARAMETERS, MOST_TEXT = 1000, 100, 500  # limits of MLflow for one call and one value

ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",  # off unless a user turns it on
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",  # a server that is not there must not hold a run for minutes
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
}


class MLflow:
    """A log for MLflow, in RUN/mlflow or at a tracking URI."""

    package: ClassVar[str] = "mlflow"

    def __init__(self, place: str):
        self.uri = place
        self.waiting: list[Any] = []
        self.client: Any = None
        self.run_id = ""
        self.artifacts: str | None = None  # None: the server decides

    def start(self, experiment: Experiment, folder: Path) -> None:
        """Begin a run and delete that of an earlier start, as MLflow deletes: it can be restored there."""
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        uri = self.uri or self._own_store(folder)
        self.client = import_module("mlflow.tracking").MlflowClient(tracking_uri=uri)
        found = self.client.get_experiment_by_name(EXPERIMENT)
        where = found.experiment_id if found else self.client.create_experiment(EXPERIMENT, self.artifacts)
        mark = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()
        for run in self.client.search_runs([where], f"tags.`{TAG}` = '{mark}'"):
            self.client.delete_run(run.info.run_id)
        made = self.client.create_run(where, run_name=folder.resolve().name, tags={TAG: mark})
        self.run_id = made.info.run_id
        entities = import_module("mlflow.entities")
        chosen = [entities.Param(name, value[:MOST_TEXT]) for name, value in _parameters(experiment)]
        for at in range(0, len(chosen), MOST_PARAMETERS):
            self.client.log_batch(self.run_id, params=chosen[at : at + MOST_PARAMETERS])

    def log(self, round: int, values: Mapping[str, float]) -> None:
        """Keep the values for the next `flush`, or send them if there are many."""
        now, entities = int(1000 * time.time()), import_module("mlflow.entities")
        self.waiting += [entities.Metric(_allowed(name), value, now, round) for name, value in values.items()]
        if len(self.waiting) > MOST_METRICS:
            self.flush()

    def flush(self) -> None:
        """Send the waiting values to the store."""
        while self.waiting:
            some, self.waiting = self.waiting[:MOST_METRICS], self.waiting[MOST_METRICS:]
            self.client.log_batch(self.run_id, metrics=some)

    def close(self, finished: bool) -> None:
        """Send what is left and mark the run as finished or killed."""
        if self.run_id:
            self.flush()
            self.client.set_terminated(self.run_id, "FINISHED" if finished else "KILLED")

    def _own_store(self, folder: Path) -> str:
        """Return the address of an SQLite file, which every MLflow opens; newer versions refuse its store of plain
        files."""
        where = folder.resolve() / "mlflow"
        if not is_own_folder(where):
            make_folder(where)
        refuse_links(where)
        self.artifacts = (where / "artifacts").as_uri()
        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.WARNING)  # hides messages about the creation of the database
        return f"sqlite:///{where / DATABASE}"


def _allowed(name: str) -> str:
    return re.sub(r"[^\w\-. :/]", "_", name)


def _parameters(experiment: Experiment) -> list[tuple[str, str]]:
    """Return every field of an experiment by its dotted name, as text."""
    return [(name, str(value)) for name, value in flatten(experiment.model_dump()).items()]
