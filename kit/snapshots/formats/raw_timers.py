"""Timers in raw keyed state, where operators of a RocksDB job keep those that are on the heap.

Flink: `InternalTimersSnapshotReaderWriters`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kit.core.state.errors import CheckpointError
from kit.snapshots.formats.headers import TIMER, KeyedState
from kit.snapshots.formats.rows import Rows
from kit.snapshots.serializers.composite import Timer
from kit.snapshots.serializers.reading import Reader
from kit.snapshots.serializers.serializer_snapshots import read_serializer
from kit.snapshots.serializers.types import bounded

MARK = 0xF1CD859F - (1 << 32)
"""How `PostVersionedIOReadableWritable` marks bytes that have a version."""
VERSION = 2
DOMAINS = ("event", "processing")


def is_timers(data: bytes) -> bool:
    """Return True if raw keyed state begins as timers do."""
    return len(data) >= 8 and int.from_bytes(data[:4], "big", signed=True) == MARK


def read_timers(data: bytes) -> Iterator[tuple[str, str, KeyedState, list[tuple[Any, Any, int]]]]:
    """Yield service, domain, state, and key, namespace and time of each timer. Raises CheckpointError."""
    reader = Reader(data)
    reader.expect(MARK, "timers in raw keyed state")
    version = reader.int32()
    if version != VERSION:
        raise reader.error(f"version {version} of timers", f"{VERSION}, which Flink 1.8 and newer write")
    for _ in range(reader.count("timer services", 8)):
        service = reader.utf()
        key, namespace = read_serializer(reader), read_serializer(reader)
        if key.is_opaque or namespace.is_opaque:
            raise CheckpointError(f"timers of {service!r} have keys of {key.name}, which are not decoded here")
        for domain in DOMAINS:
            many = reader.count("timers", 0)
            timers = [(key.read(reader), namespace.read(reader), reader.int64()) for _ in bounded(reader, many)]
            state = KeyedState(timer_state_name(service, domain), TIMER, key, namespace, Timer(key, namespace))
            yield service, domain, state, timers


def timer_state_name(service: str, domain: str) -> str:
    """Return the name that the same timers have in managed keyed state."""
    return f"_timer_state/{domain}_{service}"


def add_timers(rows: Rows, group: int, timers: list[tuple[Any, Any, int]]) -> None:
    """Add timers of one key group."""
    for key, namespace, time_ms in timers:
        rows.add(group, key, namespace, None, time_ms)
