"""The barriers of a checkpoint in the direction of the data: when each was sent, and when the receiver took it.

A box is a subtask, and lists the barriers that it takes; an arrow is a channel. In a job of many subtasks, a box is a
vertex that names the subtasks which are late, and an arrow is all channels between two vertices.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kit.core.protocol.tasks import task_name, vertex_of
from kit.core.trace.shape import ShapeVertex
from kit.draw.graphs import Edge, Graph, Node
from kit.run.checkpoint_words import enumerated
from kit.run.sizes import counted
from kit.run.stage import Stage

MOST_TASKS = 12
"""With more subtasks than this, a box is a vertex."""
MOST_LATE = 3
"""The most late subtasks that the box of a vertex names."""
ROOMY: Any = {"rank_gap": 60.0, "from_sides": True}
"""Arrows leave and enter at the sides, with room between the columns."""


@dataclass(frozen=True, slots=True)
class Passage:
    """One barrier in one channel. Times are in ms, and None for what has not happened."""

    source: str
    target: str
    queued_ms: int | None
    taken_ms: int | None
    overtaken: int
    place: str


def propagation_graph(stage: Stage, passages: Sequence[Passage], copied: Mapping[str, int], caption: str) -> Graph:
    """Return the graph; `copied` has the time at which each task copied its state, in ms."""
    to_task: dict[str, list[Passage]] = defaultdict(list)
    for each in passages:
        to_task[each.target].append(each)
    if len(stage.tasks()) <= MOST_TASKS:
        nodes = tuple(_task(task, to_task[task], copied.get(task)) for task in stage.tasks())
        return Graph("barriers", caption, nodes, tuple(map(_channel, passages)), rows=_rows(stage), **ROOMY)
    nodes = tuple(_vertex(vertex.name, _tasks(vertex), to_task, copied) for vertex in stage.vertices)
    between: dict[tuple[str, str], list[Passage]] = defaultdict(list)
    for each in passages:
        between[vertex_of(each.source), vertex_of(each.target)].append(each)
    return Graph("barriers", caption, nodes, tuple(_channels(*pair, some) for pair, some in between.items()), **ROOMY)


def _rows(stage: Stage) -> tuple[tuple[str, ...], ...]:
    """The subtasks of each vertex stand below each other, in order."""
    return tuple(_tasks(vertex) for vertex in stage.vertices if vertex.parallelism > 1)


def _tasks(vertex: ShapeVertex) -> tuple[str, ...]:
    return tuple(task_name(vertex.name, subtask) for subtask in range(vertex.parallelism))


def _task(task: str, inputs: Sequence[Passage], copied_ms: int | None) -> Node:
    taken = sum(each.taken_ms is not None for each in inputs)
    lines = [task]
    if inputs:
        lines.append(f"has {taken} of {len(inputs)} barriers")
        lines += [f"{each.source}: {_passage_words(each)}" for each in inputs]
    lines.append("no copy yet" if copied_ms is None else f"copied at {copied_ms:,} ms")
    meaning = _meaning(taken, len(inputs), is_begun=copied_ms is not None)
    return Node(task, tuple(lines), meaning)


def _meaning(done: int, of: int, *, is_begun: bool) -> str:
    """Return the meaning of a box: all of its barriers have been taken, some, or none."""
    if done == of and is_begun:
        return "good"
    return "waits" if done or is_begun else ""


def _passage_words(each: Passage) -> str:
    """Say when a barrier was sent and taken, or where it is, and what it overtook."""
    if each.taken_ms is not None:
        words = f"{each.queued_ms:,} → {each.taken_ms:,} ms" if each.queued_ms is not None else "taken"
    else:
        words = each.place if each.queued_ms is None else f"{each.queued_ms:,} ms → {each.place}"
    return f"{words}, overtook {counted(each.overtaken, 'buffer')}" if each.overtaken else words


def _channel(each: Passage) -> Edge:
    meaning = "good" if each.taken_ms is not None else "dashed" if each.queued_ms is None else "waits"
    return Edge(each.source, each.target, meaning=meaning, tip=f"{each.source} → {each.target}: {_passage_words(each)}")


def _vertex(
    name: str, tasks: Sequence[str], to_task: Mapping[str, Sequence[Passage]], copied: Mapping[str, int]
) -> Node:
    times = [copied[task] for task in tasks if task in copied]
    lines = [name, f"{len(times)} of {len(tasks)} subtasks copied", *([_between(times)] if times else [])]
    inputs = [each for task in tasks for each in to_task[task]]
    if inputs:
        lines.insert(1, f"{sum(each.taken_ms is not None for each in inputs):,} of {len(inputs):,} barriers taken")
    late = [task for task in tasks if task not in copied]
    if times and late:
        lines += [_awaited(task, to_task[task]) for task in late[:MOST_LATE]]
        lines += [f"and {len(late) - MOST_LATE} more"] if len(late) > MOST_LATE else []
    meaning = _meaning(len(times), len(tasks), is_begun=bool(times))
    return Node(name, tuple(lines), meaning)


def _awaited(task: str, inputs: Sequence[Passage]) -> str:
    """Say which barriers a late subtask waits for; a source waits for the JobMaster."""
    if not inputs:
        return f"{task} waits for its trigger"
    senders = [each.source for each in inputs if each.taken_ms is None]
    return f"{task} waits for {enumerated(senders, most=2)}" if senders else f"{task} has all barriers"


def _channels(source: str, target: str, between: Sequence[Passage]) -> Edge:
    places = Counter(each.place for each in between)
    taken = [each.taken_ms for each in between if each.taken_ms is not None]
    lines = [f"{count:,} {place}" for place, count in places.most_common()]
    lines += [_between(taken)] if taken else []
    overtaken = sum(each.overtaken for each in between)
    lines += [f"overtook {overtaken:,} buffers"] if overtaken else []
    is_sent = any(each.queued_ms is not None for each in between)
    meaning = "good" if len(taken) == len(between) else "waits" if is_sent else "dashed"
    return Edge(source, target, tuple(lines), meaning)


def _between(times: Sequence[int]) -> str:
    first, last = min(times), max(times)
    return f"at {first:,} ms" if first == last else f"from {first:,} to {last:,} ms"
