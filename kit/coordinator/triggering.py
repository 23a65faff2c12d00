"""How a checkpoint begins: the asynchronous steps of `startTriggeringCheckpoint`, one command and one event each.

    request chosen -> pre-checks, plan
    AllocateCheckpointId           CheckpointIdAllocated | CheckpointIdFailed
        pre-checks again, PendingCheckpoint, its timeout
    InitializeLocation             LocationInitialized | LocationFailed
    ScheduleCoordinatorCheckpoint  CheckpointOperatorCoordinator -> on_coordinator_snapshot(...)     for each
    TriggerMasterHook              MasterHookTriggered | MasterHookFailed                            for each
        the plan again, if tasks have finished meanwhile
    TriggerTaskCheckpoint          (acks follow, see `kit.coordinator.completing`)                   for each

One checkpoint is being triggered at a time; requests wait for the next turn. When the pending checkpoint is aborted on
the way (it expires, the job fails over), the rest of the steps is not taken, and answers still to come are ignored.

Follows Flink 2.x's `CheckpointCoordinator.startTriggeringCheckpoint`. 1.11 snapshots master hooks and operator
coordinators side by side, and allocates the id together with the location.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kit.coordinator.pending_checkpoint import PendingCheckpoint, TaskAcknowledgeResult
from kit.coordinator.plan import CheckpointPlan
from kit.coordinator.request_decider import CheckpointTriggerRequest
from kit.coordinator.statistics import FINISHED_METRICS
from kit.protocol.commands import (
    AllocateCheckpointId,
    DiscardState,
    InitializeLocation,
    ScheduleCoordinatorCheckpoint,
    ScheduleTimer,
    TriggerMasterHook,
)
from kit.protocol.events import (
    CheckpointIdAllocated,
    CheckpointIdFailed,
    LocationFailed,
    LocationInitialized,
    MasterHookFailed,
    MasterHookTriggered,
)
from kit.protocol.messages import TriggerTaskCheckpoint
from kit.protocol.options import CheckpointOptions
from kit.protocol.properties import FULL_CHECKPOINT
from kit.protocol.reasons import CheckpointException, CheckpointFailureReason
from kit.protocol.tasks import ExecutionState
from kit.protocol.words import ProtocolError
from kit.state.operator_state import MasterState

if TYPE_CHECKING:
    from kit.coordinator.coordinator import CheckpointCoordinator


def timeout_timer(checkpoint_id: int) -> str:
    """The name of the timer that expires a pending checkpoint (Flink's `CheckpointCanceller`)."""
    return f"checkpoint-timeout-{checkpoint_id}"


@dataclass(slots=True)
class Triggering:
    """The checkpoint being triggered; it has no `checkpoint` before its id is allocated."""

    request: CheckpointTriggerRequest
    timestamp_ms: int
    plan: CheckpointPlan
    checkpoint: PendingCheckpoint | None = None


class CheckpointTrigger:
    """The part of the coordinator that begins checkpoints."""

    def __init__(self, coordinator: CheckpointCoordinator) -> None:
        self._coordinator = coordinator
        self.current: Triggering | None = None
        self._base_initialized = False

    @property
    def is_triggering(self) -> bool:
        """Whether a checkpoint is on its way to the tasks."""
        return self.current is not None

    # --- before there is a pending checkpoint -----------------------------------------------------------------------

    def start(self, request: CheckpointTriggerRequest) -> None:
        """Begin with the request that the decider chose."""
        owner = self._coordinator
        if self.current is not None:
            raise ProtocolError(f"{request.label} cannot start: {self.current.request.label} is being triggered")
        try:
            self._check_global_state(request)
            plan = owner.plan_calculator.calculate(owner.context.epoch, owner.context.execution_state)
        except CheckpointException as why:
            self._fail(request, why)
            return
        self.current = Triggering(request, owner.context.at, plan)
        owner.note("TriggeringStarted", request=request.label, trigger=[task.task for task in plan.tasks_to_trigger])
        owner.context.emit(AllocateCheckpointId())

    def _check_global_state(self, request: CheckpointTriggerRequest) -> None:
        if self._coordinator.is_shut_down:
            raise CheckpointException(CheckpointFailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN)
        if request.periodic and not self._coordinator.is_periodic_scheduling:
            raise CheckpointException(CheckpointFailureReason.PERIODIC_SCHEDULER_SHUTDOWN)

    def _fail(self, request: CheckpointTriggerRequest, why: CheckpointException) -> None:
        owner = self._coordinator
        self.current = None
        owner.note("TriggeringFailed", request=request.label, reason=why.reason.name, detail=str(why))
        owner.answer_with_error(request, why)
        owner.statistics.failed_before_start()
        owner.failure_manager.handle_failure(request.properties, why)
        owner.execute_queued_request_later()

    def on_id_allocated(self, event: CheckpointIdAllocated) -> None:
        """There is an id: make the pending checkpoint, and ask for its directory."""
        now = self._without_checkpoint()
        if now is None:
            return
        try:
            self._check_global_state(now.request)
            if now.plan.attempt != self._coordinator.context.epoch:
                raise CheckpointException(
                    CheckpointFailureReason.TRIGGER_CHECKPOINT_FAILURE,
                    f"The job was restarted (attempt {now.plan.attempt} is over) before there was an id.",
                )
        except CheckpointException as why:
            self._fail(now.request, why)
            return
        now.checkpoint = self._create_pending(now, event.checkpoint_id)
        base = not (self._base_initialized or now.request.properties.is_savepoint)
        self._base_initialized |= base
        self._coordinator.context.emit(
            InitializeLocation(
                checkpoint_id=event.checkpoint_id,
                properties=now.request.properties,
                target=now.request.target,
                initialize_base=base,
            )
        )

    def _without_checkpoint(self) -> Triggering | None:
        return self.current if self.current is not None and self.current.checkpoint is None else None

    def _create_pending(self, now: Triggering, checkpoint_id: int) -> PendingCheckpoint:
        owner = self._coordinator
        if checkpoint_id in owner.pending:
            raise ProtocolError(f"checkpoint id {checkpoint_id} was given out twice: {owner.pending[checkpoint_id]!r}")
        tasks = (*now.plan.tasks_to_wait_for, *now.plan.finished_tasks)
        stats = owner.statistics.begin(
            checkpoint_id,
            now.timestamp_ms,
            now.request.properties,
            {task.vertex.name: task.parallelism for task in tasks},
        )
        for task in now.plan.finished_tasks:
            stats.report(task.vertex.name, task.subtask_index, owner.context.at, FINISHED_METRICS)
        checkpoint = PendingCheckpoint(
            checkpoint_id,
            now.timestamp_ms,
            now.plan,
            now.request,
            owner.operator_coordinators,
            owner.hooks,
            stats,
        )
        owner.pending[checkpoint_id] = checkpoint
        due_ms = owner.context.at + owner.config.timeout_ms
        owner.context.emit(ScheduleTimer(timer=timeout_timer(checkpoint_id), due_ms=due_ms))
        owner.note(
            "CheckpointPending",
            checkpoint_id,
            snapshot=now.request.properties.snapshot_type.name,
            tasks=checkpoint.tasks,
            finished=len(now.plan.finished_tasks),
            trigger=[task.task for task in now.plan.tasks_to_trigger],
            expires_ms=due_ms,
        )
        return checkpoint

    def on_id_failed(self, event: CheckpointIdFailed) -> None:
        """There is no id."""
        now = self._without_checkpoint()
        if now is not None:
            self._fail(now.request, CheckpointException(CheckpointFailureReason.IO_EXCEPTION, event.error))

    def give_up(self, why: CheckpointException) -> None:
        """Do not wait for an id any longer; once there is a pending checkpoint, abort that instead."""
        now = self._without_checkpoint()
        if now is not None:
            self._fail(now.request, why)

    # --- from the location to the tasks -----------------------------------------------------------------------------

    def _on_its_way(self, checkpoint_id: int) -> PendingCheckpoint | None:
        """The checkpoint being triggered, if it is this one and not disposed."""
        checkpoint = None if self.current is None else self.current.checkpoint
        return checkpoint if checkpoint is not None and checkpoint.checkpoint_id == checkpoint_id else None

    def on_location_initialized(self, event: LocationInitialized) -> None:
        """There is a directory: give the operator coordinators their turn. A late one is removed again."""
        owner = self._coordinator
        checkpoint = self._on_its_way(event.checkpoint_id)
        if checkpoint is None:
            if event.checkpoint_id not in owner.pending and not owner.is_completed(event.checkpoint_id):
                discard = DiscardState(paths=(), location=event.location, checkpoint_id=event.checkpoint_id)
                owner.clean(discard)
            return
        if checkpoint.location is not None:
            return
        checkpoint.location = event.location
        for operator_id in checkpoint.not_yet_acked_coordinators:
            owner.context.emit(
                ScheduleCoordinatorCheckpoint(checkpoint_id=event.checkpoint_id, operator_id=operator_id)
            )
        if not checkpoint.not_yet_acked_coordinators:
            self._trigger_hooks(checkpoint)

    def on_location_failed(self, event: LocationFailed) -> None:
        """There is no directory."""
        self._abort(event.checkpoint_id, CheckpointFailureReason.IO_EXCEPTION, event.error)

    def _abort(self, checkpoint_id: int, reason: CheckpointFailureReason, detail: str) -> None:
        checkpoint = self._on_its_way(checkpoint_id)
        if checkpoint is not None:
            self._coordinator.abort(checkpoint, CheckpointException(reason, detail))

    def expects_coordinator_snapshot(self, checkpoint_id: int, operator_id: str) -> bool:
        """Whether the operator coordinator is to take a snapshot now, or its checkpoint is over."""
        checkpoint = self._on_its_way(checkpoint_id)
        return checkpoint is not None and operator_id in checkpoint.not_yet_acked_coordinators

    def on_coordinator_snapshot(
        self, checkpoint_id: int, operator_id: str, state: bytes | None
    ) -> TaskAcknowledgeResult:
        """An operator coordinator gave its bytes."""
        checkpoint = self._on_its_way(checkpoint_id)
        if checkpoint is None:
            return TaskAcknowledgeResult.DISCARDED
        result = checkpoint.acknowledge_coordinator(operator_id, state)
        if result is TaskAcknowledgeResult.SUCCESS:
            self._coordinator.note(
                "CoordinatorAcknowledged", checkpoint_id, operator_id=operator_id, size_bytes=len(state or b"")
            )
            if not checkpoint.not_yet_acked_coordinators:
                self._trigger_hooks(checkpoint)
        return result

    def on_coordinator_snapshot_failed(self, checkpoint_id: int, operator_id: str, error: str) -> None:
        """An operator coordinator could not take a snapshot."""
        detail = f"The coordinator of operator {operator_id} failed: {error}"
        self._abort(checkpoint_id, CheckpointFailureReason.TRIGGER_CHECKPOINT_FAILURE, detail)

    def _trigger_hooks(self, checkpoint: PendingCheckpoint) -> None:
        context = self._coordinator.context
        for hook in self._coordinator.hooks:
            context.emit(
                TriggerMasterHook(
                    checkpoint_id=checkpoint.checkpoint_id, hook=hook, timestamp_ms=checkpoint.timestamp_ms
                )
            )
        if not checkpoint.not_yet_acked_hooks:
            self._trigger_tasks(checkpoint)

    def on_hook_triggered(self, event: MasterHookTriggered) -> None:
        """A master hook gave its state, or None."""
        checkpoint = self._on_its_way(event.checkpoint_id)
        if checkpoint is None:
            return
        state = None if event.state is None else MasterState(event.hook, event.version, event.state)
        if checkpoint.acknowledge_hook(event.hook, state) is not TaskAcknowledgeResult.SUCCESS:
            return
        self._coordinator.note(
            "MasterHookAcknowledged", event.checkpoint_id, hook=event.hook, size_bytes=len(event.state or b"")
        )
        if not checkpoint.not_yet_acked_hooks:
            self._trigger_tasks(checkpoint)

    def on_hook_failed(self, event: MasterHookFailed) -> bool:
        """A master hook failed; False when it was not triggered for a checkpoint on its way."""
        ours = self._on_its_way(event.checkpoint_id) is not None
        self._abort(event.checkpoint_id, CheckpointFailureReason.TRIGGER_CHECKPOINT_FAILURE, event.error)
        return ours

    def _trigger_tasks(self, checkpoint: PendingCheckpoint) -> None:
        owner = self._coordinator
        plan = checkpoint.plan
        if self._awaits_leaving(plan):
            return
        gone = [task.task for task in plan.tasks_to_trigger if not self._is_running(task.task, plan.attempt)]
        if gone:
            try:
                plan = self._plan_again(checkpoint, gone)
            except CheckpointException as why:
                owner.abort(checkpoint, why)
                return
        options = self._options(checkpoint)
        for task in plan.tasks_to_trigger:
            owner.context.emit(
                TriggerTaskCheckpoint(
                    task=task.task,
                    attempt=plan.attempt,
                    checkpoint_id=checkpoint.checkpoint_id,
                    timestamp_ms=checkpoint.timestamp_ms,
                    options=options,
                )
            )
        self.current = None
        owner.note(
            "CheckpointTriggered",
            checkpoint.checkpoint_id,
            tasks=[task.task for task in plan.tasks_to_trigger],
            alignment=options.alignment.name,
        )
        if checkpoint.is_fully_acknowledged:
            owner.completion.on_fully_acknowledged(checkpoint)
        owner.execute_queued_request_later()

    def _awaits_leaving(self, plan: CheckpointPlan) -> bool:
        """Whether a task to be triggered is about to finish: its trigger would come too late and fail the checkpoint.

        An aligned barrier would have to wait for the same data as the task's end; one that overtakes need not wait.
        """
        owner = self._coordinator
        return not owner.config.unaligned and any(
            task.task in owner.leaving and self._is_running(task.task, plan.attempt) for task in plan.tasks_to_trigger
        )

    def go_on(self) -> None:
        """A task has finished: trigger the checkpoint that only waits for such."""
        checkpoint = None if self.current is None else self.current.checkpoint
        if checkpoint is None or checkpoint.location is None:
            return
        if not (checkpoint.not_yet_acked_coordinators or checkpoint.not_yet_acked_hooks):
            self._trigger_tasks(checkpoint)

    def _plan_again(self, checkpoint: PendingCheckpoint, gone: Sequence[str]) -> CheckpointPlan:
        """Tasks have finished while coordinators and hooks were asked: nobody has been triggered yet, so the checkpoint
        goes on without them. Raises CheckpointException when it cannot.

        Flink triggers what its first plan says, and such a checkpoint fails.
        """
        owner = self._coordinator
        context, attempt = owner.context, checkpoint.plan.attempt
        plan = None
        if context.epoch == attempt and all(context.execution_state(task) is ExecutionState.FINISHED for task in gone):
            plan = owner.plan_calculator.calculate(attempt, context.execution_state)
        if plan is None or not plan.tasks_to_wait_for:
            raise CheckpointException(
                CheckpointFailureReason.TRIGGER_CHECKPOINT_FAILURE,
                f"{', '.join(gone)} stopped running before the checkpoint reached it.",
            )
        for task in checkpoint.plan_again(plan):
            checkpoint.stats.report(task.vertex.name, task.subtask_index, context.at, FINISHED_METRICS)
        owner.note(
            "CheckpointPlannedAgain",
            checkpoint.checkpoint_id,
            gone=gone,
            tasks=checkpoint.tasks,
            finished=len(plan.finished_tasks),
            trigger=[task.task for task in plan.tasks_to_trigger],
        )
        return plan

    def _is_running(self, task: str, attempt: int) -> bool:
        context = self._coordinator.context
        return context.epoch == attempt and context.execution_state(task) is ExecutionState.RUNNING

    def _options(self, checkpoint: PendingCheckpoint) -> CheckpointOptions:
        config = self._coordinator.config
        properties = checkpoint.properties
        full = self._coordinator.force_full_snapshot and not properties.is_savepoint
        return CheckpointOptions.for_config(
            FULL_CHECKPOINT if full else properties.snapshot_type,
            checkpoint.location or "",
            exactly_once=config.exactly_once,
            unaligned=config.unaligned,
            aligned_timeout_ms=config.aligned_timeout_ms,
        )

    def forget(self, checkpoint: PendingCheckpoint) -> None:
        """The checkpoint was aborted: if it was being triggered, the turn is the next one's."""
        if self.current is not None and self.current.checkpoint is checkpoint:
            self.current = None
            self._coordinator.context.coordinators.abort_triggering()

    def __repr__(self) -> str:
        return f"CheckpointTrigger({self.current.request.label if self.current else 'idle'})"
