"""The half of the JobMaster that takes another parallelism while the job runs: what it does about requests and slots.

RequestRescale   the user wishes -> `Rescaling.request`; at once: a checkpoint is begun for it
SlotsChanged     the host says how many slots there are
it is due        the latest checkpoint's state is dealt out for the new graph, in trial; if it can be, the epoch
is stopped as for a failure, and the next one is deployed from that checkpoint
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kit.core.protocol import events
from kit.core.protocol.words import Machine, handles
from kit.machines.coordinator.completed_checkpoint import CompletedCheckpoint
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
    """What the JobMaster does for the sake of its parallelism."""

    graph: ExecutionGraph
    phase: Phase
    tasks: TaskTable
    checkpoints: CheckpointCoordinator
    rescaling: Rescaling
    stopping: StopWithSavepoint
    restored_path: str
    """Where the checkpoint is that the epoch was deployed from; "" for none."""
    _start: JobStart
    _refuse: Callable[[int, str], None]
    _cannot_begin: Callable[[str], None]
    _dismiss_workers: Callable[..., None]
    _restarts: Restarts
    _restart_after: Callable[[int], None]

    @property
    def status(self) -> JobStatus:
        """Where the job stands, as its user sees it."""
        return self.phase.status

    @property
    def ending_as(self) -> JobStatus | None:
        """How the job has ended, or will once its workers have left; None while it may go on."""
        return self.phase.ending_as

    @property
    def is_rescaled(self) -> bool:
        """Whether the workers leave for another parallelism, and not because something failed."""
        return self.phase is Phase.RESTARTING and self.rescaling.is_under_way

    @property
    def _is_over(self) -> bool:
        """Whether no task is left that could take part in a snapshot, or soon will be."""
        return self.ending_as is not None or (self.phase is Phase.RUNNING and self.tasks.all_finished)

    def _assign_states(self, graph: ExecutionGraph, latest: CompletedCheckpoint) -> RestoredJob:
        """The checkpoint's state for the tasks of `graph`. Raises ValueError when it does not fit."""
        return restore_job(
            graph,
            latest.operator_states,
            latest.checkpoint_id,
            allow_non_restored_state=self._start.allow_non_restored_state,
        )

    @handles(events.RequestRescale)
    def _rescale_requested(self, event: events.RequestRescale) -> None:
        """Whatever the job does, the next epoch is as wished; one that runs is ended for it at a good moment."""
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
        """All tasks run: whoever asked for that is told; what was asked meanwhile is begun."""
        self.rescaling.all_running(self.restored_path)
        self._act_on_rescale_request()

    @handles(events.SlotsChanged)
    def _slots_changed(self, event: events.SlotsChanged) -> None:
        if self.ending_as is None:
            self.rescaling.slots_changed(event.slots)

    def _rescale(self) -> None:
        """Deploy the job anew, as slots and wishes are now. What the latest checkpoint does not allow is refused, and
        the job runs on.

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
        """Whether there are slots to deploy the job on; else they are waited for."""
        return self.rescaling.has_slots()

    def _take_slots(self) -> None:
        """The graph to deploy is as slots and wishes are now."""
        available: Any = self.rescaling.available()
        if available is not None and available != self.graph.parallelism:
            self.graph = self.graph.with_parallelism(available)

    def _rescale_timer_fired(self, timer: str) -> bool:
        """Take note of a timer that fired; False for one that has nothing to do with this."""
        error = self.rescaling.gave_up_on_slots(timer)
        if error and self.phase is Phase.STARTING:
            self._cannot_begin(error)
        elif error and self.phase is Phase.RESTARTING:
            self._no_slots_came(error)
        return bool(error) or self.rescaling.on_timer(timer)

    def _no_slots_came(self, error: str) -> None:
        """A failure, of which the restart strategy decides, unless the job was content with few slots as it was.

        Flink: `DefaultScheduler.handleTaskDeploymentFailure`; `AdaptiveScheduler` ends the job.
        """
        delay_ms = None if self.rescaling.settings.reactive else self._restarts.next_delay_ms(self.at)
        if delay_ms is None:
            self._dismiss_workers(JobEvent.FAIL_FOR_GOOD, error)
        else:
            self._restart_after(delay_ms)
