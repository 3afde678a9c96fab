"""Certificates and keys: an authority, the server's certificate, and a key pair for each site.

    DIR/ca.crt                      the authority: the one file that everybody has
    DIR/ca.key                      its private key; nobody needs it after the certificates are made
    DIR/server.crt, server.key      of the coordinator
    DIR/NAME.key, NAME.pub          of a site: the site has NAME.key, the coordinator NAME.pub

Private keys are readable by their owner alone. In production, each site makes its own key and sends NAME.pub.
"""

import datetime as dt
import ipaddress
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from motet.errors import MotetError, shown
from motet.io.files import make_folder, read_own, sync_folder, writing

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

CA, CA_KEY, SERVER, SERVER_KEY = "ca.crt", "ca.key", "server.crt", "server.key"
NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
RESERVED = frozenset({"ca", "server"})
CA_DAYS, SERVER_DAYS = 3650, 825
EARLY = dt.timedelta(days=1)  # a site's clock may be behind the coordinator's
MOST_BYTES = 2**16


def require_cryptography() -> None:
    """Raise a `MotetError` that says what to install if the `cryptography` package is not there."""
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise MotetError(
            f"real sites need more packages ({error}); accepted: pip install 'motet[sites]' on this machine"
        ) from None


def site_names(text: str) -> list[str]:
    """Return the names of sites in a text with commas; raise a `MotetError` for a name that no site can have."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if not NAME.fullmatch(name) or name in RESERVED:
            raise MotetError(
                f"--sites has the name {shown(name)}; accepted: small letters, digits and -, such as hospital-a, "
                f"but not ca or server"
            )
    if len(set(names)) < len(names):
        raise MotetError(f"--sites is {shown(text)}, which has a name twice; accepted: each site once")
    return names


def make_certificates(folder: Path, hosts: Sequence[str], sites: Sequence[str], days: int = SERVER_DAYS) -> list[Path]:
    """Write an authority, a server's certificate for these hosts and a key pair per site; return the files.

    An authority that is there is used again, so that a later call adds sites or renews the server's certificate. A
    site's key that is there is never replaced: raise a `MotetError`.
    """
    require_cryptography()
    for name in sites:
        if os.path.lexists(folder / f"{name}.key") or os.path.lexists(folder / f"{name}.pub"):
            raise MotetError(
                f"--sites has {shown(name)}, whose key is in {folder} already; accepted: other names, or another folder"
            )
    names = [_subject_name(host) for host in hosts]
    make_folder(folder)
    ca, ca_key = _authority(folder)
    written = [] if (folder / CA).exists() else _write_authority(folder, ca, ca_key)
    written += _write_server(folder, ca, ca_key, names, days)
    for name in sites:
        written += _write_site(folder, name)
    sync_folder(folder)
    return written


def _subject_name(host: str) -> "x509.GeneralName":
    from cryptography import x509

    with suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(host))
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?", host):
        raise MotetError(f"--server is {shown(host)}; accepted: a host name or an address, such as fl.example.org")
    return x509.DNSName(host)


def _authority(folder: Path) -> "tuple[x509.Certificate, ec.EllipticCurvePrivateKey]":
    """Return the authority of a folder, or a new one that is not written yet."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    if (folder / CA).exists():
        return read_certificate(folder / CA), read_private_key(folder / CA_KEY)
    key = ec.generate_private_key(ec.SECP384R1())
    builder = (
        _builder("Motet CA", key.public_key(), CA_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _signed(builder, key), key


def _write_authority(folder: Path, ca: "x509.Certificate", key: "ec.EllipticCurvePrivateKey") -> list[Path]:
    return [_write(folder / CA, _pem(ca), 0o644), _write(folder / CA_KEY, _pem_of_key(key), 0o600)]


def _write_server(
    folder: Path,
    ca: "x509.Certificate",
    ca_key: "ec.EllipticCurvePrivateKey",
    names: "Sequence[x509.GeneralName]",
    days: int,
) -> list[Path]:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    key = ec.generate_private_key(ec.SECP384R1())
    builder = (
        _builder("motet-server", key.public_key(), days)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
    )
    for name in (SERVER, SERVER_KEY):
        with suppress(FileNotFoundError):
            (folder / name).unlink()
    signed = _signed(builder, ca_key)
    return [_write(folder / SERVER, _pem(signed), 0o644), _write(folder / SERVER_KEY, _pem_of_key(key), 0o600)]


def _write_site(folder: Path, name: str) -> list[Path]:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP384R1())
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return [
        _write(folder / f"{name}.key", _pem_of_key(key), 0o600),
        _write(folder / f"{name}.pub", public + b"\n", 0o644),
    ]


def _builder(subject: str, key: "ec.EllipticCurvePublicKey", days: int) -> "x509.CertificateBuilder":
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Motet CA")]))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, now + dt.timedelta(days=days)) - EARLY)
        .not_valid_after(now + dt.timedelta(days=days))
    )


