"""Barriers, cancel markers, ends and time limits in any order, over any channels.

Each channel carries data with, for each checkpoint in turn, its barrier, or a cancel marker, or nothing; then it ends.
A barrier that may time out may also arrive as the unaligned one that it became upstream. What arrives, what is taken
and how time passes is random. Whatever happens:

- the handler is valid after each step, and in the end nothing is closed, held back or waited for;
- each channel's data is taken in order, all of it, once;
- checkpoints are taken in the order of their ids, each at most once, and none after it was given up;
- a checkpoint that was taken and got all its barriers is a consistent cut. That is, exactly the data before each
  channel's barrier (or end) was either taken before the checkpoint, or written as in flight.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from kit.core.protocol.elements import CheckpointBarrier, Element
from tests.machines.task.barrier_harness import SAVEPOINT, UNALIGNED, BarrierHarness, with_timeout

TIMEOUT_MS = 20
KINDS = {"aligned": "bs", "unaligned": "u", "alternating": "uts", "tracker": "b"}
OPTIONS = {"u": UNALIGNED, "s": SAVEPOINT, "t": with_timeout(TIMEOUT_MS)}


@dataclass
class Play:
    """A handler, what is still to arrive on each channel, and where each checkpoint was cut."""

    task: BarrierHarness
    streams: list[list[Element]]
    words: list[list[str]]
    taken_at_trigger: dict[int, list[str]] = field(default_factory=dict)

    def cut(self, checkpoint_id: int, channel: int) -> set[str]:
        """The data of a channel that belongs before the barrier of a checkpoint, or before the channel's end."""
        before = self.words[channel]
        if f"b{checkpoint_id}" in before:
            before = before[: before.index(f"b{checkpoint_id}")]
        return {f"{word}@{channel}" for word in before if word.startswith("d")}

    def check_cut(self, checkpoint_id: int) -> None:
        taken = {word for word in self.taken_at_trigger[checkpoint_id] if word.startswith("d")}
        prefix = f"{checkpoint_id}: "
        written = [word.removeprefix(prefix) for word in self.task.written if word.startswith(prefix)]
        assert len(written) == len(set(written)), f"written twice: {written}"
        assert not taken & set(written), f"both in the state and in flight: {taken & set(written)}"
        expected = set().union(*(self.cut(checkpoint_id, channel) for channel in range(len(self.words))))
        assert taken | set(written) == expected


@st.composite
def plays(draw: st.DrawFn, kind: str) -> Play:
    """A handler of this kind and what its channels will bring."""
    task = BarrierHarness(draw(st.integers(1, 4)), kind, timeout_ms=TIMEOUT_MS, after_finish=draw(st.booleans()))
    kinds = draw(st.lists(st.sampled_from(KINDS[kind]), max_size=5))
    streams: list[list[Element]] = []
    words: list[list[str]] = []
    for channel in range(len(task.gates)):
        plan = draw(
            st.lists(st.tuples(st.integers(0, 3), st.sampled_from("bbbbuxo")), min_size=len(kinds), max_size=len(kinds))
        )
        stream, told, number = [], [], 0
        for checkpoint_id, (rows, what) in enumerate(plan, 1):
            for _ in range(rows):
                stream.append(task.element(f"d{number}@{channel}")[1])
                told.append(f"d{number}")
                number += 1
            if what == "x":
                stream.append(task.element(f"x{checkpoint_id}@{channel}")[1])
                told.append(f"x{checkpoint_id}")
            elif what != "o":
                of = "u" if what == "u" and kinds[checkpoint_id - 1] == "t" else kinds[checkpoint_id - 1]
                created_ms = task.at + 5 * checkpoint_id
                stream.append(CheckpointBarrier(checkpoint_id, created_ms, OPTIONS.get(of, task.options)))
                told.append(f"b{checkpoint_id}")
        stream.append(task.element(f"e@{channel}")[1])
        streams.append(stream)
        words.append(told)
    return Play(task, streams, words)


def run(play: Play, random: Random) -> None:
    """Let it all happen, in some order; the data after the last barriers comes too."""
    task = play.task
    task.on_trigger = lambda checkpoint_id: play.taken_at_trigger.setdefault(checkpoint_id, list(task.taken))
    while any(play.streams) or task.gates.available:
        steps = ["take"] * 3 * task.gates.available + ["arrive"] * 3 * any(play.streams) + ["time"]
        step = random.choice(steps)
        if step == "time":
            task.advance(random.choice([1, 5, TIMEOUT_MS]), fire=random.random() < 0.7)
        elif step == "arrive":
            channel = random.choice([number for number, stream in enumerate(play.streams) if stream])
            task.receive(channel, play.streams[channel].pop(0))
        else:
            task.take()
    task.fire()


def check(play: Play, *, exactly_once: bool) -> None:
    task = play.task
    assert task.gates.all_ended
    assert task.handler.pending_checkpoint_id is None
    assert task.blocked == []
    assert [len(channel.queue) for channel in task.gates] == [0] * len(task.gates)
    for channel, words in enumerate(play.words):
        expected = [f"{word}@{channel}" for word in words if word.startswith("d")]
        assert [word for word in task.data_taken if word.endswith(f"@{channel}")] == expected
    aborted = [int(entry.split()[0]) for entry in task.aborted]
    assert task.triggered_ids == sorted(set(task.triggered_ids)), "taken twice, or out of order"
    assert aborted == sorted(set(aborted)), "given up twice, or out of order"
    for call, later in zip(task.calls, task.calls[1:]):
        assert not (call.startswith("abort") and later.startswith("trigger") and call.split()[1] == later.split()[1])
    for checkpoint_id in task.triggered_ids:
        if f"all {checkpoint_id}" in task.calls and exactly_once:
            play.check_cut(checkpoint_id)


@given(plays("aligned"), st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_aligned(play: Play, random: Random) -> None:
    run(play, random)
    check(play, exactly_once=True)
    assert play.task.written == []


@given(plays("unaligned"), st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_unaligned(play: Play, random: Random) -> None:
    run(play, random)
    check(play, exactly_once=True)


@given(plays("alternating"), st.randoms(use_true_random=False))
@settings(max_examples=150)
def test_aligned_until_it_takes_too_long(play: Play, random: Random) -> None:
    run(play, random)
    check(play, exactly_once=True)


@given(plays("tracker"), st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_at_least_once(play: Play, random: Random) -> None:
    run(play, random)
    check(play, exactly_once=False)
    assert play.task.written == []
