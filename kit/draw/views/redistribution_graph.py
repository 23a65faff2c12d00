"""The redistribution of a restore as boxes and arrows: the writers at the left, the readers at the right.

Both columns are in the order of the subtasks. Keyed state is named by key groups, also where a subtask has none of it.
Many subtasks share a box.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from kit.core.state.key_groups import key_group_partitions
from kit.draw.graphs import Edge, Graph, Node
from kit.draw.views.rescaling_svg import heading, pieces
from kit.run.sizes import counted, size_text
from kit.snapshots.transfers import BY_GROUP, Deal, Transfer

MOST_BOXES = 8
"""With more subtasks on a side than this, several share a box."""


def redistribution_graph(deals: Sequence[Deal], caption: str) -> Graph:
    """Return the graph of these states, one below another."""
    nodes: dict[str, Node] = {}
    edges: list[Edge] = []
    columns: tuple[list[str], list[str]] = ([], [])
    for number, deal in enumerate(deals):
        sides = (_Side(f"{number}-old", deal, deal.before), _Side(f"{number}-new", deal, deal.after))
        title, now = (f"{number}-before", f"{number}-now")
        nodes[title] = Node(title, (heading(deal), f"before: {counted(deal.before, 'subtask')}"), "quiet")
        nodes[now] = Node(now, (heading(deal), f"now: {counted(deal.after, 'subtask')}"), "quiet")
        edges.append(Edge(title, now, (_moved(deal),), "dashed"))
        for column, side, name in zip(columns, sides, (title, now)):
            column += [name, *(side.name(box) for box in range(side.count))]
        between: dict[tuple[int | None, int], list[Transfer]] = defaultdict(list)
        for each in deal.transfers:
            between[sides[0].box_of(each.old), sides[1].box_of(each.new) or 0].append(each)
        written = {old for old, _ in between}
        read: set[int | None] = {new for _, new in between}
        for side, used in zip(sides, (written, read)):
            nodes |= {side.name(box): side.node(box, is_used=box in used) for box in range(side.count)}
        for (old, new), given in sorted(between.items(), key=lambda pair: (pair[0][0] or 0, pair[0][1])):
            if old is None:
                nodes.setdefault(f"{number}-unknown", Node(f"{number}-unknown", ("unknown writer",), "quiet"))
            source = f"{number}-unknown" if old is None else sides[0].name(old)
            size = size_text(sum(each.size for each in given))
            edges.append(Edge(source, sides[1].name(new), (f"{pieces(deal, len(given))}, {size}",)))
    look: dict[str, Any] = {"rank_gap": 90.0, "node_gap": 12.0, "from_sides": True}
    rows = tuple(tuple(column) for column in columns if column)
    return Graph("rescaling", caption, tuple(nodes.values()), tuple(edges), rows=rows, **look)


def _moved(deal: Deal) -> str:
    """Return how many pieces changed their subtask."""
    known = [each for each in deal.transfers if each.old is not None]
    return f"{sum(each.old != each.new for each in known)} of {pieces(deal, len(known))} moved"


class _Side:
    """The subtasks of one side of a redistribution, in boxes of equally many."""

    def __init__(self, prefix: str, deal: Deal, many: int) -> None:
        self._prefix, self._deal, self._many = prefix, deal, max(many, 1)
        self._per_box = -(-self._many // MOST_BOXES)
        self.count = -(-self._many // self._per_box)

    def name(self, box: int) -> str:
        """Return the name of a box."""
        return f"{self._prefix}-{box}"

    def box_of(self, subtask: int | None) -> int | None:
        """Return the box of a subtask; None for an unknown one."""
        return None if subtask is None else min(subtask // self._per_box, self.count - 1)

    def node(self, box: int, *, is_used: bool) -> Node:
        """Return the box, with the key groups that its subtasks own."""
        first, last = box * self._per_box, min((box + 1) * self._per_box, self._many) - 1
        lines = [f"{self._deal.vertex}/{first}" if first == last else f"{self._deal.vertex}/{first}–{last}"]
        if self._deal.kind in BY_GROUP:
            owned = key_group_partitions(self._deal.groups, self._many)
            lines.append(f"key groups {owned[first].start}–{owned[last].end}")
        if not is_used:
            lines.append(f"no {self._deal.kind}")
        return Node(self.name(box), tuple(lines), "" if is_used else "quiet")
