"""What Arrow cannot ask of an object store: to write an object only where there is none.

Two drivers that write the same `_metadata` would else both believe that theirs is the checkpoint. A conditional put
(`If-None-Match: *`) is decided by the store itself. S3 and what speaks like it (MinIO, Ceph, R2), Google's and Azure's
stores have it; the package obstore (the extra `s3`) sends it. Address and credentials come from the environment, as for
Arrow: `AWS_ENDPOINT_URL`, `AWS_ACCESS_KEY_ID`, ..., and `AWS_ALLOW_HTTP=true` where there is no TLS.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from kit.state.errors import StorageError

SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss")


def is_object(path: str) -> bool:
    """Whether a path is in an object store, where a file appears whole and cannot be renamed."""
    return urlsplit(path).scheme in SCHEMES


def check_installed(path: str) -> None:
    """Raise StorageError, with what to install, when a path is in an object store and cannot be written safely."""
    if not is_object(path):
        return
    try:
        import obstore  # noqa: F401
    except ImportError as error:
        raise StorageError(
            f"{path!r} is in an object store, where publishing a checkpoint once needs the package obstore: "
            "pip install 'checkpoint-kit[s3]'"
        ) from error


def put_new(path: str, data: bytes | pa.Buffer) -> bool:
    """Write an object where there is none; False when there was one already, with other content.

    One with the same content is ours: the answer to a put may be lost, and the put sent again. Raises StorageError.
    """
    check_installed(path)
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError

    bucket, _, name = path.partition("://")[2].partition("/")
    content = bytes(data)
    try:
        store = _store(f"{urlsplit(path).scheme}://{bucket}")
        try:
            obstore.put(store, name, content, mode="create")
        except AlreadyExistsError:
            return bytes(obstore.get(store, name).bytes()) == content
    except (BaseError, OSError, ValueError) as error:
        raise StorageError(f"Cannot write {path!r}: {str(error).splitlines()[0]}") from error
    return True


@lru_cache(maxsize=16)
def _store(root: str) -> Any:
    from obstore.store import from_url

    return from_url(root)
