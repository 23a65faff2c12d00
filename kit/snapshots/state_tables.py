"""State as tables, of a running job or of a snapshot's files: one table for each state of each operator.

A `StateTable` keeps Arrow columns, so its DataFrame has the types of the state. `StateTables` has all of them: by the
name of the state, by kind (`KINDS`), as one long table, and as HTML.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from kit.core.display import display

if TYPE_CHECKING:
    import pandas as pd

KEYED, WINDOWS, TIMERS = "keyed state", "windows", "timers"
SPLIT, UNION, BROADCAST = "split list state", "union list state", "broadcast state"
SOURCE, STAGED, IN_FLIGHT, RAW = "source position", "staged output", "in flight", "raw state"
COORDINATOR, MASTER = "coordinator", "master hook"
KINDS = (KEYED, WINDOWS, TIMERS, SPLIT, UNION, BROADCAST, SOURCE, STAGED, IN_FLIGHT, RAW, COORDINATOR, MASTER)
LONG = ("kind", "operator", "name", "task", "key_group", "key", "namespace", "value")


@dataclass(frozen=True, eq=False)
class StateTable:
    """One state over several subtasks. `rows` has a column `task`, and the columns of its kind:

    - keyed state: key_group, key, maybe namespace, value;
    - windows: key, start_ms, end_ms, value;
    - timers: domain, time_ms, key_group, key, maybe namespace;
    - split and union list state: entry, value;
    - broadcast state: key, value;
    - source position: split, position;
    - staged output: state, part, staged_by, rows, final;
    - in flight: channel, source, place, element, kind, checkpoint_id, timestamp_ms, bytes, record.
    """

    kind: str
    operator: str
    name: str
    rows: pa.Table
    note: str = ""

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows, each column with its Arrow type."""
        import pandas as pd

        return self.rows.to_pandas(types_mapper=pd.ArrowDtype)

    @property
    def title(self) -> str:
        """The name, the owner and the size of the state."""
        many = self.rows.num_rows
        of = "" if self.operator in ("", self.name) else f" of {self.operator}"
        return f"{self.kind.capitalize()} {self.name}{of}: {many:,} {'row' if many == 1 else 'rows'}"

    def _repr_html_(self) -> str:
        return str(display("state_html", self))

    def __repr__(self) -> str:
        return f"StateTable({self.title})"


class StateTables:
    """All tables of a lab's state, of a task's, or of a snapshot: `tables["totals"]` is one state's DataFrame."""

    def __init__(self, title: str, tables: Iterable[StateTable], note: str = "") -> None:
        self.title = title
        self.tables = tuple(sorted(tables, key=lambda table: KINDS.index(table.kind)))
        self.note = note

    def __iter__(self) -> Iterator[StateTable]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    def __getitem__(self, name: str) -> pd.DataFrame:
        """Return the table of a state ("totals"), of an operator's state ("sums.totals") if several have the name, or
        of a kind ("timers") if there is one table of it.

        Raises KeyError, with the known names, for any other name.
        """
        found = [each for each in self.tables if name in (each.name, f"{each.operator}.{each.name}")]
        found = found or [each for each in self.tables if name == each.kind]
        if len(found) != 1:
            there = sorted(f"{each.operator}.{each.name}" for each in (found or self.tables))
            what = f"{name!r} is the name of {len(found)}" if found else f"there is no state {name!r}"
            raise KeyError(f"{what}; there are {', '.join(there) or 'none'}")
        return found[0].to_pandas()

    def of(self, kind: str) -> list[StateTable]:
        """Return the tables of one kind, `kit.snapshots.state_tables.KINDS`."""
        return [table for table in self.tables if table.kind == kind]

    def to_pandas(self) -> pd.DataFrame:
        """Return all tables as one: kind, operator, name, task, key_group (Int64), key, namespace, value. Other columns
        of a kind are in `value`, as a dict. Values are Python objects, because states differ in their types.
        """
        import pandas as pd

        rows = [row for table in self.tables for row in _long(table)]
        return pd.DataFrame(rows, columns=list(LONG)).astype({"key_group": "Int64"})

    def _repr_html_(self) -> str:
        return str(display("state_html", self))

    def __repr__(self) -> str:
        rows = sum(table.rows.num_rows for table in self.tables)
        return f"StateTables({self.title}: {len(self.tables)} tables, {rows:,} rows)"


def _long(table: StateTable) -> Iterator[dict[str, object]]:
    head = {"kind": table.kind, "operator": table.operator, "name": table.name}
    own = [name for name in table.rows.column_names if name not in LONG or name in head]
    for row in table.rows.to_pylist():
        rest = {name: row.pop(name) for name in own}
        if rest:
            row["value"] = rest if row.get("value") is None else {**rest, "value": row["value"]}
        yield {**dict.fromkeys(LONG), **head, **row}
