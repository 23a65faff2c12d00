"""Graphs of boxes, labelled arrows and groups, drawn in the theme or converted to a `Dot`.

Graphviz computes the layout in this process. It is given the size that each text has in the picture, so a label gets
its own space beside the arrows. The texts are drawn here and do not depend on the fonts that Graphviz finds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kit.core.extras import naming_extras
from kit.draw.assets import light_colours
from kit.draw.picture import Svg, light_svg
from kit.draw.stage.layout import Box, Point

if TYPE_CHECKING:
    from kit.draw.graphviz_objects import Dot

STYLE = "graphs.css"
TITLE_SIZE, LINE_SIZE, GROUP_SIZE = 12.5, 11.0, 11.5
LEAST_SCALE = 0.92
"""The smallest scale at which texts of 11 px are still readable."""
LINE_HEIGHT, PAD_X, PAD_Y, EDGE_PAD = 15.0, 10.0, 7.0, 5.0
MARGIN = 14.0
GROUP_MARGIN = 12.0
ROOM = (1.4, 1.9, 2.6)
"""Factors for the space between boxes, tried in turn while an arrow crosses a label."""
MOST_PAIRS, SAMPLES = 4000, 120


@dataclass(frozen=True, slots=True)
class Node:
    """A box: its first line is its title. `meaning` is a class of graphs.css: "", good, bad, waits, root, lit, been,
    quiet, question. `tip` is shown on hover.
    """

    name: str
    lines: tuple[str, ...]
    meaning: str = ""
    tip: str = ""
    ends: bool = False
    """True for a final state, which is drawn with a double frame."""

    @property
    def size(self) -> tuple[float, float]:
        """Width and height, in px."""
        wide = [text_width(self.lines[0], TITLE_SIZE, bold=True), *(text_width(t, LINE_SIZE) for t in self.lines[1:])]
        return max(wide) + 2 * PAD_X, LINE_HEIGHT * len(self.lines) + 2 * PAD_Y


@dataclass(frozen=True, slots=True)
class Edge:
    """An arrow. The first line of its label is bold. `meaning` is as for a node, or also "dashed"."""

    source: str
    target: str
    lines: tuple[str, ...] = ()
    meaning: str = ""
    tip: str = ""
    back: bool = False
    """True if the arrow points against the graph's direction, so its target is placed before its source."""

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of the label, in px."""
        wide = [text_width(line, LINE_SIZE, bold=number == 0) for number, line in enumerate(self.lines)]
        return max(wide) + 2 * EDGE_PAD, LINE_HEIGHT * len(self.lines) + 2 * EDGE_PAD


@dataclass(frozen=True, slots=True)
class Group:
    """A frame around some nodes, with a title."""

    name: str
    title: str
    members: tuple[str, ...]
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Placed:
    """A finished layout, in px from the upper left. A way is a list of Bezier points, then the arrow's tip."""

    width: float
    height: float
    nodes: tuple[Box, ...]
    groups: tuple[Box, ...]
    ways: tuple[tuple[Point, ...], ...]
    labels: tuple[Box | None, ...]


