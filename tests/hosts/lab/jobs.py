"""Small jobs for the lab, what they must commit, and what may be left on the lab's disk."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from kit.core.event_time import MAX_WATERMARK_MS
from kit.core.metadata import read_metadata
from kit.core.protocol.properties import RetentionPolicy
from kit.hosts.lab.errors import LabError, LabWarning
from kit.hosts.lab.lab import Lab
from kit.hosts.lab.world.actions import LetTimePass
from kit.machines.job.status import JobStatus
from kit.stream.api.environment import StreamEnvironment
from kit.stream.backend.states.descriptors import MapStateDescriptor
from kit.stream.connectors import CollectionSource, CollectSink
from kit.stream.operators.aggregates import count, sum_
from kit.stream.operators.functions.process import KeyedProcessFunction, ProcessFunction
from kit.stream.operators.side_output import OutputTag
from kit.stream.operators.windows.window_assigners import EventTimeSessionWindows, TumblingEventTimeWindows
from kit.stream.settings.job_settings import CheckpointConfig, FixedDelay

CHECKPOINTS = "/checkpoints"
WINDOW_MS = 10
WAIT_MS, IDLE_MS = 15, 30
KEYS = "abcde"
ODD = OutputTag("odd", {"n": pa.int64(), "k": pa.string(), "t": pa.int64()})


@dataclass(frozen=True)
class Shape:
    """One small job: its rows, its splits and batches, and its pipeline."""

    way: str = "totals"
    rows: int = 30
    splits: int = 3
    batch_rows: int = 3
    parallelism: int = 2
    chaining: bool = True

    def at(self, parallelism: int) -> Shape:
        """The same job at another parallelism."""
        return Shape(self.way, self.rows, self.splits, self.batch_rows, parallelism, self.chaining)

    @property
    def records(self) -> list[dict[str, Any]]:
        """The rows of the source: number, key, and event time, which increases with the number."""
        return [{"n": n, "k": KEYS[n * 7 % len(KEYS)], "t": 2 * n} for n in range(self.rows)]


def environment(shape: Shape, **checkpoint: Any) -> StreamEnvironment:
    """Return the job; all state is in files, and checkpoints are retained when the job is cancelled."""
    settings: dict[str, Any] = {
        "interval_ms": 40,
        "memory_threshold_bytes": 0,
        "retention": RetentionPolicy.RETAIN_ON_CANCELLATION,
        "tolerable_failures": 1_000,
    } | checkpoint
    env = StreamEnvironment(
        "small",
        parallelism=shape.parallelism,
        max_parallelism=16,
        checkpoint=CheckpointConfig(**settings),
        restart=FixedDelay(1_000, 5),
        chaining=shape.chaining,
    )
    rows = shape.records
    columns = CollectionSource([{"n": 0, "k": "a", "t": 0}]).schema
    source = CollectionSource(rows, columns, splits=shape.splits, batch_rows=shape.batch_rows)
    stream = env.from_source(source, uid="rows")
    MORE_WAYS[shape.way](env, stream)
    return env


def _totals(env: StreamEnvironment, stream: Any) -> None:
    totals = stream.key_by("k").aggregate(rows=count(), total=sum_("n")).uid("totals")
    totals.sink_to(CollectSink("totals"), uid="totals-out")
    stream.sink_to(CollectSink("rows"), uid="rows-out")


def _windows(env: StreamEnvironment, stream: Any) -> None:
    timed = stream.assign_timestamps("t").uid("times")
    windows = timed.key_by("k").window(TumblingEventTimeWindows(WINDOW_MS))
    windows.aggregate(rows=count(), total=sum_("n")).uid("windows").sink_to(CollectSink("windows"), uid="windows-out")
    timed.rebalance().sink_to(CollectSink("rows"), uid="rows-out")


def _union(env: StreamEnvironment, stream: Any) -> None:
    even = stream.filter(lambda row: row["n"] % 2 == 0).uid("even")
    odd = stream.rebalance().filter(lambda row: row["n"] % 2 == 1).uid("odd")
    both = even.union(odd)
    both.key_by("k").aggregate(rows=count(), total=sum_("n")).uid("totals").sink_to(
        CollectSink("totals"), uid="totals-out"
    )
    both.rebalance().map(dict).uid("same").sink_to(CollectSink("rows"), uid="rows-out")


def _sessions(env: StreamEnvironment, stream: Any) -> None:
    timed = stream.assign_timestamps("t").uid("times")
    sessions = timed.key_by("k").window(EventTimeSessionWindows(WINDOW_MS))
    sessions.aggregate(rows=count(), total=sum_("n")).uid("sessions").sink_to(CollectSink("totals"), uid="totals-out")
    timed.rebalance().sink_to(CollectSink("rows"), uid="rows-out")


class _Aside(ProcessFunction):
    """Sends rows with an odd number to a side output."""

    def process_element(self, row: Any, ctx: Any) -> None:
        if row["n"] % 2:
            ctx.output(ODD, row)
        else:
            ctx.emit(row)


def _aside(env: StreamEnvironment, stream: Any) -> None:
    even = stream.rebalance().process(_Aside).uid("aside")
    both = even.union(even.side_output(ODD).rebalance())
    both.key_by("k").aggregate(rows=count(), total=sum_("n")).uid("totals").sink_to(
        CollectSink("totals"), uid="totals-out"
    )
    both.rebalance().map(dict).uid("same").sink_to(CollectSink("rows"), uid="rows-out")


class _Waits(KeyedProcessFunction):
    """Keeps each row until a timer fires: a while of the host's time later, or when event time is a little past it."""

    WAITING = MapStateDescriptor("waiting", pa.int64(), pa.int64())

    def process_element(self, row: Any, ctx: Any) -> None:
        ctx.state(self.WAITING).put(row["n"], row["t"])
        timers = ctx.timer_service
        self._register(timers, row["t"])
        timers.register_event_time_timer(MAX_WATERMARK_MS)

    def _register(self, timers: Any, t: int) -> None:
        timers.register_processing_time_timer(timers.current_processing_time_ms + WAIT_MS)

    def on_timer(self, timestamp_ms: int, ctx: Any) -> None:
        waiting = ctx.state(self.WAITING)
        for n, t in sorted(waiting.items()):
            waiting.remove(n)
            ctx.emit({"n": n, "k": ctx.current_key, "t": t})


