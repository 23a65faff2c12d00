"""The operator coordinators of a job: their life cycles, their gateways, their part in checkpoints.

`OperatorCoordinators` holds all coordinators of a job, each in an `OperatorCoordinatorHolder`. A holder stands between
the JobMaster and one coordinator. It creates a new coordinator whenever the whole job goes back to a checkpoint, and
ignores the old one; if only a region does, the coordinator stays and is notified of each subtask (`subtask_reset`). It
catches what a coordinator raises and fails the job once. It runs the gates that keep events on the right side of a
barrier (`kit.machines.job.subtask_gateway`).

Gates open behind a subtask's trigger if the subtask is triggered directly, since triggers and events use the same
ordered path. If the barrier comes through the operator's inputs, they open with its acknowledgement.

Follows Flink's `OperatorCoordinatorHolder`, `DefaultOperatorCoordinatorHandler` and
`RecreateOnResetOperatorCoordinator`. There closing an old coordinator may take time, and calls wait meanwhile; here it
is done when the call returns. There a subtask confirms every event. Here its acknowledgement of the checkpoint does,
which follows the events on an ordered channel, and a host that could not send an event reports it
(`OperatorEventLost`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from kit.core.protocol import outages
from kit.core.protocol.messages import OperatorEventToCoordinator
from kit.core.protocol.notes import CoordinatorNotified, CoordinatorReset, SubtaskReset
from kit.core.protocol.tasks import split_task_name
from kit.core.protocol.words import ProtocolMessage
from kit.machines.coordinator.completed.completed_checkpoint import CompletedCheckpoint
from kit.machines.job.subtask_gateway import GatedSubtask
from kit.stream.graph.job_graph import ChainedOperator, JobGraph, JobVertex
from kit.stream.operators.coordinator import NO_CHECKPOINT, OperatorCoordinator, Payload


class CoordinatorHost(Protocol):
    """The JobMaster, as the holders see it."""

    def send_operator_event(self, vertex: str, operator_id: str, subtask: int, attempt: int, payload: Payload) -> None:
        """Send an event to a subtask, unless its attempt is over."""

    def coordinator_snapshot_taken(self, checkpoint_id: int, operator_id: str, state: bytes | None) -> None:
        """Take a coordinator's snapshot for a checkpoint."""

    def coordinator_snapshot_failed(self, checkpoint_id: int, operator_id: str, error: str) -> None:
        """Fail the checkpoint, because a coordinator could not take its snapshot."""

    def set_is_processing_backlog(self, operator_id: str, is_processing: bool) -> None:
        """Report that an operator processes a backlog, or no longer does."""

    def discover_splits(self, operator_id: str, after_ms: int) -> None:
        """Have the host list an operator's splits after `after_ms`."""

    def emit(self, word: ProtocolMessage) -> None:
        """Give a command."""

    def coordinator_failed(self, error: str, *, may_pass: bool) -> None:
        """Fail the job after the current event, because a coordinator raised or asked for it."""


class HolderContext:
    """The context of one coordinator, inactive once that is replaced (`QuiesceableContext`)."""

    def __init__(self, holder: OperatorCoordinatorHolder) -> None:
        self._holder = holder
        self.operator_id = holder.operator_id
        self.name = holder.name
        self.is_quiesced = False
        self._has_failed = False

    @property
    def parallelism(self) -> int:
        """The present number of the operator's subtasks."""
        return self._holder.parallelism

    @property
    def splits(self) -> Sequence[Payload]:
        """The splits that the host found."""
        return self._holder.splits

    def set_is_processing_backlog(self, is_processing: bool) -> None:
        """Report that the operator processes a backlog, or no longer does."""
        if not self.is_quiesced:
            self._holder.host.set_is_processing_backlog(self.operator_id, is_processing)

    def discover_splits(self, after_ms: int) -> None:
        """Have the host list the data to read after `after_ms`."""
        if not self.is_quiesced:
            self._holder.host.discover_splits(self.operator_id, after_ms)

    def fail_job(self, error: str, *, may_pass: bool = False) -> None:
        """Fail the job; only the first call counts. An outage `may_pass`."""
        if not self.is_quiesced and not self._has_failed:
            self._has_failed = True
            self._holder.host.coordinator_failed(f"the coordinator of {self.name} failed: {error}", may_pass=may_pass)

    def quiesce(self) -> None:
        """Ignore all later calls."""
        self.is_quiesced = True


