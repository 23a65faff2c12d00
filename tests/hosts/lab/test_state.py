"""The state of a lab's tasks as tables, compared with the job's known input and output."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from kit.hosts.lab import Lab
from kit.hosts.lab.errors import LabError
from kit.hosts.lab.jobs.ready_jobs import WINDOW_MS, ready_job
from kit.machines.task.stream_task import StreamTask
from kit.snapshots.state_tables import IN_FLIGHT, KEYED, KINDS, SOURCE, STAGED, TIMERS, UNION, WINDOWS
from kit.stream.backend.keys.key_hashing import assign_to_key_group
from tests.draw.labs import lab_of


def _lab(name: str, seed: int = 1, **settings: object) -> Lab:
    return Lab(ready_job(name, **settings), seed=seed)


def _rows(lab: Lab, kind: str, task: str | None = None) -> list[dict[str, Any]]:
    return [row for table in lab.state(task).of(kind) for row in table.rows.to_pylist()]


def test_what_was_read_is_in_state_or_under_way() -> None:
    lab = _lab("keyed-sum", rows=80)
    for at in range(60, 140, 7):
        lab.run_until(lambda lab, at=at: lab.position >= at)
        read = sum(row["position"] for row in _rows(lab, SOURCE))
        counted = sum(row["value"]["rows"] for row in _rows(lab, KEYED))
        under_way = [row["record"] for row in _rows(lab, IN_FLIGHT, "sums") if row["kind"] == "Buffer"]
        assert read == counted + len(under_way), f"at step {at}"
    assert counted > 0
    assert under_way
    for row in _rows(lab, KEYED):
        assert row["key_group"] == assign_to_key_group(row["key"], 8, pa.string())


def test_columns_keep_their_arrow_types() -> None:
    lab = lab_of()
    lab.run_until(checkpoint=2)
    types = lab.state()["totals"].dtypes
    assert types["key"] == pd.ArrowDtype(pa.string())
    assert types["value"] == pd.ArrowDtype(pa.struct([("total", pa.int64())]))


def test_an_earlier_position_shows_what_was_held_then() -> None:
    lab = lab_of()
    lab.run_until(checkpoint=1)
    position, then = lab.position, lab.state().to_pandas()
    lab.run_until(checkpoint=2)
    now = lab.state("totals")["totals"]
    pd.testing.assert_frame_equal(lab.state(position=position).to_pandas(), then)
    pd.testing.assert_frame_equal(lab.state("totals")["totals"], now)
    assert lab.position > position


def test_the_long_table_says_what_each_row_is() -> None:
    lab = lab_of()
    lab.run_until(lambda lab: lab.state().of(IN_FLIGHT))
    rows = lab.state().to_pandas()
    assert set(rows["kind"]) <= set(KINDS)
    assert {"Buffer"} <= {value["kind"] for value in rows[rows["kind"] == IN_FLIGHT]["value"]}


def test_windows_have_bounds_and_timers() -> None:
    lab = _lab("windows")
    lab.run_until(lambda lab: len(_rows(lab, WINDOWS)) > 2)
    tables = lab.state("windows")
    windows = tables["windows.windows"]
    (timers,) = tables.of(TIMERS)
    assert set(windows["end_ms"] - windows["start_ms"]) == {WINDOW_MS}
    assert {row["time_ms"] for row in timers.rows.to_pylist()} == set(windows["end_ms"] - 1)
    (keyed,) = tables.of(KEYED)
    assert sorted(keyed.rows["value"].to_pylist(), key=str) == sorted(windows["value"], key=str)


def test_sessions_have_the_bounds_they_have_grown_to() -> None:
    from kit.stream.api.environment import StreamEnvironment
    from kit.stream.connectors.memory_sources import CollectionSource
    from kit.stream.connectors.sink import CollectSink
    from kit.stream.operators.aggregates import count
    from kit.stream.operators.windows.window_assigners import EventTimeSessionWindows

    env = StreamEnvironment("sessions", parallelism=1)
    times = [100, 104, 98, 200]
    source = CollectionSource([{"k": "a", "n": time} for time in times], batch_rows=1)
    stream = env.from_source(source).assign_timestamps("n", 1_000)
    stream.key_by("k").window(EventTimeSessionWindows(10)).aggregate(rows=count()).sink_to(CollectSink("out"))
    lab = Lab(env)
    lab.run_until(lambda lab: len(_rows(lab, WINDOWS)) == 2)
    assert sorted((row["start_ms"], row["end_ms"]) for row in _rows(lab, WINDOWS)) == [(98, 114), (200, 210)]


def test_what_a_sink_has_not_published_is_told_with_its_checkpoint() -> None:
    lab = lab_of()
    lab.run_until(lambda lab: any(row["state"] == "staged" for row in _rows(lab, STAGED)))
    staged = [row for row in _rows(lab, STAGED) if row["state"] == "staged"]
    assert {row["staged_by"] for row in staged} == {1}
    assert sum(row["rows"] for row in staged) > 0
    lab.run_until(record="CommitEffects")
    assert any(row["state"] == "being published" for row in _rows(lab, STAGED))


def test_union_state_is_with_every_subtask_after_a_restore() -> None:
    lab = _lab("union-state", interval_ms=20, restart=3, rows=12)
    lab.run_until(checkpoint=1)
    entries = [row["value"] for row in _rows(lab, UNION)]
    lab.faults.kill(0)
    lab.run_until(lambda lab: lab.look.master.epoch == 2 and all(map(_runs, lab._world.tasks.values())))
    for task in ("memory/0", "memory/1"):
        assert sorted(row["value"] for row in _rows(lab, UNION, task))[: len(entries)] == sorted(entries)


def _runs(task: StreamTask) -> bool:
    return task.state.name == "RUNNING"


def test_a_channel_record_by_record_and_where_each_waits() -> None:
    lab = lab_of(rows=60)
    world = lab._world
    lab.run_until(lambda lab: len(world.queued(0)) > 1 and len(lab.queue(0)) > len(world.queued(0)))
    queue = lab.queue(0)
    on_wire = queue[queue.place == "on the wire"]
    assert len(on_wire) == len(world.queued(0))
    numbers = [row["n"] for row in queue.record.dropna()]
    assert numbers == sorted(numbers), "the oldest is first"
    assert set(queue.source) == {"letters/0"}
    assert lab.queue("letters/0->totals/0").equals(queue), "a channel has a name as well"
    with pytest.raises(LabError, match=r"did you mean .*letters/0 -> totals/0"):
        lab.queue("letters -> totals/0")


def test_what_there_is_not_is_named() -> None:
    lab = lab_of()
    lab.run_until(checkpoint=1)
    with pytest.raises(LabError, match="totals"):
        lab.state("total")
    with pytest.raises(LabError, match="there are 4"):
        lab.queue(99)
    with pytest.raises(KeyError, match="totals"):
        lab.state()["sums"]
    assert "8 rows" in lab.state()._repr_html_()
    assert repr(lab.state("totals")).startswith("StateTables(State of totals")
