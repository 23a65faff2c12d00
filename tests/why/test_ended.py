"""Answers to why a checkpoint was aborted, back to the root cause, and why a complete one took as long as it did."""

from __future__ import annotations

from kit.hosts.lab import Lab
from kit.run.durations import duration
from kit.why import Why
from tests.stories.faults import break_disk
from tests.why.jobs import beginning, roots, running, says, settle_without


def test_an_expired_checkpoint_tells_what_was_missing_when_its_time_was_up() -> None:
    lab = running(timeout_ms=100)
    lab.trigger_checkpoint()
    held = beginning("carry_out:totals/1:WriteSnapshot")
    settle_without(lab, held)
    lab.wait_until(500)
    settle_without(lab, held)
    why = lab.why(checkpoint=1)
    assert why.question == "Why was checkpoint 1 aborted?"
    told = says(why)
    assert "CHECKPOINT_EXPIRED, Checkpoint expired before completing." in told[0]
    assert told[1].startswith("it timed out after ")
    assert told[2].startswith("checkpoint 1 has been pending for ")
    assert ": 5 of 6 tasks have acknowledged" in told[2]
    assert told[3] == "totals/1 has copied its state for checkpoint 1 and has not written all of it"
    timer, write = why.roots
    assert timer.record is not None
    assert timer.record.kind == "TimerFired"
    assert write.record is not None
    assert (write.record.kind, write.record.machine) == ("WriteSnapshot", "totals/1")


def test_a_declined_checkpoint_leads_to_what_the_disk_said() -> None:
    lab = running()
    break_disk(lab, "chk-1")
    request = lab.trigger_checkpoint()
    lab.run_until(record="CheckpointAborted")
    why = lab.why(checkpoint=1)
    told = says(why)
    task = why.facts[1].record.machine  # type: ignore[union-attr]
    assert told[0].endswith(f"{task} is to blame")
    assert told[1].startswith(f"{task} declines checkpoint 1: ")
    assert told[2].startswith(f"{task}'s part of checkpoint 1 could not be written: ")
    assert told[3] == f"{task} has copied its state for checkpoint 1; the copy is being written"
    kinds = [fact.record.kind for fact in why.facts if fact.record is not None]
    assert kinds == ["CheckpointAborted", "DeclineCheckpoint", "SnapshotFailed", "WriteSnapshot"]
    assert says(lab.why(request=request))[1:] == told


def test_a_metadata_file_that_cannot_be_written() -> None:
    lab = running()
    break_disk(lab, "_metadata")
    lab.trigger_checkpoint()
    lab.run_until(record="CheckpointAborted")
    kinds = [fact.record.kind for fact in lab.why(checkpoint=1).facts if fact.record is not None]
    assert kinds == ["CheckpointAborted", "MetadataFailed", "WriteMetadata"]


def test_a_checkpoint_dies_with_its_worker() -> None:
    lab = running()
    lab.trigger_checkpoint()
    lab.run_until(record="CheckpointTriggered")
    lab.faults.kill(1)
    why = lab.why("checkpoint 1")
    assert "JOB_FAILOVER_REGION" in says(why)[0] or "CHECKPOINT_COORDINATOR_SUSPEND" in says(why)[0]
    assert roots(why) == ["Worker 1 is lost with all its tasks: it was killed in the lab"]


def test_a_newer_checkpoint_takes_the_place_of_an_older_one() -> None:
    lab = running(max_concurrent=2)
    lab.trigger_checkpoint()
    held = beginning("carry_out:out/0:WriteSnapshot:chk-1")
    settle_without(lab, held)
    lab.trigger_checkpoint()
    settle_without(lab, held)
    aborted, newer = says(lab.why(checkpoint=1))
    assert "with 5 of 6 acknowledgements: CHECKPOINT_SUBSUMED" in aborted
    assert newer == "Checkpoint 2 is complete"


def complete_with_wait_for(what: str, ms: int) -> Lab:
    """A lab whose checkpoint 1 is complete; this was held back for so long meanwhile, and nothing else."""
    lab = running()
    lab.trigger_checkpoint()
    settle_without(lab, beginning(what))
    lab.wait_until(lab.look.at_ms + ms)
    settle_without(lab, lambda action: False, lambda lab: lab.look.master.checkpoints.store.latest_id == 1)
    return lab


def test_the_time_of_a_complete_checkpoint_goes_to_its_longest_step() -> None:
    lab = complete_with_wait_for("carry_out:totals/1:WriteSnapshot", 1_000)
    why = lab.why(checkpoint=1)
    took = next(record for record in lab.trace if record.kind == "CheckpointCompleted").data["duration_ms"]
    assert why.question == f"Why did checkpoint 1 take {duration(took)}?"
    longest = why.answer.says.rpartition("the longest wait was for totals/1: ")[2]
    assert longest.endswith(" ms went by before totals/1's state for checkpoint 1 is written")
    assert int(longest.partition(" ")[0].replace(",", "")) >= 1_000
    assert _slowest(why, "async").startswith("totals/1 wrote its part for 1")
    path = [fact.record for fact in why.facts if fact.record is not None]
    assert [record.at_ms for record in path] == sorted((record.at_ms for record in path), reverse=True)
    assert path[-1].kind in ("CheckpointIdAllocated", "CheckpointPending")


def test_what_waits_in_a_queue_is_not_told_as_a_slow_copy() -> None:
    why = complete_with_wait_for("turn:out/1", 500).why(checkpoint=1)
    waited = why.answer.says.rpartition("the longest wait was for out/1: ")[2]
    assert waited.startswith("a barrier waited in its queue for 5")
    assert not any("(async)" in told for told in says(why))


def test_a_barrier_that_waited_for_credits_is_part_of_the_way() -> None:
    lab = running()
    slow = beginning("turn:totals/0")
    settle_without(lab, slow)
    lab.trigger_checkpoint()
    settle_without(lab, slow)
    lab.wait_until(lab.look.at_ms + 500)
    settle_without(lab, lambda action: False, lambda lab: lab.look.master.checkpoints.store.latest_id == 1)
    why = lab.why(checkpoint=1)
    assert any("queues barrier 1 for totals/0, which has no credit left, 5" in told for told in says(why))


def _slowest(why: Why, phase: str) -> str:
    return next(told for told in says(why) if f"({phase}); no other subtask took longer" in told)
