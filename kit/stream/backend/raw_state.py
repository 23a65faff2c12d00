"""Raw state: bytes that an operator writes into a checkpoint itself, and reads again when it is restored.

The content is opaque. A checkpoint only knows where each part starts, so that parts can be redistributed on a rescale:

- *raw keyed state* has one part per key group, which goes to the subtask that the key group goes to;
- *raw operator state* is a list of partitions, each of which goes to one subtask, distributed evenly.

The end of a part is not known: its stream continues to the end of the file, including later parts. So the content must
contain its own length.

Follows Flink's `KeyedStateCheckpointOutputStream`, `OperatorStateCheckpointOutputStream`,
`KeyGroupStatePartitionStreamProvider` and `StatePartitionStreamProvider`, and writes the same bytes and offsets. Two
mistakes that Flink does not notice are handled here. Bytes before the first key group, which could not be read again,
are rejected. Bytes before the first partition start that partition.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import index
from typing import Any, NamedTuple

from kit.core.state.errors import StateError
from kit.core.state.handles import (
    NO_OFFSET_SET,
    KeyGroupRange,
    KeyGroupsStateHandle,
    OperatorStateMode,
    OperatorStreamStateHandle,
    StateMetaInfo,
)
from kit.core.state.subtask_state_kind import SubtaskStateKind

DEFAULT_OPERATOR_STATE_NAME = "_default_"
"""The name of raw operator state's partitions in a handle."""


# ---- writing ----------------------------------------------------------------------------------------------------


class _RawStateOutput(io.RawIOBase):
    """A binary file for writing; only the checkpoint closes it, so `close` does nothing."""

    def __init__(self) -> None:
        self._written = bytearray()

    def writable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the number of bytes written."""
        return len(self._written)

    def write(self, data: Any) -> int:
        """Append bytes, and return how many."""
        before = len(self._written)
        self._written += memoryview(data).cast("B")
        return len(self._written) - before

    def close(self) -> None:
        """Do nothing."""


class RawKeyedStateOutput(_RawStateOutput):
    """The output for the raw keyed state of one subtask; call `start_new_key_group` before each key group's bytes."""

    def __init__(self, key_groups: KeyGroupRange) -> None:
        super().__init__()
        self.key_groups = key_groups
        self.current_key_group: int | None = None
        self._offsets = [NO_OFFSET_SET] * len(key_groups)

    def start_new_key_group(self, key_group: int) -> None:
        """Start a key group, one of `key_groups`, in any order, each once."""
        key_group = index(key_group)
        if key_group not in self.key_groups:
            raise StateError(f"key group {key_group} is not this subtask's: write one of {self.key_groups!r}")
        if self.is_key_group_already_started(key_group):
            raise StateError(f"key group {key_group} has been started already: write all that belongs to it at once")
        self.current_key_group = key_group
        self._offsets[key_group - self.key_groups.start] = self.tell()

    def is_key_group_already_started(self, key_group: int) -> bool:
        """Return True if `start_new_key_group` was called for the key group."""
        return self._offsets[key_group - self.key_groups.start] != NO_OFFSET_SET

    def write(self, data: Any) -> int:
        """Append bytes to the current key group. Raises StateError if none was started."""
        if self.current_key_group is None:
            raise StateError("raw keyed state belongs to a key group: call start_new_key_group(key_group) first")
        return super().write(data)

    def taken(self) -> RawStateSnapshot | None:
        """Return what was written, or None if nothing was."""
        return RawStateSnapshot(bytes(self._written), tuple(self._offsets)) if self._written else None

    def __repr__(self) -> str:
        return f"RawKeyedStateOutput({self.key_groups!r}, {self.tell()} B)"


class RawOperatorStateOutput(_RawStateOutput):
    """The output for the raw operator state of one subtask; call `start_new_partition` before each separable part."""

    def __init__(self) -> None:
        super().__init__()
        self._offsets: list[int] = []

    @property
    def number_of_partitions(self) -> int:
        """The number of partitions started."""
        return len(self._offsets)

    def start_new_partition(self) -> None:
        """Start a partition, which may go to another subtask than the previous one."""
        self._offsets.append(self.tell())

    def write(self, data: Any) -> int:
        """Append bytes to the current partition; the first bytes start one."""
        if not self._offsets:
            self.start_new_partition()
        return super().write(data)

    def taken(self) -> RawStateSnapshot | None:
        """Return what was written, or None if nothing was."""
        if not self._written:
            return None
        info = StateMetaInfo(tuple(self._offsets), OperatorStateMode.SPLIT_DISTRIBUTE)
        return RawStateSnapshot(bytes(self._written), {DEFAULT_OPERATOR_STATE_NAME: info})

    def __repr__(self) -> str:
        return f"RawOperatorStateOutput({self.number_of_partitions} partitions, {self.tell()} B)"


@dataclass(frozen=True, slots=True)
class RawStateSnapshot:
    """The raw state of one kind that a subtask wrote: the file, and its handle's information on where parts start."""

    data: bytes
    where: Any

    def encode(self) -> tuple[bytes, Any]:
        """Return the file unchanged."""
        return self.data, self.where


