"""The messages between coordinator and sites: words and tensors, signed; nothing of it is ever unpickled.

`Asked` are the words of a message to a site, `Replied` those of its reply. A `Parcel` is both ends' form of a message:
words, the named tensors and numbers of a task, and a signature over all of it. A random number in each message must
come back in the reply, and the number of each message to a site is larger than the one before: nothing can be replayed.
"""

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import torch
from pydantic import Field
from torch import Tensor

from motet.errors import MotetError
from motet.io.hashed_files import FileEntry
from motet.io.json_models import LARGEST, Count, FileModel, Number, Text
from motet.messages.message import DTYPES, Scalar, State, decode, encode
from motet.sites.certificates import certificate_of, refuse_expired, refuse_other_issuer

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

Kind = Literal["hello", "begin", "introduce", "prepare", "train", "score", "sync_score", "adapt", "finish"]
RunId = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
Nonce = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
StateHash = Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]
MOST_JSON = 2**24
LARGE = 64 * 1024
"""Bytes from which on a tensor is an object of its own, which several messages share in Flower's store."""
REST = ""
"""The name under which numbers and small tensors travel together, as safetensors."""
TO_SITE, FROM_SITE = b"motet message to a site 1\n", b"motet reply of a site 1\n"
_BY_NAME = {name: dtype for dtype, name in DTYPES.items()}


class Asked(FileModel):
    """The words of a message to a site."""

    run: RunId
    site: Annotated[str, Field(max_length=63)]
    kind: Kind
    round: Count
    client: Annotated[int, Field(ge=0, lt=LARGEST)]
    serial: Count
    """Larger in each message to a site than in the one before, also after the coordinator was killed."""
    nonce: Nonce
    base: StateHash = ""
    """The SHA-256 of the private state that the work starts from; empty for none."""
    needed: tuple[StateHash, ...] = ()
    """States that a checkpoint names, which the site must keep."""
    text: Annotated[str, Field(max_length=MOST_JSON)] = ""
    """More words of some kinds, as JSON."""


class Replied(FileModel):
    """The words of a site's reply."""

    run: RunId
    site: Annotated[str, Field(max_length=63)]
    kind: Kind
    round: Count
    client: Annotated[int, Field(ge=0, lt=LARGEST)]
    nonce: Nonce
    failure: Text | None = None
    train_loss: Number | None = None
    changed: bool = False
    """Whether the task left another private state, which `entry` describes; no entry for an empty one."""
    entry: FileEntry | None = None
    text: Annotated[str, Field(max_length=MOST_JSON)] = ""


@dataclass(frozen=True)
class RawTensor:
    """A large tensor as bytes, with its type in safetensors' words and its shape.

    The bytes may be those of a tensor that lives (a memoryview), or become those of one (a bytearray).
    """

    type: str
    shape: tuple[int, ...]
    data: bytes | bytearray | memoryview


@dataclass(frozen=True)
class Parcel:
    """A message as it travels: words in JSON, tensors in bytes, a signature, and of the coordinator a certificate."""

    words: bytes
    tensors: dict[str, RawTensor]
    signature: bytes = b""
    certificate: bytes = b""

    def digest(self, direction: bytes) -> bytes:
        """Return the bytes that are signed: a hash of everything, in an order that does not depend on the sender."""
        whole = hashlib.sha256(direction)
        for part in (self.words, *(self._described(name) for name in sorted(self.tensors))):
            whole.update(len(part).to_bytes(8, "little") + part)
        return whole.digest()

    def _described(self, name: str) -> bytes:
        tensor = self.tensors[name]
        head = f"{name}\n{tensor.type}\n{','.join(map(str, tensor.shape))}\n".encode()
        return head + hashlib.sha256(tensor.data).digest()


def asked_digest(asked: Asked, message: State) -> bytes:
    """Return a hash of everything that the answer to a message depends on: not its number, which a repeat has anew."""
    words = f"{asked.run}/{asked.kind}/{asked.round}/{asked.client}/{asked.base}/".encode()
    return hashlib.sha256(words + encode(message)).digest()


def new_nonce() -> str:
    """Return a random number that nobody can guess."""
    return secrets.token_hex(16)


def packed(state: Mapping[str, Tensor | Scalar], words: FileModel) -> Parcel:
    """Return a message that is not signed yet; large tensors must not change before it is sent."""
    large, rest = dict[str, RawTensor](), dict[str, Tensor | Scalar]()
    for name, value in state.items():
        if isinstance(value, Tensor) and value.nbytes >= LARGE and name != REST:
            data = value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data
            large[name] = RawTensor(DTYPES[value.dtype], tuple(value.shape), data)
        else:
            rest[name] = value
    block = encode(rest) if rest else b""
    return Parcel(words.to_json(), {**large, REST: RawTensor("U8", (len(block),), block)})


def unpacked(parcel: Parcel) -> State:
    """Return the named tensors and numbers of a message; raise a `MotetError` for what is none.

    Large tensors have the memory of the message's bytes where these can be written to.
    """
    state: State = {}
    for name, tensor in parcel.tensors.items():
        if name == REST:
            state |= decode(bytes(tensor.data)) if tensor.data else {}
            continue
        dtype = _BY_NAME.get(tensor.type)
        if dtype is None or not tensor.shape or not tensor.data:
            raise MotetError(f"message field {name[:100]!r} is of the type {tensor.type[:20]!r}; accepted: a tensor")
        try:
            data = tensor.data if isinstance(tensor.data, bytearray) else bytearray(tensor.data)
            state[name] = torch.frombuffer(data, dtype=dtype).reshape(tensor.shape)
        except (RuntimeError, ValueError) as error:
            raise MotetError(f"message field {name[:100]!r} is no tensor of shape {tensor.shape}") from error
    return state


W = TypeVar("W", bound=FileModel)


def words_of(parcel: Parcel, model: type[W]) -> W:
    """Return the words of a message; raise a `MotetError` if they are not as Motet writes them."""
    if len(parcel.words) > 2 * MOST_JSON:
        raise MotetError(f"a message has {len(parcel.words):,} bytes of words; accepted: up to {2 * MOST_JSON:,}")
    return model.from_json(parcel.words, "a message")


# -------- Signatures


def signed(parcel: Parcel, key: "ec.EllipticCurvePrivateKey", direction: bytes, certificate: bytes = b"") -> Parcel:
    """Return the message signed with this key."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    signature = key.sign(parcel.digest(direction), ec.ECDSA(hashes.SHA256()))
    return Parcel(parcel.words, parcel.tensors, signature, certificate)


def is_signed_by(parcel: Parcel, key: object, direction: bytes) -> bool:
    """Return whether the message is signed with the private half of this public key, and unchanged since."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    if not isinstance(key, ec.EllipticCurvePublicKey):
        return False
    try:
        key.verify(parcel.signature, parcel.digest(direction), ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True


def refuse_strange_coordinator(parcel: Parcel, ca: "x509.Certificate") -> None:
    """Raise a `MotetError` unless a message is signed with the key of a certificate that the authority issued."""
    what = "the certificate of the coordinator"
    certificate = certificate_of(parcel.certificate, what)
    refuse_other_issuer(certificate, ca, what)
    refuse_expired(certificate, what)
    if not is_signed_by(parcel, certificate.public_key(), TO_SITE):
        raise MotetError("a message is not as the coordinator signed it; accepted: one that nobody changed")
