"""The layout of keyed state that the heap's own snapshots have: checkpoints, and native savepoints.

Per key group: its number, then for each state its number, the number of entries, and these: namespace, key, value.
With compression each state is a stream of its own.

A value that only Java code can read has no length. If the whole value is such a one, its end is searched: where an
entry may begin, with a key of this key group. If there are more such places than entries, the state is refused, since
nobody knows which of them are entries. Keys with such a part are refused as well, and values with one inside a map, a
list, a POJO or a wrapper for TTL. So is the rest of the key group, since nothing says where it begins.

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

STATE_BYTES = 6
"""The bytes of a state's number and its number of entries."""
Numbers = frozenset[int]
"""Numbers of states in the header."""
GROUP_BYTES = 4
"""The bytes of a key group's number."""


class HeapGroups:
    """Decodes key groups of one file in the heap's layout."""

    def __init__(self, header: KeyedHeader, max_parallelism: int) -> None:
        self._header, self._max_parallelism = header, max_parallelism
        self._layouts = {state.name: entry_layout(state) for state in header.states}

    @property
    def states(self) -> int:
        """The number of states."""
        return len(self._header.states)

    def decode(self, group: int, data: bytes, wanted: Container[str], into: Mapping[str, Rows]) -> None:
        """Add the rows of the wanted states in one key group, whose bytes `data` is. Raises CheckpointError."""
        missing = {state.name for state in self._header.states if state.name in wanted}
        for part in self._parts(group, data):
            with self._uncompressed(), _AfterSearch() as searched:
                for state, many, left in self._states_in(part):
                    unread = self._unreadable_part(state) if many else None
                    if unread is not None:
                        self._refuse(state, unread, missing)
                        break
                    searched.add(state, many)
                    rows = into[state.name] if state.name in wanted else Rows(state)
                    self._rows(part, state, many, group, rows, left)
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
                for state, many, left in self._states_in(part):
                    start = part.at - STATE_BYTES
                    unread = self._unreadable_part(state) if many else None
                    if unread is not None:
                        raise _cannot_be_read(state, unread)
                    searched.add(state, many)
                    self._rows(part, state, many, group, Rows(state), left)
                    found.add(state.name, many, part.at - start)
        return found

    def pairs(self, group: int, data: bytes) -> Iterator[tuple[KeyedState, list[Pair]]]:
        """Yield the states in one key group with their pairs in the canonical layout.

        Raises CheckpointError, also for values whose ends only Java code can find.
        """
        for part in self._parts(group, data):
            with self._uncompressed():
                for state, many, _ in self._states_in(part):
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

    def _states_in(self, reader: Reader) -> Iterator[tuple[KeyedState, int, Numbers]]:
        """Yield each state where its entries begin, with their number, and the numbers of the states that follow."""
        left = frozenset(range(self.states))
        while reader.left:
            state, many = self._next_state(reader)
            left -= {self._header.states.index(state)}
            yield state, many, left

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

    def _rows(self, reader: Reader, state: KeyedState, many: int, group: int, rows: Rows, left: Numbers) -> None:
        """Read the entries of a state into its rows; the states with the numbers `left` follow."""
        layout = self._layouts[state.name]
        if layout is not None and many:
            data = np.frombuffer(reader.take(many * layout.itemsize), layout)
            rows.add_all(group, data)
            return
        try:
            ends = None
            if state.value.is_opaque and many:
                ends = self._ends_of_opaque(state, reader, group, many, left)
            for number in bounded(reader, many):
                self._entry(state, reader, group, rows, None if ends is None else ends[number])
        except CheckpointError as error:
            raise error.about(f"state {state.name!r}, key group {group}") from error

    def _entry(self, state: KeyedState, reader: Reader, group: int, rows: Rows, end: int | None) -> None:
        if state.kind == TIMER:
            time_ms, key, namespace = state.value.read(reader)
            rows.add(group, key, namespace, None, time_ms)
            return
        namespace, key = state.namespace.read(reader), state.key.read(reader)
        if end is not None:
            value = read_opaque(Reader(reader.data, reader.at, end), state)
            reader.at = end
        else:
            value = state.value.read(reader)
        if state.map_key is None or not isinstance(value, list):
            rows.add(group, key, namespace, None, value)
            return
        for map_key, each in value:
            rows.add(group, key, namespace, map_key, each)

    def _ends_of_opaque(self, state: KeyedState, reader: Reader, group: int, many: int, left: Numbers) -> list[int]:
        """Return where values without a length end. Raises CheckpointError if that is not known."""
        for alike in ALIKE:
            found = _Search(self, state, reader, group, alike, left).ends(many)
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

    def follows(self, reader: Reader, group: int, left: Numbers) -> bool:
        """Return True if other states, or without any the end of the key group, may be where the reader is.

        A key group has all states, those with the numbers `left` after this one; a compressed stream has one.
        """
        if not left or self._header.is_compressed:
            return not reader.left
        number, many = reader.int16(), reader.int32()
        if number not in left or not 0 <= many <= reader.left:
            return False
        state = self._header.states[number]
        is_known = not state.value.is_opaque
        for _ in bounded(reader, many):
            if state.kind == TIMER:
                state.value.read(reader)
                continue
            state.namespace.read(reader)
            if not self.is_of(group, state.key, state.key.read(reader)):
                return False
            if not is_known:
                return True
            state.value.read(reader)
        return self.follows(reader, group, left - {number})

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
ALIKE = (2, 1, 0)
"""With how many bytes all values begin alike: mostly with the number of their class, and a mark of their own."""
MOST_TRIES = 2_000_000
MOST_STATES_OF_A_ZERO = 256
"""With so many states the first byte of a state's number is 0."""


