"""Checks of the lab "align barriers": a `CheckpointBarrierHandler` written by the student.

Single rules are checked by hand, over two channels called left and right; the whole is checked in the lab. By hand, the
handler's calls to its task are recorded as text (`Task.said`).
"""

from __future__ import annotations

from typing import Any

from kit.core.protocol.elements import CancelCheckpointMarker, CheckpointBarrier
from kit.core.protocol.notes import NoteKind
from kit.core.protocol.options import CheckpointOptions
from kit.core.protocol.reasons import CheckpointFailureReason
from kit.core.trace.record_kinds import RecordKind
from kit.course.classroom.checking import NotYet, check
from kit.course.classroom.running import killed, letters, walked
from kit.hosts.lab.lab import Lab
from kit.machines.channel.input_gate import InputGates
from kit.machines.task.barrier_handler import CheckpointBarrierHandler
from kit.machines.task.checkpoint_metrics import CheckpointMetricsBuilder
from kit.stream.settings.parts import Parts

SIDES = ("left", "right")
ORDERS = range(6)


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
        self.said.append(f"gives up checkpoint {checkpoint_id}")

    def init_input_checkpoint(self, barrier: CheckpointBarrier) -> None:
        """Do nothing: no data is in flight."""

    def all_barriers_received(self, checkpoint_id: int) -> None:
        """Do nothing."""

    def schedule_alignment_timeout(self, due_ms: int) -> None:
        """Do nothing: there is no time limit."""

    def cancel_alignment_timeout(self) -> None:
        """Do nothing: there is no time limit."""

    def note_barrier(self, kind: NoteKind, checkpoint_id: int, **data: object) -> None:
        """Do nothing: there is no trace."""


class Bench:
    """A handler over two channels, driven by hand: `put("barrier 1", "left")`."""

    def __init__(self, handler: type[CheckpointBarrierHandler]) -> None:
        self.task = Task()
        self.gates = InputGates([[(number, side) for number, side in enumerate(SIDES)]])
        self.handler = handler(self.gates, self.task, checkpoints_after_tasks_finish=True)
        self.done: list[str] = []

    def put(self, what: str, side: str) -> Bench:
        """Let something arrive on a side."""
        self.done.append(f"{what} on the {side}")
        channel = self.gates.channels[SIDES.index(side)]
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
        return self

    @property
    def said(self) -> list[str]:
        """The calls to the task so far."""
        return self.task.said

    def closed(self, side: str) -> bool:
        """Return True if elements on this side are held back."""
        return self.gates.channels[SIDES.index(side)]._closed_by is not None

    def expect(self, said: list[str], why: str) -> None:
        """Raise NotYet unless these calls were made."""
        if self.said != said:
            wanted, found = "; ".join(said) or "nothing", "; ".join(self.said) or "nothing"
            raise NotYet(f"After {', '.join(self.done)} the task: {found}. Expected: {wanted}. {why}")

    def expect_open(self, why: str) -> None:
        """Raise NotYet unless both channels are open."""
        for side in SIDES:
            if self.closed(side):
                raise NotYet(f"After {', '.join(self.done)} the {side} channel is still held back. {why}")


@check
def takes_a_checkpoint_when_all_barriers_are_here(handler: type[CheckpointBarrierHandler]) -> str:
    """Check one checkpoint: it is taken with the last barrier and not before; then all channels are open."""
    bench = Bench(handler).put("barrier 1", "left")
    bench.expect([], "The right channel's barrier has not come: rows that belong to the checkpoint are still on it.")
    bench.put("barrier 1", "right")
    bench.expect(["takes checkpoint 1"], "Both barriers are here: now is the moment, once.")
    bench.expect_open("The checkpoint is taken: `channel.resume()` lets a channel go on.")
    bench.put("barrier 2", "right").put("barrier 2", "left")
    bench.expect(["takes checkpoint 1", "takes checkpoint 2"], "The next checkpoint begins with nothing counted.")
    return "two checkpoints over two channels, each taken with its last barrier"


@check
def nothing_passes_a_barrier(handler: type[CheckpointBarrierHandler]) -> str:
    """Check in the lab that no row behind a barrier is read before the checkpoint is taken."""
    for seed in ORDERS:
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
    return f"the job in {len(ORDERS)} orders: whatever came behind a barrier waited"


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
            number = record.data["channel"] if record.kind == RecordKind.GRANT_CREDIT else None
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
def gives_up_what_will_not_come(handler: type[CheckpointBarrierHandler]) -> str:
    """Check that a newer barrier and a cancel marker end the waiting, and that late barriers are harmless."""
    bench = Bench(handler).put("barrier 1", "left").put("barrier 2", "right")
    bench.expect(["gives up checkpoint 1"], "Checkpoint 2 has begun: the rest of checkpoint 1 will not come.")
    bench.put("barrier 2", "left")
    bench.expect(["gives up checkpoint 1", "takes checkpoint 2"], "Both barriers of checkpoint 2 are here.")
    bench = Bench(handler).put("barrier 1", "left").put("cancel 1", "right")
    bench.expect(["gives up checkpoint 1"], "The marker says that no barrier of checkpoint 1 will come on the right.")
    bench.expect_open("Nobody waits any more: the left channel must go on.")
    bench = Bench(handler).put("barrier 2", "left").put("barrier 2", "right").put("barrier 1", "left")
    bench.expect(["takes checkpoint 2"], "Checkpoint 1 is older than what was taken: its barrier means nothing.")
    bench.expect_open("A barrier that comes too late has closed its channel as well: let it go on.")
    return "a newer barrier, a cancel marker, a late barrier"


@check
def counts_an_end_as_a_barrier(handler: type[CheckpointBarrierHandler]) -> str:
    """Check that a channel that ends is no longer waited for."""
    bench = Bench(handler).put("barrier 1", "left").put("end", "right")
    bench.expect(["takes checkpoint 1"], "The right channel has ended: no barrier will ever come on it.")
    bench = Bench(handler).put("end", "right").put("barrier 1", "left")
    bench.expect(["takes checkpoint 1"], "Only the left channel is open: its barrier is the last one.")
    bench = Bench(handler).put("barrier 1", "left").put("end", "left")
    bench.expect([], "The left channel had brought its barrier before it ended: it does not count twice.")
    bench = Bench(handler).put("end", "right")
    bench.expect([], "No checkpoint had begun.")
    return "ends before, during and after an alignment"


@check
def gives_exactly_once(handler: type[CheckpointBarrierHandler]) -> str:
    """Check in the lab that each row counts once, in every order, and with a worker that dies."""
    runs = killed(letters, ORDERS, parts=Parts(barrier_handler=handler))
    return f"{len(runs)} orders, in each a worker was killed: every row counted once"
