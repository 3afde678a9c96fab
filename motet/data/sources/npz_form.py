"""The form that any data set may have: one .npz file with the fields of a user's own."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from motet.data.columns import Columns
from motet.data.own import load_own
from motet.data.raw import RawData
from motet.data.settings import DataSettings
from motet.data.sources.source import Form
from motet.errors import MotetError


def npz_form(file: str, kind: str, classes: int, class_names: tuple[str, ...] = ()) -> Form:
    """NAME.npz with x, y and optionally split, client, domain, which must be data of this kind and so many classes."""

    def read(paths: Sequence[Path], settings: DataSettings) -> RawData:
        raw = load_own(paths[0], columns=Columns(classes_known=True))
        if raw.kind != kind or raw.classes > classes:
            raise MotetError(
                f"{paths[0]}: holds {raw.kind} data of {raw.classes} classes; accepted: {kind} data of {classes}"
            )
        return replace(raw, classes=classes, class_names=raw.class_names or class_names)

    return Form((file,), read, clients=None)
