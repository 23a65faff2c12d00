"""The drawing of an answer: one box per fact, causes below what they explain, first causes with a heavy frame."""

from __future__ import annotations

from html import escape
from textwrap import wrap

from kit.draw.graphs import Edge, Graph, Node
from kit.draw.graphviz_objects import Dot
from kit.draw.picture import LEAST_WIDTH, Svg
from kit.draw.stage.scene import fit_line
from kit.draw.svg import document
from kit.run.durations import duration
from kit.why.answer import Why
from kit.why.fact import NumberedFact

LEFT, TOP, INDENT, GAP, PAD, LINE = 28.0, 56.0, 34.0, 16.0, 8.0, 15.0
CHARACTER = 6.4
"""The width of a letter, about, in px."""
HEAD_PX = 16.0
_DOT_WIDTH = 48


def answer_svg(answer: Why) -> Svg:
    """Draw an answer. A fact is below the one that it explains, and further to the right if that has several causes."""
    question = answer.question
    drawn: list[str] = []
    boxes: dict[int, tuple[float, float]] = {}
    y = TOP
    for each in answer.numbered:
        x = LEFT + INDENT * each.depth
        width = LEAST_WIDTH - x - LEFT
        lines = wrap(each.says, max(20, int((width - 2 * PAD) / CHARACTER))) or [""]
        height = 2 * PAD + LINE * (len(lines) + 1)
        if (parent := boxes.get(each.because_of)) is not None:
            drawn.append(_arrow(*parent, x, y))
        drawn.append(_box(each, x, y, width, height, lines))
        boxes[each.number] = (x, y + height)
        y += height + GAP
    head = fit_line(question, LEAST_WIDTH - 2 * LEFT, HEAD_PX, bold=True)
    title = f'<text x="{LEFT:g}" y="34" class="what">{escape(head)}<title>{escape(question)}</title></text>'
    return document(LEAST_WIDTH, y + PAD, _HEAD + title + "".join(drawn), question)


_HEAD = (
    '<defs><marker id="kit-because" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto"><path d="M0 0L8 4L0 8z" fill="var(--kit-quiet)"/></marker></defs>'
)


def _arrow(parent_x: float, parent_y: float, x: float, y: float) -> str:
    down = parent_x + INDENT / 2
    way = f"M{down:g} {y:g}V{parent_y:g}" if x == parent_x else f"M{x:g} {y + 14:g}H{down:g}V{parent_y:g}"
    return f'<path d="{way}" fill="none" stroke="var(--kit-quiet)" stroke-width="1.3" marker-end="url(#kit-because)"/>'


def _box(each: NumberedFact, x: float, y: float, width: float, height: float, lines: list[str]) -> str:
    fill, stroke, heavy = ("align-fill", "align", 2.2) if each.fact.is_root else ("paper", "line", 1.2)
    where = _where(each) + (f" · {each.fact.record.kind}" if each.fact.record else "")
    text = "".join(
        f'<text x="{x + PAD:g}" y="{y + PAD + 11 + LINE * (number + 1):g}" font-size="12">{escape(line)}</text>'
        for number, line in enumerate(lines)
    )
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5" '
        f'fill="var(--kit-{fill})" stroke="var(--kit-{stroke})" stroke-width="{heavy}"/>'
        f'<text x="{x + PAD:g}" y="{y + PAD + 10:g}" class="quiet">{escape(where)}</text>{text}'
    )


def answer_dot(answer: Why) -> Dot:
    """Draw an answer with Graphviz: an arrow leads from a cause to what it explains, and the question is at the top.

    Returns an object of the `graphviz` package.
    """
    question = answer.question
    nodes = [Node("q", tuple(wrap(question, _DOT_WIDTH)), "question")]
    edges = []
    for each in answer.numbered:
        name, target = f"f{each.before or each.number}", f"f{each.because_of}" if each.because_of else "q"
        if not each.before:
            lines = (_where(each), *wrap(each.says, _DOT_WIDTH))
            nodes.append(Node(name, lines, "root" if each.fact.is_root else ""))
        edges.append(Edge(name, target))
    return Graph("why", question, tuple(nodes), tuple(edges), direction="BT", rank_gap=24.0).dot()


def _where(each: NumberedFact) -> str:
    """Return the number of a fact, with the time and the machine of its record."""
    record = each.fact.record
    return f"{each.number}" + (f" · {duration(each.at_ms)} · {record.machine}" if record else "")
