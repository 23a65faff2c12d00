"""The credentials of a process that belongs to a job: the job's secret, and the certificate and key of its TLS.

They are not part of the closure that Spark sends to its executors. Spark keeps a closure as a broadcast, which its
block manager serves to any client (unless `spark.authenticate` is set), and it may write a broadcast to disk. Instead
they travel in a local property of the Spark job. Spark sends local properties with each task, over its RPC connection,
and keeps them in memory. The property's name contains "secret", so Spark redacts its value in event logs
(`spark.redaction.regex`).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from kit.hosts.spark.wire.tls import Tls

PROPERTY = "checkpointkit.job.secret"
"""The name of the local property."""
_ENCODING = "latin-1"  # maps each byte to one character and back


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials of one job: its secret, and its TLS settings (None: no TLS)."""

    secret: bytes = field(repr=False)
    tls: Tls | None = None

    def to_property(self) -> str:
        """Return the value of the local property."""
        tls = None if self.tls is None else {name: _text(value) for name, value in asdict(self.tls).items()}
        return json.dumps({"secret": _text(self.secret), "tls": tls})

    @classmethod
    def from_property(cls, value: str | None) -> Credentials:
        """Return the credentials in a local property. Raises RuntimeError if Spark did not deliver it."""
        if value is None:
            raise RuntimeError(
                f"Spark delivered no local property {PROPERTY!r} with this task, so the slot cannot prove that it "
                "belongs to the job: the kit's version on this executor must be the driver's"
            )
        found = json.loads(value)
        tls = found["tls"]
        if tls is not None:
            certificate, key, authorities = (_bytes(tls[name]) for name in ("certificate", "key", "authorities"))
            tls = Tls(certificate, key, authorities, tls["server_name"])
        return cls(_bytes(found["secret"]), tls)


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode(_ENCODING)


def _bytes(text: str) -> bytes:
    return text.encode(_ENCODING)
