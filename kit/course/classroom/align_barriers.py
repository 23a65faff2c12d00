"""Checks of the lab "align barriers": a `CheckpointBarrierHandler` written by the student.

By hand, the handler is compared with the kit's own after each step: what it has its task do, and which channels it
holds back. `kit.course.classroom.searching` chooses the steps. The whole is checked in the lab and by `explore`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kit.core.protocol.commands import GrantCredit
from kit.core.protocol.elements import CancelCheckpointMarker, CheckpointBarrier
from kit.core.protocol.notes import AlignmentTimedOut, BarrierNote
from kit.core.protocol.options import CheckpointOptions
from kit.core.protocol.reasons import CheckpointFailureReason
from kit.course.classroom.checking import NotYet, check
from kit.course.classroom.running import every_schedule, killed, letters, walked
from kit.course.classroom.searching import orders, searched
from kit.hosts.lab.lab import Lab
from kit.machines.channel.input_gate import InputGates
from kit.machines.task.barrier_handler import CheckpointBarrierHandler
from kit.machines.task.checkpoint_metrics import CheckpointMetricsBuilder
from kit.machines.task.single_barrier_handler import SingleCheckpointBarrierHandler
from kit.stream.settings.parts import Parts

SIDES = ("left", "right", "middle")
NEWEST = 3
"""The newest checkpoint whose barriers arrive by hand."""
Handler = Callable[..., CheckpointBarrierHandler]


class Task:
    """A replacement for the task, which records the handler's calls."""

    at = 100

    def __init__(self) -> None:
        self.said: list[str] = []

    def trigger_checkpoint_on_barrier(self, barrier: CheckpointBarrier, metrics: CheckpointMetricsBuilder) -> None:
        """Record that the checkpoint is taken."""
        self.said.append(f"takes checkpoint {barrier.checkpoint_id}")

    def abort_checkpoint_on_barrier(self, checkpoint_id: int, reason: CheckpointFailureReason, detail: str) -> None:
        """Record that the checkpoint is aborted."""
        self.said.append(f"declines checkpoint {checkpoint_id} ({getattr(reason, 'name', reason)})")

    def init_input_checkpoint(self, barrier: CheckpointBarrier) -> None:
        """Do nothing: no data is in flight."""

    def all_barriers_received(self, checkpoint_id: int) -> None:
        """Do nothing."""

    def schedule_alignment_timeout(self, due_ms: int) -> None:
        """Do nothing: there is no time limit."""

    def cancel_alignment_timeout(self) -> None:
        """Do nothing: there is no time limit."""

    def note_barrier(self, note: BarrierNote | AlignmentTimedOut) -> None:
        """Do nothing: the classroom keeps no trace."""


class Bench:
    """A handler over several channels, driven by hand: `put("barrier 1", "left")`."""

    def __init__(self, handler: Handler, sides: int = 2) -> None:
        self.task = Task()
        self.sides = SIDES[:sides]
        self.gates = InputGates([[(number, side) for number, side in enumerate(self.sides)]])
        self.handler = handler(self.gates, self.task, checkpoints_after_tasks_finish=True)

    def put(self, what: str, side: str) -> list[str]:
        """Let something arrive on a side; return what the task was made to do."""
        channel = self.gates.channels[self.sides.index(side)]
        before = len(self.task.said)
        kind, _, number = what.partition(" ")
        if kind == "barrier":
            barrier = CheckpointBarrier(int(number), 90, CheckpointOptions())
            channel._closed_by = barrier
            self.handler.process_barrier(barrier, channel)
        elif kind == "cancel":
            self.handler.process_cancellation(CancelCheckpointMarker(int(number)), channel)
        else:
            channel.end()
            self.handler.process_end_of_partition(channel)
        return self.task.said[before:]

    def closed(self, side: str) -> bool:
        """Return True if elements on this side are held back."""
        return self.gates.channels[self.sides.index(side)]._closed_by is not None


class Compared:
    """The student's handler and the kit's, step by step; `newer`, `cancels` and `ends` say what may arrive."""

    def __init__(
        self, handler: Handler, *, sides: int = 2, newer: bool = False, cancels: bool = False, ends: bool = False
    ) -> None:
        self.yours = Bench(handler, sides)
        self.right = Bench(SingleCheckpointBarrierHandler.aligned, sides)
        self._newer, self._cancels, self._ends = newer, cancels, ends
        self._last = dict.fromkeys(self.right.sides, 0)
        self._ended: set[str] = set()

    def choices(self) -> list[str]:
        """Return what may arrive: ids grow on each channel, and nothing passes on one that is held back."""
        found = []
        for side in self.right.sides:
            if side in self._ended or self.right.closed(side):
                continue
            ids = range(self._last[side] + 1, NEWEST + 1)
            found += [f"barrier {number} on the {side}" for number in ids if self._newer or self._is_next(number)]
            found += [f"cancel {number} on the {side}" for number in ids if self._cancels]
            found += [f"end on the {side}"] if self._ends else []
        return found

    def _is_next(self, number: int) -> bool:
        """Return True if no checkpoint is left out or overtaken when this barrier comes."""
        pending = self.right.handler.pending_checkpoint_id
        taken = sum(each.startswith("takes") for each in self.right.task.said)
        return number == (taken + 1 if pending is None else pending)

    def do(self, step: str) -> None:
        """Let it arrive at both, and compare."""
        what, _, side = step.partition(" on the ")
        self._last[side] = int(what.partition(" ")[2] or self._last[side])
        if what == "end":
            self._ended.add(side)
        wanted = self.right.put(what, side)
        found = self.yours.put(what, side)
        if found != wanted:
            raise NotYet(
                f"the task {'; '.join(found) or 'does nothing'}. Expected: {'; '.join(wanted) or 'nothing'}. "
                f"{_why(what, side, wanted)}"
            )
        for each in self.right.sides:
            if self.yours.closed(each) and not self.right.closed(each):
                raise NotYet(f"the {each} channel is still held back. {_why_open(what, each == side)}")
            if self.right.closed(each) and not self.yours.closed(each):
                raise NotYet(
                    f"the {each} channel goes on. Expected: held back. Its barrier has come and others have not, so "
                    "rows from behind the barrier would be in the snapshot."
                )


