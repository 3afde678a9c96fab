"""sites.json in the folder of a run at real sites: what a coordinator goes on from after any kill."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, JsonValue

from motet.errors import MotetError, shown
from motet.io.files import read_own, write_atomic
from motet.io.json_models import Count, FileModel, Number, Text
from motet.sites.at_site import SiteTold
from motet.sites.wire import RunId

FILE = "sites.json"
MOST_BYTES = 2**26


class SitesFile(FileModel):
    """sites.json: what the coordinator of a run was told, by its user and by the sites."""

    run: RunId
    sites: Annotated[tuple[Text, ...], Field(min_length=1)]
    host: Text
    port: Annotated[int, Field(ge=0, lt=65536)]
    certs: Text
    least: Annotated[int, Field(gt=0)]
    deadline: Annotated[Number, Field(gt=0)]
    experiment: dict[str, JsonValue]
    """As the sites were asked for it; experiment.toml has what they settled on."""
    starts: Count = 0
    """How often the coordinator was started."""
    told: tuple[SiteTold, ...] = ()
    handed: tuple[Text, ...] = ()
    """The sites that have got, at the end, what their own models are made from."""

    def write(self, folder: Path) -> None:
        """Write the file into the folder of its run."""
        write_atomic(folder / FILE, self.to_json(indent=2))


def read_sites_file(folder: Path) -> SitesFile:
    """Return the file of a run's folder; raise a `MotetError` if there is none."""
    path = folder / FILE
    try:
        return SitesFile.from_json(read_own(path, MOST_BYTES), str(path))
    except OSError as error:
        raise MotetError(
            f"--resume is {shown(str(folder))}, where {FILE} cannot be read ({error.strerror}); accepted: a folder of "
            f"`motet serve`"
        ) from None