class PendingSnapshot:
    """A snapshot requested from a coordinator (Flink's `CoordinatorSnapshot`); only its first answer counts."""

    def __init__(self, holder: OperatorCoordinatorHolder, checkpoint_id: int, context: HolderContext) -> None:
        self.checkpoint_id = checkpoint_id
        self.is_done = False
        self._holder = holder
        self._context = context

    def complete(self, state: bytes | None) -> None:
        """Close the gates behind the snapshot and submit it."""
        if self._answer():
            self._holder.snapshot_taken(self.checkpoint_id, state)

    def fail(self, error: str) -> None:
        """Fail the checkpoint."""
        if self._answer():
            holder = self._holder
            holder.host.coordinator_snapshot_failed(self.checkpoint_id, holder.operator_id, error)

    def _answer(self) -> bool:
        late = self.is_done or self._context.is_quiesced
        self.is_done = True
        return not late


class OperatorCoordinatorHolder:
    """One operator's current coordinator, and the gateways to the operator's subtasks.

    Follows Flink's `OperatorCoordinatorHolder` and `OperatorCoordinatorCheckpointContext`.
    """

    def __init__(self, operator: ChainedOperator, vertex: JobVertex, host: CoordinatorHost) -> None:
        self.operator_id = operator.operator_id
        self.name = operator.name
        self.vertex = vertex.name
        self.parallelism = vertex.parallelism
        self.host = host
        self.splits: Sequence[Payload] = ()
        self.gateways: dict[int, GatedSubtask] = {}
        self._ended: set[int] = set()
        """The subtasks that have no more input."""
        self._spec = operator.spec
        self._is_started = self._is_closed = False
        self._create()

    def _create(self) -> None:
        self._context = HolderContext(self)
        self.coordinator: OperatorCoordinator = self._spec.create_coordinator(self._context)  # type: ignore[assignment]

    def enumerated(self, splits: Sequence[Payload]) -> None:
        """Set the splits that the host found."""
        self.splits = splits

    def discovered(self, splits: Sequence[Payload], error: str, *, may_pass: bool = False) -> None:
        """Pass on the splits that the host has discovered; with `error` it could not list them, and the job fails."""
        if error:
            self._context.fail_job(f"splits cannot be discovered: {error}", may_pass=may_pass)
        else:
            self._call(lambda: self.coordinator.splits_discovered(splits))

    # --- life cycle -----------------------------------------------------------------------------------------------

    def deploy(self, checkpoint_id: int, state: bytes | None, parallelism: int) -> None:
        """Start the coordinator for a deployment from this checkpoint, or from scratch (`NO_CHECKPOINT`).

        If there was a coordinator at work, it is replaced by a new one. So is one that was made for another number of
        subtasks: it would keep splits for subtasks that do not exist.
        """
        has_other_subtasks, self.parallelism = parallelism != self.parallelism, parallelism
        self.gateways, self._ended = {}, set()
        again = self._is_started
        if again or has_other_subtasks:
            self._quiesce()
            self._create()
        self._is_started = True
        if again or checkpoint_id != NO_CHECKPOINT:
            known = None if checkpoint_id == NO_CHECKPOINT else checkpoint_id
            self.host.emit(CoordinatorReset(checkpoint_id=known, operator=self.name, operator_id=self.operator_id))
            self._call(lambda: self.coordinator.reset_to_checkpoint(checkpoint_id, state))
        self._call(self.coordinator.start)

    def close(self) -> None:
        """Close the coordinator, because the job has ended."""
        if not self._is_closed:
            self._is_closed = True
            self._quiesce()
            self.gateways = {}

    def _quiesce(self) -> None:
        """Close the coordinator and ignore everything that it still does or raises."""
        self._context.quiesce()
        self._call(self.coordinator.close)

    def _call(self, call: Callable[[], None]) -> bool:
        """Call a coordinator; if that raises, fail the job and return False."""
        try:
            call()
        except Exception as error:
            self._context.fail_job(f"{type(error).__name__}: {error}", may_pass=outages.may_pass(error))
            return False
        return True

    # --- subtasks -------------------------------------------------------------------------------------------------

    def handle_event(self, subtask: int, attempt: int, payload: Payload) -> None:
        """Handle a subtask's event; the subtask can be sent events as well now."""
        self.attempt_ready(subtask, attempt)
        self._call(lambda: self.coordinator.handle_event(subtask, attempt, payload))

    def attempt_ready(self, subtask: int, attempt: int) -> None:
        """Give the coordinator the gateway of a running attempt, once."""
        known = self.gateways.get(subtask)
        if known is None or known.attempt < attempt:
            gateway = self.gateways[subtask] = GatedSubtask(subtask, attempt, self._send)
            self._call(lambda: self.coordinator.execution_attempt_ready(subtask, attempt, gateway))

    def _send(self, subtask: int, attempt: int, payload: Payload) -> None:
        self.host.send_operator_event(self.vertex, self.operator_id, subtask, attempt, payload)

    def attempt_failed(self, subtask: int, attempt: int, reason: str | None) -> None:
        """Handle an attempt that failed or was cancelled: the events held for it are lost."""
        self.gateways.pop(subtask, None)
        self._call(lambda: self.coordinator.execution_attempt_failed(subtask, attempt, reason))

    def subtask_reset(self, subtask: int, checkpoint_id: int) -> None:
        """Notify the coordinator that a subtask goes back to this checkpoint, while the coordinator keeps its state."""
        self._ended.discard(subtask)
        self.gateways.pop(subtask, None)
        known = None if checkpoint_id == NO_CHECKPOINT else checkpoint_id
        self.host.emit(
            SubtaskReset(checkpoint_id=known, operator=self.name, operator_id=self.operator_id, subtask=subtask)
        )
        self._call(lambda: self.coordinator.subtask_reset(subtask, checkpoint_id))

    def data_ended(self, subtask: int) -> None:
        """Record that a subtask has processed all its input; after the last one there is no backlog in any case."""
        self._ended.add(subtask)
        if len(self._ended) == self.parallelism:
            self.host.set_is_processing_backlog(self.operator_id, False)

    # --- checkpoints ----------------------------------------------------------------------------------------------

    def checkpoint(self, checkpoint_id: int, error: str = "") -> None:
        """Ask the coordinator for its snapshot; an exception fails the checkpoint and the job.

        With `error` the coordinator cannot be asked, and the checkpoint fails.

        Flink: `OperatorCoordinatorCheckpoints.triggerCoordinatorCheckpoint`.
        """
        for gateway in self.gateways.values():
            gateway.mark(checkpoint_id)
        snapshot = PendingSnapshot(self, checkpoint_id, self._context)
        if error:
            snapshot.fail(error)
        elif not self._call(lambda: self.coordinator.checkpoint_coordinator(snapshot)):
            snapshot.fail("it raised when asked for its snapshot")

    def snapshot_taken(self, checkpoint_id: int, state: bytes | None) -> None:
        """Take the coordinator's snapshot, and hold events for subtasks until their barriers."""
        for gateway in self.gateways.values():
            gateway.close(checkpoint_id)
        self.host.coordinator_snapshot_taken(checkpoint_id, self.operator_id, state)

    def open_gate(self, subtask: int, checkpoint_id: int) -> None:
        """Open the gate of a subtask: its barrier precedes everything that is sent to it from now on."""
        gateway = self.gateways.get(subtask)
        if gateway is not None:
            gateway.open(checkpoint_id)

    def abort_triggering(self) -> None:
        """Open the gates of the aborted checkpoint, whose barriers will not come (`abortCurrentTriggering`)."""
        for gateway in self.gateways.values():
            gateway.open_latest()

    def notify_complete(self, checkpoint_id: int) -> None:
        self._open_gates(checkpoint_id)
        self._note_notified(checkpoint_id, "complete")
        self._call(lambda: self.coordinator.notify_checkpoint_complete(checkpoint_id))

    def notify_aborted(self, checkpoint_id: int) -> None:
        self._open_gates(checkpoint_id)
        self._note_notified(checkpoint_id, "aborted")
        self._call(lambda: self.coordinator.notify_checkpoint_aborted(checkpoint_id))

    def _note_notified(self, checkpoint_id: int, outcome: str) -> None:
        note = CoordinatorNotified(
            checkpoint_id=checkpoint_id, operator=self.name, operator_id=self.operator_id, outcome=outcome
        )
        self.host.emit(note)

    def _open_gates(self, checkpoint_id: int) -> None:
        for gateway in self.gateways.values():
            gateway.open(checkpoint_id)

    def __repr__(self) -> str:
        closed = sorted(subtask for subtask, gateway in self.gateways.items() if gateway.is_closed)
        gates = f"gates closed to {closed}" if closed else "gates open"
        return f"OperatorCoordinatorHolder({self.name}, {len(self.gateways)} subtasks ready, {gates})"