def _why(what: str, side: str, wanted: list[str]) -> str:
    kind = what.partition(" ")[0]
    if any(each.startswith("declines") for each in wanted):
        if kind == "barrier":
            return "A newer checkpoint has begun: the rest of the older one will not come."
        return f"The marker says that no barrier of this checkpoint will come on the {side}."
    if wanted and kind == "end":
        return f"The {side} channel has ended: no barrier will ever come on it. It counts, once."
    if wanted:
        return "All channels that have not ended have brought their barrier: the checkpoint is taken now, once."
    if kind == "cancel":
        return "The marker is about another checkpoint than the one under way, or about one that is over."
    return "A barrier is missing on another channel, or this checkpoint is over."


def _why_open(what: str, same: bool) -> str:
    if what.startswith("barrier") and same:
        return "Nothing waits for it: the checkpoint is taken or over. Its barrier closed it: `channel.resume()`."
    return "Nothing waits any more for the checkpoint that closed it: `channel.resume()` lets it go on."


@check
def takes_a_checkpoint_when_all_barriers_are_here(handler: Handler) -> str:
    """Check that a checkpoint is taken with the last barrier and not before; then all channels are open."""
    return "; ".join(searched(partial(Compared, handler, sides=sides), runs=60, walks=5) for sides in (2, 3))


@check
def nothing_passes_a_barrier(handler: type[CheckpointBarrierHandler]) -> str:
    """Check in the lab that no row behind a barrier is read before the checkpoint is taken."""
    seeds = orders(6)
    for seed in seeds:
        overrun = _Overrun()

        class Watched(handler):  # type: ignore[valid-type, misc]
            """The student's handler, observed."""

            watcher = overrun

            def process_barrier(self, barrier: Any, channel: Any, *, is_rpc: bool = False) -> None:
                super().process_barrier(barrier, channel, is_rpc=is_rpc)
                self.watcher.came[channel.number] = barrier.checkpoint_id, channel.source_task

            def _notify_checkpoint(self, barrier: Any) -> None:
                super()._notify_checkpoint(barrier)
                self.watcher.taken |= {(barrier.checkpoint_id, each.number) for each in self._gates}

        Watched.__qualname__ = handler.__qualname__
        walked(Lab(letters(), parts=Parts(barrier_handler=Watched), seed=seed), overrun)
    return f"the job in {len(seeds)} orders: whatever came behind a barrier waited"


class _Overrun:
    """An observer of rows read behind a barrier, in a task that has not taken that checkpoint."""

    def __init__(self) -> None:
        self.came: dict[int, tuple[int, str]] = {}
        """The latest checkpoint whose barrier came, and its sender, by channel."""
        self.taken: set[tuple[int, int]] = set()
        """The checkpoints that were taken, by channel."""
        self._seen = 0

    def __call__(self, lab: Lab) -> None:
        new = lab.trace[self._seen :]
        self._seen = len(lab.trace)
        for record in new:
            number = record.data["channel"] if record.is_a(GrantCredit) else None
            checkpoint_id, source = self.came.get(number, (0, "")) if number is not None else (0, "")
            if checkpoint_id and (checkpoint_id, number) not in self.taken:
                raise NotYet(
                    f"{record.machine} has read a row from {source} that came behind the barrier of checkpoint "
                    f"{checkpoint_id}, and has not taken that checkpoint yet. So the row will be in the sums that "
                    f"the checkpoint keeps, and after a failure {source} sends it again: it counts twice. A "
                    "channel stays as its barrier left it, closed, until all barriers are here.",
                    lab,
                )


@check
def gives_up_what_will_not_come(handler: Handler) -> str:
    """Check that a newer barrier and a cancel marker end the waiting, and that late barriers are harmless."""
    return "; ".join(
        searched(partial(Compared, handler, sides=sides, newer=True, cancels=True), walks=walks)
        for sides, walks in ((2, 20), (3, 40))
    )


@check
def counts_an_end_as_a_barrier(handler: Handler) -> str:
    """Check that a channel that ends is no longer waited for."""
    return "; ".join(searched(partial(Compared, handler, sides=sides, ends=True), runs=200) for sides in (2, 3))


@check
def gives_exactly_once(handler: Handler) -> str:
    """Check that each row counts once: by hand, in orders in which a worker dies, and in every schedule of a job."""
    everything = searched(partial(Compared, handler, sides=3, newer=True, cancels=True, ends=True), runs=1)
    parts = Parts(barrier_handler=handler)
    runs = killed(letters, orders(6), parts=parts)
    every = every_schedule(parts)
    return f"{everything}; {len(runs)} orders, in each a worker was killed; {every}: every row counted once"
