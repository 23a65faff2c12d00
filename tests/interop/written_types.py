"""Values of many types that the kit writes, restored and read by Flink: part of `make interop`.

In each savepoint of `tests.interop.value_types` each key gets the value of the next key, by `Edit.map` for one half of
the states and by `Edit.bootstrap` for the other. Flink restores the result and says what it reads.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa

import kit
from tests.snapshots.truth import told

Truth = dict[str, dict[str, Any]]
"""What Flink reads: the kind and the rows of each state, by its name."""


def exchanged(case: Path, directory: Path) -> Truth:
    """Write a savepoint in which each key has the value of the next one; return what Flink is to read of it."""
    checkpoint, truth = kit.open_checkpoint(case), json.loads((case / "truth.json").read_text())
    edited, wanted = checkpoint.edit(), {}
    for number, (name, state) in enumerate(sorted(truth.items())):
        if state["kind"] == "SPLIT" or name.endswith(".ttl.list"):
            continue  # operator state; and a list whose elements have a time each
        wanted[name] = {**state, "rows": _exchanged_rows(state)}
        table = _exchanged_values(checkpoint.state("keep", name))
        by_map = number % 2 == 0
        edited = edited.map("keep", name, partial(_of, table)) if by_map else edited.bootstrap("keep", name, table)
    edited.write(directory)
    return wanted


def _exchanged_values(table: pa.Table) -> pa.Table:
    """Return the rows, each with the value of the next one in the order of their keys."""
    map_keys = told(table["map_key"]) if "map_key" in table.column_names else [None] * table.num_rows
    places = list(zip(table["key"].to_pylist(), map(_text, map_keys), strict=True))
    order = sorted(range(table.num_rows), key=places.__getitem__)
    following = dict(zip(order, [*order[1:], *order[:1]], strict=True))
    values = table["value"].take(pa.array([following[place] for place in range(table.num_rows)], pa.int64()))
    return table.set_column(table.column_names.index("value"), "value", values)


def _of(table: pa.Table, rows: pa.Table) -> pa.Array:
    """Return the values that the keys of some rows have in a table: the rows of a key are in the same order there."""
    there = {key: number for number, key in enumerate(_numbered(table))}
    return table["value"].take(pa.array([there[key] for key in _numbered(rows)], pa.int64()))


def _numbered(table: pa.Table) -> Iterator[tuple[int, int]]:
    """Yield the key of each row, and how many rows of the key are before it."""
    seen: Counter[int] = Counter()
    for key in table["key"].to_pylist():
        yield key, seen[key]
        seen[key] += 1


def _exchanged_rows(state: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Exchange the values in the rows of the truth as `_exchanged_values` does in a table."""

    def place(row: Mapping[str, Any]) -> tuple[int, str]:
        return row["key"], _text(row.get("map_key"))

    groups = [list(rows) for _, rows in groupby(sorted(state["rows"], key=place), place)]
    made = []
    for own, following in zip(groups, [*groups[1:], *groups[:1]], strict=True):
        head = {name: own[0][name] for name in ("key", "map_key") if name in own[0]}
        rest = ("list_index", "value")
        made += [{**head, **{name: each[name] for name in rest if name in each}} for each in following]
    return made


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
