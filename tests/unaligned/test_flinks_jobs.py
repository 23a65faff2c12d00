"""Flink's other jobs with unaligned checkpoints: failures at every stage, stress, a broken disk, changes of mode."""

from __future__ import annotations

import pytest

from kit.hosts.lab.lab import LabError
from kit.stream.graph.partitioners import PartitionerKind
from tests.unaligned.driver import EVERYTHING, Driver
from tests.unaligned.in_flight import INPUT, OUTPUT
from tests.unaligned.jobs import Plan
from tests.unaligned.matrix import LAST, Tasks, checkpoint, fill, in_flight, receivers, recover, start

CHECKPOINTS = 8
"""The checkpoints that each of these jobs must complete (`minCheckpoints`)."""
LONG = pytest.mark.soak
ITS_ROWS = [
    ("pipeline", 1, "unaligned"),
    ("pipeline", 5, "unaligned"),
    pytest.param("pipeline", 20, "unaligned", marks=LONG),
    ("pipeline", 5, "unaligned_after_timeout"),
    pytest.param("pipeline", 20, "unaligned_after_timeout", marks=LONG),
    ("multi_input", 5, "unaligned"),
    pytest.param("multi_input", 10, "unaligned", marks=LONG),
    ("union", 5, "unaligned"),
    pytest.param("union", 10, "unaligned", marks=LONG),
]


@pytest.mark.flink("UnalignedCheckpointITCase.execute")
@pytest.mark.parametrize(("topology", "parallelism", "mode"), ITS_ROWS)
def test_failures_at_every_stage(topology: str, parallelism: int, mode: str) -> None:
    plan = Plan(topology=topology, parallelism=parallelism, splits=parallelism, rows=30, batch_rows=1, mode=mode)
    driver = Driver(plan, 5, slow=["source", "verified"], burst=EVERYTHING)
    behind_hash = receivers(driver, PartitionerKind.HASH)
    restored = None
    for number in range(CHECKPOINTS):
        path = checkpoint_with_records_in_flight(driver, 3 * (number + 1), behind_hash)
        assert driver.restored_from == restored
        if number == CHECKPOINTS // 4:
            fail(driver)
        elif number == CHECKPOINTS // 2:
            fail_in_snapshot(driver)
        elif number == CHECKPOINTS * 3 // 4:
            fail(driver)
            driver.kill(0)
        else:
            continue
        restored = path
    driver.run_until(lambda: driver.lab.look.master.tasks.all_data_ended)
    driver.kill(0)
    driver.run()
    driver.check_finished()
    assert driver.lab.look.master.epoch == 6
    assert (driver.lab.checkpoints()["status"] == "COMPLETED").sum() > CHECKPOINTS


def checkpoint_with_records_in_flight(driver: Driver, rows: int, held: Tasks) -> str:
    """Take a checkpoint with records in flight to these tasks, all over exchanges by key."""
    fill(driver, rows, held)
    path = checkpoint(driver, held)
    found = in_flight(driver, path)
    assert found.total() > 0
    assert {kind for _, kind in found} == {PartitionerKind.HASH}
    return path


def fail(driver: Driver) -> None:
    """Kill the last worker; continue when another one has joined."""
    epoch = driver.lab.look.master.epoch
    driver.kill(driver.plan.parallelism - 1)
    driver.run_until(lambda: driver.lab.look.master.epoch == epoch + 1)


def fail_in_snapshot(driver: Driver) -> None:
    """The disk refuses a file, and then the worker dies with the next checkpoint begun."""
    driver.disk.breaks_in = 1
    request = driver.lab.trigger_checkpoint()
    with pytest.raises(LabError):
        driver.run_until(lambda: driver.lab.look.answer(request) is not None)
    driver.lab.trigger_checkpoint()
    driver.advance(2 * driver.plan.parallelism)
    fail(driver)


@pytest.mark.flink("UnalignedCheckpointStressITCase.runStressTest")
@pytest.mark.parametrize("mode", ["unaligned", "unaligned_after_timeout"])
def test_one_run_after_the_other(mode: str) -> None:
    plan = Plan(topology="MULTI_INPUT", parallelism=3, splits=6, rows=30, batch_rows=1, credits=1, mode=mode)
    driver = Driver(plan, 11, slow=["source", "failing-map"], burst=EVERYTHING)
    for parallelism in (2, 3, 1, 3):
        held = (*LAST, *receivers(driver, PartitionerKind.HASH))
        recover(driver)
        fill(driver, 1, more=True)
        fill(driver, 2, held, more=True)
        path = checkpoint(driver, held)
        queued = {(end, kind) for end in (INPUT, OUTPUT) for kind in (PartitionerKind.HASH, PartitionerKind.REBALANCE)}
        if driver.plan.parallelism == 1:  # a single receiver takes what a single sender has for it
            queued.remove((OUTPUT, PartitionerKind.HASH))
        assert set(in_flight(driver, path)) == queued
        fail(driver)
        driver.advance(driver.random.randrange(400))
        driver.cancel()
        driver = driver.rescaled(parallelism, path)
    driver.slow = ()
    driver.run()
    driver.check_finished()


@pytest.mark.flink("UnalignedCheckpointFailureHandlingITCase.testCheckpointSuccessAfterFailure")
@pytest.mark.parametrize("seed", range(4))
def test_a_checkpoint_succeeds_after_one_whose_in_flight_data_could_not_be_written(seed: int) -> None:
    plan = Plan(topology="PIPELINE", rows=12, batch_rows=1, credits=1, mode="unaligned")
    driver = Driver(plan, seed)
    fill(driver, 8)
    driver.relents = True
    request = driver.lab.trigger_checkpoint()
    while not (found := [each for each in driver.enabled() if "WriteChannelStateFile" in each.text]):
        assert driver.turn()
    driver.disk.breaks_in = 0
    driver.perform(found[0])
    assert driver.disk.breaks_in is None
    with pytest.raises(LabError):
        driver.run_until(lambda: driver.lab.look.answer(request) is not None)
    assert in_flight(driver, checkpoint(driver)).total() > 0
    driver.run()
    driver.check_finished()


@pytest.mark.flink("UnalignedCheckpointCompatibilityITCase.test")
@pytest.mark.parametrize("snapshot", ["checkpoint", "savepoint"])
@pytest.mark.parametrize(("first", "second"), [("exactly_once", "unaligned"), ("unaligned", "exactly_once")])
def test_what_one_mode_has_written_the_other_goes_on_from(first: str, second: str, snapshot: str) -> None:
    plan = Plan(topology="PIPELINE", rows=20, batch_rows=1, credits=1, mode=first)
    driver = Driver(plan, 3)
    fill(driver, 10)
    if snapshot == "checkpoint":
        path: str | None = checkpoint(driver)
        driver.cancel()
    else:
        driver.held = lambda task: False
        request = driver.lab.stop()
        driver.run()
        path = driver.lab.look.answer(request)
    assert path is not None
    assert (in_flight(driver, path).total() > 0) is (first == "unaligned" and snapshot == "checkpoint")
    after = driver.rescaled(2, path, second)
    start(after)
    checkpoint(after)
    after.run()
    after.check_finished()