class _WaitsInEventTime(_Waits):
    """Waits for event time."""

    def _register(self, timers: Any, t: int) -> None:
        timers.register_event_time_timer(t + 3)


def _waits(env: StreamEnvironment, stream: Any) -> None:
    _counted(stream.key_by("k").process(_Waits).uid("waits"))


def _idle(env: StreamEnvironment, stream: Any) -> None:
    timed = stream.assign_timestamps("t").uid("times").with_idleness(IDLE_MS)
    _counted(timed.key_by("k").process(_WaitsInEventTime).uid("waits"))


def _counted(stream: Any) -> None:
    totals = stream.key_by("k").aggregate(rows=count(), total=sum_("n")).uid("totals")
    totals.sink_to(CollectSink("totals"), uid="totals-out")
    stream.rebalance().map(dict).uid("same").sink_to(CollectSink("rows"), uid="rows-out")


WAYS = {"totals": _totals, "windows": _windows, "union": _union}
MORE_WAYS = WAYS | {"sessions": _sessions, "aside": _aside, "waits": _waits, "idle": _idle}


def wrong(lab: Lab, shape: Shape) -> dict[str, Any]:
    """Return the differences between the committed output and the batch result by sink; {} if there are none."""
    differences: dict[str, Any] = {}
    rows = Counter(lab.output("rows")["n"]) if shape.rows else Counter()
    if rows != Counter(range(shape.rows)):
        differences["rows"] = (rows - Counter(range(shape.rows)), Counter(range(shape.rows)) - rows)
    if shape.way == "windows":
        found, wanted = committed_windows(lab), Counter(expected(shape).items())
        if found != wanted:
            differences["windows"] = (found - wanted, wanted - found)
    elif committed_totals(lab) != expected(shape):
        differences["totals"] = (committed_totals(lab), expected(shape))
    return differences


def expected(shape: Shape) -> dict[tuple[Any, ...], tuple[int, int]]:
    """Return rows and total of each group."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for row in shape.records:
        key = (row["k"], row["t"] // WINDOW_MS * WINDOW_MS) if shape.way == "windows" else (row["k"],)
        groups.setdefault(key, []).append(row["n"])
    return {key: (len(members), sum(members)) for key, members in groups.items()}


def committed_windows(lab: Lab) -> Counter[Any]:
    """Return the windows that were committed."""
    frame = lab.output("windows")
    if frame.empty:
        return Counter()
    starts = frame["window_start"].astype("int64")
    return Counter(
        ((k, start), (rows, total)) for k, start, rows, total in zip(frame["k"], starts, frame["rows"], frame["total"])
    )


def committed_totals(lab: Lab) -> dict[tuple[Any, ...], tuple[int, int]]:
    """Return the last of the committed updates of each key; no update may have been committed twice."""
    frame = lab.output("totals")
    if frame.empty:
        return {}
    assert not frame.duplicated(["k", "rows"]).any()
    last = frame.sort_values("rows").groupby("k").last()
    return {(key,): (int(row["rows"]), int(row["total"])) for key, row in last.iterrows()}


def failure(lab: Lab) -> str:
    """Run it until it has failed, and says so; the reason."""
    with pytest.raises(LabError) as caught:
        lab.run()
    assert lab.look.master.status is JobStatus.FAILED
    assert lab.look.master.error.splitlines()[0][:80] in str(caught.value)
    return lab.look.master.error


def output_of_failed(lab: Lab, sink: str) -> pd.DataFrame:
    """Return the output that was committed before the failure; the lab warns about it."""
    with pytest.warns(LabWarning):
        return lab.output(sink)


def settle(lab: Lab) -> None:
    """Take all actions that remain; timers that are not due stay."""
    while any(not isinstance(action, LetTimePass) for action in lab.enabled()):
        lab.step()


def state_files(lab: Lab) -> set[str]:
    """Return the files in checkpoints and savepoints, except for `_metadata`."""
    below = {*lab.look.files.paths(CHECKPOINTS), *lab.look.files.paths("/savepoints")}
    return {path for path in below if not path.endswith("/_metadata")}


def referenced_files(lab: Lab) -> set[str]:
    """Return the files that the `_metadata` on the disk refer to."""
    found: set[str] = set()
    for path, data in lab.look.files.contents.items():
        if path.endswith("/_metadata"):
            metadata, _ = read_metadata(data, path.rpartition("/")[0])
            for state in metadata.operator_states:
                found |= set(state.files())
    return found
