"""Image files as one array of bytes: one size, one kind of colour, read once and then from the cache."""

import hashlib
import io
import json
import logging
import os
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from motet.config.data_section import MOST_SIZE, DataSettings
from motet.data.locations import cache_folder
from motet.data.readers.archives import Box, ListedFile, reason
from motet.data.readers.npz import names_in, read_array
from motet.data.readers.raw import Array
from motet.errors import MotetError, shown
from motet.io.memory_limits import refuse_if_too_large
from motet.io.user_paths import shown_path

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")
_FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
"""Of those that Pillow knows: no format that runs other programs."""
FORMATS = ", ".join(_FORMATS)
_GREY, _COLOUR = ("1", "L", "LA", "La"), ("RGB", "RGBA", "RGBX", "RGBa", "P", "PA", "CMYK", "YCbCr", "LAB", "HSV")
LEAST_CACHED = 200
"""Images; fewer are read as fast as a file of them."""
_VERSION = 1  # of what is cached
_MOST_NAMED = 3


@dataclass(frozen=True)
class ImageBytes:
    """Images as stored, and which of the files they are."""

    x: Array
    """[n, H, W, 1] or [n, H, W, 3], bytes."""
    kept: Array
    """One boolean per file: False for a broken one that was left out."""
    notes: tuple[str, ...]


class Broken(Exception):
    """Raised for a file that is no image; the message says why."""


def is_image(name: str) -> bool:
    """Return whether a file's name ends as that of an image."""
    return name.lower().endswith(SUFFIXES)


def read_images(box: Box, files: Sequence[ListedFile], settings: DataSettings, size: int | None = None) -> ImageBytes:
    """These files in that order; `size` is what a data set proposes where `data.size` says nothing."""
    wanted = settings.size or size
    key = _key(box, files, settings, wanted)
    cached = _from_cache(key, len(files)) if len(files) >= LEAST_CACHED else None
    if cached is None:
        cached = _decode(box, files, settings, wanted)
        if len(files) >= LEAST_CACHED:
            _to_cache(key, cached)
    return cached


def first_sides(box: Box, files: Sequence[ListedFile]) -> tuple[int, ...]:
    """Height and width of the first image that can be read; nothing where there is none."""
    for file in files:
        with suppress(Broken):
            image = open_image(_content(box, file))
            return (image.height, image.width)
    return ()


def _decode(box: Box, files: Sequence[ListedFile], settings: DataSettings, wanted: int | None) -> ImageBytes:
    shape = (wanted, wanted) if wanted else None
    mode = {"grey": "L", "rgb": "RGB"}.get(settings.color)
    x: Array | None = None
    count, resized, broken = 0, 0, list[str]()
    kept = np.ones(len(files), bool)
    for number, file in enumerate(files):
        try:
            image = open_image(_content(box, file))
            found = mode or ("L" if image.mode in _GREY else "RGB")
            if shape is None:
                shape = (image.height, image.width)
                if max(shape) > MOST_SIZE:
                    raise MotetError(
                        f"{_of(box, file)} has {image.width}x{image.height} pixels, and data.size is left out; "
                        f"accepted: a data.size such as 64"
                    )
            fits = (image.height, image.width) == shape
            pixels = pixels_of(image, found, shape)
        except Broken as error:
            if not settings.skip_broken:
                raise MotetError(
                    f"{_of(box, file)} cannot be read as an image ({error}); accepted: {FORMATS} of 8 "
                    f"bits, or data.skip_broken = true to leave such files out"
                ) from None
            kept[number] = False
            broken.append(file.name)
            continue
        resized += not fits
        x = _room(x, found, len(files), shape, str(box.path))
        x[count] = pixels if pixels.shape[2] == x.shape[3] else np.repeat(pixels, 3, axis=2)
        count += 1
    if x is None:
        raise MotetError(f"{shown_path(box.path)}: holds no image that can be read; accepted: {FORMATS}")
    return ImageBytes(x[:count], kept, _notes(resized, shape, wanted, broken))


def _content(box: Box, file: ListedFile) -> bytes:
    try:
        return box.read(file)
    except MemoryError:
        raise
    except Exception as error:  # of a disk, or of an archive that somebody else wrote
        raise Broken(reason(error)) from None


