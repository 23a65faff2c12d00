"""The work that a failure would undo, compared with the lab when a failure happens."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kit import CheckpointConfig, CollectionSource, CollectSink, FixedDelay, StreamEnvironment, count
from kit.core.trace.trace import Trace
from kit.draw.views.at_risk import at_risk
from kit.hosts.lab import Lab
from kit.hosts.lab.jobs.ready_jobs import ready_job
from kit.snapshots.state_tables import KEYED, SOURCE


def _lab(**settings: Any) -> Lab:
    return Lab(ready_job("keyed-sum", **{"interval_ms": 40, "rows": 100, "restart": 3, **settings}), seed=1)


def _rows(lab: Lab, kind: str) -> list[dict[str, Any]]:
    return [row for table in lab.state().of(kind) for row in table.rows.to_pylist()]


def test_what_is_told_is_undone_when_a_worker_dies() -> None:
    lab = _lab()
    lab.run_until(checkpoint=1)
    lab.run_until(at_ms=lab.look.at_ms + 40)
    told = at_risk(lab)
    before = {row["key"]: row["value"]["rows"] for row in _rows(lab, KEYED)}
    positions = {row["task"]: row["position"] for row in _rows(lab, SOURCE)}
    killed = lab.position
    lab.faults.kill(0)
    lab.run_until(
        lambda lab: lab.look.master.epoch == 2 and {t.state.name for t in lab._world.tasks.values()} == {"RUNNING"}
    )
    first = next(n for n in range(killed, lab.position + 1) if _is_restored(lab, n))
    after = lab.state(position=first)
    back = {row["key"]: row["value"]["rows"] for table in after.of(KEYED) for row in table.rows.to_pylist()}
    frame = told.to_pandas().set_index("task")
    assert told.checkpoint == 1
    assert frame.taken[["sums/0", "sums/1"]].sum() == sum(before.values()) - sum(back.values())
    assert frame.changed.sum() == sum(before[key] != back.get(key) for key in before)
    for row in [row for table in after.of(SOURCE) for row in table.rows.to_pylist()]:
        assert frame.loc[row["task"], "read"] == positions[row["task"]] - row["position"]
        assert frame.loc[row["task"], "again"].endswith(f"from position {row['position']}")


def _is_restored(lab: Lab, n: int) -> bool:
    """Return True if the tasks of the second epoch have restored their state and processed no record since."""
    then = lab.fork().goto(n)
    if then.look.master.epoch != 2:
        return False
    restored = sum(record.kind == "StateRead" and record.machine.startswith("sums") for record in then.trace)
    return restored == 2 and len(_rows(then, SOURCE)) == 2


def test_before_the_first_checkpoint_all_would_be_undone() -> None:
    lab = _lab(interval_ms=100_000)
    lab.run_until(at_ms=60)
    told = at_risk(lab)
    assert told.checkpoint is None
    assert "restart from the beginning: no checkpoint is complete" in told.title
    assert told.to_pandas().read.sum() == sum(row["position"] for row in _rows(lab, SOURCE))


def test_a_job_that_began_from_a_savepoint_would_go_back_to_it() -> None:
    before = _lab()
    before.run_until(checkpoint=2)
    path = before.stop(wait=True)
    savepoint = max(before.moment().checkpoints)
    job = ready_job("keyed-sum", interval_ms=40, rows=100, restart=3)
    lab = Lab(job, seed=1, restore_path=path, after=before)
    lab.run_until(record="AllTasksRunning")
    assert at_risk(lab).checkpoint == savepoint > 2
    lab.run_until(checkpoint=savepoint + 1)
    assert at_risk(lab).checkpoint == savepoint + 1


def test_a_pending_checkpoint_does_not_count() -> None:
    lab = _lab()
    lab.run_until(checkpoint=1)
    lab.run_until(record="CheckpointTriggered")
    told = at_risk(lab)
    assert told.checkpoint == 1
    assert told.pending == (2,)
    assert "Checkpoint 2 is not complete and would not count." in told._repr_html_()


def test_just_after_a_checkpoint_only_what_came_behind_the_barrier_is_at_risk() -> None:
    lab = _lab()
    lab.run_until(checkpoint=1)
    now = at_risk(lab).to_pandas()
    lab.run_until(at_ms=lab.look.at_ms + 30)
    later = at_risk(lab).to_pandas()
    assert now.read.sum() < later.read.sum()


def test_a_trace_says_what_it_does_not_know() -> None:
    lab = _lab()
    lab.run_until(checkpoint=1)
    lab.run_until(at_ms=lab.look.at_ms + 40)
    alone = at_risk(Trace(list(lab.trace), detailed=True, stages=lab.trace.stages))
    assert alone.to_pandas().taken.tolist() == at_risk(lab).to_pandas().taken.tolist()
    assert alone.to_pandas().changed.isna().all()
    assert "Only a live lab can list the state entries" in alone._repr_html_()
    earlier = at_risk(lab, n=len(lab.trace) // 2)
    assert earlier.to_pandas().changed.isna().all()


def test_when_nothing_runs_there_is_nothing_to_lose() -> None:
    assert "nothing to lose" in at_risk(_lab())._repr_html_()


def test_of_several_regions_only_some_restart() -> None:
    lab = Lab(ready_job("two-pipelines", failover="region"))
    lab.run_until(record="AllTasksRunning")
    under = at_risk(lab).under
    assert "The tasks on that worker restart, with those that exchanges connect to them: worker 0 runs" in under
    assert "all tasks restart" not in under


def test_after_a_region_restarted_what_its_tasks_took_is_counted_from_there() -> None:
    """No checkpoint completes, so a task has taken what its state counts."""
    env = StreamEnvironment(
        "pipelines", failover="region", restart=FixedDelay(3, 1), checkpoint=CheckpointConfig(interval_ms=None)
    )
    for name, parallelism in (("steady", 1), ("shaky", 2)):
        rows = [{"k": "abcdef"[(n * n) % 6], "n": n} for n in range(90)]
        stream = env.from_source(CollectionSource(rows, splits=2, batch_rows=5), uid=name)
        counted = stream.set_parallelism(parallelism).key_by("k").aggregate(rows=count()).uid(f"{name}-counts")
        counted.set_parallelism(parallelism).sink_to(CollectSink(name), uid=f"{name}-out").set_parallelism(parallelism)
    lab = Lab(env, seed=3)
    compared = 0
    for worker in (1, 0, 1):
        lab.run_until(record="AllTasksRunning")
        for _ in range(40):
            lab.step()
            told = at_risk(lab).to_pandas().set_index("task")["taken"]
            counted_rows = Counter[str]()
            for row in _rows(lab, KEYED):
                counted_rows[row["task"]] += row["value"]["rows"]
            for task, rows_taken in counted_rows.items():
                assert told[task] == rows_taken
                compared += 1
        lab.faults.kill(worker)
    assert {record.kind for record in lab.trace} >= {"StartTasks", "GrantCredit"}
    assert compared > 100
