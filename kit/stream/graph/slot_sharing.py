"""The slot in which each task runs.

    slot sharing   slot of a task
    JOB            the index of its subtask: all vertices share the slots, as in Flink unless a job says otherwise
    REGION         each pipelined region has slots of its own, so a slot that is lost affects one region only

        JOB                                  REGION
        slot 0   orders/0 totals/0 copy/0    slot 0   orders/0 totals/0      slot 2   copy/0
        slot 1   orders/1 totals/1 copy/1    slot 1   orders/1 totals/1      slot 3   copy/1

Within a region, subtasks with the same index share a slot. For a job of one region both are the same.

Follows Flink's `SlotSharingGroup`. Flink gives each region a group of its own if
`StreamGraph.setAllVerticesInSameSlotSharingGroupByDefault` is off; it then needs as many slots as here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property

from kit.core.protocol.tasks import split_task_name, task_name
from kit.stream.graph.job_graph import JobGraph
from kit.stream.graph.regions import Regions
from kit.stream.settings.setting_rules import FailoverStrategy, SlotSharing


def in_gangs(job: JobGraph) -> JobGraph:
    """Return the job for a host that starts the slots of a region together, and loses them together.

    A job that always restarts as a whole keeps its slots: it needs fewer if all tasks share them.
    """
    sharing = SlotSharing.REGION if job.settings.restarts_regions else SlotSharing.JOB
    return replace(job, settings=replace(job.settings, slot_sharing=sharing))


def as_a_whole(job: JobGraph) -> JobGraph:
    """Return the job for a host that has too few slots for that: all tasks share slots, and restart together."""
    settings = replace(job.settings, failover=FailoverStrategy.FULL, slot_sharing=SlotSharing.JOB)
    return replace(job, settings=settings)


class TaskSlots:
    """The slots of a job with this parallelism per vertex, numbered from 0."""

    def __init__(self, job: JobGraph, parallelism: Mapping[str, int]) -> None:
        self._job = job
        self._parallelism = parallelism
        self._by_region = job.settings.slot_sharing is SlotSharing.REGION

    def __len__(self) -> int:
        return len(self._tasks_in) if self._by_region else max(self._parallelism.values())

    def of(self, task: str) -> int:
        """Return the slot of a task."""
        return self._slot_of[task] if self._by_region else split_task_name(task)[1]

    def of_all(self, tasks: Iterable[str]) -> frozenset[int]:
        """Return the slots in which at least one of the tasks runs."""
        return frozenset(map(self.of, tasks))

    def tasks_in(self, slot: int) -> tuple[str, ...]:
        """Return the tasks in a slot, in the order of the graph; none for a slot that the job does not have."""
        if self._by_region:
            return self._tasks_in.get(slot, ())
        names = (vertex.name for vertex in self._job.vertices)
        return tuple(task_name(name, slot) for name in names if slot < self._parallelism[name])

    def subtask_of(self, slot: int) -> int:
        """Return the index that all subtasks in a slot have."""
        return split_task_name(self._tasks_in[slot][0])[1] if self._by_region else slot

    def gangs(self) -> list[tuple[int, ...]]:
        """Return the slots in groups that no exchange connects, so that each can be started and lost by itself."""
        if not self._by_region:
            return [tuple(range(len(self)))]
        return [tuple(sorted(self.of_all(region.tasks))) for region in self.regions]

    @cached_property
    def regions(self) -> Regions:
        """The regions of the job."""
        return Regions(self._job, self._parallelism)

    @cached_property
    def _slot_of(self) -> dict[str, int]:
        slots: dict[tuple[int, int], int] = {}
        return {
            task: slots.setdefault((region.number, split_task_name(task)[1]), len(slots))
            for region in self.regions
            for task in sorted(region.tasks, key=lambda task: split_task_name(task)[1])
        }

    @cached_property
    def _tasks_in(self) -> dict[int, tuple[str, ...]]:
        found: dict[int, list[str]] = {}
        for vertex in self._job.vertices:
            for subtask in range(self._parallelism[vertex.name]):
                task = task_name(vertex.name, subtask)
                found.setdefault(self._slot_of[task], []).append(task)
        return {slot: tuple(tasks) for slot, tasks in found.items()}

    def __repr__(self) -> str:
        return f"TaskSlots({len(self)}, {len(self.gangs())} gangs)"
