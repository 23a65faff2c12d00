"""The file layer in an object store, a server of S3 on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import boto3
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from kit import CsvSource, ParquetSource, TextSource
from kit.core.protocol.outages import may_pass
from kit.core.state.errors import SavepointNotFoundError, StorageError
from kit.files.storage import resolve
from kit.filesystems.file_system import FileSystem, is_directory
from kit.filesystems.object_stores import ObjectStore
from kit.filesystems.places import open_path
from tests.filesystems.contract import FileSystemContract
from tests.object_store import ObjectStore as Server


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.fixture
def bucket(server: Server, monkeypatch: pytest.MonkeyPatch) -> str:
    return server.bucket_for(monkeypatch)


class TestObjectStore(FileSystemContract):
    @pytest.fixture
    def place(self, bucket: str) -> tuple[FileSystem, str]:
        return open_path(f"{bucket}/base")


def test_the_root_of_a_bucket_is_listed(bucket: str) -> None:
    system, root = open_path(bucket)
    assert root == ""
    assert is_directory(system.info(root))
    system.put("a", b"1", durable=True)
    system.put("d/b", b"1", durable=True)
    assert [(info.path, info.is_file) for info in system.entries(root)] == [("a", True), ("d", False)]
    below = [(info.path, info.is_file) for info in system.entries(root, recursive=True)]
    assert below == [("a", True), ("d/b", True), ("d", False)]


def test_a_directory_that_a_console_has_made_is_no_file(bucket: str) -> None:
    """It is the empty object `made/`."""
    client = boto3.client("s3")
    for key, body in (("base/made/", b""), ("base/empty", b""), ("base/full/", b""), ("base/full/a", b"1")):
        client.put_object(Bucket=bucket.removeprefix("s3://"), Key=key, Body=body)
    system, base = open_path(f"{bucket}/base")
    for recursive in (True, False):
        files = {info.base_name for info in system.entries(base, recursive=recursive) if info.is_file}
        assert files == ({"a", "empty"} if recursive else {"empty"})
    assert is_directory(system.info(f"{base}/made"))
    assert system.entries(f"{base}/made", missing_ok=False) == []


@pytest.mark.parametrize("name", ["a b", "São Paulo", "+", "x=%2F"])
def test_names_are_those_that_arrow_gives_them(bucket: str, name: str) -> None:
    """A sink escapes the values in the names of directories; older versions of the kit left that to Arrow."""
    system, path = open_path(f"{bucket}/{name.replace('%', '%25')}")
    assert path == name
    system.put(path, b"1", durable=True)
    assert [info.path for info in system.entries("")] == [name]
    client = boto3.client("s3")
    assert [each["Key"] for each in client.list_objects_v2(Bucket=bucket.removeprefix("s3://"))["Contents"]] == [name]


def test_files_are_read_as_on_a_disk(bucket: str) -> None:
    table = pa.table({"n": range(1_000)})
    system, base = open_path(f"{bucket}/in")
    with system.create(f"{base}/a.parquet") as stream:
        pq.write_table(table, stream, row_group_size=100)
    with system.create(f"{base}/a.csv.gz") as stream, pa.CompressedOutputStream(stream, "gzip") as compressed:
        pa_csv.write_csv(table, compressed)
    system.put(f"{base}/a.txt", b"one\ntwo\n", durable=True)
    for source, rows in (
        (ParquetSource(f"{bucket}/in"), table["n"].to_pylist()),
        (CsvSource(f"{bucket}/in/*.csv.gz"), table["n"].to_pylist()),
        (TextSource(f"{bucket}/in/a.txt"), ["one", "two"]),
    ):
        read = [source.read_split(split, 0, 10_000).batch for split in source.enumerate_splits()]
        assert [value for batch in read for value in batch.column(0).to_pylist()] == rows


def test_options_and_credentials_in_a_uri_are_refused() -> None:
    for uri in ("s3://somebody:secret@bucket/a", "s3://bucket/a?region=eu-west-1"):
        with pytest.raises(StorageError, match="is given with options or credentials") as error:
            open_path(uri)
        assert "secret" not in str(error.value)


def test_a_store_that_cannot_be_reached_is_an_outage(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    system, path = open_path(f"{bucket}/a.txt")
    system.put(path, b"1\n", durable=True)
    assert isinstance(system, ObjectStore)
    source = TextSource(f"{bucket}/a.txt")
    file = system.open_file(path)

    def broken(*_: object, **__: object) -> object:
        import obstore.exceptions

        raise obstore.exceptions.GenericError("the connection broke\nDebug source: ...")

    monkeypatch.setattr("obstore.get_range", broken)
    with pytest.raises(OSError, match="the connection broke") as error:
        file.read()
    assert str(error.value) == "the connection broke"
    assert may_pass(error.value)
    with pytest.raises(OSError, match="the connection broke"):
        source.read_split(source.enumerate_splits()[0], 0, 10)


def test_a_checkpoint_that_is_missing_is_said_to_be_missing_in_the_store(bucket: str) -> None:
    with pytest.raises(SavepointNotFoundError, match="on file system 's3'"):
        resolve(f"{bucket}/missing")


# --- credentials ------------------------------------------------------------------------------------------------------


@pytest.fixture
def signed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """A server that has nothing; yield the key ids with which requests to it are signed. There is none at first."""
    keys: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            keys.append(self.headers["Authorization"].partition("Credential=")[2].partition("/")[0])
            self.send_error(404)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    yield keys
    server.shutdown()
    server.server_close()


def write_profiles(tmp_path: Path) -> None:
    profiles = ("default", "analyst")
    lines = [
        f"[{name}]\naws_access_key_id = key-of-{name}\naws_secret_access_key = secret-of-{name}\n" for name in profiles
    ]
    (tmp_path / "credentials").write_text("\n".join(lines))


@pytest.mark.parametrize(
    ("variables", "key"),
    [
        ({}, "key-of-default"),
        ({"AWS_PROFILE": "analyst"}, "key-of-analyst"),
        ({"AWS_PROFILE": "analyst", "AWS_ACCESS_KEY_ID": "own", "AWS_SECRET_ACCESS_KEY": "own secret"}, "own"),
    ],
)
def test_a_profile_signs_where_the_environment_has_no_key(
    signed: list[str], variables: dict[str, str], key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_profiles(tmp_path)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(FileNotFoundError):
        ObjectStore("s3://bucket").open_file("a")
    assert signed == [key]


def test_a_profile_that_there_is_not_is_named(
    signed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_profiles(tmp_path)
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(StorageError, match=r"'s3://bucket' cannot be opened: .*nobody.*\. Set AWS_PROFILE to one in"):
        ObjectStore("s3://bucket")
    assert signed == []
