"""Keyed state of one subtask, in whichever layout it was written: what states it has, and their rows by key group."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain, pairwise
from typing import Any

import pyarrow as pa

from kit.core.arrow_size import size_of
from kit.core.state.errors import CheckpointError, DamagedError, StateRestoreError
from kit.core.state.handles import (
    ChangelogStateBackendHandle,
    ChangelogStateHandle,
    IncrementalRemoteKeyedStateHandle,
    KeyGroupsSavepointStateHandle,
    KeyGroupsStateHandle,
)
from kit.snapshots.checkpoints.state_bytes import FileCheck, How, StateBytes, Stream
from kit.snapshots.formats.canonical import CanonicalGroups, Pair, prefix_size
from kit.snapshots.formats.compression import UNCOMPRESSED, decompressed
from kit.snapshots.formats.headers import TIMER, KeyedHeader, KeyedState, read_keyed_header
from kit.snapshots.formats.heap import HeapGroups
from kit.snapshots.formats.raw_timers import DOMAINS, TimerService, add_timers, is_timers, read_timers, timer_state_name
from kit.snapshots.formats.rocksdb import SstGroups
from kit.snapshots.formats.rows import Measures, Rows
from kit.snapshots.formats.sst import SstFile
from kit.snapshots.serializers.reading import Decoders
from kit.snapshots.serializers.types import Type
from kit.stream.backend.files.framing import state_kind, state_name
from kit.stream.backend.files.snapshot import EVENT_TIMERS, MAGIC, PROCESSING_TIMERS, KeyedStateFile
from kit.stream.backend.runs.latest_rows import LatestRows
from kit.stream.backend.runs.manifest import is_manifest
from kit.stream.backend.runs.run_file import is_removal, runs_in_order
from kit.stream.backend.states.last_access import has_last_access

WINDOW_BYTES = 1 << 24
"""How much of a file is read at once; a key group is always read as a whole."""
SST = ".sst"

_KEY_COLUMNS = ("timestamp_ms", "key", "namespace")

RowsOf = Callable[[int], Rows]
"""Where the rows of a key group go."""


@dataclass(frozen=True)
class StateInfo:
    """A state's name, its kind, and the types in it as text; `types` are these types, Arrow's in state of the kit."""

    name: str
    kind: str
    key: str
    namespace: str
    value: str
    types: Mapping[str, Type | pa.DataType] = field(default_factory=dict, compare=False)


def info_of(state: KeyedState) -> StateInfo:
    """Return what a table says of a state."""
    namespace = state.namespace.name if state.has_namespace else ""
    value = "" if state.kind == TIMER else state.value.name
    types = {"key": state.key, "namespace": state.namespace, "value": state.value}
    return StateInfo(state.name, state.kind, state.key.name, namespace, value, types)


class KeyedPart:
    """Keyed state in a layout that Flink writes."""

    states: Mapping[str, KeyedState]

    def infos(self) -> list[StateInfo]:
        """Return the states."""
        return [info_of(state) for state in self.states.values()]

    def groups(self) -> list[int]:
        """Return the key groups that may have rows, in order."""
        raise NotImplementedError

    def sizes(self) -> dict[int, int]:
        """Return the bytes of each key group, as far as key groups have bytes of their own."""
        return {}

    def entries(self) -> dict[int, int]:
        """Return the number of entries in each key group that has any. All are read. Raises CheckpointError."""
        counted = ((group, sum(len(pairs) for _, pairs in self.pairs(group))) for group in self.groups())
        return {group: many for group, many in counted if many}

    def measure(self) -> dict[str, tuple[int, int]]:
        """Return the entries and the bytes of each state, in the files. Raises CheckpointError."""
        raise NotImplementedError

    def file_checks(self) -> Iterator[FileCheck]:
        """Yield a check for each file of the part."""
        raise NotImplementedError

    def decode(self, name: str, groups: Collection[int], into: RowsOf) -> None:
        """Add the rows of a state in these key groups. Raises CheckpointError."""
        raise NotImplementedError

    def pairs(self, group: int) -> Iterator[tuple[KeyedState, list[Pair]]]:
        """Yield the states in a key group with their pairs in the canonical layout. Raises CheckpointError."""
        raise NotImplementedError


class KeyGroupsPart(KeyedPart):
    """One stream that holds key group after key group, canonical or of the heap."""

    def __init__(self, handle: KeyGroupsStateHandle, stream: Stream, max_parallelism: int, decoders: Decoders) -> None:
        self._stream, self._max_parallelism, self._decoders = stream, max_parallelism, decoders
        self._is_savepoint = isinstance(handle, KeyGroupsSavepointStateHandle)
        start = handle.key_group_range.start
        found = {start + place: offset for place, offset in enumerate(handle.offsets) if offset > 0}
        ends = sorted({*found.values(), stream.size})
        if found and ends[-1] > stream.size:
            stream.read(ends[-1], 1)
        following = dict(pairwise(ends))
        self._places = {group: (offset, following.get(offset, offset)) for group, offset in found.items()}

    @cached_property
    def header(self) -> KeyedHeader:
        """The head of the stream."""
        end = min((start for start, _ in self._places.values()), default=self._stream.size)
        with self._stream.damage_from(0):
            return read_keyed_header(self._stream.read(0, end), self._decoders)

    @property
    def states(self) -> Mapping[str, KeyedState]:  # type: ignore[override]
        return {state.name: state for state in self.header.states}

    def groups(self) -> list[int]:
        return sorted(self._places)

    def sizes(self) -> dict[int, int]:
        return {group: end - start for group, (start, end) in sorted(self._places.items())}

    @cached_property
    def _decoder(self) -> CanonicalGroups | HeapGroups:
        if self._is_savepoint or not self._is_heap():
            return CanonicalGroups(self.header, prefix_size(self._max_parallelism))
        return HeapGroups(self.header, self._max_parallelism)

    def _is_heap(self) -> bool:
        """Return True if every key group begins with its number, as the heap writes it.

        RocksDB's full snapshots before Flink 1.16 have the same handle, and the canonical layout.
        """
        for group, (start, end) in self._places.items():
            head = self._stream.read(start, min(4, end - start))
            if int.from_bytes(head, "big") != group:
                return False
            if group == 0 and len(self._places) == 1 and self._stream.read(end - 2, 2) == b"\xff\xff":
                return False  # both begin with zeros; only the canonical layout has this end
        return True

    def measure(self) -> Measures:
        sizes, found = self.sizes(), Measures()
        for group, own in self._measured():
            stored = sizes[group] / (sum(size for _, size in own.values()) or 1) if self.header.is_compressed else 1
            for name, (many, size) in own.items():
                found.add(name, many, round(size * stored))
        return found

    def entries(self) -> dict[int, int]:
        return {group: sum(many for many, _ in own.values()) for group, own in self._measured()}

    def file_checks(self) -> Iterator[FileCheck]:
        yield FileCheck(self._stream.name, self._stream.size, self._check)

    def _check(self) -> How:
        for _ in self._measured():
            pass
        return How.CHECKSUMS if self.header.is_compressed else How.LAYOUT

    def _measured(self) -> Iterator[tuple[int, Measures]]:
        """Yield key groups with the entries and the bytes of each state, not compressed."""
        decoder = self._decoder
        for group, held in self._bytes_of(self._places):
            with self._of_group(group, held) as plain:
                found = decoder.measure(group, plain)
            yield group, found

    def decode(self, name: str, groups: Collection[int], into: RowsOf) -> None:
        for group, held in self._bytes_of(groups):
            with self._of_group(group, held) as plain:
                self._decoder.decode(group, plain, (name,), {name: into(group)})

    @contextmanager
    def _of_group(self, group: int, held: bytes) -> Iterator[bytes]:
        """Yield the bytes of a key group as its decoder takes them; errors name the file and the place in it."""
        with self._stream.damage_from(self._places[group][0]):
            if not self.header.is_compressed or not isinstance(self._decoder, CanonicalGroups):
                yield held
                return
            plain = decompressed(held)
            try:
                yield plain
            except DamagedError as error:
                raise error.inside(UNCOMPRESSED) from None

    def _bytes_of(self, groups: Collection[int]) -> Iterator[tuple[int, bytes]]:
        """Yield key groups with their bytes, in the order of the stream."""
        for window in self._windows(sorted(set(groups) & self._places.keys())):
            first = self._places[window[0]][0]
            data = self._stream.read(first, self._places[window[-1]][1] - first)
            for group in window:
                start, end = self._places[group]
                yield group, data[start - first : end - first]

    def pairs(self, group: int) -> Iterator[tuple[KeyedState, list[Pair]]]:
        start, end = self._places[group]
        held, decoder = self._stream.read(start, end - start), self._decoder
        with self._of_group(group, held) as plain:
            yield from decoder.pairs(group, plain)

    def _windows(self, groups: list[int]) -> Iterator[list[int]]:
        """Yield key groups that follow one another in the stream and are read at once."""
        window: list[int] = []
        for group in sorted(groups, key=self._places.__getitem__):
            start, end = self._places[group]
            if window and (start != self._places[window[-1]][1] or end - self._places[window[0]][0] > WINDOW_BYTES):
                yield window
                window = []
            window.append(group)
        if window:
            yield window


class SstPart(KeyedPart):
    """RocksDB's files, of a full or an incremental checkpoint."""

    def __init__(
        self, handle: IncrementalRemoteKeyedStateHandle, source: StateBytes, max_parallelism: int, decoders: Decoders
    ) -> None:
        self._handle, self._source = handle, source
        self._prefix, self._decoders = prefix_size(max_parallelism), decoders

    @cached_property
    def states(self) -> Mapping[str, KeyedState]:  # type: ignore[override]
        return {state.name: state for state in self.header.states}

    @cached_property
    def header(self) -> KeyedHeader:
        """The names and serializers of the states."""
        stream = self._source.stream(self._handle.meta_state)
        with stream.damage_from(0):
            return read_keyed_header(stream.whole(), self._decoders)

    def groups(self) -> list[int]:
        return list(self._handle.key_group_range)

    @cached_property
    def _families(self) -> Mapping[str, list[SstFile]]:
        """The SST files by the state they belong to."""
        found: dict[str, list[SstFile]] = defaultdict(list)
        for part in (*self._handle.shared_state, *self._handle.private_state):
            if not part.local_path.endswith(SST):
                continue
            stream = self._source.stream(part.handle)
            file = SstFile(stream.read, stream.size, stream.damage_from)
            found[file.column_family].append(file)
        return found

    def file_checks(self) -> Iterator[FileCheck]:
        meta = self._source.stream(self._handle.meta_state)
        yield FileCheck(meta.name, meta.size, self._check_header)
        for part in (*self._handle.shared_state, *self._handle.private_state):
            stream = self._source.stream(part.handle)
            check = partial(_check_table, stream) if part.local_path.endswith(SST) else stream.check_size
            yield FileCheck(stream.name, stream.size, check)

    def _check_header(self) -> How:
        self.infos()  # reads the header
        return How.LAYOUT

    def measure(self) -> dict[str, tuple[int, int]]:
        return {
            name: (sum(file.many_entries for file in files), sum(file.size for file in files))
            for name, files in self._families.items()
            if name in self.states
        }

    def decode(self, name: str, groups: Collection[int], into: RowsOf) -> None:
        decoder = SstGroups(self._families.get(name, []), self._prefix)
        for group in sorted(set(groups) & set(self._handle.key_group_range)):
            decoder.decode(self.states[name], group, into(group))

    def pairs(self, group: int) -> Iterator[tuple[KeyedState, list[Pair]]]:
        for name, state in self.states.items():
            yield state, SstGroups(self._families.get(name, []), self._prefix).pairs(group)


