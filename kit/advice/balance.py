"""The balance of key groups over subtasks: how much busier than the mean the busiest subtask is, and why."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kit.core.state.key_groups import key_group_bounds, operator_indexes, sums_by_subtask


def key_column(keys: Any) -> pa.Array:
    """Return keys as one Arrow array: an array, a chunked column, a pandas Series, a numpy array or a list."""
    column = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
    return column if isinstance(column, pa.Array) else pa.array(column)


@dataclass(frozen=True, eq=False)
class Balance:
    """A load for each key group, of shape (max_parallelism,), over `parallelism` subtasks."""

    loads: npt.NDArray[Any]
    parallelism: int

    @property
    def max_parallelism(self) -> int:
        """The number of key groups."""
        return len(self.loads)

    @cached_property
    def by_subtask(self) -> npt.NDArray[np.float64]:
        """The load of each subtask."""
        return sums_by_subtask(self.loads, self.parallelism)

    @property
    def imbalance(self) -> float:
        """The load of the busiest subtask, as a multiple of the mean; 0 without any load."""
        return float(self.by_subtask.max() / (self.by_subtask.mean() or 1.0))

    @property
    def group_imbalance(self) -> float:
        """The same if all key groups were equal: some subtasks own one more than others."""
        owned = np.diff(key_group_bounds(self.max_parallelism, self.parallelism))
        return float(owned.max() * self.parallelism / self.max_parallelism)

    @property
    def idle(self) -> int:
        """The number of subtasks without load."""
        return int((self.by_subtask == 0).sum())

    @property
    def headroom(self) -> float:
        """The factor by which the parallelism can still grow."""
        return self.max_parallelism / self.parallelism

    def moved_from(self, parallelism: int) -> npt.NDArray[np.bool_]:
        """Return a mask of the key groups that another subtask owned at this parallelism."""
        groups = np.arange(self.max_parallelism)
        before = operator_indexes(groups, self.max_parallelism, parallelism)
        now = operator_indexes(groups, self.max_parallelism, self.parallelism)
        return before.astype(np.int64) != now
