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

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kit.core.protocol.tasks import task_name
from kit.stream.graph.job_graph import JobGraph
from kit.stream.graph.wiring import Wiring

MOST_NAMED = 4
"""The most tasks of a region that are named."""


@dataclass(frozen=True, slots=True)
class Region:
    """The tasks that restart together, in the order of the graph. Regions are numbered from 1."""

    number: int
    tasks: tuple[str, ...]

    def __str__(self) -> str:
        first = ", ".join(self.tasks[:MOST_NAMED])
        more = len(self.tasks) - MOST_NAMED
        return f"region {self.number} ({first}{f' and {more} more' if more > 0 else ''})"


class Regions:
    """The regions of a job with this parallelism per vertex, in the order of their first tasks."""

    def __init__(self, job: JobGraph, parallelism: Mapping[str, int]) -> None:
        joined = _joined(job, parallelism)
        members: dict[str, list[str]] = {}
        for vertex in job.vertices:
            for subtask in range(parallelism[vertex.name]):
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

    def __repr__(self) -> str:
        return f"Regions({', '.join(f'{len(region.tasks)} tasks' for region in self._regions)})"


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


def _joined(job: JobGraph, parallelism: Mapping[str, int]) -> _Joined:
    """Join the two ends of every channel; an exchange of all with all takes time proportional to the subtasks."""
    joined = _Joined()
    for edge in job.edges:
        wiring = Wiring(edge, 0, parallelism[edge.source], parallelism[edge.target])
        for sender in range(wiring.senders):
            receivers = wiring.receivers_of(sender) if edge.is_pointwise or sender == 0 else range(1)
            for receiver in receivers:
                joined.join(task_name(edge.source, sender), task_name(edge.target, receiver))
    return joined
