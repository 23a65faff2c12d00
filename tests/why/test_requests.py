"""The outcome of a request, and the reason, with the numbers that were compared."""

from __future__ import annotations

import pytest

from kit.hosts.lab import Lab, ready_job
from kit.why import WhyError
from tests.why.jobs import beginning, letters, roots, running, says, settle_without


def test_a_request_behind_another_checkpoint_is_queued() -> None:
    lab = running()
    lab.trigger_checkpoint()
    settle_without(lab, beginning("carry_out:totals/1:WriteSnapshot"), lambda lab: lab.moment().pending != ())
    second = lab.trigger_checkpoint()
    why = lab.why(request=second)
    assert why.question == f"What happened to request {second}, and why?"
    told = says(why)
    assert told[0] == f"request {second} is queued, 0 before it: 1 pending already, and at most 1 may be"
    assert told[1].startswith("checkpoint 1 has been pending for ")
    assert roots(why) == roots(lab.why(checkpoint=1))


def test_a_periodic_one_that_comes_too_soon_names_both_times() -> None:
    lab = Lab(letters(interval_ms=100, min_pause_ms=90), seed=1)
    lab.run_until(record="AllTasksRunning")
    lab.run_until(record="TriggerTaskCheckpoint")
    held = beginning("carry_out:totals/1:WriteSnapshot", "turn:letters/0")
    settle_without(lab, held)
    lab.wait_until(lab.look.at_ms + 80)
    lab.run_until(record="RequestRefused")
    why = lab.why("refused")
    assert why.question == "Why was this refused: Checkpoint (periodic)?"
    refused, completed = (fact.record for fact in why.facts)
    assert refused is not None
    assert completed is not None
    since_ms = refused.at_ms - completed.at_ms
    assert since_ms < 90
    assert "MINIMUM_TIME_BETWEEN_CHECKPOINTS" in why.answer.says
    assert why.answer.says.endswith(f"It was {since_ms} ms after the last one, not 90 ms.")
    assert roots(why) == [f"Checkpoint 1 is complete, {since_ms} ms before"]
    lab.run_until(checkpoint=2)
    assert says(lab.why(refused)) == says(why)


def test_a_later_one_that_comes_too_soon_names_the_newest_checkpoint() -> None:
    lab = Lab(letters(rows=600, interval_ms=100, min_pause_ms=90), seed=1)
    lab.run_until(record="AllTasksRunning")
    lab.run_until(checkpoint=2)
    lab.run_until(record="TriggerTaskCheckpoint")
    settle_without(lab, beginning("carry_out:totals/1:WriteSnapshot", "turn:letters/0"))
    lab.wait_until(lab.look.at_ms + 80)
    lab.run_until(record="RequestRefused")
    why = lab.why("refused")
    newest = [each for each in lab.trace if each.kind == "CheckpointCompleted"][-1]
    assert newest.checkpoint_id == 3
    (root,) = roots(why)
    assert root.startswith("Checkpoint 3 is complete, ")


def test_a_request_before_all_tasks_run_names_those_that_do_not() -> None:
    lab = Lab(letters())
    lab.run_until(record="StartEpoch")
    request = lab.trigger_checkpoint()
    told = says(lab.why(request=request))
    assert told[0].startswith(f"Checkpoint (request {request}) was refused: NOT_ALL_REQUIRED_TASKS_RUNNING, ")
    assert "totals/1 is being deployed to its worker" in told


def test_a_request_that_dies_with_a_worker_leads_to_the_worker() -> None:
    lab = running()
    lab.trigger_checkpoint()
    second = lab.trigger_checkpoint()
    lab.faults.kill(0)
    why = lab.why(request=second)
    assert "was refused: CHECKPOINT_COORDINATOR_SUSPEND" in why.answer.says
    assert roots(why) == ["Worker 0 is lost with all its tasks: it was killed in the lab"]


def test_a_request_is_followed_to_its_checkpoint_and_to_its_answer() -> None:
    lab = running()
    request = lab.trigger_checkpoint()
    held = beginning("carry_out:job:AllocateCheckpointId")
    settle_without(lab, held)
    begun, asked = says(lab.why(request=request))
    assert begun == f"request {request} has begun and has no checkpoint id yet"
    assert asked.startswith("The JobMaster asks for the id of the next checkpoint: not answered for ")
    settle_without(lab, beginning("carry_out:totals/1:WriteSnapshot"))
    assert says(lab.why(request=request)) == says(lab.why(checkpoint=1))
    settle_without(lab, lambda action: False)
    answered, ended = says(lab.why(f"request {request}"))[:2]
    assert answered == f"request {request} is answered: {lab.look.answer(request)}"
    assert ended.startswith("checkpoint 1 is complete, ")


def test_a_stop_waits_for_the_end_of_the_job() -> None:
    lab = running()
    request = lab.stop()
    settle_without(lab, beginning("deliver:NotifyCheckpointComplete:chk-1:job:letters/0"))
    told = says(lab.why(request=request))
    assert told[0] == f"savepoint 1 is complete; request {request} is answered when the job has finished"
    assert any(each.startswith("letters/0 stays until it is notified that checkpoint 1 is complete") for each in told)


def test_a_request_that_nobody_made() -> None:
    lab = running()
    with pytest.raises(WhyError, match="the run has no request 99; it has 0: none"):
        lab.why(request=99)
    with pytest.raises(WhyError, match="no request has been refused in this run"):
        lab.why("refused")


def test_one_that_waits_while_another_is_triggered_says_so() -> None:
    lab = running()
    lab.trigger_checkpoint()
    second = lab.trigger_checkpoint()
    told = says(lab.why(request=second))
    assert told[0] == f"request {second} is queued, 0 before it: another one was being triggered"


def test_a_rescale_says_what_it_waits_for() -> None:
    lab = Lab(ready_job("keyed-sum", rows=60, max_parallelism=8))
    lab.run_until(record="AllTasksRunning")
    request = lab.rescale(3, at_once=False)
    assert "the end of the cooldown" in str(lab.why(request=request))
    again = lab.rescale(4)
    assert "waits for a checkpoint to restart from" in str(lab.why(request=again))
    assert "another rescale was requested" in str(lab.why(request=request))
    lab.run_until(lambda lab: lab.look.answer(again) is not None)
    assert "is answered: /checkpoints" in str(lab.why(request=again))


def test_one_that_waits_for_the_id_of_another_says_so_whatever_else_is_under_way() -> None:
    """A checkpoint is being completed, another has no id yet, and a third is queued behind it."""
    lab = running(max_concurrent=3)
    first = lab.trigger_checkpoint()
    settle_without(lab, beginning("carry_out:job:WriteMetadata"))
    second = lab.trigger_checkpoint()
    held = beginning("carry_out:job:WriteMetadata", "carry_out:job:AllocateCheckpointId")
    settle_without(lab, held)
    third = lab.trigger_checkpoint()
    settle_without(lab, held)
    told = says(lab.why(request=third))
    assert told[0] == f"request {third} is queued, 0 before it: another one was being triggered"
    assert told[1].startswith("checkpoint 1 has been pending for ")
    assert any(each.startswith("The JobMaster asks for the id of the next checkpoint: not answered") for each in told)
    begun, *asked = says(lab.why(request=second))
    assert begun == f"request {second} has begun and has no checkpoint id yet"
    assert len(asked) == 1
    assert asked[0].startswith("The JobMaster asks for the id of the next checkpoint: not answered for ")
    assert says(lab.why(request=first)) == says(lab.why(checkpoint=1))
