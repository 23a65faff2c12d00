"""Answers to why the job has its status, why it was restarted, and why from that checkpoint and not a later one."""

from __future__ import annotations

import pytest

from kit.hosts.lab import Lab
from kit.why import WhyError
from tests.why.jobs import beginning, letters, roots, running, says, settle_without


def test_a_restart_goes_back_past_what_was_not_complete() -> None:
    lab = running(max_concurrent=2)
    lab.trigger_checkpoint(wait=True)
    savepoint = lab.savepoint()
    lab.run_until(lambda lab: lab.look.answer(savepoint) is not None)
    lab.trigger_checkpoint()
    settle_without(lab, beginning("carry_out:totals/1:WriteSnapshot"))
    lab.faults.kill(1)
    lab.run_until(record="StartEpoch")
    why = lab.why("restart")
    assert why.question == "Why did epoch 2 begin, and from what?"
    told = says(why)
    assert told[1] == "The job is now restarting: worker 1 was lost: it was killed in the lab"
    assert told[3] == "epoch 2 restored checkpoint 1, the newest complete one"
    assert told[4].startswith("checkpoint 1 was complete ")
    assert told[5] == "savepoint 2 was complete, but savepoints belong to the user: restarts do not restore them"
    assert told[6].startswith("checkpoint 3 was aborted after ")
    assert set(roots(why)) >= {"Worker 1 is lost with all its tasks: it was killed in the lab"}


def test_without_a_checkpoint_it_begins_anew() -> None:
    lab = running()
    lab.faults.kill(0)
    lab.run_until(record="StartEpoch")
    assert "epoch 2 started without state: no checkpoint was complete" in says(lab.why(epoch=2))
    assert says(lab.why(epoch=1)) == ["epoch 1 began", "epoch 1 started without state: no checkpoint was complete"]
    with pytest.raises(WhyError, match="the run has no epoch 3; it has 2: 1, 2"):
        lab.why(epoch=3)


def test_a_job_begun_from_a_savepoint_says_so() -> None:
    first = running()
    path = first.savepoint(wait=True)
    lab = Lab(letters(), after=first, restore_path=path)
    lab.run_until(record="AllTasksRunning")
    assert roots(lab.why("restore")) == [f"the job was started from the snapshot at {path}"]


def test_before_its_first_epoch_a_job_says_what_it_asks_for() -> None:
    lab = Lab(letters())
    told = says(lab.why("restart"))
    assert told[0] == "epoch 1 has not begun"
    assert told[-1].startswith("The JobMaster asks a source for its splits: not answered for ")


def test_the_checkpoint_of_an_earlier_driver_is_not_of_this_run() -> None:
    settings = {"store": "filesystem", "directory": "/checkpoints"}
    first = running(**settings)
    first.trigger_checkpoint(wait=True)
    lab = Lab(letters(**settings), after=first, recover=True)
    lab.run_until(record="AllTasksRunning")
    told = says(lab.why("restart"))
    assert told[1] == "epoch 1 restored checkpoint 1"
    assert told[2] == "an earlier driver had stored it"


def test_a_restarting_job_names_what_it_waits_for_and_why_it_fell() -> None:
    lab = running()
    lab.faults.kill(1)
    why = lab.why()
    assert why.question == "Why is the job RESTARTING?"
    left, delay, killed = roots(why)
    assert left == "not all workers of epoch 1 have stopped"
    assert delay == f"the restart delay ends at {lab.look.at_ms + 9} ms, in 9 ms"
    assert killed == "Worker 1 is lost with all its tasks: it was killed in the lab"


def test_a_running_job_names_the_tasks_that_do_not_run_and_the_checkpoints() -> None:
    lab = Lab(letters())
    lab.run_until(record="StartEpoch")
    assert "totals/0 is being deployed to its worker" in roots(lab.why("job"))
    lab.run_until(record="AllTasksRunning")
    lab.trigger_checkpoint()
    settle_without(lab, beginning("carry_out:job:WriteMetadata"))
    (root,) = roots(lab.why())
    assert root.startswith(
        "All tasks have acknowledged: the JobMaster writes the _metadata of checkpoint 1: not answered for"
    )
    lab.run()
    assert lab.why().question == "Why is the job FINISHED?"
