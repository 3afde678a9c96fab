"""pictures.json of a record: what the method learned, as a list that a report draws (`motet/contract/picture.py`)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from motet.contract.picture import MOST, Picture
from motet.errors import MotetError
from motet.files import to_json, write_atomic

FILE = "pictures.json"


def write_pictures(folder: Path, pictures: Sequence[Picture]) -> None:
    """Into a run folder; the same bytes whenever it is written."""
    lines = ",\n".join(to_json(picture.plain()) for picture in pictures[: MOST["pictures"]])
    write_atomic(folder / FILE, f"[\n{lines}\n]\n".encode())


def checked_pictures(values: Any, where: str) -> list[dict[str, Any]]:
    """The pictures of a folder that may be anybody's, as plain values; one sentence where one cannot be drawn."""
    if not isinstance(values, list) or len(values) > MOST["pictures"]:
        raise MotetError(f"{where} is damaged; accepted: a list of up to {MOST['pictures']} pictures")
    for value in values:
        try:
            Picture.read(value)
        except MotetError as error:
            raise MotetError(f"{where} is damaged: {error}") from None
    return values
