"""Answers to why an action is not possible yet, and why a run failed."""

from __future__ import annotations

import pytest

from kit.hosts.lab import Lab
from kit.hosts.lab.errors import LabError
from kit.hosts.lab.faults.faults import DropMessage, KillWorker
from tests.why.jobs import beginning, letters, roots, running, says, settle_without, turns_of


def test_a_turn_waits_for_what_the_task_waits_for() -> None:
    lab = running()
    settle_without(lab, turns_of("out/0", "out/1"))
    why = lab.look.why_not("turn:letters/0")
    assert why.question == "Why may this not happen now: give letters/0 its turn?"
    assert says(why)[0].startswith("letters/0 is RUNNING, and has no input that it may take or no room")
    assert says(why)[1:] == says(lab.why("letters/0"))
    assert says(lab.look.why_not("turn:out/0")) == ["it may happen now"]


def test_an_action_of_another_moment_is_asked_about_now() -> None:
    lab = running(rows=8)
    earlier = {action.key: action for action in lab.enabled()}
    lab.run()
    for action in earlier.values():
        why = lab.look.why_not(action)
        assert (says(why) == ["it may happen now"]) == (lab.look.refusal(action) is None)
        assert says(lab.why(action)) == says(why)


def test_every_action_of_a_run_is_allowed_where_it_was_taken_and_refused_with_a_reason_elsewhere() -> None:
    lab = Lab(letters(12, interval_ms=30), seed=4)
    lab.run()
    actions = list(lab.past.actions)
    refused = 0
    for position in range(5, len(actions), 37):
        lab.goto(position)
        now = lab.look.why_not(actions[position])  # type: ignore[arg-type]
        assert says(now) == ["it may happen now"]
        other = lab.look.why_not(actions[position - 4])  # type: ignore[arg-type]
        refused += says(other) != ["it may happen now"]
        assert len(says(other)) >= 1
    assert refused


def test_an_acknowledgement_waits_for_the_snapshot_and_a_timer_for_its_time() -> None:
    lab = Lab(letters(interval_ms=1_000), seed=1)
    lab.run_until(record="AllTasksRunning")
    told = says(lab.look.why_not("timer:job:checkpoint-trigger"))
    assert told[0].startswith("it is due at ")
    assert told[1].startswith("The JobMaster sets a timer: the next periodic checkpoint is due in 1,000 ms")
    lab.trigger_checkpoint()
    settle_without(lab, beginning("carry_out:totals/1:WriteSnapshot"))
    told = says(lab.look.why_not("deliver:AcknowledgeCheckpoint:chk-1:totals/1:job"))
    assert told[0] == "nothing is in flight from totals/1 to job"
    assert told[1] == "totals/1 has copied its state for checkpoint 1 and has not written all of it"
    why = lab.look.why_not("carry_out:job:WriteMetadata:chk-1:99")
    assert roots(why)[-1].startswith("totals/1 has copied its state")
    assert says(lab.look.why_not("receive:0"))[0] == "nothing is in flight in channel 0"


def test_what_cannot_be_made_to_happen_says_why() -> None:
    lab = running()
    assert says(lab.look.why_not(KillWorker(0))) == ["it may be made to happen now"]
    assert says(lab.look.why_not(KillWorker(7)))[0] == "no worker 7 runs now; there are 0, 1"
    told = says(lab.look.why_not(DropMessage("AcknowledgeCheckpoint", 1, "totals/1", "job")))
    assert told[0] == "no AcknowledgeCheckpoint is in flight there from totals/1 to job"
    with pytest.raises(LabError, match="nothing that may happen or not now is 'dance'"):
        lab.look.why_not("dance")


# --- why it failed ----------------------------------------------------------------------------------------------------


def test_a_lost_acknowledgement_is_the_first_cause_of_what_stays_pending() -> None:
    lab = running()
    lab.trigger_checkpoint()
    held = beginning("deliver:AcknowledgeCheckpoint:chk-1:totals/1")
    settle_without(lab, held)
    lab.faults.lose("ack of totals/1")
    (root,) = roots(lab.why(checkpoint=1))
    assert root == "In the lab: lose AcknowledgeCheckpoint of chk-1 from totals/1 to job"


def test_a_command_that_was_made_to_fail_is_where_a_decline_begins() -> None:
    lab = running()
    lab.trigger_checkpoint()
    lab.run_until(record="WriteSnapshot")
    lab.faults.fail("WriteSnapshot")
    lab.run_until(record="CheckpointAborted")
    kinds = [fact.record.kind for fact in lab.why(checkpoint=1).facts if fact.record is not None]
    assert kinds == ["CheckpointAborted", "DeclineCheckpoint", "SnapshotFailed", "FailCommand", "WriteSnapshot"]


def test_a_write_that_is_never_answered_says_so() -> None:
    lab = running()
    lab.trigger_checkpoint()
    lab.run_until(record="WriteSnapshot")
    lab.faults.never("WriteSnapshot")
    settle_without(lab, lambda action: False)
    assert any(root.startswith("In the lab: ") for root in roots(lab.why(checkpoint=1)))


def test_of_several_workers_that_froze_and_thawed_those_that_are_frozen_now_stand_still() -> None:
    lab = running()
    for worker in (0, 1):
        lab.faults.freeze(worker)
    lab.faults.thaw(0)
    frozen = "In the lab: freeze worker "
    assert {root for root in roots(lab.why("out/1")) if root.startswith(frozen)} == {f"{frozen}1"}
    assert not [root for root in roots(lab.why("letters/0")) if root.startswith(frozen)]
    lab.faults.thaw(1)
    lab.faults.freeze(0)
    assert {root for root in roots(lab.why("letters/0")) if root.startswith(frozen)} == {f"{frozen}0"}
    assert not [root for root in roots(lab.why("letters/1")) if root.startswith(frozen)]
    newest = [each for each in lab.trace.story(kind="FreezeWorker") if each.data["worker"] == 0][-1]
    assert newest in [fact.record for fact in lab.why("letters/0").roots]


def test_a_frozen_worker_is_the_first_cause_of_every_wait_behind_it() -> None:
    lab = running()
    lab.run_until(lambda lab: lab._world.tasks["totals/1"].available)
    lab.faults.freeze(1)
    told = says(lab.look.why_not("turn:totals/1"))
    assert (told[0], told[-1]) == ("totals/1 is frozen with its worker: thaw it", "In the lab: freeze worker 1")
    lab.trigger_checkpoint()
    settle_without(lab, lambda action: False)
    for about in ("checkpoint 1", "letters/0", "totals/0"):
        assert set(roots(lab.why(about))) == {"In the lab: freeze worker 1"}, str(lab.why(about))
    lab.faults.thaw(1)
    assert "In the lab: freeze worker 1" not in roots(lab.why("checkpoint 1"))