def _usage(**allowed: bool) -> "x509.KeyUsage":
    from cryptography import x509

    every = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    rest = ("key_cert_sign", "crl_sign", "encipher_only", "decipher_only")
    return x509.KeyUsage(**{name: allowed.get(name, False) for name in (*every, *rest)})


def _signed(builder: "x509.CertificateBuilder", key: "ec.EllipticCurvePrivateKey") -> "x509.Certificate":
    from cryptography.hazmat.primitives import hashes

    return builder.sign(key, hashes.SHA384())


def _pem(certificate: "x509.Certificate") -> bytes:
    from cryptography.hazmat.primitives import serialization

    return bytes(certificate.public_bytes(serialization.Encoding.PEM))


def _pem_of_key(key: "ec.EllipticCurvePrivateKey") -> bytes:
    from cryptography.hazmat.primitives import serialization as s

    return bytes(key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption()))


def _write(path: Path, data: bytes, mode: int) -> Path:
    """Write a new file that has its mode from the first moment on."""
    with writing(path), os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        os.fchmod(file.fileno(), mode)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return path


# -------- Reading


def read_certificate(path: Path) -> "x509.Certificate":
    """Return the certificate in a file; raise a `MotetError` if there is none."""
    return certificate_of(_bytes(path), str(path))


def certificate_of(data: bytes, where: str) -> "x509.Certificate":
    """Return the certificate in these bytes; `where` names them in the sentence about any other."""
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificate(data)
    except ValueError:
        raise MotetError(f"{where} is no certificate in PEM; accepted: a file of `motet certs`") from None


def read_private_key(path: Path) -> "ec.EllipticCurvePrivateKey":
    """Return the private key in a file; raise a `MotetError` if there is none, or others may read it."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    data = _bytes(path)
    if os.name == "posix" and path.stat().st_mode & 0o077:
        raise MotetError(f"{path} may be read by others; accepted: a private key with mode 600 (chmod 600 {path})")
    try:
        if data.startswith(b"-----BEGIN OPENSSH"):
            key: object = serialization.load_ssh_private_key(data, None)
        else:
            key = serialization.load_pem_private_key(data, None)
    except (ValueError, TypeError) as error:
        raise MotetError(f"{path} is no private key ({str(error)[:80]}); accepted: one of `motet certs`") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise MotetError(f"{path} is no key on an elliptic curve; accepted: one of `motet certs`")
    return key


def read_public_key(path: Path) -> "ec.EllipticCurvePublicKey":
    """Return the public key of a site in a file; raise a `MotetError` if there is none."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    data = _bytes(path)
    try:
        if data.startswith(b"-----BEGIN"):
            key: object = serialization.load_pem_public_key(data)
        else:
            key = serialization.load_ssh_public_key(data)
    except (ValueError, TypeError) as error:
        raise MotetError(f"{path} is no public key ({str(error)[:80]}); accepted: one of `motet certs`") from None
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise MotetError(f"{path} is no key on an elliptic curve; accepted: one of `motet certs`")
    return key


def _bytes(path: Path) -> bytes:
    try:
        return read_own(path.resolve(), MOST_BYTES)
    except OSError as error:
        raise MotetError(f"cannot read {path}: {error.strerror}; accepted: a folder of `motet certs`") from None


def refuse_expired(certificate: "x509.Certificate", where: str) -> None:
    """Raise a `MotetError` if a certificate is not valid today."""
    now = dt.datetime.now(dt.UTC)
    if now > certificate.not_valid_after_utc:
        raise MotetError(
            f"{where} expired on {certificate.not_valid_after_utc:%Y-%m-%d}; accepted: a new one "
            f"(`motet certs` in the same folder renews it)"
        )
    if now < certificate.not_valid_before_utc - EARLY:
        raise MotetError(
            f"{where} is valid from {certificate.not_valid_before_utc:%Y-%m-%d} on; accepted: a clock that is right"
        )


def refuse_other_issuer(certificate: "x509.Certificate", ca: "x509.Certificate", where: str) -> None:
    """Raise a `MotetError` if a certificate was not issued by this authority."""
    from cryptography.exceptions import InvalidSignature

    try:
        certificate.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature):
        raise MotetError(f"{where} was not issued by the authority in {CA}; accepted: the one that was") from None
