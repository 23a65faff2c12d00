"""The rows of a state page by page, searched or not. Each page reads a bounded number of key groups.

Keyed state is read key group by key group, operator state subtask by subtask. A `Place` is where a page begins, so a
page needs nothing from the one before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kit.snapshots.python_values import python_values, value_text

ROWS = 20
MOST_READ = 32
"""The most that one page reads, in key groups and newly opened subtasks: a search that finds little stops there."""


class Place(NamedTuple):
    """The beginning of a page: a unit (a key group, or a subtask), and a row in it."""

    unit: int
    row: int


class Unit(NamedTuple):
    """A part that is read at once: a key group of a subtask, or for operator state, without `key_group`, a subtask."""

    subtask: int
    key_group: int | None = None


START = Place(0, 0)
Read = Callable[[Unit], Iterator[pa.Table] | None]
"""Returns the rows of a unit; None if the unit is known to be empty without reading."""


@dataclass(frozen=True, eq=False)
class StatePage:
    """One page: `rows`, and the place where the `next` one begins, None at the end.

    `units` are all units of the state in order, so `next.unit` of them are done.
    """

    rows: pa.Table
    next: Place | None
    units: Sequence[Unit]

    def texts(self) -> list[list[str]]:
        """Return the rows as text, one list per row."""
        columns = [texts_of(column) for column in self.rows.columns]
        return [list(row) for row in zip(*columns, strict=True)]


def page_of(units: Sequence[Unit], read: Read, at: Place, most_rows: int, query: str, most_read: int) -> StatePage:
    """Return the page that begins at a place. Rows match if the text of one of their columns contains the query."""
    found: list[pa.Table] = []
    shape: list[pa.Table] = []
    left, done, opened, (unit, skip) = most_rows, 0, -1, at
    while unit < len(units) and left > 0 and done < most_read:
        tables = read(units[unit])
        done += (tables is not None) + (units[unit].subtask != opened)
        opened = units[unit].subtask
        if tables is not None:
            table = _table(list(tables))
            hits = [row for row in matching(table, query) if row >= skip]
            found.append(table.take(pa.array(hits[:left], pa.int64())))
            shape = shape or [table.slice(0, 0)]
            if len(hits) > left:
                return StatePage(_table(found), Place(unit, hits[left]), units)
            left -= len(hits)
        unit, skip = unit + 1, 0
    rows = _table([each for each in found if each.num_rows] or shape)
    return StatePage(rows, Place(unit, 0) if unit < len(units) else None, units)


def matching(table: pa.Table, query: str) -> Sequence[int]:
    """Return the numbers of the rows with a column whose text contains the query, whatever its case."""
    if not query:
        return range(table.num_rows)
    hit = pa.chunked_array([pa.array([False] * table.num_rows, pa.bool_())])
    for column in table.columns:
        hit = pc.or_(hit, _contains(column, query))
    return pc.indices_nonzero(hit).to_pylist()


def _contains(column: pa.ChunkedArray, query: str) -> pa.ChunkedArray | pa.Array:
    if pa.types.is_integer(column.type) or pa.types.is_string(column.type):
        texts = column.cast(pa.string())
    else:
        texts = pa.array(texts_of(column), pa.string())
    return pc.fill_null(pc.match_substring(texts, query, ignore_case=True), False)


def texts_of(column: pa.ChunkedArray | pa.Array) -> list[str]:
    """Return the text of each value."""
    return [value_text(value) for value in python_values(column)]


def _table(tables: list[pa.Table]) -> pa.Table:
    """Return the tables below each other. A column that is text in one of them becomes text in all.

    That is a column with a time beyond Arrow's range, which is text in its key group only.
    """
    if not tables:
        return pa.table({})
    kinds: dict[str, set[pa.DataType]] = {}
    for field in (field for table in tables for field in table.schema):
        kinds.setdefault(field.name, set()).add(field.type)
    mixed = {name for name, found in kinds.items() if len(found) > 1 and pa.string() in found}
    return pa.concat_tables([_with_texts(table, mixed) for table in tables], promote_options="permissive")


def _with_texts(table: pa.Table, names: set[str]) -> pa.Table:
    for name in names & set(table.column_names):
        place = table.column_names.index(name)
        table = table.set_column(place, name, pa.array(texts_of(table.column(place)), pa.string()))
    return table
