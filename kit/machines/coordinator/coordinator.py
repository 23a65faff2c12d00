"""The CheckpointCoordinator: it decides when a checkpoint is taken, collects the tasks' reports, and ends it.

The ledger (`CheckpointLedger`) keeps everything that is known of all checkpoints. The parts work on it, each in a file
of its own, and a checkpoint passes them in this order:

    PeriodicTrigger            periodic.py        the timer
    CheckpointRequestDecider   request_decider.py the choice of the next request
    CheckpointTrigger          triggering.py      the steps until the tasks are triggered
    CheckpointAcknowledgement  acknowledging.py   the tasks' reports
    CheckpointCompletion       completing.py      metadata, store, confirmation
    CheckpointRestore          restoring.py       the restore

The coordinator belongs to the JobMaster, which passes it a `CoordinatorContext` and the events that the coordinator
and its parts mark with `@handles`. After each event it calls `settle`: then the next acknowledged checkpoint completes
and the next request starts. In Flink these are tasks posted to the coordinator's timer thread.

Follows Flink 2.x's `CheckpointCoordinator`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from kit.core.protocol import events
from kit.core.protocol.commands import CloseMasterHooks
from kit.core.protocol.notes import RequestQueued
from kit.core.protocol.properties import FULL_CHECKPOINT, CheckpointProperties
from kit.core.protocol.reasons import CheckpointException, CheckpointFailureReason
from kit.core.protocol.words import ProtocolError, ProtocolMessage, handler_in, handles
from kit.machines.coordinator.acknowledging import CheckpointAcknowledgement
from kit.machines.coordinator.checkpointed_job import CheckpointedJob
from kit.machines.coordinator.completed.completed_checkpoint_store import CompletedCheckpointStore
from kit.machines.coordinator.completing import CheckpointCompletion
from kit.machines.coordinator.context import CheckpointStatsListener, CoordinatorContext
from kit.machines.coordinator.ledger import CheckpointLedger, timeout_timer
from kit.machines.coordinator.pending_checkpoint import PendingCheckpoint
from kit.machines.coordinator.periodic import PERIODIC_TIMER, PeriodicTrigger
from kit.machines.coordinator.request_decider import CheckpointTriggerRequest, create_request_decider
from kit.machines.coordinator.restore_point import CheckpointRestore
from kit.machines.coordinator.statistics import CheckpointStatsTracker
from kit.machines.coordinator.triggering import CheckpointTrigger
from kit.stream.graph.execution_graph import ExecutionGraph
from kit.stream.settings.job_settings import CheckpointCoordinatorConfiguration


class CheckpointCoordinator:
    """The coordinator of one job.

    `graph` is the job as it runs now, `operator_coordinators` are the ids of the operators that have a coordinator, and
    `hooks` the identifiers of the master hooks, which the host holds. `config` and `store` default to the job's
    settings, `statistics` to a tracker that remembers the last few checkpoints. `listener` is notified of each
    checkpoint that ends.

    Follows Flink's `CheckpointCoordinator`.
    """

    without_effect: ClassVar = frozenset({"_requests"})

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
        statistics: CheckpointStatsTracker | None = None,
        listener: CheckpointStatsListener | None = None,
    ) -> None:
        settings = graph.job_graph.settings
        config = config or settings.coordinator
        store = store or CompletedCheckpointStore(
            settings.checkpoint.max_retained, is_durable=settings.checkpoint.is_durable
        )
        self._context = context
        self.config = config
        self.job = CheckpointedJob(job_id, graph, config, hooks, operator_coordinators)
        statistics = statistics or CheckpointStatsTracker()
        self.ledger = CheckpointLedger(
            context, store, statistics, tolerable=config.tolerable_failures, listener=listener
        )
        self.periodic = PeriodicTrigger(config, context, self._request_periodic)
        self.decider = create_request_decider(
            config.max_concurrent,
            config.min_pause_ms,
            self.ledger.refuse,
            self.periodic.reschedule,
            graph.job_graph.parts.request_decider,
        )
        self.completion = CheckpointCompletion(self.job, context, self.ledger)
        self.acknowledgement = CheckpointAcknowledgement(self.job, context, self.ledger, self.completion)
        self.trigger = CheckpointTrigger(self.job, context, self.ledger, self.periodic, self.completion)
        self.restore = CheckpointRestore(self.job, context, self.ledger)
        self._requests = 0

    @property
    def pending(self) -> dict[int, PendingCheckpoint]:
        """The pending checkpoints, by id."""
        return self.ledger.pending

    @property
    def store(self) -> CompletedCheckpointStore:
        """The retained checkpoints."""
        return self.ledger.store

    @property
    def statistics(self) -> CheckpointStatsTracker:
        """The statistics of all checkpoints of this run."""
        return self.ledger.statistics

    def use_graph(self, graph: ExecutionGraph) -> None:
        """Set the graph of a new deployment, which ends the checkpoints of the earlier tasks."""
        why = CheckpointException(CheckpointFailureReason.JOB_FAILOVER_REGION, "The job is deployed again.")
        self.trigger.give_up(why)
        self.ledger.abort_all(why)
        self.ledger.deployed_anew()
        self.job.deploy(graph)

    def tasks_redeployed(self, tasks: Collection[str]) -> None:
        """End the checkpoints of earlier attempts of these tasks, which are deployed again; the graph stays."""
        why = CheckpointException(CheckpointFailureReason.JOB_FAILOVER_REGION, "A region is deployed again.")
        self.trigger.give_up(why)
        self.ledger.abort_all(why)
        self.ledger.deployed_anew(tasks)

    # --- events ---------------------------------------------------------------------------------------------------

    def parts(self) -> tuple[Any, ...]:
        """Return the coordinator and those of its parts that handle events."""
        return self, self.trigger, self.acknowledgement, self.completion, self.ledger

    def handle(self, event: ProtocolMessage) -> None:
        """Handle an event that one of the parts knows."""
        handler = handler_in(self.parts(), event)
        if handler is None:
            raise ProtocolError(f"the coordinator cannot handle {type(event).__name__}")
        handler(event)

    def settle(self) -> None:
        """Do what had to wait for the end of the event: complete the next checkpoint, then start the next request."""
        if self.ledger.took_last_checkpoint and (
            self.periodic.is_scheduling
            or self.decider.queue
            or any(not checkpoint.is_disposed for checkpoint in self.pending.values())
        ):
            self.stop_checkpoint_scheduler("All tasks have come to the end of their input: the job finishes by itself.")
        self.completion.go_on()
        self._start_requests()

    @handles(events.TimerFired)
    def _on_timer(self, event: events.TimerFired) -> None:
        """Expire a checkpoint, or start a periodic one; other and late timers are ignored."""
        if event.timer == PERIODIC_TIMER:
            self.periodic.on_timer()
        for checkpoint in self.pending.values():
            if event.timer == timeout_timer(checkpoint.checkpoint_id):
                self.ledger.abort(checkpoint, CheckpointException(CheckpointFailureReason.CHECKPOINT_EXPIRED))
                return

    # --- periodic checkpoints -------------------------------------------------------------------------------------

    def start_checkpoint_scheduler(self) -> None:
        """Start periodic checkpoints, the first one an interval from now.

        Raises ProtocolError after shutdown, and for a job without an interval.
        """
        if self.ledger.is_shut_down:
            raise ProtocolError("the checkpoint coordinator is shut down")
        if not self.config.is_periodic:
            raise ProtocolError("the job has no checkpoint interval: set `interval_ms`, or ask for each checkpoint")
        if self.periodic.is_scheduling:
            self.stop_checkpoint_scheduler()
        self.periodic.start()

    def stop_checkpoint_scheduler(self, why: str = "") -> None:
        """Stop periodic checkpoints; abort everything pending and queued (CHECKPOINT_COORDINATOR_SUSPEND)."""
        self.periodic.stop()
        self._abort_all(CheckpointException(CheckpointFailureReason.CHECKPOINT_COORDINATOR_SUSPEND, why))

    # --- requests -------------------------------------------------------------------------------------------------

    def _request_periodic(self) -> None:
        self._request(self.job.properties, periodic=True)

    @handles(events.RequestCheckpoint)
    def _on_request_checkpoint(self, event: events.RequestCheckpoint) -> None:
        """Request a checkpoint for the user. Flink: `CheckpointCoordinator.triggerCheckpoint`."""
        properties = self.job.properties
        if event.full:
            properties = replace(properties, snapshot_type=FULL_CHECKPOINT)
        self._request(properties, request_id=event.request_id)

    @handles(events.RequestSavepoint)
    def _on_request_savepoint(self, event: events.RequestSavepoint) -> None:
        """Request a savepoint for the user. Flink: `CheckpointCoordinator.triggerSavepoint`."""
        properties = CheckpointProperties.for_savepoint(forced=not self.config.unaligned, fmt=event.fmt)
        self._request(properties, request_id=event.request_id, target=event.target)

    @handles(events.RequestStop)
    def _on_request_stop(self, event: events.RequestStop) -> None:
        """Request a stop-with-savepoint for the user. Flink: `triggerSynchronousSavepoint`."""
        properties = CheckpointProperties.for_sync_savepoint(
            forced=not self.config.unaligned, terminate=event.drain, fmt=event.fmt
        )
        self._request(properties, request_id=event.request_id, target=event.target)

    def _request(self, properties: CheckpointProperties, **facts: Any) -> None:
        """Queue a request, and start it if it may start now.

        Flink: `triggerSavepointInternal` and `triggerCheckpoint`.
        """
        self._requests += 1
        request = CheckpointTriggerRequest(properties, self._context.at, self._requests, **facts)
        if self.decider.add(request):
            self._start_requests()
        if request in self.decider.queue:
            position = self.decider.queue.index(request)
            self._context.emit(
                RequestQueued(
                    request=request.label,
                    position=position,
                    pending=len(self.pending),
                    at_most=self.config.max_concurrent,
                    cleaning=self.ledger.cleaning,
                )
            )

    def _start_requests(self) -> None:
        """Start the next request, if one may start now, and the one after it if it fails at once.

        Flink: `executeQueuedRequest`; in 1.11 at first `resumePeriodicTriggering` after a checkpoint has ended.
        """
        while not self.ledger.is_shut_down:
            request = self.decider.choose(
                now_ms=self._context.at,
                pending=len(self.pending),
                is_triggering=self.trigger.is_triggering,
                last_completion_ms=self.ledger.last_completion_ms,
                cleaning=self.ledger.cleaning,
            )
            if request is None:
                return
            self.trigger.start(request)

    # --- the end --------------------------------------------------------------------------------------------------

    def abort_pending_checkpoints(self, reason: CheckpointFailureReason, detail: str = "") -> None:
        """Abort all pending checkpoints, except for one that is being stored; queued requests stay.

        Flink: `abortPendingCheckpoints`.
        """
        self.ledger.abort_all(CheckpointException(reason, detail))

    def _abort_all(self, why: CheckpointException) -> None:
        self.decider.abort_all(why)
        self.ledger.abort_all(why)

    def shut_down(self, job_status: str) -> None:
        """End with the job, in `job_status` (FINISHED, CANCELED, FAILED, SUSPENDED).

        Pending checkpoints are aborted; completed ones are kept or deleted, according to their properties.
        """
        if self.ledger.is_shut_down:
            return
        self.ledger.shut_down(job_status)
        self.periodic.stop()
        why = CheckpointException(CheckpointFailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN)
        self.trigger.give_up(why)
        self._abort_all(why)
        self.ledger.discard(self.store.shut_down(job_status))
        if self.job.hooks:
            self._context.emit(CloseMasterHooks())

    def validate(self) -> None:
        """Check the invariants of the coordinator and its parts. Raises AssertionError with the names involved."""
        unforced = [checkpoint for checkpoint in self.pending.values() if not checkpoint.properties.forced]
        most = self.config.max_concurrent
        assert len(unforced) <= most, f"{len(unforced)} checkpoints pending at once, at most {most} may be: {unforced}"
        for part in (self.ledger, self.decider, self.completion):
            part.validate()

    def __repr__(self) -> str:
        pending = ", ".join(map(str, self.pending)) or "none"
        return f"CheckpointCoordinator({self.job.job_id}: pending {pending}; {self.store!r})"
