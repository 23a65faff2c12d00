"""Columns as users write them, columns in messages, and which of them holds the event time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import pyarrow as pa

from kit.api.transformation import Origin, Transformation
from kit.operators.transform import Rename
from kit.operators.watermarks import TimestampsAndWatermarks

Columns: TypeAlias = pa.Schema | Mapping[str, pa.DataType]
"""A schema, or its columns as {name: Arrow type}."""


def schema_of(columns: Columns | None, otherwise: pa.Schema) -> pa.Schema:
    """The columns as a schema; `otherwise` when none are given."""
    if columns is None:
        return otherwise
    return columns if isinstance(columns, pa.Schema) else pa.schema(list(columns.items()))


def described(schema: pa.Schema) -> str:
    """Columns for a message: `(carrier: string, delay: int64)`."""
    return "(" + ", ".join(f"{column.name}: {column.type}" for column in schema) + ")"


def event_time_column(origins: Iterable[Origin]) -> str | None:
    """The column that the nearest `assign_timestamps` upstream named; None when there is none, or not one."""
    columns = {_event_time_column(origin.transformation) for origin in origins}
    return columns.pop() if len(columns) == 1 else None


def _event_time_column(transformation: Transformation) -> str | None:
    spec = transformation.spec
    if isinstance(spec, TimestampsAndWatermarks):
        return spec.column
    column = event_time_column(origin for origins in transformation.inputs for origin in origins)
    return spec.names.get(column, column) if isinstance(spec, Rename) and column is not None else column
