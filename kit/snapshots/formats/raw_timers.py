"""Timers in raw keyed state, where operators of a RocksDB job keep those that are on the heap.

Flink: `InternalTimersSnapshotReaderWriters`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kit.core.state.errors import CheckpointError
from kit.snapshots.formats.canonical import Pair
from kit.snapshots.formats.headers import TIMER, KeyedState
from kit.snapshots.formats.rows import Rows
from kit.snapshots.serializers.composite import Timer
from kit.snapshots.serializers.reading import Reader
from kit.snapshots.serializers.serializer_snapshots import read_serializer
from kit.snapshots.serializers.types import Type, bounded

MARK = 0xF1CD859F - (1 << 32)
"""How `PostVersionedIOReadableWritable` marks bytes that have a version."""
VERSION = 2
DOMAINS = ("event", "processing")


def is_timers(data: bytes) -> bool:
    """Return True if raw keyed state begins as timers do."""
    return len(data) >= 8 and int.from_bytes(data[:4], "big", signed=True) == MARK


@dataclass(frozen=True)
class TimerService:
    """The timers of one service in one key group. `head` is its name and serializers as they are stored.

    By domain, `timers` are key, namespace and time of each, `pairs` the same timers in the canonical layout.
    """

    name: str
    head: bytes
    key: Type
    namespace: Type
    timers: dict[str, list[tuple[Any, Any, int]]] = field(default_factory=dict)
    pairs: dict[str, list[Pair]] = field(default_factory=dict)

    def state(self, domain: str) -> KeyedState:
        """Return the state that the same timers have in managed keyed state."""
        timer = Timer(self.key, self.namespace)
        return KeyedState(timer_state_name(self.name, domain), TIMER, self.key, self.namespace, timer)


def read_timers(data: bytes) -> Iterator[TimerService]:
    """Yield the timer services of one key group. Raises CheckpointError."""
    reader = Reader(data)
    reader.expect(MARK, "timers in raw keyed state")
    version = reader.int32()
    if version != VERSION:
        raise reader.error(f"version {version} of timers", f"{VERSION}, which Flink 1.8 and newer write")
    for _ in range(reader.count("timer services", 8)):
        start = reader.at
        service = reader.utf()
        key, namespace = read_serializer(reader), read_serializer(reader)
        if key.is_opaque or namespace.is_opaque:
            raise CheckpointError(f"timers of {service!r} have keys of {key.name}, which are not decoded here")
        found = TimerService(service, data[start : reader.at], key, namespace)
        for domain in DOMAINS:
            timers, pairs = found.timers.setdefault(domain, []), found.pairs.setdefault(domain, [])
            for _ in bounded(reader, reader.count("timers", 0)):
                start = reader.at
                of_key, of_namespace = key.read(reader), namespace.read(reader)
                held = data[start : reader.at]
                time_ms = reader.int64()
                timers.append((of_key, of_namespace, time_ms))
                pairs.append(((time_ms + (1 << 63)).to_bytes(8, "big") + held, b""))
        yield found


class RawTimersWriter:
    """Writes the timers of one subtask as `read_timers` reads them, a key group at a time.

    `heads` are the name and serializers of each service as they are stored.
    """

    def __init__(self, out: Callable[[bytes], object], heads: Mapping[str, bytes]) -> None:
        self._out, self._heads = out, heads
        self._size = 0

    def write(self, group: int, states: Mapping[str, Sequence[Pair]]) -> int:
        """Write the timers of one key group, by the names of their states; return its offset."""
        parts = [
            (MARK & 0xFFFFFFFF).to_bytes(4, "big"),
            VERSION.to_bytes(4, "big"),
            len(self._heads).to_bytes(4, "big"),
        ]
        for service, head in self._heads.items():
            parts.append(head)
            for domain in DOMAINS:
                timers = states.get(timer_state_name(service, domain), ())
                parts.append(len(timers).to_bytes(4, "big"))
                for key, _ in timers:
                    time_ms = int.from_bytes(key[:8], "big") - (1 << 63)
                    parts += (key[8:], time_ms.to_bytes(8, "big", signed=True))
        offset, held = self._size, b"".join(parts)
        self._out(held)
        self._size += len(held)
        return offset


def timer_state_name(service: str, domain: str) -> str:
    """Return the name that the same timers have in managed keyed state."""
    return f"_timer_state/{domain}_{service}"


def add_timers(rows: Rows, group: int, timers: list[tuple[Any, Any, int]]) -> None:
    """Add timers of one key group."""
    for key, namespace, time_ms in timers:
        rows.add(group, key, namespace, None, time_ms)