class OperatorCoordinators:
    """All operator coordinators of one job, by operator id."""

    def __init__(self, job: JobGraph, host: CoordinatorHost) -> None:
        made = (
            OperatorCoordinatorHolder(operator, vertex, host)
            for vertex in job.vertices
            for operator in vertex.operators
        )
        self._holders = {holder.operator_id: holder for holder in made if holder.coordinator is not None}
        self._by_vertex: dict[str, list[OperatorCoordinatorHolder]] = {}
        for holder in self._holders.values():
            self._by_vertex.setdefault(holder.vertex, []).append(holder)

    def __iter__(self) -> Iterator[str]:
        return iter(self._holders)

    def __getitem__(self, operator_id: str) -> OperatorCoordinatorHolder:
        return self._holders[operator_id]

    def needing_splits(self) -> list[str]:
        """Return the operators whose splits the host must enumerate."""
        return [each.operator_id for each in self._holders.values() if each.coordinator.needs_splits]

    def deploy(self, latest: CompletedCheckpoint | None, parallelism: Mapping[str, int]) -> None:
        """Start all coordinators for a deployment from this checkpoint, or from scratch.

        Flink: `restoreStateToCoordinators`.
        """
        for holder in self._holders.values():
            state = None if latest is None else _coordinator_state(latest, holder.operator_id)
            checkpoint_id = NO_CHECKPOINT if latest is None else latest.checkpoint_id
            holder.deploy(checkpoint_id, state, parallelism[holder.vertex])

    def handle_event(self, message: OperatorEventToCoordinator) -> None:
        """Pass a subtask's event to its coordinator."""
        subtask = split_task_name(message.task)[1]
        self._holders[message.operator_id].handle_event(subtask, message.attempt, message.payload)

    def attempt_ready(self, task: str, attempt: int) -> None:
        """Report that an attempt of a task runs."""
        for holder, subtask in self._at(task):
            holder.attempt_ready(subtask, attempt)

    def attempt_failed(self, task: str, attempt: int, reason: str | None) -> None:
        """Report that an attempt of a task failed, or was cancelled (None)."""
        for holder, subtask in self._at(task):
            holder.attempt_failed(subtask, attempt, reason)

    def reset(self, tasks: Iterable[str], checkpoint_id: int) -> None:
        """Notify the coordinators that these tasks go back to a checkpoint, or to none (`NO_CHECKPOINT`).

        Flink: `SchedulerBase.notifyCoordinatorsOfSubtaskRestore`.
        """
        for task in tasks:
            for holder, subtask in self._at(task):
                holder.subtask_reset(subtask, checkpoint_id)

    def data_ended(self, task: str) -> None:
        """Report that a task has processed all its input, or has finished."""
        for holder, subtask in self._at(task):
            holder.data_ended(subtask)

    def open_gate(self, task: str, checkpoint_id: int) -> None:
        """Open the gates of a task: its barrier precedes everything sent to its operators from now on."""
        for holder, subtask in self._at(task):
            holder.open_gate(subtask, checkpoint_id)

    def _at(self, task: str) -> list[tuple[OperatorCoordinatorHolder, int]]:
        if not self._holders:
            return []
        vertex, subtask = split_task_name(task)
        return [(holder, subtask) for holder in self._by_vertex.get(vertex, ())]

    def notify_complete(self, checkpoint_id: int) -> None:
        for holder in self._holders.values():
            holder.notify_complete(checkpoint_id)

    def notify_aborted(self, checkpoint_id: int) -> None:
        for holder in self._holders.values():
            holder.notify_aborted(checkpoint_id)

    def abort_triggering(self) -> None:
        """Open the gates of the aborted checkpoint that was being triggered."""
        for holder in self._holders.values():
            holder.abort_triggering()

    def close(self) -> None:
        """Close all coordinators, because the job has ended."""
        for holder in self._holders.values():
            holder.close()

    def __repr__(self) -> str:
        return f"OperatorCoordinators({list(self._holders.values())})"


def _coordinator_state(checkpoint: CompletedCheckpoint, operator_id: str) -> bytes | None:
    state = checkpoint.operator_states.get(operator_id)
    if state is None or state.coordinator_state is None:
        return None
    return state.coordinator_state.data
