"""Whole jobs stopped at one parallelism and resumed at another: every kind of state, in and out."""

from __future__ import annotations

from collections import Counter

import pytest

from kit.core.state.handles import OperatorStateMode
from kit.hosts.lab.lab import Lab
from kit.machines.job.status import JobStatus
from tests.hosts.lab.jobs import failure
from tests.machines.restore.in_the_lab import counting, found_after_restore, remembering, rows_read, steps, stop

SPLIT, UNION, BROADCAST = OperatorStateMode
BEFORE = 100
"""Steps before the savepoint: some rows have been read, most have not."""


def counts(lab: Lab) -> dict[int, int]:
    """The count of each key, as committed at the end of the input."""
    assert lab.look.master.status is JobStatus.FINISHED, lab.look.master.error
    frame = lab.output("counts")
    return dict(zip(frame["key"], frame["rows"], strict=True))


def wanted(rows: int = 120) -> dict[int, int]:
    return {key: len(range(key, rows, 7)) for key in range(7)}


# --- keyed state ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "max_parallelism"),
    [
        pytest.param(3, 2, 13, marks=pytest.mark.flink("RescalingITCase.testSavepointRescalingInKeyedState")),
        pytest.param(2, 3, 13, marks=pytest.mark.flink("RescalingITCase.testSavepointRescalingOutKeyedState")),
        pytest.param(
            3,
            2,
            None,
            marks=pytest.mark.flink("RescalingITCase.testSavepointRescalingInKeyedStateDerivedMaxParallelism"),
        ),
        pytest.param(
            2,
            3,
            None,
            marks=pytest.mark.flink("RescalingITCase.testSavepointRescalingOutKeyedStateDerivedMaxParallelism"),
        ),
    ],
)
def test_keyed_state_of_a_savepoint_is_whole_at_another_parallelism(
    old: int, new: int, max_parallelism: int | None
) -> None:
    before = steps(Lab(counting(old, max_parallelism=max_parallelism)), BEFORE)
    path = stop(before)
    assert before.output("counts").empty
    after = Lab(counting(new, max_parallelism=max_parallelism), restore_path=path, after=before)
    after.run()
    assert counts(after) == wanted()
    assert 0 < rows_read(after) == 120 - rows_read(before)
    assert set(after.look.master.graph.max_parallelism.values()) == {max_parallelism or 128}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(
            3, 2, marks=pytest.mark.flink("RescaleCheckpointManuallyITCase.testCheckpointRescalingInKeyedState")
        ),
        pytest.param(
            2, 3, marks=pytest.mark.flink("RescaleCheckpointManuallyITCase.testCheckpointRescalingOutKeyedState")
        ),
    ],
)
def test_keyed_state_of_a_retained_checkpoint_is_whole_at_another_parallelism(old: int, new: int) -> None:
    before = steps(Lab(counting(old)), BEFORE)
    before.trigger_checkpoint(full=True)
    before.run_until(checkpoint=1)
    path = before.look.master.checkpoints.store.latest.location
    after = Lab(counting(new), restore_path=path, after=before)
    after.run()
    assert counts(after) == wanted()
    assert 0 < rows_read(after) < 120, "it goes on, and does not begin anew"


# --- operator state ---------------------------------------------------------------------------------------------------


# Of operator state Flink's names say the opposite: what it calls "out" goes to fewer subtasks.
@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(
            2,
            3,
            marks=pytest.mark.flink(
                "RescalingITCase.testSavepointRescalingInPartitionedOperatorState",
                "RescalingITCase.testSavepointRescalingInPartitionedOperatorStateList",
            ),
        ),
        pytest.param(
            3,
            2,
            marks=pytest.mark.flink(
                "RescalingITCase.testSavepointRescalingOutPartitionedOperatorState",
                "RescalingITCase.testSavepointRescalingOutPartitionedOperatorStateList",
            ),
        ),
        pytest.param(2, 2),
    ],
)
def test_entries_of_a_split_list_are_dealt_out_once_and_evenly(old: int, new: int) -> None:
    before = steps(Lab(remembering(SPLIT, old)), BEFORE)
    after = Lab(remembering(SPLIT, new), restore_path=stop(before), after=before)
    after.run()
    assert after.look.master.status is JobStatus.FINISHED, after.look.master.error
    found = found_after_restore(after)
    passed_before = [n for n in before.output("out")["n"] if n >= 0]
    assert sum(found.values(), start=Counter()) == dict.fromkeys(passed_before, 1)
    if old != new:
        sizes = [entries.total() for entries in found.values()]
        assert len(sizes) == new
        assert max(sizes) - min(sizes) <= 1
    assert sorted(n for n in after.output("out")["n"] if n >= 0) == list(range(120))


@pytest.mark.parametrize("new", [1, 2, 4])
def test_a_union_list_goes_whole_to_every_subtask(new: int) -> None:
    before = steps(Lab(remembering(UNION, 2)), BEFORE)
    after = Lab(remembering(UNION, new), restore_path=stop(before), after=before)
    after.run()
    passed_before = dict.fromkeys((n for n in before.output("out")["n"] if n >= 0), 1)
    assert found_after_restore(after) == dict.fromkeys(range(new), passed_before)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(2, 3, marks=pytest.mark.flink("RescalingITCase.testSavepointRescalingInBroadcastOperatorState")),
        pytest.param(3, 2, marks=pytest.mark.flink("RescalingITCase.testSavepointRescalingOutBroadcastOperatorState")),
    ],
)
def test_broadcast_state_goes_to_every_subtask(old: int, new: int) -> None:
    before = steps(Lab(remembering(BROADCAST, old)), BEFORE)
    path = stop(before)
    put_before = {n for n in before.output("out")["n"] if n < 5}
    assert put_before
    after = Lab(remembering(BROADCAST, new), restore_path=path, after=before)
    after.run()
    assert after.look.master.status is JobStatus.FINISHED, after.look.master.error
    assert found_after_restore(after) == dict.fromkeys(range(new), dict.fromkeys(put_before, 1))


# --- state that cannot be dealt out -----------------------------------------------------------------------------------


@pytest.mark.flink("RescalingITCase.testSavepointRescalingNonPartitionedStateCausesException")
def test_state_that_is_no_list_fails_the_job_when_it_is_dealt_out() -> None:
    before = steps(Lab(counting(3, one_number=3)), BEFORE)
    after = Lab(counting(2, one_number=2), restore_path=stop(before), after=before)
    assert "a count cannot be put together from 2 counts" in failure(after)


@pytest.mark.flink("RescalingITCase.testSavepointRescalingWithKeyedAndNonPartitionedState")
def test_beside_it_all_else_may_be_rescaled() -> None:
    before = steps(Lab(counting(3, one_number=2)), BEFORE)
    after = Lab(counting(2, one_number=2), restore_path=stop(before), after=before)
    after.run()
    assert counts(after) == wanted()
    assert 0 < rows_read(after) == 120 - rows_read(before)
