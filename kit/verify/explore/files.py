"""The files that machines have written, by number, with each piece of file work carried out once.

Every machine's files are a value of their own, its *disk*. What one task writes does not depend on what others have
written, so there are few disks although the combinations are many. The lab's code does the work, on a copy of the disk.
A restored task may read the disks of others; what the JobMaster discards is deleted from all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kit.core.protocol.commands import DiscardState, ReadSplit, ReadState, RemoveOrphans
from kit.core.protocol.duties import Command
from kit.core.protocol.events import SnapshotWritten
from kit.core.protocol.words import ProtocolMessage
from kit.files.master_hooks import MasterHooks
from kit.files.memory_output import MemoryOutput
from kit.files.stores.stores import MemoryStore
from kit.filesystems.memory import MemoryFiles
from kit.hosts.lab.world.edge import LabEdge
from kit.stream.graph.job_graph import JobGraph
from kit.verify.explore.digest import Digester
from kit.verify.explore.handles import Handles, handles_by_path, unveiled, veiled
from kit.verify.explore.tables import Column, Function, Ids, Interned
from kit.verify.explore.words import Words

EVERYWHERE = (DiscardState, RemoveOrphans)
"""Commands of the JobMaster that concern all disks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Everywhere(ProtocolMessage):
    """A command of the JobMaster for the disks of others, with the checkpoint ids that its store has allocated."""

    command: Command
    first_id: int
    next_id: int


class Disks:
    """The disks of one exploration; number 0 is an empty one."""

    def __init__(self, job: JobGraph, words: Words, digester: Digester) -> None:
        self._words = words
        self._digester = digester
        self._numbers: Interned[bytes] = Interned()
        self.edges: list[LabEdge] = []
        self._handles: list[Handles] = []
        """For each disk: what is behind the veiled handles, by path."""
        self._results: Interned[tuple[int, int]] = Interned()
        self._disk_after, self._answer = Column(), Column()
        self._for_job = Function(lambda disk, command: self._work_out(disk, command, for_job=True))
        self._for_tasks = Function(lambda disk, command: self._work_out(disk, command, for_job=False))
        self.for_others = Function(self._with_ids)
        """The commands as the disks of others carry them out, from the JobMaster's disk and command."""
        self._together = Function(self._put_together)
        self._number(LabEdge(job, MasterHooks(()), MemoryFiles(), MemoryOutput()), {})

    def carry_out(self, disks: Ids, commands: Ids, *, for_job: bool) -> tuple[Ids, Ids]:
        """Return the disks after commands, and the answers, 0 without an answer."""
        results = (self._for_job if for_job else self._for_tasks).of(disks, commands)
        return self._disk_after.of(results), self._answer.of(results)

    def together(self, disks: Sequence[Ids]) -> Ids:
        """Return all of these as one disk, for reading."""
        all_of_them, *others = disks
        for other in others:
            all_of_them = self._together.of(all_of_them, other)
        return all_of_them

    def _with_ids(self, disk: int, number: int) -> int:
        ids = self.edges[disk].store.ids()
        return self._words.number(Everywhere(command=self._words[number], first_id=ids.start, next_id=ids.stop))

    def read(self, command: ReadSplit) -> ProtocolMessage | None:
        """Return the next rows of a source, which depend on no disk."""
        return self.edges[0].for_tasks.carry_out(command)

    def reads(self, command: int) -> bool:
        """Return True if the command reads a task's state, which may be on several disks."""
        return isinstance(self._words[command], ReadState)

    def is_for_all(self, command: int) -> bool:
        """Return True if the command concerns all disks."""
        return isinstance(self._words[command], EVERYWHERE)

    def _work_out(self, disk: int, number: int, *, for_job: bool) -> int:
        command: Any = self._words[number]
        edge = self.edges[disk].__deepcopy__({})
        if isinstance(command, Everywhere):
            store, edge.store = edge.store, MemoryStore(command.next_id, command.first_id)
            other = LabEdge(edge._job, edge.hooks, edge.files, edge.output, edge.store)
            other.for_job.carry_out(command.command)
            edge.store = store
            return self._result(self._number(edge, self._handles[disk]), 0)
        handles = self._handles[disk]
        if isinstance(command, ReadState):
            restored = replace(command.restore, state=unveiled(command.restore.state, handles))
            command = replace(command, restore=restored)
        answer = (edge.for_job if for_job else edge.for_tasks).carry_out(command)
        if isinstance(answer, SnapshotWritten):
            handles = {**handles, **handles_by_path(answer.state)}
            answer = replace(answer, state=veiled(answer.state), bytes_written=0)
        return self._result(self._number(edge, handles), 0 if answer is None else self._words.number(answer))

    def _result(self, disk: int, answer: int) -> int:
        number = self._results.number((disk, answer))
        if number == len(self._answer):
            self._disk_after.append(disk)
            self._answer.append(answer)
        return number

    def _number(self, edge: LabEdge, handles: Handles) -> int:
        number = self._numbers.number(self._digester.digest(list(_contents(edge))))
        if number == len(self.edges):
            self.edges.append(edge)
            self._handles.append(handles)
        return number

    def _put_together(self, first: int, second: int) -> int:
        one, other = self.edges[first], self.edges[second]
        files = MemoryFiles({**one.files.contents, **other.files.contents}, {*one.files.directories})
        output = MemoryOutput()
        output.staged = {**one.output.staged, **other.output.staged}
        output.published = {**one.output.published, **other.output.published}
        store = next((each.store for each in (one, other) if each.store.ids()), one.store)
        assert isinstance(store, MemoryStore)
        edge = LabEdge(one._job, one.hooks, files, output, store)
        return self._number(edge, {**self._handles[first], **self._handles[second]})


def _contents(edge: LabEdge) -> Iterator[Any]:
    """Yield the relevant content of a disk; directories exist only with their files."""
    yield sorted(edge.files.contents.items())
    yield sorted(edge.output.staged.items())
    yield sorted(edge.output.published.items())
    yield vars(edge.store) if isinstance(edge.store, MemoryStore) else None
