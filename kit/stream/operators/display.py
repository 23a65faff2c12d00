"""The display of sources, streams and sinks in a notebook: a line of facts, and the columns as a table.

It is plain HTML in the notebook's own colours, so it works in a light and in a dark theme, and without a kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import pyarrow as pa

_MOST_COLUMNS = 60


def described_html(title: str, facts: Mapping[str, Any], columns: pa.Schema | None = None) -> str:
    """Return a title, the facts below it (except for None and empty ones), and the columns."""
    told = [(name, str(fact)) for name, fact in facts.items() if fact not in (None, "", ())]
    said = [f"{escape(name)}: {escape(fact)}" if name else escape(fact) for name, fact in told]
    below = f"<br/>{'<br/>'.join(said)}" if said else ""
    table = "" if columns is None else columns_html(columns)
    return f"<div><b>{escape(title)}</b>{below}</div>{table}"


def columns_html(schema: pa.Schema) -> str:
    """Return one row per column: its name and its Arrow type."""
    rows = [(column.name, f"{column.type}{'' if column.nullable else ' not null'}") for column in schema]
    more = [(f"and {len(rows) - _MOST_COLUMNS} more", "")] if len(rows) > _MOST_COLUMNS else []
    return table_html(("column", "type"), [*rows[:_MOST_COLUMNS], *more])


def table_html(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a plain table."""
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
