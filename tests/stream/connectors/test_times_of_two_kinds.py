"""Datetimes with a time zone and without one are moments and local times: no column and no window has both."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from kit import (
    CollectionSource,
    CollectSink,
    CoProcessFunction,
    KeyedBatchFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    Lab,
    OutputTag,
    ProcessFunction,
    StreamEnvironment,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    count,
)

NAIVE = dt.datetime(2024, 5, 1, 12, 30)  # noqa: DTZ001 (local time is the point)
AWARE = NAIVE.replace(tzinfo=dt.UTC)
LOCAL = {"k": pa.string(), "at": pa.timestamp("us")}
MOMENTS = {"k": pa.string(), "at": pa.timestamp("us", "UTC")}
KINDS = {"local first": (NAIVE, AWARE), "moments first": (AWARE, NAIVE)}


def rows(*times: Any) -> list[dict[str, Any]]:
    return [{"k": "a", "at": at} for at in times]


def stream(*times: Any, env: StreamEnvironment | None = None) -> Any:
    env = env or StreamEnvironment("times", parallelism=1)
    return env, env.from_source(CollectionSource(rows(*times), splits=1))


def run(env: StreamEnvironment, made: Any) -> None:
    made.uid("made").sink_to(CollectSink("out"))
    Lab(env).run()


# --- in one source ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("given", [list, pd.DataFrame, lambda rows: pd.DataFrame(rows, dtype=object)])
def test_a_source_has_one_kind(kinds: str, given: Callable[[list[dict[str, Any]]], Any]) -> None:
    one, other = KINDS[kinds]
    with pytest.raises(ValueError, match=r"(?s)row 2, column 'at': .* time zone.*, and the column has"):
        CollectionSource(given(rows(one, one, other)))


@pytest.mark.parametrize("columns", [LOCAL, MOMENTS])
def test_a_source_has_the_kind_that_was_declared(columns: dict[str, pa.DataType]) -> None:
    wrong, right = (AWARE, NAIVE) if columns is LOCAL else (NAIVE, AWARE)
    schema = pa.schema(list(columns.items()))
    assert CollectionSource(rows(right), schema).schema.equals(schema)
    with pytest.raises(ValueError, match=r"row 0, column 'at': .* does not fit timestamp.* time zone"):
        CollectionSource(rows(wrong), schema)
    with pytest.raises(ValueError, match=r"column 'at' is .* differs in having a time zone"):
        CollectionSource(pd.DataFrame(rows(wrong)), schema)


def test_dates_and_datetimes_are_two_kinds() -> None:
    with pytest.raises(ValueError, match=r"row 1, column 'at': .* it is a datetime, and the column has dates"):
        CollectionSource(rows(NAIVE.date(), NAIVE))
    with pytest.raises(ValueError, match=r"row 1, column 'at': .* it is a date, and the column has datetimes"):
        CollectionSource(rows(NAIVE, NAIVE.date()))
    with pytest.raises(
        ValueError, match=r"row 1, column 'at': .* it is a number without a unit, and the column has timestamp"
    ):
        CollectionSource(rows(NAIVE, 1_714_566_600_000))


def test_a_missing_time_of_pandas_is_null() -> None:
    assert CollectionSource(rows(NAIVE, pd.NaT)).slice(0, 2)["at"].to_pylist() == [NAIVE, None]
    assert CollectionSource(pd.DataFrame(rows(NAIVE, pd.NaT))).slice(0, 2)["at"].to_pylist() == [NAIVE, None]


# --- in a function ----------------------------------------------------------------------------------------------------

SEEN = ValueStateDescriptor("seen", pa.timestamp("us"))
ASIDE = OutputTag("aside", LOCAL)


def aware(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "at": row["at"].replace(tzinfo=dt.UTC)}


class Emits(ProcessFunction):
    def process_element(self, row, ctx):
        ctx.emit(aware(row))


class SetsAside(ProcessFunction):
    def process_element(self, row, ctx):
        ctx.output(ASIDE, aware(row))


class Keeps(KeyedProcessFunction):
    def process_element(self, row, ctx):
        ctx.state(SEEN).update(aware(row)["at"])


class EmitsLists(KeyedBatchFunction):
    def process_batch(self, batch, ctx):
        yield {"k": batch["k"], "at": [aware(row)["at"] for row in batch.to_pylist()]}


class EmitsArrays(KeyedBatchFunction):
    def process_batch(self, batch, ctx):
        yield {"k": batch["k"], "at": batch["at"].cast(pa.timestamp("us", "UTC"))}


MAKERS: dict[str, Callable[[Any], Any]] = {
    "map": lambda rows: rows.map(aware),
    "map of arguments": lambda rows: rows.map(
        lambda k, at: (k, at.replace(tzinfo=dt.UTC)), LOCAL, arguments=("k", "at")
    ),
    "flat_map": lambda rows: rows.flat_map(lambda row: [aware(row)]),
    "process": lambda rows: rows.process(Emits),
    "side output": lambda rows: rows.process(SetsAside),
    "state": lambda rows: rows.key_by("k").process(Keeps),
    "batches of lists": lambda rows: rows.key_by("k").process_batches(EmitsLists),
    "batches of arrays": lambda rows: rows.key_by("k").process_batches(EmitsArrays),
    "reduce": lambda rows: rows.key_by("k").reduce(lambda one, other: aware(one)),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_a_function_makes_the_kind_of_its_column(maker: str) -> None:
    env, local = stream(NAIVE, NAIVE)
    with pytest.raises(Exception, match=r"(?s)(timestamp\[us\]|column 'at').*time zone"):
        run(env, MAKERS[maker](local))


def test_a_function_does_not_lose_a_fraction_or_a_time_of_day() -> None:
    env = StreamEnvironment("means")
    numbers = env.from_source(CollectionSource([{"n": n} for n in range(4)]))
    with pytest.raises(Exception, match=r"column 'n' is int64, and 0.5 \(float\) does not fit: it has a fraction"):
        run(env, numbers.map(lambda row: {"n": row["n"] / 2}))
    env = StreamEnvironment("days")
    days = env.from_source(CollectionSource([{"day": NAIVE.date()}]))
    with pytest.raises(Exception, match=r"column 'day' is date32\[day\], .*: it is a datetime"):
        run(env, days.map(lambda row: {"day": NAIVE}))


# --- in two inputs ----------------------------------------------------------------------------------------------------


def two(one: Any, other: Any) -> tuple[Any, Any]:
    env, first = stream(one)
    _, second = stream(other, env=env)
    second = second.rename(k="q", at="when")
    return first.assign_timestamps("at"), second.assign_timestamps("when")


TOGETHER: dict[str, Callable[[Any, Any], Any]] = {
    "interval join": lambda one, other: one.key_by("k").interval_join(other.key_by("q")).between(0, 10).join(),
    "window join": lambda one, other: (
        one.join(other).where("k").equal_to("q").window(TumblingEventTimeWindows(10)).join()
    ),
    "connect": lambda one, other: one.connect(other).process(CoProcessFunction),
    "connect keyed": lambda one, other: one.key_by("k").connect(other.key_by("q")).process(KeyedCoProcessFunction),
}


@pytest.mark.parametrize("together", TOGETHER)
@pytest.mark.parametrize("kinds", KINDS)
def test_two_streams_have_one_kind_of_event_time(together: str, kinds: str) -> None:
    said = r"event time of the first stream is column 'at' \(timestamp\[us.*\), and 'when' of the second .* time zone"
    with pytest.raises(ValueError, match=said):
        TOGETHER[together](*two(*KINDS[kinds]))
    assert TOGETHER[together](*two(NAIVE, NAIVE)).schema.names[:2] == ["k", "at"]
    assert TOGETHER[together](*two(AWARE, AWARE)).schema.names[:2] == ["k", "at"]


def test_a_union_has_one_kind() -> None:
    env, first = stream(NAIVE)
    _, second = stream(AWARE, env=env)
    with pytest.raises(ValueError, match=r"union: column 'at' is timestamp\[us\] in one stream and timestamp\[us, tz="):
        first.union(second)
    env, first = stream(NAIVE)
    third = first.map(dict)
    counts = first.union(third).assign_timestamps("at").key_by("k").window(TumblingEventTimeWindows(10))
    run(env, counts.aggregate(n=count()))