def _check_table(stream: Stream) -> How:
    return How.CHECKSUMS if SstFile(stream.read, stream.size, stream.damage_from).check_blocks() else How.LAYOUT


class RawTimersPart(KeyedPart):
    """Timers in raw keyed state."""

    def __init__(self, handle: KeyGroupsStateHandle, stream: Stream) -> None:
        self._services: dict[int, list[TimerService]] = {}
        self.states: dict[str, KeyedState] = {}
        self._name, self._size = stream.name, stream.size
        start = handle.key_group_range.start
        offsets = sorted({offset for offset in handle.offsets if offset >= 0})
        ends = dict(pairwise([*offsets, stream.size]))
        for place, offset in enumerate(handle.offsets):
            if offset < 0:
                continue
            with stream.damage_from(offset):
                self._services[start + place] = list(read_timers(stream.read(offset, ends[offset] - offset)))
        for service in self._all():
            for domain in DOMAINS:
                state = service.state(domain)
                self.states.setdefault(state.name, state)

    def _all(self) -> Iterator[TimerService]:
        return chain.from_iterable(self._services.values())

    @property
    def heads(self) -> dict[str, bytes]:
        """The name and serializers of each timer service, as they are stored."""
        return {service.name: service.head for service in self._all()}

    def groups(self) -> list[int]:
        return sorted(self._services)

    def file_checks(self) -> Iterator[FileCheck]:
        yield FileCheck(self._name, self._size, lambda: How.LAYOUT)  # all timers were read when the part was opened

    def measure(self) -> dict[str, tuple[int, int]]:
        counted = dict.fromkeys(self.states, 0)
        for service in self._all():
            for domain in DOMAINS:
                counted[timer_state_name(service.name, domain)] += len(service.timers[domain])
        each = self._size / (sum(counted.values()) or 1)
        return {name: (many, round(many * each)) for name, many in counted.items()}

    def decode(self, name: str, groups: Collection[int], into: RowsOf) -> None:
        for group in sorted(set(groups) & self._services.keys()):
            for service in self._services[group]:
                for domain in DOMAINS:
                    if name == timer_state_name(service.name, domain):
                        add_timers(into(group), group, service.timers[domain])

    def pairs(self, group: int) -> Iterator[tuple[KeyedState, list[Pair]]]:
        for service in self._services[group]:
            for domain in DOMAINS:
                yield service.state(domain), service.pairs[domain]


