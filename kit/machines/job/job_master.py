"""The JobMaster machine: one job, from its submission to its end.

It holds the execution graph and the state of every task, the `CheckpointCoordinator` and its parts, the operator
coordinators and the restart strategy. It decides when tasks are deployed, when the job has failed, and what it resumes
from. Each deployment of all tasks is an *epoch*, counted from 1. Late messages of an earlier attempt of a task are
dropped here.

Its life is a sequence of phases (`kit.machines.job.status`). After each event it proceeds as far as its phase allows:

    STARTING      waits for splits and for the state to start from (`kit.machines.job.starting`), then restores
    RESTORING     assigns the latest checkpoint's state, waits for the master hooks, then deploys
    RUNNING       until all tasks have finished, something fails, or the user ends it
    FAILING_OVER  some regions restart, and the other tasks run (`kit.machines.job.region_failover`)
    RESTARTING    waits for the workers to leave, the delay to pass, the store to answer, and for slots; then restores
    FINISHING ..  waits for the workers to leave and the store to answer, then ends
    SUSPENDING    another driver leads the job: waits for the workers to leave, then ends and deletes nothing

A failure takes this path: `TaskStateChanged(FAILED)` or `SlotLost` leads to `_on_failure`, which aborts pending
checkpoints, asks the restart strategy and emits `StopEpoch`. After `EpochEnded` and the delay, `_restore` and
`_deploy_when_restored` reset the operator coordinators and emit `StartEpoch` and a `DeployTask` for every task. A
failure that recurs ends the job (`kit.machines.job.failures`). Unless `failover="full"`, only the regions that a
failure affects restart, if others are left (`kit.machines.job.region_failover`).

A rescale takes the same path as a failure of the whole job, but the restart strategy is not asked, and another
execution graph is deployed (`kit.machines.job.rescaling`). Before that the latest checkpoint's state is assigned to the
new graph, as a test: a parallelism that it does not allow is rejected.

Follows Flink's `JobMaster`, `SchedulerBase`, `DefaultScheduler`, `AdaptiveScheduler` and
`StopWithSavepointTerminationManager`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from kit.core.protocol import events
from kit.core.protocol.attempts import Attempts
from kit.core.protocol.commands import (
    CompleteRequest,
    DiscoverSplits,
    JobStatusChanged,
    RemoveOrphans,
    ScheduleTimer,
    StartEpoch,
    StartTasks,
    StopEpoch,
    StoreJobResult,
)
from kit.core.protocol.messages import (
    AcknowledgeCheckpoint,
    DeployTask,
    OperatorEventToCoordinator,
    OperatorEventToTask,
    TaskStateChanged,
)
from kit.core.protocol.notes import AllTasksRunning
from kit.core.protocol.reasons import CheckpointFailureReason
from kit.core.protocol.tasks import ExecutionState, TaskRestore, task_name, vertex_of
from kit.core.protocol.words import Machine, ProtocolError, ProtocolMessage, handles
from kit.machines.coordinator.completed.completed_checkpoint import CompletedCheckpoint
from kit.machines.coordinator.coordinator import CheckpointCoordinator
from kit.machines.coordinator.statistics import CheckpointStatsTracker
from kit.machines.job.failures import FailureCause, RepeatedFailures, repeated_error
from kit.machines.job.last_checkpoint import LastCheckpoint
from kit.machines.job.leftovers import Leftovers, remove_orphans
from kit.machines.job.operator_coordinators import OperatorCoordinators
from kit.machines.job.region_failover import RegionFailover, RegionRestart
from kit.machines.job.rescaling import OWN_CHECKPOINT, Rescaling
from kit.machines.job.restart import create_restarts
from kit.machines.job.starting import Answer, JobStart, ended_before
from kit.machines.job.status import PHASES, JobEvent, JobStatus, Phase
from kit.machines.job.stopping import StopWithSavepoint
from kit.machines.job.task_restores import RestoredJob, Restoring, hold_in_flight_data, restore_job, restore_tasks
from kit.machines.job.task_table import TaskTable
from kit.stream.connectors.sink import SinkSpec
from kit.stream.graph.execution_graph import ExecutionGraph
from kit.stream.graph.job_graph import JobGraph
from kit.stream.graph.regions import Region
from kit.stream.operators.coordinator import NO_CHECKPOINT, Payload
from kit.stream.settings.job_settings import SettingError

RESTART_TIMER = "restart"
DISCOVERY_TIMER = "discover splits of "
"""The beginning of a timer's name; an operator id follows."""
WORKERS, DELAY, HOOKS, RESULT = "workers", "delay", "hooks", "result"
"""The events that a phase may wait for: the workers' end, the restart delay, the master hooks, the durable store."""
CHECKPOINT_HISTORY = 1_000
"""Ended checkpoints that the statistics keep: all of a run, for a table in a notebook. Flink's web UI keeps 10."""


