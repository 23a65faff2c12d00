"""The items that sources and sinks keep in operator state as bytes with a version: splits, positions, committables.

The state is a list of byte arrays, `int version, int length, bytes`; its name says whose it is, not what the bytes are.
So bytes are decoded only if a known format fits them exactly. Flink: `SimpleVersionedSerialization`,
`FileSourceSplitSerializer`, `KafkaPartitionSplitSerializer`, `DynamicKafkaSourceSplitSerializer`,
`NumberSequenceSource`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kit.core.state.errors import CheckpointError
from kit.snapshots.checkpoints.sink_items import (
    bucket,
    committables,
    kafka_writer,
    kafka_writer_of_subtask,
    kafka_writer_prefix,
)
from kit.snapshots.serializers.basic import read_string
from kit.snapshots.serializers.reading import Reader

SOURCE_READER_STATE = "SourceReaderState"
COMMITTER_STATE, WRITER_STATE = "streaming_committer_raw_states", "writer_raw_states"
ITEMS = (SOURCE_READER_STATE, COMMITTER_STATE, WRITER_STATE)
"""The names of states whose entries are such items."""
HEAD_BYTES = 8


def is_versioned(held: Any) -> bool:
    """Return True if an entry is bytes with a version and a length in front."""
    return (
        isinstance(held, bytes)
        and len(held) >= HEAD_BYTES
        and int.from_bytes(held[4:8], "big") == len(held) - HEAD_BYTES
    )


def decoded_items(name: str, held: bytes) -> list[dict[str, Any]] | None:
    """Return the items in an entry of state `name`, or None if no known format fits it exactly.

    A split is one item; a sink's entry has an item for each output that waits to be committed.
    """
    for read in _READ.get(name, ()):
        reader = Reader(held, HEAD_BYTES)
        with suppress(CheckpointError):
            found = read(reader)
            if not reader.left:
                return found if isinstance(found, list) else [found]
    return None


def split_of(item: dict[str, Any]) -> Any:
    """Return what a split goes by: the id, or Kafka's topic and partition, behind the cluster if it has one."""
    place = (item["topic"], item["partition"]) if "topic" in item else item["split"]
    return (item["cluster"], *place) if "cluster" in item else place


def with_offset(name: str, held: bytes, offset: int) -> bytes:
    """Return an entry of state `name` whose split continues at another offset.

    Raises CheckpointError for a split whose offset is not a single number.
    """
    (item,) = decoded_items(name, held) or [{}]
    reader = Reader(held, HEAD_BYTES)
    reader.utf()
    if "partition" in item and "cluster" not in item:
        reader.skip(4)
    elif "next" not in item:
        raise CheckpointError(
            "the offsets of KafkaSource and NumberSequenceSource (and DataGeneratorSource) can be set; this split is "
            "of another source"
        )
    return held[: reader.at] + offset.to_bytes(8, "big", signed=True) + held[reader.at + 8 :]


def _kafka_split(reader: Reader) -> dict[str, Any]:
    """Read a topic's partition with the offset to start from; the offset to stop at is missing for most."""
    topic, partition, start, stop = reader.utf(), reader.int32(), reader.int64(), reader.int64()
    if partition < 0:
        raise reader.error(f"partition {partition}", "0 or more")
    return {
        "topic": topic,
        "partition": partition,
        "offset": start,
        "stop_offset": None if stop == -(1 << 63) else stop,
    }


def _dynamic_kafka_split(reader: Reader) -> dict[str, Any]:
    """Read a partition of a topic in one of several clusters; from version 2 on, also until when it is retained."""
    version = int.from_bytes(reader.data[:4], "big")
    found: dict[str, Any] = {"cluster": reader.utf()}
    retained = reader.int64() if version > 1 and reader.boolean() else None
    reader.int32()  # the version of the partition's format
    return {**found, **_kafka_split(reader), "retained_until_ms": retained}


def _sequence_split(reader: Reader) -> dict[str, Any]:
    """Read a range of numbers: the next one to emit, and the last."""
    return {"split": reader.utf(), "next": reader.int64(), "last": reader.int64()}


def _file_split(reader: Reader) -> dict[str, Any]:
    """Read a range of a file with the position of its reader."""
    found = {
        "split": reader.utf(),
        "path": _path(reader),
        "start": reader.int64(),
        "length": reader.int64(),
        "modified_ms": reader.int64(),
        "file_bytes": reader.int64(),
        "hosts": [reader.utf() for _ in range(reader.count("hosts", 2))],
    }
    offset, records = (reader.int64(), reader.int64()) if reader.boolean() else (None, None)
    return {**found, "offset": offset, "records_after_offset": records}


def _path(reader: Reader) -> str | None:
    """Read the parts of a path's URI, each after a flag."""
    if not reader.boolean():
        return None
    scheme, user, host = _text(reader), _text(reader), _text(reader)
    port, path, _, _ = reader.int32(), _text(reader), _text(reader), _text(reader)
    authority = f"{user + '@' if user else ''}{host or ''}{f':{port}' if port >= 0 else ''}"
    return f"{scheme + ':' if scheme else ''}{'//' + authority if authority else ''}{path or ''}"


def _text(reader: Reader) -> str | None:
    return read_string(reader) if reader.boolean() else None


_READ: dict[str, tuple[Callable[[Reader], dict[str, Any] | list[dict[str, Any]]], ...]] = {
    SOURCE_READER_STATE: (_kafka_split, _file_split, _sequence_split, _dynamic_kafka_split),
    COMMITTER_STATE: (committables,),
    WRITER_STATE: (bucket, kafka_writer_of_subtask, kafka_writer, kafka_writer_prefix),
}
