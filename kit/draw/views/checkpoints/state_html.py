"""Tables of state as HTML."""

from __future__ import annotations

import json
from collections.abc import Iterable
from html import escape

import pyarrow as pa

from kit.core.html_tables import ROWS, frame_html
from kit.draw.panel import panel
from kit.snapshots.state_tables import IN_FLIGHT, StateTable, StateTables

MOST_CHANNELS = 8
"""The most channels whose contents are shown; those of more are counted."""


def split_name(split: str) -> str:
    """Return the name of a source's split: the `id` of a JSON object, or the unchanged text."""
    try:
        parsed = json.loads(split)
    except ValueError:
        return split
    return str(parsed.get("id", split)) if isinstance(parsed, dict) else split


def state_html(state: StateTable | StateTables) -> str:
    """Return one table, or all, in a panel."""
    body = frame_html(state.to_pandas()) if isinstance(state, StateTable) else tables_html(state)
    return panel(state.title, body, under=state.note)


def tables_html(tables: StateTables, most: int = ROWS, task: str = "") -> str:
    """Return the tables one below the other, each cut after `most` rows. With a `task`, omit constant columns."""
    full = [table for table in tables if table.rows.num_rows]
    channels = [table for table in full if table.kind == IN_FLIGHT]
    if len(channels) > MOST_CHANNELS:
        full = [*(table for table in full if table.kind != IN_FLIGHT), _channels_together(channels)]
    empty = ", ".join(f"{table.name} of {table.operator}" for table in tables if not table.rows.num_rows)
    rest = f'<p class="kit-note">empty: {escape(empty)}</p>' if empty else ""
    return "".join(_table_html(table, most, task) for table in full) + rest or "<p>There is nothing in state.</p>"


def _table_html(table: StateTable, most: int = ROWS, task: str = "") -> str:
    """Return the heading and the table. With a `task`, the columns that are the same in all its rows are left out."""
    note = f'<p class="kit-note">{escape(table.note)}</p>' if table.note else ""
    rows = table.to_pandas()
    if task:
        rows = rows.drop(columns=["task", "source", "channel"], errors="ignore").dropna(axis="columns", how="all")
    return f"<h4>{escape(table.title)}</h4>{note}{frame_html(rows, most)}"


def _channels_together(tables: Iterable[StateTable]) -> StateTable:
    """Return a table with a row per channel: the number of elements and records in it."""
    rows = [
        {
            "task": table.operator,
            "from": table.name.removeprefix("from "),
            "elements": len(set(table.rows.column("element").to_pylist())),
            "rows": table.rows.num_rows,
        }
        for table in tables
    ]
    note = "each channel's own table: lab.queue(n)"
    return StateTable(IN_FLIGHT, "", "by channel", pa.Table.from_pylist(rows), note)
