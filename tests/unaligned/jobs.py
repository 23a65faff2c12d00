"""Jobs that check themselves: every record has its source, and the hop that sent it.

A `LongSource` gives each split its own increasing longs. A `Hop` stamps its records with its name and a number that
grows by one, and compares each received number with the last one of that sender; both numbers are state. A record that
arrived out of order, or twice, carries a note of that to the sink. `keyed` counts the records of each key in
keyed state, so that the sink must see each number of each key exactly once.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd
import pyarrow as pa

from kit.core.protocol.properties import RetentionPolicy
from kit.stream.api.datastream import DataStream, OperatorStream
from kit.stream.api.environment import StreamEnvironment
from kit.stream.backend.states.descriptors import ListStateDescriptor, ValueStateDescriptor
from kit.stream.connectors import CollectSink
from kit.stream.connectors.sink import Sink
from kit.stream.operators.base import Operator
from kit.stream.operators.functions.function_operator import KeyedProcessFunctionContext
from kit.stream.operators.functions.process import KeyedProcessFunction
from kit.stream.operators.sources.source import ReadResult, Source, Split
from kit.stream.operators.spec import ResolvedSpec
from kit.stream.settings.job_settings import CheckpointConfig, FixedDelay

KEYS = 100
"""Key groups of records, as many as Flink's `NUM_GROUPS`."""
SCHEMA = pa.schema(
    [
        ("source", pa.int64()),
        ("split", pa.int64()),
        ("n", pa.int64()),
        ("key", pa.int64()),
        ("count", pa.int64()),
        ("sender", pa.string()),
        ("seq", pa.int64()),
        ("wrong", pa.string()),
    ]
)
SEEN = ListStateDescriptor(
    "seen", pa.struct([("subtask", pa.int64()), ("run", pa.int64()), ("what", pa.string()), ("last", pa.int64())])
)
COUNT = ValueStateDescriptor("count", pa.int64(), default=0)
SENT = "sent"


@dataclass(frozen=True, eq=False)
class LongSource(Source):
    """`rows` records in each of `splits` splits: `split`, `split + splits`, `split + 2 * splits`, ..."""

    number: int
    rows: int
    splits: int = field(default=1, kw_only=True)

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    def enumerate_splits(self) -> list[Split]:
        return [{"id": f"longs-{number}", "number": number} for number in range(self.splits)]

    def read_split(self, split: Split, position: int, max_rows: int) -> ReadResult:
        end = min(position + max_rows, self.rows)
        longs = [split["number"] + self.splits * row for row in range(position, end)]
        rows = [
            {"source": self.number, "split": split["number"], "n": n, "key": n % KEYS, "count": 0, "sender": ""}
            for n in longs
        ]
        return ReadResult(pa.RecordBatch.from_pylist(rows, schema=SCHEMA) if rows else None, end, end >= self.rows)


@dataclass(frozen=True, eq=False, repr=False)
class Hop(ResolvedSpec):
    """Checks the records that it receives, and stamps them for the next hop.

    `run` counts the deployments at another parallelism. Of a sender of this run all records must come in order; of one
    of an earlier run, whose channels may have been divided, those with the same value in the column `lane`, by which
    the edge is partitioned (None: nothing is promised). `by_source`: the longs of each split come in order as well.
    `ordered` False: a record may come again (at least once). With `side` what comes by the last input ends here.
    Each batch takes `pause_ms` of real time.
    """

    run: int = 0
    lane: str | None = None
    inputs: int = 1
    side: bool = False
    by_source: bool = False
    ordered: bool = True
    pause_ms: int = 0

    def _resolve(self) -> None:
        self._set(input_schemas=(SCHEMA,) * self.inputs, output_schema=SCHEMA)

    def create(self) -> HopOperator:
        return HopOperator(self)


