"""The part of the JobMaster that changes the parallelism while the job runs, on requests and changes of slots.

It reacts as follows:

    RequestRescale   a user's request -> `Rescaling.request`; if at once, a checkpoint is triggered for it
    SlotsChanged     the host reports the number of slots
    it is due        the latest checkpoint's state is assigned to the new graph, as a test; if that works, the epoch is
                     stopped as for a failure, and the next one is deployed from that checkpoint
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kit.core.protocol import events
from kit.core.protocol.words import Machine, handles
from kit.machines.coordinator.completed.completed_checkpoint import CompletedCheckpoint
from kit.machines.coordinator.coordinator import CheckpointCoordinator
from kit.machines.job.rescaling import OWN_CHECKPOINT, Rescaling
from kit.machines.job.restart import Restarts
from kit.machines.job.starting import JobStart
from kit.machines.job.status import JobEvent, JobStatus, Phase
from kit.machines.job.stopping import StopWithSavepoint
from kit.machines.job.task_restores import RestoredJob, restore_job
from kit.machines.job.task_table import TaskTable
from kit.stream.graph.execution_graph import ExecutionGraph


class RescalingMaster(Machine):
    """The JobMaster's handling of its parallelism."""

    graph: ExecutionGraph
    phase: Phase
    tasks: TaskTable
    checkpoints: CheckpointCoordinator
    rescaling: Rescaling
    stopping: StopWithSavepoint
    restored_path: str
    """The path of the checkpoint that the epoch was deployed from; "" for none."""
    _start: JobStart
    _refuse: Callable[[int, str], None]
    _cannot_begin: Callable[[str], None]
    _dismiss_workers: Callable[..., None]
    _restarts: Restarts
    _restart_after: Callable[[int], None]

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
    def _is_over(self) -> bool:
        """True if no task is left, or will soon be left, that could take part in a snapshot."""
        return self.ending_as is not None or (self.phase is Phase.RUNNING and self.tasks.all_finished)

    def _assign_states(self, graph: ExecutionGraph, latest: CompletedCheckpoint) -> RestoredJob:
        """Return the checkpoint's state for the tasks of `graph`. Raises ValueError if it does not fit."""
        return restore_job(
            graph,
            latest.operator_states,
            latest.checkpoint_id,
            allow_non_restored_state=self._start.allow_non_restored_state,
        )

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
        self._act_on_rescale_request_if_running()

    @property
    def _why_not_rescaled(self) -> str:
        if not (self._is_over or self.stopping.is_under_way or self.checkpoints.ledger.took_last_checkpoint):
            return ""
        return "it is being stopped" if self.stopping.is_under_way else "it ends"

    @handles(events.ParallelismStored)
    def _rescale_noted(self, event: events.ParallelismStored) -> None:
        if self.rescaling.noted(event, self._why_not_rescaled):
            self._act_on_rescale_request_if_running()

    def _act_on_rescale_request_if_running(self) -> None:
        if self.phase is not Phase.RUNNING or self.tasks.all_running:
            self._act_on_rescale_request()

    def _act_on_rescale_request(self) -> None:
        if self.rescaling.has_request and self.rescaling.act_on_request(self.restored_path):
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

    def _has_slots(self) -> bool:
        """Return True if there are slots to deploy the job on; otherwise it waits for them."""
        return self.rescaling.has_slots()

    def _take_slots(self) -> None:
        """Set the graph to deploy for the present slots and requests."""
        available: Any = self.rescaling.available()
        if available is not None and available != self.graph.parallelism:
            self.graph = self.graph.with_parallelism(available)

    def _rescale_timer_fired(self, timer: str) -> bool:
        """Handle a timer that fired; return False for one that does not concern the parallelism."""
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
