"""A driver dies at any step, and another recovers: it keeps confirmed checkpoints, leaves nothing, and repeats no row.

The driver of a lab takes everything with it but the disk and what was staged and published; `recover=True` is the one
that comes after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.core.protocol.properties import RecoveryClaimMode, RetentionPolicy
from kit.core.state.errors import StorageError
from kit.files.storage import CheckpointStorage
from kit.hosts.lab.lab import Lab, LabError
from kit.machines.job.status import JobStatus
from kit.stream.api.environment import StreamEnvironment
from kit.stream.connectors.part_names import StagedName
from tests.hosts.lab.jobs import CHECKPOINTS, Shape, environment, referenced_files, settle, state_files, wrong
from tests.hosts.lab.test_exactly_once import SHAPES
from tests.properties import examples

LIVES = st.lists(
    st.lists(
        st.one_of(
            st.tuples(st.just("steps"), st.integers(1, 150)),
            st.tuples(st.just("kill"), st.integers(0, 2)),
            st.tuples(st.sampled_from(["checkpoint", "savepoint"]), st.just(0)),
            st.tuples(st.just("stored"), st.integers(1, 3)),
        ),
        min_size=1,
        max_size=4,
    ),
    max_size=4,
)


def durable(shape: Shape, **checkpoint: Any) -> StreamEnvironment:
    """Return the job with a store that outlives its driver."""
    return environment(shape, store="filesystem", directory=CHECKPOINTS, **checkpoint)


def live(lab: Lab, deeds: list[tuple[str, int]]) -> None:
    """Let a driver live through all this."""
    for deed, argument in deeds:
        if lab.ended:
            return
        if deed == "kill":
            with suppress(LabError):  # that worker does not run at present
                lab.faults.kill(argument)
        elif deed == "checkpoint":
            lab.trigger_checkpoint()
        elif deed == "savepoint":
            lab.savepoint()
        elif deed == "stored":
            until_confirmed(lab, argument)
        else:
            for _ in range(argument):
                if lab.enabled():
                    lab.step()


def until_confirmed(lab: Lab, more: int) -> None:
    """Step until `more` further checkpoints are confirmed, or the job has ended."""
    while lab.look.master.status is JobStatus.CREATED:
        lab.step()
    wanted = max(lab.look.master.checkpoints.store.latest_id, 0) + more
    while not lab.ended and lab.look.master.checkpoints.store.latest_id < wanted:
        lab.step()


def orphans(lab: Lab) -> set[str]:
    """Return the unreferenced files in the checkpoint directory, and the output staged for no checkpoint."""
    stored = {path for path in lab.look.files.paths(CHECKPOINTS) if "/store/" in path}
    directories = {path.rpartition("/")[0] for path in lab.look.files.paths(CHECKPOINTS) if path.endswith("/_metadata")}
    unreferenced = {path for path in state_files(lab) - stored - referenced_files(lab) if "savepoint-" not in path}
    empty = {each for each in lab.look.files.directories if re.search(r"/chk-\d+$", each) and each not in directories}
    ids = {int(each.rpartition("/chk-")[2]) for each in directories if "/chk-" in each}
    names = {path: StagedName.parse(path) for path in lab._world.edge.output.staged}
    staged = {path for path, name in names.items() if name is None or name.staged_by not in ids}
    return unreferenced | empty | staged


@given(SHAPES, LIVES, st.integers(0, 2**32), st.integers(1, 3))
@settings(max_examples=examples(60))
def test_drivers_in_turn(shape: Shape, lives: list[list[tuple[str, int]]], seed: int, most: int) -> None:
    env = durable(shape, max_retained=most)
    lab = Lab(env, seed=seed)
    for number, deeds in enumerate(lives, 1):
        live(lab, deeds)
        confirmed, status = lab.look.master.checkpoints.store.latest_id, lab.look.master.status
        lab = Lab(env, seed=seed + number, after=lab, recover=True)
        lab.run_until(lambda lab: lab.look.master.status is not JobStatus.CREATED)
        if status is JobStatus.FINISHED:
            assert lab.look.master.status in (JobStatus.RUNNING, JobStatus.FINISHED)
        if not lab.ended:
            assert lab.look.master.checkpoints.store.latest_id >= confirmed
    if not lab.ended:
        lab.run()
    settle(lab)
    assert lab.look.master.status is JobStatus.FINISHED, lab.look.master.error
    assert wrong(lab, shape) == {}
    assert orphans(lab) == set()
    assert not [
        path
        for path in lab.look.files.paths(CHECKPOINTS)
        if "/store/" in path and "/checkpoints/" in path.partition("/store/")[2]
    ]


@given(SHAPES, LIVES, st.integers(0, 2**32), st.sampled_from([1, 3]))
@settings(max_examples=examples(40))
def test_what_is_retained_when_the_job_is_cancelled_is_whole(
    shape: Shape, lives: list[list[tuple[str, int]]], seed: int, most: int
) -> None:
    env = durable(shape, max_retained=most)
    lab = Lab(env, seed=seed)
    for number, deeds in enumerate(lives, 1):
        live(lab, deeds)
        lab = Lab(env, seed=seed + number, after=lab, recover=True)
    until_confirmed(lab, 1)
    lab.cancel() if not lab.ended else None
    settle(lab)
    kept = [path for path in lab.look.files.paths(CHECKPOINTS) if path.endswith("/_metadata")]
    assert kept or lab.look.master.status is JobStatus.FINISHED
    assert referenced_files(lab) <= set(lab.look.files.contents)
    assert orphans(lab) == set()


@pytest.mark.parametrize("ended", [JobStatus.FINISHED, JobStatus.CANCELED])
def test_a_job_that_has_ended_is_not_begun_again(ended: JobStatus) -> None:
    env = durable(Shape())
    lab = Lab(env)
    until_confirmed(lab, 1)
    lab.run() if ended is JobStatus.FINISHED else lab.cancel()
    settle(lab)
    rows = len(lab.output("rows"))
    again = Lab(env, after=lab, recover=True)
    settle(again)
    assert again.look.master.status is ended
    assert (again.look.master.epoch, len(again.output("rows"))) == (0, rows)


def test_a_driver_that_dies_while_it_cleans_up_leaves_that_to_the_next() -> None:
    shape = Shape(rows=120)
    env = durable(shape, max_retained=3, retention=RetentionPolicy.NEVER_RETAIN_AFTER_TERMINATION)
    lab = Lab(env)
    until_confirmed(lab, 3)
    lab.run_until(ended=True)
    assert [path for path in lab.look.files.paths(CHECKPOINTS) if path.endswith("/_metadata")] != []
    again = Lab(env, after=lab, recover=True)
    settle(again)
    assert again.look.master.status is JobStatus.FINISHED
    assert [path for path in again.look.files.paths(CHECKPOINTS) if "/store/" not in path] == []
    assert wrong(again, shape) == {}


def test_a_run_with_checkpoints_is_not_begun_anew_by_mistake() -> None:
    env = durable(Shape())
    lab = Lab(env)
    until_confirmed(lab, 1)
    again = Lab(env, after=lab)
    settle(again)
    assert again.look.master.status is JobStatus.FAILED
    assert "of a run of this job that has not ended: start with recover=True" in again.look.master.error
    settle(other := Lab(env, after=again, recover=True))
    assert wrong(other, Shape()) == {} or not other.ended


def test_ids_go_on_when_the_job_is_run_again() -> None:
    env = durable(Shape(rows=120))
    lab = Lab(env)
    until_confirmed(lab, 2)
    lab.cancel()
    settle(lab)
    last = lab.look.master.checkpoints.store.latest_id
    kept = [path for path in lab.look.files.paths(CHECKPOINTS) if path.endswith("/_metadata")]
    again = Lab(env, after=lab)
    until_confirmed(again, 3)
    assert again.look.master.checkpoints.store.latest_id > last
    assert all(path in again.look.files.contents for path in kept)


def test_recovery_needs_a_store_that_outlives_the_driver() -> None:
    lab = Lab(environment(Shape()), recover=True)
    settle(lab)
    assert lab.look.master.status is JobStatus.FAILED
    assert "recover=True needs a store that outlives the driver" in lab.look.master.error


def damage(lab: Lab, pattern: str, data: bytes | None) -> str:
    """Overwrite or remove the last file whose path ends so."""
    path = [path for path in lab.look.files.paths(CHECKPOINTS) if re.search(pattern, path)][-1]
    if data is None:
        del lab.look.files.contents[path]
    else:
        lab.look.files.contents[path] = data
    return path


@pytest.mark.flink(
    "DefaultCompletedCheckpointStoreTest.testCorruptDataInStateHandleStoreShouldNotBeSkipped",
    "DefaultCompletedCheckpointStoreUtilsTest.testRetrievingCheckpointsFailsIfRetrievalOfAnyCheckpointFails",
)
@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize(("pattern", "data"), [(r"/store/leader-1/checkpoints/\d+$", b"?"), ("/_metadata$", b"?")])
def test_a_checkpoint_that_cannot_be_read_is_not_passed_over(pattern: str, data: bytes | None, older: bool) -> None:
    env = durable(Shape(), max_retained=2)
    lab = Lab(env)
    until_confirmed(lab, 3)
    path = damage(lab, pattern, data)
    if older:
        lab.look.files.contents[path] = b""
    before = {path.replace("/leader-1/", "/leader-2/") for path in lab.look.files.paths(CHECKPOINTS)}
    again = Lab(env, after=lab, recover=True)
    settle(again)
    assert again.look.master.status is JobStatus.FAILED
    assert re.search(r"checkpoint 0*\d", again.look.master.error)
    assert set(again.look.files.paths(CHECKPOINTS)) == before


@pytest.mark.flink("StandaloneCompletedCheckpointStoreTest.testAddCheckpointWithFailedRemove")
def test_what_cannot_be_deleted_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(storage: CheckpointStorage, paths: Iterable[str]) -> None:
        raise StorageError("the disk is read-only")

    monkeypatch.setattr(CheckpointStorage, "discard", refuse)
    shape = Shape(rows=120)
    lab = Lab(durable(shape))
    until_confirmed(lab, 3)
    assert lab.look.master.checkpoints.store.latest_id >= 3
    lab.run()
    assert wrong(lab, shape) == {}
    told = [record for record in lab.trace if record.kind == "StateDiscarded" and record.data["error"]]
    assert "the disk is read-only" in told[0].data["error"]


def test_a_deletion_that_was_cut_short_is_carried_on() -> None:
    env = durable(Shape(rows=120), max_retained=2)
    lab = Lab(env)
    until_confirmed(lab, 3)
    oldest = next(path for path in lab.look.files.paths(CHECKPOINTS) if path.endswith("/_metadata"))
    del lab.look.files.contents[oldest]
    again = Lab(env, after=lab, recover=True)
    again.run_until(lambda lab: lab.look.master.status is JobStatus.RUNNING)
    settle(again)
    assert not again.look.files.paths(oldest.rpartition("/")[0])


def test_the_newest_checkpoint_must_be_there() -> None:
    env = durable(Shape())
    lab = Lab(env)
    until_confirmed(lab, 1)
    damage(lab, "/_metadata$", None)
    again = Lab(env, after=lab, recover=True)
    settle(again)
    assert "is the newest, but" in again.look.master.error


@pytest.mark.parametrize("mode", list(RecoveryClaimMode))
def test_whose_the_snapshot_is_survives_the_driver(mode: RecoveryClaimMode) -> None:
    first = Lab(environment(Shape(), interval_ms=None))
    first.run_until(record="AllTasksRunning")
    until = first.trigger_checkpoint()
    first.run_until(lambda lab: lab.look.answer(until) is not None)
    path = first.look.answer(until)
    assert path is not None
    first.cancel()
    settle(first)
    env = durable(Shape(), interval_ms=40)
    lab = Lab(env, restore_path=path, claim_mode=mode, after=first)
    lab.run_until(lambda lab: lab.look.master.status is JobStatus.RUNNING)
    second = Lab(env, restore_path=path, claim_mode=mode, after=lab, recover=True)
    second.run_until(lambda lab: lab.look.master.status is JobStatus.RUNNING)
    assert second.look.master.checkpoints.store.latest_id == 1
    theirs = mode is not RecoveryClaimMode.CLAIM
    assert second.look.master.checkpoints.store.checkpoints[0].properties.is_savepoint is theirs
    until_confirmed(second, 1)
    settle(second)
    assert bool(second.look.files.paths(path)) is theirs


# --- a job that has ended ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("drivers", [1, 2])
@pytest.mark.parametrize("dies", [False, True])
def test_what_stays_of_a_job_that_was_canceled_stays_when_more_drivers_come(drivers: int, dies: bool) -> None:
    """Also when the first one dies once it has recorded the end, before it has cleaned up."""
    shape = Shape("totals", rows=24, splits=4, batch_rows=3, parallelism=2)
    lab = Lab(durable(shape))
    lab.run_until(checkpoint=1)
    lab.cancel()
    lab.run_until(record="JobResultStored")
    if not dies:
        settle(lab)
    assert lab.status == "CANCELED"
    for _ in range(drivers):
        lab = Lab(durable(shape), after=lab, recover=True)
        settle(lab)
        assert lab.status == "CANCELED"
        assert "the job had ended before this driver came" in lab.error
    assert orphans(lab) == set()
    (metadata,) = (path for path in lab.look.files.paths(CHECKPOINTS) if path.endswith("/_metadata"))
    after = Lab(durable(shape), after=lab, restore_path=metadata)
    after.run()
    assert not wrong(after, shape)
