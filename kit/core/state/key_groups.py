"""Key groups: how the key space of an operator is divided among its subtasks.

A key belongs to one of `max_parallelism` *key groups*; `kit.stream.backend.keys.key_hashing` computes which. Key groups
are assigned to subtasks in contiguous ranges, so rescaling moves ranges and never single keys. Follows
`KeyGroupRangeAssignment`.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from kit.core.state.handles import KeyGroupRange

DEFAULT_LOWER_BOUND_MAX_PARALLELISM = 1 << 7
UPPER_BOUND_MAX_PARALLELISM = 1 << 15


def check_parallelism(parallelism: int) -> None:
    """Raise ValueError unless `parallelism` is in 1..32768."""
    if not 0 < parallelism <= UPPER_BOUND_MAX_PARALLELISM:
        raise ValueError(
            f"Operator parallelism not within bounds: {parallelism} (expected 1 to {UPPER_BOUND_MAX_PARALLELISM})"
        )


def default_max_parallelism(parallelism: int) -> int:
    """Return the maximum parallelism of an operator that did not set one.

    It is 1.5 times the parallelism, rounded up to a power of two, and kept within 128..32768.
    """
    check_parallelism(parallelism)
    wanted = parallelism + parallelism // 2
    power_of_two = 1 << (wanted - 1).bit_length()
    return min(max(power_of_two, DEFAULT_LOWER_BOUND_MAX_PARALLELISM), UPPER_BOUND_MAX_PARALLELISM)


def key_group_range_for_operator_index(max_parallelism: int, parallelism: int, operator_index: int) -> KeyGroupRange:
    """Return the contiguous key groups (both ends inclusive) that subtask `operator_index` owns.

    As in Flink, an index beyond the parallelism is not rejected: it yields the range it would have. A negative index
    raises ValueError.
    """
    check_parallelism(parallelism)
    check_parallelism(max_parallelism)
    if max_parallelism < parallelism:
        raise ValueError(f"Maximum parallelism must not be smaller than parallelism: {max_parallelism} < {parallelism}")
    if operator_index < 0:
        raise ValueError(f"Operator index must not be negative: {operator_index}")
    start = (operator_index * max_parallelism + parallelism - 1) // parallelism
    end = ((operator_index + 1) * max_parallelism - 1) // parallelism
    return KeyGroupRange(start, end)


def key_group_partitions(max_parallelism: int, parallelism: int) -> list[KeyGroupRange]:
    """Return the key group range of every subtask, in order of subtask index."""
    return [KeyGroupRange(start, end - 1) for start, end in pairwise(key_group_bounds(max_parallelism, parallelism))]


def key_group_bounds(max_parallelism: int, parallelism: int) -> list[int]:
    """Return the first key group of every subtask, in order of subtask index, followed by `max_parallelism`."""
    key_group_range_for_operator_index(max_parallelism, parallelism, 0)  # raises for invalid arguments
    bounds = (np.arange(parallelism + 1) * max_parallelism + parallelism - 1) // parallelism
    return bounds.tolist()


def sums_by_subtask(by_key_group: npt.NDArray[np.float64], parallelism: int) -> npt.NDArray[np.float64]:
    """Return the sum over the key groups that each of `parallelism` subtasks owns, given a number per key group."""
    bounds = key_group_bounds(len(by_key_group), parallelism)
    before = np.concatenate([[0.0], np.cumsum(by_key_group)])
    return before[bounds[1:]] - before[bounds[:-1]]


def operator_index_for_key_group(max_parallelism: int, parallelism: int, key_group: int) -> int:
    """Return the subtask that owns `key_group`."""
    return key_group * parallelism // max_parallelism


@lru_cache(maxsize=64)
def _owners(max_parallelism: int, parallelism: int) -> npt.NDArray[Any]:
    dtype = np.uint8 if parallelism <= 256 else np.uint16
    owners = (np.arange(max_parallelism, dtype=np.int64) * parallelism // max_parallelism).astype(dtype)
    owners.flags.writeable = False
    return owners


def operator_indexes(key_groups: npt.NDArray[Any], max_parallelism: int, parallelism: int) -> npt.NDArray[Any]:
    """Return the owner of each key group: uint8 up to parallelism 256, else uint16 (small types sort by radix)."""
    return _owners(max_parallelism, parallelism).take(key_groups)
