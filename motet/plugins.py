"""A user's own objects by name: `module:name` or `path/file.py:name`."""

import importlib
import importlib.util
from pathlib import Path

from motet.errors import MotetError


def is_import(text: str) -> bool:
    """Whether the text names an object to import rather than something of Motet's."""
    module, colon, name = text.rpartition(":")
    return bool(colon and module and name.isidentifier())


def load_object(text: str, what: str) -> object:
    """The object that the text names."""
    where, _, name = text.rpartition(":")
    try:
        if where.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(where).stem, where)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(where)
    except (ImportError, OSError) as error:
        raise MotetError(f"{what} is {text!r}, which cannot be imported ({error})") from None
    if not hasattr(module, name):
        raise MotetError(f"{what} is {text!r}, but {where} has no {name!r}")
    return getattr(module, name)
