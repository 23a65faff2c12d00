"""A run on Spark that was saved, with a worker killed in the middle of a checkpoint, is done again in the lab without
Spark, record for record.
"""

from __future__ import annotations

from kit import Lab
from kit.core.trace.trace import keeps_record
from tests.hosts.spark.jobs import generator
from tests.hosts.spark.saved_run import ROWS, WORKER, job, saved


def test_a_saved_run_of_spark_is_the_same_in_the_lab_record_for_record() -> None:
    trace = saved()
    assert trace.schedule is not None
    assert trace.schedule.host == "spark"
    lab = Lab.follow(job(), trace)
    assert lab.past.agreement is not None
    assert lab.past.agreement.records == len(trace) > 500
    assert lab.past.agreement.events == len(trace.schedule) > 500
    known = {record.id: record for record in trace}
    mine = {record.id: record for record in lab.trace if keeps_record(record)}
    assert known.keys() <= mine.keys()
    assert all(each.endswith((f"/{WORKER}@1", f"slot {WORKER}@1")) for each in lab.past.agreement.unheard)


def test_what_was_saved_is_a_kill_in_mid_checkpoint_with_data_in_flight() -> None:
    lab = Lab.follow(job(), saved())
    (lost,) = lab.trace.story(kind="SlotLost")
    assert lost.data["slot"] == WORKER
    checkpoints = lab.checkpoints().sort_values("id")
    broken = checkpoints.query("status == 'FAILED'")
    assert len(broken) == 1
    assert 0 < broken["acked"].iloc[0] < broken["total"].iloc[0]
    before = checkpoints[checkpoints["id"] < broken["id"].iloc[0]]
    assert (before["status"] == "COMPLETED").all()
    assert (before["persisted_data"] > 0).all()
    restores = lab.look.restores()
    assert set(restores["checkpoint_id"]) == {before["id"].max()}
    assert {"in flight, input", "in flight, output"} <= set(restores["kind"])
    assert lab.status == "FINISHED"
    rows = generator(ROWS)
    assert lab.output("copy")["value"].sum() == sum(
        rows.slice(at, 1_000).column("value").to_numpy().sum() for at in range(0, ROWS, 1_000)
    )
    assert len(lab.output("copy")) == ROWS


def test_a_saved_run_goes_another_way_from_before_the_kill() -> None:
    lab = Lab.follow(job(), saved())
    kill = next(at for at, action in enumerate(lab.past.actions) if "SlotLost" in str(action))
    lab.goto(kill)
    lab.run()
    assert not len(lab.trace.story(kind="SlotLost"))
    assert len(lab.output("copy")) == ROWS
