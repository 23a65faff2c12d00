"""Jobs whose state has a TTL, in a lab: time is virtual, and expiry is a step."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import kit
from kit import (
    AggregatingStateDescriptor,
    BatchContext,
    CheckpointConfig,
    CollectionSource,
    CollectSink,
    KeyedBatchFunction,
    KeyedProcessFunction,
    KeyedProcessFunctionContext,
    Lab,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    StreamEnvironment,
    ValueStateDescriptor,
)
from tests.stream.backend.test_keyed_states import TOTALS, Average


class Deduplicate(KeyedProcessFunction):
    """Emits a row unless the last one that it emitted with this key is younger than two seconds."""

    SEEN = ValueStateDescriptor("seen", pa.bool_(), ttl=StateTtlConfig("2s"))

    def process_element(self, row: dict[str, Any], ctx: KeyedProcessFunctionContext) -> None:
        seen: Any = ctx.state(self.SEEN)
        if seen.value() is None:
            seen.update(True)
            ctx.emit({"k": row["k"], "n": row["n"], "at": ctx.timer_service.current_processing_time_ms})


class DeduplicateInBatches(KeyedBatchFunction):
    """Does the same with columns."""

    SEEN = Deduplicate.SEEN

    def process_batch(self, batch: pa.RecordBatch, ctx: BatchContext) -> Any:
        seen = ctx.state(self.SEEN)
        new = pa.compute.and_(seen.get().is_null(), pa.array(ctx.rows_before == 0))
        seen.update(True, where=new)
        fresh = batch.filter(new)
        return {"k": fresh["k"], "n": fresh["n"], "at": [ctx.current_processing_time_ms] * fresh.num_rows}


class RememberForever(Deduplicate):
    """The next version of the job, without a TTL."""

    SEEN = ValueStateDescriptor("seen", pa.bool_())


def job(function: Any = Deduplicate, rows: int = 12, **settings: Any) -> StreamEnvironment:
    """Rows of three keys in turn, one every half second."""
    env = StreamEnvironment("deduplicated", checkpoint=CheckpointConfig(interval_ms=700), **settings)
    made = [{"k": "abc"[n % 3], "n": n} for n in range(rows)]
    source = env.from_source(CollectionSource(made, splits=1, batch_rows=1, rows_per_second=2), uid="rows")
    returns = {"k": pa.string(), "n": pa.int64(), "at": pa.int64()}
    keyed = source.key_by("k")
    process = keyed.process_batches if issubclass(function, KeyedBatchFunction) else keyed.process
    process(function, returns).uid("dedup").sink_to(CollectSink("out"), uid="out")
    return env


def emitted(lab: Lab) -> list[int]:
    return sorted(lab.output("out")["n"].tolist())


@pytest.mark.parametrize("function", [Deduplicate, DeduplicateInBatches])
@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_key_is_new_again_when_its_state_has_expired(function: type, parallelism: int) -> None:
    lab = Lab(job(function, parallelism=parallelism))
    lab.run()
    found = lab.output("out").sort_values("n")
    assert found["n"].tolist() == [0, 1, 2, 6, 7, 8], "rows 3 to 5 come 1.5 s after the first of their key"
    by_key = found.groupby("k")["at"].agg(lambda at: at.max() - at.min())
    assert (by_key >= 2_000).all()


def test_expiry_is_a_step() -> None:
    lab = Lab(job())
    lab.run_until(lambda lab: len(lab.output("out")) >= 3)
    held = lab.state()["seen"].set_index("key")
    assert held["value"].tolist() == [True] * 3
    written = lab.output("out").set_index("k")["at"]
    for key in "abc":
        assert held["last_access"][key] == pd.Timestamp(written[key], unit="ms", tz="UTC")
    lab.wait_until(int(written["c"]) + 2_000)
    assert len(lab.state()["seen"]) == 3, "nothing is removed until the state is accessed"
    lab.run_until(lambda lab: len(lab.state()["seen"]) < 3)
    assert len(lab.state()["seen"]) == 1, "the access to one key removed the others, and wrote its own"
    before = lab.position
    lab.back()
    assert len(lab.state()["seen"]) == 3
    lab.goto(before)
    assert len(lab.state()["seen"]) == 1


class Report(KeyedProcessFunction):
    """Emits each row with its time, and whether its key was new."""

    def process_element(self, row: dict[str, Any], ctx: KeyedProcessFunctionContext) -> None:
        seen: Any = ctx.state(Deduplicate.SEEN)
        now_ms = ctx.timer_service.current_processing_time_ms
        ctx.emit({"k": row["k"], "n": row["n"], "at": now_ms if seen.value() is None else -now_ms})
        if seen.value() is None:
            seen.update(True)


def test_a_restart_and_a_rescale_keep_the_times() -> None:
    lab = Lab(job(Report, rows=24, parallelism=2))
    for at_ms, happens in ((1_200, lambda: lab.rescale(3)), (1_700, lambda: lab.faults.kill(0)), (4_000, None)):
        lab.run_until(at_ms=at_ms)
        if happens is not None:
            happens()
    lab.run()
    found = lab.output("out").sort_values("n")
    assert found["n"].tolist() == [*range(24)]
    written: dict[str, int] = {}
    for row in found.itertuples():
        is_new = row.k not in written or written[row.k] + 2_000 <= abs(row.at)
        assert is_new == (row.at > 0), row
        if is_new:
            written[row.k] = row.at
    assert {True, False} == set(found["at"][3:] > 0), "some keys have expired, and some have not"


def test_a_checkpoint_shows_when_each_entry_was_accessed() -> None:
    lab = Lab(job())
    lab.run_until(lambda lab: len(lab.output("out")) >= 3)
    times = lab.output("out").set_index("k")["at"].to_dict()
    saved = kit.open_checkpoint(lab.savepoint(wait=True), file_system=lab.look.files.filesystem)
    found = saved.state("dedup", "seen").to_pandas().set_index("key")
    assert list(found.columns) == ["key_group", "value", "last_access"]
    assert found["last_access"].to_dict() == {key: pd.Timestamp(at, unit="ms", tz="UTC") for key, at in times.items()}
    assert "Ttl<bool>" in saved.states["value"].tolist()


@pytest.mark.parametrize(
    ("before", "after", "change", "rows"),
    [
        (Deduplicate, RememberForever, "TTL was switched off: entries live on", [0, 1, 2]),
        (RememberForever, Deduplicate, "TTL was switched on: entries expire from now on", [0, 1, 2, 7, 8, 9]),
    ],
)
def test_ttl_is_switched_on_or_off_by_a_restore(before: type, after: type, change: str, rows: list[int]) -> None:
    first = Lab(job(before))
    first.run_until(lambda lab: len(lab.output("out")) >= 3)
    savepoint = first.stop(wait=True)
    saved = kit.open_checkpoint(savepoint, file_system=first.look.files.filesystem)
    newer = job(after)
    assert saved.check(newer).restores
    assert change in str(saved.check(newer))
    assert change not in str(saved.check(job(before)))
    second = Lab(newer, restore_path=savepoint, after=first)
    second.run()
    assert emitted(second) == rows


def test_checkpoints_are_compared_with_their_ttl_and_their_times() -> None:
    lab, plain = Lab(job()), Lab(job(RememberForever))
    saved = []
    for each, at_ms in ((lab, 1_200), (lab, 4_000), (plain, 1_200)):
        each.run_until(at_ms=at_ms)
        path = each.savepoint(wait=True)
        saved.append(kit.open_checkpoint(path, file_system=each.look.files.filesystem))
    first, second, without = saved
    assert "TTL was switched off" in str(first.check(without))
    assert "TTL was switched on" in str(without.check(first))
    assert "TTL" not in str(first.check(second))
    changes = first.diff(second).states.set_index("name")["changed"]
    assert changes["seen"] == 3, "the values are equal, and the times are not"


class EveryKind(KeyedProcessFunction):
    """Keeps state of every kind with a TTL, and emits what each read returns."""

    TTL = StateTtlConfig("1s", update_type="on_read_and_write", cleanup_full_snapshot=True)
    VALUE = ValueStateDescriptor("value", pa.int64(), ttl=StateTtlConfig("1s"))
    LIST = ListStateDescriptor("list", pa.int64(), ttl=StateTtlConfig("1s"))
    MAP = MapStateDescriptor("map", pa.string(), pa.int64(), ttl=TTL)
    REDUCING = ReducingStateDescriptor("reducing", pa.int64(), "sum", ttl=TTL)
    AGGREGATING = AggregatingStateDescriptor("aggregating", TOTALS, Average(), ttl=StateTtlConfig("1s"))

    def process_element(self, row: dict[str, Any], ctx: KeyedProcessFunctionContext) -> None:
        value, listed, mapped, total, mean = (
            ctx.state(each) for each in (self.VALUE, self.LIST, self.MAP, self.REDUCING, self.AGGREGATING)
        )
        found = str([value.value(), listed.get(), mapped.items(), total.get(), mean.get()])
        ctx.emit({"k": row["k"], "n": row["n"], "found": found})
        if row["n"] % 4 < 2:
            value.update(row["n"])
            listed.add(row["n"])
            mapped.put(f"m{row['n'] % 5}", row["n"])
            total.add(row["n"])
            mean.add(row["n"])


def test_a_lab_goes_back_and_forth_over_state_of_every_kind_that_expires() -> None:
    env = StreamEnvironment("every kind", parallelism=2, checkpoint=CheckpointConfig(interval_ms=300))
    rows = [{"k": "abc"[n % 3], "n": n} for n in range(24)]
    source = env.from_source(CollectionSource(rows, splits=1, batch_rows=1, rows_per_second=4), uid="rows")
    made = source.key_by("k").process(EveryKind, {"k": pa.string(), "n": pa.int64(), "found": pa.string()})
    made.uid("kinds").sink_to(CollectSink("out"), uid="out")
    lab = Lab(env)
    lab.run_until(at_ms=2_600)
    here, middle = lab.position, _state_of(lab)
    fork = lab.fork()
    lab.run()
    there, end = lab.position, _output_of(lab)
    assert any("[None, [], [(" in each for each in end), "values expire, and a map lives on by being read"
    lab.goto(here)
    assert _state_of(lab) == middle
    lab.goto(there)
    assert _output_of(lab) == end
    fork.run()
    assert _output_of(fork) == end


def _state_of(lab: Lab) -> dict[str, str]:
    return {name: str(lab.state()[name].to_dict()) for name in ("value", "list", "map", "reducing", "aggregating")}


def _output_of(lab: Lab) -> list[str]:
    return [str(row) for row in lab.output("out").sort_values("n").to_dict("records")]
