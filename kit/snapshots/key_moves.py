"""Where a key was before a restore, and where it is now: what its hash, and the shape of the job, say of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kit.core.state.key_groups import operator_index_for_key_group
from kit.snapshots.transfers import Deal
from kit.stream.backend.keys.key_hashing import assign_to_key_group


@dataclass(frozen=True)
class KeyMove:
    """Where one key was and is."""

    key: Any
    operator: str
    vertex: str
    key_group: int
    groups: int
    old: int
    new: int

    def __str__(self) -> str:
        went = f"it was with {self.vertex}/{self.old} and is with {self.vertex}/{self.new} now"
        stayed = f"{self.vertex}/{self.new} had it and has it still"
        told = stayed if self.old == self.new else went
        return f"Key {self.key!r} of {self.operator} is in key group {self.key_group} of {self.groups}: {told}"


def move_of(key: Any, deal: Deal, key_type: pa.DataType | None) -> KeyMove | None:
    """Where a key of this keyed state was and is; None where it is no key of its type."""
    group = _group_of(key, deal.groups, key_type)
    if group is None:
        return None
    old, new = owners(deal, group)
    return KeyMove(key, deal.operator, deal.vertex, group, deal.groups, old, new)


def owners(deal: Deal, group: int) -> tuple[int, int]:
    """The subtasks that had a key group and have it."""
    old, new = (operator_index_for_key_group(deal.groups, many, group) for many in (deal.before, deal.after))
    return old, new


def _group_of(key: Any, groups: int, key_type: pa.DataType | None) -> int | None:
    """The key group of a key; None where it is no key of that type."""
    try:
        if key_type is not None and not isinstance(key, tuple | dict):
            key = pa.scalar(key, key_type).as_py()
        return assign_to_key_group(key, groups, key_type)
    except (TypeError, ValueError, pa.ArrowException):
        return None
