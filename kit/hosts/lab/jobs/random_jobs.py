"""Random small jobs for a swarm, and what each of them must have put out when it has ended.

A source counts rows 0, 1, ... in some splits. They pass some stages, each with its kind of exchange and of state, and
each hands on every row once; where a stage's state is lost or doubled its rows show it:

    map        no state, over some exchange
    branches   even and odd rows take two ways, which meet again
    numbered   numbers the rows of each key: value state
    held       keeps each row until event time is past it: map state and timers
    tally      counts rows in operator state, dealt out entry by entry (`split`) or given to all (`union`), and says at
               the end how many they were
    rules      a second stream is broadcast; at the end each subtask says how many rules it knows: broadcast state

The rows end in the sink `rows`; from the source a branch may go by keyed totals to `totals`, or by windows to
`windows`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from random import Random
from typing import Any

import pandas as pd
import pyarrow as pa

from kit.core.protocol.properties import RetentionPolicy
from kit.stream.api.datastream import DataStream, OperatorStream
from kit.stream.api.environment import StreamEnvironment
from kit.stream.backend.states.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from kit.stream.connectors import CollectionSource, CollectSink
from kit.stream.operators import (
    KeyedProcessFunction,
    KeyedProcessFunctionContext,
    Operator,
    OperatorSpec,
    TumblingEventTimeWindows,
    count,
    sum_,
)
from kit.stream.settings.job_settings import CheckpointConfig, FixedDelay

DIRECTORY = "/checkpoints"
KEYS = "abcde"
WINDOW_MS = 10
RULES = 3
TALLY, RULE = "tally", "rule"
"""The `k` of rows that a stage adds at its end: what it counted, and which rules it knows."""
SCHEMA = pa.schema([("n", pa.int64()), ("k", pa.string()), ("t", pa.int64()), ("number", pa.int64())])
MODES: dict[str, dict[str, Any]] = {
    "aligned": {},
    "aligned two at a time": {"max_concurrent": 2},
    "at least once": {"mode": "at_least_once", "max_concurrent": 2},
    "unaligned": {"unaligned": True, "force_unaligned": True},
    "unaligned after a timeout": {"unaligned": True, "force_unaligned": True, "aligned_timeout_ms": 30},
}
"""The ways to take checkpoints."""
EXCHANGES: dict[str, Callable[[DataStream], DataStream]] = {
    "forward": lambda stream: stream,
    "rebalance": lambda stream: stream.rebalance(),
    "hash": lambda stream: stream.key_by("k"),
    "global": lambda stream: stream.global_(),
    "custom": lambda stream: stream.partition_custom(lambda n, subtasks: n // 2 % subtasks, "n"),
}
"""What may lie before a stage without a key."""
RESTARTS = 1_000


@dataclass(frozen=True)
class RandomJob:
    """One small job: what flows, how it is cut, which way it takes, how it is checkpointed. `settings` are those of
    its `CheckpointConfig`.
    """

    rows: int = 12
    splits: int = 2
    batch_rows: int = 2
    parallelism: int = 2
    chaining: bool = True
    credits: int = 2
    buffer_bytes: int = 4 << 20
    stages: tuple[str, ...] = ()
    branch: str = ""
    mode: str = "aligned"
    settings: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> RandomJob:
        """The job that `text` names: `stages` are one string, and what is not a field is of its `CheckpointConfig`."""
        own = {name: value for name, value in settings.items() if name in _FIELDS}
        if "stages" in own:
            own["stages"] = tuple(own["stages"].split(ARROW))
        return cls(**own, settings={name: value for name, value in settings.items() if name not in own})

    @property
    def text(self) -> str:
        """The job as the head of a play names it."""
        plain = RandomJob()
        own = {name: getattr(self, name) for name in _FIELDS if getattr(self, name) != getattr(plain, name)}
        if "stages" in own:
            own["stages"] = ARROW.join(self.stages)
        return ", ".join([NAME, *(f"{name}={value}" for name, value in {**own, **self.settings}.items())])

    @classmethod
    def drawn(cls, chance: Random) -> RandomJob:
        """One of all there are."""
        mode = chance.choice(sorted(MODES))
        stages = [_drawn_stage(chance) for _ in range(chance.choice([0, 1, 1, 1, 2]))]
        if sum(stage.startswith(("tally", "rules")) for stage in stages) > 1:
            stages = [stage for stage in stages if not stage.startswith(("tally", "rules"))]
        stages.sort(key=lambda stage: stage.startswith(("tally", "rules")))  # these say at the end what they counted
        settings = {
            "interval_ms": chance.choice([None, 20, 20, 20, 40, 80]),
            "timeout_ms": chance.choice([2_000, 10_000]),
            "min_pause_ms": chance.choice([0, 0, 0, 20]),
            "max_retained": chance.choice([1, 1, 2, 3]),
            "max_subtasks_per_channel_state_file": chance.randint(1, 5),
            "memory_threshold_bytes": chance.choice([0, 0, 20_480]),
            "local_recovery": chance.random() < 0.2,
            "store": chance.choice(["memory", "filesystem"]),
        }
        return cls(
            rows=chance.choice([chance.randint(0, 8), chance.randint(8, 16), chance.randint(16, 30)]),
            splits=chance.randint(1, 3),
            batch_rows=chance.randint(1, 4),
            parallelism=chance.choice([1, 2, 2, 2, 3]),
            chaining=chance.random() < 0.5,
            credits=chance.randint(1, 2),
            buffer_bytes=chance.choice([60, 200, 4 << 20]),
            stages=tuple(stages),
            branch=chance.choice(["", "totals", "windows"]),
            mode=mode,
            settings=settings,
        )

    def at(self, parallelism: int) -> RandomJob:
        """The same job at another parallelism."""
        return replace(self, parallelism=parallelism)

    @property
    def is_exactly_once(self) -> bool:
        """Whether nothing may come twice."""
        return self.mode != "at least once"

    @property
    def has_last_words(self) -> bool:
        """Whether its end is more than the end of its rows: draining it would bring other rows."""
        return self.branch == "windows" or any(stage.startswith(("tally", "rules")) for stage in self.stages)

    # --- the job --------------------------------------------------------------------------------------------------

    def environment(self) -> StreamEnvironment:
        """The job. All its checkpoints may fail without failing it, and what it leaves when it is cancelled stays."""
        env = StreamEnvironment(
            "random",
            parallelism=self.parallelism,
            max_parallelism=16,
            checkpoint=CheckpointConfig(
                **{
                    "directory": DIRECTORY,
                    "retention": RetentionPolicy.RETAIN_ON_CANCELLATION,
                    "tolerable_failures": RESTARTS,
                    **self.settings,
                    **MODES[self.mode],
                }
            ),
            restart=FixedDelay(RESTARTS, 100),
            chaining=self.chaining,
            channel_credits=self.credits,
            buffer_bytes=self.buffer_bytes,
        )
        stream = _source(env, "rows", self.records, self.splits, self.batch_rows)
        _branch_off(self.branch, stream)
        for number, stage in enumerate(self.stages):
            kind, _, way = stage.partition(" ")
            stream = STAGES[kind](env, stream, f"{kind}{number}", way)
        stream.sink_to(CollectSink("rows"), uid="rows-out")
        return env

    @property
    def records(self) -> list[dict[str, Any]]:
        """What the source reads: row number, key, event time."""
        return [{"n": n, "k": KEYS[n * 7 % len(KEYS)], "t": 2 * n, "number": 0} for n in range(self.rows)]

    # --- its output -----------------------------------------------------------------------------------------------

    def problems(self, output: Callable[[str], pd.DataFrame]) -> Iterator[str]:
        """What is wrong with what was put out, when all input has been."""
        rows = _records_of(output("rows"))
        found = Counter(row["n"] for row in rows if row["n"] >= 0)
        wanted = Counter(range(self.rows))
        if wanted - found:
            yield f"rows lost: {sorted((wanted - found).elements())}"
        if not self.is_exactly_once:
            if set(found) - set(wanted):
                yield f"rows that never were: {sorted(set(found) - set(wanted))}"
            return
        if found - wanted:
            yield f"rows twice: {sorted((found - wanted).elements())}"
        if found == wanted:
            yield from self._state_problems(rows)
            if self.branch == "totals":
                yield from self._totals_problems(_records_of(output("totals")))
            elif self.branch == "windows":
                yield from self._windows_problems(_records_of(output("windows")))

    def _state_problems(self, rows: list[dict[str, Any]]) -> Iterator[str]:
        if "numbered" in self.stages:
            numbers: dict[str, list[int]] = {}
            for row in rows:
                if row["n"] >= 0:
                    numbers.setdefault(row["k"], []).append(row["number"])
            wrong = {key: sorted(each) for key, each in numbers.items() if sorted(each) != [*range(1, len(each) + 1)]}
            if wrong:
                yield f"value state: the rows of a key were numbered {wrong}"
        if any(stage.startswith("tally") for stage in self.stages):
            counted = sum(row["number"] for row in rows if row["k"] == TALLY)
            if counted != self.rows:
                yield f"operator state: {counted} rows were counted, not {self.rows}"
        if any(stage.startswith("rules") for stage in self.stages):
            known = [row["number"] for row in rows if row["k"] == RULE]
            if set(known) != {RULES}:
                yield f"broadcast state: the subtasks know {known} rules, and each should know {RULES}"

    def _totals_problems(self, found: list[dict[str, Any]]) -> Iterator[str]:
        groups = self._groups(lambda row: row["k"])
        wanted = Counter((key, number) for key, (rows, _) in groups.items() for number in range(1, rows + 1))
        got = Counter((row["k"], row["rows"]) for row in found)
        if any(times > 1 for times in got.values()) or set(got) - set(wanted):
            yield f"totals that should not be there: {sorted((got - wanted).elements())}"
        last = {row["k"]: (row["rows"], row["total"]) for row in sorted(found, key=lambda row: row["rows"])}
        if last != groups:
            yield f"totals are {last}, not {groups}"

    def _windows_problems(self, found: list[dict[str, Any]]) -> Iterator[str]:
        wanted = Counter(self._groups(lambda row: (row["k"], row["t"] // WINDOW_MS * WINDOW_MS)).items())
        got = Counter(((row["k"], row["window_start"]), (row["rows"], row["total"])) for row in found)
        if got != wanted:
            yield f"windows: lost {sorted((wanted - got).elements())}, too many {sorted((got - wanted).elements())}"

    def _groups(self, key: Callable[[dict[str, Any]], Any]) -> dict[Any, tuple[int, int]]:
        """Rows and total of each group."""
        groups: dict[Any, tuple[int, int]] = {}
        for row in self.records:
            rows, total = groups.get(key(row), (0, 0))
            groups[key(row)] = rows + 1, total + row["n"]
        return groups

    def small(self) -> Iterator[RandomJob]:
        """The same job with a few rows, the smallest first."""
        for rows, parallelism in itertools.product((2, 4, 8), (1, 2)):
            if rows < self.rows and parallelism <= self.parallelism:
                yield replace(self, rows=rows, parallelism=parallelism, splits=parallelism, batch_rows=1, branch="")

    def simpler(self) -> Iterator[RandomJob]:
        """Jobs that are a little simpler, the boldest first."""
        if self.branch:
            yield replace(self, branch="")
        for number in range(len(self.stages)):
            yield replace(self, stages=self.stages[:number] + self.stages[number + 1 :])
        for rows in dict.fromkeys([self.rows // 4, self.rows // 2, self.rows - 1]):
            if 0 <= rows < self.rows:
                yield replace(self, rows=rows)
        plain = RandomJob()
        plainer = ("chaining", "credits", "buffer_bytes", "batch_rows", "mode")
        changes: list[dict[str, Any]] = [
            *({name: number} for name in ("splits", "parallelism") for number in range(1, getattr(self, name))),
            *({name: getattr(plain, name)} for name in plainer if getattr(self, name) != getattr(plain, name)),
        ]
        for change in changes:
            yield replace(self, **change)
        for name in [name for name, value in self.settings.items() if value is not None]:
            yield replace(self, settings={key: value for key, value in self.settings.items() if key != name})

    def __str__(self) -> str:
        way = " -> ".join(["source", *self.stages, "sink"]) + (f", and {self.branch}" if self.branch else "")
        settings = ", ".join(f"{name}={value!r}" for name, value in self.settings.items() if value is not None)
        flow = f"{self.rows} rows in {self.splits} splits, {self.batch_rows} at once"
        shape = f"parallelism {self.parallelism}{'' if self.chaining else ', unchained'}"
        shape += f", {self.credits} credits, buffers of {self.buffer_bytes} B"
        return f"{way}; {flow}; {shape}; {self.mode}{', ' if settings else ''}{settings}"


NAME, ARROW = "random", " -> "
_FIELDS = tuple(each.name for each in fields(RandomJob) if each.name != "settings")


# --- the stages -----------------------------------------------------------------------------------------------------


def _drawn_stage(chance: Random) -> str:
    kind = chance.choice(sorted(STAGES))
    if kind == "tally":
        return f"tally {chance.choice(['split', 'union'])}"
    if kind in ("map", "rules"):
        return f"{kind} {chance.choice(sorted(EXCHANGES))}"
    return kind


def _source(env: StreamEnvironment, uid: str, rows: list[dict[str, Any]], splits: int, batch_rows: int) -> DataStream:
    return env.from_source(CollectionSource(rows, SCHEMA, splits=splits, batch_rows=batch_rows), uid=uid)


def _branch_off(branch: str, stream: DataStream) -> None:
    if branch == "totals":
        stream.key_by("k").aggregate(rows=count(), total=sum_("n")).uid("totals").sink_to(
            CollectSink("totals"), uid="totals-out"
        )
    elif branch == "windows":
        windows = stream.assign_timestamps("t").uid("times").key_by("k").window(TumblingEventTimeWindows(WINDOW_MS))
        windows.aggregate(rows=count(), total=sum_("n")).uid("windows").sink_to(
            CollectSink("windows"), uid="windows-out"
        )


def _map(env: StreamEnvironment, stream: DataStream, uid: str, way: str) -> DataStream:
    return EXCHANGES[way](stream).map(dict).uid(uid)


def _branches(env: StreamEnvironment, stream: DataStream, uid: str, way: str) -> DataStream:
    even = stream.filter(lambda row: row["n"] % 2 == 0).uid(f"{uid}-even")
    odd = stream.rebalance().filter(lambda row: row["n"] % 2 == 1).uid(f"{uid}-odd")
    return even.union(odd)


def _numbered(env: StreamEnvironment, stream: DataStream, uid: str, way: str) -> DataStream:
    return stream.key_by("k").process(NumberRows).uid(uid)


def _held(env: StreamEnvironment, stream: DataStream, uid: str, way: str) -> DataStream:
    return stream.assign_timestamps("t").uid(f"{uid}-times").key_by("k").process(HoldRows).uid(uid)


def _tally(env: StreamEnvironment, stream: DataStream, uid: str, way: str) -> DataStream:
    return stream.rebalance().apply(Tally(way, (SCHEMA,), SCHEMA)).uid(uid)


def _rules(env: StreamEnvironment, stream: DataStream, uid: str, way: str) -> DataStream:
    rules = [{"n": -1, "k": RULE, "t": number, "number": 0} for number in range(RULES)]
    steering = _source(env, f"{uid}-rules", rules, 1, 1).broadcast()
    spec = Rules("rules", (SCHEMA, SCHEMA), SCHEMA)
    operator = env.drafts.add(spec, EXCHANGES[way](stream)._origins, steering._origins)
    return OperatorStream(env.drafts, operator).uid(uid)


STAGES: dict[str, Callable[[StreamEnvironment, DataStream, str, str], DataStream]] = {
    "map": _map,
    "branches": _branches,
    "numbered": _numbered,
    "held": _held,
    "tally": _tally,
    "rules": _rules,
}


class NumberRows(KeyedProcessFunction):
    """Numbers the rows of each key."""

    NUMBER = ValueStateDescriptor("number", pa.int64(), default=0)

    def process_element(self, row: dict[str, Any], ctx: KeyedProcessFunctionContext) -> None:
        state: Any = ctx.state(self.NUMBER)
        state.update(state.value() + 1)
        ctx.emit(row | {"number": state.value()})


class HoldRows(KeyedProcessFunction):
    """Keeps each row until event time has passed it by some."""

    HELD = MapStateDescriptor("held", pa.int64(), pa.int64())

    def process_element(self, row: dict[str, Any], ctx: KeyedProcessFunctionContext) -> None:
        held: Any = ctx.state(self.HELD)
        held.put(row["n"], row["number"])
        ctx.timer_service.register_event_time_timer(row["t"] + 3)

    def on_timer(self, timestamp_ms: int, ctx: KeyedProcessFunctionContext) -> None:
        held: Any = ctx.state(self.HELD)
        for n, number in sorted(held.items()):
            if 2 * n + 3 <= timestamp_ms:
                held.remove(n)
                ctx.emit({"n": n, "k": KEYS[n * 7 % len(KEYS)], "t": 2 * n, "number": number})


@dataclass(frozen=True)
class Tally(OperatorSpec):
    """Counts rows in operator state; its name says how that is dealt out: "split" or "union"."""

    def create(self) -> TallyOperator:
        """One subtask's operator."""
        return TallyOperator(self.name)


