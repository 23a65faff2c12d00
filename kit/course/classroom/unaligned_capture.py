"""Checks of the lab "unaligned capture": a `ChannelStateCapture` written by the student.

By hand, numbered rows, barriers and other events come in every order. The whole is checked in the lab: a worker is
killed, the job goes back to a checkpoint with rows in flight, and each of them must count once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

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
from kit.core.protocol.messages import DeployTask, SubmitChannelState
from kit.core.protocol.options import AlignmentType, CheckpointOptions
from kit.core.state.handles import InputChannelInfo, ResultSubpartitionInfo
from kit.course.classroom.checking import NotYet, check
from kit.course.classroom.running import killed, letters
from kit.course.classroom.searching import orders, searched
from kit.hosts.lab.lab import Lab
from kit.machines.channel.channel_state.channel_state_capture import ChannelStateCapture, HeldCapture
from kit.stream.api.environment import StreamEnvironment
from kit.stream.settings.parts import Parts

Capture = Callable[..., ChannelStateCapture]
SIDES = {"left": InputChannelInfo(0, 0), "right": InputChannelInfo(0, 1)}
OUTPUT = ResultSubpartitionInfo(0, 0)
ORDERS = 16
NEWEST = 2
"""The newest checkpoint that begins by hand."""


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

    def add_input_data(
        self, checkpoint_id: int, info: InputChannelInfo, start_seq: int, buffers: Sequence[DataElement]
    ) -> None:
        """Record what the student's capture writes."""
        side = next(side for side, each in SIDES.items() if each == info)
        self.written += [f"{self._words[id(element)]} on the {side} for {checkpoint_id}" for element in buffers]

    def start(self, checkpoint_id: int, queues: Mapping[str, Sequence[str]]) -> None:
        """Start a checkpoint with these elements waiting. Raises NotYet if the queue that was passed is changed."""
        for side, info in SIDES.items():
            waiting = self._elements(queues.get(side, ()))
            passed = list(waiting)
            self._held.checkpoint_started(checkpoint_id, info, passed)
            if passed != waiting:
                raise NotYet(
                    f"the queue of the {side} channel had {', '.join(queues[side])} and your code has changed it. "
                    "Expected: unchanged. The task reads these elements from it afterwards."
                )

    def receive(self, what: str, side: str) -> None:
        """Let an element arrive on a side."""
        self._held.element_received(SIDES[side], self._elements([what])[0])

    def stop(self, checkpoint_id: int) -> None:
        """End a checkpoint."""
        for info in SIDES.values():
            self._held.checkpoint_stopped(checkpoint_id, info)

    def overtake(self, checkpoint_id: int, queue: Sequence[str]) -> list[str]:
        """Let a barrier leave an output ahead of this queue, and return what was written."""
        found = self._held.overtaken(checkpoint_id, OUTPUT, self._elements(queue))
        return [self._words[id(element)] for element in found]

    def _elements(self, words: Sequence[str]) -> list[Element]:
        found = [_element(word) for word in words]
        self._kept += found
        self._words |= {id(element): word for element, word in zip(found, words)}
        return found


def _element(word: str) -> Element:
    kind, _, number = word.partition(" ")
    if kind == "barrier":
        return CheckpointBarrier(int(number), 0, CheckpointOptions(alignment=AlignmentType.UNALIGNED))
    if kind == "row":
        return Buffer(pa.record_batch({"row": [int(number)]}))
    if kind == "cancel":
        return CancelCheckpointMarker(int(number))
    return Watermark(5) if kind == "watermark" else EndOfData(True)


def is_data(word: str) -> bool:
    """Return True for what may be written."""
    return word.startswith(("row", "watermark"))


