"""Builders of a view's HTML: heading, answer, folds and a legend. Its tables are those of `kit.core.html_tables`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from kit.core.html_tables import TABLE_CSS
from kit.core.markup import Markup, markup
from kit.draw.graphs import STYLE as GRAPH_STYLE
from kit.draw.graphs import Graph
from kit.draw.svg import asset

STYLE = "views.css"
NARROW = 330.0
"""A graph wider than this, in px, gets a second, narrower form for narrow pages."""
PLACES = (620, 900, 1200, 1600, 2200)
"""The page widths, in px, at which the form changes; `views.css` has a rule for each."""


def view_html(title: str, *parts: str, styles: Sequence[str] = ()) -> str:
    """Return a whole view as one element in the theme's colours. The caller shows the question that it answers."""
    rules = "".join([*map(asset, ("theme.css", GRAPH_STYLE, STYLE)), TABLE_CSS, *map(asset, styles)])
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


def legend(entries: Iterable[tuple[str, str]]) -> str:
    """Return a legend of colours and lines; an entry is a class of views.css and its words."""
    shown = "".join(f'<span><i class="{kind}"></i>{escape(text)}</span>' for kind, text in entries)
    return f'<div class="v-legend">{shown}</div>' if shown else ""
