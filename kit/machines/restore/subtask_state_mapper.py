"""The old subtasks whose in-flight data a new subtask recovers, depending on how the exchange partitions records.

An exchange has a mapper for each end. If a mapper is *ambiguous*, several new subtasks recover the same old buffers and
each keeps the records that belong to it. `PARTITIONERS` is the table of exchanges. Pointwise exchanges and broadcast
cannot be redistributed, so their mapper rejects it. Follows Flink's `SubtaskStateMapper` and stream partitioners (2.3;
1.11 has none, since it cannot rescale in-flight data).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from kit.core.state.key_groups import UPPER_BOUND_MAX_PARALLELISM
from kit.core.state.rescale_mappings import RescaleMappings
from kit.machines.restore.errors import PointwiseRescaleError


class SubtaskStateMapper(Enum):
    """A rule that determines which old subtasks' buffers a new subtask recovers."""

    ARBITRARY = "any, as long as both ends agree: dealt round robin"
    FIRST = "all to subtask 0"
    FULL = "all to all, filtered afterwards"
    RANGE = "as key group ranges overlap, the borders filtered afterwards"
    ROUND_ROBIN = "old subtask i to new subtask i modulo the new parallelism"
    UNSUPPORTED = "cannot be redistributed"

    def get_old_subtasks(self, new_index: int, old_parallelism: int, new_parallelism: int) -> tuple[int, ...]:
        """Return the old subtasks, in order, whose buffers new subtask `new_index` recovers.

        Raises PointwiseRescaleError for `UNSUPPORTED`.
        """
        if self is SubtaskStateMapper.FIRST:
            return tuple(range(old_parallelism)) if new_index == 0 else ()
        if self is SubtaskStateMapper.FULL:
            return tuple(range(old_parallelism))
        if self is SubtaskStateMapper.RANGE:
            first, last = _range_borders(np.array([new_index]), old_parallelism, new_parallelism)
            return tuple(range(int(first[0]), int(last[0]) + 1))
        if self is SubtaskStateMapper.UNSUPPORTED:
            raise _cannot_rescale_pointwise(old_parallelism, new_parallelism)
        return tuple(range(new_index, old_parallelism, new_parallelism))

    def get_new_to_old_subtasks_mapping(self, old_parallelism: int, new_parallelism: int) -> RescaleMappings:
        """Return `get_old_subtasks` of every new subtask as a table."""
        rows: Sequence[tuple[int, ...]]
        if self is SubtaskStateMapper.FULL:
            rows = [tuple(range(old_parallelism))] * new_parallelism
        elif self is SubtaskStateMapper.RANGE:
            first, last = _range_borders(np.arange(new_parallelism), old_parallelism, new_parallelism)
            rows = [tuple(range(*borders)) for borders in zip(first.tolist(), (last + 1).tolist(), strict=True)]
        else:
            rows = [self.get_old_subtasks(index, old_parallelism, new_parallelism) for index in range(new_parallelism)]
        return RescaleMappings.of(rows, old_parallelism)

    @property
    def is_ambiguous(self) -> bool:
        """True if several new subtasks may recover the same old buffers."""
        return self in (SubtaskStateMapper.FULL, SubtaskStateMapper.RANGE)


def _range_borders(new_index: np.ndarray, old_parallelism: int, new_parallelism: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the old owners of the first and the last key group of each new subtask.

    They are computed with the upper bound of key groups, whatever the job's maximum parallelism is, as in Flink.
    """
    groups = UPPER_BOUND_MAX_PARALLELISM
    start = (new_index * groups + new_parallelism - 1) // new_parallelism
    end = ((new_index + 1) * groups - 1) // new_parallelism
    return start * old_parallelism // groups, end * old_parallelism // groups


def _cannot_rescale_pointwise(old_parallelism: int, new_parallelism: int) -> PointwiseRescaleError:
    return PointwiseRescaleError(
        "Cannot rescale the given pointwise partitioner.\n"
        "Did you change the partitioner to forward or rescale?\n"
        "It may also help to add an explicit shuffle().",
        f"Found in-flight data to deal from {old_parallelism} to {new_parallelism} subtasks on an exchange that keeps "
        "subtasks paired; restore at the old parallelism, or from an aligned checkpoint or a savepoint.",
    )


@dataclass(frozen=True, slots=True)
class PartitionerRules:
    """The meaning of an exchange for recovery: the mappers of its two ends, and its shape.

    With `pointwise`, a subtask is connected to some of the others only. With `broadcast`, every record goes to all.
    With `supports_unaligned`, in-flight data may be part of a checkpoint.
    """

    upstream: SubtaskStateMapper
    downstream: SubtaskStateMapper
    pointwise: bool = False
    broadcast: bool = False
    supports_unaligned: bool = True


_M = SubtaskStateMapper
_POINTWISE = PartitionerRules(_M.UNSUPPORTED, _M.UNSUPPORTED, pointwise=True, supports_unaligned=False)

PARTITIONERS: dict[str, PartitionerRules] = {
    "forward": _POINTWISE,
    "rescale": _POINTWISE,
    "hash": PartitionerRules(_M.ARBITRARY, _M.RANGE),
    "rebalance": PartitionerRules(_M.ARBITRARY, _M.ROUND_ROBIN),
    "shuffle": PartitionerRules(_M.ARBITRARY, _M.ROUND_ROBIN),
    "global": PartitionerRules(_M.ARBITRARY, _M.FIRST),
    "custom": PartitionerRules(_M.ARBITRARY, _M.FULL, supports_unaligned=False),
    "broadcast": PartitionerRules(_M.UNSUPPORTED, _M.UNSUPPORTED, broadcast=True, supports_unaligned=False),
}
"""The exchanges by name."""
