"""A fixture for tests with sockets: the check that they leave nothing behind."""

from __future__ import annotations

import os
import stat
import tempfile
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from kit.hosts.spark.edge import COLLECTED
from kit.hosts.spark.temporary import process_directory
from tests.hosts.spark.connectors import with_connectors
from tests.object_store import ObjectStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="package")
def spark() -> Iterator[SparkSession]:
    """The one Spark session of these tests, with four slots and two cores to spare."""
    yield from spark_session(slots=4)


def spark_session(slots: int) -> Iterator[SparkSession]:
    """A session that is stopped afterwards."""
    from kit.hosts.spark import create_session

    config = {"spark.ui.enabled": "true", "spark.ui.port": "0"} | with_connectors()
    session = create_session("tests", slots=slots, config=config)
    yield session
    session.stop()


@pytest.fixture(scope="package")
def object_store() -> Iterator[ObjectStore]:
    """An object store that runs while tests do."""
    server = ObjectStore()
    yield server
    server.stop()


@pytest.fixture
def bucket(object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URI of an empty bucket, which the test and its processes reach."""
    return object_store.bucket_for(monkeypatch)


@pytest.fixture
def nothing_left(no_thread_left: None) -> Iterator[None]:
    """Fails a test that leaves one of our threads, an open socket, or a private directory."""
    sockets = _open_sockets()
    yield
    assert _open_sockets() - sockets == set()


@pytest.fixture
def no_thread_left(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fails a test that leaves one of our threads, or a private directory (Spark's own sockets come and go)."""
    tmp_path_factory.getbasetemp()  # it is elsewhere
    before = _private_directories()
    with tempfile.TemporaryDirectory(prefix="t") as directory:  # short: the path of a Unix socket is limited
        monkeypatch.setattr("tempfile.tempdir", directory)
        yield
        assert [thread.name for thread in threading.enumerate() if thread.name.startswith("kit-")] == []
        assert os.listdir(directory) == []
        assert _private_directories() == before


def _private_directories() -> list[str]:
    """Return the private directories, without collected output, which may be read while its job object exists."""
    return sorted(name for name in os.listdir(process_directory()) if not name.startswith(COLLECTED))


def _open_sockets() -> set[str]:
    found = set()
    for number in os.listdir("/dev/fd"):
        try:
            status = os.fstat(int(number))
        except OSError:
            continue
        if stat.S_ISSOCK(status.st_mode):
            found.add(f"{number}:{status.st_ino}")
    return found
