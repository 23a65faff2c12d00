"""The display of sources, streams and sinks in a notebook: a line of facts, and the columns as a table.

It is plain HTML in the notebook's own colours, so it works in a light and in a dark theme, and without a kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from kit.core.html_tables import notebook_html, rows_html
from kit.core.markup import Markup, element

_MOST_COLUMNS = 60


def described_html(title: str, facts: Mapping[str, Any], columns: pa.Schema | None = None) -> str:
    """Return a title, the facts below it (except for None and empty ones), and the columns."""
    shown_facts = [(name, str(fact)) for name, fact in facts.items() if fact not in (None, "", ())]
    said = [Markup("<br/>") + (f"{name}: {fact}" if name else fact) for name, fact in shown_facts]
    return element("div", element("b", title), *said) + (columns_html(columns) if columns is not None else "")


def columns_html(schema: pa.Schema) -> str:
    """Return one row per column: its name and its Arrow type."""
    rows = [(column.name, f"{column.type}{'' if column.nullable else ' not null'}") for column in schema]
    shown = rows_html(("column", "type"), rows[:_MOST_COLUMNS], count=len(rows), all_in=".schema")
    return notebook_html("", shown)
