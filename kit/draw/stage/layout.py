"""The positions of a stage's parts.

Graphviz computes the layout once, in this process. Vertices are fixed-size nodes in ranks from source to sink; dot
places them, and the subtasks are drawn inside in order. The layout is the same for all moments.

A *place* is a subtask's box, or the box of a whole vertex that is closed. A *lane* connects two places: one channel, or
a bundle of channels if an end is closed. Both ends of a lane are straight, for the queues of the sender and the
receiver; the wire between them bends.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

from kit.core.extras import naming_extras
from kit.core.trace.shape import ShapeChannel
from kit.run.stage import Stage

TASK_WIDTH, TASK_HEIGHT, TASK_GAP, HEADER = 168, 58, 20, 46
PITCH, DENSE_PITCH, BUNDLE_PITCH, CELL, BEND_HEIGHT = 16.0, 13.0, 26.0, 14, 40
MOST_CELLS_IN_A_ROW = (TASK_WIDTH - 12) // CELL
OUT_LENGTH, WIRE_LENGTH, IN_LENGTH = 50, 120, 100
MARGIN = 64
MOST_RANKS, RANKS_IN_A_ROW, WIRE_IN_ROWS = 6, 3, 60
"""A job with more ranks than the first is broken into rows of the second. With more ranks in a row than that, wires
are shortened, so the picture stays readable at a page's width.
"""
TURN, TURN_STEP, MOST_TURNS, ROW_GAP = 44, 7, 70, 26
"""How far the first lane to the next row swings out, the increment for each further lane, the maximum, and the space
between a row and those lanes.
"""
ONE_COLUMN, COLUMN_GAP, PASSING_STEP, PASSING_ROOM = 8, OUT_LENGTH + IN_LENGTH + 60, 6.0, 11.0
"""An open vertex with more subtasks than the first arranges them in columns, with this gap. The lanes of inner columns
pass between the rows; they are a step apart, and have this space to the boxes.
"""
MOST_PASSING = 3
"""With more lanes on one side of a subtask, all subtasks are in one column, so the rows stay readable."""

Point = tuple[float, float]


def cells_in_a_row(many: int) -> int:
    """Return the number of subtasks in each row of a closed vertex's box, so that rows are about equally long."""
    rows = math.ceil(many / MOST_CELLS_IN_A_ROW)
    return math.ceil(many / rows)


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle: top left corner, width, height."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Lane:
    """The connection between two places. `path` is in SVG; `start` and `end` are at the boxes' edges."""

    name: str
    source: str
    target: str
    channels: tuple[int, ...]
    pitch: float
    corners: tuple[Point, ...]

    @property
    def start(self) -> Point:
        """The point at which the lane leaves its sender."""
        return self.corners[0]

    @property
    def end(self) -> Point:
        """The point at which the lane reaches its receiver."""
        return self.corners[-1]

    @property
    def path(self) -> str:
        """The lane as an SVG path: straight stretches between corner pairs, Bezier curves in between."""
        return _path(self.corners)

    def on_wire(self, t: float) -> Point:
        """Return the point at `t` in 0..1 of the wire, from the sender's queue to the receiver's."""
        stretches = len(self.corners) - 3
        position = min(max(t, 0.0), 1.0) * stretches
        index = min(int(position), stretches - 1)
        a, b, u = self.corners[1 + index], self.corners[2 + index], position - index
        if index % 2:
            return a[0] + (b[0] - a[0]) * u, a[1] + (b[1] - a[1]) * u
        (x1, y1), (x2, y2) = _controls(a, b, self.corners[index])
        v = 1 - u
        c0, c1, c2, c3 = v * v * v, 3 * v * v * u, 3 * v * u * u, u * u * u
        return c0 * a[0] + c1 * x1 + c2 * x2 + c3 * b[0], c0 * a[1] + c1 * y1 + c2 * y2 + c3 * b[1]


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a stage. The vertices in `closed` are one box each; `incoming` are the channels of each task."""

    stage: Stage
    width: float
    height: float
    vertices: Mapping[str, Box]
    places: Mapping[str, Box]
    lanes: tuple[Lane, ...]
    closed: frozenset[str]
    margin: float
    incoming: Mapping[str, Sequence[ShapeChannel]]


def place_of(stage: Stage, task: str) -> str:
    """Return the place where a task is drawn at first: its own, or that of its vertex if it is closed."""
    vertex = stage.vertex_of(task).name
    return vertex if vertex in stage.closed_at_first() else task


@lru_cache(maxsize=64)
def lay_out(
    stage: Stage,
    top: float = 0.0,
    least_width: float = 0.0,
    closed: frozenset[str] | None = None,
    margin: float = MARGIN,
) -> Layout:
    """Lay a stage out below `top`; the same stage always gets the same layout.

    The vertices in `closed` are drawn as one box each, by default those with too many subtasks.
    """
    closed = stage.closed_at_first() if closed is None else closed
    names = {
        v.name: [v.name] if v.name in closed else [f"{v.name}/{i}" for i in range(v.parallelism)]
        for v in stage.vertices
    }
    bundles = _bundles(stage, closed)
    columns = _columns(stage, names, closed, bundles)
    vertices, rows = _in_rows(stage, bundles, _vertex_boxes(stage, columns))
    left, right_margin = max(margin, rows.left + 12), max(margin, rows.right + 12)
    right = max(box.x + box.width for box in vertices.values())
    shift = left + max(0.0, least_width - right - left - right_margin) / 2
    vertices = {name: Box(box.x + shift, box.y + top, box.width, box.height) for name, box in vertices.items()}
    places = {
        name: columns[vertex].box(vertices[vertex], number)
        for vertex, own in names.items()
        for number, name in enumerate(own)
    }
    rows = replace(rows, bottoms=tuple(bottom + top for bottom in rows.bottoms))
    lanes = _lanes(bundles, vertices, places, columns, rows)
    width = max(least_width, right + left + right_margin)
    height = max(box.y + box.height for box in vertices.values()) + margin
    real = {name: box for name, box in vertices.items() if not name.startswith("\0")}
    incoming: dict[str, list[ShapeChannel]] = {}
    for channel in stage.channels:
        incoming.setdefault(channel.target, []).append(channel)
    return Layout(stage, width, height, real, places, lanes, closed, margin, incoming)


@lru_cache(maxsize=4096)
def _path(corners: tuple[Point, ...]) -> str:
    parts = [f"M{_n(corners[0][0])} {_n(corners[0][1])}"]
    for index, (x, y) in enumerate(corners[1:], 1):
        if index % 2:
            parts.append(f"L{_n(x)} {_n(y)}")
        else:
            (x1, y1), (x2, y2) = _controls(corners[index - 1], (x, y), corners[index - 2])
            parts.append(f"C{_n(x1)} {_n(y1)} {_n(x2)} {_n(y2)} {_n(x)} {_n(y)}")
    return "".join(parts)


def _n(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")


def _controls(a: Point, b: Point, before: Point) -> tuple[Point, Point]:
    """Return the control points of the curve from `a` to `b`, on a lane that comes from `before`."""
    if a[0] == b[0]:
        swing = math.copysign(TURN, a[0] - before[0])
        return (a[0] + swing, a[1]), (b[0] + swing, b[1])
    middle = (b[0] - a[0]) * 0.5
    return (a[0] + middle, a[1]), (b[0] - middle, b[1])


Bundles = dict[tuple[str, str], list[int]]


def _bundles(stage: Stage, closed: frozenset[str]) -> Bundles:
    places = {task: task if (vertex := _vertex_of_place(task)) not in closed else vertex for task in stage.tasks()}
    bundles: Bundles = {}
    for channel in stage.channels:
        bundles.setdefault((places[channel.source], places[channel.target]), []).append(channel.number)
    return bundles


def _vertex_of_place(place: str) -> str:
    return place.rpartition("/")[0] or place


Names = Mapping[str, list[str]]
"""The places of each vertex."""


@dataclass(frozen=True, slots=True)
class _Columns:
    """The arrangement of a vertex's places: their number, their columns, their height, and the most lanes that one of
    them has at its left and at its right.

    A lane to an inner place passes above its row; a lane from it passes below. The nearest lane is closest to the
    boxes, so that none of them cross.
    """

    many: int
    columns: int
    height: float
    sides: tuple[int, int]

    @property
    def width(self) -> float:
        """The width of all columns and the gaps between them."""
        return self.columns * TASK_WIDTH + (self.columns - 1) * float(COLUMN_GAP)

    @property
    def tall(self) -> float:
        """The height of all rows, with the header."""
        rows = math.ceil(self.many / self.columns)
        return HEADER + rows * self.height + (rows - 1) * TASK_GAP + rows * sum(map(self._passing, (0, 1)))

    def _passing(self, side: int) -> float:
        """Return the height of the lanes that pass a row on this side."""
        slots = (self.columns - 1) * self.sides[side]
        return slots * PASSING_STEP + PASSING_ROOM - TASK_GAP / 2 if slots else 0.0

    def box(self, vertex: Box, number: int) -> Box:
        """Return the box of the place with this number."""
        row, column = divmod(number, self.columns)
        pitch = self.height + TASK_GAP + self._passing(0) + self._passing(1)
        x, y = vertex.x + column * (TASK_WIDTH + COLUMN_GAP), vertex.y + HEADER + self._passing(0) + row * pitch
        return Box(round(x, 1), round(y, 1), TASK_WIDTH, self.height)

    def past(self, vertex: Box, box: Box, side: int, port: int) -> list[Point]:
        """Return the straight stretch of a lane to or from this place, past other columns. `port` counts from the far
        end.
        """
        column = round((box.x - vertex.x) / (TASK_WIDTH + COLUMN_GAP))
        others = column if side == 0 else self.columns - 1 - column
        if not others:
            return []
        away = PASSING_ROOM + ((others - 1) * self.sides[side] + port) * PASSING_STEP
        if side == 0:
            y = box.y - away
            return [(vertex.x - 20, y), (box.x - IN_LENGTH - 50, y)]
        y = box.y + box.height + away
        return [(box.x + box.width + OUT_LENGTH + 50, y), (vertex.x + vertex.width + 20, y)]


def _columns(stage: Stage, names: Names, closed: frozenset[str], bundles: Bundles) -> dict[str, _Columns]:
    """Arrange the places of each vertex. The height of a box fits its text and the lanes on its busier side."""
    columns: dict[str, _Columns] = {}
    lanes: dict[tuple[int, str], list[int]] = {}
    for pair, channels in bundles.items():
        for side in (0, 1):
            lanes.setdefault((1 - side, pair[side]), []).append(len(channels))
    for vertex in stage.vertices:
        height = float(TASK_HEIGHT)
        if vertex.name in closed:
            height = 58.0 + math.ceil(vertex.parallelism / cells_in_a_row(vertex.parallelism)) * CELL
        sides = [[lanes.get((side, name), []) for name in names[vertex.name]] for side in (0, 1)]
        height = max(height, *(len(sizes) * _pitch(sizes) + 8 for side in sides for sizes in side))
        many, (left, right) = len(names[vertex.name]), (max(map(len, side)) for side in sides)
        in_columns = many > ONE_COLUMN and max(left, right) <= MOST_PASSING
        number = min(5, max(2, math.ceil(many / 13))) if in_columns else 1
        columns[vertex.name] = _Columns(many, number, height, (left, right))
    return columns


def _pitch(sizes: Sequence[int]) -> float:
    """Return the distance between lanes with these numbers of channels. A bundle has counts above its elements."""
    if max(sizes, default=1) > 1:
        return BUNDLE_PITCH
    return PITCH if len(sizes) <= 4 else DENSE_PITCH


def ranks_of(stage: Stage) -> dict[str, int]:
    """Return the rank of each vertex: the length of its longest path from a source."""
    edges = {(_vertex_of_place(c.source), _vertex_of_place(c.target)) for c in stage.channels}
    ranks = {vertex.name: 0 for vertex in stage.vertices}
    for _ in stage.vertices:
        for source, target in edges:
            ranks[target] = max(ranks[target], ranks[source] + 1)
    return ranks


def _vertex_boxes(stage: Stage, columns: Mapping[str, _Columns]) -> dict[str, Box]:
    """Let dot place the vertices; an edge over several ranks gets a bend in each rank between (see `_bend`)."""
    with naming_extras():
        import pygraphviz

    graph = pygraphviz.AGraph(directed=True, strict=True)
    ranks = ranks_of(stage)
    gap = OUT_LENGTH + (WIRE_LENGTH if max(ranks.values()) < RANKS_IN_A_ROW else WIRE_IN_ROWS) + IN_LENGTH
    graph.graph_attr.update(rankdir="LR", ranksep=str(gap / 72), nodesep=str(34 / 72))
    graph.node_attr.update(shape="box", fixedsize="true", label="")
    sizes = {vertex.name: (columns[vertex.name].width, columns[vertex.name].tall) for vertex in stage.vertices}
    wide = {rank: max(sizes[name][0] for name in sizes if ranks[name] == rank) for rank in ranks.values()}
    pairs = dict.fromkeys((_vertex_of_place(c.source), _vertex_of_place(c.target)) for c in stage.channels)
    chains = []
    for source, target in pairs:
        bends = {_bend(source, target, rank): rank for rank in range(ranks[source] + 1, ranks[target])}
        sizes.update({bend: (wide[rank], float(BEND_HEIGHT)) for bend, rank in bends.items()})
        chains.append([source, *bends, target])
    keys = {name: f"n{index}" for index, name in enumerate(sizes)}
    for name, (width, height) in sizes.items():
        graph.add_node(keys[name], width=str(width / 72), height=str(height / 72))
    for chain in chains:
        for a, b in pairwise(chain):
            graph.add_edge(keys[a], keys[b])
    graph.layout(prog="dot")
    centres = {name: tuple(map(float, graph.get_node(keys[name]).attr["pos"].split(","))) for name in sizes}
    graph.close()
    top = max(centres[name][1] + sizes[name][1] / 2 for name in sizes)
    left = min(centres[name][0] - sizes[name][0] / 2 for name in sizes)
    return {
        name: Box(round(x - width / 2 - left, 1), round(top - y - height / 2, 1), width, height)
        for name, (width, height) in sizes.items()
        for x, y in [centres[name]]
    }


@dataclass(frozen=True, slots=True)
class _Rows:
    """A job in rows: the end of each row but the last, how far lanes to the next row extend to the left and to the
    right of the boxes, and the distance between them.
    """

    bottoms: tuple[float, ...] = ()
    left: float = 0.0
    right: float = 0.0
    step: float = 0.0


def _in_rows(stage: Stage, bundles: Bundles, boxes: dict[str, Box]) -> tuple[dict[str, Box], _Rows]:
    """Break a job of many ranks into rows, like text, with space between two rows for the lanes to the next one."""
    ranks = ranks_of(stage)
    if max(ranks.values()) < MOST_RANKS:
        return boxes, _Rows()
    rank_of = {name: ranks[name] if name in ranks else _rank_of_bend(name) for name in boxes}
    crossing = [0] * (max(ranks.values()) + 1)
    for source, target in bundles:
        for rank in range(ranks[_vertex_of_place(source)], ranks[_vertex_of_place(target)]):
            crossing[rank] += 1
    turning = crossing[RANKS_IN_A_ROW - 1 :: RANKS_IN_A_ROW]
    step = min(TURN_STEP, MOST_TURNS / max(1, *turning, 1))
    placed: dict[str, Box] = {}
    bottoms: list[float] = []
    y = 0.0
    for first in range(0, len(crossing), RANKS_IN_A_ROW):
        row = {name: box for name, box in boxes.items() if first <= rank_of[name] < first + RANKS_IN_A_ROW}
        wide: dict[int, float] = {}
        for name, box in row.items():
            wide[rank_of[name]] = max(box.width, wide.get(rank_of[name], 0.0))
        top, bottom = min(box.y for box in row.values()), max(box.y + box.height for box in row.values())
        for name, box in row.items():
            between = OUT_LENGTH + WIRE_IN_ROWS + IN_LENGTH
            x = sum(wide[before] + between for before in range(first, rank_of[name]))
            placed[name] = Box(float(x), round(box.y - top + y, 1), box.width, box.height)
        y += bottom - top
        bottoms.append(y)
        y += 2 * ROW_GAP + step * crossing[min(first + RANKS_IN_A_ROW, len(crossing)) - 1]
    room = TURN + step * max(turning, default=0)
    return placed, _Rows(tuple(bottoms[:-1]), IN_LENGTH + room, OUT_LENGTH + room, step)


def _turned(every: Sequence[list[Point]], rows: _Rows) -> list[list[Point]]:
    """Return the lanes' corners. Lanes to the next row turn below their own row, where none crosses another."""
    turns: dict[int, list[tuple[float, int, int]]] = {}
    for number, corners in enumerate(every):
        for at in range(1, len(corners) - 1, 2):
            if corners[at + 1][0] < corners[at][0] and rows.bottoms:
                row = next(row for row, bottom in enumerate(rows.bottoms) if corners[at][1] < bottom)
                turns.setdefault(row, []).append((-corners[at][1], number, at))
    between: dict[tuple[int, int], list[Point]] = {}
    for row, here in turns.items():
        for inner, (_, number, at) in enumerate(sorted(here)):
            a, b = every[number][at : at + 2]
            right, left = a[0] + inner * rows.step, b[0] - (len(here) - 1 - inner) * rows.step
            y = rows.bottoms[row] + ROW_GAP + inner * rows.step
            between[number, at] = [(right, a[1]), (right, y), (left, y), (left, b[1])]
    turned = []
    for number, corners in enumerate(every):
        made = corners[:1]
        for at in range(1, len(corners) - 1, 2):
            made += between.get((number, at), corners[at : at + 2])
        turned.append([*made, corners[-1]])
    return turned


