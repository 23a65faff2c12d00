"""The common base of this package's specs: resolved and checked schemas, and errors that name the cause.

A spec takes the schema of its input and its own settings, and determines the schema of its output in `_resolve`. Every
problem with the columns is reported there, before a job runs, as a `SchemaError`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import pyarrow as pa

from kit.core.arrow_kinds import can_be_key, no_key
from kit.stream.backend.types.arrow_types import (
    as_type,
    stored_type,
    type_in_rows,
    why_not_in_rows,
    why_not_in_state,
    why_not_in_stream,
)
from kit.stream.backend.types.exact_values import exact_array
from kit.stream.operators.base import OperatorSpec
from kit.stream.operators.functions.function_bases import check_shared
from kit.stream.operators.hints import hint

_LONGEST_VALUE = 200


class SchemaError(ValueError):
    """A required column does not exist, or has a type that the operator cannot use."""


class UserFunctionError(RuntimeError):
    """A user's function raised, or returned what does not fit its output schema."""

    @classmethod
    def of(
        cls, operator: str, function: Callable[..., Any], at: str, error: BaseException, called_with: str = ""
    ) -> UserFunctionError:
        """Return the error of `function`, which `operator` called with what `at` describes."""
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        said += hint(function, error, called_with)
        return cls(f"{operator}: function {function_name(function)} failed on {shorten(at)}: {said}")

    @classmethod
    def of_batch(
        cls, operator: str, function: Callable[..., Any], batch: pa.RecordBatch, error: BaseException
    ) -> UserFunctionError:
        """Return the error of a function that was called with a batch."""
        first = batch.slice(0, 1).to_pylist()
        at = f"a batch of {batch.num_rows} rows, the first being {first[0]}" if first else "a batch of no rows"
        return cls.of(operator, function, at, error)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ResolvedSpec(OperatorSpec):
    """A spec that determines its schemas from its settings; `name` is the operator's kind by default."""

    name: str = ""
    input_schemas: tuple[pa.Schema, ...] = field(init=False, default=())
    output_schema: pa.Schema | None = field(init=False, default=None)
    key_type: pa.DataType | None = field(init=False, default=None)

    acts: ClassVar[bool] = False

    hooks_remedy: ClassVar[str] = "derive it from ProcessFunction as well, and use process(...)"
    """The way to have the hooks of `kit.stream.operators.functions.function_bases` called, for an error."""

    def __post_init__(self) -> None:
        if not self.name:
            self._set(name=type(self).__name__)
        self._check_functions()
        self._resolve()
        if self.output_schema is not None:
            check_stream(self.output_schema, self.name)

    def _resolve(self) -> None:
        """Check the settings and set the schemas and the key type. Raises SchemaError."""
        raise NotImplementedError

    def _check_functions(self) -> None:
        """Raise TypeError for a user's object whose hooks would never be called."""
        for each in fields(self):
            if each.init:
                check_shared(getattr(self, each.name), self.name, self.hooks_remedy)

    def _set(self, **values: Any) -> None:
        for attribute, value in values.items():
            object.__setattr__(self, attribute, value)

    def __deepcopy__(self, memo: dict[int, object]) -> ResolvedSpec:
        """Return the spec itself: it is immutable."""
        return self

    def __repr__(self) -> str:
        return type(self).__name__ + ("" if self.name == type(self).__name__ else f"({self.name!r})")


def columns_given(setting: str, found: object) -> pa.Schema:
    """Return columns, given as a schema or as types by name. Raises SchemaError for anything else."""
    if isinstance(found, pa.Schema):
        return found
    if not isinstance(found, Mapping):
        raise SchemaError(f'{setting} = {shorten(repr(found))}: expected types by name, such as {{"n": pa.int64()}}')
    for name, arrow_type in found.items():
        try:
            pa.schema([(name, arrow_type)])
        except (TypeError, ValueError, pa.ArrowException):
            raise SchemaError(
                f"{setting}: column {name!r} has the type {shorten(repr(arrow_type))}: expected an Arrow type, such as "
                "pa.int64(), pa.float64() or pa.string()"
            ) from None
    return pa.schema(list(found.items()))


def column_field(schema: pa.Schema, column: str, operator: str) -> pa.Field:
    """Return the field of a column. Raises SchemaError naming the column, the operator and the existing columns."""
    if not isinstance(column, str):
        raise SchemaError(
            f"{operator}: a column is named by a string, found {shorten(repr(column))} ({type(column).__name__}); the "
            f"columns are {', '.join(map(repr, schema.names)) or 'none'}{_instead(operator, column)}"
        )
    if schema.get_field_index(column) < 0:
        count = schema.names.count(column)
        found = f"there are {count} columns {column!r}" if count else f"there is no column {column!r}"
        raise SchemaError(f"{operator}: {found}; the columns are {', '.join(map(repr, schema.names)) or 'none'}")
    return schema.field(column)


def _instead(operator: str, column: object) -> str:
    if callable(column):
        return f': add a column for what the function computes, with_column("key", ...), and then {operator}("key")'
    if isinstance(column, list | tuple) and all(isinstance(each, str) for each in column):
        return f": write {operator}({', '.join(map(repr, column))})"
    return ""


