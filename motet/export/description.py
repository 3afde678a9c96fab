"""What an exported model says of itself: model.json, read as anybody may have written it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from torch import Tensor

from motet.data import Prepare
from motet.data.prepare import restored
from motet.export.portable import Voting

FORMAT = 1
MOST_CLASSES = 2**20
MOST_TEXT = 4096
MOST_NEIGHBOURS = 2**31

Which = Literal["generic", "personal", "adapted"]
StoredType = Literal["uint8", "float32", "int64"]
"""Of samples as the data file has them, before they are prepared."""


@dataclass(frozen=True, eq=False)
class Description:
    """All that is known of a model beside its weights."""

    which: Which
    method: str
    data: str
    net: str
    head: str
    class_names: tuple[str, ...]
    prepare: Prepare
    stored: StoredType
    round: int
    client: str | None = None
    number: int | None = None
    figures: Mapping[str, float] = field(default_factory=dict)
    voting: Voting | None = None
    batch_statistics: bool = False

    @property
    def title(self) -> str:
        """Such as `personal model of client Bern`."""
        return "generic model" if self.client is None else f"{self.which} model of client {self.client}"


def to_words(known: Description) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """As JSON, and the constants of the preparation."""
    prepare, constants = known.prepare.saved()
    given = known.prepare.input
    words = {
        "format": FORMAT,
        "model": known.which,
        "client": None if known.client is None else {"name": known.client, "number": known.number},
        "method": known.method,
        "data": known.data,
        "round": known.round,
        "net": {"name": known.net, "head": known.head, "batch_statistics": known.batch_statistics},
        "input": {"kind": given.kind, "shape": list(given.shape), "vocabulary": given.vocabulary},
        "sample_type": known.stored,
        "prepare": prepare,
        "class_names": list(known.class_names),
        "figures": dict(known.figures),
        "neighbours": None if known.voting is None else vars(known.voting),
    }
    return words, constants


def from_words(words: Any, constants: Mapping[str, object]) -> Description:
    """What `to_words` made; `ValueError`, `LookupError` or `TypeError` for anything else."""
    if words["format"] != FORMAT:
        raise ValueError(f"format {str(words['format'])[:20]}, and this Motet reads {FORMAT}")
    which, stored, names = words["model"], words["sample_type"], words["class_names"]
    if which not in get_args(Which) or stored not in get_args(StoredType):
        raise ValueError("model or sample_type")
    if not isinstance(names, list) or not 1 <= len(names) <= MOST_CLASSES:
        raise ValueError("class_names")
    method, data, net, head = words["method"], words["data"], words["net"]["name"], words["net"]["head"]
    if not all(isinstance(text, str) and len(text) <= MOST_TEXT for text in (method, data, net, head, *names)):
        raise ValueError("a name that is none")
    batch_statistics = words["net"].get("batch_statistics", False)
    if type(batch_statistics) is not bool:
        raise ValueError("net")
    client, number = _client(words["client"], which)
    return Description(
        which,
        method,
        data,
        net,
        head,
        tuple(names),
        restored(words["prepare"], constants),
        stored,
        _count(words["round"]),
        client,
        number,
        _figures(words["figures"]),
        _voting(words["neighbours"]),
        batch_statistics,
    )


def _client(words: Any, which: Which) -> tuple[str | None, int | None]:
    if (words is None) != (which == "generic"):
        raise ValueError("client")
    if words is None:
        return None, None
    if not isinstance(words["name"], str) or len(words["name"]) > MOST_TEXT:
        raise ValueError("client")
    return words["name"], _count(words["number"])


def _figures(words: Any) -> dict[str, float]:
    if not all(isinstance(name, str) and _is_number(value) for name, value in words.items()):
        raise ValueError("figures")
    return dict(words)


def _voting(words: Any) -> Voting | None:
    if words is None:
        return None
    k, scale, lam = words["k"], words["scale"], words["lam"]
    if type(k) is not int or not 1 <= k <= MOST_NEIGHBOURS or not all(map(_is_number, (scale, lam))):
        raise ValueError("neighbours")
    if not scale > 0 or not 0 <= lam <= 1:
        raise ValueError("neighbours")
    return Voting(k, float(scale), float(lam))


def _count(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("a count that is none")
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
