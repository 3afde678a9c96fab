"""What both ends of a line need: the accepted version, parcels as Flower's records, calls, and errors in sentences."""

import datetime as dt
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from motet.errors import MotetError, one_sentence
from motet.io.json_models import Count, FileModel, Text
from motet.sites.flower.link import QUIET, VERSION
from motet.sites.wire import REST, Parcel, RawTensor

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec

HEARTBEAT = 10.0
"""Seconds that a site counts as online after each sign of life, twice over; Flower accepts no fewer."""
PIECE = 2 * 2**20
"""Bytes of a tensor in one record."""
_WORDS, _DATA = "words", "data"


class Refused(MotetError):
    """The SuperLink does not accept this site or this call; trying again does not help."""


class Unreachable(MotetError):
    """Nobody answers at the address now."""


def require_flower() -> None:
    """Raise a `MotetError` unless the one version of Flower is installed that this module was written for."""
    os.environ.update({name: value for name, value in QUIET.items() if name not in os.environ})
    try:
        import httpx  # noqa: F401
        from flwr.supercore.version import package_version
    except ImportError as error:
        raise MotetError(
            f"real sites need Flower, which cannot be imported ({error}); accepted: pip install 'motet[sites]'"
        ) from None
    if package_version != VERSION:
        raise MotetError(
            f"Flower {package_version} is installed, whose inner parts may differ; accepted: flwr=={VERSION} "
            f"(pip install 'motet[sites]')"
        )


# -------- Parcels as Flower's records


class TensorHead(FileModel):
    """A large tensor of a message: its bytes are in records of their own, each up to `PIECE` bytes."""

    name: Text
    type: Annotated[str, Field(max_length=20)]
    shape: tuple[Count, ...]
    pieces: Count


class TensorHeads(FileModel):
    """The large tensors of a message, in the order of their records."""

    tensors: tuple[TensorHead, ...]


def content_of(parcel: Parcel) -> Any:
    """Return a parcel as Flower's records.

    The SuperLink takes, stores and hands over each record in calls of their own, which cost far more than a small
    record's bytes. So words and small tensors are one record, and a large tensor is one per `PIECE`; messages to
    several sites with the same tensor share it in the store.
    """
    from flwr.app import ConfigRecord, RecordDict

    heads, records = list[TensorHead](), dict[str, Any]()
    for name in sorted(parcel.tensors.keys() - {REST}):
        tensor = parcel.tensors[name]
        starts = range(0, len(tensor.data), PIECE)
        for j, start in enumerate(starts):
            records[f"{len(heads)}.{j}"] = ConfigRecord({_DATA: bytes(tensor.data[start : start + PIECE])})
        heads.append(TensorHead(name=name, type=tensor.type, shape=tensor.shape, pieces=len(starts)))
    words = {
        "json": parcel.words,
        "signature": parcel.signature,
        "certificate": parcel.certificate,
        "large": TensorHeads(tensors=tuple(heads)).to_json(),
        "small": parcel.tensors[REST].data,
    }
    return RecordDict({_WORDS: ConfigRecord(words), **records})


def parcel_of(content: Any) -> Parcel:
    """Return the parcel of a message's content, which is empty afterwards.

    Raise a `MotetError` for a message that Motet did not make.
    """
    try:
        records = {str(name): dict(record) for name, record in content.items()}
        content.clear()
        words = records.pop(_WORDS)
        if words.keys() != {"json", "signature", "certificate", "large", "small"}:
            raise ValueError("it has other words")
        if not all(isinstance(part, bytes) for part in words.values()):
            raise ValueError("its words are no bytes")
        tensors = {REST: RawTensor("U8", (len(words["small"]),), words["small"])}
        for i, head in enumerate(TensorHeads.from_json(words["large"], "a message").tensors):
            if head.pieces > len(records) or head.name in tensors:
                raise ValueError(f"the tensor {head.name[:100]!r} is not whole")
            pieces = [memoryview(records.pop(f"{i}.{j}")[_DATA]) for j in range(head.pieces)]
            data, at = bytearray(sum(len(piece) for piece in pieces)), 0
            while pieces:
                piece = pieces.pop(0)
                data[at : at + len(piece)] = piece
                at += len(piece)
            tensors[head.name] = RawTensor(head.type, head.shape, data)
        if records:
            raise ValueError("it has other parts")
    except (LookupError, AttributeError, ValueError, TypeError) as error:
        raise MotetError(f"a message that Motet did not make ({error}); accepted: one of Motet's") from None
    return Parcel(words["json"], tensors, words["signature"], words["certificate"])


