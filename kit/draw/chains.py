"""A job's two graphs as one picture: operators as the user wrote them, and around them the tasks they share.

Operators in one frame are chained: records pass between them by a call. Between frames records travel through
channels; each such edge says why its two ends are not chained, as the graph's own rules say it. Graphviz places the
operators, in this process; the picture is drawn here, so that text is text and nothing depends on fonts it finds.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from textwrap import wrap

import pandas as pd
import pygraphviz

from kit.draw.layout import Box
from kit.draw.scene import fit
from kit.draw.svg import asset, open_svg
from kit.graph.chaining import chaining_reason
from kit.graph.job_graph import JobGraph, create_job_graph
from kit.graph.stream_graph import StreamEdge, StreamGraph, StreamNode

NODE_WIDTH, NODE_HEIGHT, RANK_GAP, NODE_GAP = 150.0, 48.0, 190.0, 56.0
TOP, MARGIN, PAD = 78.0, 40.0, 15.0


def chains(graph: StreamGraph) -> pd.DataFrame:
    """One row an edge: source, target, shipping (how records find their subtask), chained, reason (why not)."""
    rows = []
    for edge in graph.edges:
        reason = chaining_reason(edge, graph)
        names = graph.node(edge.source).name, graph.node(edge.target).name
        rows.append([*names, edge.shipping, reason is None, reason or ""])
    return pd.DataFrame(rows, columns=["source", "target", "shipping", "chained", "reason"])


def chains_svg(graph: StreamGraph) -> str:
    """The picture as an SVG document."""
    job = create_job_graph(graph)
    boxes = _place(graph, job)
    width = max(box.x + box.width for box in boxes.values()) + MARGIN
    height = max(box.y + box.height for box in boxes.values()) + 44
    parts = [
        *_frames(graph, job, boxes),
        *(part for edge in graph.edges for part in _edge(graph, edge, boxes)),
        *(part for node in graph.nodes for part in _node(node, boxes[node.node_id])),
    ]
    title = f"{graph.name}: {len(graph.nodes)} operators in {len(job.vertices)} chains"
    return (
        f"{open_svg(max(width, 640), height)}<style>{asset('stage.css')}</style>"
        f'<rect width="100%" height="100%" fill="#ffffff"/><text x="24" y="28" class="what">{escape(title)}</text>'
        '<text x="24" y="47" class="because">operators in one frame are chained: they run in the same task, records '
        f"pass by a call</text>{''.join(parts)}</svg>"
    )


def _place(graph: StreamGraph, job: JobGraph) -> dict[int, Box]:
    """Let dot place the operators, those of a chain in a cluster so that their frame holds nothing else."""
    picture = pygraphviz.AGraph(directed=True, strict=False)
    picture.graph_attr.update(rankdir="LR", ranksep=str(RANK_GAP / 72), nodesep=str(NODE_GAP / 72))
    picture.node_attr.update(
        shape="box", fixedsize="true", label="", width=str(NODE_WIDTH / 72), height=str(NODE_HEIGHT / 72)
    )
    for node in graph.nodes:
        picture.add_node(node.node_id)
    for edge in graph.edges:
        picture.add_edge(edge.source, edge.target)
    members: dict[str, list[int]] = {}
    for node, vertex in _vertices(graph, job):
        members.setdefault(vertex, []).append(node.node_id)
    for number, nodes in enumerate(members.values()):
        picture.add_subgraph(nodes, name=f"cluster_{number}", margin=str(PAD + 10))
    picture.layout(prog="dot")
    centres = {
        node.node_id: tuple(map(float, picture.get_node(node.node_id).attr["pos"].split(","))) for node in graph.nodes
    }
    picture.close()
    left, top = min(x for x, _ in centres.values()), max(y for _, y in centres.values())
    return {
        number: Box(MARGIN + x - left, TOP + PAD + 16 + top - y, NODE_WIDTH, NODE_HEIGHT)
        for number, (x, y) in centres.items()
    }


def _frames(graph: StreamGraph, job: JobGraph, boxes: Mapping[int, Box]) -> list[str]:
    """A frame around each chain, with the vertex's name."""
    parts = []
    names = {node.node_id: vertex for node, vertex in _vertices(graph, job)}
    for name in dict.fromkeys(names.values()):
        members = [boxes[number] for number, vertex in names.items() if vertex == name]
        x, y = min(box.x for box in members) - PAD, min(box.y for box in members) - PAD - 14
        right = max(box.x + box.width for box in members) + PAD
        bottom = max(box.y + box.height for box in members) + PAD
        parallelism = job.vertex(name).parallelism
        label = fit(f"{name} x {parallelism}", right - x - 16, 11)
        parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{right - x:g}" height="{bottom - y:g}" rx="9" fill="#f3f6fa" '
            f'stroke="#98a4b3"/><text x="{x + 10:g}" y="{y + 16:g}" class="vertex-facts">{escape(label)}</text>'
        )
    return parts


def _vertices(graph: StreamGraph, job: JobGraph) -> list[tuple[StreamNode, str]]:
    """Each node with the name of its vertex: that of the node it is chained to, or a new one for a head."""
    heads = iter(vertex.name for vertex in job.vertices)
    names: dict[int, str] = {}
    for node in graph.nodes:
        chained = [edge for edge in graph.inputs(node) if chaining_reason(edge, graph) is None]
        names[node.node_id] = names[chained[0].source] if chained else next(heads)
    return [(node, names[node.node_id]) for node in graph.nodes]


def _node(node: StreamNode, box: Box) -> list[str]:
    name = fit(node.name, box.width - 16, 12, bold=True)
    facts = f"uid {node.uid}" if node.uid else "no uid: state is lost if the job changes"
    return [
        f'<rect x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" height="{box.height:g}" rx="6" class="task"/>'
        f'<text x="{box.x + box.width / 2:g}" y="{box.y + 21:g}" text-anchor="middle" class="task-name">{escape(name)}'
        f"<title>{escape(node.name)}</title></text>"
        f'<text x="{box.x + box.width / 2:g}" y="{box.y + 37:g}" text-anchor="middle" class="task-detail">'
        f"{escape(fit(facts, box.width - 10, 10))}<title>{escape(facts)}</title></text>"
    ]


def _edge(graph: StreamGraph, edge: StreamEdge, boxes: Mapping[int, Box]) -> list[str]:
    a, b = boxes[edge.source], boxes[edge.target]
    x1, y1, x2, y2 = a.x + a.width, a.y + a.height / 2, b.x - 1, b.y + b.height / 2
    middle = (x1 + x2) / 2
    reason = chaining_reason(edge, graph)
    colour, dash = ("#009e73", "") if reason is None else ("#54606f", ' stroke-dasharray="7 4"')
    parts = [
        f'<path d="M{x1:g} {y1:g}C{middle:g} {y1:g} {middle:g} {y2:g} {x2 - 6:g} {y2:g}" fill="none" '
        f'stroke="{colour}" stroke-width="2"{dash}/>'
        f'<path d="M{x2:g} {y2:g}l-8 -4v8z" fill="{colour}"/>'
    ]
    lines = ["chained"] if reason is None else ["not chained", *wrap(reason, 27)[:3]]
    y = (y1 + y2) / 2 + 14
    for number, line in enumerate(lines):
        style = "font-weight:600" if number == 0 else ""
        parts.append(
            f'<text x="{middle:g}" y="{y + 12 * number:g}" text-anchor="middle" class="task-detail" style="{style}">'
            f"{escape(line)}</text>"
        )
    return parts
