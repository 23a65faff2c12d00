"""TLS between hosts: what both ends of each connection prove themselves with, and how it is made for one run.

Theory of operation. Whoever listens and whoever dials shows a certificate and asks for one, so a stranger does not get
as far as the job's own handshake, and nobody in between reads or alters what follows it. Certificates are given as
files, or `Tls.for_this_run` makes an authority, has it sign one certificate, and forgets its key: nobody can ever sign
another. Certificate and key travel to the slots in Spark's closure, as the job's secret does; Spark encrypts that when
`spark.authenticate` and `spark.network.crypto.enabled` are set.

What is checked of a certificate is the authority, and the name where `server_name` says one: slots are on hosts that
nobody knows beforehand. That it is the right slot of the right job is what the handshake inside finds out. Sockets
within one machine (Unix) stay plain.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path

RUN_NAME = "checkpoint-kit.invalid"
"""The name in the certificate of a run."""
_VALID_DAYS = 365
_CLOCKS_DIFFER = timedelta(hours=1)


class TlsError(ValueError):
    """A certificate, a key or an authority that is of no use."""


@dataclass(frozen=True, slots=True)
class Tls:
    """A certificate with its key and the authorities to trust, all as PEM.

    `server_name`: the name that a listener's certificate must have; "" checks none.
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
        """What three PEM files of the driver's machine hold; slots need no files. OSError when one cannot be read."""
        return cls(Path(certificate).read_bytes(), Path(key).read_bytes(), Path(authorities).read_bytes(), server_name)

    @classmethod
    def for_this_run(cls) -> Tls:
        """A certificate that nobody else has, signed by an authority that ends with this call.

        Needs the extra `tls` (the package cryptography): ImportError says so.
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
                "certificates for a run are made with the package cryptography: pip install 'checkpoint-kit[tls]', or "
                "give files of your own to Tls.from_files"
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
        """What a listener uses; it asks whoever dials for a certificate."""
        return _contexts(self)[0]

    @property
    def dials(self) -> ssl.SSLContext:
        """What the dialling end uses."""
        return _contexts(self)[1]


@lru_cache(maxsize=16)
def _contexts(tls: Tls) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    listens, dials = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:  # Python reads keys from files only; nobody else may
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
