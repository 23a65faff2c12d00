"""The common parts of joins: the columns of a pair, and the pairs of a batch as columns.

A pair has the columns of the left row and then those of the right one; a key column with the same name on both sides
occurs once. Other columns with the same name must be renamed first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from kit.stream.backend.types.arrow_types import stored_type
from kit.stream.operators.functions.function_operator import FunctionInput, check_one_clock
from kit.stream.operators.spec import SchemaError, row_type, unique_names
from kit.stream.operators.windows.key_time_index import Numbers

MOST_ROWS = 65_536
"""The maximum number of pairs in an output batch."""


class PairColumns:
    """The columns of the pairs of two inputs, followed by those that are `added`."""

    def __init__(
        self, left: FunctionInput, right: FunctionInput, operator: str, added: Sequence[pa.Field] = ()
    ) -> None:
        same_keys = {name for name, other in zip(left.keys, right.keys) if name == other}
        self._kept = [name for name in right.schema.names if name not in same_keys]
        twice = sorted(set(left.schema.names) & set(self._kept))
        if twice:
            raise SchemaError(
                f"{operator}: both streams have a column {twice[0]!r}; give one another name before: "
                f"rename({twice[0]}={'other_' + twice[0]!r})"
            )
        self.added = tuple(added)
        self.schema = pa.schema([*left.schema, *(right.schema.field(name) for name in self._kept), *added])
        unique_names(self.schema.names, operator)

    def pairs(self, left: pa.RecordBatch, right: pa.RecordBatch, added: Sequence[Numbers] = ()) -> pa.RecordBatch:
        """Return the pairs, row by row, with the numbers of the columns that are added."""
        columns = [*left.columns, *(right.column(name) for name in self._kept)]
        columns += [pa.array(numbers).view(field.type) for numbers, field in zip(added, self.added, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def key_type_of_both(left: FunctionInput, right: FunctionInput, operator: str) -> pa.DataType | None:
    """Return the Arrow type of the key, which must be the same on both sides. Raises SchemaError otherwise.

    Key columns may have different names on the two sides, so structs are compared by their types.
    """
    types = [given.key_type(operator) for given in (left, right)]
    check_one_clock(left, right, operator)
    for given in (left, right):
        row_type(given.schema, operator, in_columns=True)
    parts = [[stored_type(given.schema.field(key).type) for key in given.keys] for given in (left, right)]
    if parts[0] != parts[1]:
        raise SchemaError(f"{operator}: the keys have types {types[0]} and {types[1]}: cast one before")
    return types[0]


def slices(*positions: Numbers) -> Iterator[tuple[Numbers, ...]]:
    """Yield slices of at most `MOST_ROWS` of equally long arrays."""
    for start in range(0, len(positions[0]), MOST_ROWS):
        yield tuple(column[start : start + MOST_ROWS] for column in positions)
