"""Several clients' models as one: each row is answered by the model of its client, a stranger's by the generic one."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from motet.data import Prepare
from motet.data.readers.values import MISSING, name_of
from motet.errors import MotetError, shown
from motet.export.rows import column_names, column_of
from motet.io.text import listed
from motet.runs.raw_model import Floats, RawModel

GENERIC = "generic"  # in the column `model` of predictions
EVEN = 0.5  # the threshold of the more probable of two classes


@dataclass(frozen=True)
class Predicted:
    """The answers for samples in their order: probabilities, the number of the chosen class, and by which model."""

    shares: Floats
    chosen: npt.NDArray[np.int64]
    models: Sequence[str]
    """For each sample the client whose model answered, or `generic`; empty where one model answered all."""
    thresholds: Sequence[float] = ()
    """For each sample the probability of the second class from which on it is predicted; empty unless two classes."""
    strangers: Sequence[str] = ()
    """The names in the rows that no client has, each once."""
    are_numbers: bool = False
    """Whether numbers are predicted: then they are the one column of `shares`."""

    @property
    def routes(self) -> dict[str, int]:
        """Return how many samples each model answered, most first."""
        return dict(Counter(self.models).most_common())


def predicted_by(model: RawModel, stored: Tensor) -> Predicted:
    """Return the answers of one model for samples in stored layout."""
    shares = model.shares(stored)
    thresholds = [threshold_used(model)] * len(shares) if _two(model) else ()
    return Predicted(shares, model.decided(shares), (), thresholds, are_numbers=model.predicts_numbers)


class RoutedModels:
    """The models of a run's clients, used as one: `motet.load_models` and `Result.models` return it.

    `predict`, `predict_proba` and `classes_` are as in scikit-learn. Each row goes to the model of the client that it
    names, and to the generic model if no client has that name.
    """

    def __init__(
        self,
        where: str,
        names: Sequence[str],
        load: Callable[[str | None], RawModel | None],
        column: str | None = None,
    ):
        """Take the names of the clients and a function that loads a client's model by name, or for None the generic.

        `where` names the models in sentences; `column` is the column of rows that names clients.
        """
        self.where, self.client_names, self.column, self._load = where, list(names), column, load
        self._loaded: dict[str | None, RawModel | None] = {}

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """Return the classes in the order of `predict_proba`."""
        return self._any.classes_

    @property
    def class_names(self) -> list[str]:
        """Return the names of the classes in the order of `predict_proba`."""
        return self._any.class_names

    @property
    def prepare(self) -> Prepare:
        """Return the preparation that all models share."""
        return self._any.prepare

    def model(self, client: str | None = None) -> RawModel:
        """Return one client's model by its name, or without a name the generic one."""
        if client is not None and client not in self.client_names:
            raise MotetError(f"{self.where} holds no model of {shown(client)}; {self._accepted}")
        found = self._model(client)
        if found is None:
            raise MotetError(f"{self.where} holds no generic model; {self._accepted}")
        return found

    def predict_proba(self, x: Any, client: str | Sequence[object] | None = None) -> Floats:
        """Return the probability of every class for each row, [n, classes], by the model of its client.

        `x` is rows as the models take them, such as a data frame. `client` is the column of them that names clients, by
        default the one of the run's data, or a name for each row.
        """
        found = self.answers(x, client)
        if found.are_numbers:
            raise MotetError("predict_proba is for classes, and these models predict a number; accepted: predict")
        return found.shares

    def predict(self, x: Any, client: str | Sequence[object] | None = None) -> npt.NDArray[Any]:
        """Return the class of each row, as `classes_` has it, or its number, by the model of its client.

        `x` is as for `predict_proba`.
        """
        found = self.answers(x, client)
        return found.shares[:, 0] if found.are_numbers else self.classes_[found.chosen]

    def answers(self, x: Any, client: str | Sequence[object] | None = None) -> Predicted:
        """Return the answers for rows in memory, and which model gave each."""
        names = self._named(x, client)
        return self.route(self.prepare.stored(x), names)

    def route(self, stored: Tensor, names: Sequence[object]) -> Predicted:
        """Return the answers for samples in stored layout, whose clients have these names."""
        if len(names) != len(stored):
            raise MotetError(f"client has {len(names)} names for {len(stored)} rows; accepted: one for each row")
        known = set(self.client_names)
        given = [_text(name) for name in names]
        target = [name if name in known else None for name in given]
        strangers = list(dict.fromkeys(name for name in given if name is not None and name not in known))
        if None in target and self._model(None) is None:
            row = target.index(None)
            who = "no client" if given[row] is None else f"client {shown(given[row])}"
            raise MotetError(
                f"row {row + 1} names {who}, for which {self.where} holds no model, nor a generic one; {self._accepted}"
            )
        shares, chosen = np.zeros((len(stored), len(self.class_names))), np.zeros(len(stored), np.int64)
        used = np.zeros(len(stored))
        for name, rows in _groups(target).items():
            model = self.model(name)
            used[rows] = threshold_used(model)
            shares[rows] = model.shares(stored[torch.from_numpy(rows)])
            chosen[rows] = model.decided(shares[rows])
        models = [GENERIC if name is None else name for name in target]
        numbers = self.prepare.target is not None
        return Predicted(shares, chosen, models, used.tolist() if _two(self) else (), strangers, numbers)

    def _named(self, x: Any, client: str | Sequence[object] | None) -> Sequence[object]:
        """Return the client's name of each row."""
        if client is not None and not isinstance(client, str):
            return list(client)
        column = client if client is not None else self.column
        if column is None:
            raise MotetError("client is not given; accepted: the column that names clients, or a name for each row")
        values = column_of(x, column)
        if values is None:
            there = column_names(x)
            accepted = f"one of {listed(there)}, or a name for each row" if there else "a name for each row"
            raise MotetError(f"client is {shown(column)}, which is no column of the rows; accepted: {accepted}")
        return values

    @property
    def _any(self) -> RawModel:
        first = next((found for found in self._loaded.values() if found is not None), None)
        if first is not None:
            return first
        found = self._model(None)
        return self.model(self.client_names[0]) if found is None else found

    def _model(self, client: str | None) -> RawModel | None:
        if client not in self._loaded:
            found = self._load(client)
            if found is not None:
                self._refuse_other(found, client)
            self._loaded[client] = found
        return self._loaded[client]

    def _refuse_other(self, found: RawModel, client: str | None) -> None:
        """Raise if this model takes other samples or has other classes than those that are loaded."""
        first = next((each for each in self._loaded.values() if each is not None), found)
        if first.class_names != found.class_names or not _same(first.prepare, found.prepare):
            who = "the generic model" if client is None else f"the model of {shown(client)}"
            raise MotetError(f"{self.where}: {who} is of another run than the others; accepted: models of one export")

    @property
    def _accepted(self) -> str:
        return f"accepted: clients such as {listed(self.client_names[:3])}"

    def __repr__(self) -> str:
        return f"<motet.RoutedModels of {len(self.client_names)} clients, in {self.where}>"


def _text(name: object) -> str | None:
    """Return a client's name as a run knows it; None where it is missing."""
    if name is None or name != name:
        return None
    text = name_of(str(name).strip() if not isinstance(name, bool | np.bool_) else name)
    return None if text in MISSING or text in ("<NA>", "NaT") else text


def _groups(target: Sequence[str | None]) -> Mapping[str | None, npt.NDArray[np.int64]]:
    """Return the rows of each model, in their order."""
    rows: dict[str | None, list[int]] = {}
    for row, name in enumerate(target):
        rows.setdefault(name, []).append(row)
    return {name: np.array(found) for name, found in rows.items()}


def _same(one: Prepare, other: Prepare) -> bool:
    words, constants = one.saved()
    others, theirs = other.saved()
    return words == others and all(torch.equal(value, theirs[name]) for name, value in constants.items())


def threshold_used(model: RawModel) -> float:
    """Return the probability from which on the second of two classes is predicted."""
    return EVEN if model.threshold is None else model.threshold


def _two(model: "RawModel | RoutedModels") -> bool:
    return len(model.class_names) == 2