# -------- Calls


class Named:
    """Tells the SuperLink which version of Flower speaks."""

    def __init__(self, component: str):
        from flwr.supercore.runtime_version_compatibility import RuntimeVersionMetadata

        self.headers = dict(RuntimeVersionMetadata.from_local_component(component).as_metadata())

    def intercept(self, context: Any, call_next: Callable[[Any], Any]) -> Any:
        """Add the headers."""
        context.request.headers.update(self.headers)
        return call_next(context)


class SignedByNode:
    """Signs each call with the site's key over the time, by the clock of the SuperLink: a site's own may be wrong."""

    def __init__(self, key: "ec.EllipticCurvePrivateKey"):
        from flwr.supercore.primitives.asymmetric import public_key_to_bytes

        self.key, self.public = key, public_key_to_bytes(key.public_key())
        self.ahead = 0.0  # seconds by which the SuperLink's clock is ahead of ours

    def now(self) -> dt.datetime:
        """Return the time by the SuperLink's clock."""
        from flwr.supercore import date

        there: dt.datetime = date.now() + dt.timedelta(seconds=self.ahead)
        return there

    def intercept(self, context: Any, call_next: Callable[[Any], Any]) -> Any:
        """Sign and send; if that is refused and the clocks differ, once more by the other clock."""
        self._sign(context.request)
        response = call_next(context)
        if response.status_code == 401 and self._learned(response):
            self._sign(context.request)
            response = call_next(context)
        return response

    def _sign(self, request: Any) -> None:
        from base64 import b64encode

        from flwr.common.constant import TIMESTAMP_HEADER
        from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER
        from flwr.supercore.primitives.asymmetric import sign_message

        time = self.now().isoformat()
        request.headers[FLEET_HTTP_PUBLIC_KEY_HEADER] = b64encode(self.public).decode()
        request.headers[TIMESTAMP_HEADER] = time
        request.headers[FLEET_HTTP_SIGNATURE_HEADER] = b64encode(sign_message(self.key, time.encode())).decode()

    def _learned(self, response: Any) -> bool:
        """Take the time from the answer, which has it in whole seconds; return whether ours was wrong."""
        try:
            there = parsedate_to_datetime(response.headers["date"])
        except (LookupError, ValueError, TypeError):
            return False
        apart = (there - self.now()).total_seconds()
        if abs(apart) < 2:
            return False
        self.ahead += apart
        return True


@contextmanager
def in_sentences(address: str) -> Iterator[None]:
    """Inside, what httpx and Flower raise becomes `Refused` or `Unreachable` with one sentence."""
    import httpx
    from flwr.supercore.error import FlowerError

    try:
        yield
    except httpx.HTTPStatusError as error:
        status, found = error.response.status_code, FlowerError.from_json(error.response.text)
        said = f"{found.message} (code {found.code})" if found else error.response.text[:200]
        if status in (502, 503, 504):
            raise Unreachable(f"{address} is busy ({status})") from None
        raise Refused(one_sentence(f"{address} refuses: {status} {said}")) from None
    except httpx.TransportError as error:
        text = str(error)
        if "certificate" in text.lower():
            why = text.rpartition("certificate verify failed:")[2].strip() or text
            raise Refused(
                f"{address} has a certificate that is not accepted here ({why[:120]}); accepted: one that the "
                f"authority in ca.crt issued for this address, and that has not expired"
            ) from None
        raise Unreachable(f"nobody answers at {address} ({text[:120] or type(error).__name__})") from None


class WithToken:
    """Shows the token of the run's task."""

    def __init__(self, token: str):
        from flwr.supercore.constant import TASK_TOKEN_HEADER

        self.headers = {TASK_TOKEN_HEADER: token}

    def intercept(self, context: Any, call_next: Callable[[Any], Any]) -> Any:
        """Add the header."""
        context.request.headers.update(self.headers)
        return call_next(context)