class HopOperator(Operator):
    """The last number of each sender and of itself is a list; at the same parallelism a subtask gets back its own."""

    def __init__(self, spec: Hop) -> None:
        self._spec = spec
        self._last: Counter[str] = Counter()

    def initialize_state(self) -> None:
        self._state = self.context.operator_state.list_state(SEEN)
        me = (self.context.subtask, self._spec.run)
        for entry in self._state.get():
            if (entry["subtask"], entry["run"]) == me:
                self._last[entry["what"]] = entry["last"]

    def snapshot_state(self, checkpoint_id: int) -> None:
        me = {"subtask": self.context.subtask, "run": self._spec.run}
        self._state.update([me | {"what": what, "last": last} for what, last in sorted(self._last.items())])

    def process_batch(self, batch: pa.RecordBatch, input_index: int = 0) -> None:
        if self._spec.pause_ms:
            time.sleep(self._spec.pause_ms / 1_000)
        rows = [self._checked(row) for row in batch.to_pylist()]
        if self._spec.side and input_index == self._spec.inputs - 1:
            rows = [row for row in rows if row["wrong"]]
        for row in rows:
            self._last[SENT] += 1
            row |= {"sender": f"{self.context.name}#{self._spec.run}/{self.context.subtask}", "seq": self._last[SENT]}
        if rows:
            self.context.output.emit(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))

    def _checked(self, row: dict[str, Any]) -> dict[str, Any]:
        if not self._spec.ordered:
            return row
        sender = row["sender"]
        if f"#{self._spec.run}/" not in sender:
            sender = f"{sender} {row[self._spec.lane]}" if sender and self._spec.lane else ""
        if sender:
            self._check(row, sender, row["seq"])
        if self._spec.by_source:
            self._check(row, f"split {row['source']}-{row['split']}", row["n"] + 1)
        return row

    def _check(self, row: dict[str, Any], what: str, number: int) -> None:
        if number <= self._last[what]:
            at = f"{self.context.name}/{self.context.subtask}"
            row["wrong"] = f"at {at}: {number} of {what} after {self._last[what]}; {row['wrong'] or ''}"
        self._last[what] = max(number, self._last[what])


