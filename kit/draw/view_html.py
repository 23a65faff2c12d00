"""Builders of a view's HTML: heading, answer, tables, folds and a legend."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from kit.core.markup import Markup, element, markup
from kit.core.markup import table as markup_table
from kit.draw.graphs import STYLE as GRAPH_STYLE
from kit.draw.graphs import Graph
from kit.draw.panel import ROWS
from kit.draw.svg import asset

if TYPE_CHECKING:
    import pandas as pd

STYLE = "views.css"
NARROW = 330.0
"""A graph wider than this, in px, gets a second, narrower form for narrow pages."""
PLACES = (620, 900, 1200, 1600, 2200)
"""The page widths, in px, at which the form changes; `views.css` has a rule for each."""

Cell = str | int | float | None


def view_html(title: str, *parts: str, styles: Sequence[str] = ()) -> str:
    """Return a whole view as one element in the theme's colours. The caller shows the question that it answers."""
    rules = "".join(asset(name) for name in ("theme.css", GRAPH_STYLE, STYLE, *styles))
    return (
        f'<div class="kit-picture kit-view" role="group" aria-label="{escape(title)}"><style>{rules}</style>'
        f"<h3>{escape(title)}</h3>{''.join(parts)}</div>"
    )


def answer(text: str, meaning: str = "") -> str:
    """Return the answer in a sentence, above the picture; `meaning` is good, waits, bad or empty."""
    return f'<p class="v-answer {meaning}">{escape(text)}</p>'


def words(text: str) -> str:
    """A paragraph."""
    return f"<p>{escape(text)}</p>"


def fold(title: str, about: str, body: str, *, is_open: bool = False) -> Markup:
    """Return a part that a click opens and closes."""
    head = f"{markup(title)} <span>{markup(about)}</span>"
    return Markup(f"<details{' open' if is_open else ''}><summary>{head}</summary>{body}</details>")


def graph_html(graph: Graph) -> str:
    """Return a graph. A wide one has a second, turned form for narrow pages."""
    width = graph.placed.width
    turned = graph.turned() if width > NARROW else graph
    if turned.placed.width >= width - 40:
        return graph.drawing()
    place = next((each for each in PLACES if each >= width + 32), PLACES[-1])
    return (
        f'<div class="v-wide v-{place}">{graph.drawing()}</div><div class="v-narrow v-{place}">{turned.drawing()}</div>'
    )


def table(columns: Sequence[str], rows: Iterable[Sequence[Cell]], meanings: Sequence[str] = ()) -> str:
    """Return a table with right-aligned numbers. `meanings` are the classes of the rows."""
    listed = [list(row) for row in rows]
    if not listed:
        return ""
    numbers = [all(isinstance(row[at], int | float | None) for row in listed) for at in range(len(columns))]
    marks = ["n" if number else "" for number in numbers]
    head = [element("th", name, scope="col", class_=mark) for name, mark in zip(columns, marks)]
    body = []
    for row, meaning in zip(listed, meanings or [""] * len(listed), strict=True):
        cells = (element("td", _cell(cell), class_=mark) for cell, mark in zip(row, marks))
        body.append(element("tr", *cells, class_=meaning))
    return element("div", markup_table(Markup("".join(head)), body, class_="v-table"), class_="v-scroll")


def frame(rows: pd.DataFrame, most: int = ROWS) -> str:
    """A DataFrame as a table of at most `most` rows; the rest is counted."""
    listed = [[_plain(cell) for cell in row] for row in rows.head(most).itertuples(index=False, name=None)]
    more = len(rows) - most
    rest = words(f"… and {more:,} more") if more > 0 else ""
    return Markup(f"{table([str(name) for name in rows.columns], listed)}{rest}")


def _plain(cell: object) -> Cell:
    if cell is None or isinstance(cell, int | float | str):
        return cell
    text = str(cell)
    return None if text == "<NA>" else text


def _cell(cell: Cell) -> str:
    if cell is None:
        return ""
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def legend(entries: Iterable[tuple[str, str]]) -> str:
    """Return a legend of colours and lines; an entry is a class of views.css and its words."""
    shown = "".join(f'<span><i class="{kind}"></i>{escape(text)}</span>' for kind, text in entries)
    return f'<div class="v-legend">{shown}</div>' if shown else ""
