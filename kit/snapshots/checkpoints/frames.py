"""The tables of a checkpoint: DataFrames made of its metadata alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from kit.core.metadata import LINEAGE, CheckpointMetadata
from kit.core.state.errors import CheckpointError
from kit.core.state.handles import (
    ByteStreamStateHandle,
    ChangelogStateBackendHandle,
    IncrementalRemoteKeyedStateHandle,
    KeyedStateHandle,
    KeyGroupsStateHandle,
    SegmentFileStateHandle,
    StateObject,
)
from kit.core.state.operator_state import OperatorState, OperatorSubtaskState
from kit.core.state.subtask_state_kind import SubtaskStateKind
from kit.snapshots.checkpoints.naming import label
from kit.snapshots.checkpoints.state_bytes import NOT_LOOKED_AT, OutsideError, StateBytes
from kit.snapshots.leaf_streams import streams_of

if TYPE_CHECKING:
    import pandas as pd

KINDS = {
    "keyed": SubtaskStateKind.MANAGED_KEYED,
    "raw_keyed": SubtaskStateKind.RAW_KEYED,
    "operator": SubtaskStateKind.MANAGED_OPERATOR,
    "raw_operator": SubtaskStateKind.RAW_OPERATOR,
    "input_channel": SubtaskStateKind.INPUT_CHANNEL,
    "output_channel": SubtaskStateKind.RESULT_SUBPARTITION,
}
"""The kinds of state that a subtask may have, by the name in the tables."""


def _handles(state: OperatorSubtaskState) -> Iterator[tuple[str, StateObject]]:
    for name, kind in KINDS.items():
        for handle in state.of_kind(kind):
            yield name, handle


def _sizes(state: OperatorSubtaskState) -> dict[str, int]:
    """Return the bytes of each kind of state."""
    found: Counter[str] = Counter()
    for kind, handle in _handles(state):
        found[kind] += handle.state_size
    return {kind: found[kind] for kind in KINDS}


def _frame(rows: Iterable[Any], columns: Sequence[str]) -> pd.DataFrame:
    """Return rows as a DataFrame. pandas takes half a second to import, and many uses of a checkpoint need no table."""
    import pandas as pd

    return pd.DataFrame(rows, columns=columns)


def operators(metadata: CheckpointMetadata) -> pd.DataFrame:
    """Return one row per operator, the one with most bytes first."""
    rows = []
    for operator in metadata.operator_states:
        sizes: Counter[str] = Counter()
        for state in operator.subtask_states.values():
            sizes.update(_sizes(state))
        coordinator = 0 if operator.coordinator_state is None else operator.coordinator_state.state_size
        rows.append(
            {
                "operator": label(operator),
                "uid": operator.uid,
                "name": operator.name,
                "operator_id": operator.operator_id,
                "parallelism": operator.parallelism,
                "max_parallelism": operator.max_parallelism,
                "subtasks": len(operator.subtask_states),
                "finished": operator.fully_finished,
                "bytes": coordinator + sum(sizes.values()),
                "written_bytes": operator.checkpointed_size,
                **{f"{kind}_bytes": sizes[kind] for kind in KINDS},
                "coordinator_bytes": coordinator,
            }
        )
    columns = list(rows[0]) if rows else ["operator", "bytes"]
    frame = _frame(rows, columns=columns)
    return frame.sort_values("bytes", ascending=False, kind="stable", ignore_index=True)


def subtasks(metadata: CheckpointMetadata) -> pd.DataFrame:
    """Return one row per subtask that reported."""
    rows = []
    for operator in metadata.operator_states:
        for subtask, state in sorted(operator.subtask_states.items()):
            ranges = [handle.key_group_range for handle in state.managed_keyed_state]
            rows.append(
                {
                    "operator": label(operator),
                    "subtask": subtask,
                    "finished": state.finished,
                    "bytes": state.state_size,
                    **{f"{kind}_bytes": size for kind, size in _sizes(state).items()},
                    "key_groups": sum(map(len, ranges)),
                    "first_key_group": min((each.start for each in ranges), default=None),
                    "last_key_group": max((each.end for each in ranges), default=None),
                }
            )
    columns = list(rows[0]) if rows else ["operator", "subtask", "bytes"]
    frame = _frame(rows, columns=columns)
    return frame.astype({each: "Int64" for each in ("first_key_group", "last_key_group") if each in frame})


def handles(metadata: CheckpointMetadata) -> pd.DataFrame:
    """Return one row per handle of a subtask. The files of an LSM tree have a row each, behind that of their handle."""
    columns = ["operator", "subtask", "state", "type", "bytes", "first_key_group", "last_key_group", "file", "inline"]
    rows = []
    for operator in metadata.operator_states:
        for subtask, state in sorted(operator.subtask_states.items()):
            for kind, handle in _handles(state):
                rows += [(label(operator), subtask, kind, *each) for each in _handle_rows(handle)]
    frame = _frame(rows, columns=columns)
    return frame.astype({"subtask": "int64", "first_key_group": "Int64", "last_key_group": "Int64"})


def _handle_rows(handle: Any) -> Iterator[tuple[Any, ...]]:
    groups: tuple[int | None, int | None] = (None, None)
    if isinstance(handle, KeyedStateHandle) and handle.key_group_range:
        groups = handle.key_group_range.start, handle.key_group_range.end
    delegate = _delegate(handle)
    inline = isinstance(delegate, ByteStreamStateHandle)
    yield type(handle).__name__, handle.state_size, *groups, getattr(delegate, "path", None), inline
    if isinstance(handle, IncrementalRemoteKeyedStateHandle):
        for part in (*handle.shared_state, *handle.private_state):
            inline = isinstance(part.handle, ByteStreamStateHandle)
            yield part.local_path, part.state_size, *groups, getattr(part.handle, "path", None), inline
    if isinstance(handle, ChangelogStateBackendHandle):
        for each in chain(handle.materialized, handle.non_materialized):
            yield from _handle_rows(each)


def _delegate(handle: Any) -> Any:
    while hasattr(handle, "delegate"):
        handle = handle.delegate
    return getattr(handle, "meta_state", handle)


def operator_state(metadata: CheckpointMetadata) -> pd.DataFrame:
    """Return one row per list or broadcast state of a subtask."""
    rows = []
    for operator in metadata.operator_states:
        for subtask, state in sorted(operator.subtask_states.items()):
            for kind in ("managed", "raw"):
                for handle in getattr(state, f"{kind}_operator_state"):
                    path = getattr(_delegate(handle), "path", None)
                    for name, info in handle.state_name_to_partition_offsets.items():
                        rows.append((label(operator), subtask, kind, name, info.mode.name, len(info.offsets), path))
    return _frame(rows, columns=["operator", "subtask", "kind", "name", "mode", "entries", "file"])


def channel_state(metadata: CheckpointMetadata) -> pd.DataFrame:
    """Return one row per channel with in-flight data."""
    rows = []
    for operator in metadata.operator_states:
        for subtask, state in sorted(operator.subtask_states.items()):
            for side, found in (("input", state.input_channel_state), ("output", state.result_subpartition_state)):
                for handle in found:
                    path = getattr(_delegate(handle), "path", None)
                    for part in handle.unmerge():
                        place = channel_numbers(part.info)
                        rows.append((label(operator), subtask, side, *place, len(part.offsets), part.size, path))
    columns = ["operator", "subtask", "side", "gate", "channel", "buffers", "bytes", "file"]
    return _frame(rows, columns=columns)


def channel_numbers(info: Any) -> tuple[int, int]:
    """Return the numbers of a channel's gate and of the channel in it; of an output those of its partition."""
    if hasattr(info, "gate_idx"):
        return info.gate_idx, info.input_channel_idx
    return info.partition_idx, info.subpartition_idx