class _Search:
    """The search for the ends of values in bytes that say nothing of them.

    An entry may begin wherever its namespace, a key of this key group and the first bytes of a value may be. If there
    are exactly as many such places as entries, up to the first one from which all other states can be read, these are
    the entries. If there are more, nobody knows which are.
    """

    def __init__(
        self, groups: HeapGroups, state: KeyedState, reader: Reader, group: int, alike: int, left: Numbers
    ) -> None:
        self._groups, self._state, self._group, self._left = groups, state, group, left
        self._data, self._start, self._end = reader.data, reader.at, reader.end
        self._alike = alike
        self._follows_zero = not state.has_namespace and groups.states <= MOST_STATES_OF_A_ZERO

    def ends(self, many: int) -> list[int] | None:
        """Return the ends of the values of this many entries, None if they are not known."""
        first = self._value_at(self._start)
        if first is None:
            return None
        alike = self._data[first : min(first + self._alike, self._end)]
        begins, last = [self._start], first
        for tries, place in enumerate(self._places(first + 1)):
            if tries > MOST_TRIES or len(begins) > many:
                return None
            if place > last and len(begins) == many and self._may_end(place):
                return [*begins[1:], place]
            value = self._value_at(place)
            if value is not None and self._data.startswith(alike, value) and value + self._alike <= self._end:
                begins.append(place)
                last = value
        return None

    def _places(self, start: int) -> Iterator[int]:
        """Yield where a value may end: what follows begins with a byte of 0, mostly."""
        if not self._follows_zero:
            yield from range(start, self._end + 1)
            return
        while (start := self._data.find(0, start, self._end)) >= 0:
            yield start
            start += 1
        yield self._end

    def _value_at(self, place: int) -> int | None:
        """Return where the value of an entry begins that may begin at a place; None if none may."""
        reader = Reader(self._data, place, self._end)
        try:
            self._state.namespace.read(reader)
            key = self._state.key.read(reader)
        except CheckpointError:
            return None
        return reader.at if reader.left and self._groups.is_of(self._group, self._state.key, key) else None

    def _may_end(self, place: int) -> bool:
        try:
            return self._groups.follows(Reader(self._data, place, self._end), self._group, self._left)
        except CheckpointError:
            return False


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
