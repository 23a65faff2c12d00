"""Ready jobs: small jobs by name, for scenarios and lessons.

    lab = Lab(ready_job("keyed-sum", rows=12, unaligned=True))

Each reads a few rows, one row per buffer, and takes checkpoints on request. `ready_jobs()` lists their settings; those
of `StreamEnvironment`, `CheckpointConfig` and `RescaleConfig` apply too. `restart=3` restarts the job three times.
"""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from inspect import signature
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa

from kit.core.arguments.allowed import check_allowed, whole
from kit.core.html_tables import notebook_html, rows_html
from kit.hosts.lab.errors import LabError, enumerated, nearest
from kit.hosts.lab.jobs.expiring_job import expiring
from kit.hosts.lab.jobs.random_jobs import NAME as RANDOM
from kit.hosts.lab.jobs.random_jobs import RandomJob
from kit.hosts.lab.jobs.state_jobs import every_kind
from kit.hosts.lab.jobs.story_jobs import flights, sessions, slow_sink, transfers, word_count
from kit.hosts.lab.named_hook import NamedHook
from kit.stream.api.datastream import DataStream
from kit.stream.api.environment import StreamEnvironment
from kit.stream.backend.operator_store import OperatorListState
from kit.stream.backend.states.descriptors import ListStateDescriptor, MapStateDescriptor, ReducingStateDescriptor
from kit.stream.connectors import CollectionSource, CollectSink
from kit.stream.operators.aggregates import count, sum_
from kit.stream.operators.functions.broadcast import BroadcastContext, BroadcastProcessFunction, ReadOnlyContext
from kit.stream.operators.functions.checkpointed import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from kit.stream.operators.functions.function_operator import KeyedProcessFunctionContext, ProcessFunctionContext
from kit.stream.operators.functions.process import CoProcessFunction, KeyedCoProcessFunction, ProcessFunction
from kit.stream.operators.windows.window_assigners import TumblingEventTimeWindows
from kit.stream.settings.job_settings import CheckpointConfig, FixedDelay, RescaleConfig

KEYS = "abcd"
RESTART_DELAY_MS = 5
WINDOW_MS = 8
MOST_ROWS = 100_000
"""The largest input of a ready job, whose rows are made when it is built: a scenario, which may come from anybody,
names the job's settings.
"""
_SIZES = ("rows", "short", "splits", "backlog_splits", "batch_rows")
SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64())])
ONE_SPLIT: Mapping[str, Any] = {"splits": 1}
SLOW: Mapping[str, Any] = {"rows": 60, "channel_credits": 1, "interval_ms": 60}
MANY: Mapping[str, Any] = {"rows": 80}
COUNTERS, BUSY_COUNTERS = 40, 3
"""The keys of the job `counters`: each has a row at first, and then a few have all rows."""
INT_KEYS = pa.schema([("k", pa.int64()), ("n", pa.int64())])
NUMBERS = pa.schema([("n", pa.int64())])


