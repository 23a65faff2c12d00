"""The items that sinks keep in operator state as bytes with a version: what waits to be committed, and open output.

Flink: `CommittableCollectorSerializer`, `FileSinkCommittableSerializer`, `FileWriterBucketStateSerializer`,
`KafkaCommittableSerializer`, `KafkaWriterStateSerializer`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from kit.core.state.errors import CheckpointError
from kit.snapshots.serializers.reading import Reader

COLLECTED, FILE_COMMITTABLE, BUCKET = 0xB91F252C, 0x1E765C80, 0x1E764B79
PENDING_FILE, OPEN_FILE, LOCAL_FILE = 0x2C853C89, 0xB3A4073D, 0x1E744B57
COMMIT_STATES = ("received", "retry", "failed", "committed")
OWNERSHIP = ("implicit by subtask id", "explicit by writer state")
LOCAL_HEAD = struct.Struct("<IqII")
NEVER = (1 << 63) - 1
"""The time at which an open part file was created, if there is none."""
Fields = dict[str, Any]


def committables(reader: Reader) -> list[Fields]:
    """Read what waits to be committed: checkpoint_id, of_subtask, commit_state, retries, and the item's own fields.

    Items of other sinks than FileSink and KafkaSink have their bytes in `committable`. Raises CheckpointError.
    """
    _expect(reader, COLLECTED, "what waits to be committed")
    return [row for version, part in _items(reader, "checkpoints") for row in _of_checkpoint(part, version)]


def _of_checkpoint(reader: Reader, version: int) -> Iterator[Fields]:
    checkpoint_id = reader.int64()
    if version > 0:
        reader.int32()  # the number of subtasks
    for subtask_version, part in _items(reader, "subtasks"):
        subtask = part.int32() if subtask_version > 0 else None
        for _, request in _items(part, "requests to commit"):
            held_version, held = request.int32(), request.blob()
            retries, state = request.int32(), request.int32()
            if not 0 <= state < len(COMMIT_STATES):
                raise request.error(f"state {state} of a commit", f"0 to {len(COMMIT_STATES) - 1}")
            yield {
                "checkpoint_id": checkpoint_id,
                "of_subtask": subtask,
                "commit_state": COMMIT_STATES[state],
                "retries": retries,
                **_committable(held_version, held),
            }


def _committable(version: int, held: bytes) -> Fields:
    for read in (_file_committable, _kafka_transaction):
        reader = Reader(held)
        with suppress(CheckpointError):
            found = read(reader)
            if not reader.left:
                return found
    return {"committable_version": version, "committable": held}


def _file_committable(reader: Reader) -> Fields:
    """Read a part file that is complete, or a file to delete."""
    _expect(reader, FILE_COMMITTABLE, "a committable of FileSink")
    found: Fields = {"bucket": reader.utf()}
    found |= _pending_file(_versioned(reader)) if reader.boolean() else {"path": None}
    if reader.boolean():
        found["abandoned_file"] = _open_file(_versioned(reader))["path"]
    if reader.boolean():
        found["compacted_file"] = reader.utf()
    return found


def _pending_file(reader: Reader) -> Fields:
    _expect(reader, PENDING_FILE, "a part file")
    path = reader.utf() if reader.boolean() else None
    size = reader.int64()
    return {"path": path, "file_bytes": size, **_recoverable(_versioned(reader))}


def _open_file(reader: Reader) -> Fields:
    _expect(reader, OPEN_FILE, "a part file that is written")
    path = reader.utf() if reader.boolean() else None
    return {"path": path, **_recoverable(_versioned(reader))}


def _recoverable(reader: Reader) -> Fields:
    """Read where a file system has the bytes until the commit; of another than the local one, they stay bytes."""
    held = reader.rest()
    if len(held) >= LOCAL_HEAD.size:
        mark, offset, target, temporary = LOCAL_HEAD.unpack_from(held)
        if mark == LOCAL_FILE and LOCAL_HEAD.size + target + temporary == len(held):
            paths = held[LOCAL_HEAD.size :]
            names = (part.decode("utf-8", "backslashreplace") for part in (paths[:target], paths[target:]))
            return {**dict(zip(("target", "temporary"), names, strict=True)), "written_bytes": offset}
    return {"recoverable": held}


def _kafka_transaction(reader: Reader) -> Fields:
    """Read a transaction that was prepared: an epoch, a producer's id, and the transaction's."""
    epoch, producer, transaction = reader.int16(), reader.int64(), reader.utf()
    return {"transactional_id": transaction, "producer_id": producer, "epoch": epoch}


def bucket(reader: Reader) -> list[Fields]:
    """Read the open output of FileSink in one bucket. Raises CheckpointError."""
    _expect(reader, BUCKET, "a bucket of FileSink")
    name = _versioned(reader)
    size = int.from_bytes(name.take(4), "little")
    found: Fields = {"bucket": name.take(size).decode("utf-8", "backslashreplace"), "bucket_path": reader.utf()}
    created_ms = reader.int64()
    found["created_ms"] = None if created_ms == NEVER else created_ms
    found |= _open_file(_versioned(reader)) if reader.boolean() else {"path": None}
    return [found]


def kafka_writer(reader: Reader) -> list[Fields]:
    """Read the transactions that a writer of KafkaSink has prepared, a row each. Raises CheckpointError."""
    return _transactions(reader, _prefix(reader))


def kafka_writer_of_subtask(reader: Reader) -> list[Fields]:
    """Read the same with the subtask that owns them, as the connector writes it from version 4 on."""
    prefix = _prefix(reader)
    subtask, subtasks, ownership = reader.int32(), reader.int32(), reader.int32()
    if not 0 <= ownership < len(OWNERSHIP):
        raise reader.error(f"ownership {ownership}", f"0 to {len(OWNERSHIP) - 1}")
    owned = {"of_subtask": subtask, "of_subtasks": subtasks, "ownership": OWNERSHIP[ownership]}
    return _transactions(reader, prefix | owned)


def kafka_writer_prefix(reader: Reader) -> list[Fields]:
    """Read the prefix of transactional ids alone, as the connector wrote it before version 4."""
    return [_prefix(reader)]


def _prefix(reader: Reader) -> Fields:
    prefix = reader.utf()
    if not prefix.isprintable():
        raise reader.error("a prefix with unprintable characters", "text")
    return {"transactional_id_prefix": prefix}


def _transactions(reader: Reader, owned: Fields) -> list[Fields]:
    many = reader.count("transactions", 10)
    found = [{"transactional_id": reader.utf(), "checkpoint_id": reader.int64()} for _ in range(many)]
    return [{**owned, **each} for each in found or [{"transactional_id": None, "checkpoint_id": None}]]


def _expect(reader: Reader, mark: int, what: str) -> None:
    reader.expect(mark - (1 << 32) if mark >> 31 else mark, what)


def _versioned(reader: Reader) -> Reader:
    """Read an item's version and length, and return a reader of its bytes."""
    reader.int32()
    return Reader(reader.blob("bytes of an item"))


def _items(reader: Reader, what: str) -> Iterator[tuple[int, Reader]]:
    """Yield the items of a list: the version that they have in common, and a reader of each one's bytes."""
    version = reader.int32()
    for _ in range(reader.count(what, 4)):
        yield version, Reader(reader.blob("bytes of an item"))