class _ArrowFile:
    """A file of keyed state that the kit wrote: all of it, or one run."""

    def __init__(self, handle: KeyGroupsStateHandle, stream: Stream) -> None:
        self.file, self._name = KeyedStateFile(stream, stream.name), stream.name
        start = handle.key_group_range.start
        self.offsets = {start + place: offset for place, offset in enumerate(handle.offsets) if offset >= 0}
        self._end = stream.size

    def sizes(self) -> dict[int, int]:
        """Return the bytes of each key group."""
        starts = sorted(set(self.offsets.values()))
        ends = dict(pairwise([*starts, self._end]))
        return {group: ends[offset] - offset for group, offset in sorted(self.offsets.items())}

    def batches(self, group: int) -> list[pa.RecordBatch]:
        """Return the rows of a key group, by state. Raises CheckpointError."""
        if group not in self.offsets:
            return []
        try:
            return [batch for _, batch in self.file.key_group(group, self.offsets[group])]
        except StateRestoreError as error:
            raise CheckpointError(str(error)) from error

    def file_check(self) -> FileCheck:
        """Return the check of the file."""
        return FileCheck(self._name, self._end, self._check)

    def _check(self) -> How:
        for group in self.offsets:
            for batch in self.batches(group):
                batch.validate(full=True)
        return How.LAYOUT


