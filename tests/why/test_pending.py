"""Answers to why a checkpoint is pending, in each of its phases; whose acknowledgement is missing, and why."""

from __future__ import annotations

import pytest

from kit.draw import checkpoint_life, phases
from kit.hosts.lab import Lab
from kit.why import WhyError
from tests.hosts.lab.test_master_hooks import Hook
from tests.several_run import job
from tests.why.jobs import beginning, letters, roots, running, says, settle_without, turns_of

STEPS = {
    "its directory": ("carry_out:job:InitializeLocation", "The JobMaster asks for the directory of checkpoint 1"),
    "an operator coordinator": (
        "carry_out:job:ScheduleCoordinatorCheckpoint",
        "The JobMaster asks an operator coordinator for its snapshot for checkpoint 1",
    ),
    "a hook": ("carry_out:job:TriggerMasterHook", "The JobMaster asks the hook log for its state for checkpoint 1"),
    "its metadata": (
        "carry_out:job:WriteMetadata",
        "All tasks have acknowledged: the JobMaster writes the _metadata of checkpoint 1",
    ),
    "the store": (
        "carry_out:job:StoreCheckpoint",
        "The JobMaster adds checkpoint 1 to the store of completed checkpoints",
    ),
}


@pytest.mark.parametrize("step", STEPS)
def test_what_the_coordinator_asked_for_is_not_answered(step: str) -> None:
    held, asked = STEPS[step]
    lab = running(rows=8, hooks=[Hook()])
    lab.trigger_checkpoint()
    settle_without(lab, beginning(held))
    why = lab.why(checkpoint=1)
    assert why.question == "Why is checkpoint 1 pending?"
    first, root = says(why)
    assert first.startswith("checkpoint 1 has been pending for ")
    assert root.startswith(f"{asked}: not answered for ")
    (fact,) = why.roots
    assert fact.record is not None
    assert fact.record.checkpoint_id == 1
    settle_without(lab, lambda action: False)
    assert lab.why(checkpoint=1).question.startswith("Why did checkpoint 1 take ")


def test_a_write_that_is_under_way_is_named_with_its_task() -> None:
    lab = running(rows=8)
    lab.trigger_checkpoint()
    settle_without(lab, beginning("carry_out:totals/1:WriteSnapshot"))
    first, task, root = says(lab.why(checkpoint=1))
    assert first.endswith(": 5 of 6 tasks have acknowledged; it expires at " + first.rpartition("at ")[2])
    assert task == "totals/1 has copied its state for checkpoint 1 and has not written all of it"
    assert root.startswith(
        "totals/1 has copied its state for checkpoint 1; the copy is being written: not answered for "
    )
    assert says(lab.why("totals/1", checkpoint=1)) == [task, root]
    assert says(lab.why("ack of totals/1 for chk-1")) == [task, root]


def test_an_acknowledgement_on_its_way_and_one_that_has_come() -> None:
    lab = running(rows=8)
    lab.trigger_checkpoint()
    settle_without(lab, beginning("deliver:AcknowledgeCheckpoint:chk-1:out/0"))
    (root,) = roots(lab.why(task="out/0", checkpoint=1))
    assert root.startswith("the acknowledgement of out/0 to the JobMaster has been under way for ")
    assert says(lab.why(task="out/1", checkpoint=1)) == [
        "The JobMaster receives out/1's acknowledgement of checkpoint 1"
    ]


def test_in_flight_data_that_still_comes_in_holds_an_acknowledgement() -> None:
    lab = running(unaligned=True)
    lab.trigger_checkpoint()
    settle_without(lab, beginning("deliver:TriggerTaskCheckpoint:chk-1:job:letters/1"))
    written, in_flight, root = says(lab.why(task="totals/0", checkpoint=1))
    assert written == "totals/0 has copied its state for checkpoint 1 and has not written all of it"
    assert in_flight == "the data in flight from letters/1 before barrier 1 still belongs to the checkpoint"
    assert root.startswith("the JobMaster's trigger to letters/1 for checkpoint 1 ")


def test_in_flight_data_that_shares_a_file_waits_for_that_of_the_others() -> None:
    lab = running(unaligned=True)
    lab.trigger_checkpoint()
    settle_without(lab, turns_of("totals/0"))
    written, shares, *_ = says(lab.why(task="letters/0", checkpoint=1))
    assert written == "letters/0 has copied its state for checkpoint 1 and has not written all of it"
    assert shares == "its in-flight data shares a file with that of totals/0, out/0, which is not complete"
    assert any(root.startswith("totals/0 has input to take (") for root in roots(lab.why("letters/0", checkpoint=1)))


