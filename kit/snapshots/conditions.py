"""Conditions on the rows of a state, as a shell gives them: `value.total >= 100`, `key != UA`, `map_key = null`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kit.core.state.errors import CheckpointError
from kit.snapshots.given_keys import value_from_text

_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "!=": pc.not_equal,
    ">=": pc.greater_equal,
    "<=": pc.less_equal,
    "=": pc.equal,
    ">": pc.greater,
    "<": pc.less,
}
_FORM = re.compile(rf"\s*(.+?)\s*(==|{'|'.join(map(re.escape, _COMPARE))})\s*(.*?)\s*", re.DOTALL)
_NULL = "null"


class Condition:
    """A comparison of a column, or of a field in it, with a value: `COLUMN OPERATOR VALUE`.

    The operators are =, !=, <, <=, > and >=. A field of a struct is named as in `value.total`. The value is text for
    strings (in double quotes if it is "null" or has blanks at its ends), ISO 8601 for times, and JSON for all others. A
    comparison with null by = or != finds what is or is not null; no other comparison finds a null.

    Raises ValueError for a text of another form.
    """

    def __init__(self, text: str) -> None:
        found = _FORM.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise ValueError(
                f"{text!r} is no condition: give COLUMN OPERATOR VALUE with one of {', '.join(sorted(_COMPARE))}, "
                "such as value.total >= 100"
            )
        self.text = text
        self._path, sign, self._value = found.groups()
        self._sign = "=" if sign == "==" else sign

    def __repr__(self) -> str:
        return f"Condition({self.text!r})"

    def rows_of(self, table: pa.Table) -> pa.Table:
        """Return the rows of a table that meet the condition.

        Raises CheckpointError if it has no such column, or the value is not of the column's type.
        """
        if not table.num_rows:
            return table
        return table.filter(pc.fill_null(self._holds(self._column(table)), False))

    def _column(self, table: pa.Table) -> pa.Array | pa.ChunkedArray:
        """Return the column or field that the condition names."""
        names, column, path = table.column_names, None, self._path
        while path is not None:
            name, _, rest = (path, "", None) if path in names else path.partition(".")
            if name not in names:
                raise CheckpointError(f"condition {self.text!r}: there is no {name!r}, only {', '.join(names)}")
            column = table[name] if column is None else pc.struct_field(column, name)
            names = [field.name for field in column.type] if pa.types.is_struct(column.type) else []
            path = rest or None
        return column

    def _holds(self, column: pa.Array | pa.ChunkedArray) -> Any:
        if self._value == _NULL and self._sign in ("=", "!="):
            return column.is_null() if self._sign == "=" else column.is_valid()
        if pa.types.is_nested(column.type):
            fields = [f"{self._path}.{field.name}" for field in column.type] if pa.types.is_struct(column.type) else []
            advice = f"compare a field: {', '.join(fields)}" if fields else "only = null and != null are possible"
            raise CheckpointError(f"condition {self.text!r}: {self._path} is {column.type}: {advice}")
        is_quoted = len(self._value) > 1 and self._value[0] == self._value[-1] == '"'
        text = self._value[1:-1] if is_quoted else self._value
        try:
            value = value_from_text(text, column.type)
            if isinstance(value, bool) != pa.types.is_boolean(column.type) or (
                pa.types.is_integer(column.type) and not isinstance(value, int)
            ):  # Arrow would round it
                raise ValueError(f"it is a {type(value).__name__}")
            return _COMPARE[self._sign](column, pa.scalar(value, column.type))
        except (ValueError, TypeError, OverflowError, pa.ArrowException) as error:
            raise CheckpointError(
                f"condition {self.text!r}: {self._path} is {column.type}, and {text!r} is no such value ({error})"
            ) from None


class Conditions:
    """Conditions that a row must all meet; none is met by every row."""

    def __init__(self, texts: str | Sequence[str]) -> None:
        self._all = [Condition(text) for text in ([texts] if isinstance(texts, str) else texts)]

    def __repr__(self) -> str:
        return f"Conditions({[each.text for each in self._all]})"

    def rows_of(self, table: pa.Table) -> pa.Table:
        """Return the rows of a table that meet all conditions. Raises CheckpointError as `Condition` does."""
        for condition in self._all:
            table = condition.rows_of(table)
        return table
