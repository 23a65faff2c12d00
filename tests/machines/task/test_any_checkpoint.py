"""Whatever happens to the checkpoints of one task, and whenever: each has one end, and nothing of it is left over."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kit.core.protocol.commands import CancelSnapshot, CancelTimer, ScheduleTimer, WriteSnapshot
from kit.core.protocol.events import SnapshotFailed, TimerFired
from kit.core.protocol.messages import AcknowledgeCheckpoint, DeclineCheckpoint
from kit.core.protocol.options import AlignmentType
from kit.core.protocol.tasks import ExecutionState
from tests.machines.task.harness import buffer
from tests.machines.task.slot_harness import FORCED_ALIGNED, UNALIGNED, SlotHarness, unaligned_job

KINDS: list[dict[str, Any]] = [
    {"alignment": UNALIGNED},
    {"alignment": AlignmentType.ALIGNED, "aligned_timeout_ms": 200},
    {"alignment": AlignmentType.ALIGNED},
    {"alignment": FORCED_ALIGNED},
]
SENDERS = 3
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["row", "barrier", "cancel marker"]), st.integers(0, SENDERS - 1)),
        st.tuples(st.sampled_from(["run", "credit", "write", "fail", "write files", "fail files", "time"]), st.just(0)),
        st.tuples(st.just("abort"), st.integers(1, 6)),
    ),
    min_size=5,
    max_size=60,
)


class Walk:
    """One task under random events. The senders' barriers come in order, each channel at its own pace."""

    def __init__(self, directory: Path, kinds: list[dict[str, Any]]) -> None:
        self.task = SlotHarness(unaligned_job(SENDERS), directory, credits=False)
        self.kinds = kinds
        self.next = [1] * SENDERS
        self.began_ms: dict[int, int] = {}
        self.aborted: set[int] = set()
        self.begun: set[int] = set()

    def step(self, name: str, number: int) -> None:
        getattr(self, f"_{name.replace(' ', '_')}")(number)
        self.begun |= {word.checkpoint_id for word in self.task.emitted if isinstance(word, WriteSnapshot)}
        self.task.clean_up()

    def _row(self, channel: int) -> None:
        if self.task.machine.inputs.channels[channel].credits_granted:
            self.task.receive(channel, buffer([{"k": str(channel), "n": 1}]), run=False)

    def _barrier(self, channel: int) -> None:
        checkpoint_id = self.next[channel]
        if checkpoint_id <= len(self.kinds):
            self.next[channel] += 1
            at = self.began_ms.setdefault(checkpoint_id, self.task.at)
            self.task.receive_barrier(checkpoint_id, channel, at=at, **self.kinds[checkpoint_id - 1])

    def _cancel_marker(self, channel: int) -> None:
        checkpoint_id = self.next[channel]
        if checkpoint_id <= len(self.kinds):
            self.next[channel] += 1
            self.task.cancel_marker(checkpoint_id, channel)

    def _run(self, _: int) -> None:
        self.task.run()

    def _credit(self, _: int) -> None:
        self.task.give_credits(1)

    def _write(self, _: int) -> None:
        for command in [word for word in self.task.emitted if isinstance(word, WriteSnapshot)][:1]:
            self.task.write(command.checkpoint_id)

    def _fail(self, _: int) -> None:
        for command in [word for word in self.task.emitted if isinstance(word, WriteSnapshot)][:1]:
            self.task.emitted.remove(command)
            self.task.give(SnapshotFailed(checkpoint_id=command.checkpoint_id, error="disk full"))

    def _write_files(self, _: int) -> None:
        self.task.write_channel_state()

    def _fail_files(self, _: int) -> None:
        self.task.write_channel_state(error="disk full")

    def _time(self, _: int) -> None:
        self.task.at += 250
        timers = [word.timer for word in self.task.take(ScheduleTimer)]
        self.task.take(CancelTimer)  # one that was cancelled may still fire
        for timer in timers:
            self.task.give(TimerFired(timer=timer))

    def _abort(self, checkpoint_id: int) -> None:
        if checkpoint_id <= len(self.kinds):
            self.aborted.add(checkpoint_id)
            self.task.abort(checkpoint_id)

    def end(self) -> None:
        """Whatever is still to come comes."""
        for channel in range(SENDERS):
            while self.next[channel] <= len(self.kinds):
                self._barrier(channel)
        for _ in range(50):
            for name in ("run", "credit", "write", "write files"):
                self.step(name, 0)


@settings(max_examples=100, deadline=None)
@given(kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=5), steps=STEPS)
def test_every_checkpoint_has_one_end_and_leaves_nothing_but_what_was_acknowledged(
    kinds: list[dict[str, Any]], steps: list[tuple[str, int]]
) -> None:
    with TemporaryDirectory() as directory:
        walk = Walk(Path(directory), kinds)
        for name, number in steps:
            walk.step(name, number)
        walk.end()
        task = walk.task
        assert task.machine.state is ExecutionState.RUNNING
        acks = task.take(AcknowledgeCheckpoint)
        acked = [ack.checkpoint_id for ack in acks]
        declined = {word.checkpoint_id for word in task.take(DeclineCheckpoint)}
        assert len(set(acked)) == len(acked)
        assert not set(acked) & declined
        ended = {*acked, *declined, *walk.aborted}
        assert walk.begun <= ended
        assert len(kinds) in ended, "no newer one can have replaced the last"
        task.take(CancelSnapshot)
        for ack in acks:
            if ack.state is not None:
                assert {Path(file).name for file in ack.state.files()} <= set(task.disk)
                task.storage.discard(ack.state.files())
        task.assert_nothing_leaks()
        assert task.queued == [0] * SENDERS
