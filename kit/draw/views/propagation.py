"""The barriers of a checkpoint in the direction of the data: when each was sent, and when the receiver took it.

A box is a subtask; in a job of many subtasks, it is a vertex. An arrow is a channel, or all channels between two
vertices.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kit.core.protocol.tasks import vertex_of
from kit.draw.graphs import Edge, Graph, Group, Node
from kit.run.sizes import counted
from kit.run.stage import Stage

MOST_TASKS = 12
"""With more subtasks than this, a box is a vertex."""


@dataclass(frozen=True, slots=True)
class Passage:
    """One barrier in one channel. Times are in ms, and None for what has not happened."""

    source: str
    target: str
    made_ms: int | None
    taken_ms: int | None
    overtaken: int
    place: str


def propagation_graph(stage: Stage, passages: Sequence[Passage], copied: Mapping[str, int], caption: str) -> Graph:
    """Return the graph; `copied` has the time at which each task copied its state, in ms."""
    if len(stage.tasks()) <= MOST_TASKS:
        groups, nodes = _groups(stage), tuple(_task(task, passages, copied.get(task)) for task in stage.tasks())
        edges = tuple(map(_channel, passages))
    else:
        groups, nodes = (), tuple(_vertex(stage, vertex.name, passages, copied) for vertex in stage.vertices)
        between: dict[tuple[str, str], list[Passage]] = defaultdict(list)
        for each in passages:
            between[vertex_of(each.source), vertex_of(each.target)].append(each)
        edges = tuple(_channels(*pair, some) for pair, some in between.items())
    return Graph("barriers", caption, nodes, edges, groups, rank_gap=60.0)


def _groups(stage: Stage) -> tuple[Group, ...]:
    return tuple(
        Group(vertex.name, vertex.name, tuple(f"{vertex.name}/{number}" for number in range(vertex.parallelism)))
        for vertex in stage.vertices
        if vertex.parallelism > 1
    )


def _task(task: str, passages: Iterable[Passage], copied_ms: int | None) -> Node:
    inputs = [each for each in passages if each.target == task]
    taken = sum(each.taken_ms is not None for each in inputs)
    lines = [task]
    if inputs:
        lines.append(f"has {taken} of {len(inputs)} barriers")
    lines.append("no copy yet" if copied_ms is None else f"copied at {copied_ms:,} ms")
    meaning = _meaning(taken, len(inputs), is_begun=copied_ms is not None)
    return Node(task, tuple(lines), meaning, picked=f"task:{task}")


def _meaning(done: int, of: int, *, is_begun: bool) -> str:
    """Return the meaning of a box: all of its barriers have been taken, some, or none."""
    if done == of and is_begun:
        return "good"
    return "waits" if done or is_begun else ""


def _channel(each: Passage) -> Edge:
    if each.taken_ms is not None:
        lines, meaning = [f"{each.made_ms:,} → {each.taken_ms:,} ms" if each.made_ms is not None else "taken"], "good"
    elif each.made_ms is not None:
        lines, meaning = [f"{each.made_ms:,} ms → {each.place}"], "waits"
    else:
        lines, meaning = [each.place], "dashed"
    if each.overtaken:
        lines.append(f"overtook {counted(each.overtaken, 'buffer')}")
    return Edge(each.source, each.target, tuple(lines), meaning)


def _vertex(stage: Stage, name: str, passages: Iterable[Passage], copied: Mapping[str, int]) -> Node:
    tasks = [task for task in stage.tasks() if vertex_of(task) == name]
    times = [copied[task] for task in tasks if task in copied]
    lines = [name, f"{len(times)} of {len(tasks)} subtasks copied", *([_between(times)] if times else [])]
    inputs = [each for each in passages if vertex_of(each.target) == name]
    if inputs:
        lines.insert(1, f"{sum(each.taken_ms is not None for each in inputs):,} of {len(inputs):,} barriers taken")
    meaning = _meaning(len(times), len(tasks), is_begun=bool(times))
    return Node(name, tuple(lines), meaning, picked=f"vertex:{name}")


def _channels(source: str, target: str, between: Sequence[Passage]) -> Edge:
    places = Counter(each.place for each in between)
    taken = [each.taken_ms for each in between if each.taken_ms is not None]
    lines = [f"{count:,} {place}" for place, count in places.most_common()]
    lines += [_between(taken)] if taken else []
    overtaken = sum(each.overtaken for each in between)
    lines += [f"overtook {overtaken:,} buffers"] if overtaken else []
    is_sent = any(each.made_ms is not None for each in between)
    meaning = "good" if len(taken) == len(between) else "waits" if is_sent else "dashed"
    return Edge(source, target, tuple(lines), meaning)


def _between(times: Sequence[int]) -> str:
    first, last = min(times), max(times)
    return f"at {first:,} ms" if first == last else f"from {first:,} to {last:,} ms"