@dataclass(frozen=True)
class Rows:
    """The input of a ready job: rows `{"k": ..., "n": ...}` numbered from 0, one per buffer."""

    rows: int = 20
    """Rows of each source."""
    splits: int | None = None
    """The splits of a source; None for one per subtask."""
    backlog_splits: int = 0
    """The number of splits that existed before the job started."""
    short: int = 2
    """Rows of the source that ends early."""
    bad: int = -1
    """The number of the row at which functions fail; -1 for none."""
    rows_per_second: float | None = None
    """The rate of each subtask of a source; None for no limit."""

    def source(self, rows: int | None = None, schema: pa.Schema = SCHEMA) -> CollectionSource:
        """Return a source of this many rows."""
        made = [{"k": KEYS[n % len(KEYS)], "n": n} for n in range(self.rows if rows is None else rows)]
        return self.source_of([{name: row[name] for name in schema.names} for row in made], schema)

    def source_of(self, rows: list[dict[str, Any]], schema: pa.Schema) -> CollectionSource:
        """Return a source of these rows."""
        return CollectionSource(
            rows,
            schema,
            splits=self.splits,
            batch_rows=1,
            backlog_splits=self.backlog_splits,
            rows_per_second=self.rows_per_second,
        )

    def work(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the row. Raises ValueError for the bad one."""
        if row["n"] == self.bad:
            raise ValueError(f"row {self.bad} is bad")
        return dict(row)


class ReadyJobError(LabError):
    """The ready job does not exist, or does not have the setting."""


@dataclass(frozen=True)
class ReadyJob:
    """A job by name: its description, the function that builds it, and its default settings."""

    name: str
    what: str
    build: Callable[[StreamEnvironment, Rows], None]
    settings: Mapping[str, Any] = field(default_factory=dict)


# ---- functions ------------------------------------------------------------------------------------------------------


class Join(KeyedCoProcessFunction):
    """Adds up the numbers of both inputs by key."""

    TOTAL = ReducingStateDescriptor("total", pa.int64(), lambda one, other: one + other)

    def process_element1(self, row: dict[str, Any], ctx: KeyedProcessFunctionContext) -> None:
        """A row of either input."""
        total: Any = ctx.state(self.TOTAL)
        total.add(row["n"])
        ctx.emit({"k": row["k"], "n": total.get()})

    process_element2 = process_element1


class Merge(CoProcessFunction):
    """Passes on the rows of both inputs."""

    def process_element1(self, row: dict[str, Any], ctx: ProcessFunctionContext) -> None:
        """A row of either input."""
        ctx.emit(row)

    process_element2 = process_element1


class ByRule(BroadcastProcessFunction):
    """Multiplies each number by the newest rule of its key."""

    RULES = MapStateDescriptor("rules", pa.string(), pa.int64())

    def process_element(self, row: dict[str, Any], ctx: ReadOnlyContext) -> None:
        """Process a row with the newest rule of its key."""
        factor = ctx.broadcast_state(self.RULES).get(row["k"])
        ctx.emit({"k": row["k"], "n": row["n"] * (1 if factor is None else factor)})

    def process_broadcast_element(self, rule: dict[str, Any], ctx: BroadcastContext) -> None:
        """Keep a rule; every subtask receives it."""
        ctx.broadcast_state(self.RULES).put(rule["k"], rule["n"])


class _Remembering(ProcessFunction, CheckpointedFunction):
    """Passes each row on, and keeps its number in operator state."""

    SEEN = ListStateDescriptor("seen", pa.int64())
    seen: OperatorListState
    own: list[int]

    def process_element(self, row: dict[str, Any], ctx: ProcessFunctionContext) -> None:
        """A row."""
        self.own.append(row["n"])
        ctx.emit({"n": row["n"], "entries": len(self.own)})

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Store the numbers of this subtask."""
        self.seen.update(self.own)


class SplitState(_Remembering):
    """List state that is split among the subtasks (`OperatorStateHandle.Mode.SPLIT_DISTRIBUTE`)."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Read the entries assigned to this subtask."""
        self.seen = context.operator_state.list_state(self.SEEN)
        self.own = self.seen.get()


class UnionState(_Remembering):
    """List state that every subtask restores and writes back completely (`OperatorStateHandle.Mode.UNION`)."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Read all entries, which is how union state grows."""
        self.seen = context.operator_state.union_list_state(self.SEEN)
        self.own = self.seen.get()


class FailingSnapshot(SplitState):
    """Fails to take its snapshot for checkpoint 2."""

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Fail for the second checkpoint."""
        if context.checkpoint_id == 2:
            raise ValueError("snapshot_state does not like the number 2")
        super().snapshot_state(context)


class ReadyHook(NamedHook):
    """A master hook whose state is the number of the checkpoint. It may also be restored without a state."""

    def __init__(self) -> None:
        super().__init__("log")

    def state_of(self, checkpoint_id: int) -> str:
        """Return the number."""
        return str(checkpoint_id)

    def restore_checkpoint(self, checkpoint_id: int, value: str | None) -> None:
        """Check the state, if there is one. Raises ValueError for that of another checkpoint."""
        super().restore_checkpoint(checkpoint_id, self.state_of(checkpoint_id) if value is None else value)


# ---- jobs -----------------------------------------------------------------------------------------------------------


def _sum(stream: DataStream) -> None:
    sums = stream.key_by("k").aggregate(rows=count(), total=sum_("n")).uid("sums").name("sums")
    sums.sink_to(CollectSink("out"), uid="out", name="out")


def _keyed_sum(env: StreamEnvironment, rows: Rows) -> None:
    _sum(env.from_source(rows.source(), uid="letters", name="letters"))


def _two_sources(env: StreamEnvironment, rows: Rows) -> None:
    left = env.from_source(rows.source(), uid="left", name="left").set_parallelism(1)
    right = env.from_source(rows.source(), uid="right", name="right").set_parallelism(1)
    _sum(left.union(right))


def _short_and_long(env: StreamEnvironment, rows: Rows) -> None:
    short = env.from_source(rows.source(rows.short), uid="short", name="short").set_parallelism(1)
    long = env.from_source(rows.source(), uid="long", name="long").set_parallelism(1)
    _sum(short.union(long))


def _two_inputs(env: StreamEnvironment, rows: Rows) -> None:
    left = env.from_source(rows.source(), uid="left", name="left").set_parallelism(1)
    right = env.from_source(rows.source(), uid="right", name="right").set_parallelism(1)
    joined = left.key_by("k").connect(right.key_by("k")).process(Join, returns=SCHEMA).uid("join").name("join")
    joined.sink_to(CollectSink("out"), uid="out", name="out")


def _two_gates(env: StreamEnvironment, rows: Rows) -> None:
    left = env.from_source(rows.source(), uid="left", name="left")
    right = env.from_source(rows.source(), uid="right", name="right")
    merged = left.rebalance().connect(right.rebalance()).process(Merge, returns=SCHEMA).uid("merged").name("merged")
    merged.set_parallelism(3).sink_to(CollectSink("out"), uid="out", name="out").set_parallelism(3)


def _pipeline(env: StreamEnvironment, rows: Rows) -> None:
    letters = env.from_source(rows.source(), uid="letters", name="letters").set_parallelism(1)
    _sum(letters.rebalance().map(rows.work, returns=SCHEMA).uid("steps").name("steps"))


def _exchange(env: StreamEnvironment, rows: Rows) -> None:
    letters = env.from_source(rows.source(), uid="letters", name="letters")
    parsed = letters.map(dict, returns=SCHEMA).uid("parsed").name("parsed")
    steps = parsed.rebalance().map(rows.work, returns=SCHEMA).uid("steps").name("steps")
    steps.sink_to(CollectSink("out"), uid="out", name="out")


def _chain(env: StreamEnvironment, rows: Rows) -> None:
    letters = env.from_source(rows.source(), uid="letters", name="letters")
    letters.map(rows.work, returns=SCHEMA).uid("steps").name("steps").sink_to(CollectSink("out"), uid="out", name="out")


def _windows(env: StreamEnvironment, rows: Rows) -> None:
    letters = env.from_source(rows.source(), uid="letters", name="letters").set_parallelism(1)
    timed = letters.assign_timestamps("n").uid("times").name("times")
    windows = timed.key_by("k").window(TumblingEventTimeWindows(WINDOW_MS)).aggregate(rows=count(), total=sum_("n"))
    windows.uid("windows").name("windows").sink_to(CollectSink("out"), uid="out", name="out")


def _broadcast(env: StreamEnvironment, rows: Rows) -> None:
    letters = env.from_source(rows.source(), uid="letters", name="letters").set_parallelism(1).rebalance()
    rules = env.from_source(rows.source(rows.short), uid="rules", name="rules").set_parallelism(1)
    ruled = letters.connect(rules.broadcast(ByRule.RULES)).process(ByRule, returns=SCHEMA).uid("ruled").name("ruled")
    ruled.sink_to(CollectSink("out"), uid="out", name="out")


def _remembering(function: type[_Remembering]) -> Callable[[StreamEnvironment, Rows], None]:
    def build(env: StreamEnvironment, rows: Rows) -> None:
        numbers = env.from_source(rows.source(schema=NUMBERS), uid="numbers", name="numbers").set_parallelism(1)
        returns = pa.schema([("n", pa.int64()), ("entries", pa.int64())])
        remembered = numbers.rebalance().process(function, returns=returns).uid("memory").name("memory")
        remembered.sink_to(CollectSink("out"), uid="out", name="out")

    return build


def _new_before_short(env: StreamEnvironment, rows: Rows) -> None:
    new = env.from_source(rows.source(rows.short), uid="new", name="new").set_parallelism(1)
    short = new.map(dict, returns=SCHEMA).uid("short").name("short")
    long = env.from_source(rows.source(), uid="long", name="long").set_parallelism(1)
    _sum(short.union(long))


def _counters(env: StreamEnvironment, rows: Rows) -> None:
    made = [{"k": n if n < COUNTERS else n % BUSY_COUNTERS, "n": n} for n in range(rows.rows)]
    read = env.from_source(rows.source_of(made, INT_KEYS), uid="numbers", name="numbers").set_parallelism(1)
    counted = read.key_by("k").aggregate(rows=count(), total=sum_("n")).uid("counters").name("counters")
    counted.sink_to(CollectSink("out"), uid="out", name="out")


def _union_at_the_source(env: StreamEnvironment, rows: Rows) -> None:
    numbers = env.from_source(rows.source(schema=NUMBERS), uid="numbers", name="numbers")
    returns = pa.schema([("n", pa.int64()), ("entries", pa.int64())])
    remembered = numbers.process(UnionState, returns=returns).uid("memory").name("memory")
    remembered.sink_to(CollectSink("out"), uid="out", name="out")


def _two_pipelines(env: StreamEnvironment, rows: Rows) -> None:
    for name, parallelism in (("steady", 1), ("shaky", env.parallelism)):
        read = env.from_source(rows.source(), uid=name, name=name).set_parallelism(parallelism)
        counted = read.key_by("k").aggregate(rows=count(), total=sum_("n")).uid(f"{name}-sums").name(f"{name}-sums")
        counted.set_parallelism(parallelism)
        counted.sink_to(CollectSink(name), uid=f"{name}-out", name=f"{name}-out").set_parallelism(parallelism)


READY_JOBS = {
    job.name: job
    for job in (
        ReadyJob("keyed-sum", "letters, by key to sums: one source, a keyed exchange, state by key", _keyed_sum),
        ReadyJob("two-sources", "left and right, of one subtask each, together by key to sums", _two_sources),
        ReadyJob("short-and-long", "as two-sources, but one of them ends early", _short_and_long),
        ReadyJob("new-before-short", "the same with another source, and short behind it", _new_before_short),
        ReadyJob("two-pipelines", "steady, of one subtask, and shaky, which no exchange connects", _two_pipelines),
        ReadyJob("two-inputs", "left and right, connected by key: an operator with two inputs", _two_inputs),
        ReadyJob("two-gates", "left and right, to each in turn of three subtasks with two inputs", _two_gates),
        ReadyJob("pipeline", "letters, to each step in turn, by key to sums: two exchanges", _pipeline),
        ReadyJob("exchange", "letters, parsed in their own task, to each step in turn: no key", _exchange),
        ReadyJob("chain", "letters, steps and output in one task: no exchange at all", _chain),
        ReadyJob("windows", "letters with a time of their own, by key and window", _windows),
        ReadyJob("broadcast", "letters, and rules that every subtask hears of", _broadcast),
        ReadyJob("split-state", "operator state that a restore splits among the subtasks", _remembering(SplitState)),
        ReadyJob("union-state", "operator state that every subtask gets whole at a restore", _remembering(UnionState)),
        ReadyJob(
            "union-at-the-source", "the same in the task of a source of one split", _union_at_the_source, ONE_SPLIT
        ),
        ReadyJob("transfers", "two branches of a bank send postings by account to balances", transfers),
        ReadyJob("flights", "flights by carrier to totals, by destination to windows", flights, {"rows": 40}),
        ReadyJob("every-kind", "flights by carrier, to an operator with state of every kind", every_kind, {"rows": 40}),
        ReadyJob("expiring", "letters, of each key the first in 100 ms: its state has a TTL", expiring),
        ReadyJob(
            "counters", "many keys at first, later changes to a few: for incremental checkpoints", _counters, MANY
        ),
        ReadyJob("word-count", "lines cut into words, and each word counted", word_count),
        ReadyJob("sessions", "clicks of visitors in sessions that merge", sessions),
        ReadyJob("slow-sink", "all write to one sink over channels of one credit", slow_sink, SLOW),
        ReadyJob("failing-snapshot", "an operator that cannot snapshot itself twice", _remembering(FailingSnapshot)),
    )
}

_DEFAULTS: Mapping[str, Any] = {"parallelism": 2, "max_parallelism": 8, "memory_threshold_bytes": 0}
_OF_ROWS = {each.name for each in fields(Rows)}
_OF_CHECKPOINTS = {each.name for each in fields(CheckpointConfig)}
_OF_RESCALING = {each.name for each in fields(RescaleConfig)}
_OF_ENVIRONMENT = signature(StreamEnvironment).parameters.keys() - {
    "name",
    "checkpoint",
    "restart",
    "rescaling",
    "job_id",
}


def ready_job(name: str, **settings: Any) -> StreamEnvironment:
    """Return the ready job of this name, with these settings.

    Raises LabError, with the nearest names, for an unknown name, and SettingError for a value that is not allowed.

    "random" is one of the jobs of a swarm (`kit.hosts.lab.jobs.random_jobs`).
    """
    sizes = {size: settings[size] for size in _SIZES if settings.get(size) is not None}
    check_allowed(SimpleNamespace(**sizes), dict.fromkeys(sizes, whole(0, MOST_ROWS)), f"ready job {name!r}")
    if name == RANDOM:
        return random_job(settings).environment()
    job = READY_JOBS.get(name)
    if job is None:
        raise ReadyJobError(f"no ready job is called {name!r}; there are {enumerated(nearest(name, [*READY_JOBS]))}")
    settings = {**_DEFAULTS, **job.settings, **settings}
    known = _OF_ROWS | _OF_CHECKPOINTS | _OF_RESCALING | _OF_ENVIRONMENT | {"restart"}
    for wrong in settings.keys() - known:
        meant = enumerated(nearest(wrong, sorted(known)))
        raise ReadyJobError(f"ready job {name!r} has no setting {wrong!r}; did you mean {meant}?")
    restart = settings.pop("restart", None)
    env = StreamEnvironment(
        name,
        checkpoint=CheckpointConfig(**_of(settings, _OF_CHECKPOINTS)),
        restart=FixedDelay(restart, RESTART_DELAY_MS) if isinstance(restart, int) else restart,
        rescaling=RescaleConfig(**_of(settings, _OF_RESCALING)),
        **_of(settings, _OF_ENVIRONMENT),
    )
    job.build(env, Rows(**_of(settings, _OF_ROWS)))
    return env


def default_settings(name: str) -> dict[str, Any]:
    """Return all settings of a ready job with their defaults. Raises KeyError for an unknown name."""
    of_classes = {each.name: each.default for kind in (Rows, CheckpointConfig, RescaleConfig) for each in fields(kind)}
    of_environment = {each: signature(StreamEnvironment).parameters[each].default for each in _OF_ENVIRONMENT}
    return {**of_classes, **of_environment, **_DEFAULTS, **READY_JOBS[name].settings}


def random_job(settings: Mapping[str, Any]) -> RandomJob:
    """Return the swarm's job with these settings. Raises ReadyJobError for an unknown setting."""
    known = {each.name for each in fields(RandomJob)} | _OF_CHECKPOINTS
    for wrong in settings.keys() - known:
        meant = enumerated(nearest(wrong, sorted(known)))
        raise ReadyJobError(f"the job of a swarm has no setting {wrong!r}; did you mean {meant}?")
    return RandomJob.of(settings)


def job_of(text: str) -> tuple[str, dict[str, Any]]:
    """Parse a ready job such as `keyed-sum, rows=12, unaligned` into its name and settings. Raises LabError."""
    name, _, rest = text.partition(",")
    return name.strip(), settings_of(rest)


def settings_of(text: str) -> dict[str, Any]:
    """Parse settings such as `rows=12, unaligned`; one without a value is True. Raises LabError."""
    settings: dict[str, Any] = {}
    for part in filter(None, map(str.strip, text.replace("\n", " ").split(","))):
        name, equals, value = map(str.strip, part.partition("="))
        if not name.isidentifier():
            raise ReadyJobError(f"{part!r} is no setting: expected for instance 'parallelism=2' or 'unaligned'")
        settings[name] = _value(value) if equals else True
    return settings


def _value(text: str) -> Any:
    """Parse a number, a list or True; anything else is a string."""
    try:
        return literal_eval(text)
    except (SyntaxError, ValueError):
        return text


class _InFull(pd.DataFrame):
    """A table of sentences, whose cells are always shown in full."""

    def _repr_html_(self) -> str:
        return notebook_html("", rows_html(self.columns, self.itertuples(index=False, name=None)))

    def __repr__(self) -> str:
        return self.to_string(index=False, max_colwidth=None, justify="left")


def ready_jobs() -> pd.DataFrame:
    """Return the ready jobs: one row each with its description."""
    return _InFull([(job.name, job.what) for job in READY_JOBS.values()], columns=["name", "what"])


def _of(settings: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name in names}