def open_image(data: bytes) -> Any:
    """The image in these bytes, its size known and sane, its pixels not yet decoded."""
    pillow = _pillow()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pillow.DecompressionBombWarning)
            image = pillow.open(io.BytesIO(data), formats=_FORMATS)
    except MemoryError:
        raise
    except Exception as error:  # whatever Pillow's readers have for a file that somebody else wrote
        raise Broken(reason(error)) from None
    if image.mode not in (*_GREY, *_COLOUR):
        raise Broken(f"its pixels are of kind {image.mode}")
    return image


@cache
def _pillow() -> Any:
    """Pillow's module, imported when the first image is read."""
    try:
        from PIL import Image
    except ImportError:
        raise MotetError("images are read by Pillow, which is not installed; accepted: pip install pillow") from None
    logging.getLogger("PIL").addHandler(logging.NullHandler())  # what it says of broken files, we say ourselves
    return Image


def pixels_of(image: Any, mode: str, shape: tuple[int, int] | None = None) -> Array:
    """[H, W, 1] or [H, W, 3] of an image, in another size if one is given."""
    pillow = _pillow()
    shape = shape or (image.height, image.width)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            converted = image.convert(mode)
            if (converted.height, converted.width) != shape:
                converted = converted.resize((shape[1], shape[0]), pillow.Resampling.BILINEAR)
    except MemoryError:
        raise
    except Exception as error:
        raise Broken(reason(error)) from None
    pixels = np.asarray(converted, np.uint8)
    return pixels if pixels.ndim == 3 else pixels[..., None]


def _room(x: Array | None, mode: str, count: int, shape: tuple[int, int] | None, where: str) -> Array:
    """The array to fill; it is grey until the first image in colour comes."""
    assert shape is not None
    channels = 1 if mode == "L" else 3
    if x is None or x.shape[3] < channels:
        refuse_if_too_large(count * shape[0] * shape[1] * channels * 2.0, f"{where}: {count} images", "a smaller size")
    if x is None:
        return np.zeros((count, *shape, channels), np.uint8)
    return np.repeat(x, 3, axis=3) if x.shape[3] < channels else x


def _notes(resized: int, shape: tuple[int, int] | None, wanted: int | None, broken: list[str]) -> tuple[str, ...]:
    notes = []
    if resized and shape:
        why = "as data.size says" if wanted else "which is the size of the first; data.size can say otherwise"
        notes.append(f"{resized:,} images were resized to {shape[0]}x{shape[1]} pixels, {why}")
    if broken:
        named = ", ".join(map(shown, broken[:_MOST_NAMED])) + (", …" if len(broken) > _MOST_NAMED else "")
        notes.append(f"{len(broken):,} broken files were left out: {named}")
    return tuple(notes)


def _of(box: Box, file: ListedFile) -> str:
    return f"{shown_path(box.path)}: {shown(file.name)}"


# -------- The cache


def _key(box: Box, files: Sequence[ListedFile], settings: DataSettings, wanted: int | None) -> str:
    """A hash of everything that decides the array: files with sizes and times, and the choices."""
    choices = [_VERSION, str(box.path.resolve()), wanted, settings.color, settings.skip_broken]
    digest = hashlib.sha256(json.dumps(choices).encode())
    for file in files:
        digest.update(f"{file.name}\0{file.bytes}\0{file.stamp}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _cache_file(key: str) -> Path:
    return cache_folder() / "images" / f"{key[:32]}.npz"


def _from_cache(key: str, files: int) -> ImageBytes | None:
    """Return what was read before; None where there is nothing, or nothing that can be used."""
    path = _cache_file(key)
    try:
        if not path.is_file() or set(names_in(path)) != {"x", "kept", "notes"}:
            return None
        x, kept, notes = (read_array(path, field) for field in ("x", "kept", "notes"))
    except MotetError:
        return None
    sound = x.dtype == np.uint8 and x.ndim == 4 and kept.dtype == np.bool_ and kept.shape == (files,)
    if not sound or kept.sum() != len(x) or notes.dtype.kind != "U":
        return None
    return ImageBytes(x, kept, tuple(str(note) for note in notes if str(note)))


def _for_me_alone(path: str, flags: int) -> int:
    """Others may read the cache, but not what the images are of: those may be a patient's."""
    return os.open(path, flags, 0o600)


def _to_cache(key: str, pictures: ImageBytes) -> None:
    """Whole or not at all; a cache that cannot be written is none, and no reason to stop."""
    path = _cache_file(key)
    part = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(part, "wb", opener=_for_me_alone) as file:
            np.savez(file, x=pictures.x, kept=pictures.kept, notes=np.array([*pictures.notes, ""]))
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError:
        with suppress(OSError):
            part.unlink()