def file_sizes(metadata: CheckpointMetadata) -> dict[str, int]:
    """Return the bytes of each file that is referred to, as recorded; of a merged file up to its last segment."""
    found: dict[str, int] = {}
    for stream in streams_of(metadata):
        if stream.path is not None:
            start = stream.start_pos if isinstance(stream, SegmentFileStateHandle) else 0
            found[stream.path] = max(found.get(stream.path, 0), start + stream.state_size)
    return found


class FoundFile(NamedTuple):
    """A file that a checkpoint refers to: its bytes as recorded, and where it is, or the problem."""

    file: str
    bytes: int
    found: str
    problem: str


def found_files(metadata: CheckpointMetadata, source: StateBytes) -> Iterator[FoundFile]:
    """Look for each file of a checkpoint."""
    for path, size in file_sizes(metadata).items():
        try:
            yield FoundFile(path, size, source.whole_path(path, size), "")
        except OutsideError as error:
            yield FoundFile(path, size, "", f"{NOT_LOOKED_AT}: {error}")
        except CheckpointError as error:
            yield FoundFile(path, size, "", str(error))


def files(metadata: CheckpointMetadata, found: Iterable[FoundFile]) -> pd.DataFrame:
    """Return one row per file: its recorded path and bytes, the operators that use it, and where it is now."""
    users: dict[str, dict[str, None]] = {}
    for operator in metadata.operator_states:
        for path in operator.files():
            users.setdefault(path, {})[label(operator)] = None
    rows = [(each.file, each.bytes, ", ".join(users.get(each.file, ())), each.found, each.problem) for each in found]
    return _frame(rows, columns=["file", "bytes", "operators", "found", "problem"])


