"""The layout of a row of a space: the part of a job's world that each column holds.

First come the machines. Then there are for each of them the messages on the way to it, the reports on the way from it,
its work, its timers and its disk; the channels are in between. The last columns count the requested checkpoints and the
faults.
"""

from __future__ import annotations

from collections.abc import Iterator

from kit.core.protocol.tasks import split_task_name
from kit.hosts.lab.world.world import JOB
from kit.machines.channel.channel_state.slot_channel_state import slot_name
from kit.stream.graph.execution_graph import ExecutionGraph
from kit.stream.graph.job_graph import JobGraph


class Layout:
    """The columns of a job's rows.

    `mail_to`, `mail_from`, `work`, `timer` and `disk` are the first of a column for each machine, `wires` that of a
    column for each channel.
    """

    def __init__(self, job: JobGraph) -> None:
        self.job = job
        self.graph = ExecutionGraph(job)
        self.has_slots = job.settings.checkpoint.unaligned
        """True if the slots have machines, which write in-flight data."""
        tasks = [task.task for task in self.graph.tasks]
        self.slots = sorted(self.graph.slots.of_all(tasks))
        slots = self.slots if self.has_slots else []
        self.machine_names = [JOB, *tasks, *(slot_name(slot) for slot in slots)]
        self.number_of = {name: number for number, name in enumerate(self.machine_names)}
        self.tasks = range(1, 1 + len(tasks))
        self.slot_of = {self.number_of[task]: self.graph.slots.of(task) for task in tasks}
        self.slot_of |= {self.number_of[slot_name(slot)]: slot for slot in slots}
        self.inputs: dict[int, list[tuple[int, int]]] = {task: [] for task in self.tasks}
        """For each task its input channels in order, with their senders."""
        for number, channel in enumerate(self.graph.channels):
            self.inputs[self.number_of[channel.target_task]].append((number, self.number_of[channel.source_task]))
        self.channels_of = self._channels_by_task()
        self._find_regions()
        self._lay_out()

    def _channels_by_task(self) -> dict[int, list[int]]:
        channels: dict[int, list[int]] = {task: [] for task in self.tasks}
        for number, channel in enumerate(self.graph.channels):
            for end in (channel.source_task, channel.target_task):
                channels[self.number_of[end]].append(number)
        return channels

    def _find_regions(self) -> None:
        self.fails_in_regions = self.graph.restarts_regions
        """True if a failure may restart some tasks while others run."""
        vertices: dict[str, set[int]] = {}
        for region in self.graph.regions:
            for task in region.tasks:
                vertices.setdefault(split_task_name(task)[0], set()).add(region.number)
        shared = {vertex for vertex, numbers in vertices.items() if len(numbers) > 1 and self.fails_in_regions}
        sources = (task for task in self.tasks if not self.inputs[task])
        self.sharing_coordinators = frozenset(
            task for task in sources if split_task_name(self.machine_names[task])[0] in shared
        )
        """The sources whose operator coordinator has subtasks in other regions too."""

    def _lay_out(self) -> None:
        machines = self.machine_names
        columns: list[str] = [*machines]

        def add(names: Iterator[str]) -> int:
            first = len(columns)
            columns.extend(names)
            return first

        self.mail_to = add(f"to {name}" for name in machines)
        self.mail_from = add(f"from {name}" for name in machines)
        self.wires = add(f"channel {number}" for number in range(self.graph.channel_count))
        self.work = add(f"work of {name}" for name in machines)
        self.timer = add(f"timers of {name}" for name in machines)
        self.disk = add(f"disk of {name}" for name in machines)
        self.asked, self.failed = (add(iter([name])) for name in ("asked", "failed"))
        self.columns = tuple(columns)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.job.name}: {len(self.columns)} columns)"
