"""The canonical layout of keyed state, which every backend writes and reads: that of canonical savepoints.

Per key group: a state's number, then pairs of key and value, each after its length. The highest bit of a key's first
byte marks the last pair of a state; the next state's number follows, or 0xFFFF.

Flink: `FullSnapshotAsyncWriter`, `FullSnapshotRestoreOperation`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kit.core.state.errors import CheckpointError
from kit.snapshots.formats.headers import KeyedHeader, KeyedState, keyed_header
from kit.snapshots.formats.rows import SIZE_BYTES, Measures, PairDecoder, Rows, pair_layout
from kit.snapshots.serializers.reading import Reader

END_OF_GROUP, LAST_OF_STATE = 0xFFFF, 0x80
NARROW_KEY_GROUPS = 128
"""With more key groups than this their numbers take two bytes."""


def prefix_size(max_parallelism: int) -> int:
    """Return the number of bytes of a key group's number."""
    return 1 if max_parallelism <= NARROW_KEY_GROUPS else 2


Pair = tuple[bytes, bytes]
"""A key, without the number of its key group, and a value."""


class CanonicalGroups:
    """Decodes key groups of one file in the canonical layout."""

    def __init__(self, header: KeyedHeader, prefix: int) -> None:
        self._states, self._prefix = header.states, prefix
        self._decoders = {
            state.name: (PairDecoder(state, prefix), pair_layout(state, prefix)) for state in self._states
        }

    def decode(self, group: int, data: bytes, wanted: Container[str], into: Mapping[str, Rows]) -> None:
        """Add the rows of the wanted states in one key group, whose bytes `data` is. Raises CheckpointError."""
        reader = Reader(data)
        for state in self._states_in(reader):
            if state.name in wanted:
                self._state(state, group, reader, into[state.name])
            else:
                _skip(reader)

    def measure(self, group: int, data: bytes) -> Measures:
        """Return the entries and the bytes of each state in one key group. Raises CheckpointError."""
        reader, found = Reader(data), Measures()
        for state in self._states_in(reader):
            start = reader.at - 2
            many = _skip_all(self._decoders[state.name][1], reader) or _skip(reader)
            found.add(state.name, many, reader.at - start)
        return found

    def pairs(self, group: int, data: bytes) -> Iterator[tuple[KeyedState, list[Pair]]]:
        """Yield the states in one key group with their pairs, as they are. Raises CheckpointError."""
        reader = Reader(data)
        for state in self._states_in(reader):
            yield state, _pairs(reader, self._prefix)

    def _states_in(self, reader: Reader) -> Iterator[KeyedState]:
        """Yield each state in a key group, when the reader is at its pairs. Nothing may follow the end of the group."""
        while (number := reader.uint16()) != END_OF_GROUP:
            if number >= len(self._states):
                raise reader.error(f"state {number}", f"one of the {len(self._states)} of the file, or the end")
            yield self._states[number]
        if reader.left:
            raise reader.error(f"{reader.left} bytes behind the mark of the end", "the end of the key group")

    def _state(self, state: KeyedState, group: int, reader: Reader, rows: Rows) -> None:
        decoder, layout = self._decoders[state.name]
        if layout is not None and _take_all(state, layout, group, reader, rows):
            return
        last = False
        while not last:
            start = reader.at
            key = reader.blob("bytes of a key")
            if not key:
                raise reader.error("an empty key", "a key group's number at least")
            last = key[0] >= LAST_OF_STATE
            value = reader.blob("bytes of a value")
            try:
                decoder.add(rows, group, key, value)
            except CheckpointError as error:
                raise error.moved(start + SIZE_BYTES).about(f"state {state.name!r}, key group {group}") from error


def _pairs(reader: Reader, prefix: int) -> list[Pair]:
    found: list[Pair] = []
    last = False
    while not last:
        key = reader.blob("bytes of a key")
        if len(key) < prefix:
            raise reader.error(f"a key of {len(key)} bytes", "a key group's number at least")
        last = key[0] >= LAST_OF_STATE
        found.append((key[prefix:], reader.blob("bytes of a value")))
    return found


def _skip(reader: Reader) -> int:
    """Skip all pairs of a state, and return their number."""
    last, many = False, 0
    while not last:
        size = reader.count("bytes of a key")
        last = size > 0 and reader.data[reader.at] >= LAST_OF_STATE
        reader.skip(size)
        reader.skip(reader.count("bytes of a value"))
        many += 1
    return many


def _skip_all(layout: np.dtype[Any] | None, reader: Reader) -> int:
    """Skip all pairs of a state at once, and return their number; 0, with nothing read, if their sizes differ."""
    data = None if layout is None else _alike(layout, reader)
    if data is None:
        return 0
    reader.skip(len(data) * data.dtype.itemsize)
    return len(data)


def _take_all(state: KeyedState, layout: np.dtype[Any], group: int, reader: Reader, rows: Rows) -> bool:
    """Decode all pairs of a state at once; False, with nothing read, if they are not all of the same size."""
    data = _alike(layout, reader)
    if data is None:
        return False
    rows.add_all(group, data)
    reader.skip(len(data) * layout.itemsize)
    return True


def _alike(layout: np.dtype[Any], reader: Reader) -> np.ndarray[Any, Any] | None:
    """Return all pairs of a state as an array; None if they are not all of the same size."""
    many = reader.left // layout.itemsize
    if many == 0:
        return None
    data = np.frombuffer(reader.data, layout, many, reader.at)
    first_bytes = np.frombuffer(data, np.uint8).reshape(len(data), layout.itemsize)[:, SIZE_BYTES]
    marked = first_bytes >= LAST_OF_STATE
    end = int(np.argmax(marked)) + 1
    if not marked[end - 1]:
        return None
    data = data[:end]
    end_of_key = layout.fields["value_size"][1]  # type: ignore[index]
    key_size, value_size = end_of_key - SIZE_BYTES, layout.itemsize - end_of_key - SIZE_BYTES
    if (data["key_size"] != key_size).any() or (data["value_size"] != value_size).any():
        return None
    if "null" in (layout.names or ()) and data["null"].any():
        return None
    return data


class CanonicalWriter:
    """Writes keyed state of one subtask in the canonical layout, a key group at a time, uncompressed."""

    def __init__(
        self, out: Callable[[bytes], object], raw_key: bytes, states: Sequence[KeyedState], max_parallelism: int
    ) -> None:
        self._out, self._prefix = out, prefix_size(max_parallelism)
        self._numbers = {state.name: number for number, state in enumerate(states)}
        head = keyed_header(raw_key, states)
        out(head)
        self.size = len(head)

    def write(self, group: int, states: Mapping[str, Sequence[Pair]]) -> int:
        """Write the pairs of one key group by the names of their states; return its offset, 0 if there are none."""
        prefix = group.to_bytes(self._prefix, "big")
        marked = bytes([prefix[0] | LAST_OF_STATE]) + prefix[1:]
        parts: list[bytes] = []
        for name, pairs in states.items():
            if not pairs:
                continue
            parts.append(self._numbers[name].to_bytes(2, "big"))
            for key, value in pairs[:-1]:
                parts += (_size(self._prefix + len(key)), prefix, key, _size(len(value)), value)
            key, value = pairs[-1]
            parts += (_size(self._prefix + len(key)), marked, key, _size(len(value)), value)
        if not parts:
            return 0
        offset = self.size
        parts.append(END_OF_GROUP.to_bytes(2, "big"))
        held = b"".join(parts)
        self._out(held)
        self.size += len(held)
        return offset


def _size(number: int) -> bytes:
    return number.to_bytes(4, "big")
