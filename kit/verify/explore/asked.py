"""The commands of a machine, as changes to the columns of a row and as events for other machines."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import Any

from kit.core.protocol.attempts import Attempts
from kit.core.protocol.commands import (
    CancelTimer,
    CompleteRequest,
    GrantCredit,
    ReadSplit,
    ScheduleTimer,
    SendElement,
    StartEpoch,
    StartTasks,
    WriteRows,
)
from kit.core.protocol.duties import Duty
from kit.core.protocol.events import CreditReceived, ElementReceived, SubtasksRedeployed
from kit.core.protocol.messages import JobMessage, OutputDataDecided, SlotMessage, SubmitChannelState, TaskMessage
from kit.core.protocol.words import Machine
from kit.hosts.lab.errors import LabError
from kit.machines.channel.channel_state.slot_channel_state import SlotChannelState, slot_name
from kit.machines.job.job_master import JobMaster
from kit.machines.task.stream_task import StreamTask
from kit.stream.graph.execution_graph import ExecutionGraph
from kit.verify.explore.digest import Digester
from kit.verify.explore.files import Disks
from kit.verify.explore.layout import Layout
from kit.verify.explore.machines import DueTimer, MachineStates, Outcome
from kit.verify.explore.queues import Bags, Queues, Timers
from kit.verify.explore.tables import Ids
from kit.verify.explore.words import Words

_WORK = (Duty.WORK, Duty.CLEAN_UP, Duty.STOP_EPOCH, Duty.STOP_TASKS, Duty.STOP_WORK)
"""The duties that take time."""


def parallelism_key(parallelism: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Return a parallelism of the vertices as a key."""
    return tuple(sorted(parallelism.items()))


class Shared:
    """Immutable objects that all states of a job share: the job, its graphs, and their parts."""

    def __init__(self, layout: Layout) -> None:
        self.names: dict[int, str] = {}
        """The names of the objects, by address."""
        self.graphs: dict[tuple[tuple[str, int], ...], ExecutionGraph] = {}
        """The graphs by parallelism: those of the same parallelism are equal."""
        self.objects: dict[int, Any] = {}
        """The objects by address, as the initial memo of a copy: they are their own copies."""
        job = layout.job
        self._share(job, "job")
        self._share(job.settings, "settings")
        for number, vertex in enumerate(job.vertices):
            self._share(vertex, f"vertex {number}")
            for place, each in enumerate((*vertex.operators, *vertex.inputs)):
                self._share(each, f"vertex {number}, {place}")
        self.share_graph(layout.graph)

    def _share(self, value: object, name: str) -> None:
        self.objects[id(value)] = value
        self.names[id(value)] = name

    def share_graph(self, graph: ExecutionGraph) -> None:
        """Share a graph from now on."""
        if id(graph) not in self.objects:
            key = parallelism_key(graph.parallelism)
            self.graphs.setdefault(key, graph)
            self._share(graph, f"graph {key}")
            for task in graph.tasks:
                self._share(task, f"{task.task} of {key}")


