"""The start of a checkpoint: the asynchronous steps of `startTriggeringCheckpoint`, one command and one event each.

    request chosen -> pre-checks, plan
    AllocateCheckpointId           CheckpointIdAllocated | CheckpointIdFailed
        pre-checks again, PendingCheckpoint, its timeout
    InitializeLocation             LocationInitialized | LocationFailed
    ScheduleCoordinatorCheckpoint  CheckpointOperatorCoordinator -> on_coordinator_snapshot(...)     for each
    TriggerMasterHook              MasterHookTriggered | MasterHookFailed                            for each
        the plan again, if tasks have finished meanwhile
    TriggerTaskCheckpoint          (acks follow, see `kit.machines.coordinator.completing`)                   for each

One checkpoint is being triggered at a time; other requests wait. If the pending checkpoint is aborted on the way (it
expires, or the job fails over), the remaining steps are skipped, and later answers are ignored.

Follows Flink 2.x's `CheckpointCoordinator.startTriggeringCheckpoint`. 1.11 allocates the id together with the
location; at first it snapshots master hooks and operator coordinators side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kit.core.protocol import commands, events
from kit.core.protocol.attempts import Attempts
from kit.core.protocol.messages import TriggerTaskCheckpoint
from kit.core.protocol.notes import (
    CheckpointPlannedAgain,
    CheckpointTriggered,
    CoordinatorAcknowledged,
    MasterHookAcknowledged,
    TriggeringStarted,
)
from kit.core.protocol.options import CheckpointOptions
from kit.core.protocol.properties import FULL_CHECKPOINT
from kit.core.protocol.reasons import CheckpointException, CheckpointFailureReason
from kit.core.protocol.tasks import ExecutionState
from kit.core.protocol.words import ProtocolError, handles
from kit.core.state.operator_state import MasterState
from kit.machines.coordinator.checkpoint_state import CheckpointEvent, CheckpointState
from kit.machines.coordinator.checkpointed_job import CheckpointedJob
from kit.machines.coordinator.completing import CheckpointCompletion
from kit.machines.coordinator.context import CoordinatorContext
from kit.machines.coordinator.ledger import CheckpointLedger
from kit.machines.coordinator.own_pending_checkpoint import create_pending_checkpoint
from kit.machines.coordinator.pending_checkpoint import PendingCheckpoint, TaskAcknowledgeResult
from kit.machines.coordinator.periodic import PeriodicTrigger
from kit.machines.coordinator.plan import CheckpointPlan
from kit.machines.coordinator.request_decider import CheckpointTriggerRequest
from kit.machines.coordinator.statistics import FINISHED_METRICS


@dataclass(frozen=True, slots=True)
class Chosen:
    """A request whose checkpoint has no id yet."""

    request: CheckpointTriggerRequest
    timestamp_ms: int
    plan: CheckpointPlan


class CheckpointTrigger:
    """The part of the coordinator that starts checkpoints."""

    def __init__(
        self,
        job: CheckpointedJob,
        context: CoordinatorContext,
        ledger: CheckpointLedger,
        periodic: PeriodicTrigger,
        completion: CheckpointCompletion,
    ) -> None:
        self._job = job
        self._context = context
        self._ledger = ledger
        self._periodic = periodic
        self._completion = completion
        self._chosen: Chosen | None = None
        self._base_initialized = False

    @property
    def is_triggering(self) -> bool:
        """True if a checkpoint is being triggered."""
        return self._chosen is not None or self._ledger.triggering is not None

    # --- before there is a pending checkpoint -----------------------------------------------------------------------

    def start(self, request: CheckpointTriggerRequest) -> None:
        """Start the request that the decider chose. Flink: `CheckpointCoordinator.startTriggeringCheckpoint`."""
        if self.is_triggering:
            raise ProtocolError(f"{request.label} cannot start: {self!r}")
        try:
            self._check_global_state(request)
            plan = self._job.plan_calculator.calculate(self._context.attempts, self._context.execution_state)
        except CheckpointException as why:
            self._ledger.fail_request(request, why)
            return
        self._chosen = Chosen(request, self._context.at, plan)
        self._context.emit(TriggeringStarted(request=request.label, trigger=plan.names_to_trigger))
        self._context.emit(commands.AllocateCheckpointId())

    def _check_global_state(self, request: CheckpointTriggerRequest) -> None:
        """Raise CheckpointException if no checkpoint may start at present.

        Flink: `preCheckGlobalState`; earlier `preCheckBeforeTriggeringCheckpoint`, which also checks what
        `CheckpointRequestDecider.choose` decides now.
        """
        if self._ledger.is_shut_down:
            raise CheckpointException(CheckpointFailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN)
        if request.periodic and not self._periodic.is_scheduling:
            raise CheckpointException(CheckpointFailureReason.PERIODIC_SCHEDULER_SHUTDOWN)

    @handles(events.CheckpointIdAllocated)
    def on_id_allocated(self, event: events.CheckpointIdAllocated) -> None:
        """Create the pending checkpoint with the allocated id, and ask for its directory.

        Flink: `initializeCheckpoint`, which in 1.11 allocates the id and the location in one step.
        """
        chosen, self._chosen = self._chosen, None
        if chosen is None:
            return
        try:
            self._check_global_state(chosen.request)
            if chosen.plan.attempts != self._context.attempts:
                raise CheckpointException(
                    CheckpointFailureReason.TRIGGER_CHECKPOINT_FAILURE,
                    "The job, or a region of it, was restarted before there was an id: these tasks are gone.",
                )
        except CheckpointException as why:
            self._ledger.fail_request(chosen.request, why)
            return
        self._ledger.begin(self._pending(chosen, event.checkpoint_id), self._context.at + self._job.config.timeout_ms)
        base = not (self._base_initialized or chosen.request.properties.is_savepoint)
        self._base_initialized |= base
        self._context.emit(
            commands.InitializeLocation(
                checkpoint_id=event.checkpoint_id,
                properties=chosen.request.properties,
                target=chosen.request.target,
                initialize_base=base,
            )
        )

    def _pending(self, chosen: Chosen, checkpoint_id: int) -> PendingCheckpoint:
        """Create the pending checkpoint of a request, with its statistics. Flink: `createPendingCheckpoint`."""
        plan, properties = chosen.plan, chosen.request.properties
        tasks = (*plan.tasks_to_wait_for, *plan.finished_tasks)
        parallelism = {task.vertex.name: task.parallelism for task in tasks}
        stats = self._ledger.statistics.begin(checkpoint_id, chosen.timestamp_ms, properties, parallelism)
        for task in plan.finished_tasks:
            stats.report(task.vertex.name, task.subtask_index, self._context.at, FINISHED_METRICS)
        return create_pending_checkpoint(
            self._job.graph.job_graph.parts.pending_checkpoint,
            checkpoint_id,
            chosen.timestamp_ms,
            plan,
            chosen.request,
            self._job.operator_coordinators,
            self._job.hooks,
            stats,
        )

    @handles(events.CheckpointIdFailed)
    def on_id_failed(self, event: events.CheckpointIdFailed) -> None:
        """Give up the request, because no id could be allocated."""
        self.give_up(CheckpointException(CheckpointFailureReason.IO_EXCEPTION, event.error, event.may_pass))

    def give_up(self, why: CheckpointException) -> None:
        """Stop waiting for an id; once there is a pending checkpoint, abort that instead."""
        chosen, self._chosen = self._chosen, None
        if chosen is not None:
            self._ledger.fail_request(chosen.request, why)

    # --- from the location to the tasks -----------------------------------------------------------------------------

    def _on_its_way(self, checkpoint_id: int) -> PendingCheckpoint | None:
        """Return the checkpoint being triggered, if it is this one."""
        checkpoint = self._ledger.pending.get(checkpoint_id)
        return checkpoint if checkpoint is not None and checkpoint.state.is_triggering else None

    @handles(events.LocationInitialized)
    def on_location_initialized(self, event: events.LocationInitialized) -> None:
        """Give the operator coordinators their turn, now that the directory exists; a late directory is deleted.

        Flink: `OperatorCoordinatorCheckpoints.triggerAndAcknowledgeAllCoordinatorCheckpointsWithCompletion` and
        `triggerAllCoordinatorCheckpoints`.
        """
        ledger, checkpoint_id = self._ledger, event.checkpoint_id
        checkpoint = ledger.pending.get(checkpoint_id)
        if checkpoint is None and not ledger.is_completed(checkpoint_id):
            ledger.clean(commands.DiscardState(paths=(), location=event.location, checkpoint_id=checkpoint_id))
        if checkpoint is None or checkpoint.state is not CheckpointState.LOCATING:
            return
        checkpoint.located(event.location)
        for operator_id in checkpoint.not_yet_acked_coordinators:
            self._context.emit(
                commands.ScheduleCoordinatorCheckpoint(checkpoint_id=checkpoint_id, operator_id=operator_id)
            )
        self._go_on(checkpoint)

    @handles(events.LocationFailed)
    def on_location_failed(self, event: events.LocationFailed) -> None:
        """Abort the checkpoint, because there is no directory."""
        self._abort(event.checkpoint_id, CheckpointException(event.reason, event.error, event.may_pass))

    def _abort(self, checkpoint_id: int, why: CheckpointException) -> None:
        checkpoint = self._on_its_way(checkpoint_id)
        if checkpoint is not None:
            self._ledger.abort(checkpoint, why)

    def expects_coordinator_snapshot(self, checkpoint_id: int, operator_id: str) -> bool:
        """Return True if the operator coordinator should take a snapshot now: its checkpoint is not over."""
        checkpoint = self._on_its_way(checkpoint_id)
        return checkpoint is not None and operator_id in checkpoint.not_yet_acked_coordinators

    def on_coordinator_snapshot(
        self, checkpoint_id: int, operator_id: str, state: bytes | None
    ) -> TaskAcknowledgeResult:
        """Take an operator coordinator's snapshot.

        Follows Flink's `OperatorCoordinatorCheckpoints`, which collects all snapshots in an
        `AllCoordinatorSnapshots` before it acknowledges any; here each is acknowledged when it comes.
        """
        checkpoint = self._on_its_way(checkpoint_id)
        if checkpoint is None:
            return TaskAcknowledgeResult.DISCARDED
        result = checkpoint.acknowledge_coordinator(operator_id, state)
        if result is TaskAcknowledgeResult.SUCCESS:
            note = CoordinatorAcknowledged(
                checkpoint_id=checkpoint_id, operator_id=operator_id, size_bytes=len(state or b"")
            )
            self._context.emit(note)
            self._go_on(checkpoint)
        return result

    def on_coordinator_snapshot_failed(self, checkpoint_id: int, operator_id: str, error: str) -> None:
        """Abort the checkpoint, because an operator coordinator could not take a snapshot."""
        detail = f"The coordinator of operator {operator_id} failed: {error}"
        self._abort(checkpoint_id, CheckpointException(CheckpointFailureReason.TRIGGER_CHECKPOINT_FAILURE, detail))

    @handles(events.MasterHookTriggered)
    def on_hook_triggered(self, event: events.MasterHookTriggered) -> None:
        """Take a master hook's state, or None."""
        checkpoint = self._on_its_way(event.checkpoint_id)
        if checkpoint is None:
            return
        state = None if event.state is None else MasterState(event.hook, event.version, event.state)
        if checkpoint.acknowledge_hook(event.hook, state) is TaskAcknowledgeResult.SUCCESS:
            note = MasterHookAcknowledged(
                checkpoint_id=event.checkpoint_id, hook=event.hook, size_bytes=len(event.state or b"")
            )
            self._context.emit(note)
            self._go_on(checkpoint)

    @handles(events.MasterHookFailed)
    def on_hook_failed(self, event: events.MasterHookFailed) -> None:
        """Abort the checkpoint, if it is not over, because a master hook failed."""
        reason = CheckpointFailureReason.TRIGGER_CHECKPOINT_FAILURE
        self._abort(event.checkpoint_id, CheckpointException(reason, event.error, event.may_pass))

    def _go_on(self, checkpoint: PendingCheckpoint) -> None:
        """Take the steps that the last answer has made possible."""
        if checkpoint.state is CheckpointState.COORDINATORS and not checkpoint.not_yet_acked_coordinators:
            checkpoint.step(CheckpointEvent.COORDINATORS_ACKED)
            self._trigger_hooks(checkpoint)
        if checkpoint.state is CheckpointState.HOOKS and not checkpoint.not_yet_acked_hooks:
            checkpoint.step(CheckpointEvent.HOOKS_ACKED)
        if checkpoint.state is CheckpointState.TRIGGERING and not self._awaits_leaving(checkpoint.plan):
            self._trigger_tasks(checkpoint)

    def go_on(self) -> None:
        """Trigger the checkpoint if it only waited for a task to finish; called when one has finished."""
        checkpoint = self._ledger.triggering
        if checkpoint is not None:
            self._go_on(checkpoint)

    def _trigger_hooks(self, checkpoint: PendingCheckpoint) -> None:
        """Call every master hook; without any, continue with the tasks. Flink: `snapshotMasterState`."""
        for hook in self._job.hooks:
            self._context.emit(
                commands.TriggerMasterHook(
                    checkpoint_id=checkpoint.checkpoint_id, hook=hook, timestamp_ms=checkpoint.timestamp_ms
                )
            )

    def _awaits_leaving(self, plan: CheckpointPlan) -> bool:
        """Return True if a task to be triggered is about to finish: its trigger would be late and fail the checkpoint.

        An aligned barrier would have to wait for the same data as the task's end; a barrier that overtakes does not
        wait.
        """
        leaving = self._ledger.leaving
        return not self._job.config.unaligned and any(
            task.task in leaving and self._is_running(task.task, plan.attempts) for task in plan.tasks_to_trigger
        )

    def _trigger_tasks(self, checkpoint: PendingCheckpoint) -> None:
        """Trigger the sources: everything else has acknowledged.

        Flink: `triggerCheckpointRequest`, in 1.11 `snapshotTaskState`; then `onTriggerSuccess`.
        """
        plan = checkpoint.plan
        gone = [task.task for task in plan.tasks_to_trigger if not self._is_running(task.task, plan.attempts)]
        if gone:
            try:
                plan = self._plan_again(checkpoint, gone)
            except CheckpointException as why:
                self._ledger.abort(checkpoint, why)
                return
        options = self._options(checkpoint)
        for task in plan.tasks_to_trigger:
            self._context.emit(
                TriggerTaskCheckpoint(
                    task=task.task,
                    attempt=plan.attempts.of(task.task),
                    checkpoint_id=checkpoint.checkpoint_id,
                    timestamp_ms=checkpoint.timestamp_ms,
                    options=options,
                )
            )
            self._context.coordinators.open_gate(task.task, checkpoint.checkpoint_id)
        checkpoint.step(CheckpointEvent.TRIGGERED)
        note = CheckpointTriggered(
            checkpoint_id=checkpoint.checkpoint_id, tasks=plan.names_to_trigger, alignment=options.alignment.name
        )
        self._context.emit(note)
        self._completion.on_acknowledged(checkpoint)

    def _plan_again(self, checkpoint: PendingCheckpoint, gone: Sequence[str]) -> CheckpointPlan:
        """Replace the plan after tasks have finished while coordinators and hooks were asked.

        No task has been triggered yet, so the checkpoint continues without them. Raises CheckpointException if it
        cannot. Flink triggers the tasks of its first plan, and such a checkpoint fails.
        """
        context, attempts = self._context, checkpoint.plan.attempts
        plan = None
        if context.attempts == attempts and all(
            context.execution_state(task) is ExecutionState.FINISHED for task in gone
        ):
            plan = self._job.plan_calculator.calculate(attempts, context.execution_state)
        if plan is None or not plan.tasks_to_wait_for:
            raise CheckpointException(
                CheckpointFailureReason.TRIGGER_CHECKPOINT_FAILURE,
                f"{', '.join(gone)} stopped running before the checkpoint reached it.",
            )
        for task in checkpoint.plan_again(plan):
            checkpoint.stats.report(task.vertex.name, task.subtask_index, context.at, FINISHED_METRICS)
        note = CheckpointPlannedAgain(
            checkpoint_id=checkpoint.checkpoint_id,
            gone=gone,
            tasks=checkpoint.tasks,
            finished=len(plan.finished_tasks),
            trigger=plan.names_to_trigger,
        )
        context.emit(note)
        return plan

    def _is_running(self, task: str, attempts: Attempts) -> bool:
        context = self._context
        return (
            context.attempts.of(task) == attempts.of(task) and context.execution_state(task) is ExecutionState.RUNNING
        )

    def _options(self, checkpoint: PendingCheckpoint) -> CheckpointOptions:
        """Return the options in this checkpoint's barriers. Flink: `CheckpointOptions.forConfig`."""
        config = self._job.config
        properties = checkpoint.properties
        full = self._ledger.force_full_snapshot and not properties.is_savepoint
        return CheckpointOptions.for_config(
            FULL_CHECKPOINT if full else properties.snapshot_type,
            checkpoint.location or "",
            exactly_once=config.exactly_once,
            unaligned=config.unaligned,
            aligned_timeout_ms=config.aligned_timeout_ms,
        )

    def __repr__(self) -> str:
        under_way = self._ledger.triggering or (self._chosen and self._chosen.request.label) or "nothing"
        return f"CheckpointTrigger({under_way} on its way to the tasks)"
