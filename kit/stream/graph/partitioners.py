"""Which record goes to which subtask: the ways to partition an edge, and the columnar code that does it.

A `PartitionerKind` is the choice as the graph holds it. A `Partitioner` is that choice at work in one subtask: it
splits a batch into a batch per receiving subpartition, in a few passes over columns. Subpartitions count from 0
among those that this subtask can reach.

Follows Flink's `StreamPartitioner` classes. Flink's round robin begins at a random channel; here it begins at the
subtask's own number, so that two runs are alike and small inputs spread.
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
from kit.stream.backend.picking import picked


class PartitionerKind(Enum):
    """How the records of an edge find their subtask (the `StreamPartitioner` classes)."""

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
    """Where the user's function says."""

    @property
    def is_pointwise(self) -> bool:
        """Whether a subtask reaches only the subtasks opposite, not all of them (`DistributionPattern.POINTWISE`)."""
        return self in (PartitionerKind.FORWARD, PartitionerKind.RESCALE)

    @property
    def supports_unaligned(self) -> bool:
        """Whether a barrier may overtake records on such an edge: not where in-flight data could not be
        redistributed (`isSupportsUnalignedCheckpoint`).

        On CUSTOM not by force either: `CustomPartitionerWrapper` of Flink 2.3 switches it off for itself, and
        `force_unaligned` merely lets such a job start. Older ones let barriers overtake there, and data in flight in
        a snapshot of such a Flink is still dealt out (`FULL` in `SubtaskStateMapper`).
        """
        return not self.is_pointwise and self not in (PartitionerKind.BROADCAST, PartitionerKind.CUSTOM)


_FEW_ROWS = 16
_MOST_OWNERS = 4_096
_ROWS_AN_OWNER = 8_192
"""From so many rows on it costs less to look through all of them for each owner than to sort them."""

Split = list[tuple[int, pa.RecordBatch]]
PartitionFunction = Callable[[Any, int], int]
"""The user's choice: a value of the column and the number of subtasks in, the number of one of them out."""


class Partitioner(Protocol):
    """Splits batches among the subpartitions of one result partition."""

    def split(self, batch: pa.RecordBatch) -> Split:
        """The rows for each subpartition, in their order; subpartitions without rows are left out."""


class ForwardPartitioner:
    """All to the only subpartition; also the global partitioner, whose every record goes to subtask 0."""

    def split(self, batch: pa.RecordBatch) -> Split:
        """The batch as it is."""
        return [(0, batch)] if batch.num_rows else []


class BroadcastPartitioner:
    """All to everyone."""

    def __init__(self, subpartitions: int) -> None:
        self.subpartitions = subpartitions

    def split(self, batch: pa.RecordBatch) -> Split:
        """The same batch for each; nothing is copied."""
        return [(i, batch) for i in range(self.subpartitions)] if batch.num_rows else []


class RebalancePartitioner:
    """Row by row to one subpartition after the other; where it stands does not depend on how rows come in batches.

    The first row goes to `first`, counted around.
    """

    def __init__(self, subpartitions: int, first: int = 0) -> None:
        self.subpartitions = subpartitions
        self.next = first % subpartitions

    def split(self, batch: pa.RecordBatch) -> Split:
        """Every `subpartitions`-th row, from where the last batch ended."""
        rows, n = batch.num_rows, self.subpartitions
        start, self.next = self.next, (self.next + rows) % n
        if rows <= 1 or n == 1:
            return [(start, batch)] if rows else []
        parts = [((start + i) % n, picked(batch, np.arange(i, rows, n))) for i in range(min(n, rows))]
        return sorted(parts, key=lambda part: part[0])