class RawStateOutputs:
    """Both outputs of one operator at one checkpoint, each created on first use.

    Flink: `setKeyedStateRawFuture` and `setOperatorStateRawFuture` take what is written here.
    """

    def __init__(self, operator: str, key_groups: KeyGroupRange | None) -> None:
        """Initialize with the subtask's `key_groups`, None if the operator has no key."""
        self._operator = operator
        self._key_groups = key_groups
        self._keyed: RawKeyedStateOutput | None = None
        self._operator_output: RawOperatorStateOutput | None = None

    @property
    def keyed(self) -> RawKeyedStateOutput:
        """The output for raw keyed state (`getRawKeyedOperatorStateOutput`). Raises StateError without a key."""
        if self._keyed is None:
            self._keyed = RawKeyedStateOutput(_keyed(self._operator, self._key_groups))
        return self._keyed

    @property
    def operator(self) -> RawOperatorStateOutput:
        """The output for raw operator state (`getRawOperatorStateOutput`)."""
        if self._operator_output is None:
            self._operator_output = RawOperatorStateOutput()
        return self._operator_output

    def take(self) -> dict[SubtaskStateKind, RawStateSnapshot]:
        """Return what was written as keyed and as operator state; the next checkpoint starts from scratch."""
        keyed, self._keyed = self._keyed, None
        operator, self._operator_output = self._operator_output, None
        taken = {
            SubtaskStateKind.RAW_KEYED: None if keyed is None else keyed.taken(),
            SubtaskStateKind.RAW_OPERATOR: None if operator is None else operator.taken(),
        }
        return {kind: raw for kind, raw in taken.items() if raw is not None}

    def __repr__(self) -> str:
        return f"RawStateOutputs({self._operator})"


# ---- reading ----------------------------------------------------------------------------------------------------


class RawStateStream(io.RawIOBase):
    """A binary file for reading, which starts with one part and continues to the end of the file that contains it."""

    def __init__(self, data: Any, offset: int) -> None:
        self._data = memoryview(data).cast("B")[offset:]
        self._position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True; position 0 is the start of the part."""
        return True

    def tell(self) -> int:
        """Return the number of bytes from the start of the part."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to another position, and return it."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: len(self._data)}[whence]
        self._position = max(0, base + offset)
        return self._position

    def readinto(self, into: Any) -> int:
        """Fill `into` as far as bytes are available, and return how many."""
        target = memoryview(into).cast("B")
        part = self._data[self._position : self._position + len(target)]
        target[: len(part)] = part
        self._position += len(part)
        return len(part)

    def __repr__(self) -> str:
        return f"RawStateStream({len(self._data) - self._position} B ahead)"


class KeyGroupStatePartition(NamedTuple):
    """The raw state of one key group."""

    key_group: int
    stream: RawStateStream


class RawStateInputs:
    """The raw state that one operator restores; a kind that was requested counts as read."""

    def __init__(self, operator: str, key_groups: KeyGroupRange | None) -> None:
        """Initialize with the subtask's `key_groups`, None if the operator has no key."""
        self._operator = operator
        self._key_groups = key_groups
        self._given: dict[SubtaskStateKind, list[tuple[Any, Any]]] = {}
        self._asked: set[SubtaskStateKind] = set()

    def give(self, kind: SubtaskStateKind, parts: Iterable[tuple[Any, Any]]) -> None:
        """Add handles of raw keyed or raw operator state with the bytes of their files."""
        self._given.setdefault(kind, []).extend(parts)

    @property
    def keyed(self) -> Iterator[KeyGroupStatePartition]:
        """One part per key group of this subtask that has one (`getRawKeyedStateInputs`).

        Raises StateError without a key.
        """
        mine = _keyed(self._operator, self._key_groups)
        return _key_groups_of(self._asked_for(SubtaskStateKind.RAW_KEYED), mine)

    @property
    def operator(self) -> Iterator[RawStateStream]:
        """One stream per partition that was assigned to this subtask (`getRawOperatorStateInputs`)."""
        return _partitions_of(self._asked_for(SubtaskStateKind.RAW_OPERATOR))

    def _asked_for(self, kind: SubtaskStateKind) -> list[tuple[Any, Any]]:
        self._asked.add(kind)
        return self._given.get(kind, [])

    @property
    def unread(self) -> dict[SubtaskStateKind, int]:
        """The number of bytes of each kind that were not requested."""
        parts = {kind: given for kind, given in self._given.items() if given and kind not in self._asked}
        return {kind: sum(handle.state_size for handle, _ in given) for kind, given in parts.items()}

    def close(self) -> None:
        """Release the files, after the operator has read its state."""
        self._given.clear()

    def __repr__(self) -> str:
        return f"RawStateInputs({self._operator}, {self.unread or 'nothing unread'})"


def _keyed(operator: str, key_groups: KeyGroupRange | None) -> KeyGroupRange:
    if key_groups is None:
        raise StateError(f"{operator} has no raw keyed state, as it has no key: use key_by() before it")
    return key_groups


def _key_groups_of(
    parts: list[tuple[KeyGroupsStateHandle, Any]], mine: KeyGroupRange
) -> Iterator[KeyGroupStatePartition]:
    for handle, data in parts:
        for key_group in handle.key_group_range.intersect(mine):
            offset = handle.offset_of(key_group)
            if offset != NO_OFFSET_SET:
                yield KeyGroupStatePartition(key_group, RawStateStream(data, offset))


def _partitions_of(parts: list[tuple[OperatorStreamStateHandle, Any]]) -> Iterator[RawStateStream]:
    for handle, data in parts:
        info = handle.state_name_to_partition_offsets.get(DEFAULT_OPERATOR_STATE_NAME)
        for offset in () if info is None else info.offsets:
            yield RawStateStream(data, offset)
