"""Building blocks of views: a heading, words, tables and pictures in one element of the class `kit-picture`.

`panel` includes the theme, so its result is complete wherever HTML is shown. Its tables are those of
`kit.core.html_tables`.
"""

from __future__ import annotations

from html import escape

from kit.core.html_tables import TABLE_CSS
from kit.draw.assets import asset


def panel(title: str, *parts: str, under: str = "", styles: tuple[str, ...] = ()) -> str:
    """Return one complete fragment; `title` and `under` are text, `parts` HTML, `styles` files of this package."""
    rules = "".join([*map(asset, ("theme.css", "panel.css", *styles)), TABLE_CSS])
    paragraph = f"<p>{escape(under)}</p>" if under else ""
    return (
        f'<div class="kit-picture" role="group" aria-label="{escape(title)}"><style>{rules}</style>'
        f'<div class="kit-panel"><h3>{escape(title)}</h3>{paragraph}{"".join(parts)}</div></div>'
    )


def drawing_html(width: float, height: float, drawn: str, label: str) -> str:
    """Return a drawing for a panel. It grows with the panel, and scrolls where texts would be smaller than 10.5 px."""
    return (
        f'<div class="kit-scroll" tabindex="0"><svg xmlns="http://www.w3.org/2000/svg" role="img" '
        f'aria-label="{escape(label)}" viewBox="0 0 {width:g} {height:g}" '
        f'style="min-width:{width * 0.96:g}px;max-width:{width * 1.35:g}px">{drawn}</svg></div>'
    )
