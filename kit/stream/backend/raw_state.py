"""Raw state: bytes that an operator writes into a checkpoint itself, and reads again when it is restored.

Nothing looks into them. What a checkpoint knows is where a part begins, so that parts can be dealt out on a rescale:

- *raw keyed state* has one part per key group, which goes to the subtask that the key group goes to;
- *raw operator state* is a list of partitions, each of which goes to one subtask, all getting about as many.

Where a part ends is not known: its stream goes on to the end of the file, with whatever comes behind. So what is
written must say itself how long it is.

Follows Flink's `KeyedStateCheckpointOutputStream`, `OperatorStateCheckpointOutputStream`,
`KeyGroupStatePartitionStreamProvider` and `StatePartitionStreamProvider`, and writes the same bytes and offsets. Two
mistakes that go unseen there are none here: bytes written before the first key group, which nobody could read again,
are refused, and such before the first partition begin it.
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

DEFAULT_OPERATOR_STATE_NAME = "_default_"
"""The name under which a handle lists the partitions of raw operator state."""


# ---- writing ----------------------------------------------------------------------------------------------------


class _RawStateOutput(io.RawIOBase):
    """A binary file to write to; it is the checkpoint that closes it, so `close` does nothing."""

    def __init__(self) -> None:
        self._written = bytearray()

    def writable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """How many bytes have been written."""
        return len(self._written)

    def write(self, data: Any) -> int:
        """Append bytes; returns how many."""
        before = len(self._written)
        self._written += memoryview(data).cast("B")
        return len(self._written) - before

    def close(self) -> None:
        """Nothing."""


class RawKeyedStateOutput(_RawStateOutput):
    """Where the raw keyed state of one subtask goes; `start_new_key_group` before what belongs to a key group."""

    def __init__(self, key_groups: KeyGroupRange) -> None:
        super().__init__()
        self.key_groups = key_groups
        self.current_key_group: int | None = None
        self._offsets = [NO_OFFSET_SET] * len(key_groups)

    def start_new_key_group(self, key_group: int) -> None:
        """What is written from now on belongs to this key group, one of `key_groups`, in any order, each once."""
        key_group = index(key_group)
        if key_group not in self.key_groups:
            raise StateError(f"key group {key_group} is not this subtask's: write one of {self.key_groups!r}")
        if self.is_key_group_already_started(key_group):
            raise StateError(f"key group {key_group} has been started already: write all that belongs to it at once")
        self.current_key_group = key_group
        self._offsets[key_group - self.key_groups.start] = self.tell()

    def is_key_group_already_started(self, key_group: int) -> bool:
        """Whether `start_new_key_group` was called for it."""
        return self._offsets[key_group - self.key_groups.start] != NO_OFFSET_SET

    def write(self, data: Any) -> int:
        """Append bytes to the current key group. Raises StateError when none was started."""
        if self.current_key_group is None:
            raise StateError("raw keyed state belongs to a key group: call start_new_key_group(key_group) first")
        return super().write(data)

    def taken(self) -> RawStateSnapshot | None:
        """What was written; None when nothing was."""
        return RawStateSnapshot(bytes(self._written), tuple(self._offsets)) if self._written else None

    def __repr__(self) -> str:
        return f"RawKeyedStateOutput({self.key_groups!r}, {self.tell()} B)"


class RawOperatorStateOutput(_RawStateOutput):
    """Where the raw operator state of one subtask goes; `start_new_partition` before each part that may move alone."""

    def __init__(self) -> None:
        super().__init__()
        self._offsets: list[int] = []

    @property
    def number_of_partitions(self) -> int:
        """How many have been started."""
        return len(self._offsets)

    def start_new_partition(self) -> None:
        """What is written from now on may go to another subtask than what was written before."""
        self._offsets.append(self.tell())

    def write(self, data: Any) -> int:
        """Append bytes to the current partition; the first of all begins one."""
        if not self._offsets:
            self.start_new_partition()
        return super().write(data)

    def taken(self) -> RawStateSnapshot | None:
        """What was written; None when nothing was."""
        if not self._written:
            return None
        info = StateMetaInfo(tuple(self._offsets), OperatorStateMode.SPLIT_DISTRIBUTE)
        return RawStateSnapshot(bytes(self._written), {DEFAULT_OPERATOR_STATE_NAME: info})

    def __repr__(self) -> str:
        return f"RawOperatorStateOutput({self.number_of_partitions} partitions, {self.tell()} B)"


@dataclass(frozen=True, slots=True)
class RawStateSnapshot:
    """The raw state of one kind that a subtask wrote: the file, and what its handle says of where parts begin."""

    data: bytes
    where: Any

    def encode(self) -> tuple[bytes, Any]:
        """The file as it is."""
        return self.data, self.where


class RawStateOutputs:
    """Both outputs of one operator at one checkpoint, each made when it is first asked for.

    Flink: `setKeyedStateRawFuture` and `setOperatorStateRawFuture` take what is written here.
    """

    def __init__(self, operator: str, key_groups: KeyGroupRange | None) -> None:
        """`key_groups`: those of the subtask, None where the operator has no key."""
        self._operator = operator
        self._key_groups = key_groups
        self._keyed: RawKeyedStateOutput | None = None
        self._operator_output: RawOperatorStateOutput | None = None

    @property
    def keyed(self) -> RawKeyedStateOutput:
        """For raw keyed state (`getRawKeyedOperatorStateOutput`). Raises StateError where there is no key."""
        if self._keyed is None:
            self._keyed = RawKeyedStateOutput(_keyed(self._operator, self._key_groups))
        return self._keyed

    @property
    def operator(self) -> RawOperatorStateOutput:
        """For raw operator state (`getRawOperatorStateOutput`)."""
        if self._operator_output is None:
            self._operator_output = RawOperatorStateOutput()
        return self._operator_output

    def take(self) -> tuple[RawStateSnapshot | None, RawStateSnapshot | None]:
        """What was written as keyed state, and as operator state; the next checkpoint starts from scratch."""
        keyed, self._keyed = self._keyed, None
        operator, self._operator_output = self._operator_output, None
        return None if keyed is None else keyed.taken(), None if operator is None else operator.taken()

    def __repr__(self) -> str:
        return f"RawStateOutputs({self._operator})"


# ---- reading ----------------------------------------------------------------------------------------------------


class RawStateStream(io.RawIOBase):
    """A binary file to read from, which begins with one part and goes on to the end of the file that it is in."""

    def __init__(self, data: Any, offset: int) -> None:
        self._data = memoryview(data).cast("B")[offset:]
        self._position = 0

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes: position 0 is where the part begins."""
        return True

    def tell(self) -> int:
        """How many bytes behind the beginning of the part."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to another position; returns it."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: len(self._data)}[whence]
        self._position = max(0, base + offset)
        return self._position

    def readinto(self, into: Any) -> int:
        """Fill `into` as far as there is something; returns how far."""
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
    """The raw state that one operator was given when it was restored; whoever asks for a kind is taken to read it."""

    def __init__(self, operator: str, key_groups: KeyGroupRange | None) -> None:
        """`key_groups`: those of the subtask, None where the operator has no key."""
        self._operator = operator
        self._key_groups = key_groups
        self._given: dict[str, list[tuple[Any, Any]]] = {}
        self._asked: set[str] = set()

    def give(self, kind: str, parts: Iterable[tuple[Any, Any]]) -> None:
        """Handles of this kind ("keyed" or "operator") with the bytes of their files."""
        self._given.setdefault(kind, []).extend(parts)

    @property
    def keyed(self) -> Iterator[KeyGroupStatePartition]:
        """A part per key group of this subtask that has one (`getRawKeyedStateInputs`).

        Raises StateError where there is no key.
        """
        mine = _keyed(self._operator, self._key_groups)
        return _key_groups_of(self._asked_for("keyed"), mine)

    @property
    def operator(self) -> Iterator[RawStateStream]:
        """A stream per partition that was dealt to this subtask (`getRawOperatorStateInputs`)."""
        return _partitions_of(self._asked_for("operator"))

    def _asked_for(self, kind: str) -> list[tuple[Any, Any]]:
        self._asked.add(kind)
        return self._given.get(kind, [])

    @property
    def unread(self) -> dict[str, int]:
        """The bytes of each kind that nobody has asked for."""
        parts = {kind: given for kind, given in self._given.items() if given and kind not in self._asked}
        return {kind: sum(handle.state_size for handle, _ in given) for kind, given in parts.items()}

    def close(self) -> None:
        """The operator has taken up its state: let go of the files."""
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
