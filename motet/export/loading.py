"""`motet.load_model` and `motet.load_models`: exported models as torch modules that predict as scikit-learn's do."""

import os
from collections.abc import Mapping

from motet.export.description import Description
from motet.export.folder import read_model
from motet.export.index import model_folder, read_index, require_index
from motet.export.portable import Portable
from motet.export.routing import RoutedModels
from motet.io.user_paths import user_path
from motet.runs.raw_model import RawModel


class LoadedModel(RawModel):
    """An exported model: called with samples as the data file has them, it returns logits.

    `predict`, `predict_proba` and `classes_` are as in scikit-learn.
    """

    def __init__(self, known: Description, model: Portable):
        threshold = None if known.threshold is None else known.threshold.value
        super().__init__(model, known.prepare, known.class_names, threshold)
        self.known = known

    @property
    def client(self) -> str | None:
        """Return the name of the client whose model it is; None for the generic model."""
        return self.known.client

    @property
    def figures(self) -> Mapping[str, float]:
        """Return the figures that the run measured for this model."""
        return self.known.figures


def load_model(
    folder: str | os.PathLike[str], client: int | str | None = None, *, trust_code: bool = False
) -> LoadedModel:
    """Return a model of a folder that `motet export` wrote: a plain torch module that takes samples as files have them.

    Called, it returns logits. Its `predict`, `predict_proba` and `classes_` are as in scikit-learn; they take arrays,
    and for a table data frames and dictionaries too.

    Parameters
    ----------
    folder
        The folder of an exported model, or of a whole export.
    client
        Of a whole export: whose model, by name or number; default the generic one.
    trust_code
        Nothing is unpickled. A net of the user's own is code: it runs if the user ran it before, or with `trust_code`.

    >>> import motet, tempfile
    >>> from sklearn.datasets import load_digits
    >>> models = tempfile.mkdtemp() + "/models"
    >>> _ = motet.export(motet.run(data="digits", clients=4, rounds=1), models, generic=True)
    >>> motet.load_model(models)(load_digits().images[:3]).shape
    torch.Size([3, 10])
    """
    known, model = read_model(model_folder(user_path(folder, "folder"), client), trust_code)
    return LoadedModel(known, model)


def load_models(folder: str | os.PathLike[str], client: str | None = None, *, trust_code: bool = False) -> RoutedModels:
    """Return all models of an export as one, whose `predict` sends each row to the model of its client.

    Rows of clients that have no model there go to the generic one, if there is one. Models are loaded when the first
    row needs them.

    Parameters
    ----------
    folder
        The folder of a whole export.
    client
        The column of rows that names clients; default the one of the run's data.
    trust_code
        As for `motet.load_model`.

    >>> import motet, tempfile
    >>> from sklearn.datasets import load_digits
    >>> models = tempfile.mkdtemp() + "/models"
    >>> _ = motet.export(motet.run(data="digits", clients=4, rounds=1), models)
    >>> motet.load_models(models).predict(load_digits().images[:3], client=["0", "3", "a stranger"]).shape
    (3,)
    """
    path = user_path(folder, "folder")
    require_index(path)
    index = read_index(path)
    names = [each.client for each in index.models if each.client is not None]
    generic = any(each.client is None for each in index.models)

    def load(name: str | None) -> LoadedModel | None:
        return load_model(path, name, trust_code=trust_code) if generic or name is not None else None

    return RoutedModels(str(folder), names, load, index.client_column if client is None else client)
