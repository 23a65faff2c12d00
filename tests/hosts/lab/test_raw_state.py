"""Raw state: a function writes bytes of its own into a checkpoint, and has them again after failures and rescales."""

from __future__ import annotations

import struct
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from kit import (
    CheckpointConfig,
    CheckpointedFunction,
    CollectionSource,
    CollectSink,
    FixedDelay,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedProcessFunction,
    KeyedProcessFunctionContext,
    Lab,
    NoRestart,
    ProcessFunction,
    ProcessFunctionContext,
    RetentionPolicy,
    StreamEnvironment,
)
from kit.hosts.lab.errors import LabError
from kit.run.redistribution import redistribution
from kit.stream.backend.keys.key_hashing import key_groups

ROWS = 240
KEYS = [f"k{number}" for number in range(11)]
MAX_PARALLELISM = 16
SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64())])
COUNTED = pa.schema([("k", pa.string()), ("rows", pa.int64())])
ALL_ROWS = [{"k": KEYS[n * n % len(KEYS)], "n": n} for n in range(ROWS)]
GROUPS = dict(zip(KEYS, key_groups(pa.array(KEYS), MAX_PARALLELISM).tolist(), strict=True))
BEGAN: list[tuple[int, list[int], int]] = []
"""Of each subtask that was restored: the parallelism, the key groups it was given, and the number of its partitions."""


class Counting(KeyedProcessFunction, CheckpointedFunction):
    """Counts rows by key in a dict of its own: raw keyed state. Remembers all numbers seen: raw operator state."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.counts: Counter[str] = Counter()
        self.seen: list[int] = []
        groups = []
        for key_group, stream in context.raw_keyed_state_inputs:
            groups.append(key_group)
            (entries,) = struct.unpack(">i", stream.read(4))
            for _ in range(entries):
                (length,) = struct.unpack(">H", stream.read(2))
                key = stream.read(length).decode()
                (self.counts[key],) = struct.unpack(">q", stream.read(8))
        for stream in context.raw_operator_state_inputs:
            self.seen += struct.unpack(">q", stream.read(8))
        if context.is_restored:
            BEGAN.append((context.parallelism, groups, len(self.seen)))

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        out = context.raw_keyed_state_output
        for key_group in out.key_groups:
            mine = {key: rows for key, rows in self.counts.items() if GROUPS[key] == key_group}
            if mine:
                out.start_new_key_group(key_group)
                out.write(struct.pack(">i", len(mine)))
                for key, rows in sorted(mine.items()):
                    out.write(struct.pack(">H", len(key)) + key.encode() + struct.pack(">q", rows))
        for number in self.seen:
            context.raw_operator_state_output.start_new_partition()
            context.raw_operator_state_output.write(struct.pack(">q", number))

    def process_element(self, row: dict[str, Any], ctx: KeyedProcessFunctionContext) -> None:
        self.counts[row["k"]] += 1
        self.seen.append(row["n"])
        ctx.emit({"k": row["k"], "rows": self.counts[row["k"]]})


def environment(parallelism: int, **settings: Any) -> StreamEnvironment:
    env = StreamEnvironment(
        "raw",
        parallelism=parallelism,
        max_parallelism=MAX_PARALLELISM,
        checkpoint=CheckpointConfig(interval_ms=20, retention=RetentionPolicy.RETAIN_ON_CANCELLATION, **settings),
        restart=FixedDelay(3, 1),
    )
    rows = env.from_source(CollectionSource(ALL_ROWS, SCHEMA, splits=4, batch_rows=4), uid="rows")
    counted = rows.key_by("k").process(Counting, returns=COUNTED).uid("counting")
    counted.sink_to(CollectSink("out"), uid="out")
    return env


@pytest.fixture(autouse=True)
def _none_began() -> None:
    BEGAN.clear()


def check_output(lab: Lab) -> None:
    """Check that each key was counted from 1 to the number of its rows, each number once."""
    published = Counter((row.k, row.rows) for row in lab.output().itertuples())
    expected = Counter(row["k"] for row in ALL_ROWS)
    assert published == Counter({(key, n): 1 for key, rows in expected.items() for n in range(1, rows + 1)})


@pytest.mark.parametrize("local_recovery", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_raw_state_survives_a_failure(seed: int, local_recovery: bool) -> None:
    lab = Lab(environment(2, local_recovery=local_recovery), seed=seed)
    lab.run_until(checkpoint=2)
    lab.faults.kill(1)
    lab.run()
    assert len(BEGAN) == 2
    check_output(lab)


@pytest.mark.parametrize("seed", range(3))
def test_raw_keyed_state_is_cut_by_key_groups_and_raw_operator_state_is_dealt_out(seed: int) -> None:
    lab = Lab(environment(1), seed=seed)
    lab.run_until(checkpoint=1)
    for parallelism in (3, 2):
        request = lab.stop()
        lab.run()
        path = lab.look.answer(request)
        BEGAN.clear()
        lab = Lab(environment(parallelism), seed=seed, restore_path=path, after=lab)
        lab.run_until(lambda lab, wanted=parallelism: len(BEGAN) == wanted)
        assert [began[0] for began in BEGAN] == [parallelism] * parallelism
        lab.run_until(record="CheckpointCompleted")
        groups = [key_group for _, mine, _ in BEGAN for key_group in mine]
        assert len(groups) == len(set(groups)) > 0, "a key group went to two subtasks"
        partitions = [count for _, _, count in BEGAN]
        assert max(partitions) - min(partitions) <= 1, "the partitions are not evenly split"
        given = redistribution(lab)
        assert {"raw keyed", "raw operator"} <= set(given["kind"])
    lab.run()
    check_output(lab)


class Forgetful(ProcessFunction, CheckpointedFunction):
    """Writes raw operator state and does not read it."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        pass

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        context.raw_operator_state_output.write(b"hello")

    def process_element(self, row: dict[str, Any], ctx: ProcessFunctionContext) -> None:
        ctx.emit(row)


def test_raw_state_that_nobody_reads_is_no_secret() -> None:
    env = StreamEnvironment("forgetful", checkpoint=CheckpointConfig(interval_ms=20), restart=FixedDelay(1, 1))
    rows = env.from_source(CollectionSource(ALL_ROWS, SCHEMA, batch_rows=4), uid="rows")
    rows.process(Forgetful).uid("forgets").sink_to(CollectSink("out"), uid="out")
    lab = Lab(env)
    lab.run_until(checkpoint=1)
    lab.faults.kill(0)
    with pytest.raises(
        LabError, match=r"was given 5 B of raw operator state of checkpoint \d+, and did not ask for it"
    ):
        lab.run()


class Unkeyed(Forgetful):
    """Asks for what only a keyed stream has."""

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        context.raw_keyed_state_output.write(b"hello")


def test_without_a_key_there_is_no_raw_keyed_state() -> None:
    env = StreamEnvironment("unkeyed", checkpoint=CheckpointConfig(interval_ms=10), restart=NoRestart())
    rows = env.from_source(CollectionSource(ALL_ROWS, SCHEMA, batch_rows=4), uid="rows")
    rows.process(Unkeyed).sink_to(CollectSink("out"), uid="out")
    with pytest.raises(LabError, match=r"has no raw keyed state, as it has no key: use key_by\(\) before it"):
        Lab(env).run()
