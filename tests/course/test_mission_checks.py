"""The checks of missions, in a run of which several checkpoints completed and several were aborted."""

from __future__ import annotations

import pytest

from kit.course.missions import checks
from kit.hosts.lab import Lab
from tests.draw.labs import lab_of

REASON = "CHECKPOINT_ASYNC_EXCEPTION"


def begun(lab: Lab, number: int) -> None:
    lab.trigger_checkpoint()
    lab.run_until(lambda lab: number in lab.moment().checkpoints)


def fail(lab: Lab, number: int) -> None:
    """Abort a checkpoint: a snapshot of it cannot be written."""
    begun(lab, number)
    lab.run_until(record="WriteSnapshot")
    lab.faults.fail("WriteSnapshot")
    lab.run_until(record="CheckpointAborted")


@pytest.fixture(scope="module")
def lab() -> Lab:
    """Checkpoints 1, 3 and 5 are complete, 2, 4 and 6 were aborted, and 7 is pending."""
    lab = lab_of(rows=200, interval_ms=None, tolerable_failures=10)
    lab.run_until(record="AllTasksRunning")
    for number in (1, 3, 5):
        begun(lab, number)
        lab.run_until(checkpoint=number)
        fail(lab, number + 1)
    begun(lab, 7)
    return lab


def position_after(lab: Lab, kind: str, checkpoint_id: int) -> Lab:
    """Return the lab at the step after which this record is there."""
    records = [record for record in lab.trace.story(kind=kind) if record.checkpoint_id == checkpoint_id]
    number = next(n for n, record in enumerate(lab.trace) if record.id == records[0].id)
    return lab.fork().goto(lab.past.position_of(number + 1))


def test_each_named_checkpoint_must_be_complete(lab: Lab) -> None:
    assert checks.completed(1, 3, 5)(lab) == checks.Verdict(True, "Checkpoints 1, 3 and 5 are complete.")
    assert checks.completed(5)(lab).says == "Checkpoint 5 is complete."
    for ids, said in (((1, 4, 7), "Checkpoint 4 was aborted"), ((5, 7), "Checkpoint 7 is pending: 0 of 4 tasks")):
        verdict = checks.completed(*ids)(lab)
        assert not verdict.done
        assert verdict.says.startswith(said)
    assert checks.completed(3, 8)(lab).says == "Checkpoint 8 has not begun."


def test_an_abort_is_that_of_the_named_checkpoint_and_for_the_named_reason(lab: Lab) -> None:
    reasons = {each.reason for each in lab.moment().checkpoints.values() if each.reason}
    assert reasons == {REASON}
    assert checks.aborted(REASON, "so", 4)(lab) == checks.Verdict(True, "Checkpoint 4 was aborted: so.")
    assert checks.aborted(REASON, "so")(lab).says == "Checkpoint 2 was aborted: so."
    assert checks.aborted(REASON, "so", 5)(lab) == checks.Verdict(False, "Checkpoint 5 is complete.")
    assert not checks.aborted("CHECKPOINT_EXPIRED", "so")(lab).done


def test_the_first_checkpoint_that_completed_after_the_first_abort_counts(lab: Lab) -> None:
    said = "Checkpoint 3 is complete, although checkpoint 2 was aborted."
    assert checks.later_completed(lab) == checks.Verdict(True, said)
    assert not checks.later_completed(position_after(lab, "CheckpointAborted", 2)).done
    assert checks.later_completed(position_after(lab, "CheckpointAborted", 4)) == checks.Verdict(True, said)


def test_of_several_blocked_channels_any_may_have_the_buffers_that_wait() -> None:
    lab = lab_of(3, rows=200, parallelism=3, interval_ms=None)
    lab.run_until(record="AllTasksRunning")
    found = set()
    for number in range(1, 5):
        begun(lab, number)
        while lab.moment().checkpoints[number].status == "pending":
            lab.step()
            blocked = [each for each in lab.moment().channels.values() if each.blocked]
            waiting = [sum(item.kind == "buffer" for item in each.arrived) for each in blocked]
            place = next((place for place, many in enumerate(waiting) if many > 1), None)
            verdict = checks.records_wait_behind_a_barrier(lab)
            assert verdict.done == (place is not None)
            if place is not None:
                words = (
                    f"{waiting[place]} buffers of {blocked[place].sender} wait in front of {blocked[place].receiver}."
                )
                assert verdict.says == words
                found.add(place)
    assert found > {0}, "another than the first has buffers"
