"""The one builder of tables in HTML: rows, or a DataFrame, as an element that scrolls by itself.

rows_html(("task", "bytes"), [("map/0", 12)])       rows of values, or of markup (`kit.core.markup`)
frame_html(frame)                                   the first rows of a DataFrame, and how many more there are
notebook_html("3 rows", frame_html(frame))          both with their style, complete wherever HTML is shown

Text is escaped and left-aligned, numbers are right-aligned, and a missing value leaves its cell empty. `TABLE_CSS`
takes the colours of the theme inside a picture (`kit-picture`), and those of the page elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import isnan
from numbers import Integral, Number
from typing import TYPE_CHECKING, Any

from kit.core.event_time import MAX_WATERMARK_MS, MIN_WATERMARK_MS, event_time_text
from kit.core.markup import Markup, element

if TYPE_CHECKING:
    import pandas as pd

ROWS = 20
"""The number of rows of a DataFrame that are shown in a panel or a view."""
NOTEBOOK_ROWS = 60
"""The number of rows that are shown in a notebook's output, which is as many as pandas shows."""
LONGEST_WORD = 24
"""A longer word is broken where its line ends."""
SENTENCE_SPACES = 4
"""A value with so many spaces is a sentence."""
LONGEST = 300
"""A value of a DataFrame that is longer is cut after so many characters."""
TABLE_CSS = """
.kit-scroll { overflow-x: auto; max-width: 100%; }
.kit-scroll table.kit-table { border-collapse: collapse; border: 0; margin: 4px 0 8px; font-size: 12px; width: auto;
  table-layout: auto; color: inherit; background: none; }
.kit-scroll .kit-table :is(th, td) { padding: 3px 12px 3px 0; text-align: left; vertical-align: top; border: 0;
  border-bottom: 1px solid var(--kit-faint, #8885); background: none; color: inherit; white-space: normal; }
.kit-scroll .kit-table thead th { color: var(--kit-quiet, inherit); font-weight: 600;
  border-bottom-color: var(--kit-line-2, #888a); }
.kit-scroll .kit-table td { overflow-wrap: break-word; max-width: 34em; }
.kit-scroll .kit-table td.kit-wide { min-width: 14em; }
.kit-scroll .kit-table td.kit-long { min-width: 8em; overflow-wrap: anywhere; }
.kit-scroll .kit-table tbody th { font-weight: 600; max-width: 14em; overflow-wrap: break-word; }
.kit-scroll .kit-table :is(th, td).kit-number { text-align: right; font-variant-numeric: tabular-nums; }
.kit-scroll .kit-table td.kit-number { white-space: nowrap; }
.kit-scroll .kit-table tr.waits td { background: var(--kit-align-fill); }
.kit-scroll .kit-table tr.bad td { background: var(--kit-bad-fill); }
.kit-scroll .kit-table tr.chosen td { background: var(--kit-card); }
.kit-more-rows { margin: 2px 0 6px; font-size: 11.5px; color: var(--kit-quiet, inherit); }
"""
_MISSING = ("NAType", "NaTType")


def rows_html(
    heads: Sequence[object],
    rows: Iterable[Sequence[object]],
    *,
    labels: Iterable[object] | None = None,
    marks: Iterable[str] = (),
    count: int | None = None,
    all_in: str = "",
) -> Markup:
    """Return rows as a table, or nothing if there are none. A column of numbers is right-aligned, with separators of
    thousands.

    `labels` are the headers of the rows, and `marks` their classes: waits, bad, chosen or empty. If these rows are the
    first of `count`, a sentence below them counts the others, and names the call that returns all (`all_in`).
    """
    listed = [[*row] for row in rows]
    numbers = [_are_numbers(row[at] for row in listed) for at in range(len(heads))]
    shown = [[_grouped(value) for value in row] for row in listed]
    return _table(heads, shown, numbers, count or len(listed), labels, marks, all_in) if listed else Markup("")