class Compared:
    """A capture by hand, and what is in flight at each step.

    The checkpoint's barrier may be in a queue, come later, or not at all; older ones may be in between. `queues` says
    whether anything waits when a checkpoint begins, `ends` whether checkpoints end and others begin.
    """

    def __init__(self, capture: Capture, *, queues: bool = True, ends: bool = False) -> None:
        self.yours = Bench(capture)
        self._queues, self._ends = queues, ends
        self._checkpoint = 0
        """The newest checkpoint that has begun."""
        self._awaits: dict[str, int] = {}
        """The checkpoint whose barrier has still to come, by channel."""
        self._newest = dict.fromkeys(SIDES, 0)
        """The newest barrier that a channel has brought."""
        self._rows = 0

    def choices(self) -> list[str]:
        """Return what may happen next."""
        found = []
        if not self._checkpoint or self._ends:
            each = self._checkpoint + 1
            queues: tuple[str, ...] = _QUEUES if self._queues else ("",)
            queues = queues if each <= NEWEST else ()
            found += [f"checkpoint {each} begins with {queue or 'nothing'} on the left" for queue in queues]
        number = max(self._checkpoint, 1)
        for side in SIDES:
            found += [f"{what} comes on the {side}" for what in ("row", "watermark", "end", "cancel 1")]
            found += [f"barrier {each} comes on the {side}" for each in range(self._newest[side] + 1, number + 1)]
        return found + [f"checkpoint {each} is over" for each in range(1, self._checkpoint + 1) if self._ends]

    def do(self, step: str) -> None:
        """Do it, and compare what was written."""
        self.yours.written.clear()
        what, _, rest = step.partition(" begins with ")
        if rest:
            wanted, why = self._start(int(what.split()[1]), rest.removesuffix(" on the left"))
        elif step.endswith("is over"):
            number = int(step.split()[1])
            self.yours.stop(number)
            self._awaits = {side: each for side, each in self._awaits.items() if each != number}
            wanted, why = [], "The end of a checkpoint brings nothing."
        else:
            what, _, side = step.partition(" comes on the ")
            wanted, why = self._receive(what, side)
        if self.yours.written != wanted:
            found = ", ".join(self.yours.written) or "nothing"
            raise NotYet(f"yours has written: {found}. Expected: {', '.join(wanted) or 'nothing'}. {why}")

    def _start(self, number: int, queue: str) -> tuple[list[str], str]:
        self._checkpoint = number
        words = [] if queue == "nothing" else queue.replace("its barrier", f"barrier {number}").split(", ")
        older = [word for word in words if word != "older barrier" or number > 1]
        words = [f"barrier {number - 1}" if word == "older barrier" else word for word in older]
        words = [self._named(word) for word in words]
        self._awaits = dict.fromkeys(SIDES, number)
        ahead = words
        if f"barrier {number}" in words:
            ahead = words[: words.index(f"barrier {number}")]
            del self._awaits["left"]
            self._newest["left"] = number
        elif f"barrier {number - 1}" in words:
            self._newest["left"] = number - 1
        self.yours.start(number, {"left": words})
        wanted = [f"{word} on the left for {number}" for word in ahead if is_data(word)]
        message = (
            f"The queue was: {', '.join(words) or 'empty'}. What is ahead of barrier {number} was sent before it and "
        )
        return (
            wanted,
            f"{message}will be processed after the snapshot; what is behind it is sent again after a failure.",
        )

    def _receive(self, what: str, side: str) -> tuple[list[str], str]:
        word = self._named(what)
        number = self._awaits.get(side, 0)
        if what.startswith("barrier"):
            self._newest[side] = int(what.split()[1])
        if what == f"barrier {number}":
            del self._awaits[side]
        self.yours.receive(word, side)
        if not number:
            over = f"Barrier {self._checkpoint} has come on the {side}, or no checkpoint is under way"
            return [], f"{over}: what comes now is sent again after a failure."
        why = (
            f"Barrier {number} has not come on the {side}: what comes there was sent ahead of it. Only data is written."
        )
        return ([f"{word} on the {side} for {number}"] if is_data(word) else []), why

    def _named(self, word: str) -> str:
        self._rows += word == "row"
        return f"row {self._rows}" if word == "row" else word


_QUEUES = (
    "",
    "row",
    "row, row",
    "its barrier",
    "row, its barrier, row",
    "row, cancel 1, watermark, row",
    "row, older barrier, row",
    "row, older barrier, row, its barrier, row",
)


@check
def takes_what_waits(capture: Capture) -> str:
    """Check what is queued when the checkpoint begins, up to the barrier."""
    return searched(partial(Compared, capture, ends=True), runs=250, walks=20)


@check
def takes_what_comes_until_the_barrier(capture: Capture) -> str:
    """Check what arrives on a channel before its barrier."""
    return searched(partial(Compared, capture, queues=False), runs=350)


@check
def takes_what_is_overtaken(capture: Capture) -> str:
    """Check what a barrier overtakes in an output."""
    for queue in ("row 1, row 2", "row 1, end, watermark", "row 1, barrier 1, row 2", "", "cancel 1, row 1"):
        words = [word for word in queue.split(", ") if word]
        found, wanted = Bench(capture).overtake(2, words), [word for word in words if is_data(word)]
        if found != wanted:
            raise NotYet(
                f"The barrier leaves ahead of {queue or 'an empty queue'}. Yours has written: "
                f"{', '.join(found) or 'nothing'}. Expected: {', '.join(wanted) or 'nothing'}. The barrier leaves "
                "first: rows and watermarks that it overtakes arrive behind it, and nobody else has them."
            )
    return "an output with rows, with events among them, and an empty one"


@check
def stops_when_it_is_over(capture: Capture) -> str:
    """Check that nothing is written outside of a checkpoint, and that an older one ends nothing."""
    return searched(partial(Compared, capture, queues=False, ends=True), runs=1_500, walks=100)


@check
def gives_exactly_once(capture: Capture) -> str:
    """Check in the lab that what was in flight in the checkpoint counts once, after a worker dies."""
    runs = killed(job, orders(ORDERS), parts=Parts(channel_state_capture=capture), told=_described)
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
        if each.is_a(DeployTask) and each.data.get("restore")
    )
    counts = {"WriteInputRequest": 0, "WriteOutputRequest": 0}
    for each in lab.trace:
        if each.is_a(SubmitChannelState) and each.checkpoint_id == checkpoint_id:
            request = each.data["request"]
            if request["type"] in counts:
                counts[request["type"]] += request["elements"]
    return counts["WriteInputRequest"], counts["WriteOutputRequest"]


def _described(lab: Lab) -> str:
    inputs, outputs = restored(lab)
    return (
        f"That checkpoint held {inputs} rows that were in flight at inputs and {outputs} at outputs. A row that is "
        "missing was in flight and is in neither; one that counts twice is there although its sender sends it again, "
        "or is there twice. In the stepper, Start and then Checkpoint show the barriers of that checkpoint."
    )
