"""`motet export`: the models of a finished run as folders that need neither the run nor its data.

Each exported model is compared with the run's own on samples before it counts.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from motet.config.threshold_rule import ThresholdRule
from motet.data import Prepare
from motet.data.prepare import NumbersPrepare, restored
from motet.data.prepare_table import TablePrepare
from motet.data.schema import CategoryColumn, Column, ScaledColumn
from motet.errors import MotetError, shown, unknown
from motet.export.description import Description, ModelFormat, StoredType, ThresholdOfModel, Which
from motet.export.folder import write_model
from motet.export.formats import ONNX, PROGRAM, Run, Whole, require, write_onnx, write_program
from motet.export.index import ListedModel, write_index
from motet.export.portable import NotPortable, Portable, portable
from motet.io.files import make_folder
from motet.metrics.names import GENERIC, MetricName
from motet.metrics.threshold import Thresholds
from motet.runs.clients_file import read_clients_info
from motet.runs.measure_again import measure_again
from motet.runs.raw_model import RawModel
from motet.runs.record import Record
from motet.runs.rows import Row
from motet.runs.served_models import ServedModels
from motet.runs.serving_file import stored_type
from motet.training.randomness import generator

SAMPLES = 64
CLOSE = {"torch": 1e-6, "torch.export": 1e-5, "onnx": 1e-4}
"""How far logits may be apart, relative to the largest where that is above 1."""


@dataclass(frozen=True)
class CheckedOn:
    """Samples as they are stored, and a text that says where they come from."""

    x: Tensor
    words: str


def samples_of(served: ServedModels, stored: torch.dtype) -> CheckedOn:
    """Return samples of the run's data if they are there, else made-up ones, and which of both they are."""
    found = served.real_samples(SAMPLES)
    if found is not None:
        return CheckedOn(found.to(stored), f"{len(found)} samples of the run's data")
    return CheckedOn(_made_up(served.prepare, stored), f"{SAMPLES} made-up samples, for the run's data are not here")


def difference(run: Callable[[Tensor], Tensor], reference: nn.Module, x: Tensor, format: str) -> float:
    """Return the largest difference of logits, for single samples and for all; raise if a model differs too much."""
    largest = 0.0
    for some in (x[:1], x):
        mine, right = run(some), reference(some)
        apart = torch.where(mine == right, 0.0, (mine - right).abs())  # both may be −∞, whose difference is no number
        largest = max(largest, float(apart.max()))
        finite = right[torch.isfinite(right)].abs()
        if not float(apart.max()) <= CLOSE[format] * max(1.0, float(finite.max()) if len(finite) else 1.0):
            raise MotetError(f"the model in format {format} differs from the run's own by {float(apart.max()):.2g}")
    return largest


def _made_up(prepare: Prepare, stored: torch.dtype) -> Tensor:
    """Return random samples that the preparation can take, spread as after a normalization."""
    rng, shape = generator(0, "export-check"), (SAMPLES, *prepare.sample_shape)
    if stored == torch.int64:
        return torch.randint(max(1, prepare.input.vocabulary), shape, generator=rng)
    if isinstance(prepare, TablePrepare):
        return torch.stack([_made_up_column(column, rng) for column in prepare.schema.columns.values()], 1)
    x = torch.randn(shape, generator=rng)
    if isinstance(prepare, NumbersPrepare) and prepare.scale is not None and prepare.shift is not None:
        x = (x - prepare.shift) / prepare.scale
    return x.clamp(0, 255).round().to(stored) if stored == torch.uint8 else x


def _made_up_column(column: Column, rng: torch.Generator) -> Tensor:
    """Return made-up values for a column: numbers, booleans or places of categories."""
    if isinstance(column, ScaledColumn):
        return column.mean + column.deviation * torch.randn(SAMPLES, generator=rng)
    most = len(column.categories) if isinstance(column, CategoryColumn) else 2
    return torch.randint(most, (SAMPLES,), generator=rng).float()


# -------- The export


