"""Opening the store that a job names: one function for each kind of store in `kit.stream.settings.store_addresses`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kit.files.storage import CheckpointStorage
from kit.files.stores.stores import DurableStore, MemoryStore, Records
from kit.filesystems.object_stores import is_object
from kit.stream.settings.store_addresses import IN_MEMORY, store_named


def open_store(setting: str, storage: CheckpointStorage) -> MemoryStore | DurableStore:
    """Open the store that `CheckpointConfig.store` names, for the job of this storage; it connects when needed.

    Raises ImportError when a client that it needs is not installed.
    """
    if setting == IN_MEMORY:
        return MemoryStore()
    named = store_named(setting)
    assert named is not None, setting
    kind, address = named
    return DurableStore(OPEN_RECORDS[kind.name](address, storage))


def _filesystem(address: Mapping[str, str], storage: CheckpointStorage) -> Records:
    from kit.files.stores.file_records import FileRecords
    from kit.files.stores.object_records import ObjectRecords

    return ObjectRecords(storage) if is_object(storage.job_directory) else FileRecords(storage)


def _zookeeper(address: Mapping[str, str], storage: CheckpointStorage) -> Records:
    from kit.files.stores.zookeeper import ZooKeeperRecords

    return ZooKeeperRecords(address["hosts"], f"{address['root']}/{storage.job_id}")


def _sqlite(address: Mapping[str, str], storage: CheckpointStorage) -> Records:
    from kit.files.stores.sqlite import SqliteRecords

    return SqliteRecords(address["path"], storage.job_id)


OPEN_RECORDS: dict[str, Callable[[Mapping[str, str], CheckpointStorage], Records]] = {
    "filesystem": _filesystem,
    "zookeeper": _zookeeper,
    "sqlite": _sqlite,
}
"""How the records of each kind of store are opened, by the kind's name; a client is imported when it is needed."""
