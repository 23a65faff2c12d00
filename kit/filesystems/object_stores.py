"""Object stores: files in a bucket of S3, of a store that is compatible (MinIO, Ceph, R2), of Google or of Azure.

The client is the package obstore (the extra `s3`). Address and credentials come from the environment, or from the role
that the machine has in its cloud: `AWS_ENDPOINT_URL`, `AWS_ACCESS_KEY_ID`, ..., and `AWS_ALLOW_HTTP=true` without TLS.
obstore does not read the profiles of AWS's tools (`AWS_PROFILE`, the files in `~/.aws`). Where there are some and no
key in the environment, boto3 reads them, and renews what expires.

An object appears in one step. It cannot be renamed: it is copied, and the original is deleted. Names may have slashes,
but a directory is not an object: it exists if something is below it.

A store decides a conditional put itself: to write an object only if there is none (`If-None-Match: *`), or only if it
is still of the version that was read (`If-Match`). Otherwise two drivers that write the same `_metadata` would both
believe that theirs is the checkpoint.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import fs
from pyarrow.fs import FileInfo

from kit.core.extras import install_command, naming_extras
from kit.core.state.errors import StorageError
from kit.filesystems.file_system import CutOffError, FileSystem

SCHEMES = {"s3": "s3", "gs": "gs", "gcs": "gs", "abfs": "abfs", "abfss": "abfss"}
"""The schemes of object stores, with obstore's names for them."""


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
            f"{path!r} is in an object store, for which the package obstore is needed: {install_command('s3')}"
        ) from error


def open_object_path(path: str) -> tuple[ObjectStore, str]:
    """Return the store of a URI, and the name of the object in it.

    Raises StorageError if obstore is missing, or if the URI has options or credentials.
    """
    check_installed(path)
    parts = urlsplit(path)
    if parts.query or ("@" in parts.netloc and not parts.scheme.startswith("abfs")):
        raise StorageError(
            f"{path.partition('?')[0].rpartition('@')[2]!r} is given with options or credentials in its URI: set them "
            "in the environment, such as AWS_ENDPOINT_URL and AWS_ACCESS_KEY_ID"
        )
    return _store(f"{SCHEMES[parts.scheme]}://{parts.netloc}"), unquote(parts.path).strip("/")


@lru_cache(maxsize=16)
def _store(root: str) -> ObjectStore:
    return ObjectStore(root)


def get(path: str) -> tuple[bytes, Any] | None:
    """Return an object and its version, None if there is none. Raises StorageError."""
    try:
        store, name = open_object_path(path)
        return store.get(name)
    except FileNotFoundError:
        return None
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"Cannot read {path!r}: {error}") from error


def put_if(path: str, data: bytes | pa.Buffer, version: Any) -> bool:
    """Replace an object of this version, or with None write a new one; return False if there is another by now.

    An object with the same content is ours: the answer to a put may be lost, and the put sent again. Raises
    StorageError.
    """
    try:
        store, name = open_object_path(path)
        return store.put_if(name, data, version)
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"Cannot write {path!r}: {error}") from error


def _of_profile(root: str) -> dict[str, Any]:
    """Return the credentials of a profile as an argument for obstore; empty where the environment has them, or nobody.

    Raises StorageError for a profile that does not exist.
    """
    is_s3 = urlsplit(root).scheme == "s3"
    if not is_s3 or os.environ.get("AWS_ACCESS_KEY_ID") or not _has_profiles():
        return {}
    with naming_extras():
        from boto3 import Session
        from botocore.exceptions import ProfileNotFound
    from obstore.auth.boto3 import Boto3CredentialProvider

    try:
        session = Session()
        has_credentials = session.get_credentials() is not None
    except ProfileNotFound as error:
        raise StorageError(f"{root!r} cannot be opened: {error}. Set AWS_PROFILE to one in ~/.aws/config") from error
    return {"credential_provider": Boto3CredentialProvider(session)} if has_credentials else {}


