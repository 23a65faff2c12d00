"""A plan of parallelisms by the keys that a checkpoint holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from kit.advice import ParallelismPlan, plan_key_groups, plan_parallelism
from kit.stream.backend.keys.key_hashing import java_hash, key_groups_for_hashes


def plan_of(
    rows: pa.Table,
    max_parallelism: int,
    parallelisms: int | Iterable[int],
    max_parallelisms: int | Iterable[int] | None,
) -> ParallelismPlan:
    """Return the plan for the rows of one state, read with `key_group` and `key`. Raises ValueError.

    Keys are hashed only if that gives the key groups they are in: the hash of a user's class is not known here.
    """
    groups = rows["key_group"].to_numpy()
    keys = rows["key"].combine_chunks() if "key" in rows.column_names else None
    if keys is not None and len(keys) and _are_hashed(keys, groups, max_parallelism):
        return plan_parallelism(keys, parallelisms, max_parallelisms)
    if max_parallelisms is not None and max_parallelisms != max_parallelism:
        raise ValueError(
            f"the key groups of keys of type {'unknown' if keys is None else keys.type} cannot be computed here: leave "
            f"out the maximum parallelism, and the plan is made for that of the checkpoint, {max_parallelism}"
        )
    return plan_key_groups(np.bincount(groups, minlength=max_parallelism), parallelisms)


def _are_hashed(keys: pa.Array, groups: np.ndarray[Any, Any], max_parallelism: int) -> bool:
    if keys.null_count:
        return False
    try:
        return bool((key_groups_for_hashes(java_hash(keys), max_parallelism) == groups).all())
    except (TypeError, ValueError, pa.ArrowException):
        return False