@dataclass(frozen=True)
class JudgedFigures:
    """The figures of models as they were judged, on rows that they had not seen."""

    figures: Mapping[str, float]
    """Of all clients together."""
    rows: Mapping[str, Row]
    """Each client's, by its name."""

    @classmethod
    def of(cls, record: Record, round: int) -> "JudgedFigures":
        """Return the figures that a run found for the models of a round."""
        names = {client.id: client.name for client in read_clients_info(record).clients}
        rows = {names[row["client"]]: row for row in record.clients if row["round"] == round}
        return cls(record.summary.figures, rows)


Format = Literal["torch", "torch.export", "onnx"]
FORMATS: tuple[Format, ...] = get_args(Format)
WRITERS: dict[str, tuple[str, Callable[[Path, Whole, torch.dtype], Run]]] = {
    "torch.export": (PROGRAM, write_program),
    "onnx": (ONNX, write_onnx),
}
_DTYPES: dict[StoredType, torch.dtype] = {"uint8": torch.uint8, "float32": torch.float32, "int64": torch.int64}


@dataclass(frozen=True)
class Exported:
    """One model that was written, and how far each of its formats is from the run's own model."""

    folder: Path
    known: Description
    differences: dict[str, float]
    checked_on: str

    @property
    def line(self) -> dict[str, Any]:
        """Return this model as one line of JSON for programs."""
        return {
            "folder": str(self.folder),
            "model": self.known.which,
            "client": self.known.client,
            "differences": self.differences,
            "checked_on": self.checked_on,
        }


class Exporter:
    """Writes models of one run, each checked on the same samples."""

    def __init__(self, served: ServedModels, formats: Sequence[str] = ("torch",), refitted: bool = False):
        for format in formats:
            if format not in FORMATS:
                raise unknown("format", format, FORMATS)
            require(format)
        self.served, self.formats = served, [each for each in FORMATS if each in formats]
        self.stored, self.refitted = _stored(served), refitted
        self.prepare = restored(*served.prepare.saved())  # as it will be when the model is loaded
        self.checked: CheckedOn = samples_of(served, _DTYPES[self.stored])

    def write(
        self, folder: Path, model: RawModel, which: Which, client: tuple[int, str] | None, figures: dict[str, float]
    ) -> Exported:
        """Write one model into a folder of its own and return what was written."""
        known = self._description(which, client, figures)
        form = self._portable(model)
        files: dict[str, ModelFormat] = {}
        found: dict[str, float] = {}
        if form is not None:
            again = RawModel(form, self.prepare, model.class_names)
            found["torch"] = difference(again, model, self.checked.x, "torch")
        make_folder(folder)
        for format in self.formats:
            if format in WRITERS:
                name, write = WRITERS[format]
                whole = Whole(model.model if form is None else form, self.prepare)
                run = write(folder / name, whole, self.checked.x.dtype)
                found[format] = difference(run, model, self.checked.x, format)
                files[name] = ModelFormat.of((folder / name).read_bytes(), found[format], self.checked.words)
        write_model(folder, known, form, files, found.get("torch"), self.checked.words)
        return Exported(folder, known, found, self.checked.words)

    def _portable(self, model: RawModel) -> Portable | None:
        """Return the model in portable form; None if it has none and a runtime's own format is asked for."""
        try:
            return portable(model.model, self.served.plain_net)
        except NotPortable:
            if set(self.formats) & set(WRITERS):
                return None
            raise

    def _description(self, which: Which, client: tuple[int, str] | None, figures: dict[str, float]) -> Description:
        served, experiment = self.served, self.served.record.experiment
        number, name = client or (None, None)
        return Description(
            which,
            experiment.method,
            Path(experiment.data.name).name,  # the user's folders must not be in an export
            experiment.net.name,
            experiment.net.head,
            tuple(served.facts.class_names),
            self.prepare,
            self.stored,
            served.round,
            name,
            number,
            figures,
            batch_statistics=experiment.net.batch_statistics,
            threshold=self._threshold(number),
            refitted=self.refitted,
        )

    def _threshold(self, number: int | None) -> ThresholdOfModel | None:
        chosen, served = self.served.threshold_of(number), self.served
        if chosen is None or served.thresholds is None:
            return None
        return ThresholdOfModel(
            value=chosen.value,
            rule=served.thresholds.rule,
            of_class=served.facts.class_names[1],
            own=chosen.own,
            rows=chosen.rows,
            reached=chosen.reached,
        )