def test_in_flight_data_of_several_senders_is_awaited_from_each() -> None:
    lab = Lab(job(unaligned=True, max_concurrent=1), seed=1)
    lab.run_until(record="AllTasksRunning")
    lab.trigger_checkpoint()
    lab.run_until(checkpoint=1)
    lab.trigger_checkpoint()
    held = [f"deliver:TriggerTaskCheckpoint:chk-2:job:{source}/1" for source in ("left", "right")]
    settle_without(lab, beginning(*held))
    for task in ("totals/0", "totals/1"):
        written, in_flight, *causes = says(lab.why(task=task, checkpoint=2))
        assert written == f"{task} has copied its state for checkpoint 2 and has not written all of it"
        assert in_flight == "the data in flight from left/1, right/1 before barrier 2 still belongs to the checkpoint"
        assert [cause.partition(" has been")[0] for cause in causes] == [
            f"the JobMaster's trigger to {source}/1 for checkpoint 2" for source in ("left", "right")
        ]
    table = phases(lab, 2).set_index("task")
    assert table.loc["totals/0", "waits_for"] == "barrier 2 from left/1 (not sent yet), right/1 (not sent yet)"
    assert (table.loc[["totals/0", "totals/1"], "open_phase"] == "in_flight").all()
    row = lab.statistics.subtasks(2).set_index("task").loc["totals/0"]
    assert row["async_ms"] == table.loc["totals/0", ["async_ms", "in_flight_ms"]].sum()
    assert row["async_ms"] > table.loc["totals/0", "async_ms"]


def test_checkpoints_complete_one_after_another() -> None:
    lab = running(max_concurrent=2)
    lab.trigger_checkpoint()
    settle_without(lab, beginning("carry_out:job:WriteMetadata"))
    lab.trigger_checkpoint()
    settle_without(lab, beginning("carry_out:job:WriteMetadata"))
    told = says(lab.why(checkpoint=2))
    assert told[1] == "checkpoints complete in order, and checkpoint 1 is before it"
    assert told[-1].startswith(
        "All tasks have acknowledged: the JobMaster writes the _metadata of checkpoint 1: not ans"
    )


def test_why_there_is_none() -> None:
    lab = Lab(letters(interval_ms=1_000))
    lab.run_until(record="StartEpoch")
    told = says(lab.why("no checkpoint"))
    assert told[0] == "not all tasks of epoch 1 are running yet"
    assert "totals/1 is being deployed to its worker" in told
    lab.run_until(record="AllTasksRunning")
    due_ms = lab.look.at_ms - 1 + 1_000
    assert says(lab.why("no checkpoint")) == [f"the next periodic checkpoint is due at {due_ms:,} ms, in 999 ms"]
    assert roots(running().why("no checkpoint")) == [
        "the job takes no periodic checkpoints, and none has been requested"
    ]


def test_a_checkpoint_that_there_is_not_is_named_with_those_there_are() -> None:
    lab = running()
    lab.trigger_checkpoint(wait=True)
    with pytest.raises(WhyError, match="the run has no checkpoint 7; it has 1: 1"):
        lab.why(checkpoint=7)


@pytest.mark.parametrize("unaligned", [False, True])
def test_the_short_answers_are_those_of_the_fact_that_the_story_tells(unaligned: bool) -> None:
    lab, compared = running(unaligned=unaligned, rows=30), set()
    lab.trigger_checkpoint()
    while lab.moment().pending or not lab.moment().checkpoints:
        lab.step()
        if not lab.moment().pending:
            continue
        waits = checkpoint_life(lab).to_pandas().set_index("of")["waits"]
        cells = phases(lab).set_index("task")["waits_for"]
        for task in lab.moment().pending[0].missing:
            told = lab.why(task=task, checkpoint=1).answer
            if told.awaits and task in waits:  # otherwise the answer is why the task has not begun
                assert (told.in_short, told.awaits) == (waits[task], cells[task])
                compared.add(told.awaits.partition(" from ")[0].partition(",")[0])
    expected = {"its files to be written", "its acknowledgement", "barrier 1"}
    assert compared >= expected