class ArrowKeyedPart:
    """Keyed state that the kit wrote: it is in Arrow's columns already, in one file or in runs, oldest first."""

    def __init__(self, files: Iterable[tuple[KeyGroupsStateHandle, Stream]]) -> None:
        self._files = [_ArrowFile(*each) for each in files]

    def infos(self) -> list[StateInfo]:
        """Return the states."""
        schemas = (schema for each in self._files for schema in each.file.schemas)
        known = {state_name(schema): schema for schema in schemas if not is_removal(schema)}
        return [_own_info(schema) for schema in known.values()]

    def groups(self) -> list[int]:
        """Return the key groups that have rows, or had some, in order."""
        return sorted({group for each in self._files for group in each.offsets})

    def sizes(self) -> dict[int, int]:
        """Return the bytes of each key group, in all runs together."""
        found: Counter[int] = Counter()
        for each in self._files:
            found.update(each.sizes())
        return dict(sorted(found.items()))

    def entries(self) -> dict[int, int]:
        """Return the number of rows in each key group that has any. All are read. Raises CheckpointError."""
        tables = (each for info in self.infos() for each in self.tables(info.name, self.groups()))
        counted: Counter[int] = Counter()
        for group, table in tables:
            counted[group] += table.num_rows
        return {group: rows for group, rows in counted.items() if rows}

    def measure(self) -> dict[str, tuple[int, int]]:
        """Return the rows and the bytes of each state; a key group's bytes are divided as its columns are large."""
        found = Measures()
        for group, size in self.sizes().items():
            own = {info.name: [table for _, table in self.tables(info.name, (group,))] for info in self.infos()}
            total = sum(size_of(table) for tables in own.values() for table in tables) or 1
            for name, tables in own.items():
                share = sum(size_of(table) for table in tables) / total
                found.add(name, sum(map(len, tables)), round(size * share))
        return found

    def file_checks(self) -> Iterator[FileCheck]:
        """Yield a check for each file of the part."""
        return (each.file_check() for each in self._files)

    def tables(self, name: str, groups: Collection[int]) -> Iterator[tuple[int, pa.Table]]:
        """Yield the rows of a state, by key group. Raises CheckpointError."""
        for group in sorted(set(groups) & set(self.groups())):
            runs = [
                [batch for batch in each.batches(group) if state_name(batch.schema) == name] for each in self._files
            ]
            found = _left_of(list(filter(None, runs)))
            if found is None:
                continue
            rows = found.replace_schema_metadata(None)
            if state_kind(found.schema) in (EVENT_TIMERS, PROCESSING_TIMERS):
                names = ["time_ms" if each == "timestamp_ms" else each for each in rows.column_names]
                rows = rows.rename_columns(names)
                rows = rows.select([*(each for each in names if each != "time_ms"), "time_ms"])
            numbers = pa.array([group] * rows.num_rows, pa.int32())
            yield group, rows.add_column(0, "key_group", numbers)


