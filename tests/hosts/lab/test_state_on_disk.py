"""State on disk in the lab: each ready job does the same as with state in memory, and leaves the same files."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from kit import (
    CheckpointConfig,
    CollectionSource,
    CollectSink,
    EventTimeSessionWindows,
    KeyedBroadcastProcessFunction,
    Lab,
    MapStateDescriptor,
    StreamEnvironment,
    ValueStateDescriptor,
    count,
    sum_,
)
from kit.files.output import sinks
from kit.hosts.lab import ready_job, ready_jobs
from kit.hosts.lab.jobs.random_jobs import NO_MEMORY_MB
from kit.stream.backend.spill.spill_space import MemorySpace, MemoryWriter

WITHOUT_KEYED_STATE = {
    *("broadcast", "chain", "exchange", "failing-snapshot", "slow-sink", "split-state", "two-gates"),
    *("union-at-the-source", "union-state"),
}


@pytest.fixture
def spilled(monkeypatch: pytest.MonkeyPatch) -> list[MemoryWriter]:
    """The files to which rows were moved."""
    found: list[MemoryWriter] = []

    def noted(self: MemorySpace) -> MemoryWriter:
        found.append(MemoryWriter())
        return found[-1]

    monkeypatch.setattr(MemorySpace, "create", noted)
    return found


def lab_of(env: StreamEnvironment, *, on_disk: bool) -> Lab:
    if on_disk:
        env.settings = dataclasses.replace(env.settings, state_backend="disk", state_memory_mb=NO_MEMORY_MB)
    return Lab(env)


def run_side_by_side(make: Callable[[], StreamEnvironment]) -> None:
    """Run a job with either backend, and compare all files after every few steps, then the trace and the output."""
    in_memory, on_disk = (lab_of(make(), on_disk=each) for each in (False, True))
    while not in_memory.ended:
        step = in_memory.position + 40
        for lab in (in_memory, on_disk):
            lab.run_until(lambda lab, step=step: lab.position >= step or lab.ended)
        assert on_disk.look.files.contents == in_memory.look.files.contents
    assert [str(record) for record in on_disk.trace] == [str(record) for record in in_memory.trace]
    for sink in sinks(in_memory.job):
        assert on_disk.output(sink.path).equals(in_memory.output(sink.path))
        assert len(on_disk.output(sink.path))


@pytest.mark.parametrize("incremental", [False, True])
@pytest.mark.parametrize("name", ready_jobs()["name"])
def test_each_job_does_the_same_and_leaves_the_same_files(
    name: str, incremental: bool, spilled: list[MemoryWriter]
) -> None:
    run_side_by_side(lambda: ready_job(name, memory_threshold_bytes=0, incremental=incremental, max_retained=3))
    assert bool(spilled) == (name not in WITHOUT_KEYED_STATE)


ROWS = [{"k": "abcdefgh"[n * 5 % 8], "n": n, "at": 10 * n - n % 7} for n in range(120)]
RULES = [{"add": n} for n in range(6)]
SEEN = ValueStateDescriptor("seen", pa.int64())
RULE = MapStateDescriptor("rules", pa.string(), pa.int64())


class AddToAll(KeyedBroadcastProcessFunction):
    """Counts the rows of each key; each rule adds to the counts of all keys."""

    def process_element(self, row: dict[str, Any], ctx: Any) -> None:
        seen = ctx.state(SEEN)
        seen.update((seen.value() or 0) + 1)
        ctx.emit({"k": row["k"], "seen": seen.value()})

    def process_broadcast_element(self, row: dict[str, Any], ctx: Any) -> None:
        ctx.apply_to_keyed_state(SEEN, lambda key, state: state.update(state.value() + 1_000 * row["add"]))


def joins_and_windows() -> StreamEnvironment:
    """Return a job with the operators that keep more than totals: sessions with lateness, a join, broadcast rules."""
    checkpoint = CheckpointConfig(interval_ms=20, incremental=True, memory_threshold_bytes=0)
    env = StreamEnvironment("all", parallelism=2, max_parallelism=8, checkpoint=checkpoint)
    read = env.from_source(CollectionSource(ROWS, batch_rows=4, rows_per_second=500), uid="rows")
    timed = read.assign_timestamps("at", 30)
    keyed = timed.key_by("k")
    sessions = keyed.window(EventTimeSessionWindows(90)).allowed_lateness(50).aggregate(n=count(), total=sum_("n"))
    sessions.uid("sessions").sink_to(CollectSink("sessions"), uid="sessions-out")
    other = read.rename(n="m", at="other_at").assign_timestamps("other_at", 30).key_by("k")
    keyed.interval_join(other).between(-100, 100).join().uid("join").sink_to(CollectSink("pairs"), uid="pairs-out")
    rules = env.from_source(CollectionSource(RULES, batch_rows=1, rows_per_second=40), uid="rules")
    counted = keyed.connect(rules.broadcast(RULE)).process(AddToAll, {"k": pa.string(), "seen": pa.int64()})
    counted.uid("counted").sink_to(CollectSink("counted"), uid="counted-out")
    keyed.aggregate(n=count(), emit="final").uid("finally").sink_to(CollectSink("finally"), uid="finally-out")
    return env


def test_sessions_joins_and_broadcast_rules_do_the_same(spilled: list[MemoryWriter]) -> None:
    run_side_by_side(joins_and_windows)
    assert len(spilled) > 100