class HashPartitioner:
    """By key: the key's key group names the subtask (`KeyGroupStreamPartitioner`).

    One key column hashes as its Java type does, several as a tuple of them, so keys land where Flink puts them.
    `max_parallelism` is that of the receiving operator. Raises ValueError for a null key.
    """

    def __init__(self, key_columns: tuple[str, ...], max_parallelism: int, subpartitions: int) -> None:
        self.key_columns = key_columns
        self.max_parallelism = max_parallelism
        self.subpartitions = subpartitions
        self._owner_of: dict[str | int, int] = {}
        """The owners of keys in small batches, for which all the passes over their columns would take longer."""

    def split(self, batch: pa.RecordBatch) -> Split:
        """The rows by owner of their key; order within a subpartition is kept."""
        rows = batch.num_rows
        if not rows:
            return []
        keys = key_array(batch, self.key_columns)
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


class CustomPartitioner:
    """Where `function` says, asked for each value of `column` (`CustomPartitionerWrapper`).

    Raises ValueError, naming value and answer, when it names a subtask that there is not.
    """

    def __init__(self, function: PartitionFunction, column: str, subpartitions: int) -> None:
        self.function = function
        self.column = column
        self.subpartitions = subpartitions

    def split(self, batch: pa.RecordBatch) -> Split:
        """The rows by owner; order within a subpartition is kept."""
        if not batch.num_rows:
            return []
        owners = [self._owner(value) for value in batch.column(self.column).to_pylist()]
        return split_by_owner(batch, np.array(owners, dtype=np.uint16))

    def _owner(self, value: Any) -> int:
        owner = self.function(value, self.subpartitions)
        if not 0 <= owner < self.subpartitions:
            raise ValueError(
                f"partition_custom({self.column!r}): the function gave {owner!r} for {value!r}, expected 0 to "
                f"{self.subpartitions - 1}"
            )
        return owner


def key_array(batch: pa.RecordBatch, key_columns: tuple[str, ...]) -> pa.Array:
    """The key of each row: the column itself, or a struct (Flink's TupleN) of several."""
    columns = [batch.column(name) for name in key_columns]
    return columns[0] if len(columns) == 1 else pa.StructArray.from_arrays(columns, list(key_columns))


def split_by_owner(batch: pa.RecordBatch, owners: npt.NDArray[Any]) -> Split:
    """The rows of each owner: uint8 or uint16 numbers, one per row, at least one row."""
    if len(owners) == 1:
        return [(owners.item(0), batch)]
    first, last = int(owners.min()), int(owners.max())
    if first == last:
        return [(first, batch)]
    if last - first == 1 or len(owners) >= _ROWS_AN_OWNER * (last - first + 1):
        rows_of = ((owner, np.flatnonzero(owners == owner)) for owner in range(first, last + 1))
        return [(owner, picked(batch, rows, are_there=True)) for owner, rows in rows_of if len(rows)]
    order = np.argsort(owners, kind="stable")  # by radix, as the numbers are small
    sorted_owners = owners.take(order)
    sorted_batch = picked(batch, order, are_there=True)
    starts = np.searchsorted(sorted_owners, np.arange(first, last + 2)).tolist()
    bounds = zip(range(first, last + 1), starts, starts[1:])
    return [(owner, sorted_batch.slice(start, end - start)) for owner, start, end in bounds if end > start]


def _split_few(batch: pa.RecordBatch, owners: list[int]) -> Split:
    """What `split_by_owner` does, without all the passes where there are two owners at most."""
    first, last = min(owners), max(owners)
    if first == last:
        return [(first, batch)]
    if last - first > 1:
        return split_by_owner(batch, np.array(owners, np.uint16))
    rows_of = [[row for row, owner in enumerate(owners) if owner == each] for each in (first, last)]
    return [(first, picked(batch, np.array(rows_of[0]))), (last, picked(batch, np.array(rows_of[1])))]


def create_partitioner(
    kind: PartitionerKind,
    *,
    subpartitions: int,
    subtask: int,
    key_columns: tuple[str, ...],
    max_parallelism: int,
    function: PartitionFunction | None = None,
) -> Partitioner:
    """The partitioner of subtask `subtask` for `subpartitions` receivers of the given maximum parallelism."""
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
