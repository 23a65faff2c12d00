"""The failover of regions in the lab: what fails restarts, what goes on goes on, and each row counts once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kit
from kit import CheckpointConfig, CollectionSource, CollectSink, FixedDelay, Lab, StreamEnvironment, count
from kit.core.trace.trace import Trace
from kit.hosts.lab.errors import LabError
from kit.hosts.lab.faults.faults import WorkerFault
from kit.stream.graph.slot_sharing import in_gangs
from widgets.runs.details import offers
from widgets.runs.next_actions import faults_on

ROWS = 6


def table() -> pa.Table:
    return pa.table({"k": [f"k{n % 2}" for n in range(ROWS)], "n": list(range(ROWS))})


def two_pipelines(*, unaligned: bool = False, failover: str = "region", **checkpoint: Any) -> StreamEnvironment:
    """Return a job of two pipelines: `steady` in one subtask, and `shaky` in two."""
    env = StreamEnvironment(
        "two pipelines",
        chaining=False,
        failover=failover,
        restart=FixedDelay(1_000, 10),
        checkpoint=CheckpointConfig(**{"interval_ms": 30, "unaligned": unaligned, **checkpoint}),
    )
    for name, parallelism in (("steady", 1), ("shaky", 2)):
        rows = env.from_source(CollectionSource(table(), splits=3, batch_rows=1), uid=name).set_parallelism(parallelism)
        counts = rows.key_by("k").aggregate(rows=count()).uid(f"{name}-counts").set_parallelism(parallelism)
        counts.sink_to(CollectSink(name), uid=f"{name}-out").set_parallelism(parallelism)
    return env


def copies(*, unaligned: bool = False) -> StreamEnvironment:
    """Return a job whose two subtasks are regions of their own, which share the coordinator of their source."""
    env = StreamEnvironment(
        "copies",
        parallelism=2,
        chaining=False,
        failover="region",
        restart=FixedDelay(1_000, 10),
        checkpoint=CheckpointConfig(interval_ms=30, unaligned=unaligned),
    )
    env.from_source(CollectionSource(table(), splits=6, batch_rows=1), uid="rows").sink_to(CollectSink("rows"), uid="o")
    return env


def rows_of(lab: Lab, sink: str) -> Counter[tuple[Any, ...]]:
    return Counter(map(tuple, lab.output(sink).to_numpy().tolist()))


def at_each_step(
    env: StreamEnvironment, fault: Callable[[Lab], object], sinks: tuple[str, ...], every: int = 1
) -> list[Lab]:
    """Run the job once for each step at which the fault can happen, check its rows, and return the ended labs.

    With `every` above 1, only steps that far apart are tried.
    """
    lab = Lab(env)
    whole = lab.fork()
    whole.run()
    expected, ended = {sink: rows_of(whole, sink) for sink in sinks}, []
    for _ in range(whole.position - 1):
        lab.step()
        if lab.position % every:
            continue
        tried = lab.fork()
        try:
            fault(tried)
        except LabError:  # there is no such worker, or no such task
            continue
        tried.run()
        assert tried.status == "FINISHED", f"step {lab.position}: {tried.error}"
        assert {sink: rows_of(tried, sink) for sink in sinks} == expected, f"step {lab.position}"
        ended.append(tried)
    return ended


def attempts_in(trace: Trace, prefix: str) -> set[str]:
    """Return the attempts of the tasks whose names begin so, according to the ids of all their records."""
    ids = (record.id.partition("#")[0] for record in trace if record.machine.startswith(prefix))
    return {identity.rpartition("@")[2] for identity in ids}


# --- each row once ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("unaligned", [False, True])
def test_a_worker_killed_at_any_step_restarts_one_pipeline_and_each_row_counts_once(
    unaligned: bool, every: int
) -> None:
    job = two_pipelines(unaligned=unaligned)
    ended = at_each_step(job, lambda lab: lab.faults.kill(1), ("steady", "shaky"), every)
    assert len(ended) > 100 / every
    for lab in ended:
        assert lab.look.master.epoch == 1
        assert attempts_in(lab.trace, "steady") == {"1"}
    assert sum(attempts_in(lab.trace, "shaky") == {"1", "2"} for lab in ended) > 0.9 * len(ended)


@pytest.mark.parametrize("unaligned", [False, True])
def test_a_reader_that_goes_back_gets_its_splits_again_from_the_coordinator_that_does_not(unaligned: bool) -> None:
    ended = at_each_step(copies(unaligned=unaligned), lambda lab: lab.faults.kill(1), ("rows",))
    regional = [lab for lab in ended if lab.look.master.attempts.restarted]
    assert len(regional) > 50
    assert all(lab.look.master.epoch == 1 for lab in regional)


def test_a_region_that_fails_again_and_again_loses_nothing() -> None:
    lab = Lab(two_pipelines())
    for _ in range(6):
        lab.run_until(record="AllTasksRunning")
        for _ in range(7):
            lab.step()
        if lab.ended:
            break
        lab.faults.kill(1)
    lab.run()
    assert rows_of(lab, "shaky") == rows_of(lab, "steady")
    assert lab.look.master.epoch == 1


def test_a_region_that_fails_while_it_is_deployed_is_deployed_again() -> None:
    lab = Lab(two_pipelines())
    lab.run_until(record="CheckpointCompleted")
    lab.faults.kill(1)
    lab.run_until(record="StartTasks")
    lab.step()
    lab.faults.kill(1)
    lab.run()
    assert max(lab.look.master.attempts.restarted.values()) == 3
    assert rows_of(lab, "shaky") == rows_of(lab, "steady")


def test_both_regions_fail_at_once() -> None:
    lab = Lab(two_pipelines())
    lab.run_until(record="AllTasksRunning")
    lab.faults.fail("read of steady/0")
    lab.run_until(record="RegionsFailed")
    lab.faults.kill(1)
    lab.run()
    assert attempts_in(lab.trace, "steady") == attempts_in(lab.trace, "shaky") == {"1", "2"}
    assert lab.look.master.epoch == 1
    assert rows_of(lab, "shaky") == rows_of(lab, "steady")


def test_a_worker_of_both_pipelines_restarts_the_job() -> None:
    lab = Lab(two_pipelines())
    lab.run_until(record="CheckpointCompleted")
    lab.faults.kill(0)
    lab.run()
    assert lab.look.master.epoch == 2
    assert rows_of(lab, "shaky") == rows_of(lab, "steady")


def test_with_full_failover_every_task_restarts() -> None:
    lab = Lab(two_pipelines(failover="full"))
    lab.run_until(record="CheckpointCompleted")
    lab.faults.kill(1)
    lab.run()
    assert lab.look.master.epoch == 2
    assert attempts_in(lab.trace, "steady") == {"1", "2"}


# --- what goes on -----------------------------------------------------------------------------------------------------


def restarting() -> Lab:
    """Return a lab in which one pipeline has failed and not restarted yet."""
    lab = Lab(two_pipelines())
    lab.run_until(record="CheckpointCompleted")
    lab.faults.kill(1)
    lab.run_until(record="TasksStopped")
    return lab


def test_running_tasks_keep_their_queues_timers_and_state() -> None:
    lab = Lab(two_pipelines())
    lab.run_until(record="CheckpointCompleted")
    world = lab.fork()._world
    before = {name: task.events_handled for name, task in lab._world.tasks.items()}
    lab.faults.kill(1)
    lab.run_until(record="StartTasks")
    for name in ("steady/0", "steady-counts/0", "steady-out/0"):
        assert lab._world.tasks[name].attempt == 1
        assert lab._world.tasks[name].events_handled >= before[name] > 0
        assert name in world.tasks


def test_the_running_pipeline_takes_turns_while_the_other_restarts() -> None:
    lab = Lab(two_pipelines())
    lab.run_until(record="AllTasksRunning")
    lab.faults.kill(1)
    lab.run_until(record="TasksStopped")
    first = len(lab.trace)
    lab.run_until(record="StartTasks")
    at_work = {record.machine for record in lab.trace.since(first)}
    assert {"steady/0", "steady-counts/0"} <= at_work
    assert not {name for name in at_work if name.startswith("shaky")}


def test_going_back_forking_and_replaying_work_over_a_restart() -> None:
    lab = restarting()
    position, records = lab.position, [str(record) for record in lab.trace]
    lab.run()
    end = [record.id for record in lab.trace]
    lab.goto(position)
    assert [str(record) for record in lab.trace] == records
    fork = lab.fork()
    lab.run()
    fork.run()
    assert [record.id for record in lab.trace] == [record.id for record in fork.trace] == end


def test_a_recording_of_a_restart_is_followed(tmp_path: Path) -> None:
    lab = Lab(two_pipelines(unaligned=True))
    lab.run_until(record="CheckpointCompleted")
    lab.faults.kill(1)
    lab.run()
    again = Lab.follow(two_pipelines(unaligned=True), lab.trace.save_recording(tmp_path / "run.recording"))
    again.run()
    assert [record.to_dict() for record in again.trace] == [record.to_dict() for record in lab.trace]


# --- what is said -----------------------------------------------------------------------------------------------------


def test_the_moment_shows_what_restarts_and_what_goes_on() -> None:
    lab = restarting()
    tasks = lab.moment().tasks
    assert {name: task.state for name, task in tasks.items() if name.startswith("steady")} == dict.fromkeys(
        ("steady/0", "steady-counts/0", "steady-out/0"), "RUNNING"
    )
    assert {task.state for name, task in tasks.items() if name.startswith("shaky")} <= {"CANCELED", "FAILED"}
    assert lab.moment().job == "RESTARTING"
    lab.run_until(record="StartTasks")
    assert {task.attempt for name, task in lab.moment().tasks.items() if name.startswith("shaky")} == {2}
    (restore,) = lab.moment().restores
    assert (restore.epoch, {name.partition("/")[0] for name in restore.tasks}) == (
        1,
        {"shaky", "shaky-counts", "shaky-out"},
    )


def test_why_names_the_failure_the_checkpoint_and_what_keeps_running() -> None:
    lab = restarting()
    said = str(lab.why())
    assert "the delay before the restart of shaky/0, 1, shaky-counts/0, 1, shaky-out/0, 1 ends at" in said
    assert "it was killed in the lab" in said
    assert "belongs to a region that restarts" in str(lab.why("shaky-counts/0"))
    lab.run_until(record="StartTasks")
    said = str(lab.why("restart"))
    assert "shaky/0, 1, shaky-counts/0, 1, shaky-out/0, 1 are deployed again, and all others keep running" in said
    assert "has assigned the state of checkpoint 1 to shaky/0, 1" in said


SLOTS = (
    ("steady/0", "steady-counts/0", "steady-out/0"),
    ("shaky/0", "shaky-counts/0", "shaky-out/0"),
    ("shaky/1", "shaky-counts/1", "shaky-out/1"),
)


@pytest.fixture
def with_slots() -> Lab:
    """A lab in which each region has slots of its own, as on Spark."""
    lab = Lab(in_gangs(two_pipelines().job_graph()))
    lab.run_until(record="CheckpointCompleted")
    assert lab.look.stages[0].slots == SLOTS
    return lab


@pytest.mark.parametrize("slot", [0, 1, 2])
def test_a_worker_has_the_tasks_of_its_slot(with_slots: Lab, slot: int) -> None:
    lab = with_slots
    lab.faults.freeze(slot)
    assert {name for name, task in lab.moment().tasks.items() if task.frozen} == set(SLOTS[slot])
    assert {name for name in lab.moment().tasks if f"freeze worker {slot}" in str(lab.why(name))} <= set(SLOTS[slot])
    for task in SLOTS[slot]:
        assert {fault.worker for fault, _ in faults_on(lab, task) if isinstance(fault, WorkerFault)} == {slot}
    lab.faults.thaw(slot)
    shown = kit.show(lab).explored
    for task in SLOTS[slot]:
        (asked,) = [each["label"] for each in offers(shown, f"task:{task}") if "died now" in each["label"]]
        assert asked == f"What if worker {slot} died now?"
    assert not any(task.frozen for task in lab.moment().tasks.values())
    lab.faults.kill(slot)
    lab.step()
    assert {name for name, task in lab.moment().tasks.items() if task.lost} == set(SLOTS[slot])
    said = str(lab.why(SLOTS[slot][1]))
    assert "is lost: it was killed in the lab" in said
    assert f"Worker {slot} is lost" in said
    lab.run()
    assert lab.status == "FINISHED"


@pytest.mark.parametrize("task", ["shaky/0", "shaky-counts/0", "shaky-out/1"])
def test_why_says_nothing_twice(task: str) -> None:
    said = [line.partition(". ")[2] for line in str(restarting().why(task)).splitlines()[1:]]
    assert len(said) >= 2
    assert len(set(said)) == len(said)
