"""What a notebook shows of sources, streams and sinks: a line of facts, and the columns as a table.

Plain HTML in the notebook's own colours, so it reads in a light and in a dark theme, and where no kernel runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import pyarrow as pa

_MOST_COLUMNS = 60


def described_html(title: str, facts: Mapping[str, Any], columns: pa.Schema | None = None) -> str:
    """A title, what is to be said below it (facts that are None or empty are left out), and the columns."""
    told = [(name, str(fact)) for name, fact in facts.items() if fact not in (None, "", ())]
    said = [f"{escape(name)}: {escape(fact)}" if name else escape(fact) for name, fact in told]
    below = f"<br/>{'<br/>'.join(said)}" if said else ""
    table = "" if columns is None else columns_html(columns)
    return f"<div><b>{escape(title)}</b>{below}</div>{table}"


def columns_html(schema: pa.Schema) -> str:
    """One row a column: its name and its Arrow type."""
    rows = [(column.name, f"{column.type}{'' if column.nullable else ' not null'}") for column in schema]
    more = [(f"and {len(rows) - _MOST_COLUMNS} more", "")] if len(rows) > _MOST_COLUMNS else []
    return table_html(("column", "type"), [*rows[:_MOST_COLUMNS], *more])


def table_html(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A plain table."""
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
