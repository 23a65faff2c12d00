"""The layout of keyed state that the heap's own snapshots have: checkpoints, and native savepoints.

Per key group: its number, then for each state its number, the number of entries, and these: namespace, key, value.
With compression each state is a stream of its own.

A value that only Java code can read has no length. If the whole value is such a one, its end is searched: what follows
must be entries whose keys belong to this key group, up to the end of its bytes. Keys with such a part, and values with
one inside a map, a list, a POJO or a wrapper for TTL, are refused: a search among their bytes finds entries that no one
wrote. So is the rest of the key group, since nothing says where it begins.

Flink: `HeapSnapshotStrategy`, `HeapRestoreOperation`, `StateTableByKeyGroupReaders`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from kit.core.state.errors import CheckpointError, DamagedError
from kit.snapshots.formats.canonical import Pair
from kit.snapshots.formats.compression import UNCOMPRESSED, streams_of
from kit.snapshots.formats.headers import LIST, TIMER, KeyedHeader, KeyedState
from kit.snapshots.formats.rows import JOINER, Measures, Rows, composite_key, read_opaque
from kit.snapshots.serializers.opaque import Opaque, cannot_be_read
from kit.snapshots.serializers.reading import Reader
from kit.snapshots.serializers.types import Mapping as MapType
from kit.snapshots.serializers.types import Type, bounded
from kit.stream.backend.keys.key_hashing import assign_to_key_group

GROUP_BYTES = 4
"""The bytes of a key group's number."""


