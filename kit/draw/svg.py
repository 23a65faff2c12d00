"""A moment as a static SVG picture with a legend, which can be read without the rest of the page.

The picture has two parts. The backdrop, with the titles of operators and the legend, is the same for all moments of a
stage. The sprites of `kit.draw.stage.scene` are drawn on it in layers.
"""

from __future__ import annotations

from collections import Counter
from html import escape

from kit.draw.assets import asset, light_theme
from kit.draw.picture import CARD, LEAST_WIDTH, MOST_GROWTH, Svg
from kit.draw.stage.drawing import scene
from kit.draw.stage.job_master_panel import GRAPH_TOP, Words, words_of
from kit.draw.stage.layout import Layout, lay_out
from kit.draw.stage.legend import legend_svg
from kit.draw.stage.scene import LAYERS, Scene, Sprite, fit
from kit.run.moments.job_state import PENDING, Moment
from kit.run.stage import Stage

__all__ = ["asset", "backdrop", "document", "element", "picture_layout", "still"]

MOST_DESCRIBED = 3
"""The newest checkpoints that the text alternative of a picture names."""


def picture_layout(stage: Stage) -> Layout:
    """Return the layout of a whole picture: the graph below the coordinator's panel."""
    return lay_out(stage, float(GRAPH_TOP), float(LEAST_WIDTH))


def still(stage: Stage, moment: Moment, words: Words | None = None) -> Svg:
    """Draw one moment; `words` replace the caption."""
    layout = picture_layout(stage)
    words = words or words_of(stage, moment)
    sprites = scene(layout, moment, words)
    legend, height = legend_svg(sprites, layout.width, layout.height)
    drawn = backdrop(layout, sprites) + legend
    return document(layout.width, height, drawn, words.what, f"{words.what}. {_described(stage, moment)}")


def _described(stage: Stage, moment: Moment) -> str:
    """Describe the job at this moment: its time, its operators, the states of its tasks, its newest checkpoints."""
    vertices = ", ".join(f"{each.name} with {each.parallelism}" for each in stage.vertices)
    states = Counter(task.state.lower() for task in moment.tasks.values())
    tasks = ", ".join(f"{count} {state}" for state, count in states.items()) or "none"
    parts = [f"The job at {moment.elapsed_ms:,} ms: subtasks of {vertices}; tasks: {tasks}"]
    for each in [*moment.checkpoints.values()][-MOST_DESCRIBED:]:
        acked = f", {len(each.acked)} of {len(each.expected)} acknowledged" if each.status == PENDING else ""
        parts.append(f"checkpoint {each.checkpoint_id} {each.status}{acked}")
    return "; ".join(parts)


def document(width: float, height: float, drawn: str, caption: str, described: str = "") -> Svg:
    """Return a picture on a card that is light on a dark page as well; `described` is its text alternative.

    It has no fixed width, because JupyterLab would cut it off.
    """
    width = max(width, LEAST_WIDTH)
    return Svg.of(
        f'<svg xmlns="http://www.w3.org/2000/svg" class="kit-stage kit-still" viewBox="0 0 {width:g} {height:g}" '
        f'width="100%" style="max-width:{width * MOST_GROWTH:g}px" role="img" '
        f'aria-label="{escape(described or caption)}">'
        f"<style>{light_theme()}{asset('stage.css')}</style>{CARD}{drawn}</svg>",
        caption,
    )


def backdrop(layout: Layout, sprites: Scene | None = None) -> str:
    """Return the content of the svg element: the fixed parts, and the layers with the sprites in them."""
    parts = [_DEFS, *_titles(layout)]
    for layer in LAYERS:
        parts.append(f'<g data-layer="{layer}">')
        parts += [element(name, sprite) for name, sprite in (sprites or {}).items() if sprite["layer"] == layer]
        parts.append("</g>")
    return "".join(parts)


def element(name: str, sprite: Sprite) -> str:
    """Return a sprite as an SVG element."""
    attributes = " ".join(
        f'{key}="{escape(_value(value))}"'
        for key, value in sprite.items()
        if key not in ("tag", "layer", "text", "title")
    )
    text = escape(str(sprite.get("text", "")), quote=False)
    if "title" in sprite:
        text += f"<title>{escape(str(sprite['title']), quote=False)}</title>"
    return f'<{sprite["tag"]} data-name="{escape(name)}" {attributes}>{text}</{sprite["tag"]}>'


def _value(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:g}"


_DEFS = (
    '<defs><symbol id="kit-lock" overflow="visible">'
    '<rect x="-5" y="-1.5" width="10" height="7.5" rx="1.5"/>'
    '<path d="M-3 -1.5v-2a3 3 0 0 1 6 0v2" fill="none" stroke-width="1.8"/></symbol></defs>'
)


def _titles(layout: Layout) -> list[str]:
    """Draw the operators' names and the number of subtasks above each vertex. With a kernel, the sign beside a name
    opens and closes the vertex.
    """
    parts = []
    for vertex in layout.stage.vertices:
        box = layout.vertices[vertex.name]
        x, many = box.x + box.width / 2, vertex.parallelism > 1
        names = " → ".join(vertex.operators) or vertex.name
        room = box.width + (0 if many else 2 * (layout.margin - 6))
        facts = f"{vertex.parallelism} {'subtasks' if many else 'subtask'}, max parallelism {vertex.max_parallelism}"
        pick = escape(f"vertex:{vertex.name}")
        parts.append(f'<g data-pick="{pick}" data-left="{box.x:g}" data-full="{escape(names)}">')
        parts.append(f"<title>{escape(names)}</title>")
        for dy, classes, line in ((14, "vertex-title", fit(names, room, 12, bold=True)), (30, "vertex-facts", facts)):
            parts.append(
                f'<text x="{x:g}" y="{box.y + dy:g}" class="{classes}" text-anchor="middle">{escape(line)}</text>'
            )
        parts.append("</g>")
        if many:
            parts.append(_opener(vertex.name, box.x + box.width + 3, box.y + 2, vertex.name in layout.closed))
    return parts


def _opener(vertex: str, x: float, y: float, closed: bool) -> str:
    """Draw the sign that opens or closes a vertex; a still picture hides it."""
    deed = "open: draw each subtask" if closed else "close: draw one box"
    stroke = "M5 9.5h9" + ("M9.5 5v9" if closed else "")
    return (
        f'<g class="opener" data-open="{escape(vertex)}" role="button" tabindex="0" '
        f'aria-label="{escape(f"{vertex}, {deed}")}" transform="translate({x:g} {y:g})"><title>{deed}</title>'
        f'<rect width="19" height="19" rx="4"/><path d="{stroke}"/></g>'
    )