class TallyOperator(Operator):
    """Keeps the number of each row as an entry. Of a union list each subtask adopts those that are its own today."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.rows: list[int] = []

    def initialize_state(self) -> None:
        descriptor = ListStateDescriptor("counted", pa.int64())
        store = self.context.operator_state
        if self.mode == "union":
            self.state = store.union_list_state(descriptor)
            mine, all_of_us = self.context.subtask, self.context.parallelism
            self.rows = [n for n in self.state.get() if n % all_of_us == mine]
        else:
            self.state = store.list_state(descriptor)
            self.rows = list(self.state.get())

    def snapshot_state(self, checkpoint_id: int) -> None:
        self.state.update(self.rows)

    def process_batch(self, batch: pa.RecordBatch, input_index: int = 0) -> None:
        self.rows += batch.column("n").to_pylist()
        self.context.output.emit(batch)

    def finish(self) -> None:
        counted, self.rows = len(self.rows), []
        _say(self, TALLY, counted)


@dataclass(frozen=True)
class Rules(OperatorSpec):
    """Hands on the rows of its first input, and remembers those of its second, which is broadcast."""

    def create(self) -> RulesOperator:
        """One subtask's operator."""
        return RulesOperator()


class RulesOperator(Operator):
    """Keeps the rules in broadcast state."""

    def initialize_state(self) -> None:
        self.known = self.context.operator_state.broadcast_state(MapStateDescriptor("known", pa.int64(), pa.bool_()))

    def process_batch(self, batch: pa.RecordBatch, input_index: int = 0) -> None:
        if input_index == 0:
            self.context.output.emit(batch)
            return
        for rule in batch.column("t").to_pylist():
            self.known.put(rule, True)

    def finish(self) -> None:
        _say(self, RULE, len(self.known.items()))


def _say(operator: Operator, what: str, number: int) -> None:
    said = {"n": -1, "k": what, "t": 0, "number": number}
    operator.context.output.emit(pa.RecordBatch.from_pylist([said], schema=SCHEMA))


def _records_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a frame, times as ms."""
    times = {name: frame[name].astype("int64") for name in frame.columns if name.startswith("window_")}
    return frame.assign(**times).to_dict("records")
