"""Conditional writes to object stores, which Arrow does not support: to write an object only if there is none.

Otherwise two drivers that write the same `_metadata` would both believe that theirs is the checkpoint. The store itself
decides a conditional put (`If-None-Match: *`). S3 and compatible stores (MinIO, Ceph, R2), Google's and Azure's stores
support it; the package obstore (the extra `s3`) sends it. Address and credentials come from the environment, as for
Arrow: `AWS_ENDPOINT_URL`, `AWS_ACCESS_KEY_ID`, ..., and `AWS_ALLOW_HTTP=true` without TLS.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from kit.core.extras import install_command
from kit.core.state.errors import StorageError

SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss")


def is_object(path: str) -> bool:
    """Return True for a path in an object store, where a file appears in one step and cannot be renamed."""
    return urlsplit(path).scheme in SCHEMES


def check_installed(path: str) -> None:
    """Raise StorageError, with what to install, if a path is in an object store and obstore is missing."""
    if not is_object(path):
        return
    try:
        import obstore  # noqa: F401
    except ImportError as error:
        raise StorageError(
            f"{path!r} is in an object store, where publishing a checkpoint once needs the package obstore: "
            f"{install_command('s3')}"
        ) from error


def get(path: str) -> tuple[bytes, Any] | None:
    """Return an object and its version, None if there is none. Raises StorageError."""
    check_installed(path)
    import obstore
    from obstore.exceptions import BaseError, NotFoundError

    store, name = _place(path)
    try:
        found = obstore.get(store, name)
        version = {name: found.meta[name] for name in ("e_tag", "version") if found.meta.get(name) is not None}
        return bytes(found.bytes()), version
    except (FileNotFoundError, NotFoundError):
        return None
    except (BaseError, OSError, ValueError) as error:
        raise _failed("read", path, error) from error


def put_if(path: str, data: bytes | pa.Buffer, version: Any) -> bool:
    """Replace an object of this version, or with None write a new one; return False if there is another by now.

    An object with the same content is ours: the answer to a put may be lost, and the put sent again. Raises
    StorageError.
    """
    check_installed(path)
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

    store, name = _place(path)
    content = bytes(data)
    try:
        try:
            obstore.put(store, name, content, mode="create" if version is None else version)
        except (AlreadyExistsError, PreconditionError):
            return bytes(obstore.get(store, name).bytes()) == content
    except (BaseError, OSError, ValueError) as error:
        raise _failed("write", path, error) from error
    return True


def _place(path: str) -> tuple[Any, str]:
    bucket, _, name = path.partition("://")[2].partition("/")
    return _store(f"{urlsplit(path).scheme}://{bucket}"), name


def _failed(what: str, path: str, error: Exception) -> StorageError:
    return StorageError(f"Cannot {what} {path!r}: {str(error).splitlines()[0]}")


@lru_cache(maxsize=16)
def _store(root: str) -> Any:
    from obstore.store import from_url

    return from_url(root)
