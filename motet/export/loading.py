"""An exported model as a plain torch module, in a process that has nothing of its run."""

import os
from collections.abc import Mapping

from motet.export.description import Description
from motet.export.folder import read_model
from motet.export.index import model_folder
from motet.inspect_files import user_path
from motet.runs.served import RawModel


class LoadedModel(RawModel):
    """Takes samples as the data file has them, gives logits."""

    def __init__(self, known: Description, model: RawModel):
        super().__init__(model.model, model.prepare)
        self.known = known

    @property
    def class_names(self) -> list[str]:
        """Of the logits 0, 1, …"""
        return list(self.known.class_names)

    @property
    def client(self) -> str | None:
        """Whose model it is; None for the generic one."""
        return self.known.client

    @property
    def figures(self) -> Mapping[str, float]:
        """What the run measured of it."""
        return self.known.figures


def load_model(
    folder: str | os.PathLike[str], client: int | str | None = None, *, trust_code: bool = False
) -> LoadedModel:
    """The model of a folder that `motet export` wrote: a client's by name or number, or else the generic one.

    Nothing is unpickled. A net of the user's own is code: it runs if the user ran it before, or with `trust_code`.
    """
    known, model = read_model(model_folder(user_path(folder, "folder"), client), trust_code)
    return LoadedModel(known, RawModel(model, known.prepare))
