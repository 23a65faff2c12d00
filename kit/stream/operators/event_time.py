"""The columns that hold the event time of a stream's records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

TimeColumn: TypeAlias = str | tuple[str, ...]
"""The column that holds it. Of several columns the latest time of a record counts, as in the pairs of a join."""


def columns_of(time_column: TimeColumn) -> tuple[str, ...]:
    """Return the columns, one or several."""
    return (time_column,) if isinstance(time_column, str) else time_column


def time_column_of(columns: Iterable[str]) -> TimeColumn:
    """Return one column by itself, several as a tuple without repetition."""
    distinct = tuple(dict.fromkeys(columns))
    return distinct[0] if len(distinct) == 1 else distinct


def time_aspect(time_column: TimeColumn) -> str | list[str]:
    """Return the columns as the definition of a state keeps them."""
    return time_column if isinstance(time_column, str) else list(time_column)


def described_time(time_column: TimeColumn | None) -> str | None:
    """Return the columns in words."""
    if time_column is None or isinstance(time_column, str):
        return time_column
    return f"the latest of {', '.join(time_column)}"
