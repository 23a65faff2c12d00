"""The StreamTask machine: one subtask, from its deployment to its end.

A task is a mailbox. The host delivers messages, elements and answers one at a time through `handle`. Between them it
gives the task its turn with `ProcessInput` whenever `available` is True. One turn takes one element from an input
channel, or asks the source for one batch. The host may limit the rows of a turn, so that a slow function does not hold
up the messages and barriers that arrive meanwhile.

A barrier passes through the section "checkpoints" of this file from top to bottom:

- `TriggerTaskCheckpoint` (to a source) or a `CheckpointBarrier` in an input channel (any other task; the barrier
  handler decides when)
- `_perform_checkpoint`, and in it `SubtaskCheckpointCoordinator.checkpoint_state`
- the barrier to every output, and `WriteSnapshot` to the host
- `SnapshotWritten` from the host, and `AcknowledgeCheckpoint` to the JobMaster
- `NotifyCheckpointComplete` from the JobMaster

A task ends as follows. When all inputs (or the source) are at their end, the operators finish and `EndOfData` is sent
on. The task then waits until a checkpoint that began after that completes, so that the output it holds back is
published. Only then does it send `EndOfPartition` and become FINISHED. Stop-with-savepoint takes the same path, with
the savepoint as that last checkpoint.

With `checkpoints_after_tasks_finish` all operators are closed at once, as in 2.x, where no message is handled
meanwhile. Without it they are closed one per turn, head first, as in 1.11, and a trigger may come in between. A chain
with a closed operator sends the barrier on and declines (CHECKPOINT_DECLINED_TASK_CLOSING). A task whose operators are
all closed no longer runs: it sends a `CancelCheckpointMarker` instead and declines
(CHECKPOINT_DECLINED_TASK_NOT_READY). After it has left, its slot answers (`kit.machines.task.unknown_task`). In 2.x a
trigger that finds the mailbox closed is declined with CHECKPOINT_DECLINED_TASK_CLOSING.

`kit.machines.task.task_input` handles one element of an input, `kit.machines.task.source_loop` reads a source, and
`kit.machines.task.task_outputs` sends the results.

Follows Flink's `StreamTask`, `SourceOperatorStreamTask`, `OneInputStreamTask` and `Task`.
"""

from __future__ import annotations

import traceback
from typing import Any, ClassVar

import pyarrow as pa

from kit.core.event_time import MAX_WATERMARK_MS
from kit.core.protocol import commands, events, messages, outages
from kit.core.protocol.elements import (
    CancelCheckpointMarker,
    CheckpointBarrier,
    Element,
    EndOfData,
    EndOfPartition,
    Watermark,
    WatermarkStatus,
)
from kit.core.protocol.lineage import Lineage
from kit.core.protocol.notes import AlignmentTimedOut, BarrierNote
from kit.core.protocol.reasons import CheckpointException, CheckpointFailureReason
from kit.core.protocol.snapshots import Effect, RestoredPart
from kit.core.protocol.tasks import TRANSITIONS, ExecutionState, TaskStep
from kit.core.protocol.words import Machine, ProtocolError, ProtocolMessage, handles
from kit.core.state.errors import StateDescriptorError, StateRestoreError
from kit.core.state.operator_state import TaskStateSnapshot
from kit.machines.channel.channel_state.channel_state_capture import create_capture
from kit.machines.channel.channel_state.channel_state_writer import ChannelStateWriter
from kit.machines.task.barrier_handlers import create_barrier_handler
from kit.machines.task.chain import OperatorChain
from kit.machines.task.channel_recovery import recover_channels
from kit.machines.task.checkpoint_metrics import CheckpointMetricsBuilder
from kit.machines.task.final_checkpoint import FinalCheckpoint
from kit.machines.task.initialization_metrics import InitializationMetricsBuilder
from kit.machines.task.processing_timer import PROCESSING_TIME_TIMER, ProcessingTimer
from kit.machines.task.source_loop import SOURCE_TIMER, SourceLoop
from kit.machines.task.state_budget import memory_budget
from kit.machines.task.subtask_coordinator import (
    OUTPUT_ALIGNMENT_TIMER,
    Finished,
    SubtaskCheckpointCoordinator,
    WriteAnswer,
)
from kit.machines.task.task_activity import TaskActivity
from kit.machines.task.task_input import TaskInput, create_gates
from kit.machines.task.task_outputs import TaskOutputs
from kit.stream.backend.spill.spill_space import MemorySpace, SpillSpace
from kit.stream.graph.execution_graph import ExecutionGraph
from kit.stream.operators.sources.source_operator import SourceOperator
from kit.stream.operators.spec import UserFunctionError
from kit.stream.settings.job_settings import CheckpointConfig