class Asked:
    """A translator of commands; `translate` is what `kit.verify.explore.machines.States` needs."""

    def __init__(self, layout: Layout, shared: Shared, digester: Digester, words: Words) -> None:
        self._layout, self._shared, self._words = layout, shared, words
        self.queues, self.bags = Queues(), Bags(words)
        self.timers = Timers(words, lambda name, due: words.number(DueTimer(timer=name, due_ms=due)))
        self.disks = Disks(layout.job, words, digester)
        self.machines: list[MachineStates] = []
        """To be filled before anything is translated: machines of a new epoch get their numbers there."""
        self._begun: dict[Hashable, dict[int, int]] = {}
        """The machines that were created, by the parallelism and the attempts."""

    def translate(self, machine: Machine, commands: list[Any]) -> Outcome:
        """Return the commands of one step as changes to columns, and as events that are delivered at once."""
        if isinstance(machine, JobMaster):
            self._shared.share_graph(machine.graph)
        layout, words = self._layout, self._words
        me = layout.number_of[machine.name]
        changes: dict[int, list[Any]] = {}
        handed: list[tuple[int, int]] = []
        outcome = Outcome(0)

        def change(column: int, what: Any) -> None:
            changes.setdefault(column, []).append(what)

        for command in commands:
            duty = command.duty
            if duty in (Duty.OBSERVE, Duty.SHOW_STATUS) or isinstance(command, CompleteRequest):
                continue
            if isinstance(command, TaskMessage):
                change(layout.mail_to + layout.number_of[command.task], words.number(command))
            elif isinstance(command, JobMessage):
                change(layout.mail_from + me, words.number(command))
            elif isinstance(command, SendElement):
                received = ElementReceived(channel=command.channel, element=command.element)
                change(layout.wires + command.channel, words.number(received))
            elif isinstance(command, GrantCredit):
                sender = layout.number_of[layout.graph.channels[command.channel].source_task]
                credit = CreditReceived(channel=command.channel, credits=command.credits, max_rows=command.max_rows)
                handed.append((sender, words.number(credit)))
            elif isinstance(command, SlotMessage):
                handed.append((self._receiver(command), words.number(command)))
            elif isinstance(command, ScheduleTimer):
                change(layout.timer + me, (command.timer, command.due_ms))
            elif isinstance(command, CancelTimer):
                change(layout.timer + me, (command.timer, None))
            elif isinstance(command, ReadSplit):
                answer = self.disks.read(command)
                if answer is not None:
                    handed.append((me, words.number(answer)))
            elif isinstance(command, WriteRows):
                raise LabError(
                    f"{command.path} is written between two barriers, which cannot be explored: use a CollectSink, or "
                    "have the sink hold all rows, with larger limits in its RollingPolicy"
                )
            elif isinstance(command, StartEpoch):
                outcome.changes |= self._begin(command)
            elif isinstance(command, StartTasks):
                outcome.changes |= self._begin_again(machine, command)
                handed += self._redeployed(command)
            elif duty in _WORK:
                change(layout.work + me, (words.number(command), duty is not Duty.STOP_WORK))
            else:
                raise AssertionError(f"no rule translates {command!r}")
        for column, items in changes.items():
            outcome.changes[column] = self._contents(column).changes.number(tuple(items))
        outcome.handed = tuple(handed)
        return outcome

    def _receiver(self, message: SlotMessage) -> int:
        task = self._layout.number_of[message.task]
        if isinstance(message, SubmitChannelState | OutputDataDecided):
            return self._layout.number_of[slot_name(self._layout.slot_of[task])]
        return task

    def _begin(self, command: StartEpoch) -> dict[int, int]:
        """Create the tasks and slots of a new epoch."""
        layout = self._layout
        graph = self._shared.graphs[parallelism_key(command.parallelism)]
        attempts = Attempts(command.epoch, command.attempts)
        names = [task.task for task in graph.tasks]
        names += [slot_name(slot) for slot in layout.slots if layout.has_slots]
        return self._create(graph, {name: attempts.of(name) for name in names})

    def _begin_again(self, machine: Machine, command: StartTasks) -> dict[int, int]:
        """Create the tasks of a region again, and the slots that were lost with some of them."""
        assert isinstance(machine, JobMaster)
        return self._create(self._shared.graphs[parallelism_key(machine.graph.parallelism)], command.attempts)

    def _redeployed(self, command: StartTasks) -> list[tuple[int, int]]:
        """Return the notifications of the slots that were not lost: each gets new tasks."""
        layout, tasks = self._layout, self._by_slot(command.attempts)
        return [
            (layout.number_of[slot_name(slot)], self._words.number(SubtasksRedeployed(tasks=own)))
            for slot, own in tasks.items()
            if layout.has_slots and slot_name(slot) not in command.attempts
        ]

    def _by_slot(self, names: Collection[str]) -> dict[int, tuple[str, ...]]:
        """Return the tasks among these machines by their slot, in the order of the graph."""
        layout, found = self._layout, dict[int, tuple[str, ...]]()
        for task in layout.tasks:
            name = layout.machine_names[task]
            if name in names:
                slot = layout.slot_of[task]
                found[slot] = (*found.get(slot, ()), name)
        return dict(sorted(found.items()))

    def _create(self, graph: ExecutionGraph, attempts: Mapping[str, int]) -> dict[int, int]:
        """Return the states of new machines, by machine; `attempts` are theirs, by name."""
        key = (parallelism_key(graph.parallelism), tuple(sorted(attempts.items())))
        known = self._begun.get(key)
        if known is None:
            layout, tasks = self._layout, self._by_slot(attempts)
            made: list[Machine] = [StreamTask(graph, name, attempts[name]) for own in tasks.values() for name in own]
            made += [
                SlotChannelState.of(graph, slot, attempts[slot_name(slot)], own)
                for slot, own in tasks.items()
                if layout.has_slots and slot_name(slot) in attempts
            ]
            places = [layout.number_of[each.name] for each in made]
            known = {place: self.machines[place].number(each) for place, each in zip(places, made, strict=True)}
            self._begun[key] = known
        return known

    # --- effects of changes -----------------------------------------------------------------------------------------

    def _contents(self, column: int) -> Queues | Bags:
        if self._layout.work <= column < self._layout.timer:
            return self.bags
        return self.timers if self._layout.timer <= column < self._layout.disk else self.queues

    def change(self, column: int, number: int) -> tuple[Any, ...]:
        """Return what a change, given by number, adds to a column that is a queue or a bag, in order."""
        found: tuple[Any, ...] = self._contents(column).changes[number]
        return found

    def after(self, column: int, numbers: Ids, changes: Ids) -> Ids:
        """Return a column after changes: queues, work and timers are extended, everything else is replaced."""
        if self._layout.mail_to <= column < self._layout.disk:
            return self._contents(column).after(numbers, changes)
        return changes
