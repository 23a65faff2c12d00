"""Event time behind an operator with two inputs: windows that follow need no timestamps of their own."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from kit import Lab
from kit.stream.api import StreamEnvironment
from kit.stream.backend.states.descriptors import MapStateDescriptor
from kit.stream.connectors import CollectionSource, CollectSink
from kit.stream.graph.stream_graph import GraphError
from kit.stream.operators.aggregates import count
from kit.stream.operators.functions.broadcast import KeyedBroadcastProcessFunction
from kit.stream.operators.functions.process import KeyedCoProcessFunction
from kit.stream.operators.spec import SchemaError
from kit.stream.operators.windows.window_assigners import SlidingEventTimeWindows, TumblingEventTimeWindows

LEFT = [{"id": number % 3, "at": number * 7} for number in range(60)]
RIGHT = [{"id": number % 3, "paid": number * 5 + 3} for number in range(80)]
RULES = MapStateDescriptor("rules", pa.int64(), pa.int64())
TEN = TumblingEventTimeWindows(10)


def streams() -> tuple[StreamEnvironment, Any, Any]:
    env = StreamEnvironment("shop", parallelism=2)
    left = env.from_source(CollectionSource(LEFT, batch_rows=7), uid="left").assign_timestamps("at")
    right = env.from_source(CollectionSource(RIGHT, batch_rows=7), uid="right").assign_timestamps("paid")
    return env, left, right


def counted(env: StreamEnvironment, windows: Any) -> Counter[tuple[int, int]]:
    """The rows per key and start of a window, after a run that drops none."""
    windows.aggregate(rows=count()).sink_to(CollectSink(), uid="out")
    lab = Lab(env, seed=1)
    lab.run()
    assert lab.look.late_rows_dropped == {}
    return Counter({(row["id"], row["window_start"]): row["rows"] for row in lab.output().to_dict("records")})


def pairs(lower: int, upper: int) -> list[tuple[int, int, int]]:
    return [
        (one["id"], one["at"], other["paid"])
        for one in LEFT
        for other in RIGHT
        if one["id"] == other["id"] and lower <= other["paid"] - one["at"] <= upper
    ]


@pytest.mark.parametrize(("lower", "upper"), [(-20, 20), (0, 20), (-20, 0), (-30, -10)])
def test_a_pair_of_an_interval_join_has_the_later_time_of_its_rows(lower: int, upper: int) -> None:
    env, left, right = streams()
    joined = left.key_by("id").interval_join(right.key_by("id")).between(lower, upper).join()
    expected = Counter((key, max(at, paid) // 10 * 10) for key, at, paid in pairs(lower, upper))
    assert counted(env, joined.key_by("id").window(TEN)) == expected


def test_the_time_of_a_pair_goes_through_another_join_and_under_new_names() -> None:
    env, left, right = streams()
    joined = left.key_by("id").interval_join(right.key_by("id")).between(-20, 20).join()
    joined = joined.rename(at="began", paid="ended").filter(lambda row: row["id"] < 2)
    again = joined.key_by("id").interval_join(right.rename(paid="then").key_by("id")).between(0, 5).join()
    expected = Counter(
        (key, other["paid"] // 10 * 10)
        for key, at, paid in pairs(-20, 20)
        for other in RIGHT
        if key < 2 and other["id"] == key and 0 <= other["paid"] - max(at, paid) <= 5
    )
    assert counted(env, again.key_by("id").window(TEN)) == expected


def test_a_pair_without_one_of_its_times_has_none() -> None:
    _, left, right = streams()
    joined = left.key_by("id").interval_join(right.key_by("id")).between(-20, 20).join().select("id", "at")
    with pytest.raises(SchemaError, match="'paid'"):
        joined.key_by("id").window(TEN).aggregate(count())


@pytest.mark.parametrize("assigner", [TumblingEventTimeWindows(40), SlidingEventTimeWindows(40, 20)])
def test_a_pair_of_a_window_join_has_the_time_of_its_window(assigner) -> None:
    env, left, right = streams()
    joined = left.join(right).where("id").equal_to("id").window(assigner).join(window_time="over")
    slide = getattr(assigner, "slide_ms", 40)
    expected: Counter[tuple[int, int]] = Counter()
    for start in range(-40, 500, slide):
        for one in LEFT:
            for other in RIGHT:
                if one["id"] == other["id"] and {one["at"], other["paid"]} <= set(range(start, start + 40)):
                    expected[one["id"], (start + 39) // 10 * 10] += 1
    assert counted(env, joined.key_by("id").window(TEN)) == expected


def test_windows_behind_a_window_join_without_a_column_of_its_time_are_refused() -> None:
    _, left, right = streams()
    joined = left.join(right).where("id").equal_to("id").window(TEN).join()
    with pytest.raises(GraphError, match="needs event time"):
        joined.key_by("id").window(TEN).aggregate(count())
    with pytest.raises(SchemaError, match="two output columns are named 'at'"):
        left.join(right).where("id").equal_to("id").window(TEN).join(window_time="at")


class Both(KeyedCoProcessFunction):
    def process_element1(self, row, ctx) -> None:
        ctx.emit(row)

    def process_element2(self, row, ctx) -> None:
        ctx.emit({"id": row["id"], "at": row["paid"]})


class Ruled(KeyedBroadcastProcessFunction):
    def process_element(self, row, ctx) -> None:
        ctx.emit(row)

    def process_broadcast_element(self, row, ctx) -> None:
        ctx.broadcast_state(RULES).put(row["id"], row["paid"])


def test_a_function_of_two_streams_keeps_the_time_whose_column_it_makes() -> None:
    env, left, right = streams()
    both = left.key_by("id").connect(right.key_by("id")).process(Both)
    expected = Counter((row["id"], row["at"] // 10 * 10) for row in LEFT)
    expected += Counter((row["id"], row["paid"] // 10 * 10) for row in RIGHT)
    assert counted(env, both.key_by("id").window(TEN)) == expected


def test_a_broadcast_stream_without_event_time_leaves_that_of_the_other_as_it_is() -> None:
    env = StreamEnvironment("shop", parallelism=2)
    left = env.from_source(CollectionSource(LEFT, batch_rows=7), uid="left").assign_timestamps("at")
    rules = env.from_source(CollectionSource(RIGHT), uid="rules")
    ruled = left.key_by("id").connect(rules.broadcast(RULES)).process(Ruled)
    expected = Counter((row["id"], row["at"] // 10 * 10) for row in LEFT)
    assert counted(env, ruled.key_by("id").window(TEN)) == expected
