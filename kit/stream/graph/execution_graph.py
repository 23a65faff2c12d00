"""The job as it runs: every subtask of every vertex, and every channel between two subtasks.

A *channel* joins one subpartition of a sending subtask's result partition with one input channel of a receiving
subtask's gate. Channels are numbered through the whole job: edge by edge, within an edge by sender and then by
receiver. So arithmetic turns a number into its channel, and a partition or gate into the range of its channels.
Building the graph costs one object per edge; tasks and channels are created on demand.

Follows Flink's `ExecutionGraph`, `ExecutionVertex`, `VertexInputInfoComputationUtils` (which subtasks are opposite each
other), and `DefaultVertexParallelismInfo` (what may be rescaled).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from kit.core.protocol.tasks import split_task_name, task_name
from kit.core.state.handles import KeyGroupRange
from kit.core.state.key_groups import UPPER_BOUND_MAX_PARALLELISM, key_group_range_for_operator_index
from kit.stream.graph.job_graph import JobEdge, JobGraph, JobVertex
from kit.stream.graph.partitioners import Partitioner, PartitionerKind, create_partitioner
from kit.stream.graph.regions import Regions
from kit.stream.graph.slot_sharing import TaskSlots
from kit.stream.graph.stream_graph import GraphError
from kit.stream.graph.wiring import Channel, Wiring


class ParallelismError(GraphError):
    """A vertex cannot run with the requested parallelism or maximum parallelism."""


@dataclass(frozen=True, slots=True)
class InputGate:
    """The input channels of one edge in one receiving subtask: `channels[i]` is the number of input channel i."""

    index: int
    edge: JobEdge
    channels: range


@dataclass(frozen=True, slots=True)
class ResultPartition:
    """The subpartitions of one edge in one sending subtask: `channels[i]` is the number of subpartition i's channel.

    `partitioner` is the edge's, except that FORWARD becomes REBALANCE if the ends were rescaled to different
    parallelisms. `max_parallelism` is the receiver's.
    """

    index: int
    edge: JobEdge
    channels: range
    subtask: int
    partitioner: PartitionerKind
    max_parallelism: int

    def create_partitioner(self) -> Partitioner:
        """Create the partitioner that splits batches among the subpartitions."""
        return create_partitioner(
            self.partitioner,
            subpartitions=len(self.channels),
            subtask=self.subtask,
            key_columns=self.edge.key_columns,
            max_parallelism=self.max_parallelism,
            function=self.edge.partition_function,
        )


@dataclass(frozen=True, slots=True)
class ExecutionVertex:
    """One subtask of a vertex, named `<vertex>/<subtask>`; it owns the keys of `key_group_range`."""

    task: str
    vertex: JobVertex
    subtask_index: int
    parallelism: int
    max_parallelism: int
    key_group_range: KeyGroupRange
    gates: tuple[InputGate, ...]
    partitions: tuple[ResultPartition, ...]

    def __repr__(self) -> str:
        return f"ExecutionVertex({self.task})"


class ExecutionGraph:
    """A job graph at a given parallelism per vertex.

    `parallelism` and `max_parallelism` override the job graph's values for vertices, by name: after rescaling, and when
    a restore adopts the maximum parallelism that a checkpoint recorded. Raises ParallelismError for a parallelism above
    the maximum, and for a maximum other than the one the user configured.

    Follows Flink's `ExecutionGraph`, which `ExecutionGraphBuilder` makes.
    """

    def __init__(
        self,
        job_graph: JobGraph,
        parallelism: Mapping[str, int] | None = None,
        max_parallelism: Mapping[str, int] | None = None,
    ) -> None:
        self.job_graph = job_graph
        if not isinstance(parallelism, Mapping | None):
            raise ParallelismError(
                f"parallelism is {parallelism!r}, but must be a mapping of vertices to numbers, such as {{'sums': 2}}"
            )
        for name in (*(parallelism or ()), *(max_parallelism or ())):
            job_graph.vertex(name)
        self.parallelism = {v.name: (parallelism or {}).get(v.name, v.parallelism) for v in job_graph.vertices}
        self.max_parallelism = {
            v.name: (max_parallelism or {}).get(v.name, v.max_parallelism) for v in job_graph.vertices
        }
        for vertex in job_graph.vertices:
            self._check(vertex)
        self._wirings: list[Wiring] = []
        self._firsts: list[int] = []
        self._wiring_of: dict[tuple[str, int], Wiring] = {}
        self.channel_count = 0
        for edge in job_graph.edges:
            wiring = Wiring(edge, self.channel_count, self.parallelism[edge.source], self.parallelism[edge.target])
            self._wirings.append(wiring)
            self._firsts.append(wiring.first)
            self._wiring_of[edge.target, edge.gate] = wiring
            self.channel_count += wiring.count
        self._tasks: dict[str, ExecutionVertex] = {}

    def with_parallelism(self, parallelism: Mapping[str, int]) -> ExecutionGraph:
        """Return the graph with these vertices rescaled."""
        return ExecutionGraph(self.job_graph, self.parallelism | dict(parallelism), self.max_parallelism)

    def with_max_parallelism(self, max_parallelism: Mapping[str, int]) -> ExecutionGraph:
        """Return the graph with the maximum parallelism that a checkpoint recorded for these vertices."""
        return ExecutionGraph(self.job_graph, self.parallelism, self.max_parallelism | dict(max_parallelism))

    # ---- tasks

    def task(self, name: str) -> ExecutionVertex:
        """Return the subtask with this name, such as `totals/1`. Raises KeyError for an unknown one."""
        if name not in self._tasks:
            vertex, subtask = split_task_name(name)
            if not 0 <= subtask < self.parallelism.get(vertex, 0):
                known = ", ".join(f"{v}/0..{p - 1}" for v, p in self.parallelism.items())
                raise KeyError(f"no task {name!r}; there are {known}")
            self._tasks[name] = self._create_task(self.job_graph.vertex(vertex), subtask)
        return self._tasks[name]

    def vertex_tasks(self, vertex: str) -> tuple[ExecutionVertex, ...]:
        """Return all subtasks of a vertex, in order."""
        self.job_graph.vertex(vertex)
        return tuple(self.task(task_name(vertex, i)) for i in range(self.parallelism[vertex]))

    @cached_property
    def tasks(self) -> tuple[ExecutionVertex, ...]:
        """All subtasks; those of a vertex come after those of the vertices that send to it."""
        return tuple(task for vertex in self.job_graph.vertices for task in self.vertex_tasks(vertex.name))

    @cached_property
    def slots(self) -> TaskSlots:
        """The slots in which the tasks run."""
        return TaskSlots(self.job_graph, self.parallelism)

    @property
    def regions(self) -> Regions:
        """The pipelined regions of the tasks."""
        return self.slots.regions

    @property
    def restarts_regions(self) -> bool:
        """True if a failure may restart some tasks while others run."""
        return self.job_graph.settings.restarts_regions and len(self.regions) > 1

    def tasks_in_slot(self, slot: int) -> tuple[ExecutionVertex, ...]:
        """Return the subtasks that run in a slot, in the order of `tasks`."""
        return tuple(map(self.task, self.slots.tasks_in(slot)))

    # ---- channels

    def opposite(self, task: str) -> Iterator[tuple[str, range]]:
        """Yield the subtasks that a task has channels to or from, edge by edge: a vertex and their indices."""
        name, subtask = split_task_name(task)
        for wiring in self._wirings:
            if wiring.edge.source == name:
                yield wiring.edge.target, wiring.receivers_of(subtask)
            if wiring.edge.target == name:
                yield wiring.edge.source, wiring.senders_of(subtask)

    def channel(self, number: int) -> Channel:
        """Return the channel with this number. Raises IndexError for an unknown one."""
        if not 0 <= number < self.channel_count:
            raise IndexError(f"no channel {number}: there are {self.channel_count}, counted from 0")
        return self._wirings[bisect_right(self._firsts, number) - 1].channel(number)

    @cached_property
    def channels(self) -> tuple[Channel, ...]:
        """All channels, in order of their numbers."""
        return tuple(map(self.channel, range(self.channel_count)))

    # ---- building

    def _create_task(self, vertex: JobVertex, subtask: int) -> ExecutionVertex:
        parallelism, max_parallelism = self.parallelism[vertex.name], self.max_parallelism[vertex.name]
        return ExecutionVertex(
            task=task_name(vertex.name, subtask),
            vertex=vertex,
            subtask_index=subtask,
            parallelism=parallelism,
            max_parallelism=max_parallelism,
            key_group_range=key_group_range_for_operator_index(max_parallelism, parallelism, subtask),
            gates=tuple(
                InputGate(edge.gate, edge, self._wiring_of[edge.target, edge.gate].of_receiver(subtask))
                for edge in vertex.inputs
            ),
            partitions=tuple(self._partition(edge, subtask) for edge in vertex.outputs),
        )

    def _partition(self, edge: JobEdge, subtask: int) -> ResultPartition:
        wiring = self._wiring_of[edge.target, edge.gate]
        rescaled = edge.partitioner is PartitionerKind.FORWARD and wiring.senders != wiring.receivers
        return ResultPartition(
            index=edge.partition,
            edge=edge,
            channels=wiring.of_sender(subtask),
            subtask=subtask,
            partitioner=PartitionerKind.REBALANCE if rescaled else edge.partitioner,
            max_parallelism=self.max_parallelism[edge.target],
        )

    def _check(self, vertex: JobVertex) -> None:
        name = vertex.name
        wanted, most = self.parallelism[name], self.max_parallelism[name]
        if vertex.max_parallelism_configured and most != vertex.max_parallelism:
            raise ParallelismError(
                f"vertex {name!r} has the configured max parallelism {vertex.max_parallelism} and cannot take {most}: "
                f"key groups do not move between checkpoints; set the max parallelism to {most} or leave it unset"
            )
        if not 1 <= most <= UPPER_BOUND_MAX_PARALLELISM:
            raise ParallelismError(
                f"vertex {name!r} cannot have max parallelism {most}: expected 1 to {UPPER_BOUND_MAX_PARALLELISM}"
            )
        if wanted < 1:
            raise ParallelismError(f"vertex {name!r} cannot run with parallelism {wanted}: expected 1 or more")
        if wanted > most:
            raise ParallelismError(
                f"vertex {name!r} cannot run with parallelism {wanted}, its max parallelism is {most}: there would be "
                f"subtasks without key groups; run it with at most {most}, or from scratch with a larger maximum"
            )

    def __repr__(self) -> str:
        tasks = ", ".join(f"{name} x{parallelism}" for name, parallelism in self.parallelism.items())
        return f"ExecutionGraph({tasks}; {self.channel_count} channels)"
