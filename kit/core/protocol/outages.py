"""The distinction between outages, which may pass by themselves, and faults of a job's own code, data or settings.

A job is restarted after an outage as often as its restart strategy allows. A fault of its own ends it when it recurs
(`kit.machines.job.failures`). The decision is made where the exception is caught, because a text does not say it:

- by the error number of an OSError;
- by the type, for errors that have no number. A type is known by its name, so that nothing has to be imported;
- by the code of SQLite, HTTP or an object store. Libraries report it in an attribute. Arrow has none, and writes
  "AWS Error CODE" and "HTTP status 500" within a longer text.

The errors that an error was raised from count too, because a store explains the error that it met.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator

_NUMBERS = frozenset(
    {
        # the disk: full, over its quota, failing, or mounted read-only after it failed
        *(errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS),
        # a network file system
        *(errno.ESTALE, errno.EREMOTEIO, errno.ENOLINK, errno.ENOLCK, errno.ESHUTDOWN),
        # the network
        *(errno.ECONNREFUSED, errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE, errno.ENOTCONN, errno.ETIMEDOUT),
        *(errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ENETUNREACH, errno.ENETDOWN, errno.ENETRESET),
        # what this machine has too little of for a moment
        *(errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EAGAIN, errno.EBUSY),
        # libhdfs: an exception of Java's that has no number, such as HDFS in safe mode
        255,
    }
)
_TYPES = frozenset(
    {
        "builtins.ConnectionError",
        "builtins.TimeoutError",
        "socket.gaierror",  # the name of a host cannot be resolved
        "socket.herror",
        "http.client.RemoteDisconnected",
        "kazoo.exceptions.ConnectionLoss",
        "kazoo.exceptions.OperationTimeoutError",
        "kazoo.exceptions.SessionExpiredError",
        "kazoo.exceptions.ConnectionClosedError",
        "kazoo.handlers.threading.KazooTimeoutError",
        "requests.exceptions.ConnectionError",
        "requests.exceptions.Timeout",
        "urllib3.exceptions.HTTPError",
        "botocore.exceptions.HTTPClientError",
        "psycopg.OperationalError",
        "psycopg2.OperationalError",
        "obstore.exceptions.GenericError",  # all errors of the network, and answers of a server that is overloaded
    }
)
_SQLITE = frozenset({5, 6, 7, 9, 10, 13, 14, 15})
"""SQLite's BUSY, LOCKED, NOMEM, INTERRUPT, IOERR, FULL, CANTOPEN and PROTOCOL: the low byte of its error codes."""
_HTTP = frozenset({408, 425, 429, 500, 502, 503, 504, 507, 509, 529})
_AWS = frozenset(
    {
        "NETWORK_CONNECTION",
        "INTERNAL_FAILURE",
        "SERVICE_UNAVAILABLE",
        "SLOW_DOWN",
        "THROTTLING",
        "REQUEST_TIMEOUT",
        "REQUEST_TIME_TOO_SKEWED",
    }
)
_AWS_CODE = re.compile(r"AWS Error (\w+)")
_HTTP_STATUS = re.compile(r"HTTP status (\d{3})\b")


def may_pass(error: BaseException) -> bool:
    """Return True for an outage: `error`, or one that it was raised from, may be gone the next time."""
    return any(map(_is_outage, _chain(error)))


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        yield found
        seen.add(id(found))
        # A store may raise its own error only later, while it still handles that of the disk.
        found = found.__cause__ or (found.__context__ if isinstance(found, OSError) else None)


def _is_outage(error: BaseException) -> bool:
    if getattr(error, "may_pass", False):
        return True
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in _NUMBERS or _has_known_type(error)
    code = getattr(error, "sqlite_errorcode", None)
    if isinstance(code, int):
        return code & 0xFF in _SQLITE
    return _has_known_type(error) or _http_status(error) in _HTTP or _aws_code(error) in _AWS


def _has_known_type(error: BaseException) -> bool:
    return any(f"{kind.__module__}.{kind.__qualname__}" in _TYPES for kind in type(error).__mro__)


def _http_status(error: BaseException) -> int | None:
    """Return the status with which a server rejected a request: of urllib, aiohttp, requests or Arrow."""
    for name in ("status", "status_code", "code"):
        status = getattr(error, name, None) or getattr(getattr(error, "response", None), name, None)
        if isinstance(status, int):
            return status
    found = _HTTP_STATUS.search(str(error)) if isinstance(error, OSError) else None
    return None if found is None else int(found[1])


def _aws_code(error: BaseException) -> str:
    found = _AWS_CODE.search(str(error)) if isinstance(error, OSError) else None
    return "" if found is None else found[1]
