"""Outages and faults of a job's own: a matrix of errors of storage, networks and stores, and of a job's code."""

from __future__ import annotations

import errno
import socket
import sqlite3
from collections.abc import Callable
from urllib.error import HTTPError

import pytest

from kit.core.protocol.outages import may_pass


def numbered(number: int) -> Callable[[], Exception]:
    return lambda: OSError(number, "as the system says it")


def sqlite(code: int, text: str) -> Callable[[], Exception]:
    def error() -> Exception:
        raised = sqlite3.OperationalError(text)
        raised.sqlite_errorcode = code
        return raised

    return error


def arrow(text: str) -> Callable[[], Exception]:
    return lambda: OSError(f"When initiating multiple part upload for key 'k' in bucket 'b': {text}")


def http(status: int) -> Callable[[], Exception]:
    return lambda: HTTPError("http://store/k", status, "as the server says it", None, None)  # type: ignore[arg-type]


def explained() -> Exception:
    """A store's own error about one of the disk."""
    try:
        try:
            raise OSError(errno.ESTALE, "Stale file handle")
        except OSError as error:
            raise ValueError("the store cannot be read") from error
    except ValueError as error:
        return error


def explained_later() -> Exception:
    try:
        try:
            raise OSError(errno.EIO, "Input/output error")
        except OSError:
            raise OSError("the store cannot be read")  # noqa: B904
    except OSError as error:
        return error


OUTAGES: dict[str, Callable[[], Exception]] = {
    "I/O error": numbered(errno.EIO),
    "stale handle": numbered(errno.ESTALE),
    "no route": numbered(errno.EHOSTUNREACH),
    "network down": numbered(errno.ENETUNREACH),
    "refused": lambda: ConnectionRefusedError(errno.ECONNREFUSED, "refused"),
    "reset": lambda: ConnectionResetError("without a number"),
    "timed out": lambda: TimeoutError("without a number"),
    "name": lambda: socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
    "name, temporarily": lambda: socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"),
    "full": numbered(errno.ENOSPC),
    "quota": numbered(errno.EDQUOT),
    "read-only": numbered(errno.EROFS),
    "descriptors": numbered(errno.EMFILE),
    "descriptors of the machine": numbered(errno.ENFILE),
    "busy": numbered(errno.EBUSY),
    "HDFS in safe mode": numbered(255),
    "SQLite full": sqlite(13, "database or disk is full"),
    "SQLite disk": sqlite(10, "disk I/O error"),
    "SQLite disk, while it reads": sqlite(10 | 1 << 8, "disk I/O error"),
    "SQLite locked": sqlite(5, "database is locked"),
    "SQLite opens": sqlite(14, "unable to open database file"),
    "S3 500": arrow("AWS Error UNKNOWN (HTTP status 500) during CreateMultipartUpload operation: none"),
    "S3 503": arrow("AWS Error SLOW_DOWN (HTTP status 503) during PutObject operation: Please reduce your rate"),
    "S3 network": arrow("AWS Error NETWORK_CONNECTION during PutObject operation: curlCode: 6, Couldn't resolve host"),
    "HTTP 502": http(502),
    "HTTP 429": http(429),
    "explained": explained,
    "explained later": explained_later,
}
OWN_FAULTS: dict[str, Callable[[], Exception]] = {
    "permission": lambda: PermissionError(errno.EACCES, "Permission denied"),
    "missing": lambda: FileNotFoundError(errno.ENOENT, "No such file or directory"),
    "a file in the way": lambda: NotADirectoryError(errno.ENOTDIR, "Not a directory"),
    "name too long": numbered(errno.ENAMETOOLONG),
    "no number": lambda: OSError("the store cannot be reached"),
    "S3 403": arrow("AWS Error ACCESS_DENIED (HTTP status 403) during PutObject operation: Access Denied"),
    "S3 400": arrow("AWS Error UNKNOWN (HTTP status 400) during HeadObject operation: No response body."),
    "HTTP 404": http(404),
    "SQLite syntax": sqlite(1, "no such table: records"),
    "SQLite damaged": sqlite(11, "database disk image is malformed"),
    "SQLite not writable": sqlite(8, "attempt to write a readonly database"),
    "a text about a connection": lambda: RuntimeError("connection timed out: no space left, database is locked"),
    "a key of 500": lambda: KeyError(500),
    "a value": lambda: ValueError("HTTP status 500"),
}


@pytest.mark.parametrize("name", OUTAGES)
def test_an_outage_may_pass(name: str) -> None:
    assert may_pass(OUTAGES[name]())


@pytest.mark.parametrize("name", OWN_FAULTS)
def test_a_fault_of_the_jobs_own_does_not_pass(name: str) -> None:
    assert not may_pass(OWN_FAULTS[name]())
