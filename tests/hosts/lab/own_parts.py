"""Parts of the protocol as a user writes them: right ones, and ones with the usual mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kit.core.protocol.elements import CancelCheckpointMarker, CheckpointBarrier, DataElement, Element
from kit.core.protocol.reasons import CheckpointException, CheckpointFailureReason
from kit.core.state.handles import (
    InputChannelInfo,
    OperatorStateMode,
    OperatorStreamStateHandle,
    ResultSubpartitionInfo,
    StateMetaInfo,
)
from kit.machines.channel.channel_state.channel_state_capture import CaptureWriter, ChannelStateCapture
from kit.machines.channel.input_channel import InputChannel
from kit.machines.coordinator.request_decider import CheckpointTriggerRequest, Refuse, Reschedule
from kit.machines.task.barrier_handler import CheckpointBarrierHandler
from kit.stream.connectors.sink import CollectSink, SinkOperator, SinkSpec

# ---- barrier handlers -----------------------------------------------------------------------------------------------


class Aligner(CheckpointBarrierHandler):
    """Exactly once: a channel whose barrier has come waits for the others."""

    def __init__(self, gates: Any, actions: Any, **settings: Any) -> None:
        super().__init__(gates, actions, **settings)
        self.latest_id = -1
        self.barrier: CheckpointBarrier | None = None
        self.arrived: list[InputChannel] = []
        self.expected = 0

    @property
    def pending_checkpoint_id(self) -> int | None:
        return None if self.barrier is None else self.barrier.checkpoint_id

    @property
    def awaited_channels(self) -> list[InputChannel]:
        if self.barrier is None:
            return []
        return [each for each in self._gates.open_channels if each not in self.arrived]

    def process_barrier(self, barrier: CheckpointBarrier, channel: InputChannel, *, is_rpc: bool = False) -> None:
        if barrier.checkpoint_id > self.latest_id:
            if self.barrier is not None:
                self.give_up(self.latest_id, CheckpointFailureReason.CHECKPOINT_DECLINED_SUBSUMED)
            self.latest_id, self.barrier = barrier.checkpoint_id, barrier
            self.arrived, self.expected = [], len(self._gates.open_channels)
            self._mark_alignment_start(barrier)
        elif self.barrier is None or barrier.checkpoint_id < self.latest_id:
            if not is_rpc:
                channel.resume()
            return
        if not is_rpc:
            channel.block()
        self.count(channel)

    def process_cancellation(self, marker: CancelCheckpointMarker, channel: InputChannel) -> None:
        if marker.checkpoint_id > self.latest_id or marker.checkpoint_id == self.pending_checkpoint_id:
            self.give_up(marker.checkpoint_id, CheckpointFailureReason.CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER)

    def process_end_of_partition(self, channel: InputChannel) -> None:
        if self.barrier is not None:
            self.count(channel)

    def count(self, channel: InputChannel) -> None:
        if channel not in self.arrived:
            self.arrived.append(channel)
        if self.barrier is not None and len(self.arrived) == self.expected:
            barrier, self.barrier = self.barrier, None
            self._mark_alignment_end()
            self._notify_checkpoint(barrier)
            self.resume_all()
            self._actions.all_barriers_received(barrier.checkpoint_id)

    def give_up(self, checkpoint_id: int, reason: CheckpointFailureReason) -> None:
        self.latest_id, self.barrier = checkpoint_id, None
        self.resume_all()
        self._reset_alignment()
        self._actions.abort_checkpoint_on_barrier(checkpoint_id, reason, "given up here")

    def resume_all(self) -> None:
        self._gates.resume([channel for channel in self._gates if channel.blocked])


class LetsGoOn(Aligner):
    """Forgets to keep a channel blocked until the other barriers are here."""

    def process_barrier(self, barrier: CheckpointBarrier, channel: InputChannel, *, is_rpc: bool = False) -> None:
        super().process_barrier(barrier, channel, is_rpc=is_rpc)
        channel.resume()


class StaysBlocked(Aligner):
    """Forgets to unblock the channels."""

    def resume_all(self) -> None:
        pass


class Raises(Aligner):
    """Has a bug that the first barrier triggers."""

    def process_barrier(self, barrier: CheckpointBarrier, channel: InputChannel, *, is_rpc: bool = False) -> None:
        raise KeyError(channel.number)


# ---- captures of channel state --------------------------------------------------------------------------------------


class Captures(ChannelStateCapture):
    """Captures the data that a barrier overtakes, as the kit does."""

    def __init__(self, writer: CaptureWriter) -> None:
        super().__init__(writer)
        self.waiting: dict[InputChannelInfo, int] = {}

    def checkpoint_started(self, checkpoint_id: int, channel: InputChannelInfo, queue: Sequence[Element]) -> None:
        self.waiting[channel] = checkpoint_id
        data: list[DataElement] = []
        for element in queue:
            if self.ends(element, checkpoint_id):
                del self.waiting[channel]
                break
            if isinstance(element, DataElement):
                data.append(element)
        self.writer.add_input_data(checkpoint_id, channel, data)

    def element_received(self, channel: InputChannelInfo, element: Element) -> None:
        checkpoint_id = self.waiting.get(channel)
        if checkpoint_id is None:
            return
        if self.ends(element, checkpoint_id):
            del self.waiting[channel]
        elif isinstance(element, DataElement):
            self.writer.add_input_data(checkpoint_id, channel, [element])

    def ends(self, element: Element, checkpoint_id: int) -> bool:
        return isinstance(element, CheckpointBarrier) and element.checkpoint_id >= checkpoint_id

    def checkpoint_stopped(self, checkpoint_id: int, channel: InputChannelInfo) -> None:
        if self.waiting.get(channel, checkpoint_id + 1) <= checkpoint_id:
            del self.waiting[channel]

    def barrier_overtakes(self, checkpoint_id: int, subpartition: ResultSubpartitionInfo, queue: list[Element]) -> None:
        data = [element for element in queue if isinstance(element, DataElement)]
        self.writer.add_output_data(checkpoint_id, subpartition, data)


class CapturesEvents(Captures):
    """Captures the barrier together with the data that it overtakes."""

    def ends(self, element: Element, checkpoint_id: int) -> bool:
        if super().ends(element, checkpoint_id):
            for channel in self.waiting:
                self.writer.add_input_data(checkpoint_id, channel, [element])  # type: ignore[list-item]
        return super().ends(element, checkpoint_id)


class NeverStops(Captures):
    """Continues to capture after the checkpoint is over."""

    def ends(self, element: Element, checkpoint_id: int) -> bool:
        return False

    def checkpoint_stopped(self, checkpoint_id: int, channel: InputChannelInfo) -> None:
        pass


class WritesToAnotherOutput(Captures):
    """Reports overtaken data for another channel."""

    def barrier_overtakes(self, checkpoint_id: int, subpartition: ResultSubpartitionInfo, queue: list[Element]) -> None:
        super().barrier_overtakes(checkpoint_id, ResultSubpartitionInfo(subpartition.partition_idx, 99), queue)


# ---- request deciders -----------------------------------------------------------------------------------------------


class FirstComeFirstServed:
    """Requests are carried out in the order they came in."""

    def __init__(self, max_concurrent: int, min_pause_ms: int, refuse: Refuse, reschedule: Reschedule) -> None:
        self.max_concurrent = max_concurrent
        self.refuse = refuse
        self.queue: list[CheckpointTriggerRequest] = []

    def add(self, request: CheckpointTriggerRequest) -> bool:
        self.queue.append(request)
        return True

    def choose(
        self, *, now_ms: int, pending: int, is_triggering: bool, last_completion_ms: int, cleaning: int = 0
    ) -> CheckpointTriggerRequest | None:
        if is_triggering or not self.queue:
            return None
        if pending >= self.max_concurrent and not self.queue[0].properties.forced:
            return None
        return self.queue.pop(0)

    def abort_all(self, why: CheckpointException) -> None:
        while self.queue:
            self.refuse(self.queue.pop(0), why)

    def validate(self) -> None:
        pass


class NoLimit(FirstComeFirstServed):
    """Forgets how many checkpoints may be pending."""

    def __init__(self, max_concurrent: int, min_pause_ms: int, refuse: Refuse, reschedule: Reschedule) -> None:
        super().__init__(1_000, min_pause_ms, refuse, reschedule)


class ChoosesANumber(FirstComeFirstServed):
    """Returns a value that is not a request."""

    def choose(self, **now: Any) -> Any:
        return 7 if super().choose(**now) else None


# ---- accounts of acknowledgements ------------------------------------------------------------------------------------


class Accounts:
    """The acknowledgements of a pending checkpoint, counted as the kit does."""

    def __init__(self, tasks: Sequence[str]) -> None:
        self.waiting_for = set(tasks)
        self.states: dict[str, Any] = {}
        self.to_delete: list[Any] = []
        self.aborted = False

    def acknowledge(self, task: str, state: Any) -> str:
        if task in self.states:
            return "DUPLICATE"
        if self.aborted or task not in self.waiting_for:
            self.to_delete.append(state)
            return "DISCARDED" if self.aborted else "UNKNOWN"
        self.waiting_for.remove(task)
        self.states[task] = state
        return "SUCCESS"

    @property
    def is_complete(self) -> bool:
        return not self.aborted and not self.waiting_for

    def abort(self) -> None:
        self.aborted = True
        self.to_delete += self.states.values()


class CountsTwice(Accounts):
    """Accepts a duplicate acknowledgement as a new one."""

    def acknowledge(self, task: str, state: Any) -> str:
        super().acknowledge(task, state)
        return "SUCCESS"


class SaysYes(Accounts):
    """Answers with strings that the kit does not know."""

    def acknowledge(self, task: str, state: Any) -> str:
        return "yes"


class KeepsText(Accounts):
    """Keeps something else than the state."""

    def acknowledge(self, task: str, state: Any) -> str:
        return super().acknowledge(task, str(state))


class DeletesWhatIsKept(Accounts):
    """Deletes the state of a duplicate acknowledgement."""

    def acknowledge(self, task: str, state: Any) -> str:
        if task in self.states:
            self.to_delete.append(state)
        return super().acknowledge(task, state)


# ---- repartitioners -------------------------------------------------------------------------------------------------

Handles = Sequence[OperatorStreamStateHandle]


class OneByOne:
    """Entries that are split go to the subtasks in turn; all others to every subtask."""

    def repartition_state(
        self, previous: Sequence[Handles], old_parallelism: int, new_parallelism: int
    ) -> Sequence[Handles]:
        dealt: list[dict[Any, dict[str, StateMetaInfo]]] = [{} for _ in range(new_parallelism)]
        turn = 0
        for handle in (handle for handles in previous for handle in handles):
            for name, info in handle.state_name_to_partition_offsets.items():
                if info.mode is not OperatorStateMode.SPLIT_DISTRIBUTE:
                    for mine in dealt:
                        mine.setdefault(handle.delegate, {})[name] = info
                    continue
                runs: list[list[int]] = [[] for _ in range(new_parallelism)]
                for offset in info.offsets:
                    runs[turn % new_parallelism].append(offset)
                    turn += 1
                for mine, run in zip(dealt, runs):
                    if run:
                        mine.setdefault(handle.delegate, {})[name] = StateMetaInfo(tuple(run), info.mode)
        return [[OperatorStreamStateHandle(names, stream) for stream, names in mine.items()] for mine in dealt]


class OldSubtaskToNew:
    """Gives subtask i the previous state of subtask i, and drops the state of subtasks that do not exist any more."""

    def repartition_state(
        self, previous: Sequence[Handles], old_parallelism: int, new_parallelism: int
    ) -> Sequence[Handles]:
        return [previous[subtask] if subtask < old_parallelism else [] for subtask in range(new_parallelism)]


class OneTooFew(OneByOne):
    """Leaves out the last subtask."""

    def repartition_state(
        self, previous: Sequence[Handles], old_parallelism: int, new_parallelism: int
    ) -> Sequence[Handles]:
        return super().repartition_state(previous, old_parallelism, new_parallelism)[:-1]


# ---- a sink ---------------------------------------------------------------------------------------------------------


class Hasty(CollectSink):
    """A sink with a user-defined operator."""

    def create_operator(self, spec: SinkSpec) -> SinkOperator:
        return HastySink(spec)


class Full(CollectSink):
    """Another one."""

    def create_operator(self, spec: SinkSpec) -> SinkOperator:
        return FullSink(spec)


class HastySink(SinkOperator):
    """Publishes what it has staged without waiting for the checkpoint to complete."""

    def snapshot_state(self, checkpoint_id: int) -> None:
        super().snapshot_state(checkpoint_id)
        self.notify_checkpoint_complete(checkpoint_id)


class FullSink(SinkOperator):
    """Cannot take part in any checkpoint."""

    def snapshot_state(self, checkpoint_id: int) -> None:
        raise RuntimeError("no room is left")
