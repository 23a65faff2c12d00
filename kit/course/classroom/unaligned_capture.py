"""Checks of the lab "unaligned capture": a `ChannelStateCapture` written by the student.

Single rules are checked by hand, with numbered rows; the whole is checked in the lab: a worker is killed, the job goes
back to a checkpoint with rows in flight, and each of them must count once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from kit.core.protocol.elements import (
    Buffer,
    CancelCheckpointMarker,
    CheckpointBarrier,
    DataElement,
    Element,
    EndOfData,
    Watermark,
)
from kit.core.protocol.options import AlignmentType, CheckpointOptions
from kit.core.state.handles import InputChannelInfo, ResultSubpartitionInfo
from kit.core.trace.record_kinds import RecordKind
from kit.course.classroom.checking import NotYet, check
from kit.course.classroom.running import killed, letters
from kit.hosts.lab.lab import Lab
from kit.machines.channel.channel_state.channel_state_capture import ChannelStateCapture, HeldCapture
from kit.stream.api.environment import StreamEnvironment
from kit.stream.settings.parts import Parts

Capture = Callable[..., ChannelStateCapture]
SIDES = {"left": InputChannelInfo(0, 0), "right": InputChannelInfo(0, 1)}
OUTPUT = ResultSubpartitionInfo(0, 0)
ORDERS = range(16)


def job() -> StreamEnvironment:
    """Return the job of letters, with unaligned barriers and three readers, whose barriers come at different times."""
    return letters(unaligned=True, parallelism=3, splits=3)


class Bench:
    """A capture driven by hand, over two input channels called left and right and one output.

    Elements are given as text: `row 1`, `barrier 1`, `watermark`, ...
    """

    def __init__(self, capture: Capture) -> None:
        self.written: list[str] = []
        """The data written of the inputs, as text."""
        self._words: dict[int, str] = {}
        self._kept: list[Element] = []
        self._held = HeldCapture(capture, self)
        self._done: list[str] = []

    def add_input_data(
        self, checkpoint_id: int, info: InputChannelInfo, start_seq: int, buffers: Sequence[DataElement]
    ) -> None:
        """Record what the student's capture writes."""
        side = next(side for side, each in SIDES.items() if each == info)
        self.written += [f"{self._words[id(element)]} on the {side}" for element in buffers]

    def start(self, checkpoint_id: int, **queues: str) -> Bench:
        """Start a checkpoint: `left="row 1, row 2"` waits in that queue."""
        waits = " and ".join(f"{queues.get(side) or 'nothing'} on the {side}" for side in SIDES)
        self._done.append(f"checkpoint {checkpoint_id} began with {waits} in the queue")
        for side, info in SIDES.items():
            waiting = queues.get(side, "")
            self._held.checkpoint_started(checkpoint_id, info, self._elements(waiting))
        return self

    def receive(self, what: str, side: str) -> Bench:
        """Let an element arrive on a side."""
        self._done.append(f"{what} came on the {side}")
        self._held.element_received(SIDES[side], self._elements(what)[0])
        return self

    def stop(self, checkpoint_id: int) -> Bench:
        """End a checkpoint."""
        self._done.append(f"checkpoint {checkpoint_id} was over")
        for info in SIDES.values():
            self._held.checkpoint_stopped(checkpoint_id, info)
        return self

    def overtake(self, queue: str) -> list[str]:
        """Let the barrier of checkpoint 1 leave an output ahead of this queue, and return what was written."""
        found = self._held.overtaken(1, OUTPUT, self._elements(queue))
        return [self._words[id(element)] for element in found]

    def _elements(self, words: str) -> list[Element]:
        found = [_element(word) for word in words.split(", ") if word]
        self._kept += found
        self._words |= {id(element): word for element, word in zip(found, words.split(", "))}
        return found

    def expect(self, wanted: str, why: str) -> None:
        """Raise NotYet unless this was written since the last time."""
        if self.written != [each for each in wanted.split(", ") if each]:
            found = ", ".join(self.written) or "nothing"
            done = "; ".join(self._done)
            raise NotYet(f"After this: {done}, yours has written: {found}. Expected: {wanted or 'nothing'}. {why}")
        self.written.clear()


def _element(word: str) -> Element:
    kind, _, number = word.partition(" ")
    if kind == "barrier":
        return CheckpointBarrier(int(number), 0, CheckpointOptions(alignment=AlignmentType.UNALIGNED))
    if kind == "row":
        return Buffer(pa.record_batch({"row": [int(number)]}))
    if kind == "cancel":
        return CancelCheckpointMarker(int(number))
    return Watermark(5) if kind == "watermark" else EndOfData(True)


