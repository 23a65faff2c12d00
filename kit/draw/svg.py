"""A moment as a picture that stands alone: static SVG, with a legend, that a stranger can read.

The picture has two parts. The backdrop is the same for all moments of a stage: titles of operators, the legend. On it
are the sprites of `kit.draw.scene`, in layers.
"""

from __future__ import annotations

from functools import cache
from html import escape
from pathlib import Path

from kit.draw.job_state import Moment
from kit.draw.layout import MARGIN, Layout, lay_out
from kit.draw.picture import CARD, LEAST_WIDTH, Svg
from kit.draw.scene import GRAPH_TOP, LAYERS, Scene, Sprite, Words, fit, scene, words_of
from kit.draw.stage import Stage

LEGEND_HEIGHT = 86


@cache
def asset(name: str) -> str:
    """The text of a file that is beside this one: `stage.css`, `stage.js`."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def picture_layout(stage: Stage) -> Layout:
    """The layout of a whole picture: the graph below the coordinator's panel."""
    return lay_out(stage, float(GRAPH_TOP), float(LEAST_WIDTH))


def still(stage: Stage, moment: Moment, words: Words | None = None) -> Svg:
    """The picture of one moment; `words` replace the caption."""
    layout = picture_layout(stage)
    words = words or words_of(stage, moment)
    drawn = backdrop(layout, scene(layout, moment, words))
    return document(layout.width, layout.height + LEGEND_HEIGHT, drawn, words.what)


def document(width: float, height: float, drawn: str, title: str) -> Svg:
    """A picture on its light card, as wide as there is room; JupyterLab would cut what has a width of its own."""
    width = max(width, LEAST_WIDTH)
    return Svg.of(
        f'<svg xmlns="http://www.w3.org/2000/svg" class="kit-stage" viewBox="0 0 {width:g} {height:g}" '
        f'width="100%" style="max-width:{width:g}px" role="img" '
        f'aria-label="{escape(title)}">'
        f"<style>{asset('stage.css')}</style>{CARD}{drawn}</svg>",
        title,
    )


def backdrop(layout: Layout, sprites: Scene | None = None) -> str:
    """All that lies between the svg's tags: the fixed parts, and the layers with the sprites in them."""
    parts = [_DEFS, *_titles(layout), *_legend(layout)]
    for layer in LAYERS:
        parts.append(f'<g data-layer="{layer}">')
        parts += [element(name, sprite) for name, sprite in (sprites or {}).items() if sprite["layer"] == layer]
        parts.append("</g>")
    return "".join(parts)


def element(name: str, sprite: Sprite) -> str:
    """A sprite as an SVG element."""
    attributes = " ".join(
        f'{key}="{escape(_value(value))}"' for key, value in sprite.items() if key not in ("tag", "layer", "text")
    )
    text = escape(str(sprite.get("text", "")), quote=False)
    return f'<{sprite["tag"]} data-name="{escape(name)}" {attributes}>{text}</{sprite["tag"]}>'


def _value(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:g}"


_DEFS = (
    '<defs><symbol id="kit-lock" overflow="visible">'
    '<rect x="-5" y="-1.5" width="10" height="7.5" rx="1.5"/>'
    '<path d="M-3 -1.5v-2a3 3 0 0 1 6 0v2" fill="none" stroke-width="1.8"/></symbol></defs>'
)


def _titles(layout: Layout) -> list[str]:
    """The name of each vertex's operators above its subtasks, and how many subtasks there are."""
    parts = []
    for vertex in layout.stage.vertices:
        box = layout.vertices[vertex.name]
        x = box.x + box.width / 2
        title = fit(" → ".join(vertex.operators) or vertex.name, box.width + 2 * (MARGIN - 6), 12, bold=True)
        many = "subtask" if vertex.parallelism == 1 else "subtasks"
        facts = f"{vertex.parallelism} {many}, max parallelism {vertex.max_parallelism}"
        for dy, classes, text in ((14, "vertex-title", title), (30, "vertex-facts", facts)):
            parts.append(
                f'<text x="{x:g}" y="{box.y + dy:g}" class="{classes}" text-anchor="middle">{escape(text)}</text>'
            )
    return parts


_LEGEND: tuple[tuple[str, float, str], ...] = (
    ('<rect x="0" y="-5" width="10" height="10" rx="2" class="buffer before"/>', 14, "buffer of records"),
    ('<rect x="0" y="-5" width="10" height="10" rx="2" class="buffer after"/>', 14, "records after the barrier"),
    (
        '<rect x="0" y="-7" width="12" height="14" rx="1.5" class="barrier cp0"/>'
        '<text x="6" y="3.2" text-anchor="middle" class="barrier-number">4</text>',
        16,
        "barrier of checkpoint 4",
    ),
    (
        '<path d="M0 0H26" class="lane blocked"/><use href="#kit-lock" x="20" y="0" class="lock"/>',
        30,
        "blocked until all barriers came",
    ),
    (
        '<rect x="0" y="-6.5" width="16" height="13" rx="6.5" class="ring cp0"/>'
        '<text x="8" y="3.2" text-anchor="middle" class="ring-text">4?</text>',
        20,
        "barrier 4 is awaited here",
    ),
    ('<text x="4" y="3.4" text-anchor="middle" class="sign">w</text>', 12, "watermark"),
    ('<text x="4" y="3.4" text-anchor="middle" class="sign">z</text>', 12, "idle, or again active"),
    ('<text x="4" y="3.4" text-anchor="middle" class="sign">↪</text>', 12, "a recovered buffer follows"),
    ('<text x="4" y="3.4" text-anchor="middle" class="sign">◂</text>', 12, "end of what was recovered"),
    ('<text x="4" y="3.4" text-anchor="middle" class="sign end">■</text>', 12, "end of the stream"),
    ('<rect x="0" y="-7" width="14" height="14" rx="3" class="task aligning"/>', 18, "barriers come in"),
    ('<rect x="0" y="-7" width="14" height="14" rx="3" class="task writing"/>', 18, "writing its snapshot"),
    ('<rect x="0" y="-7" width="14" height="14" rx="3" class="task acknowledged"/>', 18, "acknowledged"),
    ('<rect x="0" y="-7" width="14" height="14" rx="3" class="task failed"/>', 18, "failed or declined"),
    ('<rect x="0" y="-6.5" width="18" height="13" rx="6.5" class="mail in"/>', 22, "message to a task"),
    ('<rect x="0" y="-6.5" width="18" height="13" rx="6.5" class="mail out"/>', 22, "and from a task"),
)


def _legend(layout: Layout) -> list[str]:
    """Three rows below the graph."""
    top = layout.height + 14
    parts, x, y = [], 24.0, top
    for sign, indent, text in _LEGEND:
        width = indent + 5.7 * len(text) + 20
        if x + width > layout.width - 12:
            x, y = 24.0, y + 24
        parts.append(
            f'<g transform="translate({x:g} {y:g})">{sign}<text x="{indent}" y="3.6" class="legend">{text}</text></g>'
        )
        x += width
    return parts