class HeapGroups:
    """Decodes key groups of one file in the heap's layout."""

    def __init__(self, header: KeyedHeader, max_parallelism: int) -> None:
        self._header, self._max_parallelism = header, max_parallelism
        self._layouts = {state.name: entry_layout(state) for state in header.states}

    def decode(self, group: int, data: bytes, wanted: Container[str], into: Mapping[str, Rows]) -> None:
        """Add the rows of the wanted states in one key group, whose bytes `data` is. Raises CheckpointError."""
        missing = {state.name for state in self._header.states if state.name in wanted}
        for part in self._parts(group, data):
            with self._uncompressed(), _AfterSearch() as searched:
                while part.left:
                    state, many = self._next_state(part)
                    unread = self._unreadable_part(state) if many else None
                    if unread is not None:
                        self._refuse(state, unread, missing)
                        break
                    searched.add(state, many)
                    self._rows(part, state, many, group, into[state.name] if state.name in wanted else Rows(state))
                    missing.discard(state.name)

    def _refuse(self, state: KeyedState, unread: Type, missing: Collection[str]) -> None:
        """Raise CheckpointError if a state that is still missing is this one, or follows it in the same stream."""
        if state.name in missing:
            raise _cannot_be_read(state, unread)
        if missing and not self._header.is_compressed:
            raise _cannot_be_read(state, unread, min(missing))

    def measure(self, group: int, data: bytes) -> Measures:
        """Return the entries and the bytes of each state in one key group. Raises CheckpointError.

        Compressed bytes are counted as they are without compression.
        """
        found = Measures()
        for part in self._parts(group, data):
            with self._uncompressed(), _AfterSearch() as searched:
                while part.left:
                    start = part.at
                    state, many = self._next_state(part)
                    unread = self._unreadable_part(state) if many else None
                    if unread is not None:
                        raise _cannot_be_read(state, unread)
                    searched.add(state, many)
                    self._rows(part, state, many, group, Rows(state))
                    found.add(state.name, many, part.at - start)
        return found

    def pairs(self, group: int, data: bytes) -> Iterator[tuple[KeyedState, list[Pair]]]:
        """Yield the states in one key group with their pairs in the canonical layout.

        Raises CheckpointError, also for values whose ends only Java code can find.
        """
        for part in self._parts(group, data):
            with self._uncompressed():
                while part.left:
                    state, many = self._next_state(part)
                    if many:
                        yield state, self._pairs(state, part, many)

    def _pairs(self, state: KeyedState, reader: Reader, many: int) -> list[Pair]:
        if state.value.is_opaque or state.key.is_opaque or state.namespace.is_opaque:
            opaque = next(each for each in (state.key, state.namespace, state.value) if each.is_opaque)
            raise _cannot_be_read(state, opaque)
        found: list[Pair] = []
        for _ in bounded(reader, many):
            found += _entry_pairs(state, reader)
        return found

    def _next_state(self, reader: Reader) -> tuple[KeyedState, int]:
        """Read which state follows, and its number of entries."""
        number, many = reader.int16(), reader.int32()
        if not 0 <= number < len(self._header.states) or many < 0:
            raise reader.error(f"state {number} with {many} entries", f"a state of {len(self._header.states)}")
        return self._header.states[number], many

    def _parts(self, group: int, data: bytes) -> Iterator[Reader]:
        """Yield the streams of a key group: one, or one for each state if they are compressed."""
        reader = Reader(data)
        found = reader.int32()
        if found != group:
            raise reader.error(f"key group {found}", f"key group {group}")
        if not self._header.is_compressed:
            yield reader
            return
        start = reader.at
        try:
            for stream in streams_of(reader.rest()):
                yield Reader(stream)
        except DamagedError as error:
            raise error.moved(start) from error

    @contextmanager
    def _uncompressed(self) -> Iterator[None]:
        """Say of an error in compressed state that its place counts uncompressed bytes."""
        try:
            yield
        except DamagedError as error:
            if not self._header.is_compressed:
                raise
            raise error.inside(UNCOMPRESSED).moved(GROUP_BYTES) from error

    def _rows(self, reader: Reader, state: KeyedState, many: int, group: int, rows: Rows) -> None:
        """Read the entries of a state into its rows."""
        layout = self._layouts[state.name]
        if layout is not None and many:
            data = np.frombuffer(reader.take(many * layout.itemsize), layout)
            rows.add_all(group, data)
            return
        try:
            for left in bounded(reader, many):
                self._entry(state, reader, group, rows, many - left - 1)
        except CheckpointError as error:
            raise error.about(f"state {state.name!r}, key group {group}") from error

    def _entry(self, state: KeyedState, reader: Reader, group: int, rows: Rows, more: int) -> None:
        if state.kind == TIMER:
            time_ms, key, namespace = state.value.read(reader)
            rows.add(group, key, namespace, None, time_ms)
            return
        namespace, key = state.namespace.read(reader), state.key.read(reader)
        if state.value.is_opaque:
            end = self._end_of_opaque(state, reader, group, more)
            value = read_opaque(Reader(reader.data, reader.at, end), state)
            reader.at = end
        else:
            value = state.value.read(reader)
        if state.map_key is None or not isinstance(value, list):
            rows.add(group, key, namespace, None, value)
            return
        for map_key, each in value:
            rows.add(group, key, namespace, map_key, each)

    def _end_of_opaque(self, state: KeyedState, reader: Reader, group: int, more: int) -> int:
        """Return where a value without a length ends. Raises CheckpointError if nothing fits."""
        for alike in (True, False):  # values of one class mostly begin with the same byte
            found = _Search(self, state, reader, group, alike=alike).end(reader.at, more, LOOKAHEAD)
            if found is not None:
                return found
        raise _cannot_be_read(state, state.value)

    def _unreadable_part(self, state: KeyedState) -> Type | None:
        """Return the part of a state whose end is neither known here nor can be searched; None if there is none."""
        for part in (state.key, state.namespace):
            if part.is_opaque:
                return part
        is_searched = state.key.name in HASHED and self._max_parallelism >= LEAST_SEARCHED
        if not state.value.is_opaque or (isinstance(state.value, Opaque) and is_searched):
            return None
        return state.value

    def follows(self, state: KeyedState, reader: Reader, group: int) -> bool:
        """Return True if another state's entries, or the end of the key group, may be where the reader is."""
        if not reader.left:
            return True
        number, many = reader.int16(), reader.int32()
        if not 0 <= number < len(self._header.states) or not 0 <= many <= reader.left:
            return False
        following = self._header.states[number]
        if following.name == state.name:
            return False
        if many == 0:
            return self.follows(following, reader, group)
        if following.kind == TIMER:
            reader.int64()
        else:
            following.namespace.read(reader)
        return self.is_of(group, following.key, following.key.read(reader))

    def is_of(self, group: int, type_: Type, key: Any) -> bool:
        """Return True if a key belongs to the key group, or its type's hash is not known here."""
        if type_.name not in HASHED or key is None:
            return True
        return assign_to_key_group(key, self._max_parallelism, type_.arrow) == group


