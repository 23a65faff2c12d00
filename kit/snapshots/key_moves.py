"""The owner of a key before and after a restore, from the key's hash and the shape of the job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kit.core.state.key_groups import operator_index_for_key_group
from kit.snapshots.transfers import Deal
from kit.stream.backend.keys.key_hashing import assign_to_key_group


@dataclass(frozen=True)
class KeyMove:
    """The owners of one key before and after a restore."""

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
        text = stayed if self.old == self.new else went
        return f"Key {self.key!r} of {self.operator} is in key group {self.key_group} of {self.groups}: {text}"


def move_of(key: Any, deal: Deal, key_type: pa.DataType | None) -> KeyMove | None:
    """Return the move of a key of this keyed state; None if it does not have the type of the keys."""
    try:
        if key_type is not None and not isinstance(key, tuple | dict):
            key = pa.scalar(key, key_type).as_py()
        group = assign_to_key_group(key, deal.groups, key_type)
    except (TypeError, ValueError, pa.ArrowException):
        return None
    old, new = owners(deal, group)
    return KeyMove(key, deal.operator, deal.vertex, group, deal.groups, old, new)


def owners(deal: Deal, group: int) -> tuple[int, int]:
    """Return the old and the new owner of a key group."""
    old, new = (operator_index_for_key_group(deal.groups, many, group) for many in (deal.before, deal.after))
    return old, new