class JobMaster(Machine):
    """The master of one job."""

    without_effect: ClassVar = frozenset({"restored_path"})

    def __init__(self, job: JobGraph, hooks: Sequence[str] = (), name: str = "job") -> None:
        super().__init__(name)
        self.job = job
        self.graph = ExecutionGraph(job)
        self.phase = Phase.STARTING
        self.error = ""
        self.attempts = Attempts()
        self.tasks = TaskTable()
        self.coordinators = OperatorCoordinators(job, self)
        self._failure: tuple[str, FailureCause | None] | None = None
        """An error that a part reported, and its cause: the job fails after the current event."""
        self.rescaling = Rescaling(job, self)
        self.checkpoints = CheckpointCoordinator(
            job.job_id,
            self.graph,
            self,
            operator_coordinators=tuple(self.coordinators),
            hooks=hooks,
            statistics=CheckpointStatsTracker(CHECKPOINT_HISTORY),
            listener=self.rescaling,
        )
        self._restarts = create_restarts(job.settings.restart, job.job_id)
        self._repeated = RepeatedFailures(job.settings)
        self.failover = RegionFailover(job.settings, self)
        self._restarts_deploying: list[RegionRestart] = []
        """The restarts of regions whose state is being restored."""
        self._failed_with_latest: int | None = None
        """The latest checkpoint at the last failure."""
        self._start = JobStart(self.graph, self.checkpoints, self.emit)
        self._awaited: set[str] = set()
        """The events that the phase waits for, besides a checkpoint that is being stored."""
        self._restoring: Restoring | None = None
        self._last_checkpoint = LastCheckpoint(self.checkpoints, self.emit)
        self._leftovers = Leftovers(self.checkpoints)
        self.restored_path = ""
        """The path of the checkpoint that the epoch was deployed from; "" for none."""
        self.stopping = StopWithSavepoint()
        self._held: list[events.RequestSavepoint | events.RequestStop] = []
        """Savepoints that were requested during a restart: they begin when all tasks run again."""

    @property
    def epoch(self) -> int:
        """The number of deployments of the whole job."""
        return self.attempts.epoch

    @property
    def restarts(self) -> int:
        """The number of restarts of the job, rescales included, and of regions of it."""
        return max(0, self.epoch - 1) + self.failover.count

    @property
    def all_running(self) -> bool:
        """True if every task runs or has finished, and nothing restarts or ends the job."""
        return self.phase is Phase.RUNNING and self.tasks.all_running

    @property
    def status(self) -> JobStatus:
        """The job's status, as its user sees it."""
        return self.phase.status

    @property
    def ending_as(self) -> JobStatus | None:
        """The status in which the job has ended, or will end once its workers have left; None while it may continue."""
        return self.phase.ending_as

    @property
    def is_rescaled(self) -> bool:
        """True if the workers leave for another parallelism, and not because of a failure."""
        return self.phase is Phase.RESTARTING and self.rescaling.is_under_way

    @property
    def _is_at_work(self) -> bool:
        """True if tasks run."""
        return self.phase in (Phase.RUNNING, Phase.FAILING_OVER)

    @property
    def _is_over(self) -> bool:
        """True if no task is left, or will soon be left, that could take part in a snapshot."""
        return self.ending_as is not None or (self.phase is Phase.RUNNING and self.tasks.all_finished)

    # --- from phase to phase --------------------------------------------------------------------------------------

    def parts(self) -> tuple[Any, ...]:
        """Return the JobMaster and, for the events that do not concern the job, the parts that handle them."""
        return self, self.failover, *self.checkpoints.parts()

    def handle(self, event: ProtocolMessage, at: int, cause: str = "") -> list[ProtocolMessage]:
        """Handle one event, and then proceed as far as the phase allows."""
        super().handle(event, at, cause)
        before = None
        while before is not self.phase or self._failure is not None:
            before = self.phase
            failure, self._failure = self._failure, None
            if failure is not None:
                self._on_failure(*failure)
            self.checkpoints.settle()
            if self.phase in _GO_ON:
                _GO_ON[self.phase](self)
        return self._commands

    def _enter(self, event: JobEvent, error: str = "", *, awaits: Iterable[str] = ()) -> None:
        """Take a transition of the table, into a phase that waits for `awaits`."""
        self._become(PHASES.follow(self, self.phase, event), error)
        self._awaited = set(awaits)

    def _become(self, phase: Phase, error: str) -> None:
        PHASES.check(self, self.phase, phase)
        before, self.phase = self.status, phase
        if self.status is before:
            return
        self.error = error
        self.emit(JobStatusChanged(status=self.status.name, error=error))
        if self.status.is_terminal:
            self.coordinators.close()
            self.rescaling.end(self.status.name)
            for request in self._held:
                self._refuse(
                    request.request_id, f"the savepoint waited for a restart, and the job is {self.status.name}"
                )
            self._held = []

    # --- the start ------------------------------------------------------------------------------------------------

    @handles(events.StartJob)
    def _start_job(self, event: events.StartJob) -> None:
        if self._start.event is not None:
            raise ProtocolError(f"job {self.job.name} was started before")
        try:
            self._start.begin(event, self.coordinators.needing_splits())
        except SettingError as error:
            self._cannot_begin(str(error))

    @handles(events.SplitsEnumerated)
    def _splits_enumerated(self, event: events.SplitsEnumerated) -> None:
        self.coordinators[event.operator_id].enumerated(event.splits)
        self._start.awaited.discard(event.operator_id)

    @handles(events.CheckpointsRecovered)
    def _recovered(self, event: events.CheckpointsRecovered) -> None:
        self.rescaling.recovered(event.parallelism, self.graph)
        self._learn(event)
        if event.status and self.phase is Phase.STARTING:
            self._end_in(Phase[event.status], ended_before(event), stays=event)

    @handles(events.SnapshotResolved, events.LaterOutputDiscarded, events.OrphansRemoved)
    def _learn(self, event: Answer) -> None:
        if self.phase is Phase.STARTING:
            try:
                self._start.take(event)
            except ValueError as error:
                self._cannot_begin(str(error))

    @handles(events.StartFailed)
    def _start_failed(self, event: events.StartFailed) -> None:
        if self.phase is Phase.STARTING:
            self._cannot_begin(event.error)

    def _cannot_begin(self, error: str) -> None:
        """End a job that cannot begin: nothing is deleted, not even a snapshot that the job would have claimed."""
        self.checkpoints.shut_down(JobStatus.CREATED.name)
        self._enter(JobEvent.CANNOT_BEGIN, error)

    def _start_when_all_is_known(self) -> None:
        if self._start.event is not None and not self._start.awaited and self.rescaling.has_slots():
            if any(isinstance(operator.spec, SinkSpec) for operator in self.job.operators):
                self.checkpoints.job.write_output_as(self._start.lineage)
            self._restore(JobEvent.KNOWN)

    # --- restoring and deploying ----------------------------------------------------------------------------------

    def _restore(self, event: JobEvent) -> None:
        """Restore the whole job from the latest checkpoint, or from scratch: assign its state, then restore the hooks.

        Flink: `SchedulerBase.restoreState` for a global recovery (`restoreLatestCheckpointedStateToAll`). Flink's
        `AdaptiveScheduler` always restores whole jobs. `_restore_regions` is the counterpart for some regions.
        """
        self._enter(event)
        self._take_slots()
        restore, allow = self.checkpoints.restore, self._start.allow_non_restored_state
        begins_from_snapshot = self._start.begins_from_snapshot and not self.epoch
        try:
            latest = restore.latest(error_if_no_checkpoint=begins_from_snapshot)
            restored = None if latest is None else self._assign_states(self.graph, latest)
            if restored is not None and latest is not None:
                self.emit(restored.note(self.epoch + 1, latest.location))
            has_hooks = restore.restore_hooks(latest, allow_non_restored_state=allow)
        except ValueError as error:
            self._dismiss_workers(JobEvent.FAIL_FOR_GOOD, str(error))
            return
        self._restoring = None if latest is None or restored is None else Restoring(latest, restored)
        self._awaited = {HOOKS} if has_hooks else set()

    def _assign_states(self, graph: ExecutionGraph, latest: CompletedCheckpoint) -> RestoredJob:
        """Return the checkpoint's state for the tasks of `graph`. Raises ValueError if it does not fit."""
        return restore_job(
            graph,
            latest.operator_states,
            latest.checkpoint_id,
            allow_non_restored_state=self._start.allow_non_restored_state,
        )

    @handles(events.MasterHooksRestored)
    def _hooks_restored(self, event: events.MasterHooksRestored) -> None:
        if self._awaits_hooks_of(event.checkpoint_id):
            self._awaited.discard(HOOKS)

    @handles(events.MasterHooksReset)
    def _hooks_reset(self, event: events.MasterHooksReset) -> None:
        if HOOKS in self._awaited and self._restoring is None:
            self._awaited.discard(HOOKS)
            if event.error:
                self._hooks_failed(event)

    def _awaits_hooks_of(self, checkpoint_id: int) -> bool:
        """Return True if the hooks are restoring this checkpoint and nothing has interrupted that."""
        restoring = self._restoring
        return HOOKS in self._awaited and restoring is not None and restoring.latest.checkpoint_id == checkpoint_id

    @handles(events.MasterHookFailed)
    def _hook_failed(self, event: events.MasterHookFailed) -> None:
        """Ask the restart strategy, as `DefaultScheduler.restartTasks` does; during the first start, fail the job."""
        if self._awaits_hooks_of(event.checkpoint_id):
            self._hooks_failed(event)
        else:
            self.checkpoints.handle(event)

    def _hooks_failed(self, event: events.MasterHookFailed | events.MasterHooksReset) -> None:
        cause = FailureCause.of_text("master hooks", event.error, may_pass=event.may_pass)
        self._on_failure(event.error, cause, recoverable=self.epoch > 0)

    def _deploy_when_restored(self) -> None:
        if self._awaited:
            return
        restoring, self._restoring = self._restoring, None
        latest = None if restoring is None else restoring.latest
        if restoring is not None:
            self.checkpoints.ledger.restored(restoring.latest)
            self.graph = restoring.job.graph
        self.checkpoints.use_graph(self.graph)
        self.attempts = self.attempts.of_next_epoch()
        self.coordinators.deploy(latest, self.graph.parallelism)
        if self.epoch == 1 and self._failure is not None:  # at the first start: a retry would fail again
            (error, _), self._failure = self._failure, None
            self._dismiss_workers(JobEvent.FAIL_FOR_GOOD, error)
            return
        self._enter(JobEvent.DEPLOYED)
        self.failover.deployed()
        self.tasks = TaskTable(task.task for task in self.graph.tasks)
        self.emit(
            StartEpoch(
                epoch=self.epoch,
                parallelism=self.graph.parallelism,
                max_parallelism=self.graph.max_parallelism,
                attempts=dict(self.attempts.restarted),
            )
        )
        self._deploy_tasks(self.tasks, {} if restoring is None else restoring.job.restores)
        self.restored_path = "" if latest is None else latest.location
        self.rescaling.deployed(self.graph.parallelism)

    def _deploy_tasks(self, tasks: Iterable[str], restores: Mapping[str, TaskRestore | None]) -> None:
        recovers_channels = hold_in_flight_data(restores.values())
        for task in tasks:
            restore = restores.get(task)
            self.emit(
                DeployTask(
                    task=task,
                    attempt=self.attempts.of(task),
                    restore=restore,
                    recovers_channels=recovers_channels,
                    lineage=self._start.lineage,
                )
            )

    # --- tasks ----------------------------------------------------------------------------------------------------

    @handles(TaskStateChanged)
    def _task_state_changed(self, message: TaskStateChanged) -> None:
        if not self._is_current(message.task, message.attempt) or not self.tasks.is_live(message.task):
            return
        if message.initialization is not None:
            self.checkpoints.statistics.report_initialization(
                message.task, message.attempt, message.initialization, epoch=self.epoch
            )
        if message.end_of_data:
            self.tasks.end_data(message.task)
            self.coordinators.data_ended(message.task)
            self._take_last_checkpoint_when_all_data_ended()
            return
        if message.state is ExecutionState.FAILED:
            cause = FailureCause.of_task(message)
            self._task_failed(message.task, message.error, cause, recoverable=message.recoverable)
            return
        self.tasks.report(message)
        if message.state is ExecutionState.RUNNING:
            self.coordinators.attempt_ready(message.task, message.attempt)
            self._start_checkpoints_when_running()
        elif message.state is ExecutionState.FINISHED:
            self.coordinators.data_ended(message.task)
            self.checkpoints.trigger.go_on()

    def _is_current(self, task: str, attempt: int) -> bool:
        """Return True if this is the present attempt of the task, and its region does not restart."""
        return attempt == self.attempts.of(task) and self._is_at_work and not self.tasks.is_stopped(task)

    def _task_failed(
        self, task: str, error: str, cause: FailureCause | None = None, *, recoverable: bool = True
    ) -> None:
        self._attempt_ended(task, ExecutionState.FAILED, error)
        regions = self.failover.of_task(task)
        self._on_failure(f"{task} failed: {error}", cause, recoverable=recoverable, regions=regions)

    def _attempt_ended(self, task: str, state: ExecutionState, error: str = "") -> None:
        """Notify the operator coordinators of a task that failed or was cancelled."""
        self.tasks.end(task, state, error)
        self.coordinators.attempt_failed(task, self.attempts.of(task), error or None)

    def tasks_stopped(self, tasks: Iterable[str]) -> None:
        """Note that tasks of a region that restarts have stopped, those that had finished included."""
        for task in tasks:
            if self.tasks.state_of(task) is not ExecutionState.FAILED:
                self._attempt_ended(task, ExecutionState.CANCELED)

    def _start_checkpoints_when_running(self) -> None:
        if self.all_running:
            self.emit(AllTasksRunning(epoch=self.epoch))
            if self.checkpoints.config.is_periodic and not self.checkpoints.periodic.is_scheduling:
                self.checkpoints.start_checkpoint_scheduler()
            self._tell_of_rescale()
            held, self._held = self._held, []
            for request in held:
                (self._stop if isinstance(request, events.RequestStop) else self._snapshot_requested)(request)

    def _take_last_checkpoint_when_all_data_ended(self) -> None:
        """Trigger the checkpoint that all tasks wait for before they finish, rather than an interval later."""
        if (
            self.checkpoints.config.checkpoints_after_tasks_finish
            and self.phase is Phase.RUNNING
            and not (self.stopping.is_under_way or self.checkpoints.ledger.took_last_checkpoint)
            and self.tasks.all_data_ended
        ):
            self._last_checkpoint.take()

    def _finish_when_done(self) -> None:
        """Finish the job once all tasks have, and a fully acknowledged savepoint to stop with is decided.

        If that savepoint fails, the job continues as before, since nothing was published for it.
        """
        stop_failed = self.stopping.take_failure()
        if stop_failed and self.tasks.all_finished:
            self._on_failure("all tasks have finished, but the savepoint to stop with failed")
        elif stop_failed:
            self._start_checkpoints_when_running()
            self._take_last_checkpoint_when_all_data_ended()
        elif self.tasks.all_finished and not self._savepoint_is_being_decided:
            self.checkpoints.stop_checkpoint_scheduler()
            self._dismiss_workers(JobEvent.ALL_FINISHED)
        elif self.rescaling.is_due and not self.stopping.is_under_way:
            self._rescale()

    @property
    def _savepoint_is_being_decided(self) -> bool:
        """True if the savepoint to stop with is fully acknowledged and is being written."""
        return self.stopping.is_under_way and any(
            each.state.is_completing and each.request.request_id == self.stopping.request
            for each in self.checkpoints.pending.values()
        )

    @handles(events.SlotLost)
    def _slot_lost(self, event: events.SlotLost) -> None:
        if event.epoch != self.epoch or self.ending_as is not None:
            return
        regions = self.failover.of_lost_slot(event.slot)
        if regions or not self.failover.is_enabled:
            self._on_failure(f"worker {event.slot} was lost: {event.error}", regions=regions)

    @handles(events.ClusterStopped)
    def _cluster_stopped(self, event: events.ClusterStopped) -> None:
        """Fail for good in whatever phase, because a restart would find no workers."""
        if self.phase is Phase.STARTING:
            self._cannot_begin(event.error)
        elif self.phase is not Phase.RESTARTING:
            self._on_failure(event.error, recoverable=False)
        elif self.stopping.stands:
            self._fail_after_savepoint(event.error)
        else:
            self._dismiss_workers(JobEvent.FAIL_FOR_GOOD, event.error)

    # --- operator coordinators ------------------------------------------------------------------------------------

    @handles(OperatorEventToCoordinator)
    def _operator_event(self, message: OperatorEventToCoordinator) -> None:
        if self._is_current(message.task, message.attempt):
            self.coordinators.handle_event(message)

    @handles(events.OperatorEventLost)
    def _operator_event_lost(self, event: events.OperatorEventLost) -> None:
        """Fail the task: it and its coordinator no longer agree, and only a restart can fix that."""
        if self._is_current(event.task, event.attempt):
            self._task_failed(event.task, f"an event of its operator coordinator was lost: {event.error}")

    def send_operator_event(self, vertex: str, operator_id: str, subtask: int, attempt: int, payload: Payload) -> None:
        task = task_name(vertex, subtask)
        if self._is_current(task, attempt):
            self.emit(OperatorEventToTask(task=task, attempt=attempt, operator_id=operator_id, payload=payload))

    def coordinator_snapshot_taken(self, checkpoint_id: int, operator_id: str, state: bytes | None) -> None:
        self.checkpoints.trigger.on_coordinator_snapshot(checkpoint_id, operator_id, state)

    def coordinator_snapshot_failed(self, checkpoint_id: int, operator_id: str, error: str) -> None:
        """Report that an operator coordinator failed to take its snapshot."""
        self.checkpoints.trigger.on_coordinator_snapshot_failed(checkpoint_id, operator_id, error)

    def set_is_processing_backlog(self, operator_id: str, is_processing: bool) -> None:
        """Report that a source processes a backlog, or no longer does."""
        self.checkpoints.periodic.set_is_processing_backlog(operator_id, is_processing)

    def discover_splits(self, operator_id: str, after_ms: int) -> None:
        """List the data to read after `after_ms`, for a coordinator."""
        self.emit(ScheduleTimer(timer=f"{DISCOVERY_TIMER}{operator_id}", due_ms=self.at + after_ms))

    @handles(events.SplitsDiscovered)
    def _splits_discovered(self, event: events.SplitsDiscovered) -> None:
        if self._is_at_work:
            self.coordinators[event.operator_id].discovered(event.splits, event.error, may_pass=event.may_pass)

    def coordinator_failed(self, error: str, *, may_pass: bool) -> None:
        """Fail the job after the current event, because a coordinator raised."""
        self._fail_later(error, FailureCause.of_text("operator coordinators", error, may_pass=may_pass))

    def _fail_later(self, error: str, cause: FailureCause | None) -> None:
        if self._failure is None:
            self._failure = error, cause

    # --- failing, restarting, ending ------------------------------------------------------------------------------

    def _on_failure(
        self,
        error: str,
        cause: FailureCause | None = None,
        *,
        recoverable: bool = True,
        regions: tuple[Region, ...] = (),
    ) -> None:
        """Restart the job, if the strategy allows it and the `cause` has not recurred too often (None: it may pass).

        If only some of its `regions` are affected, the tasks of the others keep running.

        Flink: `DefaultScheduler.handleTaskFailure` for regions, `handleGlobalFailure`; `ExecutionFailureHandler`.
        """
        if self.phase is not Phase.RESTORING and not self._is_at_work:
            return
        in_regions = self._is_at_work and self.failover.leaves_others(regions)
        if not in_regions:
            self.rescaling.stopped()
        self.checkpoints.abort_pending_checkpoints(CheckpointFailureReason.JOB_FAILOVER_REGION, error)
        self.checkpoints.stop_checkpoint_scheduler()
        if self.stopping.stands:
            self._fail_after_savepoint(error)
            return
        latest_id = self.checkpoints.store.latest_id
        progressed, self._failed_with_latest = latest_id != self._failed_with_latest, latest_id
        delay_ms = self._restarts.next_delay_ms(self.at, progressed=progressed) if recoverable else None
        if delay_ms is not None and self._repeated.is_one_too_many(cause, latest_id):
            delay_ms, error = None, repeated_error(error)
        if delay_ms is None:
            self._dismiss_workers(JobEvent.FAIL_FOR_GOOD, error)
            return
        if in_regions:
            self._fail_over(regions, error, delay_ms)
            return
        self._dismiss_workers(JobEvent.FAIL, error)
        self._restart_after(delay_ms)

    def _restart_after(self, delay_ms: int) -> None:
        self._awaited.add(DELAY)
        self.emit(ScheduleTimer(timer=RESTART_TIMER, due_ms=self.at + delay_ms))

    def _fail_after_savepoint(self, error: str) -> None:
        """Fail for good: sinks may have published what the savepoint covers, so no older checkpoint may be restored."""
        answer = self.stopping.give_up(error)
        self._dismiss_workers(JobEvent.FAIL_FOR_GOOD, answer.error)
        self.emit(answer)

    def _dismiss_workers(self, event: JobEvent, error: str = "") -> None:
        """Enter a phase that waits for the epoch's workers to leave, if there are any; they are notified once."""
        at_work, leaving = self._is_at_work, self._awaited & {WORKERS}
        self._enter(event, error, awaits={WORKERS} if at_work else leaving)
        if at_work:
            self.rescaling.stopped()
            self.failover.give_up()
            self._restarts_deploying = []
            self.tasks.cancel()
            self._last_checkpoint.forget()
            self.emit(StopEpoch(epoch=self.epoch))
        elif not leaving:
            self._sweep()

    @handles(events.EpochEnded)
    def _epoch_ended(self, event: events.EpochEnded) -> None:
        if event.epoch == self.epoch and WORKERS in self._awaited:
            self._awaited.discard(WORKERS)
            for task in self.tasks.canceling():
                self._attempt_ended(task, ExecutionState.CANCELED)
            self._sweep()

    def _sweep(self) -> None:
        """Delete what aborted checkpoints of the epoch left behind: its workers no longer write."""
        for leftovers in self._leftovers.sweep():
            self.checkpoints.ledger.clean(leftovers)

    def _restart_when_ready(self) -> None:
        self.stopping.take_failure()  # its only consequence is the restart
        if self.stopping.stands:
            self._fail_after_savepoint(self.error)
        elif not self._awaited and self.checkpoints.ledger.storing is None and self.rescaling.has_slots():
            self._restore(JobEvent.RESTART)

    def _end_when_ready(self) -> None:
        """End the job after its workers have left, once any checkpoint being stored is decided.

        The end is recorded in a durable store before anything is deleted because of it.
        """
        if self._awaited:
            return
        if not self.checkpoints.store.is_durable:
            self._end()
        elif self.checkpoints.ledger.storing is None and self.ending_as is not None:
            self._awaited = {RESULT}
            stays = remove_orphans(self._retained(self.ending_as), self.checkpoints.ledger.savepoints)
            self.emit(
                StoreJobResult(
                    status=self.ending_as.name, savepoint=self.stopping.path, keep=stays.keep, shared=stays.shared
                )
            )

    @handles(events.JobResultStored)
    def _result_stored(self, event: events.JobResultStored) -> None:
        if RESULT in self._awaited:
            self._end(keep_all=bool(event.error))

    def _end(self, *, keep_all: bool = False) -> None:
        self._end_in(PHASES.follow(self, self.phase, JobEvent.END), self.error, keep_all=keep_all)

    def _retained(self, status: JobStatus) -> list[CompletedCheckpoint]:
        """Return the checkpoints that stay when the job ends with this status."""
        return self.checkpoints.store.staying_at(status.name)

    def _end_in(
        self, phase: Phase, error: str, *, keep_all: bool = False, stays: events.CheckpointsRecovered | None = None
    ) -> None:
        """End in this phase and delete what no retained checkpoint or savepoint refers to.

        With `keep_all` nothing is deleted: a later driver will assume that the job has not ended. If it had ended
        before, `stays` has what was retained then.
        """
        status, store = phase.status, self.checkpoints.store
        retained = self._retained(status)
        self.checkpoints.shut_down(JobStatus.CREATED.name if keep_all else status.name)
        if not keep_all:
            orphans = remove_orphans((*retained, *store.subsumed), self.checkpoints.ledger.savepoints)
            if stays is not None:
                keep, shared = {*orphans.keep, *stays.keep}, {*orphans.shared, *stays.shared}
                orphans = RemoveOrphans(keep=tuple(sorted(keep)), shared=tuple(sorted(shared)))
            self.emit(orphans)
        answer = self.stopping.end(status, error)
        self._become(phase, answer.error if answer is not None and status.is_failure else error)
        if answer is not None:
            self.emit(answer)

    @handles(events.LeadershipLost)
    def _leadership_lost(self, event: events.LeadershipLost) -> None:
        """Stop, because another driver leads the job, and keep everything that completed checkpoints refer to.

        A checkpoint that was being stored may be complete, and the other driver may have found it.

        Flink suspends the job: `JobMasterServiceLeadershipRunner.revokeLeadership`.
        """
        if self.phase is Phase.STARTING:
            self._cannot_begin(event.error)
        elif not self.status.is_terminal and self.phase is not Phase.SUSPENDING:
            self.error = event.error
            self.checkpoints.completion.give_up_storing(event.error)
            self.checkpoints.stop_checkpoint_scheduler(event.error)
            self._dismiss_workers(JobEvent.LOSE_LEADERSHIP, event.error)

    def _suspend_when_ready(self) -> None:
        if not self._awaited:
            self._end(keep_all=True)

    @handles(events.RequestCancel)
    def _cancel(self, event: events.RequestCancel) -> None:
        if self.phase is Phase.STARTING:
            self.checkpoints.shut_down(JobStatus.CREATED.name)
            self._enter(JobEvent.CANCEL)
        elif self.ending_as is None:
            self.checkpoints.stop_checkpoint_scheduler()
            self._dismiss_workers(JobEvent.CANCEL, "")

    @handles(events.TimerFired)
    def _timer_fired(self, event: events.TimerFired) -> None:
        if event.timer == RESTART_TIMER:
            self._awaited.discard(DELAY)
        elif self.failover.on_timer(event.timer):
            return
        elif event.timer.startswith(DISCOVERY_TIMER):
            if self._is_at_work:
                self.emit(DiscoverSplits(operator_id=event.timer.removeprefix(DISCOVERY_TIMER)))
        elif self._rescale_timer_fired(event.timer):
            return
        elif self._last_checkpoint.is_due_again(event.timer):
            self._take_last_checkpoint_when_all_data_ended()
        else:
            self.checkpoints.handle(event)

    # --- another parallelism --------------------------------------------------------------------------------------

    @handles(events.RequestRescale)
    def _rescale_requested(self, event: events.RequestRescale) -> None:
        """Change the parallelism of the next epoch; if one is running, end it at a good moment."""
        why_not = self._why_not_rescaled
        if why_not:
            self._refuse(event.request_id, f"the job cannot be rescaled: {why_not}")
            return
        try:
            self.rescaling.request(event, self.graph)
        except ValueError as error:
            self._refuse(event.request_id, f"the job cannot be rescaled: {error}")
            return
        self._act_on_rescale_request()

    @property
    def _why_not_rescaled(self) -> str:
        if not (self._is_over or self.stopping.is_under_way or self.checkpoints.ledger.took_last_checkpoint):
            return ""
        return "it is being stopped" if self.stopping.is_under_way else "it ends"

    @handles(events.ParallelismStored)
    def _rescale_noted(self, event: events.ParallelismStored) -> None:
        if self.rescaling.noted(event, self._why_not_rescaled):
            self._act_on_rescale_request()

    def _act_on_rescale_request(self) -> None:
        """Act on the user's request, unless tasks of the running epoch are still starting: then all of them follow."""
        starting = self._is_at_work and not self.tasks.all_running
        if not starting and self.rescaling.act_on_request(self.restored_path):
            self.checkpoints.handle(events.RequestCheckpoint(request_id=OWN_CHECKPOINT))

    def _tell_of_rescale(self) -> None:
        """Answer a request that is fulfilled, now that all tasks run, and act on one that came meanwhile."""
        self.rescaling.all_running(self.restored_path)
        self._act_on_rescale_request()

    @handles(events.SlotsChanged)
    def _slots_changed(self, event: events.SlotsChanged) -> None:
        if self.ending_as is None:
            self.rescaling.slots_changed(event.slots)

    def _rescale(self) -> None:
        """Redeploy the job for the present slots and requests.

        A parallelism that the latest checkpoint does not allow is rejected, and the job keeps running.

        Flink: `Executing.transitionToSubsequentState`, `goToRestarting`.
        """
        available, latest = self.rescaling.available(), self.checkpoints.store.latest
        assert available is not None
        if self.checkpoints.ledger.storing is not None or self.checkpoints.ledger.took_last_checkpoint:
            return
        try:
            graph = self.graph.with_parallelism(available)
            if latest is not None:
                self._assign_states(graph, latest)
        except ValueError as error:
            self.rescaling.refuse(str(error))
            return
        said = self.rescaling.note(available, None if latest is None else latest.checkpoint_id)
        self.checkpoints.stop_checkpoint_scheduler("The job is rescaled.")
        self._dismiss_workers(JobEvent.RESCALE, said)

    def _take_slots(self) -> None:
        """Set the graph to deploy for the present slots and requests."""
        available = self.rescaling.available()
        if available is not None and available != self.graph.parallelism:
            self.graph = self.graph.with_parallelism(available)

    def _rescale_timer_fired(self, timer: str) -> bool:
        """Handle a timer that fired; return False for one that does not concern the parallelism."""
        if self.phase is Phase.FAILING_OVER and self.rescaling.regions_gave_up_on_slots(timer):
            self._no_slots_came_for_regions()
            return True
        error = self.rescaling.gave_up_on_slots(timer)
        if error and self.phase is Phase.STARTING:
            self._cannot_begin(error)
        elif error and self.phase is Phase.RESTARTING:
            self._no_slots_came(error)
        return bool(error) or self.rescaling.on_timer(timer)

    def _no_slots_came(self, error: str) -> None:
        """Handle missing slots as a failure that the restart strategy decides, unless the job is reactive.

        Flink: `DefaultScheduler.handleTaskDeploymentFailure`; `AdaptiveScheduler` ends the job.
        """
        delay_ms = None if self.rescaling.settings.reactive else self._restarts.next_delay_ms(self.at)
        if delay_ms is None:
            self._dismiss_workers(JobEvent.FAIL_FOR_GOOD, error)
        else:
            self._restart_after(delay_ms)

    # --- the failover of regions ----------------------------------------------------------------------------------

    def _fail_over(self, regions: tuple[Region, ...], error: str, delay_ms: int) -> None:
        """Restart these regions after the delay, and let the tasks of the others run."""
        self._last_checkpoint.forget()
        if self.phase is Phase.RUNNING:
            self._enter(JobEvent.FAIL_IN_REGIONS, error)
        self.failover.begin(regions, error, delay_ms)

    def _fail_over_when_ready(self) -> None:
        self.stopping.take_failure()  # the tasks that were to stop run on, or have failed because of it
        if self.stopping.stands:
            self._fail_after_savepoint(self.failover.error)
        elif self._restarts_deploying:
            self._deploy_regions_when_restored()
        elif self.failover.ready and self.checkpoints.ledger.storing is None and self.rescaling.has_slots_for_regions():
            self._restore_regions(self.failover.ready)

    def _restore_regions(self, restarts: list[RegionRestart]) -> None:
        """Restore the tasks of regions that restart together from the latest checkpoint, or from scratch.

        Flink: `DefaultScheduler.restartTasks`, `SchedulerBase.restoreState`.
        """
        tasks = [task for restart in restarts for task in restart.tasks]
        restore = self.checkpoints.restore
        try:
            latest = restore.latest()
            restored = None
            if latest is not None:
                restored = restore_tasks(self.graph, tasks, latest.operator_states, latest.checkpoint_id)
                self.emit(restored.note(self.epoch, latest.location))
            has_hooks = restore.restore_hooks(latest, allow_non_restored_state=True)
        except ValueError as error:
            self._on_failure(str(error))
            return
        self._restarts_deploying = restarts
        self._restoring = None if latest is None or restored is None else Restoring(latest, restored)
        self._awaited = {HOOKS} if has_hooks else set()
        self._deploy_regions_when_restored()

    def _deploy_regions_when_restored(self) -> None:
        if self._awaited:
            return
        restarts, self._restarts_deploying = self._restarts_deploying, []
        restoring, self._restoring = self._restoring, None
        if restoring is not None:
            self.checkpoints.ledger.restored(restoring.latest)
        tasks = [task for restart in restarts for task in restart.tasks]
        slots = self.failover.restarted(restarts)
        self.checkpoints.tasks_redeployed(tasks)
        self.attempts = self.attempts.after_restart([*tasks, *slots])
        self.coordinators.reset(tasks, NO_CHECKPOINT if restoring is None else restoring.latest.checkpoint_id)
        self.tasks.redeploy(tasks)
        self.emit(StartTasks(epoch=self.epoch, attempts={each: self.attempts.of(each) for each in (*tasks, *slots)}))
        self._deploy_tasks(tasks, {} if restoring is None else restoring.job.restores)
        self.rescaling.regions_deployed()
        if not self.failover.is_under_way:
            self._enter(JobEvent.REGIONS_DEPLOYED)

    def _no_slots_came_for_regions(self) -> None:
        """Handle missing slots as a failure of the regions that wait for them, while the others hold theirs.

        It counts towards the limit of the restart strategy, or else as a failure that recurs: the job does not wait
        for ever. Flink: `DefaultScheduler.handleTaskDeploymentFailure`.
        """
        rescaling = self.rescaling
        said = self.failover.slots_said(self.failover.ready, rescaling.slots or 0, rescaling.running_slots)
        error = f"{said}, and no others came within {rescaling.settings.slot_wait_ms} ms"
        cause = FailureCause.of_text("slots", error, may_pass=False)
        delay_ms = self._restarts.next_delay_ms(self.at)
        if delay_ms is not None and self._repeated.is_one_too_many(cause, self.checkpoints.store.latest_id):
            delay_ms, error = None, repeated_error(error)
        if delay_ms is None:
            self._dismiss_workers(JobEvent.FAIL_FOR_GOOD, error)
        else:
            self.failover.wait_again(delay_ms)

    # --- stopping with a savepoint --------------------------------------------------------------------------------

    @handles(events.RequestStop)
    def _stop(self, event: events.RequestStop) -> None:
        if self._is_restarting and not self.stopping.is_under_way:
            self._held.append(event)
        elif self.stopping.is_under_way:
            self._refuse(event.request_id, "the job cannot be stopped: it is being stopped already")
        elif self.status is not JobStatus.RUNNING or self._is_over:
            what = "over" if self.status is JobStatus.RUNNING else self.status.name
            self._refuse(event.request_id, f"the job cannot be stopped: it is {what}")
        else:
            self.stopping.begin(event.request_id)
            self.checkpoints.stop_checkpoint_scheduler()
            self.checkpoints.handle(event)

    @property
    def _is_restarting(self) -> bool:
        """True if the tasks ran before, and will run again. Flink declines a savepoint then; here it waits."""
        if self.phase is Phase.RUNNING:
            has_restarted = self.epoch > 1 or bool(self.attempts.restarted)
            return has_restarted and not self.tasks.all_running
        return self.epoch > 0 and self.phase in (Phase.FAILING_OVER, Phase.RESTARTING, Phase.RESTORING)

    def _refuse(self, request_id: int, error: str) -> None:
        self.emit(CompleteRequest(request_id=request_id, error=error))

    def answer_request(self, word: CompleteRequest) -> None:
        """Answer a request for a snapshot; the answer to a stop waits for the job's end."""
        own = self._last_checkpoint.answered(word, self.at) or self.rescaling.answered(word)
        if not (own or self.stopping.holds_back(word)):
            self.emit(word)

    # --- checkpoints ----------------------------------------------------------------------------------------------

    @handles(events.RequestCheckpoint, events.RequestSavepoint)
    def _snapshot_requested(self, event: events.RequestCheckpoint | events.RequestSavepoint) -> None:
        if self._is_over or self.stopping.is_under_way:
            why = "the job ends" if self._is_over else "the job is being stopped with a savepoint"
            self._refuse(event.request_id, f"no snapshot can be taken any more: {why}")
        elif self._is_restarting and isinstance(event, events.RequestSavepoint):
            self._held.append(event)
        else:
            self.checkpoints.handle(event)

    @handles(events.CheckpointStored, events.CheckpointStoreFailed)
    def _stored(self, event: events.CheckpointStored | events.CheckpointStoreFailed) -> None:
        if self.phase is Phase.STARTING:
            self._learn(event)
        else:
            self.checkpoints.handle(event)

    @handles(AcknowledgeCheckpoint)
    def _acknowledged(self, message: AcknowledgeCheckpoint) -> None:
        """Open the gates for events to the task's operators, since the task is past its barrier."""
        if message.attempt == self.attempts.of(message.task) and message.job_id == self.job.job_id:
            self.coordinators.open_gate(message.task, message.checkpoint_id)
        self.checkpoints.handle(message)

    @handles(events.LocationInitialized)
    def _location_initialized(self, event: events.LocationInitialized) -> None:
        self.checkpoints.handle(event)
        self._leftovers.begin(event.checkpoint_id, event.location)

    @handles(events.CheckpointOperatorCoordinator)
    def _checkpoint_operator_coordinator(self, event: events.CheckpointOperatorCoordinator) -> None:
        if self.checkpoints.trigger.expects_coordinator_snapshot(event.checkpoint_id, event.operator_id):
            self.coordinators[event.operator_id].checkpoint(event.checkpoint_id, event.error)

    # --- the interface of the checkpoint coordinator (CoordinatorContext) -----------------------------------------

    def execution_state(self, task: str) -> ExecutionState:
        return self.tasks.state_of(task)

    def fail_job(self, error: str, checkpoint_id: int | None, *, may_pass: bool) -> None:
        self._fail_later(error, FailureCause.of_text("checkpoints", error, may_pass=may_pass))

    def fail_job_due_to_task_failure(self, error: str, task: str, *, may_pass: bool) -> None:
        """Fail the job because of one task."""
        self._fail_later(f"{task}: {error}", FailureCause.of_text(vertex_of(task), error, may_pass=may_pass))

    def validate(self) -> None:
        """Check the invariants of the job and its parts."""
        self.checkpoints.validate()
        if self.status.is_terminal:
            undecided = [each for each in self.checkpoints.pending.values() if not each.is_disposed]
            assert not undecided, f"the job is {self.status.name}, yet checkpoints are pending: {undecided}"

    def __repr__(self) -> str:
        return f"JobMaster({self.job.name}, {self.status.name}, epoch {self.epoch})"


_GO_ON: dict[Phase, Callable[[JobMaster], None]] = {
    Phase.STARTING: JobMaster._start_when_all_is_known,
    Phase.RESTORING: JobMaster._deploy_when_restored,
    Phase.RUNNING: JobMaster._finish_when_done,
    Phase.FAILING_OVER: JobMaster._fail_over_when_ready,
    Phase.RESTARTING: JobMaster._restart_when_ready,
    Phase.FINISHING: JobMaster._end_when_ready,
    Phase.FAILING: JobMaster._end_when_ready,
    Phase.CANCELLING: JobMaster._end_when_ready,
    Phase.SUSPENDING: JobMaster._suspend_when_ready,
}
"""The action of each phase after an event, if it waits for nothing else."""
