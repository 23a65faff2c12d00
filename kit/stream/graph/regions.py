"""The pipelined regions of a job: the tasks that are connected by exchanges, and so restart together.

A task that fails loses rows that its neighbours have sent or received. So they must go back to the checkpoint as
well, and their neighbours, and so on. Tasks that no exchange connects to it are not affected:

    orders/0 -> totals/0        region 1: a keyed exchange connects all of its subtasks
             X
    orders/1 -> totals/1

    clicks/0 -> copy/0          region 2
    clicks/1 -> copy/1          region 3: a forward exchange connects each subtask to one other

Operator coordinators do not connect regions: the readers of one source may be in several regions.

Follows Flink's `SchedulingPipelinedRegion`, which `SchedulingPipelinedRegionComputeUtil` computes. All exchanges are
pipelined here, so a region has no exchange with another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kit.core.protocol.tasks import split_task_name, task_name
from kit.stream.graph.execution_graph import ExecutionGraph, Wiring
from kit.stream.graph.job_graph import JobGraph
from kit.stream.settings.job_settings import FailoverStrategy

MOST_NAMED = 4
"""The most tasks of a region that are named."""


@dataclass(frozen=True, slots=True)
class Region:
    """The tasks that restart together, in the order of the graph. Regions are numbered from 1."""

    number: int
    tasks: tuple[str, ...]

    @property
    def slots(self) -> frozenset[int]:
        """The slots of its tasks: subtask i of each vertex runs in slot i."""
        return frozenset(split_task_name(task)[1] for task in self.tasks)

    def __str__(self) -> str:
        first = ", ".join(self.tasks[:MOST_NAMED])
        more = len(self.tasks) - MOST_NAMED
        return f"region {self.number} ({first}{f' and {more} more' if more > 0 else ''})"


class Regions:
    """The regions of an execution graph, in the order of their first tasks."""

    def __init__(self, graph: ExecutionGraph) -> None:
        joined = _joined(graph)
        members: dict[str, list[str]] = {}
        for vertex in graph.job_graph.vertices:
            for subtask in range(graph.parallelism[vertex.name]):
                task = task_name(vertex.name, subtask)
                members.setdefault(joined.root(task), []).append(task)
        self._regions = tuple(Region(number, tuple(tasks)) for number, tasks in enumerate(members.values(), 1))
        self._of = {task: region for region in self._regions for task in region.tasks}

    def __len__(self) -> int:
        return len(self._regions)

    def __iter__(self) -> Iterator[Region]:
        return iter(self._regions)

    def of(self, task: str) -> Region:
        """Return the region of a task. Raises KeyError for an unknown one."""
        return self._of[task]

    def with_slot(self, slot: int) -> list[Region]:
        """Return the regions that have a task in this slot."""
        return [region for region in self._regions if slot in region.slots]

    def __repr__(self) -> str:
        return f"Regions({', '.join(f'{len(region.tasks)} tasks' for region in self._regions)})"


def as_a_whole(job: JobGraph) -> JobGraph:
    """Return the job for a host that cannot restart a part of it: every failure restarts all tasks."""
    return replace(job, settings=replace(job.settings, failover=FailoverStrategy.FULL))


class _Joined:
    """Tasks in disjoint sets, each named after its root."""

    def __init__(self) -> None:
        self._above: dict[str, str] = {}

    def root(self, task: str) -> str:
        above = self._above
        while (parent := above.get(task, task)) != task:
            above[task] = above.get(parent, parent)
            task = above[task]
        return task

    def join(self, task: str, other: str) -> None:
        self._above[self.root(task)] = self.root(other)


def _joined(graph: ExecutionGraph) -> _Joined:
    """Join the two ends of every channel; an exchange of all with all takes time proportional to the subtasks."""
    joined = _Joined()
    for edge in graph.job_graph.edges:
        wiring = Wiring(edge, 0, graph.parallelism[edge.source], graph.parallelism[edge.target])
        for sender in range(wiring.senders):
            receivers = wiring.receivers_of(sender) if edge.is_pointwise or sender == 0 else range(1)
            for receiver in receivers:
                joined.join(task_name(edge.source, sender), task_name(edge.target, receiver))
    return joined
