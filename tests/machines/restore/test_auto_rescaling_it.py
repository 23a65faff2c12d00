"""Rescaling of whole running jobs: every kind of state, up and down, from a checkpoint."""

from __future__ import annotations

from collections import Counter

import pytest

from kit import Lab, RescaleConfig
from kit.core.state.handles import OperatorStateMode
from kit.hosts.lab import ready_job
from tests.hosts.lab.jobs import failure
from tests.machines.restore.in_the_lab import counting, found_after_restore, remembering, steps
from tests.machines.restore.test_rescaling_it import counts, wanted

SPLIT, _, BROADCAST = OperatorStateMode
BEFORE = 100
"""Steps before the rescale: some rows have been read, most have not."""
NEVER_MS = 2**62


def parallelism(lab: Lab) -> set[int]:
    """Return the parallelism of the tasks that are deployed."""
    return set(Counter(task.rpartition("/")[0] for task in lab.look.tasks).values())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(4, 2, marks=pytest.mark.flink("AutoRescalingITCase.testCheckpointRescalingInKeyedState")),
        pytest.param(2, 4, marks=pytest.mark.flink("AutoRescalingITCase.testCheckpointRescalingOutKeyedState")),
    ],
)
def test_keyed_state_is_whole_at_another_parallelism(old: int, new: int) -> None:
    lab = steps(Lab(counting(old)), BEFORE)
    path = lab.rescale(new, wait=True)
    assert lab.trace.story(kind="CheckpointRestored")[-1].data["path"] == path
    assert parallelism(lab) == {new}
    lab.run()
    assert counts(lab) == wanted()


# Of operator state Flink's names say the opposite: what it calls "out" goes to fewer subtasks.
@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(
            2, 4, marks=pytest.mark.flink("AutoRescalingITCase.testCheckpointRescalingInPartitionedOperatorState")
        ),
        pytest.param(
            4, 2, marks=pytest.mark.flink("AutoRescalingITCase.testCheckpointRescalingOutPartitionedOperatorState")
        ),
    ],
)
def test_entries_of_a_split_list_are_dealt_out_once_and_evenly(old: int, new: int) -> None:
    lab = steps(Lab(remembering(SPLIT, old)), BEFORE)
    lab.rescale(new, wait=True)
    passed_before = list(lab.output("out")["n"])
    assert passed_before
    lab.run()
    found = found_after_restore(lab)
    assert sum(found.values(), start=Counter()) == dict.fromkeys(passed_before, 1)
    sizes = [entries.total() for entries in found.values()]
    assert len(sizes) == new
    assert max(sizes) - min(sizes) <= 1
    assert sorted(n for n in lab.output("out")["n"] if n >= 0) == list(range(120))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(
            2, 4, marks=pytest.mark.flink("AutoRescalingITCase.testCheckpointRescalingInBroadcastOperatorState")
        ),
        pytest.param(
            4, 2, marks=pytest.mark.flink("AutoRescalingITCase.testCheckpointRescalingOutBroadcastOperatorState")
        ),
    ],
)
def test_broadcast_state_goes_to_every_subtask(old: int, new: int) -> None:
    lab = steps(Lab(remembering(BROADCAST, old)), BEFORE)
    lab.rescale(new, wait=True)
    put_before = {n for n in lab.output("out")["n"] if n < 5}
    assert put_before
    lab.run()
    assert found_after_restore(lab) == dict.fromkeys(range(new), dict.fromkeys(put_before, 1))


@pytest.mark.flink("AutoRescalingITCase.testCheckpointRescalingNonPartitionedStateCausesException")
def test_state_that_is_no_list_fails_the_job_when_it_is_dealt_out() -> None:
    lab = steps(Lab(counting(4, one_number=4)), BEFORE)
    request = lab.rescale({"number": 2})
    assert "a count cannot be put together from 2 counts" in failure(lab)
    with pytest.raises(Exception, match="the job was not rescaled: it is FAILED"):
        lab.look.answer(request)


@pytest.mark.flink("AutoRescalingITCase.testCheckpointRescalingWithKeyedAndNonPartitionedState")
def test_beside_it_all_else_may_be_rescaled() -> None:
    lab = steps(Lab(counting(4, one_number=2)), BEFORE)
    lab.rescale(2, wait=True)
    assert parallelism(lab) == {2}
    lab.run()
    assert counts(lab) == wanted()


@pytest.mark.flink("RescaleOnCheckpointITCase.testRescaleOnCheckpoint")
def test_a_rescale_waits_for_the_next_checkpoint() -> None:
    env = ready_job("keyed-sum", parallelism=4, rows=200, cooldown_ms=0, max_trigger_delay_ms=NEVER_MS)
    assert env.settings.rescaling == RescaleConfig(cooldown_ms=0, max_trigger_delay_ms=NEVER_MS)
    lab = steps(Lab(env), BEFORE)
    request = lab.rescale(3, at_once=False)
    for _ in range(2 * BEFORE):
        lab.step()
    assert lab.look.answer(request) is None
    assert parallelism(lab) == {4}
    path = lab.trigger_checkpoint(wait=True)
    lab.run_until(lambda lab: lab.look.answer(request) is not None)
    assert lab.look.answer(request) == path
    assert parallelism(lab) == {3}
