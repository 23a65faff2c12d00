"""Answers to why a channel is blocked, down to the place of the missing barrier and what holds it up there."""

from __future__ import annotations

import pytest

from kit.hosts.lab import Lab
from kit.stream.api.environment import StreamEnvironment
from kit.stream.connectors import CollectionSource, CollectSink
from kit.why import WhyError
from tests.why.jobs import beginning, roots, running, says, settle_without, turns_of


def blocked(lab: Lab) -> list[int]:
    """The numbers of the channels that are blocked now."""
    return [number for number, channel in lab.moment().channels.items() if channel.blocked]


def test_the_barrier_that_is_missing_was_never_sent() -> None:
    lab = running()
    lab.trigger_checkpoint()
    settle_without(lab, beginning("deliver:TriggerTaskCheckpoint:chk-1:job:letters/1"))
    assert sorted(blocked(lab)) == [0, 1]
    why = lab.why("letters/0 -> totals/1")
    assert why.question == "Why is letters/0 -> totals/1 blocked?"
    first, last = says(why)
    assert first.startswith("totals/1 took barrier 1 of letters/0 ")
    assert "reads nothing more from it until barrier 1 of letters/1 has arrived; " in first
    assert " held back here" in first
    assert last.startswith("the JobMaster's trigger to letters/1 for checkpoint 1 has been under way for ")
    taken, sent = (fact.record for fact in why.facts)
    assert taken is not None
    assert (taken.kind, taken.machine, taken.data["channel"]) == ("BarrierAligned", "totals/1", 1)
    assert sent is not None
    assert (sent.kind, sent.role, sent.data["task"]) == ("TriggerTaskCheckpoint", "command", "letters/1")


def test_the_barrier_that_is_missing_is_on_the_wire() -> None:
    lab = running(rows=2)
    lab.trigger_checkpoint()
    settle_without(lab, beginning("receive:3"))
    (root,) = roots(lab.why("letters/0 -> totals/1"))
    assert root.startswith("barrier 1 of letters/1 is on the wire to totals/1, for ")
    assert root.endswith(": it has not been delivered")


def test_the_barrier_that_is_missing_lies_behind_buffers_that_have_arrived() -> None:
    lab = running()
    settle_without(lab, turns_of("totals/1"))
    lab.trigger_checkpoint()
    settle_without(lab, turns_of("totals/1"))
    why = lab.why(checkpoint=1, channel=3)
    assert why.question == "Why has barrier 1 not been taken from letters/1 -> totals/1?"
    there = lab._world.tasks["totals/1"].inputs.channel(3).queued_buffers
    assert there == 2
    behind, credit, root = says(why)
    assert behind == "barrier 1 of letters/1 is in the output queue of letters/1 behind 2 buffers (2 records)"
    assert credit.startswith("letters/1 has no credit for 2 buffers (2 records) and 1 barrier to totals/1")
    assert credit.endswith(f"{there} of them in the queue of totals/1")
    assert root.startswith("totals/1 has input to take (")


def test_a_wait_goes_through_tasks_to_the_one_that_is_slow() -> None:
    lab = running()
    slow = turns_of("out/0", "out/1")
    settle_without(lab, slow)
    lab.trigger_checkpoint()
    settle_without(lab, slow)
    why = lab.why(checkpoint=1, channel=0)
    told = says(why)
    assert told[0] == "barrier 1 of letters/0 is in the output queue of letters/0 behind 2 buffers (2 records)"
    assert told[2].startswith("totals/0 takes no input: its output queue to out/")
    assert {root.partition(" ")[0] for root in roots(why)} <= {"out/0", "out/1"}
    assert all("has not done so yet" in root for root in roots(why))


def test_what_is_held_back_behind_one_barrier_holds_the_next_one_too() -> None:
    lab = running(rows=4, max_concurrent=2)
    held = beginning(
        "deliver:TriggerTaskCheckpoint:chk-1:job:letters/1", "deliver:TriggerTaskCheckpoint:chk-2:job:letters/1"
    )
    for _ in range(2):
        lab.trigger_checkpoint()
        settle_without(lab, held)
    told = says(lab.why(checkpoint=2, channel=0))
    assert told[0].startswith("barrier 2 of letters/0 is in the queue of totals/0 behind ")
    assert told[1].startswith("totals/0 took barrier 1 of letters/0 ")
    assert told[2].startswith("the JobMaster's trigger to letters/1 for checkpoint 1 ")


def test_a_channel_that_is_not_blocked_says_what_there_is_instead() -> None:
    lab = running(rows=8)
    settle_without(lab, turns_of("totals/0"))
    told = says(lab.why("letters/0 -> totals/0"))
    assert told[0] == "letters/0 -> totals/0 is not blocked"
    assert told[-1].startswith("totals/0 has input to take (")


def test_channels_that_are_not_there_are_named() -> None:
    lab = running()
    with pytest.raises(WhyError, match="no channel leads from totals/0 to letters/0"):
        lab.why("totals/0 -> letters/0")
    with pytest.raises(WhyError, match="the run has no channel 99; it has 8: "):
        lab.why(channel=99)
    with pytest.raises(WhyError, match=r"3 may be a checkpoint, a channel or a request: say which, .*checkpoint=3"):
        lab.why(3)


def test_the_number_of_a_channel_follows_only_where_its_ends_are_those_of_another() -> None:
    env = StreamEnvironment("twice", parallelism=1)
    rows = env.from_source(CollectionSource([{"key": "a", "n": n} for n in range(4)]), uid="rows").rebalance()
    rows.union(rows).sink_to(CollectSink("out"), uid="out")
    lab = Lab(env)
    lab.run_until(record="AllTasksRunning")
    assert sorted(lab.look.stages[-1].ends().values()) == [("rows/0", "out/0")] * 2
    for number in (0, 1):
        assert says(lab.why(channel=number))[0] == f"rows/0 -> out/0 (channel {number}) is not blocked"