ALIGNMENT_TIMEOUT = "alignment-timeout"


class StreamTask(Machine):
    """One subtask of a job: the task named `task` of the execution graph, deployed in epoch `attempt`.

    `space` takes the keyed state for which memory has no room (None: memory, too).
    """

    without_effect: ClassVar = frozenset({"failure", "rows_processed", "_initialization"})

    def __init__(self, graph: ExecutionGraph, task: str, attempt: int, space: SpillSpace | None = None) -> None:
        super().__init__(task, f"{task}@{attempt}")
        job = graph.job_graph
        self.state_budget = memory_budget(job, space or MemorySpace())
        """The memory for the keyed state of each operator, if some of it may be in `space`, and what is there."""
        vertex = self.vertex = graph.task(task)
        self.attempt = attempt
        self.job_id = job.job_id
        self.lineage = Lineage(job.job_id)
        self.subtask = vertex.subtask_index
        operators = " -> ".join(operator.name for operator in vertex.vertex.operators)
        self.display_name = f"{operators} ({self.subtask + 1}/{vertex.parallelism})#{attempt - 1}"
        """Flink's name for the task (`TaskInfo.getTaskNameWithSubtasks`)."""
        self.state = ExecutionState.CREATED
        self.error = ""
        self.failure: Exception | None = None
        self.rows_processed = 0
        """The rows that the head of the chain has taken, or that the source has read, in this attempt."""
        self._settings = job.settings
        self.channel_state = ChannelStateWriter(task, self.emit)
        capture = create_capture(job.parts.channel_state_capture, self.channel_state)
        self.inputs = create_gates(graph, vertex, self.channel_state, capture)
        self.outputs = TaskOutputs(graph, vertex, self._send, self._note_waiting, self.channel_state, capture)
        unaligned = job.settings.checkpoint.unaligned
        self.checkpoints = SubtaskCheckpointCoordinator(self, may_hold_channel_state=unaligned)
        own = job.parts.barrier_handler
        self.barriers = create_barrier_handler(job.settings.checkpoint, self.inputs, self, own)
        self.input = TaskInput(vertex, self, self.inputs, self.barriers)
        self.chain = OperatorChain(vertex.vertex, self)
        self._source = self._create_source_loop()
        source = None if self._source is None else self._source.operator
        self.activity = TaskActivity(self.outputs, self.inputs, source, self.chain.looks_for_idleness_every_ms)
        self._timer = ProcessingTimer(self)
        self._restored: TaskStateSnapshot | None = None
        self._recovers_channels = False
        self._deployed_as_finished = False
        self._initialization: InitializationMetricsBuilder | None = None
        self._operators_finished = False
        self._operators_closed = False
        after_finish = job.settings.checkpoint.checkpoints_after_tasks_finish
        self._final = FinalCheckpoint(required=after_finish)
        self._closes_in_turns = not after_finish
        self._last_notified_id = 0
        self._commits_pending: set[tuple[str, int]] = set()

    # --- for the host ---------------------------------------------------------------------------------------------

    def handle(self, event: ProtocolMessage, at: int, cause: str = "") -> list[ProtocolMessage]:
        """Handle one event; an error in the task's own code leads to the state FAILED instead of an exception."""
        self.activity.observe(at)
        try:
            said = super().handle(event, at, cause)
            if self.state_budget is not None:
                self.chain.make_room()
            return said
        except ProtocolError:
            raise
        except Exception as error:
            self._fail(error)
            return self._commands

    def _create_source_loop(self) -> SourceLoop | None:
        head = self.chain.head
        return SourceLoop(head, self.chain.links[0].operator_id, self) if isinstance(head, SourceOperator) else None

    def accepts(self, event: ProtocolMessage) -> bool:
        """Return False for messages to other attempts of this task, which are dropped."""
        return not isinstance(event, messages.TaskMessage) or event.attempt == self.attempt

    @property
    def is_source(self) -> bool:
        """True if it reads a source instead of channels."""
        return self._source is not None

    def readings(self) -> list[dict[str, Any]]:
        """Return the metrics of each operator, head first, as JSON-like data."""
        return self.chain.readings(self.input.watermarks_ms)

    @property
    def available(self) -> bool:
        """True if a `ProcessInput` would do something. While outputs are full, only priority elements are taken."""
        if self.state is ExecutionState.INITIALIZING:
            return self.input.is_recovering and self.outputs.writable
        if self.state is not ExecutionState.RUNNING:
            return False
        if self._is_closing:
            return True
        if not self.outputs.writable:
            return self.inputs.priority_available
        if self._source is None:
            return self.inputs.available
        return self._source.available and not self._operators_finished

    # --- deployment and state -------------------------------------------------------------------------------------

    @handles(messages.DeployTask)
    def _deploy(self, message: messages.DeployTask) -> None:
        self._step(TaskStep.DEPLOY)
        self._step(TaskStep.INITIALIZE)
        self._initialization = InitializationMetricsBuilder(self.at)
        for channel in self.inputs:
            channel.grant(self._settings.channel_credits)
            self.emit(commands.GrantCredit(channel=channel.number, credits=self._settings.channel_credits))
        self._recovers_channels = message.recovers_channels
        self.lineage = message.lineage or self.lineage
        if message.restore is None:
            self._initialize(events.StateRead(parts=()))
            return
        self._restored = message.restore.state
        self._last_notified_id = message.restore.checkpoint_id
        if message.restore.state.is_task_deployed_as_finished:
            self._deployed_as_finished = True
            self.chain = OperatorChain(self.vertex.vertex, self, finished=True)
            self._recover_channels(())
            self._run()
        else:
            key_groups = self.vertex.key_group_range if message.restore.state.is_incremental else None
            self.emit(commands.ReadState(restore=message.restore, key_group_range=key_groups))
        self._prune_local_state(message.restore.checkpoint_id, commands.LocalCopies.OTHER)

    @handles(events.StateRead)
    def _initialize(self, event: events.StateRead) -> None:
        if self.state is not ExecutionState.INITIALIZING or self._initialization is None:
            return
        self._initialization.state_read(self.at, event.parts)
        self.chain.restore(event.parts, None if self._restored is None else self._last_notified_id)
        self._recover_channels(event.parts)
        self._run_when_recovered()

    def _recover_channels(self, parts: tuple[RestoredPart, ...]) -> None:
        if self._recovers_channels:
            recover_channels(parts, self._restored, self.chain, self.input, self.outputs)

    def _run_when_recovered(self) -> None:
        """Become RUNNING as soon as all recovered in-flight data of the inputs has been processed."""
        if not self.input.is_recovering:
            self._run()
            self._timer.arm()

    @handles(events.StateReadFailed)
    def _state_read_failed(self, event: events.StateReadFailed) -> None:
        self._fail(RuntimeError(event.error), recoverable=event.recoverable, may_pass=event.may_pass)

    def _run(self) -> None:
        self._become(TaskStep.RUN)
        if self._source is not None:
            self._source.wake()
        if self._deployed_as_finished and not self.inputs.channels:
            self._end_data(drain=True)

    @handles(messages.CancelTask)
    def _cancel(self, message: messages.CancelTask) -> None:
        if self.state.is_terminal:
            return
        self._become(TaskStep.CANCEL)
        self._close()
        self._become(TaskStep.LET_GO)

    def _close(self) -> Exception | None:
        """Release everything, each part even if another fails in it; return the first failure."""
        first: Exception | None = None
        for part in (self.barriers, self.checkpoints, self.chain):
            try:
                part.close()
            except Exception as failure:
                first = first or failure
        return first

    def _fail(self, error: Exception, *, recoverable: bool = True, may_pass: bool = False) -> None:
        if self.state.is_terminal:
            return
        self.error, self.failure = f"{type(error).__name__}: {error}", error
        failure = self._close()
        if failure is not None:
            error.add_note(f"While the task was closed: {type(failure).__name__}: {failure}")
        trace = "".join(traceback.format_exception(error))
        self._become(
            TaskStep.FAIL,
            traceback=trace,
            recoverable=recoverable and not _is_of_state(error),
            may_pass=may_pass or outages.may_pass(error),
        )

    def _step(self, step: TaskStep) -> None:
        self.state = TRANSITIONS.follow(self.name, self.state, step)

    def _become(self, step: TaskStep, **failure: Any) -> None:
        """Take a step and report it to the JobMaster; the first report, even of a failure, carries the measurements."""
        self._step(step)
        began, self._initialization = self._initialization, None
        took = None if began is None else began.build(self.at, completed=self.state is ExecutionState.RUNNING)
        self.emit(
            messages.TaskStateChanged(
                task=self.name,
                attempt=self.attempt,
                state=self.state,
                error=self.error,
                initialization=took,
                **failure,
            )
        )

    # --- records --------------------------------------------------------------------------------------------------

    @handles(events.ElementReceived)
    def _receive(self, event: events.ElementReceived) -> None:
        self.inputs.channel(event.channel).receive(event.element, self.event_id)

    @handles(events.CreditReceived)
    def _credit(self, event: events.CreditReceived) -> None:
        self.outputs.add_credits(event.channel, event.credits, event.max_rows)
        self.leave_when_done()

    @handles(events.ProcessInput)
    def _process_input(self, event: events.ProcessInput) -> None:
        if not self.available:
            return
        if self.state is ExecutionState.INITIALIZING:
            self.input.take_recovered()
            self._run_when_recovered()
        elif self._is_closing:
            self._close_next()
        elif self._source is None:
            self.input.take_turn(self._limit(event.max_rows), only_priority=not self.outputs.writable)
        elif not self._source.take_turn(self._limit(event.max_rows)):
            self._end_data(drain=True)

    def _limit(self, max_rows: int | None) -> int | None:
        """Return how many rows to take in a turn: what the host allows, and what the receivers take of the result."""
        limits = (max_rows, self.outputs.most_rows(self.rows_processed))
        return min((each for each in limits if each is not None), default=None)

    def process_batch(self, batch: pa.RecordBatch, input_index: int) -> None:
        self.rows_processed += batch.num_rows
        self.chain.process_batch(batch, input_index)
        self._timer.arm()

    def advance_event_time(self, timestamp_ms: int) -> None:
        if self._deployed_as_finished:
            self.outputs.broadcast(Watermark(timestamp_ms))
        else:
            self.chain.process_watermark(timestamp_ms)
            self._timer.arm()

    def announce_idleness(self, idle: bool) -> None:
        if self._deployed_as_finished:
            self.outputs.broadcast(WatermarkStatus(idle))
        else:
            self.chain.process_watermark_status(idle=idle)

    def event_time_of_inputs(self) -> dict[str, Any]:
        """Return what the inputs say of event time, as JSON-like data."""
        return self.input.event_time

    @property
    def checkpoint_settings(self) -> CheckpointConfig:
        """The settings of the job's checkpoints."""
        return self._settings.checkpoint

    def commit_effects(self, operator_id: str, checkpoint_id: int, effects: tuple[Effect, ...]) -> None:
        """Publish an operator's staged output; the task stays until it is published."""
        self._commits_pending.add((operator_id, checkpoint_id))
        self.emit(commands.CommitEffects(operator_id=operator_id, checkpoint_id=checkpoint_id, effects=effects))

    def broadcast(self, element: Element) -> None:
        """Send an event to every output."""
        self.outputs.broadcast(element)

    def _send(self, channel: int, element: Element) -> None:
        overtakes = isinstance(element, CheckpointBarrier) and element.options.is_unaligned
        self.emit(commands.SendElement(channel=channel, element=element, priority=overtakes))

    def _note_waiting(self, channel: int, element: Element) -> None:
        self.emit(commands.ElementQueued(channel=channel, element=element))

    # --- sources --------------------------------------------------------------------------------------------------

    @handles(events.SplitRead)
    def _split_read(self, event: events.SplitRead) -> None:
        if self._source is None:
            raise ProtocolError(f"{self.name} has no source, yet a split was read for it")
        self._source.read_ended()
        if self.state is ExecutionState.RUNNING and not self._operators_finished:
            self.rows_processed += 0 if event.batch is None else event.batch.num_rows
            self._source.take(event)
            self._timer.arm()

    @handles(events.RowsAvailable)
    def _rows_available(self, event: events.RowsAvailable) -> None:
        if self._source is not None and self.state is ExecutionState.RUNNING and not self._operators_finished:
            self._source.rows_available(event)

    @handles(events.SplitReadFailed)
    def _split_read_failed(self, event: events.SplitReadFailed) -> None:
        error = RuntimeError(event.error) if event.raised is None else UserFunctionError(event.error)
        error.__cause__ = event.raised
        self._fail(error, recoverable=event.recoverable, may_pass=event.may_pass)

    @handles(messages.OperatorEventToTask)
    def _operator_event(self, message: messages.OperatorEventToTask) -> None:
        if self.state is ExecutionState.RUNNING and not self._deployed_as_finished:
            if self._source is not None:
                self._source.wake()
            self.chain.link(message.operator_id).operator.handle_coordinator_event(message.payload)

    @handles(events.TimerFired)
    def _timer_fired(self, event: events.TimerFired) -> None:
        if event.timer == SOURCE_TIMER and self._source is not None:
            self._source.wake()
        elif event.timer == OUTPUT_ALIGNMENT_TIMER and self.state is ExecutionState.RUNNING:
            self.checkpoints.aligned_barrier_timeout()
        elif event.timer == PROCESSING_TIME_TIMER and not (self.state.is_terminal or self._operators_finished):
            self._timer.fire()
        elif event.timer == ALIGNMENT_TIMEOUT and self.state is ExecutionState.RUNNING:
            self.barriers.on_alignment_timeout()

    # --- checkpoints ----------------------------------------------------------------------------------------------

    @handles(messages.TriggerTaskCheckpoint)
    def _trigger_checkpoint(self, message: messages.TriggerTaskCheckpoint) -> None:
        """Take a checkpoint that the JobMaster triggers directly, because no barrier will come.

        Flink: `StreamTask.triggerCheckpoint`, with `triggerCheckpointBarrier` and `triggerCheckpointAsync`.
        """
        barrier = CheckpointBarrier(message.checkpoint_id, message.timestamp_ms, message.options)
        if not self.is_running:
            self._decline_not_running(message.checkpoint_id)
            return
        if not self.inputs.all_ended:
            for channel in self.inputs.open_channels:
                self.barriers.process_barrier(barrier, channel, is_rpc=True)
            return
        if self._stops_with(barrier):
            self._end_data(drain=message.options.snapshot_type.should_drain)
        self.init_input_checkpoint(barrier)
        self.all_barriers_received(barrier.checkpoint_id)
        delay_ms = max(0, self.at - message.timestamp_ms)
        self._perform_checkpoint(barrier, CheckpointMetricsBuilder.without_alignment(delay_ms))

    def _decline_not_running(self, checkpoint_id: int) -> None:
        """Decline, because the task cannot take a snapshot before or after it runs.

        While the outputs are open, the tasks downstream are notified not to wait for a barrier. Only triggers lead
        here, never barriers: a task takes none before it runs, and closes when its inputs have ended.
        """
        if self.state is ExecutionState.RUNNING:
            self.broadcast(CancelCheckpointMarker(checkpoint_id))
        reason = CheckpointFailureReason.CHECKPOINT_DECLINED_TASK_NOT_READY
        self.checkpoints.decline(checkpoint_id, reason, f"{self.name} does not run")

    def trigger_checkpoint_on_barrier(self, barrier: CheckpointBarrier, metrics: CheckpointMetricsBuilder) -> None:
        """Take the checkpoint now, at the request of the barrier handler (`triggerCheckpointOnBarrier`)."""
        self._perform_checkpoint(barrier, metrics)

    def _perform_checkpoint(self, barrier: CheckpointBarrier, metrics: CheckpointMetricsBuilder) -> None:
        """Take the checkpoint now (`performCheckpoint`)."""
        self._stops_with(barrier)
        if self._operators_finished:
            self._final.begin(barrier.checkpoint_id)
        finished = Finished(operators=self._operators_finished, on_restore=self._deployed_as_finished)
        self.checkpoints.checkpoint_state(barrier, metrics, self.chain, finished)

    def _stops_with(self, barrier: CheckpointBarrier) -> bool:
        """Let the task stop with a savepoint if `barrier` is that of a stop. Return True if so.

        The task may know already that this savepoint was aborted. It must then not wait for it: no other message about
        it will come. Flink's task waits, indefinitely once its data has ended.
        """
        stops = barrier.options.snapshot_type.is_synchronous and self.checkpoints.will_start(barrier.checkpoint_id)
        if stops:
            self._final.stop_with(barrier.checkpoint_id)
        return stops

    @handles(events.SnapshotWritten, events.SnapshotFailed, messages.ChannelStateWritten, messages.ChannelStateFailed)
    def _take_answer(self, event: WriteAnswer) -> None:
        """Handle the outcome of writing state or in-flight data."""
        if self.state is ExecutionState.RUNNING:
            if isinstance(event, events.SnapshotWritten):
                self.chain.snapshot_written(event.checkpoint_id, event.state)
            self.checkpoints.take_answer(event)
            self.leave_when_done()

    @handles(messages.NotifyCheckpointComplete)
    def _checkpoint_complete(self, message: messages.NotifyCheckpointComplete) -> None:
        if self.state is not ExecutionState.RUNNING:  # not for operators; old copies are deleted all the same
            self._prune_local_state(message.checkpoint_id, commands.LocalCopies.OLDER)
            return
        if message.last_subsumed_id >= 0:
            self.chain.notify_checkpoint_subsumed(message.last_subsumed_id)
        self._notify_complete(message.checkpoint_id)

    def _notify_complete(self, checkpoint_id: int) -> None:
        """Notify the operators once per checkpoint, and never of one older than the last, even if that was restored."""
        if checkpoint_id <= self._last_notified_id:
            return
        self._last_notified_id = checkpoint_id
        self._prune_local_state(checkpoint_id, commands.LocalCopies.OLDER)
        self.chain.notify_checkpoint_complete(checkpoint_id)
        self._final.complete(checkpoint_id)
        self.leave_when_done()

    @handles(messages.NotifyCheckpointAborted)
    def _checkpoint_aborted(self, message: messages.NotifyCheckpointAborted) -> None:
        if self.state is not ExecutionState.RUNNING:
            return
        self._notify_complete(message.latest_completed_id)
        if not self.state.is_terminal:
            self._fail_if_stopping_with(message.checkpoint_id, "it was aborted")
            self._prune_local_state(message.checkpoint_id, commands.LocalCopies.SAME)
            self.checkpoints.notify_checkpoint_aborted(message.checkpoint_id, self.chain)
            self.leave_when_done()

    def _prune_local_state(self, checkpoint_id: int, copies: commands.LocalCopies) -> None:
        if self._settings.checkpoint.local_recovery:
            self.emit(commands.PruneLocalState(subtask=self.subtask, checkpoint_id=checkpoint_id, copies=copies))

    def _fail_if_stopping_with(self, checkpoint_id: int, why: str) -> None:
        if self._final.is_stopped_with(checkpoint_id):
            raise RuntimeError(f"stop-with-savepoint failed: there will be no savepoint {checkpoint_id}: {why}")

    @handles(events.EffectsCommitted)
    def _effects_committed(self, event: events.EffectsCommitted) -> None:
        self._commits_pending.discard((event.operator_id, event.checkpoint_id))
        if self.state is ExecutionState.RUNNING:
            self.chain.link(event.operator_id).operator.effects_committed(event.checkpoint_id)
        self.leave_when_done()

    @handles(events.EffectsFailed, events.RowsNotWritten)
    def _output_failed(self, event: events.EffectsFailed | events.RowsNotWritten) -> None:
        self._fail(RuntimeError(event.error), may_pass=event.may_pass)

    # --- calls of the barrier handler -----------------------------------------------------------------------------

    def init_input_checkpoint(self, barrier: CheckpointBarrier) -> None:
        """Start a checkpoint at the inputs: the data in flight there may belong to it."""
        if self.input.is_rescaling:
            raise CheckpointException(
                CheckpointFailureReason.CHECKPOINT_DECLINED_TASK_NOT_READY,
                f"{self.name} still recovers in-flight data of another parallelism",
            )
        if self.is_running:
            self.checkpoints.init_inputs_checkpoint(barrier.checkpoint_id, barrier.options)

    def all_barriers_received(self, checkpoint_id: int) -> None:
        """End the in-flight data of the inputs that belongs to the checkpoint."""
        self.checkpoints.all_barriers_received(checkpoint_id)

    def abort_checkpoint_on_barrier(self, checkpoint_id: int, reason: CheckpointFailureReason, detail: str) -> None:
        """Abort a checkpoint that cannot be taken because of its barriers."""
        self._fail_if_stopping_with(checkpoint_id, detail)
        self.checkpoints.abort_checkpoint_on_barrier(checkpoint_id, reason, detail)

    def schedule_alignment_timeout(self, due_ms: int) -> None:
        """Set the timer of the barrier handler's alignment."""
        self.emit(commands.ScheduleTimer(timer=ALIGNMENT_TIMEOUT, due_ms=due_ms))

    def cancel_alignment_timeout(self) -> None:
        """Cancel the timer of the barrier handler's alignment."""
        self.emit(commands.CancelTimer(timer=ALIGNMENT_TIMEOUT))

    def note_barrier(self, note: BarrierNote | AlignmentTimedOut) -> None:
        """Record an action of the barrier handler in the trace."""
        self.emit(note)

    # --- the end --------------------------------------------------------------------------------------------------

    def end_input(self, drain: bool) -> None:
        self._end_data(drain=drain)

    def _end_data(self, *, drain: bool) -> None:
        """End the data: all input has been processed, or a stop-with-savepoint ends it here.

        Flink: `endData`; with `drain` event time ends (`advanceToEndOfEventTime`, in 1.11 for a `advanceToEndOfTime` in
        the options).
        """
        if self._operators_finished:
            return
        if drain and not self.inputs.channels:
            self.advance_event_time(MAX_WATERMARK_MS)
        if drain:
            self.chain.finish()
        self._operators_finished = True
        self.broadcast(EndOfData(drain))
        if drain:
            self.emit(
                messages.TaskStateChanged(task=self.name, attempt=self.attempt, state=self.state, end_of_data=True)
            )
        self.leave_when_done()

    def leave_when_done(self) -> None:
        """Become FINISHED once no request can come any more, unless its operators are closed in turns first."""
        if self.state is ExecutionState.RUNNING and not self._closes_in_turns and self._may_leave:
            self._leave()

    @property
    def is_running(self) -> bool:
        """True if operators process records, or may still be asked for a snapshot (`StreamTask.isRunning`)."""
        return self.state is ExecutionState.RUNNING and not self._operators_closed

    @property
    def _is_closing(self) -> bool:
        return self._closes_in_turns and self._may_leave

    def _close_next(self) -> None:
        """Close one operator (`closeOperators` of 1.11); after the last one, leave in the next turn."""
        if self._operators_closed:
            self._leave()
        else:
            self._operators_closed = not self.chain.close_next()

    def _leave(self) -> None:
        failure = self._close()
        if failure is not None:
            self._fail(failure)
            return
        self.broadcast(EndOfPartition())
        self._become(TaskStep.FINISH)

    @property
    def _may_leave(self) -> bool:
        if not self._operators_finished or not self.inputs.all_ended:
            return False
        if self._commits_pending or self.checkpoints.running:
            return False
        return self.outputs.all_taken(self._settings.channel_credits) and not self._final.is_awaited

    def validate(self) -> None:
        """Check the invariants of the task and its parts."""
        self.input.validate(self._settings.channel_credits)
        self.checkpoints.validate()
        if self.state is ExecutionState.RUNNING and not self._operators_finished:
            self._timer.validate()

    def __repr__(self) -> str:
        return f"StreamTask({self.name}@{self.attempt}, {self.state.name})"


def _is_of_state(error: BaseException | None) -> bool:
    """Return True if the error, or a cause of it, is that stored state does not fit the job: no retry will help."""
    while error is not None:
        if isinstance(error, StateDescriptorError | StateRestoreError):
            return True
        error = error.__cause__
    return False
