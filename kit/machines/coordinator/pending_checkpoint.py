"""A pending checkpoint: the tasks that have acknowledged, those that have not, and the state collected so far.

It is fully acknowledged when every task, operator coordinator and master hook has acknowledged. Then it is finalized
into a `CompletedCheckpoint`; otherwise it is aborted, and what it collected is discarded. In both cases it is disposed:
nothing more is acknowledged. Its steps are those of the table in `kit.machines.coordinator.checkpoint_state`.

Follows Flink's `PendingCheckpoint`. An acknowledgement costs the same however many tasks there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import ClassVar

from kit.core.metadata import CheckpointMetadata
from kit.core.protocol.properties import CheckpointProperties
from kit.core.protocol.reasons import CheckpointException, CheckpointFailureReason
from kit.core.protocol.words import ProtocolError
from kit.core.state.handles import ByteStreamStateHandle
from kit.core.state.operator_state import MasterState, OperatorState, TaskStateSnapshot
from kit.machines.coordinator.checkpoint_state import TRANSITIONS, CheckpointEvent, CheckpointState
from kit.machines.coordinator.completed.completed_checkpoint import CompletedCheckpoint
from kit.machines.coordinator.completed.shared_state_registry import private_files
from kit.machines.coordinator.plan import CheckpointPlan, OperatorStateBuilder
from kit.machines.coordinator.request_decider import CheckpointTriggerRequest
from kit.machines.coordinator.statistics import CheckpointStats
from kit.stream.graph.execution_graph import ExecutionVertex


class TaskAcknowledgeResult(Enum):
    """The outcome of an acknowledgement (Flink's `PendingCheckpoint.TaskAcknowledgeResult`)."""

    SUCCESS = "SUCCESS"
    """It counts. Flink: `TaskAcknowledgeResult.SUCCESS`."""
    DUPLICATE = "DUPLICATE"
    """The task has acknowledged before. Flink: `TaskAcknowledgeResult.DUPLICATE`."""
    UNKNOWN = "UNKNOWN"
    """The task, or this attempt of it, was not asked. Flink: `TaskAcknowledgeResult.UNKNOWN`."""
    DISCARDED = "DISCARDED"
    """The checkpoint has ended already. Flink: `TaskAcknowledgeResult.DISCARDED`."""


class PendingCheckpoint:
    """One checkpoint from its creation to its end.

    `coordinators` gives for each operator coordinator to acknowledge a task of its operator (for the parallelism), and
    `hooks` the master hooks to acknowledge. Raises ValueError for a plan without a task to wait for.

    Flink's counter `numAcknowledgedTasks` is the length of `acked_tasks` here (`acknowledgedTasks`), next to
    `not_yet_acked_tasks` (`notYetAcknowledgedTasks`); its statistics come by `setStatsCallback`.
    """

    without_effect: ClassVar = frozenset({"stats", "timestamp_ms"})

    def __init__(
        self,
        checkpoint_id: int,
        timestamp_ms: int,
        plan: CheckpointPlan,
        request: CheckpointTriggerRequest,
        coordinators: Mapping[str, ExecutionVertex],
        hooks: Iterable[str],
        stats: CheckpointStats,
    ) -> None:
        if not plan.tasks_to_wait_for:
            raise ValueError(f"chk-{checkpoint_id} waits for no task: at least one must take part")
        self.checkpoint_id = checkpoint_id
        self.timestamp_ms = timestamp_ms
        self.plan = plan
        self.request = request
        self.stats = stats
        self.location: str | None = None
        self.states: dict[str, OperatorStateBuilder] = {}
        self.master_states: list[MasterState] = []
        self.not_yet_acked_tasks: dict[str, ExecutionVertex] = {task.task: task for task in plan.tasks_to_wait_for}
        self.not_yet_acked_coordinators: dict[str, ExecutionVertex] = dict(coordinators)
        self.not_yet_acked_hooks: set[str] = set(hooks)
        self.acked_tasks: dict[str, ExecutionVertex] = {}
        self.ended_tasks: set[str] = set()
        """The tasks that had processed all their input: they leave when the checkpoint is complete."""
        self.state = CheckpointState.LOCATING
        self.failure: CheckpointException | None = None

    def step(self, event: CheckpointEvent) -> None:
        """Follow the table. Raises ProtocolError for an event that the present state does not admit."""
        self.state = TRANSITIONS.follow(self, self.state, event)

    def located(self, location: str) -> None:
        """Set its directory, which exists now."""
        self.location = location
        self.step(CheckpointEvent.LOCATED)

    @property
    def is_disposed(self) -> bool:
        """True if it has ended or is being stored, so that nothing is acknowledged any longer.

        Flink: `isDisposed`, in 1.11 `isDiscarded`.
        """
        return self.state.is_disposed

    @property
    def properties(self) -> CheckpointProperties:
        """The properties with which it was requested."""
        return self.request.properties

    @property
    def tasks(self) -> int:
        """The number of tasks that must acknowledge."""
        return len(self.plan.tasks_to_wait_for)

    @property
    def can_be_subsumed(self) -> bool:
        """True if a newer checkpoint makes this one obsolete; never for a savepoint, which a user has requested."""
        return not self.properties.is_savepoint

    @property
    def is_fully_acknowledged(self) -> bool:
        """True if tasks, operator coordinators and master hooks have all acknowledged.

        Flink: `isFullyAcknowledged` and `areMasterStatesFullyAcknowledged`.
        """
        return not (
            self.is_disposed or self.not_yet_acked_tasks or self.not_yet_acked_coordinators or self.not_yet_acked_hooks
        )

    @property
    def waits_for_others(self) -> bool:
        """True if the next acknowledgement of a task is certainly not the last one."""
        return len(self.not_yet_acked_tasks) > 1

    def plan_again(self, plan: CheckpointPlan) -> list[ExecutionVertex]:
        """Take another plan, before any task was triggered; return the tasks that it no longer waits for."""
        assert not self.acked_tasks, f"{self!r} has acknowledgements: too late for another plan"
        before = self.not_yet_acked_tasks
        self.plan = plan
        self.not_yet_acked_tasks = {task.task: task for task in plan.tasks_to_wait_for}
        return [task for name, task in before.items() if name not in self.not_yet_acked_tasks]

    def acknowledge_task(self, task: str, attempt: int, snapshot: TaskStateSnapshot | None) -> TaskAcknowledgeResult:
        """Record a task's acknowledgement; `snapshot` is None if it has no state.

        DISCARDED means that its files are not needed: the checkpoint has ended without this task. Flink's coordinator
        throws IllegalStateException here, because it never sees such a checkpoint; this one may be storing it.

        Flink: `acknowledgeTask`.
        """
        if self.is_disposed:
            repeated = self.failure is None and task in self.acked_tasks
            return TaskAcknowledgeResult.DUPLICATE if repeated else TaskAcknowledgeResult.DISCARDED
        if attempt != self.plan.attempts.of(task):
            return TaskAcknowledgeResult.UNKNOWN
        vertex = self.not_yet_acked_tasks.pop(task, None)
        if vertex is None:
            return TaskAcknowledgeResult.DUPLICATE if task in self.acked_tasks else TaskAcknowledgeResult.UNKNOWN
        self._count(vertex, snapshot)
        return TaskAcknowledgeResult.SUCCESS

    def _count(self, task: ExecutionVertex, snapshot: TaskStateSnapshot | None) -> None:
        self.acked_tasks[task.task] = task
        if snapshot is not None and (snapshot.is_task_finished or snapshot.is_task_deployed_as_finished):
            self.ended_tasks.add(task.task)
        if snapshot is not None and snapshot.is_task_deployed_as_finished:
            self.plan.report_task_finished_on_restore(task)
            return
        self._collect(task, snapshot)
        if snapshot is not None and snapshot.is_task_finished:
            self.plan.report_task_has_finished_operators(task)

    def unwanted(self, result: TaskAcknowledgeResult, snapshot: TaskStateSnapshot | None) -> TaskStateSnapshot | None:
        """Return the unneeded state of an acknowledgement, if any: a duplicate's state is the one kept."""
        kept = (TaskAcknowledgeResult.SUCCESS, TaskAcknowledgeResult.DUPLICATE)
        return None if result in kept else snapshot

    def _collect(self, task: ExecutionVertex, snapshot: TaskStateSnapshot | None) -> None:
        for operator in task.vertex.operators:
            operator_id = operator.operator_id
            builder = self.states.get(operator_id)
            if builder is None:
                builder = self.states[operator_id] = OperatorStateBuilder.of(task, operator)
            builder.call(operator)
            state = None if snapshot is None else snapshot.subtask_states.get(operator_id)
            if state is not None:
                builder.subtask_states[task.subtask_index] = state

    def acknowledge_coordinator(self, operator_id: str, state: bytes | None) -> TaskAcknowledgeResult:
        """Record an operator coordinator's state, None if it has none. Flink: `acknowledgeCoordinatorState`."""
        if self.is_disposed:
            return TaskAcknowledgeResult.DISCARDED
        task = self.not_yet_acked_coordinators.pop(operator_id, None)
        if task is None:
            known = operator_id in self.states and self.states[operator_id].coordinator_state is not None
            return TaskAcknowledgeResult.DUPLICATE if known else TaskAcknowledgeResult.UNKNOWN
        if operator_id not in self.states:
            self.states[operator_id] = OperatorStateBuilder(operator_id, task.parallelism, task.max_parallelism)
        if state is not None:
            self.states[operator_id].set_coordinator_state(ByteStreamStateHandle(operator_id, state))
        return TaskAcknowledgeResult.SUCCESS

    def acknowledge_hook(self, hook: str, state: MasterState | None) -> TaskAcknowledgeResult:
        """Record a master hook's state, None if it has none. Flink: `acknowledgeMasterState`."""
        if self.is_disposed:
            return TaskAcknowledgeResult.DISCARDED
        if hook not in self.not_yet_acked_hooks:
            return TaskAcknowledgeResult.UNKNOWN
        self.not_yet_acked_hooks.discard(hook)
        if state is not None:
            self.master_states.append(state)
        return TaskAcknowledgeResult.SUCCESS

    def finalize(self, order: Iterable[str]) -> CheckpointMetadata:
        """Return the content of `_metadata`: operators in the given order of ids, independent of the acknowledgements.

        Raises PartialFinishingNotSupportedByState, and ValueError before all have acknowledged.

        Flink: `finalizeCheckpoint`.
        """
        if not self.is_fully_acknowledged:
            raise ValueError(f"{self!r} cannot be finalized: it is not fully acknowledged, or disposed")
        self.plan.fulfill_finished_task_status(self.states)
        return CheckpointMetadata(
            self.checkpoint_id,
            tuple(self.states[operator_id].build() for operator_id in order if operator_id in self.states),
            tuple(sorted(self.master_states, key=lambda state: state.name)),
            self.properties,
        )

    def complete(self, job_id: str, metadata: CheckpointMetadata, path: str, at_ms: int) -> CompletedCheckpoint:
        """Return the completed checkpoint with metadata at `path`, for the store to take."""
        assert self.location is not None
        self.step(CheckpointEvent.WRITTEN)
        return CompletedCheckpoint(
            job_id,
            self.checkpoint_id,
            self.timestamp_ms,
            at_ms,
            {state.operator_id: state for state in metadata.operator_states},
            metadata.master_states,
            self.properties,
            self.location,
            path,
        )

    def fail(self, why: CheckpointException, event: CheckpointEvent = CheckpointEvent.ABORT) -> None:
        """End without completing; `files_to_discard` then returns the collected state's files.

        Raises ProtocolError if a savepoint should be subsumed. Flink: `abort`.
        """
        if why.reason is CheckpointFailureReason.CHECKPOINT_SUBSUMED and not self.can_be_subsumed:
            raise ProtocolError(f"{self!r} cannot be subsumed: a user requested it, so it fails, expires or completes")
        self.failure = why
        self.step(event)

    def files_to_discard(self) -> tuple[str, ...]:
        """Return the collected files that no other checkpoint may use; for a savepoint, all of them."""
        states: Iterable[OperatorState] = [builder.build() for builder in self.states.values()]
        if self.properties.is_savepoint:
            return tuple(dict.fromkeys(file for state in states for file in state.files()))
        return tuple(dict.fromkeys(file for state in states for file in private_files(state)))

    def validate(self) -> None:
        """Check that every task has either acknowledged or not. Raises AssertionError."""
        if self.is_disposed:
            return
        waiting = set(self.not_yet_acked_tasks)
        both = sorted(waiting & self.acked_tasks.keys())
        assert not both, f"{self!r}: {both} acked and did not"
        assert len(waiting) + len(self.acked_tasks) == self.tasks, f"{self!r}: of {self.tasks} tasks some got lost"
        for builder in self.states.values():
            assert len(builder.subtask_states) <= builder.parallelism, f"{self!r}: too many subtasks of {builder.name}"

    def __repr__(self) -> str:
        kind = self.properties.snapshot_type.name
        acked = f"{len(self.acked_tasks)} of {self.tasks} acked"
        return f"PendingCheckpoint({self.checkpoint_id}, {kind}, {self.state.name}, {acked})"
