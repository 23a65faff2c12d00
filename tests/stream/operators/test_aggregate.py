"""Running totals: the same as pandas', for any batches and any failures in between."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.stream.operators.aggregate import KeyedAggregate
from kit.stream.operators.aggregates import avg, count, max_, min_, sum_
from kit.stream.operators.spec import SchemaError
from tests.properties import examples
from tests.stream.operators.harness import Harness, Row, restored

FLIGHTS = pa.schema(
    [("carrier", pa.string()), ("number", pa.int32()), ("delay", pa.int64()), ("distance", pa.float64())]
)
TOTALS = (
    count().as_("flights"),
    count("delay").as_("known"),
    sum_("delay"),
    min_("delay"),
    max_("distance"),
    avg("delay"),
)

rows = st.lists(
    st.fixed_dictionaries(
        {
            "carrier": st.sampled_from(["UA", "AA", "B6"]),
            "number": st.integers(1, 3),
            "delay": st.none() | st.integers(-1000, 1000),
            "distance": st.none() | st.integers(0, 5000).map(float),
        }
    ),
    max_size=40,
)


def in_pandas(given_rows: list[Row], keys: list[str]) -> dict[Any, Row]:
    """The totals by key."""
    frame = pd.DataFrame(given_rows, columns=FLIGHTS.names).astype({"delay": "Int64", "distance": "Float64"})
    grouped = frame.groupby(keys)
    totals = pd.DataFrame(
        {
            "flights": grouped.size(),
            "known": grouped["delay"].count(),
            "sum_delay": grouped["delay"].sum(min_count=1),
            "min_delay": grouped["delay"].min(),
            "max_distance": grouped["distance"].max(),
            "avg_delay": grouped["delay"].mean(),
        }
    ).reset_index()
    return {
        tuple(row[key] for key in keys): {name: None if pd.isna(value) else value for name, value in row.items()}
        for row in totals.to_dict("records")
    }


def cut(given_rows: list[Row], cuts: list[int]) -> list[list[Row]]:
    """The rows in runs of the given lengths; the rest is the last."""
    runs = []
    for length in cuts:
        runs.append(given_rows[:length])
        given_rows = given_rows[length:]
    return [*runs, given_rows]


def latest(emitted: list[Row], keys: list[str]) -> dict[Any, Row]:
    return {tuple(row[key] for key in keys): row for row in emitted}


@settings(max_examples=examples(60), deadline=None)
@given(rows, st.lists(st.integers(0, 10), max_size=6), st.data(), st.sampled_from([["carrier"], ["carrier", "number"]]))
def test_totals_are_those_of_pandas_for_any_batches_failures_and_rescales(given_rows, cuts, data, keys) -> None:
    spec = KeyedAggregate(FLIGHTS, tuple(keys), TOTALS)
    subtasks = [Harness(spec)]
    emitted: list[Row] = []
    for run in cut(given_rows, cuts):
        for subtask in subtasks:
            emitted += subtask.process(of_subtask(run, subtask, spec))
        if data.draw(st.booleans()):
            subtasks = restored(spec, [subtask.snapshot() for subtask in subtasks], data.draw(st.integers(1, 3)))
    assert latest(emitted, keys) == in_pandas(given_rows, keys)


def of_subtask(run: list[Row], harness: Harness, spec: KeyedAggregate) -> pa.RecordBatch:
    """The rows whose keys belong to this subtask."""
    from kit.stream.backend.keys.key_hashing import key_groups
    from kit.stream.operators.spec import keys_of

    batch = pa.RecordBatch.from_pylist(run, schema=FLIGHTS)
    groups = key_groups(keys_of(batch, spec.keys), harness.max_parallelism)
    mine = (groups >= harness.key_group_range.start) & (groups <= harness.key_group_range.end)
    return batch.filter(pa.array(mine, pa.bool_()))


def test_a_batch_gives_each_of_its_keys_once_in_the_order_of_their_first_rows() -> None:
    harness = Harness(KeyedAggregate(FLIGHTS, "carrier", count()))
    some = [{"carrier": carrier, "number": 1} for carrier in ("UA", "AA", "UA", "B6")]
    assert harness.process(some) == [
        {"carrier": "UA", "count": 2},
        {"carrier": "AA", "count": 1},
        {"carrier": "B6", "count": 1},
    ]
    assert harness.process(some[1:3]) == [{"carrier": "AA", "count": 2}, {"carrier": "UA", "count": 3}]


def test_a_batch_of_no_rows_gives_nothing() -> None:
    harness = Harness(KeyedAggregate(FLIGHTS, "carrier", TOTALS))
    assert harness.process([]) == []
    assert harness.snapshot().keyed is None


def test_final_totals_come_once_by_key_when_the_input_has_ended() -> None:
    harness = Harness(KeyedAggregate(FLIGHTS, ("carrier", "number"), count(), emit="final"))
    some = [{"carrier": carrier, "number": number} for carrier, number in [("UA", 2), ("AA", 9), ("UA", 1), ("UA", 2)]]
    assert harness.process(some) == []
    harness.operator.finish()
    assert [tuple(row.values()) for row in harness.rows()] == [("AA", 9, 1), ("UA", 1, 1), ("UA", 2, 2)]


def test_none_keeps_totals_and_emits_nothing() -> None:
    harness = Harness(KeyedAggregate(FLIGHTS, "carrier", count(), emit="none"))
    assert harness.process([{"carrier": "UA"}]) == []
    harness.operator.finish()
    assert harness.output.elements == []
    assert harness.snapshot().keyed is not None


def test_times_have_a_smallest_and_a_largest() -> None:
    schema = pa.schema([("plane", pa.int64()), ("at", pa.timestamp("us", tz="UTC")), ("air", pa.duration("s"))])
    spec = KeyedAggregate(schema, "plane", (min_("at"), max_("at"), sum_("air")))
    assert spec.output_schema.field("min_at").type == pa.timestamp("us", tz="UTC")
    early, late = dt.datetime(2013, 1, 1, tzinfo=dt.UTC), dt.datetime(2013, 1, 2, tzinfo=dt.UTC)
    air = dt.timedelta(hours=1)
    harness = Harness(spec)
    given_rows = [{"plane": 1, "at": late, "air": air}, {"plane": 1, "at": early, "air": air}]
    assert harness.process(given_rows) == [{"plane": 1, "min_at": early, "max_at": late, "sum_air": 2 * air}]


def test_an_integer_sum_wraps_around_as_in_java() -> None:
    schema = pa.schema([("key", pa.int64()), ("value", pa.int64())])
    harness = Harness(KeyedAggregate(schema, "key", sum_("value")))
    (row,) = harness.process([{"key": 1, "value": 2**63 - 1}, {"key": 1, "value": 1}])
    assert row["sum_value"] == -(2**63)


@pytest.mark.parametrize(
    ("keys", "aggregates", "said"),
    [
        (("tail",), (count(),), "no column 'tail'; the columns are 'carrier', 'number', 'delay', 'distance'"),
        (("carrier",), (sum_("late"),), "no column 'late'"),
        (("carrier",), (sum_("carrier"),), r"sum\(carrier\) needs numbers, .* column 'carrier' is string"),
        (("carrier",), (avg("carrier"),), r"avg\(carrier\) needs"),
        (("carrier",), (count(), count()), "two output columns are named 'count'"),
        (("carrier",), (count().as_("carrier"),), "two output columns are named 'carrier'"),
        (("carrier",), (), "no aggregates"),
        ((), (count(),), "a key needs one or more different columns"),
        (("carrier", "carrier"), (count(),), "a key needs one or more different columns"),
    ],
)
def test_a_spec_that_does_not_fit_is_refused_when_it_is_made(keys, aggregates, said) -> None:
    with pytest.raises(SchemaError, match=f"totals: .*{said}"):
        KeyedAggregate(FLIGHTS, keys, aggregates, name="totals")


def test_emit_is_one_of_three_words() -> None:
    with pytest.raises(ValueError, match="emit is 'all', but must be one of updates, final, none"):
        KeyedAggregate(FLIGHTS, "carrier", count(), emit="all")
