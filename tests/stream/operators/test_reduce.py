"""Reduce: what Python's own reduce gives, whatever the batches, failures and subtasks."""

from __future__ import annotations

from functools import reduce

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.stream.operators.reduce import KeyedReduce
from kit.stream.operators.spec import UserFunctionError
from tests.properties import examples
from tests.stream.operators.harness import Fleet, Harness, Row

FLIGHTS = pa.schema([("dest", pa.string()), ("delay", pa.int64()), ("tails", pa.list_(pa.string()))])

batches = st.lists(
    st.tuples(
        st.lists(
            st.fixed_dictionaries(
                {
                    "dest": st.sampled_from(["ORD", "SFO", "LAX"]),
                    "delay": st.none() | st.integers(0, 9),
                    "tails": st.lists(st.sampled_from("ab"), max_size=1),
                }
            ),
            max_size=8,
        ),
        st.integers(0, 3),
    ),
    max_size=6,
)


def both(one: Row, other: Row) -> Row:
    delays = [row["delay"] for row in (one, other) if row["delay"] is not None]
    return {"dest": one["dest"], "delay": sum(delays) if delays else None, "tails": one["tails"] + other["tails"]}


@settings(max_examples=examples(60))
@given(batches, st.integers(1, 3))
def test_each_row_gives_what_its_key_came_to(given_batches, parallelism) -> None:
    fleet = Fleet(KeyedReduce(FLIGHTS, "dest", both), parallelism)
    seen: dict[str, list[Row]] = {}
    for some, subtasks in given_batches:
        expected: dict[str, list[Row]] = {}
        for row in some:
            seen.setdefault(row["dest"], []).append(row)
            expected.setdefault(row["dest"], []).append(reduce(both, seen[row["dest"]]))
        emitted = fleet.process(some, ["dest"])
        assert {k: [row for row in emitted if row["dest"] == k] for k in expected} == expected
        assert len(emitted) == len(some)
        if subtasks:
            fleet.rescale(subtasks)


def test_a_function_that_fails_is_named_with_both_rows() -> None:
    def wrong(one: Row, other: Row) -> Row:
        return {"dest": one["nowhere"]}

    harness = Harness(KeyedReduce(FLIGHTS, "dest", wrong, name="worst"))
    rows = [{"dest": "ORD", "delay": delay, "tails": []} for delay in (1, 2)]
    with pytest.raises(
        UserFunctionError, match=r"worst: function .*wrong failed on rows \{.*1.*\} and \{.*2.*KeyError"
    ):
        harness.process(rows)