class CountByKey(KeyedProcessFunction):
    """Numbers the records of each key."""

    def process_element(self, row: dict[str, Any], ctx: KeyedProcessFunctionContext) -> None:
        state = ctx.state(COUNT)
        state.update(state.value() + 1)
        ctx.emit(row | {"count": state.value()})


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One job: a topology and its numbers. `splits` and `rows` (in each split) are those of each of its sources.

    On Spark `rows_per_second` slows the sources and `sink_pause_ms` the last task, for each batch.
    """

    topology: str
    parallelism: int = 2
    splits: int = 2
    rows: int = 10
    batch_rows: int = 2
    credits: int = 2
    buffer_bytes: int = 4 << 20
    chaining: bool = True
    run: int = 0
    mode: str = "exactly_once"
    rows_per_second: float | None = None
    sink_pause_ms: int = 0
    sink: Sink = field(default_factory=lambda: CollectSink("rows"))

    def rescaled(self, parallelism: int, mode: str | None = None) -> Plan:
        """Return the same job at another parallelism, perhaps with another checkpointing mode."""
        return replace(self, parallelism=parallelism, run=self.run + 1, mode=mode or self.mode)

    @property
    def exactly_once(self) -> bool:
        """True if no record may arrive twice."""
        return MODES[self.mode].get("mode") != "at_least_once"

    @property
    def unaligned(self) -> bool:
        """True if barriers may overtake records."""
        return bool(MODES[self.mode].get("unaligned"))


MODES: dict[str, dict[str, Any]] = {
    "exactly_once": {},
    "at_least_once": {"mode": "at_least_once"},
    "unaligned": {"unaligned": True, "force_unaligned": True},
    "unaligned_after_timeout": {"unaligned": True, "force_unaligned": True, "aligned_timeout_ms": 30},
}
"""The ways to take checkpoints, as settings: what is written here is tried everywhere."""


class Job:
    """A job in the making, with the few steps that all topologies consist of."""

    def __init__(self, plan: Plan, **checkpoint: Any) -> None:
        self.plan = plan
        settings = {
            "interval_ms": None,
            "memory_threshold_bytes": 0,
            "retention": RetentionPolicy.RETAIN_ON_CANCELLATION,
            "tolerable_failures": 1_000,
        }
        self.env = StreamEnvironment(
            "checked",
            parallelism=plan.parallelism,
            max_parallelism=128,
            checkpoint=CheckpointConfig(**settings | MODES[plan.mode] | checkpoint),
            restart=FixedDelay(1_000, 5),
            chaining=plan.chaining,
            channel_credits=plan.credits,
            buffer_bytes=plan.buffer_bytes,
        )

    def source(self, number: int, parallelism: int | None = None, splits: int | None = None) -> OperatorStream:
        """The longs of one source, stamped."""
        plan = self.plan
        source = LongSource(
            number,
            plan.rows,
            splits=splits or plan.splits,
            batch_rows=plan.batch_rows,
            rows_per_second=plan.rows_per_second,
        )
        parallelism = parallelism or plan.parallelism
        stream = self.env.from_source(source, uid=f"source{number}").set_parallelism(parallelism)
        return self.hop(f"input{number}", stream, parallelism=parallelism)

    def hop(
        self,
        uid: str,
        *streams: DataStream,
        parallelism: int | None = None,
        lane: str | None = None,
        side: bool = False,
        by_source: bool = False,
        pause_ms: int = 0,
    ) -> OperatorStream:
        """One hop, with as many inputs as there are streams."""
        plan = self.plan
        by_source = by_source and plan.run == 0
        spec = Hop(plan.run, lane, len(streams), side, by_source, plan.exactly_once, pause_ms)
        operator = self.env.transformations.add(spec, *(stream._origins for stream in streams))
        stream = OperatorStream(self.env.transformations, operator).uid(uid)
        return stream if parallelism is None else stream.set_parallelism(parallelism)

    def keyed(self, uid: str, stream: DataStream, column: str = "key") -> OperatorStream:
        """Count by key, then a hop."""
        counted = stream.key_by(column).process(CountByKey).uid(uid)
        return self.hop(f"{uid}-hop", counted, lane=column)

    def end(self, stream: DataStream, parallelism: int, *, by_source: bool = False) -> StreamEnvironment:
        """The last hop and the sink."""
        stream = self.hop(
            "verified", stream, parallelism=parallelism, by_source=by_source, pause_ms=self.plan.sink_pause_ms
        )
        stream.sink_to(self.plan.sink, uid="sink").set_parallelism(parallelism)
        return self.env


def problems(plan: Plan, rows: pd.DataFrame, sources: Iterable[int], counted: str | None = None) -> list[str]:
    """Return the problems of the committed rows; none if the job keeps its promise.

    `sources` are the numbers of those that reach the sink; `counted` the column by which records were counted.
    """
    if not len(rows):
        return ["nothing was committed"]
    expected = Counter((source, n) for source in sources for n in range(plan.splits * plan.rows))
    found = Counter(zip(rows["source"].tolist(), rows["n"].tolist()))
    wrong = rows["wrong"].dropna().tolist()[:5]
    if expected - found:
        wrong.append(f"lost {sorted((expected - found).elements())}")
    if plan.exactly_once and found - expected:
        wrong.append(f"twice {sorted((found - expected).elements())}")
    if set(found) - set(expected):
        wrong.append(f"never sent {sorted(set(found) - set(expected))}")
    if counted and plan.exactly_once:
        wrong += [
            f"{counted} {key} of source {source} was counted as {sorted(counts)}"
            for (source, key), counts in rows.groupby(["source", counted])["count"]
            if sorted(counts) != list(range(1, len(counts) + 1))
        ]
    return wrong
