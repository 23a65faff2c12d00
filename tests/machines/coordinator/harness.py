"""A job around a CheckpointCoordinator that answers nothing by itself: tests see each command and choose the answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

from kit.core.protocol import commands, events
from kit.core.protocol.attempts import Attempts
from kit.core.protocol.messages import (
    AcknowledgeCheckpoint,
    CheckpointMetrics,
    DeclineCheckpoint,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    TriggerTaskCheckpoint,
)
from kit.core.protocol.reasons import CheckpointFailureReason
from kit.core.protocol.tasks import ExecutionState, split_task_name
from kit.core.protocol.words import ProtocolMessage
from kit.core.state.handles import FileStateHandle, KeyGroupRange, KeyGroupsStateHandle
from kit.core.state.operator_state import OperatorSubtaskState, TaskStateSnapshot
from kit.machines.coordinator.completed.completed_checkpoint import CompletedCheckpoint
from kit.machines.coordinator.completed.completed_checkpoint_store import CompletedCheckpointStore
from kit.machines.coordinator.context import CheckpointStatsListener
from kit.machines.coordinator.coordinator import CheckpointCoordinator
from kit.machines.coordinator.statistics import CheckpointStatsTracker
from kit.stream.graph.execution_graph import ExecutionGraph
from kit.stream.graph.job_graph import ChainedOperator, JobEdge, JobGraph, JobVertex
from kit.stream.graph.partitioners import PartitionerKind
from kit.stream.settings.job_settings import CheckpointConfig, JobSettings
from tests.answers import favourable

JOB = "0" * 32
W = TypeVar("W", bound=ProtocolMessage)


def graph(
    vertices: dict[str, int] | None = None,
    edges: Iterable[tuple[str, str, str]] | None = None,
    *,
    chains: dict[str, int] | None = None,
    **checkpoint: Any,
) -> ExecutionGraph:
    """Return a graph of vertices with parallelisms, by default `source` x2 -hash-> `sums` x2.

    An edge is (from, to, partitioner), by default a line of hash edges; `chains` gives vertices more operators than 1.
    """
    vertices = vertices or {"source": 2, "sums": 2}
    names = list(vertices)
    wires = list(edges) if edges is not None else [(a, b, "hash") for a, b in pairwise(names)]
    found: dict[str, tuple[list[JobEdge], list[JobEdge]]] = {name: ([], []) for name in names}
    for source, target, kind in wires:
        outputs, inputs = found[source][1], found[target][0]
        wire = JobEdge(
            source,
            target,
            PartitionerKind(kind),
            ("key",) if kind == "hash" else (),
            partition=len(outputs),
            gate=len(inputs),
            source_operator=operator_id(source),
            target_operator=operator_id(target),
            input_index=len(inputs),
            supports_unaligned=True,
            reason="",
        )
        outputs.append(wire)
        inputs.append(wire)
    job = JobGraph(
        JOB,
        "job",
        tuple(
            JobVertex(
                operator_id(name),
                name,
                _chain(name, (chains or {}).get(name, 1)),
                parallelism,
                128,
                False,
                tuple(found[name][0]),
                tuple(found[name][1]),
            )
            for name, parallelism in vertices.items()
        ),
        JobSettings(checkpoint=CheckpointConfig(**checkpoint)),
    )
    return ExecutionGraph(job)


def operator_id(vertex: str, number: int = 0) -> str:
    """Return the id of the operator of this number in the chain of a vertex, head first."""
    return f"{vertex}-{number}".encode().hex().ljust(32, "0")


def _chain(vertex: str, operators: int) -> tuple[ChainedOperator, ...]:
    spec: Any = None
    return tuple(
        ChainedOperator(
            operator_id(vertex, number),
            f"{vertex}-{number}",
            f"{vertex}-{number}",
            spec,
            operator_id(vertex, number - 1) if number else None,
        )
        for number in range(operators)
    )


def keyed_state(path: str, size: int = 10) -> OperatorSubtaskState:
    """Return the state of a subtask in one file."""
    handle = KeyGroupsStateHandle(KeyGroupRange(0, 0), (0,), FileStateHandle(path, size))
    return OperatorSubtaskState(managed_keyed_state=(handle,))


class Harness:
    """The coordinator's context and host; `emitted` are the commands since the last `take`."""

    def __init__(
        self,
        execution_graph: ExecutionGraph | None = None,
        *,
        hooks: Sequence[str] = (),
        coordinators: Sequence[str] = (),
        store: CompletedCheckpointStore | None = None,
        statistics: CheckpointStatsTracker | None = None,
        listener: CheckpointStatsListener | None = None,
        **checkpoint: Any,
    ) -> None:
        self.graph = execution_graph or graph(**checkpoint)
        self.at = 1_000
        self.epoch = 1
        self.next_id = 1
        self.states = {task.task: ExecutionState.RUNNING for task in self.graph.tasks}
        self.emitted: list[ProtocolMessage] = []
        self.calls: list[tuple[Any, ...]] = []
        self.timers: dict[str, int] = {}
        self.cleaning: list[ProtocolMessage] = []
        """What is being deleted; `cleans` says whether the host ever comes to it."""
        self.cleans = True
        ids = [operator_id(name) for name in coordinators]
        self.coordinator = CheckpointCoordinator(
            JOB,
            self.graph,
            self,
            hooks=hooks,
            operator_coordinators=ids,
            store=store,
            statistics=statistics,
            listener=listener,
        )
        self._requests = 0

    # --- the context ----------------------------------------------------------------------------------------------

    @property
    def attempts(self) -> Attempts:
        return Attempts(self.epoch)

    def emit(self, word: ProtocolMessage) -> None:
        self.emitted.append(word)
        if isinstance(word, commands.ScheduleTimer):
            self.timers[word.timer] = word.due_ms
        if isinstance(word, commands.CancelTimer):
            self.timers.pop(word.timer, None)
        if isinstance(word, commands.DiscardState) and word.location is not None:
            self.cleaning.append(events.StateDiscarded(checkpoint_id=word.checkpoint_id))

    def answer_request(self, word: commands.CompleteRequest) -> None:
        self.emit(word)

    def execution_state(self, task: str) -> ExecutionState:
        return self.states[task]

    def fail_job(self, error: str, checkpoint_id: int | None, *, may_pass: bool) -> None:
        self.calls.append(("fail_job", error, checkpoint_id))

    def fail_job_due_to_task_failure(self, error: str, task: str, *, may_pass: bool) -> None:
        self.calls.append(("fail_job_due_to_task_failure", error, task))

    @property
    def coordinators(self) -> Harness:
        """Stand in for the operator coordinators as well."""
        return self

    def notify_complete(self, checkpoint_id: int) -> None:
        self.calls.append(("complete", checkpoint_id))

    def notify_aborted(self, checkpoint_id: int) -> None:
        self.calls.append(("aborted", checkpoint_id))

    def open_gate(self, task: str, checkpoint_id: int) -> None:
        """Do nothing: the coordinator does not hold events of operator coordinators."""

    def abort_triggering(self) -> None:
        self.calls.append(("abort_triggering",))

    def restore(self, *, allow_non_restored_state: bool = True) -> CompletedCheckpoint | None:
        """Restore the latest checkpoint as the JobMaster does, without assigning its state."""
        restore = self.coordinator.restore
        latest = restore.latest()
        restore.restore_hooks(latest, allow_non_restored_state=allow_non_restored_state)
        if latest is not None:
            self.coordinator.ledger.restored(latest)
        return latest

    # --- what came out --------------------------------------------------------------------------------------------

    def take(self, kind: type[W]) -> list[W]:
        """Return the commands of this kind that have not been taken yet."""
        found = [word for word in self.emitted if isinstance(word, kind)]
        self.emitted = [word for word in self.emitted if not isinstance(word, kind)]
        return found

    def notes(self, kind: type[W]) -> list[W]:
        """Return the notes of this kind, without taking them."""
        return [word for word in self.emitted if isinstance(word, kind)]

    def errors(self) -> dict[int, str]:
        """Take the answers to requests that failed, by request id."""
        return {word.request_id: word.error for word in self.take(commands.CompleteRequest) if word.error}

    def pending(self) -> list[int]:
        """Return the ids of the pending checkpoints."""
        return list(self.coordinator.pending)

    def retained(self) -> list[CompletedCheckpoint]:
        """Return the retained checkpoints."""
        return self.coordinator.store.checkpoints

    def retained_ids(self) -> list[int]:
        """Return their ids."""
        return [checkpoint.checkpoint_id for checkpoint in self.retained()]

    def discarded(self) -> set[str]:
        """Take the files that were discarded."""
        return {path for word in self.take(commands.DiscardState) for path in word.paths}

    # --- what goes in ---------------------------------------------------------------------------------------------

    def give(self, event: ProtocolMessage) -> None:
        """Let the coordinator handle an event, and validate it afterwards; pending deletions are done first."""
        while self.cleans and self.cleaning:
            self.coordinator.handle(self.cleaning.pop(0))
            self.coordinator.settle()
        self.coordinator.handle(event)
        self.coordinator.settle()
        self.coordinator.validate()

    def wait(self, ms: int) -> None:
        """Let time pass; timers fire as they become due."""
        end = self.at + ms
        while self.timers and min(self.timers.values()) <= end:
            timer = min(self.timers, key=lambda name: (self.timers[name], name))
            self.at = max(self.at, self.timers.pop(timer))
            self.give(events.TimerFired(timer=timer))
            self.answer_triggering()
        self.at = end

    def request(self, *, full: bool = False) -> int:
        """Request a checkpoint, and return the request's id."""
        self._requests += 1
        self.give(events.RequestCheckpoint(request_id=self._requests, full=full))
        return self._requests

    def request_savepoint(self, target: str | None = "savepoints") -> int:
        """Request a savepoint, and return the request's id."""
        self._requests += 1
        self.give(events.RequestSavepoint(request_id=self._requests, target=target))
        return self._requests

    def request_stop(self, *, drain: bool = False) -> int:
        """Request stop-with-savepoint, and return the request's id."""
        self._requests += 1
        self.give(events.RequestStop(request_id=self._requests, target="savepoints", drain=drain))
        return self._requests

    def answer(self, kind: type[ProtocolMessage]) -> bool:
        """Answer all commands of this kind favourably; return False if there are none."""
        found = self.take(kind)
        for command in found:
            self._answer(command)
        return bool(found)

    def _answer(self, command: Any) -> None:
        match command:
            case commands.AllocateCheckpointId():
                self.next_id += 1
                self.give(events.CheckpointIdAllocated(checkpoint_id=self.next_id - 1))
            case commands.ScheduleCoordinatorCheckpoint(checkpoint_id=checkpoint_id, operator_id=operator_id):
                if self.coordinator.trigger.expects_coordinator_snapshot(checkpoint_id, operator_id):
                    self.coordinator.trigger.on_coordinator_snapshot(checkpoint_id, operator_id, b"coordinator")
            case _:
                answer = favourable(command)
                assert answer is not None, command
                self.give(answer)

    def answer_triggering(self) -> None:
        """Answer every step up to the triggers of tasks, for all checkpoints that start."""
        while any(
            self.answer(kind)
            for kind in (
                commands.AllocateCheckpointId,
                commands.InitializeLocation,
                commands.ScheduleCoordinatorCheckpoint,
                commands.TriggerMasterHook,
            )
        ):
            pass

    def answer_completing(self) -> None:
        """Answer the steps after the last ack."""
        while self.answer(commands.WriteMetadata) or self.answer(commands.StoreCheckpoint):
            pass

    def trigger(self, **facts: Any) -> int:
        """Request a checkpoint, trigger its tasks, and return its id."""
        self.request(**facts)
        self.answer_triggering()
        return self.next_id - 1

    def trigger_savepoint(self) -> int:
        """Request a savepoint, trigger its tasks, and return its id."""
        self.request_savepoint()
        self.answer_triggering()
        return self.next_id - 1

    def ack(
        self,
        checkpoint_id: int,
        task: str,
        state: OperatorSubtaskState | TaskStateSnapshot | None = None,
        *,
        attempt: int | None = None,
        job_id: str = JOB,
        **metrics: Any,
    ) -> None:
        """Let a task acknowledge; a state without an operator is that of the vertex's operator."""
        if isinstance(state, OperatorSubtaskState):
            state = TaskStateSnapshot({operator_id(split_task_name(task)[0]): state})
        self.give(
            AcknowledgeCheckpoint(
                task=task,
                attempt=self.epoch if attempt is None else attempt,
                job_id=job_id,
                checkpoint_id=checkpoint_id,
                metrics=CheckpointMetrics(**metrics),
                state=state,
            )
        )

    def ack_all(self, checkpoint_id: int, *, but: Iterable[str] = (), files: bool = False) -> None:
        """Let every task acknowledge that has not; with `files`, each with the file `<task>-<id>`."""
        for task in list(self.coordinator.pending[checkpoint_id].not_yet_acked_tasks):
            if task not in but:
                self.ack(checkpoint_id, task, keyed_state(f"{task}-{checkpoint_id}") if files else None)

    def complete(self, checkpoint_id: int, *, files: bool = False) -> None:
        """Complete a triggered checkpoint."""
        self.ack_all(checkpoint_id, files=files)
        self.answer_completing()

    def decline(
        self,
        checkpoint_id: int,
        task: str,
        reason: CheckpointFailureReason = CheckpointFailureReason.CHECKPOINT_DECLINED,
        *,
        job_id: str = JOB,
    ) -> None:
        """Let a task decline."""
        self.give(
            DeclineCheckpoint(task=task, attempt=self.epoch, job_id=job_id, checkpoint_id=checkpoint_id, reason=reason)
        )

    # --- what the tasks received ------------------------------------------------------------------------------------

    def triggered(self) -> list[tuple[str, int]]:
        """Take the triggers: the task and the checkpoint."""
        return [(word.task, word.checkpoint_id) for word in self.take(TriggerTaskCheckpoint)]

    def confirmed(self) -> list[tuple[str, int, int]]:
        """Take the notifications of completed checkpoints: the task, the checkpoint and the last subsumed id."""
        words = self.take(NotifyCheckpointComplete)
        return [(word.task, word.checkpoint_id, word.last_subsumed_id) for word in words]

    def aborted(self) -> list[tuple[str, int]]:
        """Take the notifications of aborted checkpoints: the task and the checkpoint."""
        return [(word.task, word.checkpoint_id) for word in self.take(NotifyCheckpointAborted)]
