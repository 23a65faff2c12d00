"""Keys, timers' keys and operator state of every Arrow type: as they were after each rescale, or refused."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from kit import (
    CheckpointedFunction,
    CollectionSource,
    CollectSink,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ProcessFunction,
    StreamEnvironment,
    ValueStateDescriptor,
    count,
    max_,
)
from tests.arrow_values import LEAVES, NESTED, column
from tests.hosts.lab.test_types import environment, may_be_refused, parts, refusal, run_and_rescale
from tests.properties import examples_of_each


class CountKeys(KeyedProcessFunction):
    """Says at the end of event time how many rows each key had."""

    ROWS = ValueStateDescriptor("rows", pa.int64(), default=0)

    def process_element(self, row: dict[str, Any], ctx: Any) -> None:
        rows = ctx.state(self.ROWS)
        rows.update(rows.value() + 1)
        ctx.timer_service.register_event_time_timer(10_000)

    def on_timer(self, timestamp_ms: int, ctx: Any) -> None:
        key = ctx.current_key
        keys = key if isinstance(key, dict) and "v" in key else {"v": key}
        ctx.emit({"v": keys["v"], "rows": ctx.state(self.ROWS).value()})


def cannot_be_a_key(arrow_type: pa.DataType) -> bool:
    """Return True if some part has no hash code in Java, or no value in Python."""
    return may_be_refused(arrow_type) or any(
        pa.types.is_null(part)
        or pa.types.is_float16(part)
        or pa.types.is_interval(part)
        or (pa.types.is_nested(part) and not pa.types.is_struct(part) and not pa.types.is_run_end_encoded(part))
        for part in parts(arrow_type)
    )


def rows_with_keys(name: str, data: st.DataObject) -> pa.RecordBatch:
    """Return rows in which each key except null occurs twice."""
    keys = column(data.draw, 4, name)
    if isinstance(keys, pa.RunEndEncodedArray):
        keys = pc.run_end_decode(keys)
    elif pa.types.is_string_view(keys.type) or pa.types.is_binary_view(keys.type):
        keys = keys.cast(pa.string() if pa.types.is_string_view(keys.type) else pa.binary())
    rows = [row for row in range(4) if keys[row].is_valid]
    if pa.types.is_dictionary(keys.type):
        rows = [row for row in rows if keys.dictionary[keys.indices[row].as_py()].is_valid]
    twice = pa.concat_arrays([keys.slice(row, 1) for row in [*rows, *rows]] or [keys.slice(0, 0)])
    return pa.record_batch([pa.array(range(len(twice)), pa.int64()), twice], names=["n", "v"])


@pytest.mark.parametrize("name", [*LEAVES, *NESTED])
@pytest.mark.parametrize("columns", [("v",), ("v", "k")], ids=["one column", "two columns"])
@settings(max_examples=examples_of_each(2), deadline=None, phases=[Phase.generate])
@given(st.data())
def test_keys_of_any_type_have_their_state_timers_and_totals(
    name: str, columns: tuple[str, ...], data: st.DataObject
) -> None:
    batch = rows_with_keys(name, data)
    batch = batch.append_column("k", pa.array([7] * batch.num_rows, pa.int64()))
    arrow_type = batch.schema.field("v").type

    def job(parallelism: int) -> StreamEnvironment:
        env = environment(batch, parallelism)
        rows = env.from_source(CollectionSource(batch, batch_rows=1), uid="rows").assign_timestamps("n").uid("times")
        keyed = rows.key_by(*columns)
        counted = keyed.process(CountKeys, {"v": rows.schema.field("v").type, "rows": pa.int64()}).uid("count")
        counted.sink_to(CollectSink("counted"), uid="counted")
        totals = keyed.aggregate(rows=count(), last=max_("n"), emit="final").uid("totals")
        totals.select("v", "rows").sink_to(CollectSink("totals"), uid="out")
        return env

    refused = refusal(job)
    if refused is not None:
        assert cannot_be_a_key(arrow_type), refused
        assert "use " in refused or "cast it" in refused or "another name" in refused
        return
    _, found = run_and_rescale(job, data)
    expected = Counter(repr(value) for value in batch.column("v").to_pylist())
    given_twice = sorted([*expected.items(), *expected.items()])  # by timers, and by totals
    assert sorted((repr(row["v"]), row["rows"]) for row in found) == given_twice


FOUND: list[tuple[int, int | None, list[str], list[str], list[str]]] = []
KEPT: dict[tuple[int, int], list[tuple[list[str], list[str]]]] = {}


def remembering(arrow_type: pa.DataType) -> type:
    """A function that keeps its rows in operator state, in the three modes."""
    listed = ListStateDescriptor("listed", arrow_type)
    union = ListStateDescriptor("union", arrow_type)
    everywhere = MapStateDescriptor("everywhere", pa.string(), arrow_type)

    class Remember(ProcessFunction, CheckpointedFunction):
        def initialize_state(self, context: Any) -> None:
            states = context.operator_state
            self.listed, self.union = states.list_state(listed), states.union_list_state(union)
            self.everywhere = states.broadcast_state(everywhere)
            self.parallelism = context.parallelism
            self.own: list[Any] = []
            found = (self.listed.get(), self.union.get(), self.everywhere.items())
            texts = [list(map(repr, values)) for values in found]
            FOUND.append((context.parallelism, context.restored_checkpoint_id, *texts))
            self.union.clear()

        def process_element(self, row: dict[str, Any], ctx: Any) -> None:
            if row["v"] is not None:
                self.listed.add(row["v"])
                self.union.add(row["v"])
                self.everywhere.put("last", row["v"])
            ctx.emit({"n": row["n"]})

        def snapshot_state(self, context: Any) -> None:
            kept = (list(map(repr, self.listed.get())), list(map(repr, self.union.get())))
            KEPT.setdefault((self.parallelism, context.checkpoint_id), []).append(kept)

    return Remember


@pytest.mark.parametrize("name", [*LEAVES, *NESTED])
@settings(max_examples=examples_of_each(2), deadline=None, phases=[Phase.generate])
@given(st.data())
def test_operator_state_of_any_type_is_dealt_out_as_it_was(name: str, data: st.DataObject) -> None:
    FOUND.clear()
    KEPT.clear()
    batch = pa.record_batch([pa.array(range(6)), column(data.draw, 6, name)], names=["n", "v"])
    arrow_type = batch.schema.field("v").type

    def job(parallelism: int) -> StreamEnvironment:
        env = environment(batch, parallelism)
        rows = env.from_source(CollectionSource(batch, batch_rows=1), uid="rows").rebalance()
        rows.process(remembering(arrow_type), {"n": pa.int64()}).uid("remember").sink_to(CollectSink("out"), uid="out")
        return env

    refused = refusal(job)
    if refused is not None:
        assert may_be_refused(arrow_type), refused
        return
    _, found = run_and_rescale(job, data)
    assert sorted(row["n"] for row in found) == list(range(6))
    before = 1
    for parallelism in (3, 2):
        begun = [each for each in FOUND if each[0] == parallelism]
        if not begun:
            return  # the job had ended before
        if begun[0][1] is None:  # nothing was kept
            assert [each[2:] for each in begun] == [([], [], [])] * parallelism
            return
        kept = KEPT[before, begun[0][1]]
        assert Counter(value for each in begun for value in each[2]) == Counter(v for listed, _ in kept for v in listed)
        everything = Counter(value for _, union in kept for value in union)
        assert all(Counter(each[3]) == everything for each in begun)
        assert len({tuple(each[4]) for each in begun}) == 1
        before = parallelism