def check_stream(schema: pa.Schema, operator: str) -> None:
    """Raise SchemaError for a column of a type that cannot be sent from task to task."""
    for column in schema:
        reason = why_not_in_stream(column.type)
        if reason is not None:
            raise SchemaError(f"{operator}: column {column.name!r} cannot be {column.type}: {reason}")


def check_made_of_rows(schema: pa.Schema, operator: str) -> None:
    """Raise SchemaError for a column that a function of rows cannot make."""
    for column in schema:
        reason = why_not_in_rows(column.type)
        if reason is not None:
            raise SchemaError(
                f"{operator}: no function of rows can make column {column.name!r} of {column.type}: {reason}"
            )


def batch_of(columns: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Return Python values, column by column, as a batch.

    Raises InexactError for a value that would become another one, and Arrow's error for one that does not fit.
    """
    arrays = []
    for column, values in zip(schema, columns, strict=True):
        plain = type_in_rows(column.type) or column.type
        array = exact_array(values, plain)
        arrays.append(array if plain.equals(column.type) else as_type(array, column.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def key_type_of(schema: pa.Schema, keys: Sequence[str], operator: str) -> pa.DataType:
    """Return the Arrow type of a key: that of its one column, or a struct of several.

    A dictionary column counts as its values.

    Raises SchemaError for a missing column, for no columns, for one named twice, and for a type that cannot be a key.
    """
    fields = [column_field(schema, key, operator) for key in keys]
    fields = [each.with_type(stored_type(each.type)) for each in fields]
    if not fields or len(set(keys)) < len(keys):
        raise SchemaError(f"{operator}: a key needs one or more different columns, but these were given: {list(keys)}")
    for each in fields:
        if not can_be_key(each.type):
            raise SchemaError(f"{operator}: column {each.name!r}: {no_key(each.type)}")
    return fields[0].type if len(fields) == 1 else pa.struct(fields)


def keys_of(batch: pa.RecordBatch, keys: Sequence[str]) -> pa.Array:
    """Return the keys of the rows: one column, unchanged, or several as a struct array of `key_type_of`'s type."""
    if len(keys) == 1:
        column = batch.column(keys[0])
        return column if pa.types.is_dictionary(column.type) else as_type(column, stored_type(column.type))
    fields = [batch.schema.field(key) for key in keys]
    plain = [field.with_type(stored_type(field.type)) for field in fields]
    columns = [as_type(batch.column(field.name), field.type) for field in plain]
    return pa.StructArray.from_arrays(columns, fields=plain)


def key_columns(keys: pa.Array, types: Sequence[pa.DataType]) -> list[pa.Array]:
    """Return the columns that a key consists of, in these types; the inverse of `keys_of`."""
    columns = [keys] if len(types) == 1 else keys.flatten()
    return [as_type(column, wanted) for column, wanted in zip(columns, types, strict=True)]


def row_type(schema: pa.Schema, operator: str, *, in_columns: bool = False) -> pa.DataType:
    """Return the type in which an operator keeps the rows of a schema.

    Raises SchemaError for a column that no state can hold. With `in_columns` the rows are never converted to Python
    values.
    """
    for column in schema:
        reason = why_not_in_state(stored_type(column.type) if in_columns else column.type)
        if reason is None and not in_columns:
            reason = why_not_in_rows(column.type)
        if reason is not None and not pa.types.is_null(column.type):
            raise SchemaError(
                f"{operator}: column {column.name!r} is {column.type}, and {operator} keeps rows in its state, which "
                f"cannot hold that: {reason}"
            )
    return pa.struct([column.with_type(stored_type(column.type)) for column in schema])


def as_rows(rows: pa.StructArray, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows from a state as a batch again."""
    columns = [as_type(column, field.type) for column, field in zip(rows.flatten(), schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def unique_names(names: Iterable[str], operator: str) -> None:
    """Raise SchemaError if two output columns would have the same name."""
    for name, times in Counter(names).items():
        if times > 1:
            raise SchemaError(f"{operator}: two output columns are named {name!r}; give one of them another name")


def check_function(function: object, operator: str, wanted: str) -> None:
    """Raise TypeError for anything that cannot be called; `wanted` says what the operator takes."""
    if not callable(function):
        raise TypeError(f"{operator} takes {wanted}; found {shorten(repr(function))} ({type(function).__name__})")


def function_name(function: Callable[..., Any]) -> str:
    """Return a user's function's name in errors: with its module, unless that is the notebook."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    module = getattr(function, "__module__", None) or "__main__"
    return name if module == "__main__" else f"{module}.{name}"


def column_list(schema: pa.Schema, most: int | None = None) -> str:
    """Return columns for a message: `carrier: string, delay: int64`; beyond `most` characters they are counted."""
    listed = [f"{column.name}: {column.type}" for column in schema]
    count = len(listed)
    while most is not None and count > 1 and len(", ".join(listed[:count])) > most:
        count -= 1
    more = f" and {len(listed) - count} more" if count < len(listed) else ""
    return (", ".join(listed[:count]) or "none") + more


def shorten(text: str) -> str:
    """Return a text for an error message: in one line, and shortened if it is too long."""
    if "\n" in text:
        text = " ".join(text.split())
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."
