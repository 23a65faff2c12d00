"""The readability of a drawn graph: no label is on an arrow, on a box, or on another label."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from kit.draw.graphs import Graph, text_width
from kit.draw.stage.layout import Box, Point


def crossings(graph: Graph) -> list[str]:
    """Each pair of things that overlap and should not, in words."""
    placed = graph.placed
    labels = [(edge, box) for edge, box in zip(graph.edges, placed.labels) if box is not None]
    boxes = [(node.name, box) for node, box in zip(graph.nodes, placed.nodes)]
    found = [f"boxes {a} and {b}" for (a, one), (b, other) in combinations(boxes, 2) if _meet(one, other)]
    found += [f"label {edge.lines} on box {name}" for edge, box in labels for name, other in boxes if _meet(box, other)]
    found += [
        f"labels {a.lines} and {b.lines}" for (a, one), (b, other) in combinations(labels, 2) if _meet(one, other)
    ]
    titles = [  # from above, arrows may come from both sides: there a title is drawn over them, on its own ground
        (group.title, Box(box.x + 10, box.y + 5, text_width(group.title, 11.5, bold=True) / 1.1, 13))
        for group, box in zip(graph.groups, placed.groups)
        if graph.direction == "LR"
    ]
    for edge, way in zip(graph.edges, placed.ways):
        points = list(points_of(way))
        found += [f"{edge} crosses label {other.lines}" for other, box in labels if _touches(points, box)]
        found += [f"{edge} crosses title {title}" for title, box in titles if _touches(points, box)]
        found += [
            f"{edge} crosses box {name}"
            for name, box in boxes
            if name not in (edge.source, edge.target) and _touches(points, box)
        ]
    inside = Box(0, 0, placed.width, placed.height)
    found += [
        f"{name} lies outside" for name, box in [*boxes, *((e.lines, b) for e, b in labels)] if not _in(box, inside)
    ]
    return found


def points_of(way: tuple[Point, ...]) -> Iterator[Point]:
    """Points along an arrow, close to one another."""
    *points, tip = way
    for at in range(0, len(points) - 3, 3):
        a, b, c, d = points[at : at + 4]
        for step in range(25):
            t = step / 24
            u = 1 - t
            weights = u * u * u, 3 * u * u * t, 3 * u * t * t, t * t * t
            yield (
                sum(w * p[0] for w, p in zip(weights, (a, b, c, d))),
                sum(w * p[1] for w, p in zip(weights, (a, b, c, d))),
            )
    yield tip


SLACK = 2.0
"""So far into each other, in px, nobody sees."""


def _meet(one: Box, other: Box) -> bool:
    return (
        one.x + SLACK < other.x + other.width
        and other.x + SLACK < one.x + one.width
        and one.y + SLACK < other.y + other.height
        and other.y + SLACK < one.y + one.height
    )


def _touches(points: list[Point], box: Box) -> bool:
    return any(
        box.x + SLACK < x < box.x + box.width - SLACK and box.y + SLACK < y < box.y + box.height - SLACK
        for x, y in points
    )


def _in(box: Box, frame: Box) -> bool:
    return box.x >= 0 and box.y >= 0 and box.x + box.width <= frame.width and box.y + box.height <= frame.height