def _has_profiles() -> bool:
    files = (("AWS_CONFIG_FILE", "~/.aws/config"), ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"))
    paths = (Path(os.environ.get(name, default)).expanduser() for name, default in files)
    return "AWS_PROFILE" in os.environ or any(path.exists() for path in paths)


class ObjectStore(FileSystem):
    """The objects of one bucket, `s3://bucket` for instance."""

    appears_whole = True

    def __init__(self, root: str) -> None:
        import obstore
        from obstore.store import from_url

        self.name = urlsplit(root).scheme
        self._root = root
        self._obstore: Any = obstore
        self._store = from_url(root, **_of_profile(root))

    # ---- looking ------------------------------------------------------------------------------------------------

    def info(self, path: str) -> FileInfo:
        with _as_os_errors():
            try:
                return _info(self._obstore.head(self._store, path)) if path else FileInfo("", fs.FileType.Directory)
            except FileNotFoundError:
                below: list[Any] = next(iter(self._obstore.list(self._store, path)), [])
                return FileInfo(path, fs.FileType.Directory if below else fs.FileType.NotFound)

    def entries(self, directory: str, *, recursive: bool = False, missing_ok: bool = True) -> list[FileInfo]:
        """Return what has a name that begins with that of the directory; parts of such names are directories."""
        directory = directory.rstrip("/")
        with _as_os_errors():
            if recursive:
                found = self._all_below(directory)
                exists = bool(found)
                directories = {above for each in found for above in _above(each["path"], directory)}
                objects = [each for each in found if self._is_file(each, directories)]
            else:
                listed = self._obstore.list_with_delimiter(self._store, directory or None)
                objects, directories = listed["objects"], set(listed["common_prefixes"])
                exists = bool(objects or directories)
        if not exists and not missing_ok:
            raise FileNotFoundError(f"there is no directory {self._root}/{directory}")
        infos = [_info(each) for each in objects if each["path"] != directory]
        return infos + [FileInfo(each, fs.FileType.Directory) for each in sorted(directories)]

    def _all_below(self, directory: str) -> list[dict[str, Any]]:
        return [each for some in self._obstore.list(self._store, directory or None) for each in some]

    def _is_file(self, found: dict[str, Any], directories: set[str]) -> bool:
        """Return False for the empty object `a/`, which some programs write for the directory `a`.

        It is listed as `a`.
        """
        if found["size"] or found["path"] in directories:
            return bool(found["size"])
        try:
            self._obstore.head(self._store, found["path"])
        except FileNotFoundError:
            return False
        return True

    # ---- reading ------------------------------------------------------------------------------------------------

    def open_file(self, path: str) -> pa.NativeFile:
        with _as_os_errors():
            return pa.PythonFile(_Reader(self, path, self._obstore.head(self._store, path)["size"]), mode="r")

    def open_stream(self, path: str) -> pa.NativeFile:
        try:
            compression = pa.Codec.detect(path).name
        except (TypeError, ValueError):  # its name has no such ending
            return self.open_file(path)
        return pa.CompressedInputStream(self.open_file(path), compression)

    def read_range(self, path: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        """Return `length` bytes of an object from `offset` on, None: all, with one request.

        Raises CutOffError if there are fewer.
        """
        if length is None:
            return pa.py_buffer(self.get(path)[0]).slice(offset)
        try:
            data = self.range(path, offset, length)
        except FileNotFoundError:
            raise
        except OSError:  # also for a range behind the end
            if offset + length <= self.info(path).size:
                raise
            data = b""
        if len(data) < length:
            raise CutOffError(path, self.info(path).size, length)
        return pa.py_buffer(data)

    def range(self, path: str, offset: int, length: int) -> Any:
        """Return at most `length` bytes from `offset` on, as a buffer."""
        with _as_os_errors():
            return self._obstore.get_range(self._store, path, start=offset, length=length) if length > 0 else b""

    def get(self, path: str) -> tuple[bytes, Any]:
        """Return the bytes of an object, and its version."""
        with _as_os_errors():
            found = self._obstore.get(self._store, path)
            version = {name: found.meta[name] for name in ("e_tag", "version") if found.meta.get(name) is not None}
            return bytes(found.bytes()), version

    # ---- writing ------------------------------------------------------------------------------------------------

    def create(self, path: str) -> pa.NativeFile:
        """Open a new object for writing in parts; it appears when it is closed."""
        with _as_os_errors():
            return pa.PythonFile(_Writer(self._obstore.open_writer(self._store, path)), mode="w")

    def put(self, path: str, data: bytes | pa.Buffer, *, durable: bool, temporary: str = "") -> None:
        with _as_os_errors():
            self._obstore.put(self._store, path, memoryview(data).cast("B"))

    def put_new(self, path: str, data: bytes | pa.Buffer, *, durable: bool) -> bool:
        return self.info(path).type is fs.FileType.NotFound and self.put_if(path, data, None)

    def put_if(self, path: str, data: bytes | pa.Buffer, version: Any) -> bool:
        """Put an object if the present one has this version, or with None if there is none, as the function says."""
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        content = bytes(data)
        with _as_os_errors():
            try:
                self._obstore.put(self._store, path, content, mode="create" if version is None else version)
            except (AlreadyExistsError, PreconditionError):
                return bytes(self._obstore.get(self._store, path).bytes()) == content
        return True

    # ---- names --------------------------------------------------------------------------------------------------

    def rename(self, source: str, target: str, *, durable: bool) -> None:
        self.link(source, target, durable=durable)
        with _as_os_errors():
            self._obstore.delete(self._store, source)

    def link(self, source: str, target: str, *, durable: bool) -> None:
        with _as_os_errors():
            self._obstore.copy(self._store, source, target)

    def make_directory(self, path: str, *, durable: bool) -> None:
        """Do nothing: a directory is not an object."""

    def make_new_directory(self, path: str, *, durable: bool) -> None:
        """Do nothing: a directory is not an object."""

    def delete(self, path: str) -> None:
        with _as_os_errors():
            self._obstore.head(self._store, path)  # a missing object is deleted without an error
            self._obstore.delete(self._store, path)

    def delete_directory(self, path: str) -> None:
        with _as_os_errors():
            found = self._all_below(path)
            if not found:
                raise FileNotFoundError(f"there is no directory {self._root}/{path}")
            self._obstore.delete(self._store, [each["path"] for each in found])

    def __repr__(self) -> str:
        return f"ObjectStore({self._root!r})"


class _Reader:
    """An object as a file of Python: each read is a request for a range of bytes."""

    closed = False

    def __init__(self, store: ObjectStore, path: str, size: int) -> None:
        self._store, self._path, self._size = store, path, size
        self._at = 0

    def read(self, length: int = -1) -> Any:
        rest = max(0, self._size - self._at)
        data = self._store.range(self._path, self._at, rest if length < 0 else min(length, rest))
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def size(self) -> int:
        return self._size

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


class _Writer:
    """An object as a file of Python, which is written in parts."""

    closed = False

    def __init__(self, file: Any) -> None:
        self._file = file
        self._at = 0

    def write(self, data: Any) -> int:
        with _as_os_errors():
            self._file.write(memoryview(data).cast("B"))
        self._at += len(data)
        return len(data)

    def tell(self) -> int:
        return self._at

    def flush(self) -> None:
        """Do nothing: bytes are sent when there are enough of them, or when the file is closed."""

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            with _as_os_errors():
                self._file.close()


def _info(found: dict[str, Any]) -> FileInfo:
    return FileInfo(found["path"], fs.FileType.File, size=found["size"], mtime=found["last_modified"])


def _above(path: str, directory: str) -> Iterable[str]:
    """Yield the directories of an object that are below this one."""
    above = path.rpartition("/")[0]
    while len(above) > len(directory):
        yield above
        above = above.rpartition("/")[0]


@contextmanager
def _as_os_errors() -> Iterator[None]:
    """Raise an OSError for obstore's own exceptions in the block."""
    from obstore.exceptions import BaseError

    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(str(error).splitlines()[0]) from error
    except (BaseError, ValueError) as error:
        raise OSError(str(error).splitlines()[0]) from error