@check
def takes_what_waits(capture: Capture) -> str:
    """Check what is queued when the checkpoint begins, up to the barrier."""
    ahead = "It was sent before the barrier and will be processed after the snapshot: it is in flight."
    bench = Bench(capture).start(1, left="row 1, row 2")
    bench.expect("row 1 on the left, row 2 on the left", ahead)
    bench = Bench(capture).start(1, left="row 1, barrier 1, row 2", right="barrier 1, row 3")
    behind = "What is behind the barrier was sent after the sender's snapshot: after a failure it is sent again."
    bench.expect("row 1 on the left", behind)
    bench = Bench(capture).start(2, left="row 1, cancel 1, watermark, row 2")
    events = "Rows and watermarks are data. The marker is an event: it means nothing after a restore."
    bench.expect("row 1 on the left, watermark on the left, row 2 on the left", events)
    return "queues without a barrier, with one, and with an event between the rows"


@check
def takes_what_comes_until_the_barrier(capture: Capture) -> str:
    """Check what arrives on a channel before its barrier."""
    bench = Bench(capture).start(1, left="barrier 1").receive("row 1", "right")
    bench.expect("row 1 on the right", "The barrier has not come on the right: the row was sent ahead of it.")
    bench.receive("row 2", "left")
    bench.expect("", "The barrier was the first thing in the left queue: this row came behind it.")
    bench.receive("barrier 1", "right").receive("row 3", "right")
    bench.expect("", "The barrier has come on the right: what comes behind it is sent again after a failure.")
    bench = Bench(capture).receive("row 1", "left").start(1).receive("barrier 1", "left").receive("row 2", "right")
    bench.expect("row 2 on the right", "Each channel has its own barrier. The right one's has not come.")
    return "rows before and behind the barriers of two channels"


@check
def takes_what_is_overtaken(capture: Capture) -> str:
    """Check what a barrier overtakes in an output."""
    for queue, wanted, why in (
        (
            "row 1, row 2",
            ["row 1", "row 2"],
            "The barrier leaves first: these arrive behind it, and nobody else has them.",
        ),
        ("row 1, end, watermark", ["row 1", "watermark"], "Rows and watermarks are data, an end is an event."),
        ("", [], "Nothing waited."),
    ):
        found = Bench(capture).overtake(queue)
        if found != wanted:
            raise NotYet(
                f"The barrier leaves ahead of {queue or 'an empty queue'}. Yours has written: "
                f"{', '.join(found) or 'nothing'}. Expected: {', '.join(wanted) or 'nothing'}. {why}"
            )
    return "an output with rows, with events among them, and an empty one"


@check
def stops_when_it_is_over(capture: Capture) -> str:
    """Check that nothing is written outside of a checkpoint, and that an older one ends nothing."""
    bench = Bench(capture).receive("row 1", "left")
    bench.expect("", "No checkpoint is under way.")
    bench = Bench(capture).start(1).stop(1).receive("row 1", "left")
    bench.expect("", "The checkpoint was given up: its barrier will not come any more.")
    bench = Bench(capture).start(2, left="row 1, barrier 1, row 2")
    bench.expect("row 1 on the left, row 2 on the left", "The barrier of checkpoint 1 is none of checkpoint 2.")
    bench.stop(1).receive("row 3", "left")
    bench.expect("row 3 on the left", "Checkpoint 1 was over, and checkpoint 2 is under way.")
    bench.stop(2).start(3, left="row 4")
    bench.expect("row 4 on the left", "After a checkpoint comes the next one.")
    return "no checkpoint, one that was given up, and a newer one"


@check
def gives_exactly_once(capture: Capture) -> str:
    """Check in the lab that what was in flight in the checkpoint counts once, after a worker dies."""
    runs = killed(job, ORDERS, parts=Parts(channel_state_capture=capture), told=_told)
    inputs, outputs = (sum(ends) for ends in zip(*map(restored, runs)))
    if not (inputs and outputs):
        raise NotYet(f"The checkpoints held {inputs} rows of inputs and {outputs} of outputs: some must be in flight.")
    return (
        f"{len(runs)} orders, in each a worker was killed; the checkpoints that the jobs went back to held {inputs} "
        f"rows of inputs and {outputs} of outputs, and every row counted once"
    )


def restored(lab: Lab) -> tuple[int, int]:
    """Return how many elements were in flight in the restored checkpoint: of inputs, and of outputs."""
    checkpoint_id = next(
        each.data["restore"]["checkpoint_id"]
        for each in lab.trace
        if each.kind == RecordKind.DEPLOY_TASK and each.data.get("restore")
    )
    counts = {"WriteInputRequest": 0, "WriteOutputRequest": 0}
    for each in lab.trace:
        if each.kind == RecordKind.SUBMIT_CHANNEL_STATE and each.checkpoint_id == checkpoint_id:
            request = each.data["request"]
            if request["type"] in counts:
                counts[request["type"]] += request["elements"]
    return counts["WriteInputRequest"], counts["WriteOutputRequest"]


def _told(lab: Lab) -> str:
    inputs, outputs = restored(lab)
    return (
        f"That checkpoint held {inputs} rows that were in flight at inputs and {outputs} at outputs. A row that is "
        "missing was in flight and is in neither; one that counts twice is there although its sender sends it again, "
        "or is there twice. In the stepper, Start and then Checkpoint show the barriers of that checkpoint."
    )
