"""Columns: as users write them, as messages show them, and the column of the event time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import pyarrow as pa

from kit.stream.api.transformation import Origin
from kit.stream.operators.event_time import TimeColumn
from kit.stream.operators.spec import columns_given

Columns: TypeAlias = pa.Schema | Mapping[str, pa.DataType]
"""A schema, or its columns as {name: Arrow type}."""


def schema_of(columns: Columns | None, otherwise: pa.Schema) -> pa.Schema:
    """Return the columns as a schema; `otherwise` if none are given."""
    if columns is None:
        return otherwise
    return columns_given("returns", columns)


def described(schema: pa.Schema) -> str:
    """Return columns as text for a message: `(carrier: string, delay: int64)`."""
    return "(" + ", ".join(f"{column.name}: {column.type}" for column in schema) + ")"


def different_columns(one: pa.Schema, other: pa.Schema) -> str:
    """Return which column differs, or that the columns are others."""
    if one.names == other.names:
        for column, beside in zip(one, other, strict=True):
            if not column.equals(beside):
                null = ["" if each.nullable else " not null" for each in (column, beside)]
                return (
                    f"column {column.name!r} is {column.type}{null[0]} in one stream and {beside.type}{null[1]} in the "
                    "other: make them equal before, with map_batches or with_column"
                )
    return f"{described(one)} and {described(other)} are not the same columns"


def event_time_column(origins: Iterable[Origin]) -> TimeColumn | None:
    """Return the column of the nearest `assign_timestamps` upstream; None if there is none, or more than one."""
    operators = [origin.transformation for origin in origins]
    columns = {each.spec.event_time([event_time_column(inputs) for inputs in each.inputs]) for each in operators}
    return columns.pop() if len(columns) == 1 else None
