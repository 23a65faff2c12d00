"""Tables for people, and rows for programs: JSON lines and Parquet."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kit.snapshots.python_values import json_value, python_values, value_text

if TYPE_CHECKING:
    import pandas as pd

LONGEST = 60
"""The maximum length of a value in a table; JSON and Parquet contain longer values in full."""
WIDEST = 10_000
"""The width of a line in a file or a pipe, so that no table is truncated there."""
MOST_ROWS = 40
CLEARED_LINE = "\r\x1b[K"
"""Go to the beginning of a terminal's line, and clear it."""


@contextmanager
def progress_line() -> Iterator[Callable[[str], None]]:
    """Give a function that shows a text in the last line of a terminal, which is empty again at the end.

    It shows nothing if standard error is no terminal.
    """
    is_shown = sys.stderr.isatty()

    def show(text: str) -> None:
        if is_shown:
            sys.stderr.write(f"{CLEARED_LINE}{text}")
            sys.stderr.flush()

    try:
        yield show
    finally:
        show("")


def as_table(rows: pa.Table | pd.DataFrame, title: str, most: int | None = None) -> None:
    """Print rows as a table: as wide as the terminal or, in a file or a pipe, as wide as its content."""
    width = None if sys.stdout.isatty() else WIDEST
    console = Console(highlight=False, soft_wrap=not sys.stdout.isatty(), width=width)
    table = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    columns = rows.column_names if isinstance(rows, pa.Table) else list(rows.columns)
    values = list(_rows(rows))
    for name in columns:
        held = [row[name] for row in values[:MOST_ROWS]]
        is_number = all(isinstance(each, int | float) for each in held) and bool(held)
        table.add_column(name, justify="right" if is_number else "left", overflow="fold")
    for row in values[:most]:
        table.add_row(*(Text(_shown(row[name])) for name in columns))
    console.print(table)
    if most is not None and len(values) > most:
        console.print(f"... and {len(values) - most:,} more")


def as_tables(title: str, frames: Mapping[str, pd.DataFrame]) -> None:
    """Print several tables, one below the other."""
    sys.stdout.write(f"{title}\n\n")
    for name, frame in frames.items():
        as_table(frame, name)
        sys.stdout.write("\n")


def for_programs(rows: pa.Table | pd.DataFrame, parquet: str | None, *, as_lines: bool) -> bool:
    """Write rows to the Parquet file, or print them as lines of JSON; return False if neither was asked for.

    Raises BadParameter if the file cannot be written.
    """
    if parquet is not None:
        try:
            write_parquet(rows, parquet)
        except OSError as error:
            raise typer.BadParameter(f"--parquet {parquet!r} cannot be written: {error}") from None
    elif as_lines:
        as_json(rows)
    return parquet is not None or as_lines


def as_json(rows: pa.Table | pd.DataFrame) -> None:
    """Print a JSON object for each row, one per line."""
    for row in _rows(rows):
        sys.stdout.write(f"{json.dumps(json_value(row), ensure_ascii=False, allow_nan=False)}\n")


def write_parquet(rows: pa.Table | pd.DataFrame, path: str) -> None:
    """Write rows to a Parquet file. Raises OSError."""
    pq.write_table(rows if isinstance(rows, pa.Table) else pa.Table.from_pandas(rows, preserve_index=False), path)


def _rows(rows: pa.Table | pd.DataFrame) -> Iterator[dict[str, Any]]:
    if not isinstance(rows, pa.Table):
        rows = pa.Table.from_pandas(rows, preserve_index=False)
    for batch in rows.to_batches(max_chunksize=10_000):
        columns = {name: python_values(batch.column(place)) for place, name in enumerate(batch.schema.names)}
        for held in zip(*columns.values(), strict=True):
            yield dict(zip(columns, held, strict=True))


def _shown(value: Any) -> str:
    text = value_text(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
