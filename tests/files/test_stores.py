"""The durable store on a file system, and a file system that fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from kit.core.state.errors import StorageError
from kit.files.storage import CheckpointStorage
from kit.files.stores.file_records import FileRecords
from kit.files.stores.opening import open_store
from kit.files.stores.stores import (
    DurableStore,
    InconsistentStoreError,
    Leader,
    MemoryStore,
    Records,
    StoreError,
)
from kit.filesystems.memory import MemoryFiles
from kit.stream.settings.job_settings import CheckpointConfig, SettingError
from kit.stream.settings.store_addresses import STORES, StoreKind
from tests.files.contract import OpenRecords, StoreContract, stored

JOB = "0" * 32


class TestFiles(StoreContract):
    """On a real disk."""

    @pytest.fixture
    def opened(self, tmp_path: Path) -> OpenRecords:
        return lambda: FileRecords(CheckpointStorage(tmp_path, JOB))


class TestFilesInMemory(StoreContract):
    """On the lab's disk, which one thread uses at a time."""

    test_of_drivers_that_take_over_at_once_one_leads = None  # type: ignore[assignment]

    @pytest.fixture
    def opened(self) -> OpenRecords:
        files = MemoryFiles().filesystem
        return lambda: FileRecords(CheckpointStorage("/c", JOB, file_system=files))


def test_a_record_that_a_killed_driver_was_writing_is_removed_by_the_next(tmp_path: Path) -> None:
    storage = CheckpointStorage(tmp_path, JOB)
    DurableStore(FileRecords(storage)).begin(recover=False)
    cut_off = tmp_path / JOB / "store" / ".leader-1-checkpointID.part"
    cut_off.write_bytes(b"1")
    second = DurableStore(FileRecords(storage))
    second.begin(recover=True)
    assert not cut_off.exists()
    assert second.next_id() == 1


class Killed(BaseException):
    """The end of a process; no handler for errors sees it."""


class KilledStorage(CheckpointStorage):
    """A storage whose process is killed in front of its n-th change, or behind it."""

    at, behind, on_change = 0, False, staticmethod(lambda: None)

    def _change(self, change: Callable[[], None]) -> None:
        self.at -= 1
        if self.at == 0 and not self.behind:
            raise Killed
        change()
        self.on_change()
        if self.at == 0:
            raise Killed

    def make_new_directory(self, directory: str) -> None:
        self._change(lambda: super(KilledStorage, self).make_new_directory(directory))

    def move(self, source: str, target: str) -> None:
        self._change(lambda: super(KilledStorage, self).move(source, target))

    def replace(self, temporary: str, path: str, data: bytes) -> None:
        self._change(lambda: super(KilledStorage, self).replace(temporary, path, data))

    def discard(self, paths: Iterable[str]) -> None:
        self._change(lambda: super(KilledStorage, self).discard(paths))


def ready_to_begin(directory: Path, earlier: str) -> None:
    """Leave what an earlier driver leaves: nothing, a run that has not ended, or one that has."""
    if earlier:
        first = DurableStore(FileRecords(CheckpointStorage(directory, JOB)))
        first.begin(recover=False, driver="the first")
        first.next_id()
        first.want({"rows": 5})
        if earlier == "ended":
            first.records.write("run", b'{"first_id": 1, "status": "CANCELED"}')  # killed before it was cleaned up


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("earlier", ["", "running", "ended"])
def test_a_driver_may_be_killed_at_any_step_of_taking_the_leadership(
    tmp_path: Path, earlier: str, behind: bool
) -> None:
    """At each moment the leader is known by its name; the next driver takes over, and no temporary file is left."""
    names: list[Leader | None] = []
    for at in range(1, 20):
        directory = tmp_path / str(at)
        ready_to_begin(directory, earlier)
        onlooker = FileRecords(CheckpointStorage(directory, JOB))
        killed = KilledStorage(directory, JOB)
        killed.at, killed.behind = at, behind
        killed.on_change = lambda onlooker=onlooker: names.append(onlooker.leader())  # type: ignore[misc]
        recover = earlier == "running"
        try:
            DurableStore(FileRecords(killed)).begin(recover=recover, driver="the second")
        except Killed:
            pass
        else:
            break
        led = onlooker.leader()
        last = DurableStore(FileRecords(CheckpointStorage(directory, JOB)))
        status = last.begin(recover=True, driver="the third")
        assert onlooker.leader() == Leader((led.token if led else 0) + 1, "the third")
        assert status == "CANCELED" or last.wanted() == ({"rows": 5} if recover else {})
        assert sorted(path.name for path in (directory / JOB).rglob("*.part")) == []
    else:
        raise AssertionError("it was killed at each of 19 changes, and there are fewer")
    assert at > 1
    assert {leader.driver for leader in names if leader} <= {"the first", "the second"}


