"""The model of a site, made at the site from its own disk after the run: its private state, and the last message."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from motet.config.experiment import Experiment
from motet.data import FederationFacts, Prepare
from motet.data.own_site import read_site_table
from motet.errors import MotetError
from motet.export.run import Exported, Exporter, refuse_taken
from motet.messages.task import Task
from motet.metrics.threshold import ClientThreshold, Thresholds
from motet.nets import Net
from motet.runs.raw_model import RawModel
from motet.runs.run import one_thread
from motet.runs.served_models import ServedModels
from motet.server.workplace import Workplace
from motet.sites.disk import BEGUN, FINAL, SITE, Begun, FinalWords, SiteDisk, SiteIdentity
from motet.sites.workshop import Workshop, experiment_of


def is_site_folder(folder: Path) -> bool:
    """Return whether a folder is the --state of a site."""
    return (folder / SITE).is_file() and not (folder / "experiment.toml").exists()


@dataclass(frozen=True)
class _Recorded:
    """What stands for the record of a run where only its experiment is known."""

    experiment: Experiment
    folder: Path


class SiteModels(ServedModels):
    """The one model that a site's folder serves."""

    def __init__(self, folder: Path):
        """Read the folder of a site whose run ended, and its table, which is where it was when the site joined."""
        disk = SiteDisk(folder)
        identity, begun, final = disk.read(SITE, SiteIdentity), disk.read(BEGUN, Begun), disk.final()
        if identity is None or begun is None or identity.files is None:
            raise MotetError(f"{folder} is no folder of a site that took part in a run; accepted: its --state folder")
        if final is None:
            raise MotetError(f"the run of {folder} has not ended, so there is no model yet ({FINAL} is missing)")
        self.words: FinalWords = final[0]
        self.name, self.disk, self.message = identity.name, disk, final[1]
        experiment = experiment_of(begun.experiment)
        data, schema = map(Path, identity.files)
        table = read_site_table(experiment.data, data, schema)
        if table.digest(bytes.fromhex(identity.salt)) != identity.data:
            raise MotetError(f"the rows in {data} are not those with which {identity.name} took part")
        self.client = begun.client
        self.shop = Workshop(experiment, table, begun.client, begun.sites, identity.name)
        self.workplace: Workplace = self.shop.workplace()
        self.record: Any = _Recorded(experiment, folder)
        self.thresholds: Thresholds | None = None

    def own_model(self) -> RawModel:
        """Return the site's personal model as it was last scored."""
        private = self.disk.state(self.words.base)
        with one_thread():
            task = Task("score", self.client, self.words.round, self.message)
            client = self.workplace.client(task, private)
            client = self.workplace.shown(self.workplace.read(client, self.message))
            method = self.workplace.method
            method.net.eval()
            model = (
                method.member(client, self.message, self.words.member)
                if method.family
                else method.personal(client, self.message)
            )
        if model is None:
            raise MotetError(f"method {self.shop.experiment.method!r} has no model of the site's own")
        return RawModel(model, self.prepare, self.facts.class_names)

    @property
    def facts(self) -> FederationFacts:
        """What the site knows of the federation."""
        return self.workplace.facts

    @property
    def prepare(self) -> Prepare:
        """The preparation of the site's rows."""
        return self.shop.table.prepare

    @property
    def plain_net(self) -> Net:
        """The net without what the method added to it."""
        return self.workplace.generic_net

    @property
    def round(self) -> int:
        """The round of the model."""
        return self.words.round

    def threshold_of(self, client_id: int | None) -> ClientThreshold | None:
        """Return None: a site chooses its threshold itself."""
        return None

    def real_samples(self, most: int) -> Tensor | None:
        """Return up to `most` of the site's own rows."""
        train = self.workplace.holdings.clients[self.client].train
        return train.prepare.as_given(train.x[:: max(1, len(train) // most)][:most])


def export_own(folder: Path, out: Path, formats: Sequence[str]) -> Exported:
    """Write the site's own model as a folder that needs nothing else; raise a `MotetError` before the run ended."""
    served = SiteModels(folder)
    refuse_taken(out)
    exporter = Exporter(served, formats)
    who = (served.client, served.name)
    return exporter.write(out, served.own_model(), "personal", who, dict(served.words.figures))
