"""Whole jobs in the lab: savepoints taken, stopped with, moved, claimed, refused; jobs changed in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from kit.core.metadata import read_metadata
from kit.core.protocol.properties import RecoveryClaimMode, RetentionPolicy
from kit.core.state.handles import OperatorStateMode
from kit.hosts.lab.lab import Lab, LabError
from kit.machines.job.status import JobStatus
from kit.stream.api.environment import StreamEnvironment
from kit.stream.connectors import CollectionSource, CollectSink
from kit.stream.operators.aggregates import count
from kit.stream.operators.base import Operator, OperatorSpec
from kit.stream.settings.job_settings import CheckpointConfig, FixedDelay, NoRestart
from tests.hosts.lab.jobs import Shape, environment, expected, failure, settle, wrong
from tests.machines.restore.in_the_lab import SCHEMA, FullDisk, counting, remembering, rows_read, savepoint, steps, stop

SOME = 60
"""Steps of a running job after which it has read some of its 120 rows."""
LONG = Shape("totals", rows=120)
ONE_TOO_MANY = "1 checkpoint failed in a row, and tolerable_failures is 0."


def finished(lab: Lab) -> Lab:
    """Run it to its end, which must be a good one."""
    if not lab.ended:
        lab.run()
    assert lab.look.master.status is JobStatus.FINISHED, lab.look.master.error
    return lab


def metadata_of(lab: Lab, path: str) -> Any:
    return read_metadata(lab.look.files.contents[f"{path}/_metadata"], path)[0]


# --- savepoints -------------------------------------------------------------------------------------------------------


@pytest.mark.flink("SavepointITCase.testTriggerSavepointAndResumeWithFileBasedCheckpoints")
@pytest.mark.parametrize("way", ["totals", "windows", "union"])
def test_a_savepoint_stands_alone_and_a_job_resumed_from_it_goes_on_exactly_there(way: str) -> None:
    shape = Shape(way, rows=120)
    before = steps(Lab(environment(shape)), SOME)
    path = savepoint(before)
    assert {file.startswith(f"{path}/") for file in metadata_of(before, path).files()} == {True}
    assert set(metadata_of(before, path).files()) <= set(before.look.files.paths(path))
    request = before.stop()
    before.run_until(ended=True)
    settle(before)
    after = Lab(environment(shape), restore_path=before.look.answer(request), after=before)
    assert wrong(finished(after), shape) == {}


@pytest.mark.flink("SavepointITCase.testTriggerSavepointAndResumeWithFileBasedCheckpointsAndRelocateBasePath")
def test_a_savepoint_can_be_moved() -> None:
    before = steps(Lab(environment(LONG)), SOME)
    path = stop(before)
    contents = before.look.files.contents
    for file in before.look.files.paths(path):
        contents[file.replace(path, "/elsewhere/moved")] = contents.pop(file)
    after = Lab(environment(LONG), restore_path="/elsewhere/moved", after=before)
    assert wrong(finished(after), LONG) == {}


@pytest.mark.parametrize(
    ("mode", "is_deleted"),
    [
        pytest.param(
            RecoveryClaimMode.CLAIM,
            True,
            marks=pytest.mark.flink("SavepointITCase.testTriggerSavepointAndResumeWithClaim"),
        ),
        pytest.param(
            RecoveryClaimMode.LEGACY,
            False,
            marks=pytest.mark.flink("SavepointITCase.testTriggerSavepointAndResumeWithLegacyMode"),
        ),
        (RecoveryClaimMode.NO_CLAIM, False),
    ],
)
def test_whose_a_savepoint_is_decides_who_deletes_it(mode: RecoveryClaimMode, is_deleted: bool) -> None:
    before = steps(Lab(environment(LONG)), SOME)
    path = stop(before)
    retention = RetentionPolicy.NEVER_RETAIN_AFTER_TERMINATION
    after = Lab(environment(LONG, retention=retention), restore_path=path, claim_mode=mode, after=before)
    assert wrong(finished(after), LONG) == {}
    assert (after.look.files.paths(path) == []) is is_deleted


@pytest.mark.flink("SavepointITCase.testTriggerSavepointAndResumeWithNoClaim")
def test_a_savepoint_that_is_not_claimed_may_be_deleted_after_the_first_checkpoint() -> None:
    before = steps(Lab(environment(LONG)), SOME)
    path = stop(before)
    after = Lab(environment(LONG), restore_path=path, after=before)
    after.run_until(lambda lab: len(lab.look.files.paths("/checkpoints")) > 0 and lab.look.master.epoch == 1)
    after.run_until(checkpoint=after.look.master.checkpoints.store.latest_id + 1)
    for file in after.look.files.paths(path):
        del after.look.files.contents[file]
    after.faults.kill(0)
    assert wrong(finished(after), LONG) == {}
    assert after.look.master.epoch == 2


@pytest.mark.flink("SavepointITCase.testTriggerSavepointWithoutCheckpointBaseLocations")
def test_a_savepoint_needs_no_checkpoint_directory() -> None:
    lab = steps(Lab(remembering(OperatorStateMode.UNION, 2)), SOME)
    assert lab.look.files.paths(savepoint(lab)) != []
    lab.cancel()
    settle(lab)
    assert lab.look.files.paths("/checkpoints") == []


@pytest.mark.flink("StopWithSavepointHandlersTest.testTriggerSavepointWithDefaultDirectory")
def test_a_stop_without_a_target_writes_to_the_configured_directory() -> None:
    lab = steps(Lab(environment(LONG, savepoint_directory="/kept")), SOME)
    request = lab.stop()
    lab.run_until(ended=True)
    path = lab.look.answer(request)
    assert path is not None
    assert path.startswith("/kept/")
    assert f"{path}/_metadata" in lab.look.files.contents
    assert lab.look.files.paths("/savepoints") == []


@pytest.mark.flink("SavepointITCase.testSubmitWithUnknownSavepointPath")
def test_a_job_that_is_to_begin_from_nowhere_says_so_at_once() -> None:
    with pytest.raises(LabError, match="Cannot find checkpoint or savepoint '/unknown/path'"):
        Lab(environment(LONG), restore_path="/unknown/path")


@pytest.mark.flink(
    "JobMasterTriggerSavepointITCase.testStopJobAfterSavepoint",
    "JobMasterTriggerSavepointITCase.testStopJobAfterSavepointWithDeactivatedPeriodicCheckpointing",
)
@pytest.mark.parametrize("interval_ms", [10, None])
def test_a_job_cancelled_after_a_savepoint_leaves_it(interval_ms: int | None) -> None:
    lab = steps(Lab(environment(LONG, interval_ms=interval_ms)), SOME)
    path = savepoint(lab)
    lab.cancel()
    settle(lab)
    assert lab.look.master.status is JobStatus.CANCELED
    assert f"{path}/_metadata" in lab.look.files.paths("/savepoints")


@pytest.mark.flink("JobMasterTriggerSavepointITCase.testDoNotCancelJobIfSavepointFails")
def test_a_savepoint_that_fails_does_not_end_the_job() -> None:
    lab = steps(Lab(environment(LONG, interval_ms=10)), SOME)
    FullDisk(lab, "/savepoints/")
    with pytest.raises(LabError, match="no space left for /savepoints/"):
        savepoint(lab)
    assert lab.look.master.status is JobStatus.RUNNING
    lab.run_until(checkpoint=lab.look.master.checkpoints.store.latest_id + 1)
    assert wrong(finished(lab), LONG) == {}


# --- checkpoints, asked for and retained ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "interval_ms",
    [
        pytest.param(None, marks=pytest.mark.flink("ManualCheckpointITCase.testTriggeringWhenPeriodicDisabled")),
        pytest.param(20, marks=pytest.mark.flink("ManualCheckpointITCase.testTriggeringWhenPeriodicEnabled")),
    ],
)
def test_a_checkpoint_can_be_asked_for(interval_ms: int | None) -> None:
    lab = steps(Lab(environment(LONG, interval_ms=interval_ms)), 10)
    taken = 0
    if interval_ms is not None:
        lab.run_until(checkpoint=1)
        taken = lab.look.master.checkpoints.store.latest_id
    request = lab.trigger_checkpoint()
    lab.run_until(lambda lab: lab.look.answer(request) is not None)
    completed = lab.checkpoints().query("status == 'COMPLETED'")
    assert len(completed) == 1 if interval_ms is None else len(completed) >= taken + 1


@pytest.mark.parametrize(
    "local_recovery",
    [
        pytest.param(
            False, marks=pytest.mark.flink("ResumeCheckpointManuallyITCase.testExternalizedFSCheckpointsStandalone")
        ),
        pytest.param(
            True,
            marks=pytest.mark.flink(
                "ResumeCheckpointManuallyITCase.testExternalizedFSCheckpointsWithLocalRecoveryStandalone"
            ),
        ),
    ],
)
@pytest.mark.parametrize("mode", list(RecoveryClaimMode))
def test_retained_checkpoints_resume_one_after_the_other(mode: RecoveryClaimMode, local_recovery: bool) -> None:
    """Each run takes two checkpoints, so it subsumes the restored one, which may be deleted only if it was claimed."""
    shape = Shape("totals", rows=300)
    env = environment(shape, interval_ms=None, local_recovery=local_recovery)
    lab, taken = Lab(env), []
    for seed in (1, 2):
        steps(lab, 30)
        for _ in range(2):
            for _ in range(15):
                lab.step()
            request = lab.trigger_checkpoint()
            lab.run_until(lambda lab, request=request: lab.look.answer(request) is not None)  # type: ignore[misc]
        taken.append(str(lab.look.answer(request)))
        lab.cancel()
        settle(lab)
        assert lab.look.master.status is JobStatus.CANCELED
        assert f"{taken[-1]}/_metadata" in lab.look.files.contents
        lab = Lab(env, seed=seed, restore_path=taken[-1], claim_mode=mode, after=lab)
    assert wrong(finished(lab), shape) == {}
    assert (f"{taken[0]}/_metadata" in lab.look.files.contents) is (mode is not RecoveryClaimMode.CLAIM)
    if mode is not RecoveryClaimMode.CLAIM:
        again = finished(Lab(env, restore_path=taken[0], claim_mode=mode, after=lab))
        last = again.output("totals").sort_values("rows").groupby("k").last()
        assert {(k,): (row["rows"], row["total"]) for k, row in last.iterrows()} == expected(shape)


# --- stopping ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Probe(OperatorSpec):
    """Forwards rows; `hook` is called with the operator, the event, and the checkpoint if there is one."""

    hook: Callable[[ProbeOperator, str, int], None] = lambda operator, what, checkpoint_id: None

    def create(self) -> ProbeOperator:
        return ProbeOperator(self.hook)

    def __deepcopy__(self, memo: dict[int, object]) -> Probe:
        return self


class ProbeOperator(Operator):
    """An operator that calls a hook; `is_finished` is set by `finish`."""

    def __init__(self, hook: Callable[[ProbeOperator, str, int], None]) -> None:
        self.hook = hook
        self.is_finished = False

    def process_batch(self, batch: pa.RecordBatch, input_index: int = 0) -> None:
        self.context.output.emit(batch)

    def finish(self) -> None:
        self.is_finished = True
        self.hook(self, "finish", 0)

    def snapshot_state(self, checkpoint_id: int) -> None:
        self.hook(self, "snapshot", checkpoint_id)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.hook(self, "complete", checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self.hook(self, "aborted", checkpoint_id)


def probed(hook: Callable[[ProbeOperator, str, int], None], *, restarts: int = 5, **checkpoint: Any) -> Lab:
    """Rows through two tasks of two operators that call `hook`, well under way."""
    env = StreamEnvironment(
        "probed",
        parallelism=2,
        checkpoint=CheckpointConfig(**checkpoint),
        restart=FixedDelay(restarts, 5) if restarts else NoRestart(),
    )
    stream = env.from_source(CollectionSource([{"n": n} for n in range(120)], splits=4, batch_rows=4), uid="rows")
    stream = stream.apply(Probe("first", (SCHEMA,), SCHEMA, None, hook)).uid("first").rebalance()
    stream.apply(Probe("second", (SCHEMA,), SCHEMA, None, hook)).uid("second").sink_to(CollectSink("out"), uid="out")
    return steps(Lab(env), SOME)


def rows_out(lab: Lab) -> list[int]:
    return sorted(lab.output("out")["n"])


@pytest.mark.parametrize(
    "drain",
    [
        pytest.param(True, marks=pytest.mark.flink("SavepointITCase.testStopWithSavepointForFlip27SourceWithDrain")),
        pytest.param(
            False,
            marks=pytest.mark.flink(
                "SavepointITCase.testStopWithSavepointForFlip27SourceWithoutDrain",
                "SavepointITCase.testStopSavepointWithBoundedInput",
            ),
        ),
    ],
)
def test_only_a_drain_tells_operators_that_their_input_has_ended(drain: bool) -> None:
    told: list[str] = []
    lab = probed(lambda operator, what, _: told.append(operator.context.task) if what == "finish" else None)
    stop(lab, drain=drain)
    assert lab.look.master.status is JobStatus.FINISHED
    assert len(told) == (4 if drain else 0)
    assert 0 < len(rows_out(lab)) < 120


@pytest.mark.flink("SavepointITCase.testStopWithSavepointWithDrainCallsFinishBeforeSnapshotState")
def test_a_drain_lets_operators_finish_before_they_are_stored() -> None:
    seen: Counter[tuple[str, bool]] = Counter()
    lab = probed(lambda operator, what, _: seen.update([(what, operator.is_finished)]))
    stop(lab, drain=True)
    assert (seen["snapshot", True], seen["snapshot", False]) == (4, 0)


def fail_once(when: str) -> Callable[[ProbeOperator, str, int], None]:
    """A hook that raises the first time that this happens in the second task."""
    failed: list[int] = []

    def hook(operator: ProbeOperator, what: str, checkpoint_id: int) -> None:
        if what == when and operator.context.name == "second" and not failed:
            failed.append(checkpoint_id)
            raise RuntimeError(f"no luck with {what} {checkpoint_id}")

    return hook


@pytest.mark.flink("SavepointITCase.testStopWithSavepointFailingInSnapshotCreation")
def test_a_stop_whose_savepoint_fails_leaves_the_job_to_go_on() -> None:
    lab = probed(fail_once("snapshot"))
    with pytest.raises(LabError):
        stop(lab)
    assert rows_out(finished(lab)) == list(range(120))
    assert lab.look.master.epoch > 1


@pytest.mark.flink(
    "SavepointITCase.testStopWithSavepointFailingAfterSnapshotCreation",
    "SavepointITCase.testStopWithSavepointFailsOverToSavepoint",
)
@pytest.mark.parametrize("interval_ms", [None, 20])
@pytest.mark.parametrize("drain", [False, True])
def test_a_stop_that_fails_after_its_savepoint_fails_the_job_which_goes_on_from_that_alone(
    drain: bool, interval_ms: int | None
) -> None:
    """Whatever restarts are left: sinks have published rows that an older checkpoint would bring again."""
    failing: list[Lab] = []

    def hook(operator: ProbeOperator, what: str, checkpoint_id: int) -> None:
        stands = failing and any(path.endswith("/_metadata") for path in failing[0].look.files.paths("/savepoints"))
        if stands and what == "complete" and operator.context.task == "second/1":
            raise RuntimeError(f"no luck with {checkpoint_id}")

    lab = probed(hook, interval_ms=interval_ms)
    failing.append(lab)
    with pytest.raises(
        LabError, match=r"the savepoint is complete at /savepoints/.*, but the job did not stop with it"
    ):
        stop(lab, drain=drain)
    failing.clear()
    assert (lab.look.master.status, lab.look.master.epoch) == (JobStatus.FAILED, 1)
    [path] = [path for path in lab.look.files.paths("/savepoints") if path.endswith("/_metadata")]
    path = path.removesuffix("/_metadata")
    assert f"restore_path='{path}'" in lab.look.master.error
    after = Lab(lab.job, restore_path=path, after=lab)
    assert rows_out(finished(after)) == list(range(120))


@pytest.mark.flink("SavepointITCase.testStopWithSavepointWithDrainGlobalFailoverIfSavepointAborted")
def test_a_drain_whose_savepoint_cannot_be_stored_sends_the_whole_job_back() -> None:
    lab = probed(lambda *_: None)
    FullDisk(lab, "/_metadata", times=1)
    with pytest.raises(LabError, match="no space left for /savepoints/"):
        stop(lab, drain=True)
    assert rows_out(finished(lab)) == list(range(120))
    assert lab.look.master.epoch > 1


# --- checkpoints that fail --------------------------------------------------------------------------------------------


@pytest.mark.flink("NotifyCheckpointAbortedITCase.testNotifyCheckpointAborted")
def test_every_operator_hears_of_every_abort() -> None:
    told: Counter[int] = Counter()
    lab = probed(
        lambda _, what, checkpoint_id: told.update([checkpoint_id]) if what == "aborted" else None,
        interval_ms=20,
        tolerable_failures=9,
        memory_threshold_bytes=0,
    )
    disk = FullDisk(lab, "/_metadata", times=1)  # the checkpoint cannot be completed
    lab.run_until(lambda _: len(told) == 1 and told.total() == 4)
    disk.part, disk.times = "/checkpoints/", 1  # a task cannot store its part
    lab.run_until(lambda _: len(told) == 2 and told.total() == 8)
    assert rows_out(finished(lab)) == list(range(120))


@pytest.mark.flink("CheckpointFailureManagerITCase.testFinalizationFailureCounted")
def test_a_checkpoint_that_cannot_be_completed_counts_as_a_failure() -> None:
    lab = probed(lambda *_: None, interval_ms=20, restarts=0)
    FullDisk(lab, "/_metadata")
    assert f"{ONE_TOO_MANY} The last one: Failure to finalize checkpoint" in failure(lab)


@pytest.mark.flink("CheckpointFailureManagerITCase.testAsyncCheckpointFailureTriggerJobFailed")
def test_state_that_cannot_be_stored_fails_the_job_once() -> None:
    lab = probed(lambda *_: None, interval_ms=20, restarts=0, memory_threshold_bytes=0)
    FullDisk(lab, "/checkpoints/")
    assert f"{ONE_TOO_MANY} The last one: Asynchronous task checkpoint failed" in failure(lab)
    assert lab.look.master.epoch == 1


# --- tasks that have finished -----------------------------------------------------------------------------------------


def short_and_long(failover: str = "region", **checkpoint: Any) -> StreamEnvironment:
    """Two independent pipelines; one finishes long before the other."""
    settings, restart = CheckpointConfig(**checkpoint), FixedDelay(5, 5)
    env = StreamEnvironment("two", parallelism=1, checkpoint=settings, restart=restart, failover=failover)
    for name, rows in (("short", 4), ("long", 120)):
        source = CollectionSource([{"n": n} for n in range(rows)], batch_rows=4)
        stream = env.from_source(source, uid=f"{name}-rows").rebalance().map(dict).uid(name)
        stream.sink_to(CollectSink(name), uid=f"{name}-out")
    return env


def is_short_done(lab: Lab) -> bool:
    tasks = lab.look.master.tasks
    return any("short" in name for name in tasks) and all(
        record.state.name == "FINISHED" for name, record in tasks.items() if "short" in name
    )


def all_rows(lab: Lab) -> tuple[list[int], list[int]]:
    return sorted(lab.output("short")["n"]), sorted(lab.output("long")["n"])


@pytest.mark.flink("CheckpointAfterAllTasksFinishedITCase.testImmediateCheckpointing")
def test_a_bounded_job_takes_its_last_checkpoint_at_once() -> None:
    lab = finished(Lab(short_and_long(interval_ms=10**12)))
    assert all_rows(lab) == (list(range(4)), list(range(120)))
    assert lab.look.at_ms < 10**6


@pytest.mark.flink("CheckpointAfterAllTasksFinishedITCase.testRestoreAfterSomeTasksFinished")
def test_tasks_that_had_finished_stay_so_after_a_restore() -> None:
    before = Lab(short_and_long(interval_ms=10))
    before.run_until(is_short_done)
    path = stop(before)
    after = Lab(short_and_long(interval_ms=10**12), restore_path=path, after=before)
    assert all_rows(finished(after)) == (list(range(4)), list(range(120)))


@pytest.mark.flink("CheckpointAfterAllTasksFinishedITCase.testFailoverAfterSomeTasksFinished")
@pytest.mark.parametrize(("failover", "epochs"), [("region", 1), ("full", 2)])
def test_a_failure_after_some_tasks_have_finished_costs_nothing_twice(failover: str, epochs: int) -> None:
    lab = Lab(short_and_long(failover, interval_ms=10))
    lab.run_until(is_short_done)
    lab.faults.kill(0)
    assert all_rows(finished(lab)) == (list(range(4)), list(range(120)))
    assert (lab.look.master.epoch, lab.look.master.restarts) == (epochs, 1)


# --- jobs changed in between ------------------------------------------------------------------------------------------


def counted(parallelism: int = 2, *, stateless: str = "", uid: str = "counts") -> StreamEnvironment:
    """The counting job with another stateless operator before the counts, or the counts under another uid."""
    env = StreamEnvironment("counted", parallelism=parallelism, max_parallelism=13, checkpoint=CheckpointConfig())
    stream = env.from_source(
        CollectionSource([{"n": n, "key": n % 7} for n in range(120)], splits=4, batch_rows=4), uid="rows"
    )
    if stateless:
        stream = stream.rebalance().map(dict).uid(stateless).rebalance()
    counts = stream.key_by("key").aggregate(rows=count(), emit="final").uid(uid)
    counts.sink_to(CollectSink("counts"), uid="out")
    return env


def totals(lab: Lab) -> int:
    return int(finished(lab).output("counts")["rows"].sum())


@pytest.mark.flink("SavepointITCase.testCanRestoreWithModifiedStatelessOperators")
@pytest.mark.parametrize(("before", "after"), [("", "new"), ("old", ""), ("old", "new")])
def test_operators_without_state_may_come_and_go(before: str, after: str) -> None:
    first = steps(Lab(counted(stateless=before)), SOME)
    path = stop(first)
    second = Lab(counted(stateless=after), restore_path=path, after=first, allow_non_restored_state=bool(before))
    assert totals(second) == 120
    assert 0 < rows_read(second) == 120 - rows_read(first), "it goes on where the first run stopped"


def test_state_without_an_operator_is_refused_by_name_and_dropped_if_that_is_allowed() -> None:
    before = steps(Lab(counted()), SOME)
    path = stop(before)
    refused = Lab(counted(uid="renamed"), restore_path=path, after=before)
    assert "uid 'counts'" in failure(refused)
    dropped = Lab(counted(uid="renamed"), restore_path=path, after=before, allow_non_restored_state=True)
    assert 0 < totals(dropped) < 120


@pytest.mark.parametrize(("parallelism", "max_parallelism"), [(3, 14), (14, None)])
def test_another_maximum_parallelism_than_the_recorded_is_refused_by_name(
    parallelism: int, max_parallelism: int | None
) -> None:
    before = steps(Lab(counting(2)), SOME)
    after = counting(parallelism, max_parallelism=max_parallelism)
    why = failure(Lab(after, restore_path=stop(before), after=before))
    assert "13" in why
    assert "The state is that of " in why
