"""One barrier handler with its channels, driven by hand: events in, calls out, and a clock that tests move.

Arriving elements are written as `<kind><number>@<channel>`:

- `d7@0`: a buffer with the number 7 on channel 0;
- `b2@0`: a barrier of checkpoint 2, of the kind that the harness was made for;
- `u2@0`, `t2@0`, `s2@0`: an unaligned barrier, one whose alignment may time out, and one of a savepoint;
- `x2@0`, `w5@0`, `e@0`: a cancel marker, a watermark, and the end of the channel.

Elements that the task takes are written in the same way; an announcement is `a2@0`.

`calls` is what the handler asked of its task: `start 1`, `trigger 1 UNALIGNED`, `all 1`, `abort 1 <reason>`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from kit.core.protocol.elements import (
    Buffer,
    CancelCheckpointMarker,
    CheckpointBarrier,
    DataElement,
    Element,
    EndOfPartition,
    Watermark,
)
from kit.core.protocol.notes import AlignmentTimedOut, BarrierNote
from kit.core.protocol.options import AlignmentType, CheckpointOptions
from kit.core.protocol.properties import SavepointFormatType, SavepointType
from kit.core.protocol.reasons import CheckpointFailureReason
from kit.core.state.handles import InputChannelInfo
from kit.machines.channel.event_announcement import EventAnnouncement
from kit.machines.channel.input_channel import InputChannel
from kit.machines.channel.input_gate import InputGates
from kit.machines.task.barrier_handler import CheckpointBarrierHandler
from kit.machines.task.barrier_tracker import CheckpointBarrierTracker
from kit.machines.task.checkpoint_metrics import CheckpointMetricsBuilder
from kit.machines.task.single_barrier_handler import SingleCheckpointBarrierHandler

SUBSUMED = "CHECKPOINT_DECLINED_SUBSUMED"
CANCELLED = "CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER"
ENDED = "CHECKPOINT_DECLINED_INPUT_END_OF_STREAM"

ALIGNED = CheckpointOptions()
UNALIGNED = CheckpointOptions(alignment=AlignmentType.UNALIGNED)
SAVEPOINT = CheckpointOptions(SavepointType.savepoint(SavepointFormatType.CANONICAL))
AT_LEAST_ONCE = CheckpointOptions(alignment=AlignmentType.AT_LEAST_ONCE)

HANDLERS = {
    "aligned": (SingleCheckpointBarrierHandler.aligned, ALIGNED),
    "unaligned": (SingleCheckpointBarrierHandler.unaligned, UNALIGNED),
    "alternating": (SingleCheckpointBarrierHandler.alternating, ALIGNED),
    "tracker": (CheckpointBarrierTracker, AT_LEAST_ONCE),
}


def data(number: int, rows: int = 1) -> Buffer:
    """A buffer that is identified by its number, 8 bytes per row."""
    return Buffer(pa.RecordBatch.from_pydict({"n": [number] * rows}))


def with_timeout(timeout_ms: int) -> CheckpointOptions:
    """Aligned, for so long."""
    return replace(ALIGNED, aligned_timeout_ms=timeout_ms)


class BarrierHarness:
    """A handler of one kind over `channels` channels; it is the handler's task and its channel state writer."""

    def __init__(
        self,
        channels: int,
        kind: str,
        *,
        options: CheckpointOptions | None = None,
        timeout_ms: int = 100,
        after_finish: bool = True,
    ) -> None:
        create, default = HANDLERS[kind]
        self.at = 100_000
        self.options = options or default
        self.timeout_ms = timeout_ms
        self.calls: list[str] = []
        self.notes: list[str] = []
        self.taken: list[str] = []
        self.metrics: dict[int, CheckpointMetricsBuilder] = {}
        self.timer_due_ms: int | None = None
        self.last_started: int | None = None
        self.on_abort = lambda checkpoint_id: None
        self.on_trigger = lambda checkpoint_id: None
        self.written: list[str] = []
        self._told = 0
        self.gates = InputGates([[(number, f"in/{number}") for number in range(channels)]], self)
        for channel in self.gates:
            channel.grant(1_000_000)
        self.handler: CheckpointBarrierHandler = create(self.gates, self, checkpoints_after_tasks_finish=after_finish)

    # --- what goes in ---------------------------------------------------------------------------------------------

    def element(self, word: str) -> tuple[InputChannel, Element]:
        """Return the element that a word describes, and the channel where it arrives."""
        what, _, where = word.partition("@")
        number = int(what[1:] or 0)
        makers = {
            "d": lambda: data(number),
            "b": lambda: self.barrier(number),
            "u": lambda: self.barrier(number, UNALIGNED),
            "t": lambda: self.barrier(number, with_timeout(self.timeout_ms)),
            "s": lambda: self.barrier(number, SAVEPOINT),
            "x": lambda: CancelCheckpointMarker(number),
            "w": lambda: Watermark(number),
            "e": EndOfPartition,
        }
        return self.gates.channels[int(where)], makers[what[0]]()

    def barrier(self, number: int, options: CheckpointOptions | None = None) -> CheckpointBarrier:
        """A barrier made now."""
        return CheckpointBarrier(number, self.at, options or self.options)

    def put(self, words: str) -> None:
        """Let these arrive; nothing is taken."""
        for word in words.split():
            channel, element = self.element(word)
            self.receive(channel.number, element)

    def receive(self, channel: int, element: Element) -> None:
        """Let this arrive."""
        self.gates.channels[channel].receive(element)
        self.handler.validate()

    def receive_unannounced(self, channel: int, barrier: CheckpointBarrier) -> None:
        """Let a barrier arrive on a channel that announces nothing, as Flink's local ones."""
        self.receive(channel, barrier)
        announcement, _ = self.gates.channels[channel].take()
        assert isinstance(announcement, EventAnnouncement)

    def direct(self, words: str) -> None:
        """Give these to the handler as if they had just been taken, past the queues."""
        for word in words.split():
            channel, element = self.element(word)
            self._process(channel, element)

    def take(self, count: int = 1) -> str:
        """Take this many elements, in turn; returns them as words."""
        taken = []
        for _ in range(count):
            channel = self.gates.next_channel()
            assert channel is not None, f"nothing to take after {taken}"
            element, _ = channel.take()
            taken.append(f"{_word(element)}@{channel.number}")
            self._process(channel, element)
        self.taken += taken
        return " ".join(taken)

    def drain(self) -> str:
        """Take all that can be taken."""
        taken = []
        while self.gates.available:
            taken.append(self.take())
        return " ".join(taken)

    def play(self, words: str) -> None:
        """Let these arrive one by one, and take all that can be taken each time."""
        for word in words.split():
            self.put(word)
            self.drain()

    def send(self, channel: int, element: Element) -> None:
        """Let this arrive and take all that can be taken."""
        self.receive(channel, element)
        self.drain()

    def advance(self, ms: int, *, fire: bool = True) -> None:
        """Let time pass; timers fire, unless they are late."""
        self.at += ms
        if fire:
            self.fire()

    def fire(self) -> None:
        """Let the timer fire if it is due."""
        if self.timer_due_ms is not None and self.timer_due_ms <= self.at:
            self.timer_due_ms = None
            self.handler.on_alignment_timeout()
            self.handler.validate()

    def _process(self, channel: InputChannel, element: Element | EventAnnouncement) -> None:
        handler = self.handler
        if isinstance(element, CheckpointBarrier):
            handler.process_barrier(element, channel)
        elif isinstance(element, EventAnnouncement):
            handler.process_barrier_announcement(element.barrier, element.sequence_number, channel)
        elif isinstance(element, CancelCheckpointMarker):
            handler.process_cancellation(element, channel)
        elif isinstance(element, EndOfPartition):
            channel.end()
            handler.process_end_of_partition(channel)
        elif isinstance(element, Buffer):
            handler.add_processed_bytes(element.size_bytes)
        handler.validate()

    # --- the handler's task ---------------------------------------------------------------------------------------

    def trigger_checkpoint_on_barrier(self, barrier: CheckpointBarrier, metrics: CheckpointMetricsBuilder) -> None:
        """Take note."""
        assert barrier.options.is_unaligned or metrics.is_aligned
        self.metrics[barrier.checkpoint_id] = metrics
        self.calls.append(f"trigger {barrier.checkpoint_id} {barrier.options.alignment.name}")
        self.on_trigger(barrier.checkpoint_id)

    def abort_checkpoint_on_barrier(self, checkpoint_id: int, reason: CheckpointFailureReason, detail: str) -> None:
        """Take note."""
        self.calls.append(f"abort {checkpoint_id} {reason.name}")
        self.on_abort(checkpoint_id)

    def init_input_checkpoint(self, barrier: CheckpointBarrier) -> None:
        """Take note."""
        self.last_started = barrier.checkpoint_id
        self.calls.append(f"start {barrier.checkpoint_id}")

    def all_barriers_received(self, checkpoint_id: int) -> None:
        """Take note."""
        self.calls.append(f"all {checkpoint_id}")

    def schedule_alignment_timeout(self, due_ms: int) -> None:
        """Set the timer."""
        self.timer_due_ms = due_ms

    def cancel_alignment_timeout(self) -> None:
        """Take the timer back."""
        self.timer_due_ms = None

    def note_barrier(self, note: BarrierNote | AlignmentTimedOut) -> None:
        """Take note."""
        self.notes.append(f"{type(note).__name__} {note.checkpoint_id}")

    def add_input_data(
        self, checkpoint_id: int, info: InputChannelInfo, start_seq: int, buffers: Sequence[DataElement]
    ) -> None:
        """Take note."""
        self.written += [f"{checkpoint_id}: {_word(element)}@{info.input_channel_idx}" for element in buffers]

    # --- what came out --------------------------------------------------------------------------------------------

    @property
    def triggered(self) -> list[str]:
        """The checkpoints that were taken, with their alignment."""
        return [call.removeprefix("trigger ") for call in self.calls if call.startswith("trigger")]

    @property
    def triggered_ids(self) -> list[int]:
        """The checkpoints that were taken."""
        return [int(call.split()[0]) for call in self.triggered]

    @property
    def aborted(self) -> list[str]:
        """The checkpoints that were given up, with the reason."""
        return [call.removeprefix("abort ") for call in self.calls if call.startswith("abort")]

    def in_flight(self) -> list[str]:
        """Return the in-flight data that was written since the last call, as `<checkpoint>: <word>`."""
        found = self.written[self._told :]
        self._told = len(self.written)
        return found

    @property
    def blocked(self) -> list[int]:
        """The blocked channels."""
        return [channel.number for channel in self.gates if channel.blocked]

    @property
    def data_taken(self) -> list[str]:
        """The buffers that were taken, in order."""
        return [word for word in self.taken if word.startswith("d")]


def _word(element: Element | EventAnnouncement) -> str:
    if isinstance(element, Buffer):
        return f"d{element.batch.column(0)[0].as_py()}"
    if isinstance(element, CheckpointBarrier):
        return f"b{element.checkpoint_id}"
    if isinstance(element, EventAnnouncement):
        return f"a{element.barrier.checkpoint_id}"
    if isinstance(element, CancelCheckpointMarker):
        return f"x{element.checkpoint_id}"
    return f"w{element.timestamp_ms}" if isinstance(element, Watermark) else "e"
