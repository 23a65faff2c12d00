"""The partitioning of an edge: which record goes to which subtask, and the columnar code that splits batches.

A `PartitionerKind` is the choice as the graph holds it. A `Partitioner` applies it in one subtask: it splits a batch
into one batch per receiving subpartition, in a few passes over columns. Subpartitions count from 0 among those that
this subtask can reach.

Follows Flink's `StreamPartitioner` classes. Flink's round robin begins at a random channel. Here it begins at the
subtask's own number, so that runs are repeatable and small inputs spread.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kit.core.state.key_groups import operator_indexes
from kit.stream.backend.keys.key_hashing import key_groups
from kit.stream.backend.picking import rows_at


class PartitionerKind(Enum):
    """The rule that assigns an edge's records to subtasks (the `StreamPartitioner` classes)."""

    FORWARD = "forward"
    """Subtask i sends to subtask i."""
    HASH = "hash"
    """By the key group of the key columns."""
    REBALANCE = "rebalance"
    """Round robin over all subtasks."""
    RESCALE = "rescale"
    """Round robin over the few subtasks opposite."""
    BROADCAST = "broadcast"
    """Every record to every subtask."""
    GLOBAL = "global"
    """Every record to subtask 0."""
    CUSTOM = "custom"
    """By a user-defined function."""

    @property
    def is_pointwise(self) -> bool:
        """True if a subtask reaches only the subtasks opposite, not all of them (`DistributionPattern.POINTWISE`)."""
        return self in (PartitionerKind.FORWARD, PartitionerKind.RESCALE)

    @property
    def supports_unaligned(self) -> bool:
        """True if a barrier may overtake records on such an edge (`isSupportsUnalignedCheckpoint`).

        It is False where in-flight data could not be redistributed. For CUSTOM it cannot be forced either:
        `CustomPartitionerWrapper` of Flink 2.3 disables it for itself, and `force_unaligned` merely lets such a job
        start. Older versions let barriers overtake there, and data in flight in a snapshot of such a Flink is still
        redistributed (`FULL` in `SubtaskStateMapper`). In 1.11 barriers overtake everywhere.
        """
        return not self.is_pointwise and self not in (PartitionerKind.BROADCAST, PartitionerKind.CUSTOM)


def shipping(kind: PartitionerKind, key_columns: tuple[str, ...]) -> str:
    """Return a partitioning as text, such as `hash(carrier, day)`."""
    return kind.value + (f"({', '.join(key_columns)})" if key_columns else "")


_FEW_ROWS = 16
_MOST_OWNERS = 4_096
_ROWS_AN_OWNER = 8_192
"""The rows per owner from which one scan of all rows for each owner is cheaper than sorting."""

Split = list[tuple[int, pa.RecordBatch]]
PartitionFunction = Callable[[Any, int], int]
"""A user-defined function from a value of the column and the number of subtasks to the number of one of them."""


class Partitioner(Protocol):
    """A splitter of batches among the subpartitions of one result partition."""

    def split(self, batch: pa.RecordBatch) -> Split:
        """Return the rows for each subpartition, in their order; subpartitions without rows are left out."""


class ForwardPartitioner:
    """Sends everything to the only subpartition; also the global partitioner, whose only target is subtask 0."""

    def split(self, batch: pa.RecordBatch) -> Split:
        """Return the batch unchanged."""
        return [(0, batch)] if batch.num_rows else []


class BroadcastPartitioner:
    """Sends everything to all subpartitions."""

    def __init__(self, subpartitions: int) -> None:
        self.subpartitions = subpartitions

    def split(self, batch: pa.RecordBatch) -> Split:
        """Return the same batch for each; nothing is copied."""
        return [(i, batch) for i in range(self.subpartitions)] if batch.num_rows else []


class RebalancePartitioner:
    """Sends one row after the other to the next subpartition, whatever the batches are.

    The first row goes to `first`, modulo the number of subpartitions.
    """

    def __init__(self, subpartitions: int, first: int = 0) -> None:
        self.subpartitions = subpartitions
        self.next = first % subpartitions

    def split(self, batch: pa.RecordBatch) -> Split:
        """Return every `subpartitions`-th row for each, continuing where the last batch ended."""
        rows, n = batch.num_rows, self.subpartitions
        start, self.next = self.next, (self.next + rows) % n
        if rows <= 1 or n == 1:
            return [(start, batch)] if rows else []
        parts = [((start + i) % n, rows_at(batch, np.arange(i, rows, n))) for i in range(min(n, rows))]
        return sorted(parts, key=lambda part: part[0])