def _rank_of_bend(name: str) -> int:
    return int(name.rpartition("\0")[2])


def _bend(source: str, target: str, rank: object) -> str:
    """Return the name of the node where an edge passes a rank."""
    return f"\0{source}\0{target}\0{rank}"


def _lanes(
    bundles: Bundles,
    vertices: Mapping[str, Box],
    places: Mapping[str, Box],
    columns: Mapping[str, _Columns],
    rows: _Rows,
) -> tuple[Lane, ...]:
    """Return one lane per bundle. Its port on each box follows the order of the boxes at the other end."""
    order = {name: (box.x, box.y) for name, box in places.items()}
    leaving: dict[str, list[str]] = {}
    reaching: dict[str, list[str]] = {}
    for source, target in bundles:
        leaving.setdefault(source, []).append(target)
        reaching.setdefault(target, []).append(source)
    for others in (*leaving.values(), *reaching.values()):
        others.sort(key=lambda name: (order[name][1], -order[name][0]))
    every = []
    out_pitch = {source: _pitch([len(bundles[source, each]) for each in leaving[source]]) for source in leaving}
    in_pitch = {target: _pitch([len(bundles[each, target]) for each in reaching[target]]) for target in reaching}
    for source, target in bundles:
        from_vertex, to_vertex = _vertex_of_place(source), _vertex_of_place(target)
        out, into = leaving[source].index(target), reaching[target].index(source)
        start = _port(places[source], len(leaving[source]), out, out_pitch[source], right=True)
        end = _port(places[target], len(reaching[target]), into, in_pitch[target], right=False)
        corners: list[Point] = [start, (start[0] + OUT_LENGTH, start[1])]
        corners += columns[from_vertex].past(vertices[from_vertex], places[source], 1, out)
        between = _bend(from_vertex, to_vertex, "")
        bends = [name for name in vertices if name.startswith(between)]
        for box in (vertices[name] for name in sorted(bends, key=_rank_of_bend)):
            y = box.y + (end[1] - places[target].y) * 0.3
            corners += [(box.x, y), (box.x + box.width, y)]
        port = len(reaching[target]) - 1 - into
        corners += columns[to_vertex].past(vertices[to_vertex], places[target], 0, port)
        every.append([*corners, (end[0] - IN_LENGTH, end[1]), end])
    return tuple(
        Lane(f"l{number}", *pair, tuple(channels), min(out_pitch[pair[0]], in_pitch[pair[1]]), tuple(corners))
        for number, ((pair, channels), corners) in enumerate(zip(bundles.items(), _turned(every, rows)))
    )


def _port(box: Box, many: int, number: int, pitch: float, *, right: bool) -> Point:
    offset = (number - (many - 1) / 2) * pitch
    return round(box.x + (box.width if right else 0.0), 1), round(box.y + box.height / 2 + offset, 1)
