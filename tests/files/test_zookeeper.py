"""The durable store in a real ZooKeeper, and the store's state if ZooKeeper goes away."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from kit.files.storage import CheckpointStorage
from kit.files.stores import zookeeper as client
from kit.files.stores.errors import InconsistentStoreError, StoreError
from kit.files.stores.opening import open_store
from kit.files.stores.stores import DurableStore, Records
from kit.files.stores.zookeeper import ZooKeeperRecords
from tests.files.contract import OpenRecords, StoreContract, begun, ids_given_to_threads, stored
from tests.zookeeper import ZooKeeper

JOB = "0" * 32
ROOTS = (f"/kit/test-{number}" for number in count())


class TestZooKeeper(StoreContract):
    """Each test below a node of its own."""

    @pytest.fixture
    def opened(self, zookeeper: ZooKeeper) -> Iterator[OpenRecords]:  # type: ignore[override]
        root, all_opened = next(ROOTS), []

        def open_records() -> Records:
            all_opened.append(ZooKeeperRecords(zookeeper.hosts, root))
            return all_opened[-1]

        yield open_records
        for records in all_opened:
            records.close()


def test_nodes_are_named_as_flink_names_them(zookeeper: ZooKeeper) -> None:
    root = next(ROOTS)
    store = open_store(f"zookeeper://{zookeeper.hosts}{root}", CheckpointStorage("/c", JOB))
    store.begin(recover=False)
    store.next_id()
    store.add(stored(12))
    store.close()
    records = ZooKeeperRecords(zookeeper.hosts, f"{root}/{JOB}")
    assert records.names("checkpoints") == ["0000000000000000012"]
    assert records.read("checkpointID") == b"2"
    records.close()


def test_threads_of_a_driver_never_get_the_same_id(zookeeper: ZooKeeper) -> None:
    store = begun(ZooKeeperRecords(zookeeper.hosts, next(ROOTS)))
    given = ids_given_to_threads(store)
    store.close()
    assert sorted(given) == list(range(1, 61))


@pytest.fixture
def other_zookeeper(tmp_path: Path) -> Iterator[ZooKeeper]:
    """A server that a test may stop."""
    server = ZooKeeper(tmp_path).start()
    yield server
    server.stop()


def test_nobody_knows_what_became_of_a_write_when_the_server_went_away(
    other_zookeeper: ZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = begun(ZooKeeperRecords(other_zookeeper.hosts, "/kit"))
    store.add(stored(1))
    other_zookeeper.stop()
    with monkeypatch.context() as patch:
        patch.setattr(client, "CONNECT_S", 1.0)
        with pytest.raises(InconsistentStoreError, match="does not answer"):
            store.add(stored(2))
    other_zookeeper.start()
    assert stored(1) in store.checkpoints()
    store.add(stored(3))
    assert store.checkpoints()[-1] == stored(3)
    store.close()


def test_a_server_that_is_not_there_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "CONNECT_S", 0.3)
    store = DurableStore(ZooKeeperRecords("127.0.0.1:1", "/kit"))
    with pytest.raises(StoreError, match=r"ZooKeeper at 127\.0\.0\.1:1 cannot be reached within 0\.3 s: is it running"):
        store.begin(recover=True)
