"""Building blocks of views: a heading, words, tables and pictures in one element of the class `kit-picture`.

`panel` includes the theme, so its result is complete wherever HTML is shown. `frame_html` cuts a long table and says
how many rows it leaves out.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from kit.core.markup import Markup, element, table
from kit.core.protocol.elements import MAX_WATERMARK_MS, MIN_WATERMARK_MS, event_time_text
from kit.draw.assets import asset

if TYPE_CHECKING:
    import pandas as pd

ROWS = 20
FITS, LONGEST = 30, 300
"""Values longer than the first may be cut to the column's width; up to the second many letters appear on hover."""


def panel(title: str, *parts: str, under: str = "", styles: tuple[str, ...] = ()) -> str:
    """Return one complete fragment; `title` and `under` are text, `parts` HTML, `styles` files of this package."""
    rules = "".join(asset(name) for name in ("theme.css", "panel.css", *styles))
    told = f"<p>{escape(under)}</p>" if under else ""
    return (
        f'<div class="kit-picture" role="group" aria-label="{escape(title)}"><style>{rules}</style>'
        f'<div class="kit-panel"><h3>{escape(title)}</h3>{told}{"".join(parts)}</div></div>'
    )


def drawing_html(width: float, height: float, drawn: str, label: str) -> str:
    """Return a drawing for a panel. It grows with the panel, and scrolls where texts would be smaller than 10.5 px."""
    return (
        f'<div class="kit-scroll" tabindex="0"><svg xmlns="http://www.w3.org/2000/svg" role="img" '
        f'aria-label="{escape(label)}" viewBox="0 0 {width:g} {height:g}" '
        f'style="min-width:{width * 0.96:g}px;max-width:{width * 1.35:g}px">{drawn}</svg></div>'
    )


def frame_html(frame: pd.DataFrame, most: int = ROWS) -> str:
    """Return a DataFrame as a table of at most `most` rows."""
    import pandas as pd

    told = [_time_told if str(name).endswith("_ms") else _told for name in frame.columns]
    texts = [not pd.api.types.is_numeric_dtype(dtype) for dtype in frame.dtypes]
    head = Markup("".join(_cell("th", str(name), text) for name, text in zip(frame.columns, texts)))
    rows = (
        element("tr", *(_cell("td", tell(value), text) for value, tell, text in zip(row, told, texts)))
        for row in frame.head(most).itertuples(index=False, name=None)
    )
    more = len(frame) - most
    rest = f'<p class="kit-note">… and {more:,} more</p>' if more > 0 else ""
    return element("div", table(head, rows), class_="kit-scroll") + Markup(rest)


def _cell(tag: str, value: str, text: bool) -> Markup:
    shown = value if len(value) <= LONGEST else value[:LONGEST] + "…"
    inside = element("span", shown, title=shown) if len(value) > FITS else shown
    return element(tag, inside, class_="kit-text" if text else "")


def _time_told(value: Any) -> str:
    """Format a time in ms; name the two ends of event time in words."""
    import pandas as pd

    if value is None or value is pd.NA or value not in (MIN_WATERMARK_MS, MAX_WATERMARK_MS):
        return _told(value)
    return event_time_text(value)


def _told(value: Any) -> str:
    import pandas as pd

    if value is None or value is pd.NA:
        return ""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_told(part)}" for name, part in value.items())
    if isinstance(value, bytes):
        return value.hex()
    return str(value)
