"""Pairwise masks (Bonawitz et al. 2017): random numbers that cancel in the sum over a cohort, exactly.

Two clients agree on a key without the server's knowing it (X25519), and expand it (HKDF-SHA256, ChaCha20) to a stream
of random numbers, new for every round. The one with the smaller id adds them, the other one subtracts them, modulo
2^32. To who lacks the keys a masked number is uniform; in the sum over all clients of the cohort every mask is gone.

`cryptography` is an extra (`pip install motet[sites]`) and is imported when an experiment asks for masks.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from motet.errors import MotetError

KEY_BYTES = 32  # of a public key
Numbers = npt.NDArray[np.uint32]


def import_cryptography() -> Any:
    """Return the module `cryptography`; raise `MotetError` where it is not installed."""
    try:
        import cryptography
        import cryptography.hazmat.primitives.asymmetric.x25519
        import cryptography.hazmat.primitives.ciphers.algorithms
        import cryptography.hazmat.primitives.hashes
        import cryptography.hazmat.primitives.kdf.hkdf
        import cryptography.hazmat.primitives.serialization
    except ImportError as error:
        raise MotetError(
            f"transforms has 'mask', but cryptography cannot be imported ({error}); accepted: pip install "
            f"'motet[sites]'"
        ) from None
    return cryptography


@dataclass(frozen=True)
class KeyPair:
    """A client's key pair, made from 32 secret bytes. The private key is never written, sent or shown."""

    secret: bytes

    def public(self) -> bytes:
        """Return the public key, which the server hands to the other clients."""
        return _public(self.secret)

    def shared_with(self, public: bytes) -> bytes:
        """Return the secret that only this client and the owner of that public key can compute."""
        return _shared(self.secret, public)


def _private(secret: bytes) -> Any:
    return import_cryptography().hazmat.primitives.asymmetric.x25519.X25519PrivateKey.from_private_bytes(secret)


@lru_cache(maxsize=2**10)
def _public(secret: bytes) -> bytes:
    public: bytes = _private(secret).public_key().public_bytes_raw()
    return public


@lru_cache(maxsize=2**16)  # the same in every round, and most of the time that masks take
def _shared(secret: bytes, public: bytes) -> bytes:
    asymmetric = import_cryptography().hazmat.primitives.asymmetric.x25519
    try:
        shared: bytes = _private(secret).exchange(asymmetric.X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise MotetError("a public key of the cohort is none of X25519; accepted: 32 bytes of a client") from None
    return shared


@dataclass(frozen=True)
class MaskedRound:
    """What all clients of a cohort agree on in a round, in the server's words: the message, and everybody's keys."""

    round: int
    keys: Mapping[int, bytes]  # public keys by client id
    message: bytes  # what the server sent to all of them

    def binding(self) -> bytes:
        """Return a hash of it all: a client that was told anything else has other masks."""
        found = hashlib.sha256(b"motet mask 1")
        found.update(self.round.to_bytes(8, "little"))
        for client_id, key in sorted(self.keys.items()):
            found.update(client_id.to_bytes(8, "little", signed=True) + key)
        found.update(self.message)
        return found.digest()

    def masks(self, client_id: int, pair: KeyPair, size: int) -> Numbers:
        """Return the sum of a client's masks with all others, modulo 2^32."""
        total, binding = np.zeros(size, np.uint32), self.binding()
        for other, key in sorted(self.keys.items()):
            if other == client_id:
                continue
            low, high = sorted((client_id, other))
            info = b"motet mask" + low.to_bytes(8, "little", signed=True) + high.to_bytes(8, "little", signed=True)
            stream = random_numbers(pair.shared_with(key), binding, info, size)
            total = total + stream if client_id == low else total - stream
        return total


def random_numbers(shared: bytes, salt: bytes, info: bytes, size: int) -> Numbers:
    """Return so many random numbers of 32 bits from a shared secret, the same at both of its owners."""
    primitives = import_cryptography().hazmat.primitives
    key = primitives.kdf.hkdf.HKDF(primitives.hashes.SHA256(), 32, salt, info).derive(shared)
    cipher = primitives.ciphers.Cipher(primitives.ciphers.algorithms.ChaCha20(key, bytes(16)), mode=None)
    return np.frombuffer(cipher.encryptor().update(bytes(4 * size)), "<u4").astype(np.uint32, copy=False)
