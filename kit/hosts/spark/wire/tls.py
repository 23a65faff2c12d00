"""TLS between hosts: the certificates of both ends of each connection, and their creation for one run.

Theory of operation. Both ends present a certificate and require one. So a stranger cannot reach the job's own
handshake, and a third party can neither read nor alter the data. Certificates are read from files, or
`Tls.for_this_run` creates an authority, has it sign one certificate, and discards the authority's key. Then no other
certificate can be signed.
Certificate and key are sent to the slots with each Spark task, like the job's secret
(`kit.hosts.spark.wire.credentials`). Spark encrypts that connection if `spark.authenticate` and
`spark.network.crypto.enabled` are set.

TLS checks the authority of a certificate, and its name if `server_name` is set: the slots' hosts are not known in
advance. The handshake inside TLS verifies that the peer is the right slot of the right job. Sockets within one machine
(Unix) do not use TLS.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path

from kit.core.extras import install_command

RUN_NAME = "checkpoint-kit.invalid"
"""The name in a run's certificate."""
_VALID_DAYS = 365
_CLOCKS_DIFFER = timedelta(hours=1)


class TlsError(ValueError):
    """An unusable certificate, key or authority."""


@dataclass(frozen=True, slots=True)
class Tls:
    """A certificate with its key and the authorities to trust, all as PEM.

    `server_name` is the name that a listener's certificate must have; "" checks no name.
    """

    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)
    authorities: bytes = field(repr=False)
    server_name: str = ""

    def __post_init__(self) -> None:
        try:
            _contexts(self)
        except (ssl.SSLError, ValueError) as error:
            raise TlsError(
                f"these are not a certificate, its key and the authorities to trust, all as PEM: {error}"
            ) from None

    @classmethod
    def from_files(
        cls,
        certificate: str | os.PathLike[str],
        key: str | os.PathLike[str],
        authorities: str | os.PathLike[str],
        server_name: str = "",
    ) -> Tls:
        """Read three PEM files on the driver's machine; slots need no files. Raises OSError if one cannot be read."""
        return cls(Path(certificate).read_bytes(), Path(key).read_bytes(), Path(authorities).read_bytes(), server_name)

    @classmethod
    def for_this_run(cls) -> Tls:
        """Create a unique certificate, signed by an authority that is discarded when this call returns.

        Needs the extra `tls` (the package cryptography), and raises ImportError without it.
        """
        try:
            from cryptography.hazmat.primitives import hashes
            from cryptography.hazmat.primitives.asymmetric import ec
            from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
            from cryptography.x509 import (
                BasicConstraints,
                CertificateBuilder,
                DNSName,
                ExtendedKeyUsage,
                KeyUsage,
                Name,
                NameAttribute,
                SubjectAlternativeName,
                random_serial_number,
            )
            from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
        except ImportError as error:
            raise ImportError(
                f"certificates for a run are made with the package cryptography: {install_command('tls')}, or give "
                "files of your own to Tls.from_files"
            ) from error
        now = datetime.now(UTC)
        authority_name, own_name = (
            Name([NameAttribute(NameOID.COMMON_NAME, name)]) for name in (f"authority of {RUN_NAME}", RUN_NAME)
        )
        authority_key, own_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))

        def begun(subject: Name, public: ec.EllipticCurvePublicKey) -> CertificateBuilder:
            builder = CertificateBuilder().subject_name(subject).issuer_name(authority_name).public_key(public)
            builder = builder.serial_number(random_serial_number()).not_valid_before(now - _CLOCKS_DIFFER)
            return builder.not_valid_after(now + timedelta(days=_VALID_DAYS))

        signs = KeyUsage(False, False, False, False, False, True, True, False, False)
        authority = begun(authority_name, authority_key.public_key())
        authority = authority.add_extension(BasicConstraints(ca=True, path_length=0), critical=True)
        authority = authority.add_extension(signs, critical=True)
        both = ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        own = begun(own_name, own_key.public_key())
        own = own.add_extension(BasicConstraints(ca=False, path_length=None), critical=True)
        own = own.add_extension(SubjectAlternativeName([DNSName(RUN_NAME)]), critical=False)
        own = own.add_extension(both, critical=False)
        return cls(
            own.sign(authority_key, hashes.SHA256()).public_bytes(Encoding.PEM),
            own_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
            authority.sign(authority_key, hashes.SHA256()).public_bytes(Encoding.PEM),
            RUN_NAME,
        )

    @property
    def listens(self) -> ssl.SSLContext:
        """Return the context of a listener, which requires a certificate from the dialling end."""
        return _contexts(self)[0]

    @property
    def dials(self) -> ssl.SSLContext:
        """Return the context of the dialling end."""
        return _contexts(self)[1]


@lru_cache(maxsize=16)
def _contexts(tls: Tls) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    listens, dials = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:  # Python reads keys only from files; this one is private
        file.write(tls.certificate + b"\n" + tls.key)
        file.flush()
        for context in (listens, dials):
            context.load_cert_chain(file.name)
    for context in (listens, dials):
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=tls.authorities.decode("ascii"))
    dials.check_hostname = bool(tls.server_name)
    return listens, dials