@dataclass(frozen=True)
class Graph:
    """Boxes and arrows. `direction` is Graphviz': LR from left to right, TB downwards, BT upwards."""

    name: str
    caption: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...] = ()
    groups: tuple[Group, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    """Boxes in one rank, in this order. Graphviz keeps the order for boxes outside groups only."""
    direction: str = "LR"
    rank_gap: float = 46.0
    node_gap: float = 22.0
    from_sides: bool = False
    """True if every arrow leaves a box on the far side and enters on the near side, for graphs without back edges."""
    plain_labels: bool = False
    """True if the first line of a label is not bold."""

    @cached_property
    def placed(self) -> Placed:
        """Return the layout that Graphviz computes."""
        return _place(self)

    def drawing(self) -> str:
        """Return the picture as an inline `<svg>` in the theme's colours.

        A picture that is too wide is scaled down while its texts stay readable, and scrolled otherwise.
        """
        placed = self.placed
        return (
            f'<div class="kit-graph" tabindex="0"><svg xmlns="http://www.w3.org/2000/svg" role="img" '
            f'aria-label="{escape(self.caption)}" width="{placed.width:g}" height="{placed.height:g}" '
            f'viewBox="0 0 {placed.width:g} {placed.height:g}" style="min-width:{LEAST_SCALE * placed.width:.0f}px">'
            f"{self._inside()}</svg></div>"
        )

    def turned(self) -> Graph:
        """Return the same graph from top to bottom, or from left to right if it already is from top to bottom."""
        if self.direction == "TB":
            return replace(self, direction="LR", rank_gap=self.rank_gap / 0.7)
        return replace(self, direction="TB", rank_gap=self.rank_gap * 0.7)

    def svg(self) -> Svg:
        """Return the picture alone, in light colours."""
        placed = self.placed
        return light_svg(placed.width, placed.height, self._inside(), self.caption, STYLE)

    def dot(self) -> Dot:
        """Return the graph as an object of the `graphviz` package."""
        return _dot(self)

    def _inside(self) -> str:
        placed = self.placed
        groups = list(zip(self.groups, placed.groups))
        parts = [_frame(group, box) for group, box in groups]
        parts += [
            _arrow(edge, way, label, plain=self.plain_labels)
            for edge, way, label in zip(self.edges, placed.ways, placed.labels)
        ]
        parts += [_frame_title(group, box, self.direction) for group, box in groups]
        parts += [_box(node, box) for node, box in zip(self.nodes, placed.nodes)]
        return "".join(parts)


# --- sizes ----------------------------------------------------------------------------------------------------------

_NARROW, _WIDE = frozenset("iljtfrI.,:;'|!()[]/ "), frozenset("mwMW@%→—…±")


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Return the greatest width of a text, in px: that in DejaVu Sans or Verdana, the theme's widest fonts."""
    ems = sum(0.4 if c in _NARROW else 1.0 if c in _WIDE else 0.76 if c.isupper() else 0.64 for c in text)
    return round(ems * size * (1.09 if bold else 1.0), 1)


def wrapped(words: str, width: float, size: float) -> list[str]:
    """Return the words in lines of at most this width, in px, at this font size."""
    lines: list[str] = []
    line = ""
    for word in words.split():
        longer = f"{line} {word}".strip()
        if line and text_width(longer, size) > width:
            lines.append(line)
            longer = word
        line = longer
    return [*lines, line]


# --- placing --------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def _place(graph: Graph) -> Placed:
    """Compute the layout: if an arrow crosses a label, with more space between boxes, or from their reversed order."""
    best = _placed(graph, 1.0)
    crossed = _crossed_labels(graph, best)
    for room, is_reversed in (*((room, False) for room in ROOM), (1.0, True)):
        if not crossed:
            break
        other = _placed(graph, room, is_reversed=is_reversed)
        fewer = _crossed_labels(graph, other)
        if fewer < crossed:
            best, crossed = other, fewer
    return best


def _crossed_labels(graph: Graph, placed: Placed) -> int:
    """Return the number of labels that an arrow crosses, its own included."""
    labels = [box for box in placed.labels if box is not None]
    if not labels or len(labels) * len(graph.edges) > MOST_PAIRS:
        return 0
    along = np.array([points_of(way) for way in placed.ways])
    count = 0
    for box in labels:
        x, y = along[..., 0], along[..., 1]
        inside = (x > box.x + 1) & (x < box.x + box.width - 1) & (y > box.y + 1) & (y < box.y + box.height - 1)
        count += int(inside.any(axis=1).sum())
    return count


def points_of(way: Sequence[Point]) -> npt.NDArray[np.float64]:
    """Sample an arrow at equally many points, its tip the last; shape (SAMPLES + 1, 2)."""
    points = np.array(way)
    at = np.linspace(0, (len(way) - 2) // 3, SAMPLES, endpoint=False)
    curve = at.astype(int)
    t = (at - curve)[:, None]
    weights = np.hstack([(1 - t) ** 3, 3 * (1 - t) ** 2 * t, 3 * (1 - t) * t**2, t**3])
    along = np.einsum("sk,skx->sx", weights, points[3 * curve[:, None] + np.arange(4)])
    return np.vstack([along, points[-1]])


def _placed(graph: Graph, room: float, *, is_reversed: bool = False) -> Placed:
    picture = _agraph(graph, room, is_reversed=is_reversed)
    picture.layout(prog="dot")
    keys = {node.name: f"n{number}" for number, node in enumerate(graph.nodes)}
    low_x, low_y, high_x, high_y = _numbers(picture.graph_attr["bb"])

    def at(x: float, y: float) -> Point:
        return round(x - low_x + MARGIN, 1), round(high_y - y + MARGIN, 1)

    def around(centre: str, size: tuple[float, float]) -> Box:
        x, y = at(*_numbers(centre))
        return Box(x - size[0] / 2, y - size[1] / 2, *size)

    nodes = tuple(around(picture.get_node(keys[node.name]).attr["pos"], node.size) for node in graph.nodes)
    groups = []
    for number, _ in enumerate(graph.groups):
        left, bottom, right, top = _numbers(picture.get_subgraph(f"cluster_{number}").graph_attr["bb"])
        groups.append(Box(*at(left, top), right - left, top - bottom))
    ways, labels = [], []
    for number, edge in enumerate(graph.edges):
        ends, _ = _in_order(edge)
        attributes = picture.get_edge(*(keys[end] for end in ends), f"e{number}").attr
        ways.append(tuple(at(*point) for point in _way(attributes["pos"])))
        labels.append(around(attributes["lp"], edge.size) if edge.lines else None)
    picture.close()
    width, height = high_x - low_x + 2 * MARGIN, high_y - low_y + 2 * MARGIN
    return Placed(round(width), round(height), nodes, tuple(groups), tuple(ways), tuple(labels))


def _agraph(graph: Graph, room: float, *, is_reversed: bool) -> Any:
    """Return the graph for Graphviz: boxes without texts, labels as empty tables with the sizes of the texts. It lists
    the boxes in reversed order if `is_reversed`, from which Graphviz may find another layout.
    """
    with naming_extras():
        import pygraphviz

    picture = pygraphviz.AGraph(directed=True, strict=False)
    picture.graph_attr.update(
        rankdir=graph.direction,
        ranksep=f"{graph.rank_gap * room / 72:.3f}",
        nodesep=f"{graph.node_gap * room / 72:.3f}",
    )
    picture.node_attr.update(shape="box", fixedsize="true", label="")
    keys = {node.name: f"n{number}" for number, node in enumerate(graph.nodes)}
    for node in reversed(graph.nodes) if is_reversed else graph.nodes:
        width, height = node.size
        picture.add_node(keys[node.name], width=f"{width / 72:.3f}", height=f"{height / 72:.3f}")
    for number, edge in enumerate(graph.edges):
        label = {"label": _empty(*edge.size)} if edge.lines else {}
        ends, way = _in_order(edge)
        picture.add_edge(*(keys[end] for end in ends), key=f"e{number}", **label, **way, **_sides(graph))
    for number, group in enumerate(graph.groups):
        width = text_width(group.title, GROUP_SIZE, bold=True) + 8
        if graph.direction != "LR":  # arrows enter from above, so the title goes beside them
            width = 2 * width + 16
        picture.add_subgraph(
            [keys[name] for name in group.members],
            name=f"cluster_{number}",
            margin=str(GROUP_MARGIN),
            label=_empty(width, 14),
            labeljust="l",
        )
    for row in graph.rows:
        beside = picture.add_subgraph([keys[name] for name in row], rank="same")
        for one, other in pairwise(row):
            beside.add_edge(keys[one], keys[other], key=f"{one}|{other}", style="invis")
    return picture


def _in_order(edge: Edge) -> tuple[tuple[str, str], dict[str, str]]:
    """Return an arrow's ends in the order in which Graphviz ranks them, and the direction of the arrow."""
    return ((edge.target, edge.source), {"dir": "back"}) if edge.back else ((edge.source, edge.target), {})


def _sides(graph: Graph) -> dict[str, str]:
    """Return the sides at which arrows leave and enter a box, in Graphviz' terms."""
    if not graph.from_sides:
        return {}
    tail, head = ("e", "w") if graph.direction == "LR" else ("s", "n")
    return {"tailport": tail, "headport": head}


def _empty(width: float, height: float) -> str:
    table = f'<TABLE FIXEDSIZE="TRUE" WIDTH="{width:.0f}" HEIGHT="{height:.0f}" BORDER="0" CELLBORDER="0"'
    return f'<{table} CELLPADDING="0" CELLSPACING="0"><TR><TD></TD></TR></TABLE>>'


def _numbers(text: str) -> list[float]:
    return [float(number) for number in text.split(",")]


def _way(pos: str) -> list[Point]:
    """Return the Bezier points of an edge, followed by the tip of its arrow."""
    points: list[Point] = []
    tips: dict[str, Point] = {}
    for part in re.sub(r"\\\s*", "", pos).split():
        is_tip = part[0] in "es"
        x, y = _numbers(part[2:] if is_tip else part)
        if is_tip:
            tips[part[0]] = (x, y)
        else:
            points.append((x, y))
    if "s" in tips:  # Graphviz placed it against the direction of the arrow
        return [*reversed(points), tips["s"]]
    return [*points, tips.get("e", points[-1])]


# --- drawing --------------------------------------------------------------------------------------------------------


def _frame(group: Group, box: Box) -> str:
    return (
        f'<rect x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" height="{box.height:g}" rx="9" class="g-group">'
        f"{_tip(group.tip)}</rect>"
    )


def _frame_title(group: Group, box: Box, direction: str) -> str:
    """Draw a group's title. It is at the right, because arrows from above mostly enter at the left or the middle."""
    x, anchor = (box.x + 10, "start") if direction == "LR" else (box.x + box.width - 10, "end")
    return (
        f'<text x="{x:g}" y="{box.y + 16:g}" text-anchor="{anchor}" class="g-group-title">{escape(group.title)}</text>'
    )


def _box(node: Node, box: Box) -> str:
    parts = [f'<g class="g-node {node.meaning}" data-node="{escape(node.name)}">{_tip(node.tip)}']
    parts.append(
        f'<rect x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" height="{box.height:g}" rx="6" class="g-box"/>'
    )
    if node.ends:
        parts.append(
            f'<rect x="{box.x - 3:g}" y="{box.y - 3:g}" width="{box.width + 6:g}" height="{box.height + 6:g}" rx="8" '
            'class="g-box" style="fill:none"/>'
        )
    x = box.x + box.width / 2 if len(node.lines) == 1 else box.x + PAD_X
    anchor = ' text-anchor="middle"' if len(node.lines) == 1 else ""
    for number, line in enumerate(node.lines):
        kind = "g-line" if number else "g-title"
        y = box.y + PAD_Y + LINE_HEIGHT * number + 11.5
        parts.append(f'<text x="{x:g}" y="{y:g}" class="{kind}"{anchor}>{escape(line)}</text>')
    return "".join([*parts, "</g>"])


def _arrow(edge: Edge, way: Sequence[Point], label: Box | None, *, plain: bool) -> str:
    *points, tip = way
    (x, y), *rest = points
    curves = "".join(
        "C" + " ".join(f"{px:g} {py:g}" for px, py in rest[at : at + 3]) for at in range(0, len(rest) - 2, 3)
    )
    parts = [
        f'<g class="g-arrow {edge.meaning}">{_tip(edge.tip)}<path d="M{x:g} {y:g}{curves}" class="g-edge"/>',
        f'<path d="{_head(points[-1], tip)}" class="g-head"/>',
    ]
    if label is not None:
        for number, line in enumerate(edge.lines):
            first = " first" if number == 0 and not plain else ""
            text_y = label.y + EDGE_PAD + LINE_HEIGHT * number + 11.5
            parts.append(
                f'<text x="{label.x + label.width / 2:g}" y="{text_y:g}" text-anchor="middle" '
                f'class="g-label{first}">{escape(line)}</text>'
            )
    return "".join([*parts, "</g>"])


def _head(base: Point, tip: Point) -> str:
    """Draw an arrow's head, as wide as it is long."""
    dx, dy = (tip[0] - base[0]) * 0.45, (tip[1] - base[1]) * 0.45
    return f"M{tip[0]:g} {tip[1]:g}L{base[0] - dy:.1f} {base[1] + dx:.1f}L{base[0] + dy:.1f} {base[1] - dx:.1f}z"


def _tip(text: str) -> str:
    return f"<title>{escape(text)}</title>" if text else ""


# --- Graphviz' own --------------------------------------------------------------------------------------------------

_NODE_COLOURS = {
    "": ("paper", "line", "ink"),
    "good": ("good-fill", "good", "ink"),
    "bad": ("bad-fill", "bad-solid", "ink"),
    "root": ("bad-fill", "bad-solid", "ink"),
    "waits": ("align-fill", "align-solid", "ink"),
    "question": ("accent-fill", "accent", "ink"),
    "lit": ("accent", "accent", "on-accent"),
    "been": ("accent-fill", "accent", "ink"),
    "quiet": ("card", "line-2", "quiet"),
}
_EDGE_COLOURS = {"": "line", "good": "good-solid", "waits": "align-solid", "bad": "bad-solid", "lit": "accent"}
_HEAVY = frozenset({"bad", "root", "lit", "waits"})
FONT = "DejaVu Sans,Verdana,Helvetica"


def _dot(graph: Graph) -> Dot:
    with naming_extras():
        import graphviz

        from kit.draw.graphviz_objects import Dot

    colours = light_colours()
    dot = Dot(
        graph.name,
        graph.caption,
        graph_attr={
            "rankdir": graph.direction,
            "ranksep": f"{graph.rank_gap / 72:.2f}",
            "nodesep": f"{graph.node_gap / 72:.2f}",
            "fontname": FONT,
            "bgcolor": colours["paper"],
        },
        node_attr={
            "shape": "box",
            "style": "rounded,filled",
            "fontname": FONT,
            "fontsize": "11",
            "margin": "0.12,0.07",
        },
        edge_attr={"fontname": FONT, "fontsize": "10", "fontcolor": colours["ink-2"]},
    )
    for number, group in enumerate(graph.groups):
        with dot.subgraph(name=f"cluster_{number}") as inside:
            inside.attr(label=graphviz.escape(group.title), labeljust="l", style="rounded,filled")
            inside.attr(fillcolor=colours["card"], color=colours["line-2"], fontsize="11")
            for name in group.members:
                inside.node(_key(name))
    for row in graph.rows:
        with dot.subgraph(graph_attr={"rank": "same"}) as beside:
            for one, other in pairwise(row):
                beside.edge(_key(one), _key(other), style="invis")
    for node in graph.nodes:
        fill, line, ink = (colours[name] for name in _NODE_COLOURS[node.meaning.split()[0] if node.meaning else ""])
        heavy = {"penwidth": "2.2"} if node.meaning in _HEAVY else {}
        ends = {"peripheries": "2"} if node.ends else {}
        attributes = {
            "fillcolor": fill,
            "color": line,
            "fontcolor": ink,
            "tooltip": graphviz.escape(node.tip or node.lines[0]),
        }
        dot.node(_key(node.name), _label(node.lines), **attributes, **heavy, **ends)
    for edge in graph.edges:
        meaning, _, dashed = edge.meaning.partition(" ")
        style = {"style": "dashed"} if "dashed" in (meaning, dashed) else {}
        colour = colours[_EDGE_COLOURS.get(meaning, "line")]
        label = {"label": _roomy(edge.lines)} if edge.lines else {}
        label |= {"tooltip": graphviz.escape(edge.tip)} if edge.tip else {}
        between, pointing = _in_order(edge)
        dot.edge(*map(_key, between), color=colour, **label, **style, **pointing, **_sides(graph))
    return dot


def _key(name: str) -> str:
    """Return a node's name in the DOT language, in which a colon would start a port."""
    return name.replace(":", ".")


def _roomy(lines: Sequence[str]) -> str:
    """Return a label with a margin, which keeps it off its arrow."""
    text = "<BR/>".join(map(escape, lines))
    table = f'<TABLE BORDER="0" CELLBORDER="0" CELLPADDING="{EDGE_PAD:.0f}" CELLSPACING="0">'
    return f"<{table}<TR><TD>{text}</TD></TR></TABLE>>"


def _label(lines: Sequence[str]) -> str:
    """Return the lines of a label, left-aligned if there are several."""
    import graphviz

    if len(lines) == 1:
        return str(graphviz.escape(lines[0]))
    return "".join(f"{graphviz.escape(line)}\\l" for line in lines)