def export_run(
    served: ServedModels,
    out: Path,
    clients: Sequence[int | str] = (),
    generic: bool = False,
    formats: Sequence[str] = ("torch",),
    left_out: Callable[[str], None] = lambda sentence: None,
    threshold: str = "",
    judged: JudgedFigures | None = None,
) -> list[Exported]:
    """Write the named models, or by default the generic one and every client's as far as they can be made.

    `threshold` is a rule by which their thresholds are chosen anew, on the validation rows of the run's data. Of models
    that were trained once more after they were judged, `judged` has the figures.
    """
    everything = not clients and not generic
    numbers = list(dict.fromkeys(served.number_of(client) for client in clients))
    if everything:
        numbers = [client.id for client in served.facts.clients]
    exporter = Exporter(served, formats, refitted=judged is not None)
    refuse_taken(out)
    if threshold:
        served.thresholds = chosen_thresholds(served, threshold)
    judged = judged or JudgedFigures.of(served.record, served.round)
    written: list[Exported] = []
    for number in [*([None] if everything or generic else []), *numbers]:
        try:
            model = served.generic_model() if number is None else served.personal_model(number)
        except MotetError as error:
            if not everything:
                raise
            left_out(str(error))
            continue
        written.append(_write(exporter, out, model, number, judged))
    if not written:
        raise MotetError(f"run {served.record.folder} has no model that can be exported here")
    write_index(out, [_listed(each) for each in written], served.record.experiment.data.client)
    return written


def chosen_thresholds(served: ServedModels, rule: str) -> Thresholds:
    """Return thresholds by this rule for the last models of a run, on its validation rows; raise if there are none."""
    try:
        rule = str(ThresholdRule.read(rule))
    except ValueError as error:
        raise MotetError(f"threshold is {shown(rule)}; {error}") from None
    found = measure_again(served.record, (), served.trust_code, rule, served.place)
    if found.thresholds is None:
        raise MotetError(f"run {served.record.folder}: {' '.join(found.notes) or 'no threshold was chosen'}")
    return found.thresholds


def _listed(written: Exported) -> ListedModel:
    known = written.known
    return ListedModel(folder=written.folder.name, model=known.which, client=known.client, number=known.number)


def refuse_taken(out: Path) -> None:
    """Raise a `MotetError` if the folder exists and is not empty, so that files never mix."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        kind = "is not empty" if out.is_dir() else "is a file"
        raise MotetError(f"output folder {out} {kind}; accepted: --out = a new folder")


def _write(exporter: Exporter, out: Path, model: RawModel, number: int | None, judged: JudgedFigures) -> Exported:
    facts = exporter.served.facts
    if number is None:
        return exporter.write(out / "generic", model, "generic", None, of_figures(judged.figures, GENERIC))
    client = facts.by_id[number]
    folder, figures = out / folder_name(number, client.name), of_figures(judged.rows.get(client.name, {}))
    return exporter.write(folder, model, "adapted" if client.new else "personal", (number, client.name), figures)


def of_figures(row: Mapping[str, Any], model: str | None = None) -> dict[str, float]:
    """Return those of a row's columns that are figures, of one model or of all."""
    named = ((name, MetricName.read(name)) for name in row)
    values = {name: f.of(row) for name, f in named if f and (model is None or f.model == model)}
    return {name: value for name, value in values.items() if value is not None}


def folder_name(number: int, name: str) -> str:
    """Return the folder name of a client's model: valid on every system, and without a path in it."""
    safe = re.sub(r"[^\w-]+", "-", unicodedata.normalize("NFC", name)).strip("-")[:40]  # letters of any language
    return f"client-{number}" if safe in ("", str(number)) else f"client-{number}-{safe}"


def _stored(served: ServedModels) -> StoredType:
    """Return the type in which samples are given to the formats that take one type alone."""
    if served.prepare.kind == "tokens":
        return "int64"
    word = stored_type(served.record)
    if not word:
        found = served.real_samples(1)
        word = "" if found is None else str(found.dtype).removeprefix("torch.")
    return "uint8" if word == "uint8" else "float32"