def _entry_pairs(state: KeyedState, reader: Reader) -> Iterator[Pair]:
    """Read one entry; yield its pairs: one for each entry of a map, none for an empty list."""
    if state.kind == TIMER:
        yield _bytes_of(state.value.read, reader), b""
        return
    namespace, key = _bytes_of(state.namespace.read, reader), _bytes_of(state.key.read, reader)
    if state.kind == LIST:
        elements = [_bytes_of(state.stored.read, reader) for _ in bounded(reader, reader.count("elements", 0))]
        if elements:
            yield composite_key(state, key, namespace), bytes([JOINER]).join(elements)
        return
    if not isinstance(state.value, MapType) or state.map_key is None:
        yield composite_key(state, key, namespace), _bytes_of(state.value.read, reader)
        return
    for _ in bounded(reader, reader.count("entries", 0)):
        map_key = _bytes_of(state.value.read_key, reader)
        yield composite_key(state, key, namespace, map_key), _bytes_of(state.value.read_value, reader)


def _bytes_of(read: Callable[[Reader], object], reader: Reader) -> bytes:
    """Return the bytes of one value, which `read` reads."""
    start = reader.at
    read(reader)
    return reader.data[start : reader.at]


def _cannot_be_read(state: KeyedState, type_: Type, follower: str = "") -> CheckpointError:
    return cannot_be_read(state.name, type_, follower=follower, advice=CANONICAL)


CANONICAL = "take a savepoint in canonical format with Flink, which has the length of each value, and open that"
LOOKAHEAD = 3
"""How many of the entries that follow must fit for the end of a value to be believed."""
MOST_TRIES = 200_000


class _Search:
    """The search for the end of a value in bytes that say nothing of it."""

    def __init__(self, groups: HeapGroups, state: KeyedState, reader: Reader, group: int, *, alike: bool) -> None:
        self._groups, self._state, self._reader, self._group = groups, state, reader, group
        self._first = reader.data[reader.at : reader.at + 1] if alike else b""
        self._tries = 0

    def end(self, start: int, more: int, deep: int) -> int | None:
        """Return the first end of a value at `start` behind which `more` entries of its state may follow."""
        for end in range(start + 1, self._reader.end + 1):
            self._tries += 1
            if self._tries > MOST_TRIES:
                return None
            if self._fits(end, more, deep):
                return end
        return None

    def _fits(self, end: int, more: int, deep: int) -> bool:
        reader = Reader(self._reader.data, end, self._reader.end)
        try:
            if not more:
                return self._groups.follows(self._state, reader, self._group)
            self._state.namespace.read(reader)
            key = self._state.key.read(reader)
        except CheckpointError:
            return False
        if not self._groups.is_of(self._group, self._state.key, key):
            return False
        if not reader.data.startswith(self._first, reader.at):
            return False
        return deep == 0 or self.end(reader.at, more - 1, deep - 1) is not None


class _AfterSearch:
    """A context that knows if the ends of values were searched: then bytes that do not fit may not be damaged.

    In it, an error of damaged bytes is replaced by one that says which type cannot be read.
    """

    def __init__(self) -> None:
        self._state: KeyedState | None = None

    def __enter__(self) -> _AfterSearch:
        return self

    def add(self, state: KeyedState, many: int) -> None:
        """Note the entries of a state."""
        if many and state.value.is_opaque:
            self._state = state

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._state is not None and isinstance(error, DamagedError):
            raise _cannot_be_read(self._state, self._state.value) from error


HASHED = ("Long", "Integer", "Short", "Byte", "String")
"""Types of keys whose key group is computed to tell a key from other bytes."""
LEAST_SEARCHED = 64
"""With fewer key groups too many other bytes look like a key of the right one, so no end is searched."""


def entry_layout(state: KeyedState) -> np.dtype[Any] | None:
    """Return the layout of one entry; None unless all have the same."""
    key, namespace, value = state.key.dtype, state.namespace.dtype, state.value.dtype
    if key is None or namespace is None or state.kind == LIST or state.map_key is not None:
        return None
    if state.kind == TIMER:
        return np.dtype([("value", ">u8"), ("key", key), ("namespace", namespace)])
    return None if value is None else np.dtype([("namespace", namespace), ("key", key), ("value", value)])
