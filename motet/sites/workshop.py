"""The work of a site: its workplace, made of its own table and of what it may know of the others, which is little."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from motet.config.experiment import Experiment, resolve
from motet.data import ClientData, ClientFacts, FederationFacts, Site
from motet.data.own_site import SiteTable
from motet.errors import MotetError
from motet.messages.task import SITE_TASKS
from motet.runs.trust import imports_of
from motet.server.assembly import workplace_of
from motet.server.workplace import Workplace


def experiment_of(values: Mapping[str, Any]) -> Experiment:
    """Return an experiment that came in a message; raise a `MotetError` if it names code, or is none."""
    experiment = resolve(values)
    if found := imports_of(experiment):
        raise MotetError(
            f"the experiment names code, {found[0]!r}; accepted: what the installed Motet has, for nothing else runs "
            f"at a site"
        )
    if experiment.net.weights:
        raise MotetError("net.weights names a file of the coordinator's; accepted: none, at real sites")
    return experiment


@dataclass(frozen=True)
class Workshop:
    """The experiment, the site's table, and its place among the sites."""

    experiment: Experiment
    table: SiteTable
    client: int
    sites: int
    name: str
    secret: bytes = field(default=b"", repr=False)
    """The site's own random bytes, from which its masks and its noise come."""

    def data(self) -> ClientData:
        """Return the site's rows, split as the experiment says."""
        return self.table.split(self.experiment.seed, self.client, self.name)

    def facts(self, own: ClientData) -> FederationFacts:
        """Return what this site knows of the federation: its own sizes; of the others, that they are there."""
        others = (1, int(self.experiment.data.val_share > 0), 1)
        mine = (len(own.train), len(own.val), len(own.test))
        clients = tuple(ClientFacts(i, *(mine if i == self.client else others)) for i in range(self.sites))
        table = self.table
        return FederationFacts(
            "sites",
            clients,
            1 if table.target else len(table.class_names),
            table.prepare.input,
            "",
            None,
            class_names=table.class_names,
            target=table.target,
        )

    def workplace(self, own: ClientData | None = None) -> Workplace:
        """Return the workplace, which performs the kinds of tasks that a real site allows, on these rows."""
        own = self.data() if own is None else own
        facts = self.facts(own)
        return workplace_of(self.experiment, Site(own, facts.classes), facts, SITE_TASKS, self.secret)
