"""The bytes of keyed state in each key group."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kit.core.state.handles import KeyedStateHandle, KeyGroupsStateHandle
from kit.core.state.operator_state import OperatorState


def key_group_bytes(state: OperatorState) -> npt.NDArray[np.float64]:
    """Return the bytes of each key group of an operator, one number per key group.

    They follow from the offsets of key groups in a file. Handles without offsets (incremental checkpoints) count as
    evenly spread over their key groups.
    """
    sizes = np.zeros(state.max_parallelism)
    for part in state.subtask_states.values():
        for handle in (*part.managed_keyed_state, *part.raw_keyed_state):
            _add(sizes, handle)
    return sizes


def _add(sizes: npt.NDArray[np.float64], handle: KeyedStateHandle) -> None:
    groups = handle.key_group_range
    if not len(groups):
        return
    if not isinstance(handle, KeyGroupsStateHandle):
        sizes[groups.start : groups.end + 1] += handle.state_size / len(groups)
        return
    offsets = np.asarray(handle.offsets, dtype=np.int64)
    here = np.flatnonzero(offsets >= 0)
    in_order = here[np.argsort(offsets[here], kind="stable")]
    ends = np.append(offsets[in_order[1:]], handle.state_size)
    sizes[groups.start + in_order] += np.maximum(ends - offsets[in_order], 0)