def frame_html(frame: pd.DataFrame, most: int = ROWS, *, are_labelled: bool = False, all_in: str = "") -> Markup:
    """Return a DataFrame as a table of at most `most` rows, with its columns even if it is empty.

    Numbers are written as they are, since they may be keys or times. Two kinds of columns are known by their names:
    sizes (`bytes`, `..._bytes`) have separators of thousands, and times (`..._ms`) name the two ends of event time. If
    `are_labelled`, the index is shown as the headers of the rows.
    """
    import pandas as pd

    writers = [_writer(str(name)) for name in frame.columns]
    shown = [
        [_cut(write(value)) for write, value in zip(writers, row)]
        for row in frame.head(most).itertuples(index=False, name=None)
    ]
    types = pd.api.types
    numbers = [types.is_numeric_dtype(dtype) and not types.is_bool_dtype(dtype) for dtype in frame.dtypes]
    labels = frame.index[:most] if are_labelled else None
    return _table([*frame.columns], shown, numbers, len(frame), labels, (), all_in)


def notebook_html(said: str, *parts: str) -> Markup:
    """Return a sentence, if there is one, and tables below it, with the style that they need."""
    return element("style", Markup(TABLE_CSS)) + (element("p", said) if said else "") + Markup("".join(parts))


def cell_text(value: object) -> str:
    """Return the text of a cell: markup unchanged, bytes in hexadecimal, and nothing for a missing value."""
    if isinstance(value, str):
        return value
    if value is None or type(value).__name__ in _MISSING:
        return ""
    if isinstance(value, float):
        return "" if isnan(value) else f"{value:.12g}"
    if isinstance(value, dict):
        return ", ".join(f"{name} {cell_text(part)}" for name, part in value.items())
    if isinstance(value, list):
        return f"[{', '.join(repr(part) if isinstance(part, str) else cell_text(part) for part in value)}]"
    return value.hex() if isinstance(value, bytes) else str(value)


def _writer(column: str) -> Callable[[Any], str]:
    if column.endswith("_ms"):
        return _time_text
    return _grouped if column == "bytes" or column.endswith("_bytes") else cell_text


def _grouped(value: object) -> str:
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    return f"{value:,}" if is_whole else cell_text(value)


def _are_numbers(values: Iterable[object]) -> bool:
    known = [value for value in values if cell_text(value)]
    return bool(known) and all(isinstance(value, Number) and not isinstance(value, bool) for value in known)


def _time_text(value: Any) -> str:
    """Format a time in ms; name the two ends of event time in words."""
    is_end = isinstance(value, Integral) and int(value) in (MIN_WATERMARK_MS, MAX_WATERMARK_MS)
    return event_time_text(value) if is_end else cell_text(value)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST or isinstance(text, Markup) else text[:LONGEST] + "…"


def _cells(row: Sequence[str], classes: Sequence[str]) -> Iterator[Markup]:
    for text, each in zip(row, classes, strict=True):
        yield element("td", text, class_=each)


def _width(texts: Iterable[str]) -> str:
    """Return the class of a column that would otherwise be too narrow or too wide.

    Words are whole, but for such as no narrow table can hold; sentences become narrow and high; "" for other columns.
    """
    shown = list(texts)
    if any(len(word) > LONGEST_WORD for text in shown for word in text.split()):
        return "kit-long"
    return "kit-wide" if any(text.count(" ") >= SENTENCE_SPACES for text in shown) else ""


def _table(
    heads: Sequence[object],
    rows: Sequence[Sequence[str]],
    numbers: Sequence[bool],
    count: int,
    labels: Iterable[object] | None,
    marks: Iterable[str],
    all_in: str,
) -> Markup:
    classes = ["kit-number" if number else _width(row[at] for row in rows) for at, number in enumerate(numbers)]
    named = [] if labels is None else [element("th", cell_text(label), scope="row") for label in labels]
    top = [element("th", head, class_=each) for head, each in zip(heads, classes, strict=True)]
    corner = [element("th", "")] if labels is not None else []
    marked = [*marks] or [""] * len(rows)
    body = [
        element("tr", *named[at : at + 1], *_cells(row, classes), class_=mark)
        for at, (row, mark) in enumerate(zip(rows, marked, strict=True))
    ]
    drawn = element("thead", element("tr", *corner, *top)) + element("tbody", *body)
    more = count - len(rows)
    every = f": {all_in} has all" if all_in else ""
    rest = element("p", f"… and {more:,} more{every}", class_="kit-more-rows") if more > 0 else ""
    return element("div", element("table", drawn, class_="kit-table"), class_="kit-scroll") + rest
