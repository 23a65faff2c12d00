"""One checkpoint or savepoint, ours or Flink's, opened for reading."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import fs

from kit.advice import ParallelismPlan
from kit.core.arguments.checks import flag_given
from kit.core.display import display
from kit.core.metadata import CheckpointMetadata, MetadataVersion
from kit.core.metadata.versions import V5
from kit.core.state.errors import CheckpointError, StateError
from kit.core.state.handles import KeyGroupRange
from kit.core.state.operator_state import OperatorState
from kit.files.storage import StateFiles
from kit.restore_check import Finding, Match, RestoreCheck, check_restore
from kit.restore_check.job_shape import Job, Parallelism, shape_of
from kit.run.sizes import size_text
from kit.snapshots.checkpoints import frames, pages
from kit.snapshots.checkpoints.checking import declared_in, not_as_declared, types_changed, with_types
from kit.snapshots.checkpoints.difference import CheckpointDiff
from kit.snapshots.checkpoints.frames import FoundFile
from kit.snapshots.checkpoints.in_flight import records_in_flight
from kit.snapshots.checkpoints.key_plan import plan_of
from kit.snapshots.checkpoints.keyed_parts import ArrowKeyedPart, KeyedPart, StateInfo
from kit.snapshots.checkpoints.located import groups_of, keyed_bytes, list_names, located
from kit.snapshots.checkpoints.naming import errors_about, label, operator_named, with_uids
from kit.snapshots.checkpoints.one_key import OneKey
from kit.snapshots.checkpoints.outside import Outside, of_sink, of_source
from kit.snapshots.checkpoints.state_bytes import Listing, StateBytes
from kit.snapshots.checkpoints.state_parts import StateParts
from kit.snapshots.checkpoints.storage import Storage, measured
from kit.snapshots.checkpoints.verification import Verification, VerifiedFile, verified
from kit.snapshots.checkpoints.versioned_items import COMMITTER_STATE, SOURCE_READER_STATE
from kit.snapshots.conditions import Conditions
from kit.snapshots.formats.rows import Rows
from kit.snapshots.given_keys import KeyType, key_from_text
from kit.snapshots.serializers.opaque import Decode
from kit.snapshots.serializers.reading import Decoders
from kit.snapshots.serializers.type_names import type_named
from kit.snapshots.serializers.types import Type
from kit.snapshots.surgery.drafts import Origin
from kit.snapshots.surgery.edit import Edit
from kit.stream.api import StreamEnvironment
from kit.stream.graph.job_graph import JobGraph

if TYPE_CHECKING:
    import pandas as pd


def open_checkpoint(
    path: str | os.PathLike[str],
    *,
    follow: bool = False,
    decoders: Mapping[str, Decode] | None = None,
    file_system: fs.FileSystem | None = None,
    uids: Iterable[str] = (),
) -> Checkpoint:
    """Open a checkpoint or savepoint of the kit, or of Flink (tried: 1.10 to 2.3). At first, only `_metadata` is read.

    Args:
        path: its directory or its `_metadata` file, local or a URI that pyarrow knows (`s3://bucket/path`).
        follow: read files outside the checkpoint's own directories too, if the metadata refers to any.
        decoders: for classes that only Java code can read, by class name: the bytes of a value in, the value out.
        file_system: the file system of all paths, instead of the one that `path` names.
        uids: those of the job. Flink before 2.0 stores ids only, which are hashes of uids: tables and errors then have
            the uids instead.

    Raises:
        SavepointNotFoundError: there is no checkpoint at the path; the error says what was found.
        CheckpointError: the metadata is damaged.
    """
    files = StateFiles(file_system)
    flag_given("follow", follow)
    if not isinstance(decoders, Mapping | None):
        raise TypeError(f"decoders is {decoders!r}, but must be a mapping of class names to functions of bytes")
    return opened(path, files, decoders or {}, tuple(uids) if not isinstance(uids, str) else uids, follow=follow)


def opened(
    path: str | os.PathLike[str],
    files: StateFiles,
    decoders: Mapping[str, Decode],
    uids: Iterable[str] = (),
    *,
    follow: bool,
    listed: Listing | None = None,
) -> Checkpoint:
    """Open a checkpoint as `open_checkpoint` does; files that were `listed` are not looked for again."""
    found = located(path, files)
    source = StateBytes(files, found.directory, follow=follow, listed=listed)
    reading = Decoders(decoders, has_kryo_5=found.layout.number >= V5.number)
    return Checkpoint(with_uids(found.metadata, uids), found.layout, found.data, source, reading, uids)


class Checkpoint:
    """A checkpoint: tables of what it consists of, and the values in it.

    The tables are DataFrames: `operators`, `subtasks`, `states`, `handles`, `key_groups`, `operator_state`,
    `channel_state`, `files`, `master_state`; `properties` is a Series. `state` and `stream` return values as Arrow
    tables.
    """

    def __init__(
        self,
        metadata: CheckpointMetadata,
        layout: MetadataVersion,
        data: bytes,
        source: StateBytes,
        decoders: Decoders,
        uids: Iterable[str] = (),
    ) -> None:
        self.metadata, self.metadata_version, self._layout = metadata, layout.number, layout
        self._data, self._source, self._decoders, self._uids = data, source, decoders, uids
        self._parts = StateParts(source, decoders)

    def open_other(self, path: str | os.PathLike[str]) -> Checkpoint:
        """Open another checkpoint as this one was opened: with its file system, decoders, uids, and `follow`.

        Raises SavepointNotFoundError and CheckpointError as `open_checkpoint` does.
        """
        return opened(path, self._source.files, self._decoders.given, self._uids, follow=self._source.follow)

    @property
    def directory(self) -> str:
        """The directory that holds `_metadata`."""
        return self._source.directory

    @property
    def checkpoint_id(self) -> int:
        """The checkpoint's id."""
        return self.metadata.checkpoint_id

    @property
    def size(self) -> int:
        """The size of all state, in bytes."""
        return self.metadata.state_size

    @property
    def is_savepoint(self) -> bool | None:
        """True for a savepoint; None if the metadata, before version 4, does not say."""
        properties = self.metadata.properties
        return None if properties is None else properties.is_savepoint

    # --- tables -------------------------------------------------------------------------------------------------------

    @cached_property
    def operators(self) -> pd.DataFrame:
        """One row per operator, the largest first: its names, parallelism, and bytes by kind of state."""
        return frames.operators(self.metadata)

    @cached_property
    def subtasks(self) -> pd.DataFrame:
        """One row per subtask that reported: bytes by kind of state, its key groups, whether it had finished."""
        return frames.subtasks(self.metadata)

    @cached_property
    def handles(self) -> pd.DataFrame:
        """One row per handle: whose it is, its type, key groups, bytes, and its file."""
        return frames.handles(self.metadata)

    @cached_property
    def operator_state(self) -> pd.DataFrame:
        """One row per list or broadcast state of a subtask: its mode, the number of entries, and its file."""
        return frames.operator_state(self.metadata)

    @cached_property
    def channel_state(self) -> pd.DataFrame:
        """One row per channel with in-flight data: its subtask, direction, gate and number, buffers and bytes."""
        return frames.channel_state(self.metadata)

    @cached_property
    def files(self) -> pd.DataFrame:
        """One row per file that the checkpoint refers to: its bytes as recorded, and where it is, or the problem."""
        return frames.files(self.metadata, self.found_files)

    @cached_property
    def found_files(self) -> tuple[FoundFile, ...]:
        """The files of `files`, as tuples: a directory of thousands of checkpoints needs no table of each."""
        return tuple(frames.found_files(self.metadata, self._source))

    @cached_property
    def master_state(self) -> pd.DataFrame:
        """One row per master hook and per operator coordinator with state: its name, version and bytes."""
        return frames.master_state(self.metadata)

    @cached_property
    def properties(self) -> pd.Series:
        """The checkpoint's id, kind and life cycle, and the version of its metadata."""
        return frames.properties(self.metadata, self.metadata_version, self.directory)

    @cached_property
    def states(self) -> pd.DataFrame:
        """One row per state: its operator, name, kind, and the types in it. One header per subtask is read.

        A file that cannot be read has one row, whose `error` says why.
        """
        import pandas as pd

        rows = [row for operator in self.metadata.operator_states for row in self._states_of(operator)]
        columns = ["operator", "name", "kind", "key", "namespace", "value", "error"]
        return pd.DataFrame(rows, columns=columns)

    @cached_property
    def key_groups(self) -> pd.DataFrame:
        """One row per key group of a subtask with bytes of its own. RocksDB's files hold all of theirs together."""
        import pandas as pd

        rows = [
            (label(operator), subtask, *each)
            for operator in self.metadata.operator_states
            for subtask, part in self._parts.keyed(operator)
            for each in part.sizes().items()
        ]
        frame = pd.DataFrame(rows, columns=["operator", "subtask", "key_group", "bytes"])
        return frame.astype({"subtask": "int64", "key_group": "int64", "bytes": "int64"})

    # --- values -------------------------------------------------------------------------------------------------------

    def state(
        self,
        operator: str,
        name: str,
        *,
        key: Any = None,
        key_groups: Collection[int] | None = None,
        where: str | Sequence[str] = (),
    ) -> pa.Table:
        """Return the values of a state, over all subtasks, or of one key, some key groups or some rows only.

        Keyed state has the columns key_group, key, then namespace, map_key, last_access where it has them, and value;
        timers key_group, key, namespace, time_ms. A list in operator state has subtask, entry, value; a broadcast map
        subtask, key, value.

        Args:
            operator: its uid, its name, or its id in hexadecimal.
            name: the state's.
            key: the key whose rows to return, in the type of the state's keys; of several fields a tuple, or a dict
                with their names. Only its key group is read, if its hash is known here.
            key_groups: those to read; all if omitted. They do not apply to operator state.
            where: conditions that each row must meet, such as "value.total >= 100"
                (`kit.snapshots.conditions.Condition`).

        Raises:
            KeyError: there is no such operator or state; the error lists those that exist.
            CheckpointError: the state is damaged, a file is missing, the values are not decoded here, or the key or
                the value of a condition is of another type.
            ValueError: a condition has another form.
        """
        conditions = Conditions(where)
        found = self._operator(operator)
        if not isinstance(name, str):
            raise TypeError(f"name is {name!r}, but must be the name of a state of operator {operator!r}")
        if key is not None:
            one = OneKey(key, self._key_type(found, name))
            group = one.key_group(found.max_parallelism)
            is_wanted = group is None or key_groups is None or group in key_groups
            groups = key_groups if group is None else ([group] if is_wanted else [])
            return conditions.rows_of(one.rows_of(self.state(operator, name, key_groups=groups)))
        with errors_about(found, name):
            table = self._keyed_table(found, name, key_groups)
            table = self._operator_table(found, name) if table is None else table
        if table is None:
            raise self._no_state(found, name)
        return conditions.rows_of(table)

    def stream(
        self,
        operator: str,
        name: str,
        *,
        key_groups: Collection[int] | None = None,
        where: str | Sequence[str] = (),
    ) -> Iterator[pa.Table]:
        """Yield the values of a keyed state, a table for each key group that has rows; memory is that of one.

        The columns, conditions and errors are those of `state`. A time beyond what Arrow can hold makes its column text
        in the table of its key group only.
        """
        found, conditions = self._operator(operator), Conditions(where)
        is_known = False
        for _, part in self._parts.keyed(found, _with_groups(found, key_groups)):
            if name not in _names(part.infos()):
                continue
            is_known = True
            with errors_about(found, name):
                yield from map(conditions.rows_of, _by_group(part, name, key_groups))
        if not is_known and name not in _names(self._parts.infos(found, keyed=True)):
            if name in _names(self._parts.infos(found)):
                raise KeyError(f"{name!r} is operator state, which has no key groups: read it with state()")
            raise self._no_state(found, name)

    def page(
        self,
        operator: str,
        name: str,
        *,
        at: pages.Place = pages.START,
        query: str = "",
        key: Any = None,
        key_groups: Collection[int] | None = None,
        where: str | Sequence[str] = (),
        rows: int = pages.ROWS,
        most_read: int = pages.MOST_READ,
    ) -> pages.StatePage:
        """Return rows of a state that contain a text, from a place on. A bounded part of the state is read.

        Args:
            operator: its uid, its name, or its id in hexadecimal.
            name: the state's.
            at: where the page begins: `next` of the page before.
            query: the text that a column of the row must contain, whatever its case; all rows if empty.
            key: the key whose rows to return. Only its key group is read, if its hash is known here.
            key_groups: those to read; all if omitted. They do not apply to operator state.
            where: conditions that each row must meet, as for `state`.
            rows: the most rows on the page.
            most_read: the most key groups and subtasks to read. With these the page ends, and `next` says where to
                go on.

        Raises KeyError, CheckpointError and ValueError as `state` does.
        """
        found, conditions = self._operator(operator), Conditions(where)
        kinds = [kind for kind, infos in self._parts.known_infos(found) if name in _names(infos)]
        if not kinds:
            raise self._no_state(found, name)
        one = None if key is None else OneKey(key, self._key_type(found, name))
        if one is not None and (group := one.key_group(found.max_parallelism)) is not None:
            key_groups = [group] if key_groups is None or group in key_groups else []
        units: list[pages.Unit] = []
        for subtask, state in sorted(found.subtask_states.items()):
            if kinds[0] == "operator":
                units += [pages.Unit(subtask)] if name in list_names(state) else []
            else:
                own = groups_of(state)
                units += [pages.Unit(subtask, group) for group in own if key_groups is None or group in key_groups]

        def read(unit: pages.Unit) -> Iterator[pa.Table] | None:
            tables = self._read(found, name, unit, one)
            return None if tables is None else map(conditions.rows_of, tables)

        with errors_about(found, name):
            return pages.page_of(units, read, at, rows, query, most_read)

    def _read(
        self, operator: OperatorState, name: str, unit: pages.Unit, key: OneKey | None
    ) -> Iterator[pa.Table] | None:
        """Return the rows of a unit, those of one key if it is given; None if it has none."""
        subtask, group = unit
        if group is None:
            return self._operator_tables(operator, name, (subtask,))
        with_rows = [
            part
            for _, part in self._parts.keyed(operator, (subtask,))
            if group in part.groups() and name in _names(part.infos())
        ]
        if not with_rows:
            return None
        tables = (table for part in with_rows for table in _by_group(part, name, (group,)))
        return tables if key is None else map(key.rows_of, tables)

    def keyed_bytes(self, operator: str) -> dict[KeyGroupRange, int]:
        """Return the bytes of keyed state of each subtask of an operator, by its range of key groups, in order.

        Raises KeyError if there is no such operator.
        """
        return keyed_bytes(self._operator(operator))

    def key_group_bytes(self, operator: str, subtask: int) -> dict[int, int]:
        """Return the bytes of each key group of a subtask, as far as they have bytes of their own.

        Raises KeyError if there is no such operator, CheckpointError if a file cannot be read.
        """
        return self._by_key_group(operator, subtask, "bytes")

    def key_group_entries(self, operator: str, subtask: int) -> dict[int, int]:
        """Return the entries in each key group of a subtask, of all states together. All keyed state of it is read.

        Raises KeyError if there is no such operator, CheckpointError if a file cannot be read.
        """
        return self._by_key_group(operator, subtask, "entries")

    def _by_key_group(self, operator: str, subtask: int, what: str) -> dict[int, int]:
        found = self._operator(operator)
        counted: Counter[int] = Counter()
        with errors_about(found, f"subtask {subtask}"):
            for _, part in self._parts.keyed(found, (subtask,)):
                counted.update(part.sizes() if what == "bytes" else part.entries())
        return dict(counted)

    def key_group_of(self, operator: str, name: str, key: Any) -> int | None:
        """Return the key group of a key of a state.

        None if the key is not of the type of the state's keys, or only a user's class knows how these are hashed.
        Raises KeyError if there is no such operator or state.
        """
        found = self._operator(operator)
        try:
            return OneKey(key, self._key_type(found, name)).key_group(found.max_parallelism)
        except CheckpointError:
            return None

    def key_from_text(self, operator: str, name: str, text: str) -> Any:
        """Return the key that a text means for a state: the text of a string, ISO 8601 for times, or JSON.

        A key of several fields is a list of their values, or an object with their names. Raises KeyError as `state`
        does, CheckpointError for a text that is no key of the state's type.
        """
        return key_from_text(text, self._key_type(self._operator(operator), name))

    def _key_type(self, operator: OperatorState, name: str) -> KeyType:
        """Return the type of a state's keys, from the first subtask that has the state."""
        for info in self._parts.infos(operator, keyed=True):
            if info.name == name and "key" in info.types:
                return info.types["key"]
        if name in _names(self._parts.infos(operator)):
            raise KeyError(f"{name!r} is operator state, which has no keys: read it without a key")
        raise self._no_state(operator, name)

    def _keyed_table(self, operator: OperatorState, name: str, groups: Collection[int] | None) -> pa.Table | None:
        rows: Rows | None = None
        tables: list[pa.Table] = []
        for _, part in self._parts.keyed(operator, _with_groups(operator, groups)):
            wanted = part.groups() if groups is None else groups
            if isinstance(part, ArrowKeyedPart):
                tables += [table for _, table in part.tables(name, wanted)]
            elif name in part.states:
                own = part.states[name]
                if rows is None or rows.state.stored.name != own.stored.name:
                    tables += [] if rows is None else [rows.table()]
                    rows = Rows(own)
                part.decode(name, wanted, lambda _, into=rows: into)  # type: ignore[misc]
        if rows is not None:
            tables.append(rows.table())
        if not tables and name in _names(self._parts.infos(operator, keyed=True)):
            tables.append(pa.table({"key_group": pa.array([], pa.int32())}))  # the kit wrote the state
        return _below_each_other(tables)

    def _operator_table(self, operator: OperatorState, name: str) -> pa.Table | None:
        tables = list(self._operator_tables(operator, name))
        return _below_each_other([table for table in tables if table.num_rows] or tables[:1])

    def _operator_tables(
        self, operator: OperatorState, name: str, subtasks: Collection[int] | None = None
    ) -> Iterator[pa.Table]:
        for subtask, part in self._parts.lists(operator, subtasks):
            table = part.table(name)
            if table is not None:
                yield table.add_column(0, "subtask", pa.array([subtask] * table.num_rows, pa.int32()))

    def raw_state(self, operator: str) -> pa.Table:
        """Return an operator's raw state as bytes: subtask, kind (keyed, operator), key_group or entry, value.

        Raises KeyError for an unknown operator, CheckpointError if a file cannot be read.
        """
        found = self._operator(operator)
        with errors_about(found, "raw state"):
            return frames.raw_state(found, self._source)

    def in_flight(self, operator: str, record: str | tuple[str, str] | None = None) -> pa.Table:
        """Return the records in flight that begin in an operator's channel state: in its input, or in its output.

        Columns: subtask, side (input, output), gate (of an output: its result partition), channel, element (record,
        watermark, ...), time_ms (of a record: its timestamp), record. A record that spans buffers is put together,
        also if its rest is with the sender; "part of a record" is one whose rest cannot be found.

        Args:
            operator: its uid, its name, or its id in hexadecimal.
            record: the type of the records, which no checkpoint has: its name, "Tuple2<Integer, String>", or operator
                and name of a state whose values have it. Omitted: records are bytes.

        Raises:
            KeyError: there is no such operator or state.
            CheckpointError: the records do not have this type, the type is unknown, or the state is damaged.
        """
        found = self._operator(operator)
        with errors_about(found, "in-flight records"):
            return records_in_flight(self.metadata, found, self._source, self._record_type(record))

    def _record_type(self, record: str | tuple[str, str] | None) -> Type | None:
        if record is None or isinstance(record, str):
            return None if record is None else type_named(record)
        operator, name = record
        found = self._operator(operator)
        for info in self._parts.infos(found):
            if info.name == name and info.types:
                return info.types["value"]
        raise self._no_state(found, name)

    # --- storage ------------------------------------------------------------------------------------------------------

    @cached_property
    def storage(self) -> Storage:
        """The account of the checkpoint's bytes: by state, by file, and what other settings would save."""
        return Storage(self)

    @property
    def metadata_bytes(self) -> int:
        """The size of `_metadata`, in bytes."""
        return len(self._data)

    def measure(self, operator: OperatorState) -> dict[str, tuple[int, int]]:
        """Return the entries and bytes of each keyed state of an operator. All of its keyed state is read.

        Raises CheckpointError.
        """
        with errors_about(operator, "keyed state"):
            return measured(part for _, part in self._parts.keyed(operator))

    def plan(
        self,
        operator: str,
        parallelisms: int | Iterable[int],
        max_parallelisms: int | Iterable[int] | None = None,
        *,
        state: str | None = None,
    ) -> ParallelismPlan:
        """Return how evenly the keys of an operator spread over subtasks, for each parallelism and maximum.

        Each row of `state`, by default of the operator's state with most rows, counts once. If the key groups of its
        keys cannot be computed here (POJOs, rows of SQL), only the checkpoint's own maximum parallelism is compared.

        Raises KeyError for an unknown operator or state, ValueError for a parallelism that cannot be, CheckpointError
        if the state cannot be read.
        """
        found = self._operator(operator)
        if state is None:
            sizes = self.measure(found)
            if not sizes:
                raise ValueError(f"operator {label(found)!r} has no keyed state, so there are no keys to plan by")
            state = max(sizes, key=lambda name: sizes[name][0])
        return plan_of(self.state(operator, state), found.max_parallelism, parallelisms, max_parallelisms)

    # --- compared -----------------------------------------------------------------------------------------------------

    def diff(self, after: Checkpoint) -> CheckpointDiff:
        """Return what changed from this checkpoint to another: operators, states, keys and values."""
        return CheckpointDiff(self, after)

    # --- will it restore? ---------------------------------------------------------------------------------------------

    def check(
        self,
        job: Job | Checkpoint,
        parallelism: Parallelism = None,
        *,
        max_parallelism: int | None = None,
        allow_non_restored_state: bool = False,
        outside: Outside | None = None,
    ) -> RestoreCheck:
        """Check whether this checkpoint restores to a job, who would get what, and what would be lost or repeated.

        Args:
            job: a job of the kit, a checkpoint of the newer version of the job, or uids with their parallelism, like
                `{"totals": 4}`, with a maximum parallelism `{"totals": (4, 128)}`, or with the types of its states too,
                `{"totals": {"parallelism": 4, "states": {"total": "Long"}}}`.
            parallelism: instead of the job's: one number, or one for each of some uids.
            max_parallelism: that the job configures, instead of what `job` says.
            allow_non_restored_state: drop state that has no operator in the job.
            outside: what logs retain, how long brokers keep transactions, and which files are there.

        With a newer checkpoint, a job of the kit, or uids with states, the types of the states are compared too. Raises
        TypeError or ValueError for a job or a parallelism that cannot be, CheckpointError for an unknown type.
        """
        shape = shape_of(job.metadata if isinstance(job, Checkpoint) else job, parallelism)
        answer = check_restore(
            self.metadata,
            shape if max_parallelism is None else shape.with_max_parallelism(max_parallelism),
            allow_non_restored_state=allow_non_restored_state,
            path=self.directory,
        )
        graph = job.job_graph() if isinstance(job, StreamEnvironment) else job
        found: list[Finding] = []
        labels = {each.operator_id: label(each) for each in self.metadata.operator_states}
        labels |= {each.state.operator_id: each.label for each in answer.matches if each.state is not None}
        if isinstance(job, Checkpoint):
            found = list(types_changed(self.declared(), job.declared(), labels))
        elif isinstance(job, Mapping):
            before = self.declared()
            found = list(types_changed(before, declared_in(job, before), labels))
        elif isinstance(graph, JobGraph) and not self.files["problem"].any():
            found = list(not_as_declared(graph, self._source.files, self._data, self.directory))
        return with_types(answer, [*found, *self._outside(answer, outside or Outside())])

    def verify(self, progress: Callable[[VerifiedFile], None] = lambda _: None) -> Verification:
        """Read all files and compare their checksums; where a format has none, check the layout.

        `progress` is called with each file.
        """
        return verified(self.metadata, self._source, self._decoders, self.title, progress)

    def _outside(self, answer: RestoreCheck, known: Outside) -> Iterator[Finding]:
        """Yield findings about the sources and sinks that find their state again."""
        for match in answer.matches:
            if match.match is not Match.MATCHED or match.state is None:
                continue
            for name, judge in ((SOURCE_READER_STATE, of_source), (COMMITTER_STATE, of_sink)):
                try:
                    rows = self._operator_table(match.state, name)
                except StateError:  # its file is missing: a restore says so, and `files` does
                    continue
                yield from judge(match.label, [] if rows is None else rows.to_pylist(), known)

    # --- surgery ------------------------------------------------------------------------------------------------------

    def edit(self) -> Edit:
        """Return a plan of changes, so far without any, which `write` carries out into a new savepoint."""
        return Edit(Origin(self.metadata, self._layout, self._source, self._decoders), open_checkpoint)

    # --- parts --------------------------------------------------------------------------------------------------------

    def _operator(self, name: str) -> OperatorState:
        """Return the operator of this uid, name or id. Raises KeyError."""
        return operator_named(self.metadata.operator_states, name)

    def _no_state(self, operator: OperatorState, name: str) -> KeyError:
        there = dict.fromkeys(info.name for info in self._parts.infos(operator))
        return KeyError(
            f"operator {label(operator)!r} has no state {name!r}; it has {', '.join(there) or 'no named state'}"
        )

    def _states_of(self, operator: OperatorState) -> Iterator[tuple[str, ...]]:
        """Yield what the table of states says of an operator."""
        called = label(operator)
        for kind, found in self._parts.known_infos(operator):
            if isinstance(found, StateError):
                yield (called, "", kind, "", "", "", str(found))
                continue
            for info in found:
                yield (called, info.name, info.kind, info.key, info.namespace, info.value, "")

    def declared(self) -> dict[str, dict[str, dict[str, StateInfo]]]:
        """Return what is known of each state: by operator id, by kind (keyed, operator), and by name.

        State in files that cannot be read is left out.
        """
        return {
            operator.operator_id: {
                kind: {info.name: info for info in found}
                for kind, found in self._parts.known_infos(operator)
                if not isinstance(found, StateError)
            }
            for operator in self.metadata.operator_states
        }

    # --- shown --------------------------------------------------------------------------------------------------------

    @property
    def title(self) -> str:
        """A line that says what it is, and how large."""
        kind = {True: "Savepoint", False: "Checkpoint", None: "Checkpoint or savepoint"}[self.is_savepoint]
        many = len(self.metadata.operator_states)
        return f"{kind} {self.checkpoint_id}: {many} operators, {size_text(self.size)}"

    def __repr__(self) -> str:
        return f"Checkpoint({self.directory!r}, {self.title})"

    def _repr_html_(self) -> str:
        return str(display("checkpoint_html", self))

    def show(self, *, tab: bool = False) -> Any:
        """Browse the checkpoint in a notebook, in a JupyterLab tab of its own with `tab`.

        Operators, states, key groups, files and values are shown; values are searched over the whole state, and the
        checkpoint is checked and compared. `export(path)` of the returned object writes one HTML file that works
        offline.
        """
        return display("show", self, tab=tab)


def _with_groups(operator: OperatorState, key_groups: Collection[int] | None) -> list[int]:
    """Return the subtasks that have some of these key groups, all if none are given."""
    return [
        subtask
        for subtask, state in operator.subtask_states.items()
        if key_groups is None or set(key_groups).intersection(groups_of(state))
    ]


def _names(infos: Iterable[StateInfo] | StateError) -> set[str]:
    """Return the names of states; none if they could not be read."""
    return set() if isinstance(infos, StateError) else {info.name for info in infos}


def _below_each_other(tables: list[pa.Table]) -> pa.Table | None:
    return pa.concat_tables(tables, promote_options="permissive") if len(tables) > 1 else next(iter(tables), None)


def _by_group(part: KeyedPart | ArrowKeyedPart, name: str, groups: Collection[int] | None) -> Iterator[pa.Table]:
    wanted = part.groups() if groups is None else groups
    if isinstance(part, ArrowKeyedPart):
        yield from (table for _, table in part.tables(name, wanted))
        return
    for group in sorted(set(wanted) & set(part.groups())):
        rows = Rows(part.states[name])
        part.decode(name, (group,), lambda _, into=rows: into)  # type: ignore[misc]
        table = rows.table()
        if table.num_rows:
            yield table