def master_state(metadata: CheckpointMetadata) -> pd.DataFrame:
    """Return one row per master hook and per operator coordinator with state, and one for the covered output."""
    rows: list[tuple[Any, ...]] = [
        ("lineage" if each.name == LINEAGE else "master hook", each.name, each.version, len(each.data), each.data)
        for each in metadata.master_states
    ]
    for operator in metadata.operator_states:
        held = operator.coordinator_state
        if held is not None:
            rows.append(("coordinator", label(operator), None, held.state_size, held.data))
    frame = _frame(rows, columns=["kind", "name", "version", "bytes", "data"])
    return frame.astype({"version": "Int64"})


def properties(metadata: CheckpointMetadata, version: int, directory: str) -> pd.Series:
    """Return what the whole checkpoint is, by name."""
    import pandas as pd

    found = metadata.properties
    facts: dict[str, Any] = {
        "directory": directory,
        "checkpoint_id": metadata.checkpoint_id,
        "metadata_version": version,
        "operators": len(metadata.operator_states),
        "bytes": metadata.state_size,
        "written_bytes": metadata.checkpointed_size,
    }
    if found is not None:
        kind = found.snapshot_type
        facts["kind"] = kind.name
        facts["format"] = kind.format.name if hasattr(kind, "format") else None
        facts["sharing"] = kind.sharing.name
        ends = ("subsumed", "finished", "cancelled", "failed", "suspended")
        for name in ("forced", "unclaimed", *(f"discard_{end}" for end in ends)):
            facts[name] = getattr(found, name)
    return pd.Series(facts, name=f"checkpoint {metadata.checkpoint_id}", dtype=object)


def raw_state(operator: OperatorState, source: StateBytes) -> pa.Table:
    """Return an operator's raw state as bytes: one row per key group, and per entry of raw operator state."""
    rows: list[tuple[int, str, int, bytes]] = []
    for subtask, state in sorted(operator.subtask_states.items()):
        for handle in state.raw_keyed_state:
            if not isinstance(handle, KeyGroupsStateHandle):
                continue
            start = handle.key_group_range.start
            places = [(offset, start + place) for place, offset in enumerate(handle.offsets) if offset >= 0]
            rows += [(subtask, "keyed", *each) for each in _ranges(source, handle, places)]
        for each in state.raw_operator_state:
            for info in each.state_name_to_partition_offsets.values():
                places = [(offset, entry) for entry, offset in enumerate(info.offsets)]
                rows += [(subtask, "operator", *part) for part in _ranges(source, each, places)]
    columns: tuple[Any, ...] = tuple(zip(*rows, strict=True)) or ((), (), (), ())
    types = (pa.int32(), pa.string(), pa.int64(), pa.binary())
    names = ("subtask", "kind", "place", "value")
    return pa.table({name: pa.array(held, kind) for name, held, kind in zip(names, columns, types, strict=True)})


def _ranges(source: StateBytes, handle: Any, places: list[tuple[int, int]]) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the bytes of each part of a stream; a part ends where the next one begins."""
    stream = source.stream(handle)
    places = sorted(places)
    for (offset, number), (end, _) in pairwise([*places, (stream.size, 0)]):
        yield number, stream.read(offset, end - offset)
