"""A data set of Hugging Face's `datasets` in a folder, as `save_to_disk` wrote it; read by pyarrow alone.

The folder holds Arrow streams, a list of them and a description of the columns. A folder of several such, with the
names of the splits, is a data set with an official test set where one of them is called test.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from motet.config.data_section import MOST_SIZE, Columns, KindOrAuto, SampleKind
from motet.data.readers.batches import Batches, DataType, RecordBatch, Types, release_memory, validated
from motet.data.readers.image_files import FORMATS, Broken, open_image, pixels_of
from motet.data.readers.raw import Array, Integers, Preview, RawData, default_net_for, stored_layout
from motet.data.readers.roles import RoleReader, left_out, roles_of
from motet.data.readers.table import raw_of_table
from motet.data.readers.table_plan import kind_of_column
from motet.data.readers.texts import raw_of_texts
from motet.errors import MotetError, shown
from motet.io import json_models
from motet.io.memory_limits import refuse_if_too_large
from motet.io.user_paths import read_small, regular_size, shown_path

STATE, INFO, SPLITS = "state.json", "dataset_info.json", "dataset_dict.json"
TRAINING, TEST = ("train", "validation", "valid", "dev"), "test"
_MOST_BYTES = 2**26


def is_hugging_face(path: Path) -> bool:
    """Return whether `save_to_disk` wrote this folder."""
    return (path / SPLITS).is_file() or ((path / STATE).is_file() and (path / INFO).is_file())


def preview_of_hugging_face(path: Path, kind: KindOrAuto, columns: Columns) -> Preview:
    """Told from its description, and the first image."""
    folder = _SavedFolder(path)
    form, table = folder.form(kind, columns), folder.batches()
    sides: tuple[int, ...] = ()
    if form == "image":
        column = folder.images(folder.learned_from(table, columns))[0]
        first = next((cell for batch in table.read({}) for cell in batch.column(column)), None)
        sides = () if first is None else _decoded(first.as_py(), column, table.where).shape[:2]
    return Preview(form, sides, columns.client is not None)


def load_hugging_face(path: Path, kind: KindOrAuto, columns: Columns) -> RawData:
    """Return the data of a saved folder, whose columns decide whether they are images, texts or a table."""
    if columns.encoding != Columns().encoding:
        raise MotetError(
            f"data.encoding is {shown(columns.encoding)}, but {path} holds no CSV; accepted: for CSV alone"
        )
    folder = _SavedFolder(path)
    form = folder.form(kind, columns)
    table, label = folder.batches(), folder.usual_label
    if form == "image":
        return _raw_of_images(table, columns, label, folder.images(folder.learned_from(table, columns))[0])
    return raw_of_texts(table, columns, label) if form == "tokens" else raw_of_table(table, columns, label)


@dataclass
class _SavedFolder:
    """What `save_to_disk` wrote: one folder, or one for each split."""

    path: Path

    def __post_init__(self) -> None:
        self.where = shown_path(self.path)
        self.rows: dict[str, int] = {}
        """Of each split, as they were read last."""

    @cached_property
    def parts(self) -> dict[str, Path]:
        """The folder of each split, training before test."""
        if not (self.path / SPLITS).is_file():
            return {"train": self.path}
        names = self._json(self.path / SPLITS).get("splits")
        if not isinstance(names, list) or not names or not all(name in (*TRAINING, TEST) for name in names):
            raise MotetError(f"{self.where} has the splits {shown(names)}; accepted: {', '.join((*TRAINING, TEST))}")
        return {name: self.path / name for name in sorted(names, key=lambda name: name == TEST)}

    @cached_property
    def features(self) -> dict[str, dict[str, Any]]:
        """The description of each column, of which only the outermost matters."""
        found = self._json(next(iter(self.parts.values())) / INFO).get("features")
        if not isinstance(found, dict) or not found:
            raise MotetError(f"{self.where}: {INFO} describes no features; accepted: as save_to_disk writes it")
        return {name: feature if isinstance(feature, dict) else {} for name, feature in found.items()}

    @property
    def usual_label(self) -> str | None:
        """Return the one column of classes, or None if there is none or several."""
        labels = [name for name, feature in self.features.items() if feature.get("_type") == "ClassLabel"]
        return labels[0] if len(labels) == 1 else None

    def learned_from(self, table: Batches, columns: Columns) -> list[str]:
        """The columns that are neither label, client nor domain, nor left out."""
        roles = roles_of(table, columns, self.usual_label)
        unwanted = left_out(table, columns, roles) | set(roles.columns.values())
        return [name for name in table.types if name not in unwanted]

    def images(self, names: list[str]) -> list[str]:
        """Return those of these columns that hold images."""
        return [name for name in names if self.features.get(name, {}).get("_type") == "Image"]

    def form(self, kind: KindOrAuto, columns: Columns) -> SampleKind:
        """An image, a text, or whatever columns there are."""
        table = self.batches()
        rest = self.learned_from(table, columns)
        images, texts = self.images(rest), [n for n in rest if kind_of_column(table.types[n]) == "category"]
        if len(images) > 1:
            raise MotetError(f"{self.where} has the images {', '.join(map(shown, images))}; accepted: one of them")
        found: SampleKind = "image" if images else "tokens" if rest == texts and len(texts) == 1 else "vector"
        if kind == "tokens" and texts:
            found = "tokens"
        if kind not in ("auto", found):
            raise MotetError(f"data.kind is {shown(kind)}, but {self.where} holds {found}; accepted: auto, {found}")
        return found

    def batches(self) -> Batches:
        """Return all splits as one table, with classes by their names."""
        first = self._streams(next(iter(self.parts.values())))[0]
        try:
            with self._opened(first) as stream:
                schema = stream.schema
            types = {name: self._type(name, schema.field(name).type) for name in schema.names}
        except (ValueError, KeyError) as error:  # names that are no text, or there twice
            raise self._damaged(first, error) from error
        classes = {name: self._names(name) for name in schema.names}
        return Batches(self.where, types, self._read, classes=classes, split=self._split)

    def _split(self) -> Integers:
        """Return which of the rows that were read last belong to the official test set."""
        return np.concatenate([np.full(rows, name == TEST, np.int64) for name, rows in self.rows.items()])

    def _read(self, types: Types) -> Iterator[RecordBatch]:
        from motet.data.readers.cells import pa

        self.rows = {}
        for split, folder in self.parts.items():
            self.rows[split] = 0
            for path in self._streams(folder):
                try:
                    with self._opened(path) as stream:
                        for batch in stream:
                            self.rows[split] += batch.num_rows
                            yield self._with_names(validated(batch, shown_path(path)))
                except (OSError, ValueError, KeyError, pa.ArrowException) as error:
                    raise self._damaged(path, error) from error
        release_memory()

    def _type(self, name: str, found: DataType) -> DataType:
        from motet.data.readers.cells import pa

        return pa.string() if self._names(name) else found

    def _names(self, column: str) -> list[str]:
        """Return the names of the classes of a column, or nothing if it lists none."""
        feature = self.features.get(column, {})
        names = feature.get("names") if feature.get("_type") == "ClassLabel" else None
        return [str(name) for name in names] if isinstance(names, list) else []

    def _with_names(self, batch: RecordBatch) -> RecordBatch:
        from motet.data.readers.cells import compute, pa

        columns = []
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            names = self._names(name)
            if names:
                known = compute.if_else(compute.greater_equal(column, 0), column, None)  # -1 is no class
                if (compute.max(known).as_py() or 0) >= len(names):
                    raise MotetError(
                        f"{self.where}: column {shown(name)} holds a class without a name; accepted: named"
                    )
                column = pa.array(names).take(known)
            columns.append(column)
        return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)

    def _streams(self, folder: Path) -> list[Path]:
        """Return the Arrow files of a split, in their order."""
        state = self._json(folder / STATE)
        files = state.get("_data_files")
        names = [file.get("filename") for file in files if isinstance(file, dict)] if isinstance(files, list) else []
        if not names or not all(isinstance(name, str) and Path(name).name == name for name in names):
            raise MotetError(f"{folder / STATE} names no data files; accepted: as save_to_disk writes it")
        if state.get("_indices_data_files") or state.get("_indices_files"):
            raise MotetError(f"{shown_path(folder)} has rows in another order; accepted: after flatten_indices()")
        return [folder / str(name) for name in names]

    def _opened(self, path: Path) -> Any:
        from motet.data.readers.cells import ipc, pa

        try:
            regular_size(path, shown_path(path))  # a pipe would be waited for
            return ipc.open_stream(pa.OSFile(str(path)))
        except (OSError, pa.ArrowException) as error:
            raise self._damaged(path, error) from error

    def _damaged(self, path: Path, error: Exception) -> MotetError:
        why = (str(error).splitlines() or [type(error).__name__])[0]
        return MotetError(
            f"{shown_path(path)}: cannot be read ({shown(why)[1:-1]}); accepted: as save_to_disk wrote it"
        )

    def _json(self, path: Path) -> dict[str, Any]:
        try:
            found = json_models.loads(read_small(path, _MOST_BYTES, shown_path(path)))
        except (OSError, ValueError) as error:
            raise self._damaged(path, error) from error
        return found if isinstance(found, dict) else {}


def _raw_of_images(table: Batches, columns: Columns, usual_label: str | None, column: str) -> RawData:
    roles = roles_of(table, columns, usual_label)
    reader, images = RoleReader(roles), list[Array]()
    taken = checked = 0
    for batch in table.read({}):
        for cell in reader.read(batch).column(column):  # one by one: a batch of cells may hold far more than fits
            images.append(_decoded(cell.as_py(), column, table.where))
            if images[-1].shape != images[0].shape:
                small, large = sorted((images[0].shape, images[-1].shape))
                raise MotetError(
                    f"{table.where}: column {shown(column)} holds images of {small} and of {large}; accepted: one "
                    f"size, grey or in colour"
                )
            taken += images[-1].nbytes
            if taken > 2 * checked:
                checked = taken
                refuse_if_too_large(2 * taken, f"{table.where}: {len(images)} images", "fewer or smaller ones")
    fields = reader.fields()
    x, kind = stored_layout(np.stack(images), table.where, "image")
    net = default_net_for(kind, x.shape[1:])
    return RawData(x=x, kind=kind, top=255, net=net, notes=reader.notes, **fields)


def _decoded(cell: Any, column: str, where: str) -> Array:
    """One image as bytes [H, W] or [H, W, 3]; how large it is, is known before a pixel is decoded."""
    data = cell.get("bytes") if isinstance(cell, dict) else None
    if not isinstance(data, bytes):
        raise MotetError(f"{where}: column {shown(column)} lacks an image or only names its file; accepted: all inside")
    try:
        image = open_image(data)
        if max(image.width, image.height) > MOST_SIZE:
            raise Broken(f"it has {image.width}x{image.height} pixels")
        pixels = pixels_of(image, "L" if image.mode in ("1", "L") else "RGB")
    except Broken as error:
        raise MotetError(
            f"{where}: column {shown(column)} holds an image that cannot be read ({error}); accepted: {FORMATS} of at "
            f"most {MOST_SIZE}x{MOST_SIZE} pixels"
        ) from None
    return pixels[..., 0] if pixels.shape[2] == 1 else pixels
