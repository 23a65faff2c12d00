"""The wait-for graph: an arrow leads from each waiting task to what it waits for, down to the first causes.

A barrier that has been sent ends a chain, because only its receiver or the wire can advance it. A barrier that has not
been sent leads to its sender. In a job of many subtasks, the subtasks of a vertex that wait for the same share a box.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from textwrap import wrap

from kit.core.protocol.tasks import vertex_of
from kit.draw.graphs import Edge, Graph, Node
from kit.run.captions import listed
from kit.why.wait_for import End, Held, WaitFor
from kit.why.waits import NOT_SENT, Barrier

MOST_TASKS = 14
"""With more tasks in the picture than this, the subtasks of a vertex that wait for the same are drawn as one box."""
LINE = 38


def wait_for_graph(wait_for: WaitFor, caption: str) -> Graph:
    """Return the graph; if no task waits, one box that says so."""
    if not wait_for.waits:
        return Graph("wait_for", caption, (Node("none", ("Nobody waits for a barrier",), "quiet"),))
    boxes = _boxes(wait_for)
    box_of = {task: name for name, tasks in boxes.items() for task in tasks}
    nodes = [_node(wait_for, name, tasks) for name, tasks in boxes.items()]
    edges = [*_unsent(wait_for, box_of), *_held(wait_for, box_of)]
    ends = _ends(wait_for, box_of)
    for number, (title, says) in enumerate(dict.fromkeys((title, says) for _, title, says, _ in ends)):
        nodes.append(Node(f"end{number}", (title, *wrap(says, LINE)), "root"))
        edges += [
            Edge(box, f"end{number}", _label(wait_for, waits) if waits else (), "waits" if waits else "bad")
            for box, of, text, waits in ends
            if (of, text) == (title, says)
        ]
    return Graph("wait_for", caption, tuple(nodes), tuple(edges), rank_gap=40.0)


def merged(ends: Iterable[End]) -> list[str]:
    """Describe the ends of chains; equal ends are listed once, with their number."""
    alike: dict[str, list[End]] = defaultdict(list)
    for end in ends:
        alike[end.title].append(end)
    return [some[0].says + (f" (and {len(some) - 1} alike)" if len(some) > 1 else "") for some in alike.values()]


def _boxes(wait_for: WaitFor) -> dict[str, list[str]]:
    """Return the tasks of each box: one task, or in a large job those of a vertex that wait for the same."""
    waiting = dict.fromkeys(wait.target for wait in wait_for.waits)
    waited = dict.fromkeys(wait.source for wait in wait_for.waits if wait.place == NOT_SENT)
    tasks = waiting | waited | dict.fromkeys(each.source for each in wait_for.held)
    if len(tasks) <= MOST_TASKS:
        return {task: [task] for task in tasks}
    alike: dict[tuple[str, bool, bool], list[str]] = defaultdict(list)
    for task in tasks:
        alike[vertex_of(task), task in waiting, task in waited].append(task)
    return {
        members[0] if len(members) == 1 else f"{vertex}: {number}": members
        for number, ((vertex, *_), members) in enumerate(alike.items())
    }


def _node(wait_for: WaitFor, name: str, tasks: list[str]) -> Node:
    waits = [wait for wait in wait_for.waits if wait.target in set(tasks)]
    if len(tasks) > 1:
        vertex = vertex_of(tasks[0])
        title = (f"{len(tasks)} of {vertex}",)
        return Node(name, title, "waits" if waits else "", tip=listed(tasks))
    every = len(wait_for.evidence.inputs.get(tasks[0], []))
    lines = (tasks[0], f"has {every - len(waits)} of {every} barriers") if waits else (tasks[0],)
    return Node(name, lines, "waits" if waits else "")


def _unsent(wait_for: WaitFor, box_of: dict[str, str]) -> Iterator[Edge]:
    """Yield the edges from waiting tasks to the tasks that have not sent their barriers."""
    between: dict[tuple[str, str], list[Barrier]] = defaultdict(list)
    for wait in wait_for.waits:
        if wait.place == NOT_SENT:
            between[box_of[wait.target], box_of[wait.source]].append(wait)
    for (waiter, source), waits in between.items():
        what = "waits for barrier" if len(waits) == 1 else f"wait for {len(waits):,} barriers"
        yield Edge(waiter, source, (f"{what} {wait_for.checkpoint_id}", "not sent"), "waits")


def _held(wait_for: WaitFor, box_of: dict[str, str]) -> Iterator[Edge]:
    """Yield the edges from blocked senders to the tasks that block their channels."""
    between: dict[tuple[str, str], list[Held]] = defaultdict(list)
    for each in wait_for.held:
        if each.target in box_of:
            between[box_of[each.source], box_of[each.target]].append(each)
    for (source, target), some in between.items():
        items = [item for each in some for item in each.items]
        held = wrap(f"{wait_for.contents(items)} held back", LINE) if items else []
        many = "channel blocked" if len(some) == 1 else f"{len(some):,} channels blocked"
        yield Edge(source, target, (many, *held), "dashed", back=True)


def _ends(wait_for: WaitFor, box_of: dict[str, str]) -> list[tuple[str, str, str, list[Barrier]]]:
    """Return box, title, words and, for barriers that have been sent, the waits; equal ends of a box are merged."""
    found: dict[tuple[str, str], tuple[dict[End, None], list[Barrier]]] = {}
    for wait in wait_for.waits:
        end = wait_for.end_of(wait)
        if end is not None:
            sent = wait.place != NOT_SENT
            ends, waits = found.setdefault((box_of[wait.target if sent else wait.source], end.title), ({}, []))
            ends[end] = None
            waits += [wait] * sent
    return [(box, title, merged(ends)[0], waits) for (box, title), (ends, waits) in found.items()]


def _label(wait_for: WaitFor, waits: list[Barrier]) -> tuple[str, ...]:
    before = [item for wait in waits for item in wait.before]
    behind = wrap(f"behind {wait_for.contents(before)}", LINE) if before else []
    if len(waits) == 1:
        return f"waits for barrier {wait_for.checkpoint_id} of {waits[0].source}", waits[0].place, *behind
    what = f"wait for {len(waits):,} barriers {wait_for.checkpoint_id}"
    places = Counter(wait.place for wait in waits)
    return what, *(f"{many:,} {place}" for place, many in places.items()), *behind
