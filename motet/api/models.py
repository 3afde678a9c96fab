"""`motet.export`, `motet.predict` and `motet.adapt`: use the models of a run elsewhere, and make models of new
clients."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt
from torch import Tensor

from motet.api.choices import AnyPath
from motet.api.comparison import Comparison
from motet.api.result import Result
from motet.api.tables import Table
from motet.data.readers.raw import Array
from motet.errors import MotetError
from motet.export.answering import GivenRows, answer
from motet.export.newcomer import Newcomer, from_counts, from_samples
from motet.export.reading import Labels, class_numbers, read_given, true_numbers
from motet.export.routing import RoutedModels
from motet.export.rows import as_array
from motet.io.user_paths import user_path
from motet.runs.raw_model import RawModel
from motet.runs.record import Record
from motet.runs.served_models import ServedModels
from motet.studies.comparison_file import is_comparison

Samples = npt.ArrayLike | Tensor


def export(
    run: AnyPath | Result | Comparison,
    out: AnyPath,
    clients: Sequence[int | str] = (),
    *,
    generic: bool = False,
    formats: Sequence[str] = ("torch",),
    threshold: str = "",
    refit: bool | None = None,
    trust_code: bool = False,
) -> list[Path]:
    """Write models of a run as files that need neither the run nor its data, and return their folders.

    Of a comparison, they are the models of the method that it recommends.

    Parameters
    ----------
    run
        A finished run or a comparison: its object or its folder.
    out
        A new folder for the models; `motet.load_model` reads it.
    clients, generic
        Whose models, by name or number, and whether the generic one; with neither, all that can be made.
    formats
        "torch" is always written; "torch.export" and "onnx" too if they are named.
    threshold
        Of two classes: what thresholds are chosen for, on the validation rows of the run's data, such as "f1" or
        "recall>=0.9"; default those that the run chose by `scoring.threshold`.
    refit
        Of a comparison: train the recommended method once more, on the rows too that it was judged on, and export that
        (default); with False, the models that were judged. The figures beside the models are of those.
    trust_code
        As for `motet.resume`.

    >>> import motet, tempfile
    >>> result = motet.run(data="digits", clients=4, rounds=1)
    >>> [folder.name for folder in motet.export(result, tempfile.mkdtemp() + "/models", generic=True)]
    ['generic']
    """
    if not isinstance(run, Result | Comparison):
        path = user_path(run, "run")
        run = (Comparison if is_comparison(path) else Result)(path, trust_code=trust_code)
    if isinstance(run, Comparison):
        return run.export(out, clients, generic=generic, formats=formats, threshold=threshold, refit=refit is not False)
    if refit:
        raise MotetError("refit is for a comparison, and this is a run; accepted: refit of a folder of `motet compare`")
    result = run
    return result.export(out, clients, generic=generic, formats=formats, threshold=threshold)


def predict(
    model: AnyPath | RawModel | RoutedModels,
    data: AnyPath | Samples | Any,
    client: int | str | Sequence[object] | None = None,
    *,
    id: str | Sequence[str] = (),  # named as on the command line; the builtin is not used here
    encoding: str = "utf-8",
    trust_code: bool = False,
) -> Table:
    """Predict classes by name, with probabilities; return a row per sample.

    A row has `prediction`, `probability` and `p(CLASS)` for each class, and of two classes the `threshold` from which
    on the second is predicted. Before them stand the `file` if a sample was one, the columns that `id` names, and where
    each row goes to its client's model that client and the `model`.

    Parameters
    ----------
    model
        The folder of an exported model or of a whole export, or what `motet.load_model`, `motet.load_models` or a
        result's `personal_model` returned.
    data
        Samples as the run's data file has them: a file, a folder of images, an array; for a table also a data frame, an
        Arrow table or dictionaries.
    client
        Of a whole export: the column of the data that names clients, so that each row goes to its client's model (names
        that no client has to the generic one), or a name for each row; or whose model all rows go to, by name or
        number; default the generic one.
    id
        Columns of the data to keep in the rows, one or several.
    encoding
        Of a CSV file, such as "latin-1".
    trust_code
        As for `motet.resume`.

    >>> import motet, tempfile
    >>> from sklearn.datasets import load_digits
    >>> models = tempfile.mkdtemp() + "/models"
    >>> _ = motet.export(motet.run(data="digits", clients=4, rounds=1), models, generic=True)
    >>> rows = motet.predict(models, load_digits().images[:3])
    >>> len(rows), rows.columns[:2]
    (3, ['prediction', 'probability'])
    """
    given = GivenRows(user_path(data, "data") if isinstance(data, str | os.PathLike) else data, encoding)
    return Table(answer(model, given, client, [id] if isinstance(id, str) else id, trust_code).rows())


def adapt(
    run: AnyPath | Result,
    data: AnyPath | tuple[Samples, Samples] | None = None,
    *,
    counts: Sequence[int] | None = None,
    test_share: float = 0.25,
    seed: int = 0,
    trust_code: bool = False,
) -> Newcomer:
    """Make the model of a client that took no part in a run, and measure what the client gains by it.

    Return its `model`, the `figures` of it and of the models it would have otherwise, on samples that the model has
    not seen, and how many samples it learned from (`train`) and was scored on (`test`). The model is the better of
    before and after learning (`kept`), chosen on validation rows among those that it learned from (`validation`).

    Parameters
    ----------
    run
        A finished run: its result or its folder.
    data
        The new client's samples and labels: a file, or (x, y).
    counts
        Its class counts alone, for methods that need no more; then `data` only score the model.
    test_share, seed
        The share of its samples that score the model, and the seed that draws them.
    trust_code
        As for `motet.resume`.

    >>> import motet
    >>> from sklearn.datasets import load_digits
    >>> digits = load_digits()
    >>> result = motet.run(data="digits", clients=4, rounds=1)
    >>> new = motet.adapt(result, (digits.images[:80], digits.target[:80]))
    >>> new.train, new.test
    (60, 20)
    """
    served = run._served if isinstance(run, Result) else served_models(run, trust_code)
    return newcomer_of(served, data, counts, test_share, seed)


# -------- Shared with the command line


def served_models(run: AnyPath, trust_code: bool) -> ServedModels:
    """Return the models of a finished run; raise a MotetError that says how to continue an unfinished one."""
    record = Record(user_path(run, "run"))
    record.summary  # noqa: B018 - an unfinished run says how to go on
    return ServedModels(record, trust_code)


def newcomer_of(
    served: ServedModels,
    data: AnyPath | tuple[Samples, Samples] | None,
    counts: Sequence[int] | None,
    test_share: float,
    seed: int,
) -> Newcomer:
    """Return the model of a new client from samples, or from class counts alone."""
    if data is None and counts is None:
        raise MotetError("adapt needs a new client; accepted: data with its samples and labels, or its class counts")
    labelled = None if data is None else _labelled(served, data)
    if counts is not None:
        return from_counts(served, counts, labelled)
    assert labelled is not None
    return from_samples(served, *labelled, test_share, seed)


def _labelled(served: ServedModels, data: Any) -> tuple[Array, Array]:
    labels = Labels(served.facts.class_names, served.record.experiment.data.label)
    if isinstance(data, str | os.PathLike):
        given = read_given(user_path(data, "data"), served.prepare, labels)
        assert given.y is not None
        return given.x, _labels(given.y, served, str(data))
    if not isinstance(data, tuple) or len(data) != 2:
        raise MotetError(f"data is a {type(data).__name__}; accepted: a file, or (x, y) with samples and labels")
    x, y = as_array(data[0], "x"), as_array(data[1], "y")
    if not x.ndim or y.shape != (len(x),):
        raise MotetError(f"data: x and y have shapes {x.shape} and {y.shape}; accepted: one label for each sample")
    return x, _labels(y, served, "data")


def _labels(y: Array, served: ServedModels, where: str) -> Array:
    """Return labels as class numbers of the run, or as numbers where its label is one."""
    return true_numbers(y, where) if served.prepare.target else class_numbers(y, served.facts.class_names, where)