class HashPartitioner:
    """Sends rows to the subtask that owns their key's key group (`KeyGroupStreamPartitioner`).

    One key column hashes as its Java type does, several as a tuple of them, so keys go to the same subtask as in Flink.
    `max_parallelism` is that of the receiving operator. Raises ValueError for a null key.
    """

    def __init__(self, key_columns: tuple[str, ...], max_parallelism: int, subpartitions: int) -> None:
        self.key_columns = key_columns
        self.max_parallelism = max_parallelism
        self.subpartitions = subpartitions
        self._owner_of: dict[str | int, int] = {}
        """The owners of keys in small batches, for which the passes over columns would take longer."""

    def split(self, batch: pa.RecordBatch) -> Split:
        """Return the rows by owner of their key, with the order within a subpartition kept."""
        rows = batch.num_rows
        if not rows:
            return []
        keys = key_array(batch, self.key_columns)
        if keys.null_count:
            raise ValueError(_of_null_key(batch, keys, self.key_columns))
        few = rows <= _FEW_ROWS and (pa.types.is_string(keys.type) or pa.types.is_integer(keys.type))
        if few:
            known = [self._owner_of.get(key, -1) for key in keys.to_pylist()]
            if -1 not in known:
                return _split_few(batch, known)
        groups = key_groups(keys, self.max_parallelism)
        owners = operator_indexes(groups, self.max_parallelism, self.subpartitions)
        if few:
            if len(self._owner_of) > _MOST_OWNERS:
                self._owner_of.clear()
            self._owner_of.update(zip(keys.to_pylist(), owners.tolist(), strict=True))
        return split_by_owner(batch, owners)


def _of_null_key(batch: pa.RecordBatch, keys: pa.Array, columns: tuple[str, ...]) -> str:
    """Return the error for rows without a key."""
    row = keys.is_null().to_pylist().index(True)
    of = ", ".join(map(repr, columns))
    return (
        f"key_by({of}): column {of} is null in row {batch.slice(row, 1).to_pylist()[0]}, and a row without a key "
        "belongs to no key group: filter such rows out before, or give them a key with with_column"
    )


class CustomPartitioner:
    """Sends rows where `function` says, called with each value of `column` (`CustomPartitionerWrapper`).

    Raises ValueError with the value and the result if it returns an unknown subtask.
    """

    def __init__(self, function: PartitionFunction, column: str, subpartitions: int) -> None:
        self.function = function
        self.column = column
        self.subpartitions = subpartitions

    def split(self, batch: pa.RecordBatch) -> Split:
        """Return the rows by owner, with the order within a subpartition kept."""
        if not batch.num_rows:
            return []
        owners = [self._owner(value) for value in batch.column(self.column).to_pylist()]
        return split_by_owner(batch, np.array(owners, dtype=np.uint16))

    def _owner(self, value: Any) -> int:
        owner = self.function(value, self.subpartitions)
        if not 0 <= owner < self.subpartitions:
            raise ValueError(
                f"partition_custom({self.column!r}): the function returned {owner!r} for {value!r}, expected 0 to "
                f"{self.subpartitions - 1}"
            )
        return owner


def key_array(batch: pa.RecordBatch, key_columns: tuple[str, ...]) -> pa.Array:
    """Return the key of each row: the column itself, or a struct (Flink's TupleN) of several."""
    columns = [batch.column(name) for name in key_columns]
    return columns[0] if len(columns) == 1 else pa.StructArray.from_arrays(columns, list(key_columns))


def split_by_owner(batch: pa.RecordBatch, owners: npt.NDArray[Any]) -> Split:
    """Return the rows of each owner, given as uint8 or uint16 numbers, one per row, at least one row."""
    if len(owners) == 1:
        return [(owners.item(0), batch)]
    first, last = int(owners.min()), int(owners.max())
    if first == last:
        return [(first, batch)]
    if last - first == 1 or len(owners) >= _ROWS_AN_OWNER * (last - first + 1):
        rows_of = ((owner, np.flatnonzero(owners == owner)) for owner in range(first, last + 1))
        return [(owner, rows_at(batch, rows, are_there=True)) for owner, rows in rows_of if len(rows)]
    order = np.argsort(owners, kind="stable")  # a radix sort, since the numbers are small
    sorted_owners = owners.take(order)
    sorted_batch = rows_at(batch, order, are_there=True)
    starts = np.searchsorted(sorted_owners, np.arange(first, last + 2)).tolist()
    bounds = zip(range(first, last + 1), starts, starts[1:])
    return [(owner, sorted_batch.slice(start, end - start)) for owner, start, end in bounds if end > start]


def _split_few(batch: pa.RecordBatch, owners: list[int]) -> Split:
    """Return what `split_by_owner` returns, in fewer passes if there are at most two owners."""
    first, last = min(owners), max(owners)
    if first == last:
        return [(first, batch)]
    if last - first > 1:
        return split_by_owner(batch, np.array(owners, np.uint16))
    rows_of = [[row for row, owner in enumerate(owners) if owner == each] for each in (first, last)]
    return [(first, rows_at(batch, np.array(rows_of[0]))), (last, rows_at(batch, np.array(rows_of[1])))]


def create_partitioner(
    kind: PartitionerKind,
    *,
    subpartitions: int,
    subtask: int,
    key_columns: tuple[str, ...],
    max_parallelism: int,
    function: PartitionFunction | None = None,
) -> Partitioner:
    """Create the partitioner of subtask `subtask` for `subpartitions` receivers of the given maximum parallelism."""
    if kind is PartitionerKind.HASH:
        return HashPartitioner(key_columns, max_parallelism, subpartitions)
    if kind is PartitionerKind.REBALANCE:
        return RebalancePartitioner(subpartitions, first=subtask)
    if kind is PartitionerKind.RESCALE:
        return RebalancePartitioner(subpartitions)
    if kind is PartitionerKind.BROADCAST:
        return BroadcastPartitioner(subpartitions)
    if kind is PartitionerKind.CUSTOM:
        assert function is not None
        return CustomPartitioner(function, key_columns[0], subpartitions)
    return ForwardPartitioner()
