"""Whatever happens, the committed output is the batch result, and the disk has only the files that are needed."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit import CheckpointConfig, CollectionSource, CollectSink, FixedDelay, StreamEnvironment
from kit.hosts.lab import lab as lab_module
from kit.hosts.lab.lab import Lab, LabError
from kit.machines.job.status import JobStatus
from tests.hosts.lab.jobs import WAYS, Shape, environment, failure, referenced_files, settle, state_files, wrong
from tests.properties import examples

SHAPES = st.builds(
    Shape,
    way=st.sampled_from(sorted(WAYS)),
    rows=st.integers(0, 40),
    splits=st.integers(1, 5),
    batch_rows=st.integers(1, 8),
    parallelism=st.integers(1, 3),
    chaining=st.booleans(),
)

DEEDS = st.lists(
    st.one_of(
        st.tuples(st.just("steps"), st.integers(1, 120)),
        st.tuples(st.just("kill"), st.integers(0, 2)),
        st.tuples(st.sampled_from(["checkpoint", "savepoint"]), st.just(0)),
        st.tuples(st.just("stop"), st.integers(1, 3)),
    ),
    max_size=8,
)
MOST_STEPS = 10_000
"""A job that has not ended after so many will not; the longest of these takes about 1,500."""


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab_module, "MOST_STEPS", MOST_STEPS)


def do(lab: Lab, shape: Shape, deed: str, argument: int) -> tuple[Lab, Shape]:
    """Take one action; after a stop, a second lab resumes at another parallelism."""
    if lab.ended:
        return lab, shape
    if deed == "steps":
        for _ in range(argument):
            if not lab.ended:
                lab.step()
    elif deed == "kill":
        with suppress(LabError):  # that worker does not run at present
            lab.faults.kill(argument)
    elif deed == "checkpoint":
        lab.trigger_checkpoint()
    elif deed == "savepoint":
        lab.savepoint()
    else:
        return stop_and_resume(lab, shape, argument)
    return lab, shape


def stop_and_resume(lab: Lab, shape: Shape, parallelism: int) -> tuple[Lab, Shape]:
    """Stop with a savepoint and resume at another parallelism; if the stop fails, keep the job. `tests.stories` tests
    jobs that fail while they stop.
    """
    request = lab.stop()
    try:
        lab.run_until(lambda lab: lab.ended or lab.look.answer(request) is not None)
        path = lab.look.answer(request)
    except LabError:
        return lab, shape
    if path is None:
        return lab, shape
    settle(lab)
    assert lab.look.master.status is JobStatus.FINISHED
    assert state_files(lab) == referenced_files(lab)
    shape = shape.at(parallelism)
    return Lab(environment(shape), seed=lab.past.seed + 1, restore_path=path, after=lab), shape


@given(SHAPES, DEEDS, st.integers(0, 2**32))
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_committed_output_is_the_batch_result(shape: Shape, deeds: list[tuple[str, int]], seed: int) -> None:
    lab = Lab(environment(shape), seed=seed)
    for deed, argument in deeds:
        lab, shape = do(lab, shape, deed, argument)
    if not lab.ended:
        lab.run()
    assert lab.look.master.status is JobStatus.FINISHED, lab.look.master.error
    assert wrong(lab, shape) == {}
    lab.look.validate()


@given(SHAPES, DEEDS, st.integers(0, 2**32))
@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_nothing_is_left_on_the_disk_and_nothing_is_missing(
    shape: Shape, deeds: list[tuple[str, int]], seed: int
) -> None:
    lab = Lab(environment(shape), seed=seed)
    for deed, argument in deeds:
        lab, shape = do(lab, shape, deed, argument)
    lab.cancel()
    settle(lab)
    assert lab.look.master.status.is_terminal
    assert state_files(lab) == referenced_files(lab)


SMALL = Shape("totals", rows=12, splits=3, batch_rows=2, parallelism=2)
LONG = Shape("totals", rows=90, splits=3, batch_rows=1, parallelism=2)
"""Long enough for a checkpoint or two on the way."""


def test_a_kill_at_any_step_changes_nothing() -> None:
    whole = Lab(environment(SMALL), seed=7)
    whole.run()
    restarted = 0
    for position in range(1, whole.position, 3):
        lab = Lab(environment(SMALL), seed=7)
        lab.replay(whole.past.actions[1:position])
        try:
            lab.faults.kill(position % 2)
        except LabError:
            continue
        lab.run()
        restarted += lab.look.master.epoch == 2
        assert wrong(lab, SMALL) == {}
    assert restarted > 20


@pytest.mark.flink(
    "SavepointITCase.testStopWithSavepointForFlip27SourceWithDrain",
    "StopWithSavepointITCase.test",
)
@pytest.mark.parametrize("seed", range(5))
def test_a_drain_lets_windows_fire_and_publishes_what_they_give(seed: int) -> None:
    shape = Shape("windows", rows=80, splits=1, batch_rows=1, parallelism=2)
    lab = Lab(environment(shape), seed=seed)
    lab.run_until(record="CheckpointTriggered")
    request = lab.stop(drain=True)
    lab.run()
    assert lab.look.answer(request)
    counted = int(lab.output("windows")["rows"].sum())
    assert counted == len(lab.output("rows")) > 0


@pytest.mark.flink("SavepointITCase.testStopWithSavepointForFlip27SourceWithoutDrain")
@pytest.mark.flink("SavepointITCase.testTriggerSavepointAndResumeWithFileBasedCheckpoints")
@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_a_job_goes_on_from_a_savepoint_that_was_taken_on_the_way(parallelism: int) -> None:
    lab = Lab(environment(LONG), seed=3)
    lab.run_until(checkpoint=1)
    request = lab.savepoint()
    lab.run_until(lambda lab: lab.look.answer(request) is not None)
    committed = set(lab.output("rows")["n"])
    lab.cancel()
    settle(lab)
    assert 0 < len(committed) < LONG.rows
    again = Lab(environment(LONG.at(parallelism)), restore_path=lab.look.answer(request), seed=4, after=lab)
    again.run()
    assert wrong(again, LONG) == {}


@pytest.mark.flink("CheckpointAfterAllTasksFinishedITCase.testRestoreAfterSomeTasksFinished")
@pytest.mark.flink("CheckpointAfterAllTasksFinishedITCase.testFailoverAfterSomeTasksFinished")
@pytest.mark.parametrize("seed", range(6))
def test_a_job_goes_on_after_some_of_its_tasks_have_finished(seed: int) -> None:
    shape = Shape("union", rows=12, splits=2, batch_rows=3, parallelism=2, chaining=False)
    lab = Lab(environment(shape), seed=seed)
    lab.run_until(record="TaskStateChanged")
    while lab.trace[-1].data.get("state") != "FINISHED":
        lab.step()
    lab.faults.kill(1)
    lab.run()
    assert wrong(lab, shape) == {}


@pytest.mark.flink("ManualCheckpointITCase.testTriggeringWhenPeriodicDisabled")
def test_without_an_interval_checkpoints_come_when_asked_and_at_the_end() -> None:
    lab = Lab(environment(SMALL, interval_ms=None), seed=1)
    lab.run_until(record="AllTasksRunning")
    request = lab.trigger_checkpoint()
    lab.run_until(lambda lab: lab.look.answer(request) is not None)
    lab.run()
    assert lab.checkpoints()["status"].tolist() == ["COMPLETED", "COMPLETED"]
    assert wrong(lab, SMALL) == {}


def test_parallelism_above_the_maximum_is_refused_where_the_job_is_restored() -> None:
    lab = Lab(environment(LONG), seed=1)
    lab.run_until(checkpoint=1)
    request = lab.stop()
    lab.run()
    with pytest.raises(Exception, match="16"):
        Lab(environment(LONG.at(17)), restore_path=lab.look.answer(request), after=lab)


def test_with_full_failover_a_failure_restores_the_whole_job_also_what_no_exchange_joins_to_the_failed_task() -> None:
    settings, restart = CheckpointConfig(interval_ms=20), FixedDelay(1, 1)
    env = StreamEnvironment("apart", checkpoint=settings, restart=restart, failover="full")
    for uid, parallelism in (("left", 1), ("right", 2)):
        rows = env.from_source(CollectionSource([{"n": n} for n in range(40)], splits=4, batch_rows=1), uid=uid)
        rows.set_parallelism(parallelism).sink_to(CollectSink(uid), uid=f"{uid}-out").set_parallelism(parallelism)
    lab = Lab(env)
    lab.run_until(checkpoint=1)
    lab.faults.kill(1)
    lab.run()
    deployed = [record.data["task"] for record in lab.trace.story(kind="DeployTask") if record.role == "command"]
    assert sorted(deployed) == sorted(2 * ["left/0", "right/0", "right/1"])
    assert [sorted(lab.output(uid)["n"]) for uid in ("left", "right")] == 2 * [[*range(40)]]


def test_a_restore_path_that_leads_nowhere_is_refused_with_that_path() -> None:
    with pytest.raises(LabError, match="/savepoints/nowhere"):
        Lab(environment(LONG), restore_path="/savepoints/nowhere")


def test_metadata_that_was_damaged_ends_the_job_with_its_path() -> None:
    lab = Lab(environment(LONG), seed=1)
    lab.run_until(checkpoint=1)
    request = lab.stop()
    lab.run()
    path = lab.look.answer(request)
    lab.look.files.contents[f"{path}/_metadata"] = lab.look.files.contents[f"{path}/_metadata"][:40]
    again = Lab(environment(LONG), restore_path=path, after=lab)
    assert str(path) in failure(again)
