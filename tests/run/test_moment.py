"""A moment is folded from the trace alone, and says what the machines themselves would say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kit.core.protocol.elements import Buffer, CheckpointBarrier
from kit.core.trace.trace import Trace, TraceRecord
from kit.draw import film, moment_svg
from kit.hosts.lab import Lab
from kit.run.captions import caption_of_moment
from kit.run.moments.job_state import (
    ABORTED,
    ACKNOWLEDGED,
    ALIGNING,
    CAPTURING,
    COMPLETED,
    PENDING,
    SENT,
    WRITING,
    Moment,
)
from kit.run.moments.moment import advance, moments
from kit.run.reading import moment_at
from kit.stream.settings.job_settings import CheckpointingMode
from tests.draw.labs import lab_of
from tests.draw.script import story


def after(kind: str, checkpoint: int | None = None, *, detailed: bool = True, nth: int = 0) -> Moment:
    """The story's moment right after the nth record of this kind."""
    trace = story(detailed=detailed)
    hits = [
        n for n, record in enumerate(trace, 1) if record.kind == kind and checkpoint in (None, record.checkpoint_id)
    ]
    return moment_at(trace, hits[nth])


def test_nothing_has_happened_before_the_first_record() -> None:
    first = next(moments(story()))
    assert (first.n, first.tasks, caption_of_moment(first)) == (0, {}, "Nothing has happened yet")


def _later(record: TraceRecord, by_ms: int) -> TraceRecord:
    """The record as if it had been written so much later: a trigger carries a time of its own."""
    data = {name: value + by_ms if name == "timestamp_ms" else value for name, value in record.data.items()}
    return replace(record, at_ms=record.at_ms + by_ms, data=data)


def test_time_is_told_since_the_run_began_by_whatever_clock() -> None:
    date_ms = 1_700_000_000_000
    later = Trace([_later(record, date_ms) for record in story()], stages=story().stages)
    assert moment_at(later).elapsed_ms == moment_at(story()).elapsed_ms > 0
    assert moment_svg(later) == moment_svg(story())
    assert [frame["at"] for frame in film(later)["frames"]][:2] == [0, 0]


def test_a_checkpoint_is_pending_until_all_have_acknowledged() -> None:
    begun = after("CheckpointPending", 1).checkpoints[1]
    assert begun.status == PENDING
    assert begun.missing == ("source/0", "source/1", "count/0", "count/1", "sink/0")
    third = [moment for moment in moments(story()) if 1 in moment.checkpoints][-1]
    assert third.checkpoints[1].status == COMPLETED
    assert third.checkpoints[1].missing == ()
    assert third.checkpoints[1].size_bytes == 600
    assert third.checkpoints[1].duration_ms is not None


def test_a_task_aligns_writes_and_acknowledges() -> None:
    seen: list[str] = []
    for moment in moments(story()):
        task = moment.tasks.get("count/0")
        phase = None if task is None else task.phases.get(1)
        if phase is not None and phase not in seen:
            seen.append(phase)
    assert seen == [ALIGNING, WRITING, SENT, ACKNOWLEDGED]


def test_a_task_has_acknowledged_when_the_job_master_counts_it() -> None:
    counted = [after("AcknowledgeCheckpoint", 1), after("TaskAcknowledged", 1)]
    assert [moment.tasks["source/0"].phases[1] for moment in counted] == [SENT, ACKNOWLEDGED]
    assert [len(moment.checkpoints[1].acked) for moment in counted] == [0, 1]


@pytest.mark.parametrize("detailed", [True, False])
def test_a_channel_that_delivered_its_barrier_is_blocked_and_the_other_awaited(detailed: bool) -> None:
    moment = after("BarrierAligned", 2, detailed=detailed)
    assert moment.channels[0].blocked
    assert moment.channels[0].held == 2
    assert moment.channels[2].awaited == 2
    assert not moment.channels[2].blocked


def test_an_aligned_task_has_neither_blocked_nor_awaited_channels() -> None:
    last = next(
        moment for moment in moments(story()) if any(c.status == COMPLETED for c in moment.checkpoints.values())
    )
    assert all(not channel.blocked and channel.awaited is None for channel in last.channels.values())


def test_buffers_wait_behind_the_barrier_of_a_blocked_channel() -> None:
    moment = moment_at(story(), 125)
    channel = moment.channels[0]
    assert [item.kind for item in (*channel.arrived, *channel.wire)] == ["buffer", "buffer", "buffer"]
    assert {item.after for item in channel.arrived} == {2}
    assert [item.rows for item in channel.wire] == [40]


def test_a_lost_worker_takes_its_tasks_and_what_was_under_way() -> None:
    moment = after("SlotLost")
    assert {name for name, task in moment.tasks.items() if task.lost} == {"source/1", "count/1"}
    assert all(message.task not in ("source/1", "count/1") for message in moment.messages.values())
    assert moment.channels[2].wire == ()