def _left_of(runs: list[list[pa.RecordBatch]]) -> pa.Table | None:
    """Return the rows that runs leave of one state in one key group; None if none of them set any."""
    split = [_removed_and_set(run) for run in runs]
    first = next((batch for _, kept in split for batch in kept), None)
    if first is None or len(runs) == 1:
        return None if first is None else pa.Table.from_batches(split[0][1])
    latest = LatestRows(first.schema, [name for name in first.schema.names if name in _KEY_COLUMNS])
    for removed, kept in split:
        latest.add(removed, kept)
    return latest.table()


def _removed_and_set(run: list[pa.RecordBatch]) -> tuple[list[pa.RecordBatch], list[pa.RecordBatch]]:
    """Return the batches of keys that a run removes, and those of rows that it sets."""
    removed = [batch for batch in run if is_removal(batch.schema)]
    return removed, [batch for batch in run if not is_removal(batch.schema)]


def _own_info(schema: pa.Schema) -> StateInfo:
    kind = state_kind(schema)
    types = {field.name: field.type for field in schema}
    key, namespace, value = (str(types.get(each, "")) for each in ("key", "namespace", "value"))
    if kind in (EVENT_TIMERS, PROCESSING_TIMERS):
        kind = TIMER
    if has_last_access(schema):
        value = f"Ttl<{value}>"  # as types of Flink are named
    return StateInfo(state_name(schema), kind, key, namespace, value, types)


def parts_of(
    handles: Collection[Any], raw: Collection[Any], source: StateBytes, max_parallelism: int, decoders: Decoders
) -> Iterator[KeyedPart | ArrowKeyedPart]:
    """Yield the parts of one subtask's managed and raw keyed state. Raises CheckpointError."""
    for handle in handles:
        yield from _managed(handle, source, max_parallelism, decoders)
    for handle in raw:
        stream = source.stream(handle)
        first = min((offset for offset in handle.offsets if offset >= 0), default=None)
        if first is not None and is_timers(stream.read(first, min(8, stream.size - first))):
            yield RawTimersPart(handle, stream)


def _managed(
    handle: Any, source: StateBytes, max_parallelism: int, decoders: Decoders
) -> Iterator[KeyedPart | ArrowKeyedPart]:
    if isinstance(handle, KeyGroupsStateHandle):
        stream = source.stream(handle)
        if stream.read(0, min(len(MAGIC), stream.size)) == MAGIC:
            yield ArrowKeyedPart([(handle, stream)])
        else:
            yield KeyGroupsPart(handle, stream, max_parallelism, decoders)
    elif isinstance(handle, IncrementalRemoteKeyedStateHandle):
        manifest = source.stream(handle.meta_state).whole()
        if is_manifest(manifest):
            yield ArrowKeyedPart(_runs(handle, manifest, source))
        else:
            yield SstPart(handle, source, max_parallelism, decoders)
    elif isinstance(handle, ChangelogStateBackendHandle):
        if any(each.state_size for each in handle.non_materialized):
            raise CheckpointError(_CHANGELOG)
        for each in handle.materialized:
            yield from _managed(each, source, max_parallelism, decoders)
    elif isinstance(handle, ChangelogStateHandle):
        raise CheckpointError(_CHANGELOG)


def _runs(
    handle: IncrementalRemoteKeyedStateHandle, manifest: bytes, source: StateBytes
) -> Iterator[tuple[KeyGroupsStateHandle, Stream]]:
    """Yield the runs of incremental state that the kit wrote, oldest first. Raises CheckpointError."""
    try:
        for _, key_groups, _ in runs_in_order(handle, manifest, lambda file: source.stream(file).slice):
            yield key_groups, source.stream(key_groups)
    except StateRestoreError as error:
        raise CheckpointError(str(error)) from error


_CHANGELOG = (
    "this keyed state is a changelog, whose values are not decoded here: take a savepoint in canonical format, or open "
    "a checkpoint of a job without the changelog backend"
)
