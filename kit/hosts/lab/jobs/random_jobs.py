"""Random small jobs for a swarm, and the expected output of each.

A source counts rows 0, 1, ... in some splits. They pass some stages, each with its kind of exchange and of state. Every
stage passes each row on once, and its rows show whether its state was lost or doubled:

    map        no state, over some exchange
    branches   sends even and odd rows along two branches, which meet again
    aside      sends every second row to a side output
    numbered   numbers the rows of each key: value state
    held       keeps each row until event time is past it: map state and timers; `idle` channels do not hold it back
    waits      keeps each row for a while of the host's time: processing-time timers
    tally      counts rows in operator state, redistributed entry by entry (`split`) or to all (`union`), and reports
               the count at the end
    rules      has a second, broadcast input; at the end each subtask reports the rules that it knows: broadcast state
    paced      sends watermarks and idle statuses behind the rows over one channel; at the end the receiver reports
               those that it received: event time that was in flight at a checkpoint

The rows end in the sink `rows`. A branch from the source may lead by keyed totals to `totals`, by windows to `windows`,
or by merging sessions to `sessions`; totals and windows may take two phases. With `hooks`, the job has master hooks
whose names differ in case only.

A second pipeline, which no exchange connects with the first, may number `beside` rows by key, in one subtask, and end
in the sink `beside`. Unless `failover="full"`, a failure of one pipeline must leave the other alone.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from random import Random
from typing import Any

import pandas as pd

from kit.core.protocol.properties import RetentionPolicy
from kit.files.master_hooks import MasterHook
from kit.hosts.lab.named_hook import named_hooks
from kit.hosts.lab.random_stages import (
    HEARD,
    KEYS,
    LAST_WORDS,
    RULE,
    RULES,
    STAGES,
    TALLY,
    drawn_stage,
    number_beside,
    signs,
    source,
)
from kit.stream.api.datastream import DataStream
from kit.stream.api.environment import StreamEnvironment
from kit.stream.connectors import CollectSink
from kit.stream.operators.aggregates import count, sum_
from kit.stream.operators.windows.window_assigners import EventTimeSessionWindows, TumblingEventTimeWindows
from kit.stream.settings.job_settings import CheckpointConfig, FixedDelay

DIRECTORY = "/checkpoints"
WINDOW_MS = 10
SESSION_GAP_MS = 11
"""A little more than the time between two rows of a key."""
MODES: dict[str, dict[str, Any]] = {
    "aligned": {},
    "aligned two at a time": {"max_concurrent": 2},
    "at least once": {"mode": "at_least_once", "max_concurrent": 2},
    "unaligned": {"unaligned": True, "force_unaligned": True},
    "unaligned after a timeout": {"unaligned": True, "force_unaligned": True, "aligned_timeout_ms": 30},
}
"""The ways to take checkpoints."""
RESTARTS = 1_000
NO_MEMORY_MB = 0.0001
"""So little that all state leaves memory after each event."""


@dataclass(frozen=True)
class RandomJob:
    """One small job: its rows, splits, stages and checkpoints. `settings` are those of its `CheckpointConfig`."""

    rows: int = 12
    splits: int = 2
    batch_rows: int = 2
    parallelism: int = 2
    chaining: bool = True
    credits: int = 2
    buffer_bytes: int = 4 << 20
    stages: tuple[str, ...] = ()
    branch: str = ""
    two_phase: bool = False
    mode: str = "aligned"
    hooks: int = 0
    beside: int = 0
    failover: str = "region"
    on_disk: bool = False
    settings: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> RandomJob:
        """Return the job with the settings of its `text`. `stages` is one string; unknown names are checkpoint
        settings.
        """
        own = {name: value for name, value in settings.items() if name in _FIELDS}
        if "stages" in own:
            own["stages"] = tuple(own["stages"].split(ARROW))
        return cls(**own, settings={name: value for name, value in settings.items() if name not in own})

    @property
    def text(self) -> str:
        """The job as the header of a scenario names it."""
        plain = RandomJob()
        own = {name: getattr(self, name) for name in _FIELDS if getattr(self, name) != getattr(plain, name)}
        if "stages" in own:
            own["stages"] = ARROW.join(self.stages)
        return ", ".join([NAME, *(f"{name}={value}" for name, value in {**own, **self.settings}.items())])

    @classmethod
    def drawn(cls, chance: Random) -> RandomJob:
        """Return a random job."""
        mode = chance.choice(sorted(MODES))
        stages = [drawn_stage(chance) for _ in range(chance.choice([0, 1, 1, 1, 2]))]
        if sum(stage.startswith(LAST_WORDS) for stage in stages) > 1:
            stages = [stage for stage in stages if not stage.startswith(LAST_WORDS)]
        stages.sort(key=lambda stage: stage.startswith(LAST_WORDS))
        settings = {
            "interval_ms": chance.choice([None, 20, 20, 20, 40, 80]),
            "timeout_ms": chance.choice([2_000, 10_000]),
            "min_pause_ms": chance.choice([0, 0, 0, 20]),
            "max_retained": chance.choice([1, 1, 2, 3]),
            "max_subtasks_per_channel_state_file": chance.randint(1, 5),
            "memory_threshold_bytes": chance.choice([0, 0, 20_480]),
            "local_recovery": chance.random() < 0.2,
            "store": chance.choice(["memory", "filesystem"]),
            "tolerable_failures": chance.choice([RESTARTS, RESTARTS, 2, 1]),
        }
        if chance.random() < 0.5:
            settings |= {"incremental": True, "most_runs": chance.choice([2, 3, 64])}
        job = cls(
            rows=chance.choice([chance.randint(0, 8), chance.randint(8, 16), chance.randint(16, 30)]),
            splits=chance.randint(1, 3),
            batch_rows=chance.randint(1, 4),
            parallelism=chance.choice([1, 2, 2, 2, 3]),
            chaining=chance.random() < 0.5,
            credits=chance.randint(1, 2),
            buffer_bytes=chance.choice([60, 200, 4 << 20]),
            stages=tuple(stages),
            branch=chance.choice(["", "totals", "windows", "sessions"]),
            mode=mode,
            hooks=chance.choice([0, 0, 0, 2]),
            beside=chance.choice([0, 0, 0, 6, 12]),
            failover=chance.choice(["full", "region", "region"]),
            two_phase=chance.random() < 0.5,
            settings=settings,
        )
        # Drawn from the rest, so that the jobs and faults of known seeds stay what they were.
        return replace(job, on_disk=Random(job.text).random() < 0.3)

    def at(self, parallelism: int) -> RandomJob:
        """Return the same job at another parallelism."""
        return replace(self, parallelism=parallelism)

    @property
    def is_exactly_once(self) -> bool:
        """True if no row may occur twice."""
        return self.mode != "at least once"

    @property
    def rescales(self) -> bool:
        """True: stages of one subtask keep theirs, and all others follow the parallelism of the job."""
        return True

    @property
    def has_last_words(self) -> bool:
        """True if it emits rows at its end, so that draining it would emit different rows."""
        return self.branch in ("windows", "sessions") or any(stage.startswith(LAST_WORDS) for stage in self.stages)

    # --- the job --------------------------------------------------------------------------------------------------

    def master_hooks(self) -> Sequence[MasterHook]:
        """Return the hooks of one life."""
        return named_hooks(self.hooks)

    def environment(self) -> StreamEnvironment:
        """Return the job. Its checkpoints may all fail without failing it, and cancelling it retains its files."""
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
            failover=self.failover,
            chaining=self.chaining,
            channel_credits=self.credits,
            buffer_bytes=self.buffer_bytes,
            state_backend="disk" if self.on_disk else "memory",
            state_memory_mb=NO_MEMORY_MB,
        )
        stream: DataStream = source(env, "rows", self.records, self.splits, self.batch_rows)
        _branch_off(self.branch, stream, self.two_phase)
        for number, stage in enumerate(self.stages):
            kind, _, way = stage.partition(" ")
            stream = STAGES[kind](env, stream, f"{kind}{number}", way)
        stream.sink_to(CollectSink("rows"), uid="rows-out")
        if self.beside:
            beside = number_beside(env, _rows(self.beside), self.batch_rows)
            beside.sink_to(CollectSink(BESIDE), uid=f"{BESIDE}-out").set_parallelism(1)
        return env

    @property
    def records(self) -> list[dict[str, Any]]:
        """Return the rows of the source: row number, key, event time."""
        return _rows(self.rows)

    # --- its output -----------------------------------------------------------------------------------------------

    def problems(self, output: Callable[[str], pd.DataFrame]) -> Iterator[str]:
        """Yield the errors in the output after all input was read."""
        if self.beside:
            yield from self._beside_problems(_records_of(output(BESIDE)))
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
            elif self.branch == "sessions":
                yield from self._sessions_problems(_records_of(output("sessions")))

    def _beside_problems(self, rows: list[dict[str, Any]]) -> Iterator[str]:
        found, wanted = Counter(row["n"] for row in rows), Counter(range(self.beside))
        if wanted - found:
            yield f"rows lost beside: {sorted((wanted - found).elements())}"
        if self.is_exactly_once and found - wanted:
            yield f"rows twice beside: {sorted((found - wanted).elements())}"
        if self.is_exactly_once and found == wanted:
            yield from _wrong_numbers(rows)

    def _state_problems(self, rows: list[dict[str, Any]]) -> Iterator[str]:
        if "numbered" in self.stages:
            yield from _wrong_numbers(rows)
        if any(stage.startswith("tally") for stage in self.stages):
            counted = sum(row["number"] for row in rows if row["k"] == TALLY)
            if counted != self.rows:
                yield f"operator state: {counted} rows were counted, not {self.rows}"
        if any(stage.startswith("rules") for stage in self.stages):
            known = [row["number"] for row in rows if row["k"] == RULE]
            if set(known) != {RULES}:
                yield f"broadcast state: the subtasks know {known} rules, and each should know {RULES}"
        if "paced" in self.stages:
            heard, sent = [row["number"] for row in rows if row["k"] == HEARD], signs(self.rows)
            if Counter(heard) != Counter(sent):
                yield f"event time: watermarks and statuses {heard} were heard, but {sent} were sent"

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
        yield from self._differences("windows", wanted, got)

    def _sessions_problems(self, found: list[dict[str, Any]]) -> Iterator[str]:
        wanted: Counter[tuple[Any, ...]] = Counter()
        for key in KEYS:
            rows = [row for row in self.records if row["k"] == key and _is_of_a_session(row["n"])]
            for session in _cut_at_gaps(rows):
                total = sum(row["n"] for row in session)
                wanted[key, session[0]["t"], session[-1]["t"] + SESSION_GAP_MS, len(session), total] += 1
        names = ("k", "window_start", "window_end", "rows", "total")
        yield from self._differences("sessions", wanted, Counter(tuple(row[name] for name in names) for row in found))

    @staticmethod
    def _differences(what: str, wanted: Counter[Any], got: Counter[Any]) -> Iterator[str]:
        if got != wanted:
            yield f"{what}: lost {sorted((wanted - got).elements())}, too many {sorted((got - wanted).elements())}"

    def _groups(self, key: Callable[[dict[str, Any]], Any]) -> dict[Any, tuple[int, int]]:
        """Return the number of rows and the total of each group."""
        groups: dict[Any, tuple[int, int]] = {}
        for row in self.records:
            rows, total = groups.get(key(row), (0, 0))
            groups[key(row)] = rows + 1, total + row["n"]
        return groups

    def small(self) -> Iterator[RandomJob]:
        """Yield the same job with a few rows, the smallest first."""
        for rows, parallelism in itertools.product((2, 4, 8), (1, 2)):
            if rows < self.rows and parallelism <= self.parallelism:
                yield replace(self, rows=rows, parallelism=parallelism, splits=parallelism, batch_rows=1, branch="")

    def simpler(self) -> Iterator[RandomJob]:
        """Yield slightly simpler jobs, the largest simplification first."""
        if self.beside:
            yield replace(self, beside=0)
        if self.branch:
            yield replace(self, branch="", two_phase=False)
        for number in range(len(self.stages)):
            yield replace(self, stages=self.stages[:number] + self.stages[number + 1 :])
        for rows in dict.fromkeys([self.rows // 4, self.rows // 2, self.rows - 1]):
            if 0 <= rows < self.rows:
                yield replace(self, rows=rows)
        plain = RandomJob()
        plainer = ["chaining", "credits", "buffer_bytes", "batch_rows", "mode", "hooks", "failover", "on_disk"]
        if self.branch:  # without one, two phases mean nothing
            plainer.insert(0, "two_phase")
        changes: list[dict[str, Any]] = [
            *({name: number} for name in ("splits", "parallelism") for number in range(1, getattr(self, name))),
            *({name: getattr(plain, name)} for name in plainer if getattr(self, name) != getattr(plain, name)),
        ]
        for change in changes:
            yield replace(self, **change)
        given = {name: value for name, value in self.settings.items() if value is not None}
        if len(given) > 1:
            yield replace(self, settings={})
        for name in given:
            without = {key: value for key, value in self.settings.items() if key not in (name, NEEDED_BY.get(name))}
            yield replace(self, settings=without)

    def __str__(self) -> str:
        way = " -> ".join(["source", *self.stages, "sink"])
        if self.branch:
            way += f", and {self.branch}{' in two phases' if self.two_phase else ''}"
        settings = ", ".join(f"{name}={value!r}" for name, value in self.settings.items() if value is not None)
        flow = f"{self.rows} rows in {self.splits} splits, {self.batch_rows} at once"
        shape = f"parallelism {self.parallelism}{'' if self.chaining else ', unchained'}"
        shape += f", {self.credits} credits, buffers of {self.buffer_bytes} B"
        shape += f", {self.hooks} hooks" if self.hooks else ""
        shape += f", {self.beside} rows beside" if self.beside else ""
        shape += ", failover of all tasks" if self.failover == "full" else ""
        shape += ", state on disk" if self.on_disk else ""
        return f"{way}; {flow}; {shape}; {self.mode}{', ' if settings else ''}{settings}"


NAME, ARROW, BESIDE = "random", " -> ", "beside"
NEEDED_BY = {"incremental": "most_runs"}
"""A setting that means nothing without another one, by that one."""
_FIELDS = tuple(each.name for each in fields(RandomJob) if each.name != "settings")


def _rows(count: int) -> list[dict[str, Any]]:
    return [{"n": n, "k": KEYS[n * 7 % len(KEYS)], "t": 2 * n, "number": 0} for n in range(count)]


def _wrong_numbers(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield an error if the rows of a key are not numbered one by one."""
    numbers: dict[str, list[int]] = {}
    for row in rows:
        if row["n"] >= 0:
            numbers.setdefault(row["k"], []).append(row["number"])
    wrong = {key: sorted(each) for key, each in numbers.items() if sorted(each) != [*range(1, len(each) + 1)]}
    if wrong:
        yield f"value state: the rows of a key were numbered {wrong}"