def test_of_several_drivers_the_one_with_the_largest_number_leads(tmp_path: Path) -> None:
    """Numbers, not names, are compared: a driver that was killed may have left its directory behind."""
    storage = CheckpointStorage(tmp_path, JOB)
    DurableStore(FileRecords(storage)).begin(recover=False, driver="the first")
    (first,) = (path for path in tmp_path.rglob("leader-1*") if path.is_dir())
    for name in ("leader-9-ninth", "leader-10-tenth", "leader-2-second"):
        (first.parent / name).mkdir()
    assert FileRecords(storage).leader() == Leader(10, "tenth")


def test_records_lie_beside_the_checkpoints(tmp_path: Path) -> None:
    store = open_store("filesystem", CheckpointStorage(tmp_path, JOB))
    store.begin(recover=False)
    store.next_id()
    store.add(stored(12))
    found = sorted(path.relative_to(tmp_path / JOB).as_posix() for path in tmp_path.rglob("*") if path.is_file())
    assert found == [
        "store/leader-1/checkpointID",
        "store/leader-1/checkpoints/0000000000000000012",
        "store/leader-1/run",
    ]


class FailingStorage(CheckpointStorage):
    """A storage whose writes end in an error; `writes` and `reads` say what becomes of them."""

    writes, reads = True, True

    def replace(self, temporary: str, path: str, data: bytes) -> None:
        if self.writes:
            super().replace(temporary, path, data)
        raise StorageError("no answer")

    def read(self, handle):  # type: ignore[no-untyped-def, override]
        if not self.reads:
            raise StorageError("no answer")
        return super().read(handle)


@pytest.mark.parametrize(
    ("writes", "reads", "outcome"),
    [(True, True, None), (False, True, StoreError), (True, False, InconsistentStoreError)],
)
def test_a_write_whose_answer_is_lost_is_looked_up(
    tmp_path: Path, writes: bool, reads: bool, outcome: type[StoreError] | None
) -> None:
    DurableStore(FileRecords(CheckpointStorage(tmp_path, JOB))).begin(recover=False)
    storage = FailingStorage(tmp_path, JOB)
    storage.writes, storage.reads = writes, reads
    store = DurableStore(FileRecords(storage, Leader(1)))
    if outcome is None:
        store.add(stored(1))
        assert store.checkpoints() == [stored(1)]
    else:
        with pytest.raises(outcome) as raised:
            store.add(stored(1))
        assert type(raised.value) is outcome


def test_a_store_in_memory_forgets_all_but_the_counter() -> None:
    store = open_store("memory", CheckpointStorage("/c", JOB))
    assert isinstance(store, MemoryStore)
    store.begin(recover=False)
    store.add(stored(1))
    store.raise_counter(5)
    assert (store.next_id(), store.checkpoints(), store.ids()) == (5, [], range(5, 6))
    assert store.copy().next_id() == store.next_id() == 6


@pytest.mark.parametrize(
    "setting",
    [
        "disk",
        "zookeeper://",
        "zookeeper://host/root",
        "zookeeper://host:2181",
        "zk://h:1/r",
        "sqlite://a.db",
        "sqlite:///a/",
    ],
)
def test_a_store_that_does_not_exist_is_refused_at_once(setting: str) -> None:
    with pytest.raises(
        SettingError, match=r"store = .*expected 'memory', 'filesystem', 'zookeeper://host:port.* or 'sqlite:///"
    ):
        CheckpointConfig(store=setting, directory="/c")


@pytest.mark.parametrize("setting", ["filesystem", "zookeeper://a:1,b-c.d:2/root/kit", "sqlite:///var/kit.db"])
def test_a_durable_store_needs_a_directory(setting: str) -> None:
    with pytest.raises(SettingError, match="a directory that outlives the driver"):
        CheckpointConfig(store=setting)
    assert CheckpointConfig(store=setting, directory="/c").is_durable
    assert not CheckpointConfig().is_durable


@pytest.mark.parametrize("kind", STORES, ids=lambda kind: kind.example)
def test_what_is_registered_opens(kind: StoreKind, tmp_path: Path) -> None:
    setting = kind.example.replace("port", "2181").replace("/path/of", str(tmp_path))
    assert CheckpointConfig(store=setting, directory=tmp_path).is_durable
    store = open_store(setting, CheckpointStorage(tmp_path, JOB))
    assert type(store.records).__name__.lower() == f"{kind.name.removesuffix('system')}records"
    assert [name for name in dir(Records) if not name.startswith("_") and not hasattr(store.records, name)] == []
