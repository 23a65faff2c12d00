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
from kit.draw.views.rescaling_svg import Bands, heading, pieces
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
        olds, news = Bands.at_most(MOST_BOXES, deal.before), Bands.at_most(MOST_BOXES, deal.after)
        title, now = (f"{number}-before", f"{number}-now")
        nodes[title] = Node(title, (heading(deal), f"before: {counted(deal.before, 'subtask')}"), "quiet")
        nodes[now] = Node(now, (heading(deal), f"now: {counted(deal.after, 'subtask')}"), "quiet")
        edges.append(Edge(title, now, (_moved(deal),), "dashed"))
        between: dict[tuple[int | None, int], list[Transfer]] = defaultdict(list)
        for each in deal.transfers:
            between[None if each.old is None else olds.band_of(each.old), news.band_of(each.new)].append(each)
        used = {f"{number}-old-{old}" for old, _ in between} | {f"{number}-new-{new}" for _, new in between}
        for column, name, end, side in zip(columns, (title, now), ("old", "new"), (olds, news)):
            names = [f"{number}-{end}-{box}" for box in range(side.count)]
            column += [name, *names]
            nodes |= {each: _box(each, deal, side, box, is_used=each in used) for box, each in enumerate(names)}
        for (old, new), given in sorted(between.items(), key=lambda pair: (pair[0][0] or 0, pair[0][1])):
            if old is None:
                nodes.setdefault(f"{number}-unknown", Node(f"{number}-unknown", ("unknown writer",), "quiet"))
            source = f"{number}-unknown" if old is None else f"{number}-old-{old}"
            size = size_text(sum(each.size for each in given))
            edges.append(Edge(source, f"{number}-new-{new}", (f"{pieces(deal, len(given))}, {size}",)))
    layout: dict[str, Any] = {"rank_gap": 90.0, "node_gap": 12.0, "from_sides": True}
    rows = tuple(tuple(column) for column in columns if column)
    return Graph("rescaling", caption, tuple(nodes.values()), tuple(edges), rows=rows, **layout)


def _moved(deal: Deal) -> str:
    """Return how many pieces changed their subtask."""
    known = [each for each in deal.transfers if each.old is not None]
    return f"{sum(each.old != each.new for each in known)} of {pieces(deal, len(known))} moved"


def _box(name: str, deal: Deal, side: Bands, box: int, *, is_used: bool) -> Node:
    """Return a box of one side, with the key groups that its subtasks own."""
    lines = [side.name(deal.vertex, box)]
    if deal.kind in BY_GROUP:
        owned, members = key_group_partitions(deal.groups, side.many), side.members(box)
        lines.append(f"key groups {owned[members[0]].start}–{owned[members[-1]].end}")
    if not is_used:
        lines.append(f"no {deal.kind}")
    return Node(name, tuple(lines), "" if is_used else "quiet")
