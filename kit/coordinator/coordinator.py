"""The CheckpointCoordinator: decides when a checkpoint is taken, collects what the tasks report, and ends it.

Its parts each live in a file of their own: `PeriodicTrigger` (the timer), `CheckpointRequestDecider` (which request,
when), `CheckpointTrigger` (the steps until the tasks are triggered), `PendingCheckpoint` (who has acked),
`CheckpointCompletion` (metadata, store, confirmation), `CheckpointFailureManager`, `CompletedCheckpointStore` with the
`SharedStateRegistry`, and the `CheckpointStatsTracker`. The coordinator joins them: acks and declines, aborts, the end
of the job.

It belongs to the JobMaster, which gives it events (`handle`, or the `on_...` methods) and a `CoordinatorContext`.
What follows from an event but has to wait until it is dealt with (the next queued request, failing the job) is done at
the end of the outermost call, in order; in Flink that is a task posted to the coordinator's timer thread.

Follows Flink 2.x's `CheckpointCoordinator`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from kit.coordinator.completing import CheckpointCompletion
from kit.coordinator.context import CoordinatorContext
from kit.coordinator.failure_manager import CheckpointFailureManager
from kit.coordinator.pending_checkpoint import PendingCheckpoint, TaskAcknowledgeResult
from kit.coordinator.periodic import PERIODIC_TIMER, PeriodicTrigger
from kit.coordinator.plan import CheckpointPlanCalculator
from kit.coordinator.request_decider import CheckpointRequestDecider, CheckpointTriggerRequest
from kit.coordinator.restoring import CheckpointRestore
from kit.coordinator.shared_state_registry import private_files, register_shared_state
from kit.coordinator.statistics import DEFAULT_HISTORY, CheckpointStatsTracker
from kit.coordinator.store import CompletedCheckpointStore, Removal
from kit.coordinator.triggering import CheckpointTrigger, timeout_timer
from kit.graph.execution_graph import ExecutionGraph
from kit.graph.settings import CheckpointCoordinatorConfiguration
from kit.protocol import events
from kit.protocol.commands import CancelTimer, CompleteRequest, DiscardState, Note, RemoveStored
from kit.protocol.messages import (
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    NotifyCheckpointAborted,
    ReportCheckpointMetrics,
)
from kit.protocol.notes import NoteKind
from kit.protocol.properties import FULL_CHECKPOINT, CheckpointProperties
from kit.protocol.reasons import CheckpointException, CheckpointFailureReason
from kit.protocol.tasks import ExecutionState, split_task_name
from kit.protocol.words import ProtocolError, Word
from kit.state.operator_state import TaskStateSnapshot

REMEMBERED_EXPIRED = 16
"""So many expired checkpoints are remembered to tell late acks from stray ones (`NUM_GHOST_CHECKPOINT_IDS`)."""
REMEMBERED_COMPLETED = 256
"""So many completed ones, to know a repeated ack from one whose files nobody needs."""
LONG_AGO_MS = -(2**62)
"""When the last checkpoint completed, before any has."""

P = ParamSpec("P")
R = TypeVar("R")


def _entry(
    method: Callable[Concatenate[CheckpointCoordinator, P], R],
) -> Callable[Concatenate[CheckpointCoordinator, P], R]:
    """Mark a method as called from outside: what was put off is done when the outermost one is through."""

    @wraps(method)
    def call(self: CheckpointCoordinator, *args: P.args, **kwargs: P.kwargs) -> R:
        self._depth += 1
        try:
            result = method(self, *args, **kwargs)
            while self._depth == 1 and self._later:
                self._later.popleft()()
            return result
        finally:
            self._depth -= 1

    return cast("Callable[Concatenate[CheckpointCoordinator, P], R]", call)


class CheckpointCoordinator:
    """The coordinator of one job.

    `graph` is the job as it runs now; `operator_coordinators` are the ids of the operators that have a coordinator;
    `hooks` the identifiers of the master hooks, which the host holds. `config` and `store` default to what the job's
    settings say.
    """

    def __init__(
        self,
        job_id: str,
        graph: ExecutionGraph,
        context: CoordinatorContext,
        *,
        operator_coordinators: Sequence[str] = (),
        hooks: Sequence[str] = (),
        config: CheckpointCoordinatorConfiguration | None = None,
        store: CompletedCheckpointStore | None = None,
        max_history: int = DEFAULT_HISTORY,
    ) -> None:
        settings = graph.job_graph.settings
        self.job_id = job_id
        self.context = context
        self.config = config or settings.coordinator
        self.hooks = tuple(hooks)
        self.store = store or CompletedCheckpointStore(
            settings.checkpoint.max_retained, is_durable=settings.checkpoint.is_durable
        )
        self.periodic = PeriodicTrigger(self)
        self.cleaning = 0
        """Checkpoints that the host is deleting; while they are too many no new one begins."""
        self.pending: dict[int, PendingCheckpoint] = {}
        self.statistics = CheckpointStatsTracker(max_history)
        self.decider = CheckpointRequestDecider(
            self.config.max_concurrent, self.config.min_pause_ms, self._refuse, self.periodic.reschedule
        )
        self.failure_manager = CheckpointFailureManager(
            self.config.tolerable_failures, self.fail_job, self._fail_job_due_to_task_failure
        )
        self.trigger = CheckpointTrigger(self)
        self.completion = CheckpointCompletion(self)
        self.restore = CheckpointRestore(self)
        self.properties = CheckpointProperties.for_checkpoint(self.config.retention)
        self.is_periodic_scheduling = False
        self.is_shut_down = False
        self.job_status = ""
        self.force_full_snapshot = False
        self.leaving: set[str] = set()
        """Tasks of this epoch that finish as soon as they hear that their last checkpoint is complete."""
        self.took_last_checkpoint = False
        """Whether all tasks leave, so that another checkpoint could not complete."""
        self.last_completion_ms = LONG_AGO_MS
        self.recently_expired: deque[int] = deque(maxlen=REMEMBERED_EXPIRED)
        self._recently_completed: deque[int] = deque(maxlen=REMEMBERED_COMPLETED)
        self._requests = 0
        self._depth = 0
        self._later: deque[Callable[[], None]] = deque()
        self._coordinator_ids = tuple(operator_coordinators)
        self._take_graph(graph)

    def _take_graph(self, graph: ExecutionGraph) -> None:
        self.plan_calculator = CheckpointPlanCalculator(
            graph, allow_finished_tasks=self.config.checkpoints_after_tasks_finish
        )
        vertices = graph.job_graph.vertices
        self.operator_order = tuple(operator_id for vertex in vertices for operator_id in vertex.operator_ids)
        self.operator_coordinators = {
            operator_id: graph.vertex_tasks(graph.job_graph.vertex_of(operator_id).name)[0]
            for operator_id in self._coordinator_ids
        }

    @_entry
    def use_graph(self, graph: ExecutionGraph) -> None:
        """The job is deployed anew, with these parallelisms: whatever its earlier tasks had begun is over."""
        why = CheckpointException(CheckpointFailureReason.JOB_FAILOVER_REGION, "The job is deployed anew.")
        self.trigger.give_up(why)
        for checkpoint in list(self.pending.values()):
            self.abort(checkpoint, why)
        self.leaving, self.took_last_checkpoint = set(), False
        self._take_graph(graph)

    # --- events ---------------------------------------------------------------------------------------------------

    @_entry
    def handle(self, event: Word) -> None:
        """Take one of the events in the table at the end of this file."""
        handler = _HANDLERS.get(type(event))
        if handler is None:
            raise ProtocolError(f"the coordinator cannot handle {type(event).__name__}")
        handler(self, event)

    def _on_timer(self, event: events.TimerFired) -> None:
        """A timer fired: a checkpoint expires, or a periodic one is due. Others' timers and late ones are ignored."""
        if event.timer == PERIODIC_TIMER:
            self.periodic.on_timer()
        for checkpoint in self.pending.values():
            if event.timer == timeout_timer(checkpoint.checkpoint_id) and not checkpoint.is_disposed:
                self.abort(checkpoint, CheckpointException(CheckpointFailureReason.CHECKPOINT_EXPIRED))
                return

    @_entry
    def on_coordinator_snapshot(
        self, checkpoint_id: int, operator_id: str, state: bytes | None
    ) -> TaskAcknowledgeResult:
        """The operator coordinator of `operator_id` gave its bytes, None when it has none."""
        return self.trigger.on_coordinator_snapshot(checkpoint_id, operator_id, state)

    @_entry
    def on_coordinator_snapshot_failed(self, checkpoint_id: int, operator_id: str, error: str) -> None:
        """The operator coordinator of `operator_id` could not take a snapshot."""
        self.trigger.on_coordinator_snapshot_failed(checkpoint_id, operator_id, error)

    def expects_coordinator_snapshot(self, checkpoint_id: int, operator_id: str) -> bool:
        """To be asked at `CheckpointOperatorCoordinator`: False when the checkpoint is over already."""
        return self.trigger.expects_coordinator_snapshot(checkpoint_id, operator_id)

    # --- periodic checkpoints -------------------------------------------------------------------------------------

    @_entry
    def start_checkpoint_scheduler(self) -> None:
        """Begin periodic checkpoints, the first one an interval from now.

        Raises ProtocolError after shutdown, and for a job without an interval.
        """
        if self.is_shut_down:
            raise ProtocolError("the checkpoint coordinator is shut down")
        if not self.config.is_periodic:
            raise ProtocolError("the job has no checkpoint interval: set `interval_ms`, or ask for each checkpoint")
        if self.is_periodic_scheduling:
            self.stop_checkpoint_scheduler()
        self.is_periodic_scheduling = True
        self.periodic.start()

    @_entry
    def stop_checkpoint_scheduler(self, why: str = "") -> None:
        """End periodic checkpoints; abort what is pending and queued (CHECKPOINT_COORDINATOR_SUSPEND)."""
        self.is_periodic_scheduling = False
        self.periodic.cancel()
        self._abort_all(CheckpointException(CheckpointFailureReason.CHECKPOINT_COORDINATOR_SUSPEND, why))

    def tasks_leave(self, checkpoint: PendingCheckpoint) -> None:
        """The checkpoint is complete, and those of its tasks that had processed all their input finish now.

        When these are all, the checkpoint was the last one: no periodic one follows, which could only fail. Flink
        begins another one all the same.
        """
        self.leaving |= checkpoint.ended_tasks
        if checkpoint.ended_tasks == checkpoint.acked_tasks.keys():
            self.took_last_checkpoint = True
            self.stop_checkpoint_scheduler("All tasks have come to the end of their input: the job finishes by itself.")

    @_entry
    def task_finished(self) -> None:
        """A task has finished: a checkpoint that waits for that is triggered."""
        self.trigger.go_on()

    @_entry
    def set_is_processing_backlog(self, operator_id: str, is_processing: bool) -> None:
        """A source reports whether it works off a backlog: then the other interval holds."""
        self.periodic.set_is_processing_backlog(operator_id, is_processing)

    def request_periodic(self) -> None:
        """The timer wants a checkpoint."""
        self._request(self.properties, periodic=True)

    # --- requests -------------------------------------------------------------------------------------------------

    def _on_request_checkpoint(self, event: events.RequestCheckpoint) -> None:
        properties = self.properties
        if event.full:
            properties = replace(properties, snapshot_type=FULL_CHECKPOINT)
        self._request(properties, request_id=event.request_id)

    def _on_request_savepoint(self, event: events.RequestSavepoint) -> None:
        properties = CheckpointProperties.for_savepoint(forced=not self.config.unaligned, fmt=event.fmt)
        self._request(properties, request_id=event.request_id, target=event.target)

    def _on_request_stop(self, event: events.RequestStop) -> None:
        properties = CheckpointProperties.for_sync_savepoint(
            forced=not self.config.unaligned, terminate=event.drain, fmt=event.fmt
        )
        self._request(properties, request_id=event.request_id, target=event.target)

    def _request(self, properties: CheckpointProperties, **facts: Any) -> None:
        self._requests += 1
        request = CheckpointTriggerRequest(properties, self.context.at, self._requests, **facts)
        if self.decider.add(request):
            self.execute_queued_request()
        if request in self.decider.queue:
            position = self.decider.queue.index(request)
            self.note("RequestQueued", request=request.label, position=position, pending=len(self.pending))

    def execute_queued_request(self) -> None:
        """Start the next request, if one may start now."""
        request = self.decider.choose(
            now_ms=self.context.at,
            pending=len(self.pending),
            is_triggering=self.trigger.is_triggering,
            last_completion_ms=self.last_completion_ms,
            cleaning=self.cleaning,
        )
        if request is not None:
            self.trigger.start(request)

    def execute_queued_request_later(self) -> None:
        """The same once the event at hand is dealt with (`scheduleTriggerRequest`)."""
        if not self.is_shut_down:
            self._later.append(self.execute_queued_request)

    def _refuse(self, request: CheckpointTriggerRequest, why: CheckpointException) -> None:
        self.note("RequestRefused", request=request.label, reason=why.reason.name, detail=str(why))
        self.answer_with_error(request, why)

    def answer_with_error(self, request: CheckpointTriggerRequest, why: CheckpointException) -> None:
        """Tell the user, if it was one who asked."""
        if request.request_id is not None:
            self.context.emit(CompleteRequest(request_id=request.request_id, error=str(why)))

    # --- what tasks report ----------------------------------------------------------------------------------------

    def _on_acknowledge(self, event: AcknowledgeCheckpoint) -> None:
        if self.is_shut_down:
            return
        if event.job_id != self.job_id:
            self._note_ignored(event, "WRONG_JOB", 0)
            return
        checkpoint = self.pending.get(event.checkpoint_id)
        if checkpoint is None and self.is_completed(event.checkpoint_id):
            self._note_ignored(event, "COMPLETED", 0)
            return
        registers = checkpoint is None or not checkpoint.properties.is_savepoint
        snapshot = event.state
        if snapshot is not None and registers:
            try:
                snapshot = register_shared_state(self.store.registry, snapshot, event.checkpoint_id)
            except ValueError as error:
                self._decline(event.checkpoint_id, event.task, CheckpointFailureReason.CHECKPOINT_DECLINED, str(error))
                return
        if checkpoint is None:
            self._report_metrics(event)
            late = event.checkpoint_id in self.recently_expired
            self._ignore(event, "EXPIRED" if late else "UNKNOWN_CHECKPOINT", snapshot, shared_is_registered=True)
            return
        result = checkpoint.acknowledge_task(event.task, event.attempt, snapshot)
        if result is TaskAcknowledgeResult.SUCCESS:
            self._acknowledged(checkpoint, event)
        elif result is TaskAcknowledgeResult.DUPLICATE:
            self._note_ignored(event, result.name, 0)
        else:
            self._ignore(event, result.name, snapshot, shared_is_registered=registers)

    def _acknowledged(self, checkpoint: PendingCheckpoint, event: AcknowledgeCheckpoint) -> None:
        task = checkpoint.acked_tasks[event.task]
        checkpoint.stats.report(task.vertex.name, task.subtask_index, self.context.at, event.metrics)
        self.note(
            "TaskAcknowledged",
            event.checkpoint_id,
            task=event.task,
            acked=len(checkpoint.acked_tasks),
            tasks=checkpoint.tasks,
            size_bytes=event.metrics.bytes_persisted,
        )
        if checkpoint.is_fully_acknowledged:
            self.completion.on_fully_acknowledged(checkpoint)

    def _ignore(
        self,
        event: AcknowledgeCheckpoint,
        result: str,
        snapshot: TaskStateSnapshot | None,
        *,
        shared_is_registered: bool,
    ) -> None:
        files: Iterable[str] = ()
        if snapshot is not None:
            states = snapshot.subtask_states.values()
            files = (
                file for state in states for file in (private_files(state) if shared_is_registered else state.files())
            )
        paths = tuple(dict.fromkeys(files))
        self._note_ignored(event, result, len(paths))
        if paths:
            self.context.emit(DiscardState(paths=paths, checkpoint_id=event.checkpoint_id))

    def _note_ignored(self, event: AcknowledgeCheckpoint, result: str, discarded: int) -> None:
        self.note(
            "AcknowledgeIgnored",
            event.checkpoint_id,
            task=event.task,
            attempt=event.attempt,
            result=result,
            discarded=discarded,
        )

    def _on_decline(self, event: DeclineCheckpoint) -> None:
        if not self.is_shut_down and event.job_id == self.job_id:
            has_finished = self.context.execution_state(event.task) is ExecutionState.FINISHED
            why = (
                f"{event.task} had finished before the checkpoint reached it: ask for another." if has_finished else ""
            )
            self._decline(event.checkpoint_id, event.task, event.reason, event.detail or why)

    def _decline(self, checkpoint_id: int, task: str, reason: CheckpointFailureReason, detail: str) -> None:
        checkpoint = self.pending.get(checkpoint_id)
        if checkpoint is not None:
            self.abort(checkpoint, CheckpointException(reason, detail), task)

    def _on_report_metrics(self, event: ReportCheckpointMetrics) -> None:
        if event.job_id == self.job_id:
            self._report_metrics(event)

    def _report_metrics(self, event: ReportCheckpointMetrics | AcknowledgeCheckpoint) -> None:
        vertex, subtask = split_task_name(event.task)
        self.statistics.report_incomplete(event.checkpoint_id, vertex, subtask, self.context.at, event.metrics)

    # --- aborting -------------------------------------------------------------------------------------------------

    def abort(self, checkpoint: PendingCheckpoint, why: CheckpointException, task: str | None = None) -> None:
        """End a pending checkpoint without completing it (`abortPendingCheckpoint`); `task` is to blame for it."""
        if checkpoint.is_disposed:
            return
        checkpoint_id = checkpoint.checkpoint_id
        checkpoint.abort(why)
        del self.pending[checkpoint_id]
        self.note_aborted(checkpoint, why, task)
        self.context.emit(CancelTimer(timer=timeout_timer(checkpoint_id)))
        self.answer_with_error(checkpoint.request, why)
        if not self.completion.forget(checkpoint):
            paths, location = checkpoint.files_to_discard(), checkpoint.location
            if paths or location:
                self.clean(DiscardState(paths=paths, location=location, checkpoint_id=checkpoint_id))
        self.report_failure(checkpoint, why, task)
        self.send_aborted(checkpoint)
        if why.reason is CheckpointFailureReason.CHECKPOINT_EXPIRED:
            self.recently_expired.append(checkpoint_id)
        self.trigger.forget(checkpoint)
        self._later.append(self.completion.begin_next)
        self.execute_queued_request_later()

    def note_aborted(self, checkpoint: PendingCheckpoint, why: CheckpointException, task: str | None = None) -> None:
        """Tell the trace."""
        self.note(
            "CheckpointAborted",
            checkpoint.checkpoint_id,
            reason=why.reason.name,
            detail=str(why),
            task=task,
            acked=len(checkpoint.acked_tasks),
            tasks=checkpoint.tasks,
        )

    def report_failure(self, checkpoint: PendingCheckpoint, why: CheckpointException, task: str | None = None) -> None:
        """Tell statistics and failure manager."""
        self.statistics.failed(checkpoint.stats, self.context.at, str(why))
        self.failure_manager.handle_failure(checkpoint.properties, why, checkpoint.checkpoint_id, task)

    def send_aborted(self, checkpoint: PendingCheckpoint) -> None:
        """Tell tasks and operator coordinators that a checkpoint will not complete (`sendAbortedMessages`)."""
        latest_id = self.store.latest_id
        for task in checkpoint.plan.tasks_to_commit_to:
            self.context.emit(
                NotifyCheckpointAborted(
                    task=task.task,
                    attempt=checkpoint.plan.attempt,
                    checkpoint_id=checkpoint.checkpoint_id,
                    timestamp_ms=checkpoint.timestamp_ms,
                    latest_completed_id=latest_id,
                )
            )
        self.context.coordinators.notify_aborted(checkpoint.checkpoint_id)

    @_entry
    def abort_pending_checkpoints(self, reason: CheckpointFailureReason, detail: str = "") -> None:
        """End all pending checkpoints, but for one that is being stored; queued requests stay."""
        for checkpoint in list(self.pending.values()):
            self.abort(checkpoint, CheckpointException(reason, detail))

    def drop_subsumed(self, checkpoint_id: int) -> None:
        """End pending checkpoints that are older than a completed one (`dropSubsumedCheckpoints`)."""
        for checkpoint in list(self.pending.values()):
            if checkpoint.checkpoint_id < checkpoint_id and checkpoint.can_be_subsumed:
                why = CheckpointException(CheckpointFailureReason.CHECKPOINT_SUBSUMED, f"By {checkpoint_id}.")
                self.abort(checkpoint, why)

    def _abort_all(self, why: CheckpointException) -> None:
        self.decider.abort_all(why)
        for checkpoint in list(self.pending.values()):
            self.abort(checkpoint, why)

    def fail_job(self, error: str, checkpoint_id: int) -> None:
        """Fail the job over, once the event at hand is dealt with."""
        self._later.append(partial(self.context.fail_job, error, checkpoint_id if checkpoint_id >= 0 else None))

    def _fail_job_due_to_task_failure(self, error: str, task: str) -> None:
        self._later.append(partial(self.context.fail_job_due_to_task_failure, error, task))

    # --- the end --------------------------------------------------------------------------------------------------

    @_entry
    def shut_down(self, job_status: str) -> None:
        """The job has ended in `job_status` (FINISHED, CANCELED, FAILED, SUSPENDED): abort what is pending, keep or
        delete what is completed, as its properties say.
        """
        if self.is_shut_down:
            return
        self.is_shut_down, self.job_status = True, job_status
        self.is_periodic_scheduling = False
        self.periodic.cancel()
        why = CheckpointException(CheckpointFailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN)
        self.trigger.give_up(why)
        self._abort_all(why)
        self.discard(self.store.shut_down(job_status))

    # --- small things ---------------------------------------------------------------------------------------------

    def discard(self, removals: Iterable[Removal], kind: NoteKind = "CheckpointDiscarded") -> None:
        """Delete what the store no longer needs; `kind` is what to call it in the trace."""
        for removal in removals:
            if isinstance(removal, RemoveStored):
                self.context.emit(removal)
                continue
            if removal.checkpoint_id is not None:
                self.statistics.discarded(removal.checkpoint_id)
                self.note(kind, removal.checkpoint_id)
            self.clean(removal)

    def clean(self, discard: DiscardState) -> None:
        """Have the host delete something in the background; a whole checkpoint counts until it is gone
        (`CheckpointsCleaner`).
        """
        self.cleaning += discard.location is not None
        self.context.emit(discard)

    def _on_discarded(self, event: events.StateDiscarded) -> None:
        self.cleaning -= 1
        self.execute_queued_request_later()

    def remember_completed(self, checkpoint_id: int) -> None:
        """A checkpoint completed: its acks may come twice, its files are not to be touched."""
        self._recently_completed.append(checkpoint_id)

    def is_completed(self, checkpoint_id: int) -> bool:
        """Whether the checkpoint completed, as far as is remembered."""
        return checkpoint_id in self._recently_completed or any(
            checkpoint.checkpoint_id == checkpoint_id for checkpoint in self.store.checkpoints
        )

    @property
    def is_storing(self) -> bool:
        """Whether it is open if a checkpoint stands: a restore should wait for the answer to `StoreCheckpoint`."""
        return self.completion.is_storing

    def note(self, kind: NoteKind, checkpoint_id: int | None = None, **data: Any) -> None:
        """Tell the trace."""
        self.context.emit(Note(kind=kind, checkpoint_id=checkpoint_id, data=data))

    def validate(self) -> None:
        """Check the invariants of the coordinator and its parts; raises AssertionError with names."""
        for checkpoint_id, checkpoint in self.pending.items():
            assert checkpoint_id == checkpoint.checkpoint_id, f"{checkpoint!r} is filed under {checkpoint_id}"
            checkpoint.validate()
        retained = {checkpoint.checkpoint_id for checkpoint in self.store.checkpoints}
        assert not retained & self.pending.keys(), f"pending and completed: {sorted(retained & self.pending.keys())}"
        unforced = [checkpoint for checkpoint in self.pending.values() if not checkpoint.properties.forced]
        most = self.config.max_concurrent
        assert len(unforced) <= most, f"{len(unforced)} checkpoints pending at once, at most {most} may be: {unforced}"
        current = self.trigger.current
        if current is not None and current.checkpoint is not None:
            assert self.pending.get(current.checkpoint.checkpoint_id) is current.checkpoint, "triggers what is gone"
        assert self.cleaning >= 0, f"{-self.cleaning} more checkpoints were deleted than were to be"
        assert self._depth or not self._later, "something was put off and forgotten"
        for part in (self.decider, self.failure_manager, self.store, self.completion):
            part.validate()

    def __repr__(self) -> str:
        pending = ", ".join(map(str, self.pending)) or "none"
        return f"CheckpointCoordinator({self.job_id}: pending {pending}; {self.store!r})"


