"""A job's two graphs as one picture: operators as the user wrote them, and around them the tasks they share.

Operators in one frame are chained: records pass between them by a call. Between frames records travel through
channels; each such edge says why its two ends are not chained, as the graph's own rules say it. Graphviz places the
operators, in this process; the picture is drawn here, so that text is text and nothing depends on fonts it finds.
"""

from __future__ import annotations

from html import escape
from textwrap import wrap
from typing import Any

import pandas as pd
import pygraphviz

from kit.draw.layout import Box
from kit.draw.picture import Svg
from kit.draw.run import shape_of
from kit.draw.scene import fit
from kit.draw.shown import shown
from kit.draw.stage import Stage
from kit.draw.svg import document
from kit.protocol.shape import ShapeEdge, ShapeOperator

NODE_WIDTH, NODE_HEIGHT, RANK_GAP, NODE_GAP = 150.0, 48.0, 190.0, 56.0
TOP, MARGIN, PAD = 78.0, 40.0, 15.0


def chains(job: Any) -> pd.DataFrame:
    """One row an edge: source, target, shipping (how records find their subtask), chained, reason (why not).

    `job` is a StreamEnvironment, a graph of one, a Lab, a SparkJob or a Trace.
    """
    shape = shape_of(job)
    names = [operator.name for operator in shape.operators]
    rows = [
        [names[edge.source], names[edge.target], edge.shipping, not edge.reason, edge.reason] for edge in shape.edges
    ]
    return pd.DataFrame(rows, columns=["source", "target", "shipping", "chained", "reason"])


@shown.register(Stage)
def chains_svg(job: Any) -> Svg:
    """The picture of what `chains` tells, of the same things."""
    shape = shape_of(job)
    boxes = _place(shape)
    width = max(box.x + box.width for box in boxes) + MARGIN
    height = max(box.y + box.height for box in boxes) + 44
    parts = [
        *_frames(shape, boxes),
        *(part for edge in shape.edges for part in _edge(edge, boxes)),
        *(part for operator, box in zip(shape.operators, boxes, strict=True) for part in _node(operator, box)),
    ]
    title = f"{shape.job}: {len(shape.operators)} operators in {len(shape.vertices)} chains"
    drawn = (
        f'<text x="24" y="28" class="what">{escape(title)}</text>'
        '<text x="24" y="47" class="because">operators in one frame are chained: they run in the same task, records '
        f"pass by a call</text>{''.join(parts)}"
    )
    return document(width, height, drawn, title)


def _place(shape: Stage) -> list[Box]:
    """Let dot place the operators, those of a chain in a cluster so that their frame holds nothing else."""
    picture = pygraphviz.AGraph(directed=True, strict=False)
    picture.graph_attr.update(rankdir="LR", ranksep=str(RANK_GAP / 72), nodesep=str(NODE_GAP / 72))
    picture.node_attr.update(
        shape="box", fixedsize="true", label="", width=str(NODE_WIDTH / 72), height=str(NODE_HEIGHT / 72)
    )
    numbers = range(len(shape.operators))
    picture.add_nodes_from(numbers)
    for edge in shape.edges:
        picture.add_edge(edge.source, edge.target)
    for place, vertex in enumerate(shape.vertices):
        members = [number for number in numbers if shape.operators[number].vertex == vertex.name]
        picture.add_subgraph(members, name=f"cluster_{place}", margin=str(PAD + 10))
    picture.layout(prog="dot")
    centres = [tuple(map(float, picture.get_node(number).attr["pos"].split(","))) for number in numbers]
    picture.close()
    left, top = min(x for x, _ in centres), max(y for _, y in centres)
    return [Box(MARGIN + x - left, TOP + PAD + 16 + top - y, NODE_WIDTH, NODE_HEIGHT) for x, y in centres]


def _frames(shape: Stage, boxes: list[Box]) -> list[str]:
    """A frame around each chain, with the vertex's name."""
    parts = []
    for vertex in shape.vertices:
        members = [box for operator, box in zip(shape.operators, boxes) if operator.vertex == vertex.name]
        x, y = min(box.x for box in members) - PAD, min(box.y for box in members) - PAD - 14
        right = max(box.x + box.width for box in members) + PAD
        bottom = max(box.y + box.height for box in members) + PAD
        label = fit(f"{vertex.name} x {vertex.parallelism}", right - x - 16, 11)
        parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{right - x:g}" height="{bottom - y:g}" rx="9" fill="#f3f6fa" '
            f'stroke="#98a4b3"/><text x="{x + 10:g}" y="{y + 16:g}" class="vertex-facts">{escape(label)}</text>'
        )
    return parts


def _node(node: ShapeOperator, box: Box) -> list[str]:
    name = fit(node.name, box.width - 16, 12, bold=True)
    facts = f"uid {node.uid}" if node.uid else "no uid: state is lost if the job changes"
    return [
        f'<rect x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" height="{box.height:g}" rx="6" class="task"/>'
        f'<text x="{box.x + box.width / 2:g}" y="{box.y + 21:g}" text-anchor="middle" class="task-name">{escape(name)}'
        f"<title>{escape(node.name)}</title></text>"
        f'<text x="{box.x + box.width / 2:g}" y="{box.y + 37:g}" text-anchor="middle" class="task-detail">'
        f"{escape(fit(facts, box.width - 10, 10))}<title>{escape(facts)}</title></text>"
    ]


def _edge(edge: ShapeEdge, boxes: list[Box]) -> list[str]:
    a, b = boxes[edge.source], boxes[edge.target]
    x1, y1, x2, y2 = a.x + a.width, a.y + a.height / 2, b.x - 1, b.y + b.height / 2
    middle = (x1 + x2) / 2
    colour, dash = ("#009e73", "") if not edge.reason else ("#54606f", ' stroke-dasharray="7 4"')
    parts = [
        f'<path d="M{x1:g} {y1:g}C{middle:g} {y1:g} {middle:g} {y2:g} {x2 - 6:g} {y2:g}" fill="none" '
        f'stroke="{colour}" stroke-width="2"{dash}/>'
        f'<path d="M{x2:g} {y2:g}l-8 -4v8z" fill="{colour}"/>'
    ]
    lines = ["chained"] if not edge.reason else ["not chained", *wrap(edge.reason, 27)[:3]]
    y = (y1 + y2) / 2 + 14
    for number, line in enumerate(lines):
        style = "font-weight:600" if number == 0 else ""
        parts.append(
            f'<text x="{middle:g}" y="{y + 12 * number:g}" text-anchor="middle" class="task-detail" style="{style}">'
            f"{escape(line)}</text>"
        )
    return parts