def _branch_off(branch: str, stream: DataStream, two_phase: bool) -> None:
    totals: dict[str, Any] = {"rows": count(), "total": sum_("n")}
    if branch == "totals":
        sums = stream.key_by("k").aggregate(two_phase=two_phase, **totals)
    elif branch == "windows":
        timed = stream.assign_timestamps("t").uid("times").key_by("k")
        sums = timed.window(TumblingEventTimeWindows(WINDOW_MS)).aggregate(two_phase=two_phase, **totals)
    elif branch == "sessions":
        some = stream.filter(lambda row: _is_of_a_session(row["n"])).uid("some")
        timed = some.assign_timestamps("t").uid("times").key_by("k")
        sums = timed.window(EventTimeSessionWindows(SESSION_GAP_MS)).aggregate(**totals)
    else:
        return
    sums.uid(branch).sink_to(CollectSink(branch), uid=f"{branch}-out")


def _is_of_a_session(n: int) -> bool:
    """Return True for all rows but those left out to make gaps; the rows of a key are `5 * 2` ms apart."""
    return n % 25 < 15


def _cut_at_gaps(rows: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the sessions of one key's rows."""
    session: list[dict[str, Any]] = []
    for row in rows:
        if session and row["t"] - session[-1]["t"] > SESSION_GAP_MS:
            yield session
            session = []
        session.append(row)
    if session:
        yield session


def _records_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a frame, with times in ms."""
    times = {name: frame[name].astype("int64") for name in frame.columns if name.startswith("window_")}
    return frame.assign(**times).to_dict("records")
