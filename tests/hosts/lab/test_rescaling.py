"""Rescaling of a running job: on request, and because the number of slots changes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kit import JobEndedError, JobFailedError, Lab
from kit.core.trace.trace import Trace
from kit.hosts.lab import LabError, ready_job
from kit.hosts.lab.world.schedulers import Random
from kit.stream.api.environment import StreamEnvironment
from kit.stream.connectors import CollectionSource, CollectSink
from kit.stream.operators.aggregates import sum_
from kit.stream.settings.job_settings import CheckpointConfig, FixedDelay, RescaleConfig

ROWS = 60
MANY = 400
KEYS = "abcd"


def lab_of(seed: int = 0, steps: int = 80, **settings: Any) -> Lab:
    """A lab of the job of running sums, in the middle of its rows."""
    lab = Lab(ready_job("keyed-sum", **{"rows": ROWS} | settings), seed=seed, scheduler=Random())
    lab.run_until(record="AllTasksRunning")
    for _ in range(steps):
        lab.step()
    return lab


def exactly_once(lab: Lab, rows: int = ROWS) -> bool:
    """Return True if each row was added once: no gap in the counts of a key, and its last sum covers all its rows."""
    lab.run_until(ended=True)
    wanted = Counter(KEYS[n % len(KEYS)] for n in range(rows))
    sums = {key: sum(n for n in range(rows) if KEYS[n % len(KEYS)] == key) for key in wanted}
    found = lab.output().groupby("k")
    counted = {key: sorted(each) for key, each in found["rows"]}
    return counted == {key: list(range(1, n + 1)) for key, n in wanted.items()} and dict(found["total"].max()) == sums


def widths(lab: Lab) -> dict[str, int]:
    """The parallelism of each vertex of the newest epoch."""
    return {vertex.name: vertex.parallelism for vertex in lab.trace.stages[-1].vertices}


def kinds(lab: Lab, kind: str) -> list[Any]:
    return [record.data for record in lab.trace.story(kind=kind)]


# --- on request -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_up_and_down_each_row_counts_once_in_flight_data_too(seed: int) -> None:
    lab = lab_of(seed, steps=60, rows=3 * ROWS, unaligned=True, channel_credits=4)
    for parallelism in (4, 1, 3):
        path = lab.rescale(parallelism, wait=True)
        assert set(widths(lab).values()) == {parallelism}
        assert lab.trace.story(kind="CheckpointRestored")[-1].data["path"] == path
        for _ in range(25):
            lab.step()
    restored = lab.look.restores()
    in_flight = restored[restored["kind"].str.startswith("in flight")]
    assert in_flight["bytes"].sum() > 0, "barriers overtook nothing: this shows nothing"
    assert set(in_flight["epoch"]) & {2, 3, 4}
    lab.look.validate()
    assert exactly_once(lab, 3 * ROWS)


def test_one_vertex_by_its_uid() -> None:
    lab = lab_of()
    uid = lab.job.vertices[-1].operators[0].uid
    assert uid
    lab.rescale({uid: 5}, wait=True)
    assert widths(lab) == {"letters": 2, "sums": 5}
    assert exactly_once(lab)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (9, "can have 1 to 8 subtasks"),
        (0, "can have 1 to 8 subtasks"),
        ({"nobody": 3}, "no vertex is 'nobody'; there are letters, sums"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_happens(wanted: Any, said: str) -> None:
    lab = lab_of()
    with pytest.raises(ValueError, match=said):
        lab.rescale(wanted)
    assert not kinds(lab, "RequestRescale")


def test_fewer_than_the_minimum_are_refused() -> None:
    lab = lab_of(minimum_parallelism=2)
    request = lab.rescale(1)
    with pytest.raises(JobFailedError, match="its minimum_parallelism is 2"):
        lab.look.answer(request)
    assert lab.rescale({"sums": 1}, wait=True), "the other vertex still has two"


def test_a_job_that_runs_so_already_has_its_answer_at_once() -> None:
    lab = lab_of()
    assert lab.look.answer(lab.rescale(2)) == ""
    assert not kinds(lab, "RescalePhaseChanged")


def test_the_newer_of_two_requests_holds() -> None:
    lab = lab_of(cooldown_ms=0, stabilization_ms=0, interval_ms=100)
    first, second = lab.rescale(3, at_once=False), lab.rescale(4, at_once=False)
    lab.run_until(lambda lab: lab.look.answer(second) is not None)
    with pytest.raises(JobFailedError, match="another rescale was requested"):
        lab.look.answer(first)
    assert set(widths(lab).values()) == {4}
    assert lab.trace.stages[-1].epoch == 2


def test_a_request_waits_for_the_cooldown_and_then_for_a_checkpoint() -> None:
    lab = lab_of(cooldown_ms=300, stabilization_ms=0, max_trigger_delay_ms=60_000, interval_ms=50, rows=MANY)
    asked_ms, deployed_ms = lab.look.at_ms, lab.trace.story(kind="StartEpoch")[0].at_ms
    request = lab.rescale(3, at_once=False)
    lab.run_until(lambda lab: lab.look.answer(request) is not None)
    rescaled = lab.trace.story(kind="JobRescaled")[0]
    completed = [each.at_ms for each in lab.trace.story(kind="CheckpointCompleted")]
    assert asked_ms < min(completed) < deployed_ms + 300 <= rescaled.at_ms
    assert rescaled.at_ms in completed
    phases = [data["phase"] for data in kinds(lab, "RescalePhaseChanged")]
    assert phases == ["COOLDOWN", "STABILIZING", "STABILIZED", "TRANSITIONING"]


def test_checkpoints_that_fail_too_often_are_waited_for_no_longer() -> None:
    lab = lab_of(cooldown_ms=0, stabilization_ms=0, interval_ms=1_000, tolerable_failures=10, max_checkpoint_failures=2)
    request = lab.rescale(3, at_once=False)
    for _ in range(2):
        lab.trigger_checkpoint()
        lab.run_until(record="WriteSnapshot")
        lab.faults.fail("WriteSnapshot")
        assert lab.look.answer(request) is None
        lab.run_until(record="CheckpointAborted")
    lab.run_until(lambda lab: lab.look.answer(request) is not None)
    assert lab.look.answer(request) == "", "no checkpoint has ever completed: it begins anew"
    assert kinds(lab, "JobRescaled")[0]["why"] == "2 checkpoints have failed"
    assert exactly_once(lab)


def test_a_checkpoint_that_fails_leaves_the_job_as_it_is() -> None:
    lab = lab_of(tolerable_failures=10)
    request = lab.rescale(3)
    lab.run_until(record="WriteSnapshot")
    lab.faults.fail("WriteSnapshot")
    lab.run_until(record="CompleteRequest")
    with pytest.raises(
        JobFailedError, match="the job was not rescaled: the checkpoint that it should start from failed"
    ):
        lab.look.answer(request)
    assert lab.rescale(3, wait=True), "and may be asked again"
    assert exactly_once(lab)


def test_a_failure_meanwhile_is_as_good_a_moment() -> None:
    lab = lab_of(interval_ms=10_000)
    request = lab.rescale(3)
    lab.faults.kill(1)
    lab.run_until(lambda lab: lab.look.answer(request) is not None)
    assert set(widths(lab).values()) == {3}
    assert not kinds(lab, "JobRescaled"), "the restart did it"
    assert exactly_once(lab)


def test_the_end_of_the_job_is_an_answer_too() -> None:
    lab = lab_of(cooldown_ms=100_000)
    request = lab.rescale(3, at_once=False)
    lab.run_until(ended=True)
    with pytest.raises(JobFailedError, match="the job was not rescaled: it is FINISHED"):
        lab.look.answer(request)
    with pytest.raises(JobEndedError, match="has ended, it is FINISHED"):
        lab.rescale(3, wait=True)


def test_a_job_that_is_being_stopped_is_not_rescaled() -> None:
    lab = lab_of()
    lab.stop()
    with pytest.raises(JobFailedError, match="the job cannot be rescaled: it is being stopped"):
        lab.rescale(3, wait=True)


def test_a_rescale_can_be_undone_done_again_and_followed(tmp_path: Any) -> None:
    lab = lab_of()
    before = lab.position
    lab.rescale(3, wait=True)
    after = lab.position
    lab.back(after - before)
    assert set(widths(lab).values()) == {2}
    lab.goto(after)
    assert set(widths(lab).values()) == {3}
    assert exactly_once(lab)
    lab.trace.save_recording(tmp_path / "rescaled.jsonl")
    again = Lab.follow(ready_job("keyed-sum", rows=ROWS), Trace.load(tmp_path / "rescaled.jsonl"))
    assert again.output().equals(lab.output())
    assert widths(again) == widths(lab)


# --- a driver that dies ---------------------------------------------------------------------------------------------


def durable(**options: Any) -> Lab:
    return Lab(ready_job("keyed-sum", rows=MANY, interval_ms=50, store="filesystem", directory="/there"), **options)


def test_what_is_wanted_survives_the_driver() -> None:
    lab = durable()
    lab.run_until(checkpoint=1)
    lab.rescale(4, wait=True)
    assert [each["parallelism"] for each in kinds(lab, "StoreParallelism")] == [{"letters": 4, "sums": 4}]
    lab.faults.kill_driver()
    after = durable(after=lab, recover=True)
    assert exactly_once(after, MANY)
    assert set(widths(after).values()) == {4}
    assert len(after.trace.stages) == 1, "from its first epoch on"


def test_two_wishes_that_are_noted_at_the_same_time_both_survive_the_driver() -> None:
    lab = durable()
    lab.run_until(checkpoint=1)
    first, second = lab.rescale({"letters": 3}), lab.rescale({"sums": 4})
    lab.run_until(lambda lab: len(kinds(lab, "ParallelismStored")) == 2)
    noted = [each["parallelism"] for each in kinds(lab, "StoreParallelism")]
    assert noted == [{"letters": 3, "sums": 2}, {"letters": 3, "sums": 4}]
    with pytest.raises(JobFailedError, match="another rescale was requested"):
        lab.look.answer(first)
    assert lab.look.answer(second) is None, "it is still under way"
    lab.faults.kill_driver()
    after = durable(after=lab, recover=True)
    assert exactly_once(after, MANY)
    assert widths(after) == {"letters": 3, "sums": 4}


def test_a_wish_that_cannot_be_noted_is_refused() -> None:
    lab = durable()
    lab.run_until(checkpoint=1)
    request = lab.rescale(4)
    lab.faults.fail("StoreParallelism")
    with pytest.raises(JobFailedError, match="was not rescaled: the parallelism cannot be recorded: the store cannot"):
        lab.look.answer(request)
    lab.faults.kill_driver()
    after = durable(after=lab, recover=True)
    assert exactly_once(after, MANY)
    assert set(widths(after).values()) == {2}


def test_a_wish_that_is_refused_after_it_was_noted_is_taken_back() -> None:
    lab = durable()
    lab.run_until(checkpoint=1)
    request = lab.rescale(4)
    lab.stop(wait=False)
    lab.run_until(lambda lab: len(kinds(lab, "StoreParallelism")) == 2)
    with pytest.raises(JobFailedError, match="was not rescaled: it is being stopped"):
        lab.look.answer(request)
    noted = [each["parallelism"]["sums"] for each in kinds(lab, "StoreParallelism")]
    assert noted == [4, 2]


# --- slots that come and go -------------------------------------------------------------------------------------------

REACTIVE = {
    "reactive": True,
    "cooldown_ms": 200,
    "stabilization_ms": 1_000,
    "interval_ms": 50,
    "rows": MANY,
    "max_trigger_delay_ms": 60_000,
}


def test_a_job_goes_on_with_the_slots_that_are_left_and_with_more_when_they_come() -> None:
    lab = lab_of(parallelism=3, **REACTIVE)
    lab.faults.lose_slot(2)
    lab.run_until(record="AllTasksRunning")
    assert set(widths(lab).values()) == {2}
    deployed_ms = lab.trace.story(kind="StartEpoch")[-1].at_ms
    lab.faults.offer_slots(3)
    lab.run_until(lambda lab: set(widths(lab).values()) == {3})
    rescaled = lab.trace.story(kind="JobRescaled")[-1]
    assert rescaled.at_ms >= deployed_ms + 200, "after the cooldown"
    assert rescaled.at_ms in {each.at_ms for each in lab.trace.story(kind="CheckpointCompleted")}
    assert rescaled.data["slots"] == 3
    assert exactly_once(lab, MANY)


def test_some_of_the_slots_that_are_wanted_wait_for_the_others() -> None:
    lab = lab_of(parallelism=4, **REACTIVE | {"cooldown_ms": 0, "stabilization_ms": 400})
    lab.faults.lose_slot(3)
    lab.faults.lose_slot(2)
    lab.run_until(record="AllTasksRunning")
    assert set(widths(lab).values()) == {2}
    lab.faults.offer_slots(3)
    offered_ms = lab.look.at_ms
    lab.run_until(lambda lab: set(widths(lab).values()) == {3})
    assert lab.trace.story(kind="JobRescaled")[-1].at_ms >= offered_ms + 400
    assert exactly_once(lab, MANY)


def test_too_few_slots_are_waited_for() -> None:
    lab = lab_of(minimum_parallelism=2, slot_wait_ms=None, **REACTIVE)
    lab.faults.lose_slot(1)
    lab.run_until(record="WaitingForSlots")
    assert kinds(lab, "WaitingForSlots") == [{"slots": 1, "least": 2}]
    with pytest.raises(LabError, match="came to rest in RESTARTING"):
        lab.run_until(ended=True)
    lab.faults.offer_slots(2)
    assert exactly_once(lab, MANY)


def test_they_are_not_waited_for_forever() -> None:
    lab = lab_of(minimum_parallelism=2, slot_wait_ms=5_000, **REACTIVE)
    lab.faults.lose_slot(1)
    with pytest.raises(JobFailedError, match="1 slot is there, the job needs 2 at least"):
        lab.run_until(ended=True)


def test_a_job_that_is_not_reactive_waits_for_all_that_it_wants() -> None:
    lab = lab_of(restart=3)
    lab.faults.lose_slot(1)
    lab.run_until(record="WaitingForSlots")
    assert kinds(lab, "WaitingForSlots") == [{"slots": 1, "least": 2}]
    lab.faults.offer_slots(2)
    assert exactly_once(lab)
    assert widths(lab) == {"letters": 2, "sums": 2}
    assert len(lab.trace.stages) == 2, "nothing was tried in vain"


def test_slots_that_do_not_come_are_a_failure_of_which_the_restart_strategy_decides() -> None:
    lab = lab_of(slot_wait_ms=1_000, restart=2)
    lab.faults.lose_slot(1)
    with pytest.raises(
        JobFailedError, match="1 slot is there, the job needs 2 at least, and no others came within 1000"
    ):
        lab.run_until(ended=True)
    assert len(kinds(lab, "WaitingForSlots")) == 2, "the loss was the first of two failures that may be"
    assert len(lab.trace.stages) == 1


def test_a_reactive_job_may_wait_a_while_for_all_that_it_wants() -> None:
    lab = lab_of(parallelism=3, submission_stabilization_ms=700, **REACTIVE)
    lab.faults.lose_slot(2)
    lost_ms = lab.look.at_ms
    lab.run_until(record="AllTasksRunning")
    assert set(widths(lab).values()) == {2}
    assert lab.trace.story(kind="StartEpoch")[-1].at_ms >= lost_ms + 700
    lab.faults.lose_slot(1)
    lab.run_until(record="WaitingForSlots")
    lab.faults.offer_slots(3)
    lab.run_until(record="AllTasksRunning")
    assert set(widths(lab).values()) == {3}, "all that are wanted are there: nothing more is waited for"
    assert exactly_once(lab, MANY)


def test_with_vertices_of_different_width_the_widest_counts_the_slots() -> None:
    env = StreamEnvironment(
        "widths",
        parallelism=3,
        rescaling=RescaleConfig(reactive=True),
        restart=FixedDelay(5, 10),
        checkpoint=CheckpointConfig(interval_ms=50),
    )
    rows = CollectionSource([{"k": KEYS[n % len(KEYS)], "n": n} for n in range(MANY)], batch_rows=1)
    totals = env.from_source(rows, uid="rows").set_parallelism(1).key_by("k").aggregate(total=sum_("n")).uid("totals")
    totals.rebalance().sink_to(CollectSink("out"), uid="out", name="out").set_parallelism(2)
    lab = Lab(env, seed=1)
    lab.run_until(record="AllTasksRunning")
    assert widths(lab) == {"rows": 1, "totals": 3, "out": 2}
    lab.faults.lose_slot(1)
    lab.run_until(record="AllTasksRunning")
    assert widths(lab) == {"rows": 1, "totals": 2, "out": 2}
    lab.faults.lose_slot(0)
    lab.run_until(record="AllTasksRunning")
    assert widths(lab) == {"rows": 1, "totals": 1, "out": 1}


# --- before the first deployment --------------------------------------------------------------------------------------


def of_many_splits(parallelism: int, *, splits: int, **settings: Any) -> StreamEnvironment:
    """A source with one row in each split, so that a split that no reader gets is a row that is lost."""
    rescaling = RescaleConfig(reactive=settings.pop("reactive", False))
    env = StreamEnvironment(
        "splits",
        parallelism=parallelism,
        checkpoint=CheckpointConfig(interval_ms=None, **settings),
        restart=FixedDelay(3, 10),
        rescaling=rescaling,
    )
    rows = CollectionSource([{"n": n} for n in range(splits)], batch_rows=1, splits=splits)
    env.from_source(rows, uid="rows").sink_to(CollectSink("out"), uid="out", name="out")
    return env


def rows_of(lab: Lab) -> list[int]:
    lab.run_until(ended=True)
    return sorted(lab.output("out")["n"])


@pytest.mark.parametrize("splits", [2, 3, 5, 8])
@pytest.mark.parametrize(("before", "after"), [(2, 1), (3, 1), (3, 2), (4, 3), (1, 2), (2, 4)])
@pytest.mark.parametrize("seed", range(3))
def test_a_rescale_that_is_asked_for_before_the_start_loses_no_split(
    before: int, after: int, splits: int, seed: int
) -> None:
    lab = Lab(of_many_splits(before, splits=splits), seed=seed, scheduler=Random())
    number = lab.rescale({"rows": after})
    assert rows_of(lab) == list(range(splits))
    assert lab.look.answer(number) == ""
    assert [stage.vertices[0].parallelism for stage in lab.trace.stages] == [after]


@pytest.mark.parametrize(("before", "after"), [(3, 1), (4, 3), (1, 3)])
def test_another_driver_that_begins_at_the_wanted_parallelism_reads_every_split(before: int, after: int) -> None:
    env = of_many_splits(before, splits=9, store="filesystem", directory="/there")
    lab = Lab(env, seed=1)
    lab.run_until(record="AllTasksRunning")
    lab.trigger_checkpoint(wait=True)
    lab.rescale({"rows": after})
    lab.run_until(record="ParallelismStored")
    lab.faults.kill_driver()
    recovered = Lab(env, after=lab, recover=True, seed=2)
    assert rows_of(recovered) == list(range(9))
    assert [stage.vertices[0].parallelism for stage in recovered.trace.stages] == [after]


@pytest.mark.parametrize("slots", [1, 2])
def test_a_reactive_job_that_begins_with_fewer_slots_reads_every_split(slots: int) -> None:
    lab = Lab(of_many_splits(3, splits=8, reactive=True), seed=1)
    lab.faults.offer_slots(slots)
    assert rows_of(lab) == list(range(8))
    assert [stage.vertices[0].parallelism for stage in lab.trace.stages] == [slots]