def test_the_next_epoch_is_restored_and_starts_with_empty_channels() -> None:
    moment = list(moments(story()))[-1]
    assert (moment.epoch, moment.job, moment.channels) == (2, "RUNNING", {})
    assert moment.checkpoints[2].status == ABORTED
    assert moment.checkpoints[2].reason == "JOB_FAILOVER_REGION"
    (restore,) = moment.restores
    assert (restore.epoch, restore.checkpoint_id, restore.before["count"]) == (2, 1, 2)
    assert {task.restored for task in moment.tasks.values()} == {1}


def test_a_message_is_under_way_until_it_is_handled() -> None:
    trace = story()
    sent = next(n for n, record in enumerate(trace, 1) if record.kind == "TriggerTaskCheckpoint")
    taken = next(
        n for n, record in enumerate(trace, 1) if record.kind == "TriggerTaskCheckpoint" and record.role == "event"
    )
    assert "source/0" in {message.task for message in moment_at(trace, sent).messages.values()}
    assert "source/0" not in {message.task for message in moment_at(trace, taken).messages.values()}


def test_what_is_not_known_changes_nothing_but_the_clock() -> None:
    before = moment_at(story(), 50)
    record = TraceRecord("job#999", "", before.at_ms + 5, "job", "event", "SomethingNew", None, {})
    moment = [*moments([record])][-1]
    assert (moment.at_ms, moment.tasks, caption_of_moment(moment)) == (record.at_ms, {}, "the JobMaster: Something new")


def truth(lab: Lab) -> tuple[dict[int, list[str]], dict[int, list[str]], set[int]]:
    """Return what the lab's machines hold: receivers' queues, wires, and blocked channels."""
    arrived, blocked = {}, set()
    for task in lab._world.tasks.values():
        for channel in task.inputs:
            arrived[channel.number] = [_name(element) for element in channel.queue]
            blocked |= {channel.number} if channel.blocked else set()
    wires = {
        number: [_name(element) for element in lab._world.queued(number)]
        for number in range(lab._world.graph.channel_count)
    }
    return arrived, wires, blocked


def _name(element: object) -> str:
    if isinstance(element, Buffer):
        return "buffer"
    if isinstance(element, CheckpointBarrier):
        return f"barrier {element.checkpoint_id}"
    return "other"


def _names(items: tuple[object, ...]) -> list[str]:
    return [repr(item).partition("(")[0] if repr(item).startswith(("buffer", "barrier")) else "other" for item in items]


MODES: dict[str, dict[str, Any]] = {
    "aligned": {},
    "at least once": {"mode": CheckpointingMode.AT_LEAST_ONCE},
    "unaligned": {"unaligned": True},
    "aligned for a while": {"unaligned": True, "aligned_timeout_ms": 5},
}


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@pytest.mark.parametrize("seed", range(3))
def test_the_picture_shows_what_the_machines_hold_after_every_step(seed: int, mode: dict[str, Any]) -> None:
    """Queues, wires and blocked channels, through checkpoints, a kill and a restore."""
    lab = lab_of(seed, rows=30, **mode)
    moment, taken = Moment(), 0
    while not lab.ended and lab.position < 700:
        if lab.position == 180:
            lab.faults.kill(1)
        else:
            lab.step()
        for record in lab.trace[taken:]:
            moment = advance(moment, record)
        taken = len(lab.trace)
        arrived, wires, blocked = truth(lab)
        for number, names in arrived.items():
            shown = moment.channels.get(number)
            assert _names(() if shown is None else shown.arrived) == names, f"queue of {number} at {lab.position}"
        for number, names in wires.items():
            shown = moment.channels.get(number)
            assert _names(() if shown is None else shown.wire) == names, f"wire of {number} at {lab.position}"
        assert {number for number, shown in moment.channels.items() if shown.blocked and number in arrived} == blocked
        assert moment.job == lab.look.master.status.name
        for name, task in lab._world.tasks.items():
            phases = moment.tasks[name].phases
            for each in task.checkpoints.running:
                assert phases[each.checkpoint_id] == (WRITING if each.written is None else CAPTURING), name
        running = {name for name, task in lab._world.tasks.items() if task.state.name == "RUNNING"}
        assert {name for name, task in moment.tasks.items() if task.state == "RUNNING"} >= running
    assert lab.ended


def test_a_frozen_worker_is_seen_until_it_thaws_or_dies() -> None:
    lab = lab_of(seed=3)
    lab.run_until(record="AllTasksRunning")

    def frozen() -> set[str]:
        return {name for name, task in lab.moment().tasks.items() if task.frozen}

    lab.faults.freeze(1)
    assert frozen() == {"letters/1", "totals/1"}
    assert str(moment_svg(lab)).count("frozen with its worker") == 2
    lab.faults.thaw(1)
    assert frozen() == set()
    lab.faults.freeze(1)
    lab.faults.kill(1)
    lab.run_until(record="AllTasksRunning")
    assert frozen() == set()
