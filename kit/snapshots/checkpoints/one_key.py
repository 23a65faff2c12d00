"""One key of a keyed state: its key group, so that nothing else is read, and its rows.

The key group of a key follows from its Java hash code. For the key of a user's class only that class knows it; then all
key groups are read for the rows of the key.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kit.snapshots.given_keys import KeyType, key_column, plain_key
from kit.snapshots.python_values import python_values
from kit.snapshots.serializers.types import Type
from kit.snapshots.surgery.key_hashes import has_known_hash, hash_of
from kit.stream.backend.keys.key_hashing import assign_to_key_group, key_group_for_hash


class OneKey:
    """A key in the type of a state's keys. Raises CheckpointError for a key that is not of this type."""

    def __init__(self, key: Any, type_: KeyType) -> None:
        self._type = type_
        self._column = key_column(key, type_)
        (self.value,) = python_values(self._column)

    def key_group(self, max_parallelism: int) -> int | None:
        """Return its key group, None if only a class of the user knows how such keys are hashed."""
        if not isinstance(self._type, Type):
            return assign_to_key_group(self.value, max_parallelism, self._type)
        if not has_known_hash(self._type):
            return None
        (stored,) = self._type.from_arrow(self._column)
        return key_group_for_hash(hash_of(self._type, stored), max_parallelism)

    def rows_of(self, table: pa.Table) -> pa.Table:
        """Return the rows of the key, of a table with a column `key`."""
        if not table.num_rows or "key" not in table.column_names:
            return table.slice(0, 0)
        keys = table["key"]
        if keys.type == self._column.type and not pa.types.is_nested(keys.type) and not pa.types.is_floating(keys.type):
            return table.filter(pc.is_in(keys, value_set=self._column))
        wanted = plain_key(self.value)
        return table.filter(pa.array([plain_key(each) == wanted for each in python_values(keys)], pa.bool_()))