_HANDLERS: dict[type[Word], Callable[[CheckpointCoordinator, Any], object]] = {
    events.TimerFired: CheckpointCoordinator._on_timer,
    events.RequestCheckpoint: CheckpointCoordinator._on_request_checkpoint,
    events.RequestSavepoint: CheckpointCoordinator._on_request_savepoint,
    events.RequestStop: CheckpointCoordinator._on_request_stop,
    events.CheckpointIdAllocated: lambda self, event: self.trigger.on_id_allocated(event),
    events.CheckpointIdFailed: lambda self, event: self.trigger.on_id_failed(event),
    events.LocationInitialized: lambda self, event: self.trigger.on_location_initialized(event),
    events.LocationFailed: lambda self, event: self.trigger.on_location_failed(event),
    events.MasterHookTriggered: lambda self, event: self.trigger.on_hook_triggered(event),
    events.MasterHookFailed: lambda self, event: self.trigger.on_hook_failed(event),
    events.MetadataWritten: lambda self, event: self.completion.on_metadata_written(event),
    events.MetadataFailed: lambda self, event: self.completion.on_metadata_failed(event),
    events.StateDiscarded: CheckpointCoordinator._on_discarded,
    events.CheckpointStored: lambda self, event: self.completion.on_stored(event),
    events.CheckpointStoreFailed: lambda self, event: self.completion.on_store_failed(event),
    AcknowledgeCheckpoint: CheckpointCoordinator._on_acknowledge,
    DeclineCheckpoint: CheckpointCoordinator._on_decline,
    ReportCheckpointMetrics: CheckpointCoordinator._on_report_metrics,
}
